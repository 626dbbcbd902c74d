//! What every part of validation needs at hand.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use crate::config::decode::UNKNOWN_KEY;
use crate::config::diagnostic::{Place, Problem, Problems};
use crate::config::duration::GoDuration;
use crate::config::raw::{Field, Opt, Time};
use crate::config::source::{FileId, Span};
use crate::config::spec::UserSpec;
use crate::config::system::System;

/// The environment, the machine and the collector of problems.
pub(super) struct Context<'a> {
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) system: &'a System,
    /// Whether anything can be advertised.
    pub(super) has_consul: bool,
    problems: &'a mut Problems,
    /// Where keys were not understood, in order.
    unknown_keys: Vec<(FileId, u32)>,
    /// Looking up a user reads a file: once per name is enough.
    users: HashMap<String, Option<UserSpec>>,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        env: &'a BTreeMap<String, String>,
        system: &'a System,
        has_consul: bool,
        problems: &'a mut Problems,
    ) -> Self {
        let place = |problem: &Problem| match problem.place {
            Place::At(span) if problem.code == UNKNOWN_KEY => Some((span.file, span.start)),
            Place::At(_) | Place::Nowhere | Place::File(_) => None,
        };
        let mut unknown_keys: Vec<(FileId, u32)> = problems.found().iter().filter_map(place).collect();
        unknown_keys.sort_unstable();
        Self { env, system, has_consul, problems, unknown_keys, users: HashMap::new() }
    }

    pub(super) fn add(&mut self, problem: Problem) {
        self.problems.add(problem);
    }

    pub(super) fn error(&mut self, code: &'static str, place: impl Into<Place>, message: String) {
        self.add(Problem::error(code, place, message));
    }

    /// Whether a key within this object was not understood, so that nothing can be said to be missing.
    pub(super) fn has_unknown_key(&self, object: Span) -> bool {
        let first = self.unknown_keys.partition_point(|key| *key < (object.file, object.start));
        self.unknown_keys.get(first).is_some_and(|key| *key < (object.file, object.end))
    }

    pub(super) fn user(&mut self, name: &str) -> Option<UserSpec> {
        if let Some(known) = self.users.get(name) {
            return known.clone();
        }
        let user = self.system.user(name);
        self.users.insert(name.to_owned(), user.clone());
        user
    }

    /// A variable of our environment that is set and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.env.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// A duration that does something: at least 1 ms.
    pub(super) fn at_least_1ms(
        &mut self,
        path: fmt::Arguments<'_>,
        field: Option<&Field<Time>>,
    ) -> Option<Duration> {
        let field = field?;
        let duration = field.value?.0;
        if duration < Duration::from_millis(1) {
            let message = format!("{path}: expected at least 1ms, found {}", shown(duration));
            self.error("out-of-range", field.span, message);
            return None;
        }
        Some(duration)
    }

    /// Refuses a text that no system call takes.
    pub(super) fn no_nul(&mut self, path: fmt::Arguments<'_>, field: &Field<impl Sized>, text: &str) -> bool {
        if text.contains('\0') {
            let message = format!("{path}: a NUL character cannot be passed to a process");
            self.error("nul-character", field.span, message);
            return false;
        }
        true
    }
}

/// The value of a field that was given and is right.
pub(super) fn value<T>(field: &Opt<T>) -> Option<&T> {
    field.as_ref()?.value.as_ref()
}

/// A duration that was given and is right.
pub(super) fn time(field: &Opt<Time>) -> Option<Duration> {
    value(field).map(|time| time.0)
}

/// A duration as users write it.
pub(in crate::config) fn shown(duration: Duration) -> String {
    let nanoseconds = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    GoDuration::from_nanos(nanoseconds).to_string()
}
