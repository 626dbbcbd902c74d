//! The context of every part of validation.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Display, Write};
use std::time::Duration;

use super::SpecSpans;
use super::jobs::After;
use super::names::Names;
use crate::config::accounts;
use crate::config::decode::UNKNOWN_KEY;
use crate::config::diagnostic::{Place, Problem, Problems};
use crate::config::duration::GoDuration;
use crate::config::raw::{Field, Flag, OneOrMany, Opt, RawConfig, Time};
use crate::config::source::{FileId, Span};
use crate::config::spec::UserSpec;
use crate::config::system::System;

/// The environment, the machine, all names, and the collectors of problems and places.
pub(super) struct Context<'a> {
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) system: &'a System,
    /// Whether anything can be advertised.
    pub(super) has_consul: bool,
    pub(super) names: Names,
    pub(super) after: After,
    pub(super) places: SpecSpans,
    /// Problems added here are not about the part at `path`.
    pub(super) problems: &'a mut Problems,
    /// The name of the part that is validated in messages, such as `jobs[2] ("app").health`.
    pub(super) path: String,
    /// Where keys were not understood, in order.
    unknown_keys: Vec<(FileId, u32)>,
    /// To look a user up reads a file: once per name is enough.
    users: HashMap<String, Option<UserSpec>>,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        config: &RawConfig,
        names: Names,
        env: &'a BTreeMap<String, String>,
        system: &'a System,
        problems: &'a mut Problems,
    ) -> Self {
        let place = |problem: &Problem| match problem.place {
            Place::At(span) if problem.code == UNKNOWN_KEY => Some((span.file, span.start)),
            Place::At(_) | Place::Nowhere | Place::File(_) => None,
        };
        let mut unknown_keys: Vec<(FileId, u32)> = problems.found().iter().filter_map(place).collect();
        unknown_keys.sort_unstable();
        Self {
            env,
            system,
            has_consul: config.consul.is_some()
                || env.get("CONSUL_HTTP_ADDR").is_some_and(|it| !it.is_empty()),
            after: After::new(config, &names),
            names,
            places: SpecSpans::default(),
            problems,
            path: String::new(),
            unknown_keys,
            users: HashMap::new(),
        }
    }

    /// Validates a part, whose problems begin with the path of the whole and `part`.
    pub(super) fn within<T>(&mut self, part: impl Display, validate: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        // Writing to a string cannot fail.
        let _ = write!(self.path, "{part}");
        let result = validate(self);
        self.path.truncate(length);
        result
    }

    /// Reports a problem whose message continues the path.
    pub(super) fn add(&mut self, mut problem: Problem) {
        problem.message.insert_str(0, &self.path);
        self.problems.add(problem);
    }

    /// Reports an error whose message continues the path.
    pub(super) fn error(&mut self, code: &'static str, place: impl Into<Place>, message: impl Into<String>) {
        self.add(Problem::error(code, place, message));
    }

    /// Reports a problem of a part that has no value then.
    pub(super) fn reject<T>(&mut self, problem: Problem) -> Option<T> {
        self.add(problem);
        None
    }

    /// The same, for an error without further words.
    pub(super) fn refuse<T>(
        &mut self,
        code: &'static str,
        place: Span,
        message: impl Into<String>,
    ) -> Option<T> {
        self.reject(Problem::error(code, place, message))
    }

    /// The value, unless there is an error to report instead.
    pub(super) fn accept<T>(
        &mut self,
        code: &'static str,
        place: Span,
        result: Result<T, String>,
    ) -> Option<T> {
        result.map_err(|message| self.error(code, place, message)).ok()
    }

    /// Warns of keys that are given in vain.
    pub(super) fn no_effect(&mut self, keys: &[(&str, Option<Span>)], why: &str) {
        for (name, span) in keys {
            if let Some(span) = *span {
                self.add(Problem::warning("no-effect", span, format!(".{name} has no effect {why}")));
            }
        }
    }

    /// Whether a key within this object was not understood, so that nothing can be said to be missing.
    pub(super) fn has_unknown_key(&self, object: Span) -> bool {
        let first = self.unknown_keys.partition_point(|key| *key < (object.file, object.start));
        self.unknown_keys.get(first).is_some_and(|key| *key < (object.file, object.end))
    }

    pub(super) fn user(&mut self, name: &str) -> Option<UserSpec> {
        self.users.entry(name.to_owned()).or_insert_with(|| accounts::user(name)).clone()
    }

    /// A variable of our environment that is set and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.env.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// A duration that does something: at least 1 ms.
    pub(super) fn at_least_1ms(&mut self, name: &str, field: &Opt<Time>) -> Option<Duration> {
        let field = field.as_ref()?;
        let duration = field.value?.0;
        if duration < Duration::from_millis(1) {
            let message = format!(".{name}: expected at least 1ms, found {}", shown(duration));
            return self.refuse("out-of-range", field.span, message);
        }
        Some(duration)
    }

    /// Refuses a text that no system call takes; `name` continues the path.
    pub(super) fn no_nul(&mut self, name: impl Display, span: Span, text: &str) -> bool {
        let has_nul = text.contains('\0');
        if has_nul {
            let message = format!("{name}: a NUL character cannot be passed to a process");
            self.error("nul-character", span, message);
        }
        !has_nul
    }
}

/// The value of a field that was given and is right.
pub(super) fn value<T>(field: &Opt<T>) -> Option<&T> {
    field.as_ref()?.value.as_ref()
}

/// The items of a list that was given.
pub(super) fn items<T>(field: &Opt<OneOrMany<T>>) -> &[Field<T>] {
    value(field).map_or(&[], |list| &list.0)
}

/// Where the key of a field is, if it was given.
pub(super) fn key<T>(field: &Opt<T>) -> Option<Span> {
    field.as_ref().map(|field| field.key)
}

/// Where the value of a field is, if it was given.
pub(super) fn span<T>(field: &Opt<T>) -> Option<Span> {
    field.as_ref().map(|field| field.span)
}

/// Of fields that exclude each other, those that are given, in file order.
pub(super) fn given(keys: &[(&'static str, Option<Span>)]) -> Vec<(&'static str, Span)> {
    let mut given: Vec<_> = keys.iter().filter_map(|(name, span)| Some((*name, (*span)?))).collect();
    given.sort_by_key(|(_, span)| span.start);
    given
}

/// Whether a flag was given and is true.
pub(super) fn is_set(field: &Opt<Flag>) -> bool {
    matches!(value(field), Some(Flag(true)))
}

/// A duration that was given and is right.
pub(super) fn time(field: &Opt<Time>) -> Option<Duration> {
    value(field).map(|time| time.0)
}

/// A duration as users write it.
pub(in crate::config) fn shown(duration: Duration) -> String {
    GoDuration::from(duration).to_string()
}
