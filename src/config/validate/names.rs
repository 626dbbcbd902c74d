//! The names of all jobs and watches, which must be known before any `source` can be judged.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::diagnostic::{Problem, Problems};
use crate::config::merge::{Named, Use, duplicate_name};
use crate::config::raw::{Field, List, RawConfig};
use crate::config::source::Span;

/// Who can be the source of an event.
#[derive(Debug, Default)]
pub(super) struct Names {
    jobs: HashMap<String, (Arc<str>, Use)>,
    /// The job that the command line adds.
    added: Option<Arc<str>>,
    watches: HashMap<String, (Arc<str>, Use)>,
    /// A name could not be read, so that nobody can say that a job or watch does not exist.
    pub(super) incomplete: bool,
}

impl Names {
    /// Collects the names and reports those that jobs and coprocesses share.
    pub(super) fn collect(config: &RawConfig, added: Option<&str>, problems: &mut Problems) -> Self {
        let mut names = Self { added: added.map(Arc::from), ..Self::default() };
        names.add_all(config.jobs.as_ref(), problems);
        names.add_all(config.coprocesses.as_ref(), problems);
        for (name, place) in list(config.watches.as_ref(), &mut names.incomplete) {
            names.watches.insert(name.clone(), (name.into(), place));
        }
        names
    }

    fn add_all<T: Named>(&mut self, entries: Option<&Field<List<T>>>, problems: &mut Problems) {
        for (name, place) in list(entries, &mut self.incomplete) {
            check_reserved(T::NOUN, &name, place.span, problems);
            match self.jobs.get(&name) {
                // Within one list this has been reported file by file, before merging.
                Some((_, earlier)) if T::NOUN == "coprocess" => {
                    problems.add(duplicate_name("job", &name, place, *earlier));
                }
                Some(_) => {}
                None => {
                    self.jobs.insert(name.clone(), (name.into(), place));
                }
            }
        }
    }

    pub(super) fn job(&self, name: &str) -> Option<Arc<str>> {
        let added = || self.added.clone().filter(|added| **added == *name);
        self.jobs.get(name).map(|(name, _)| Arc::clone(name)).or_else(added)
    }

    pub(super) fn watch(&self, name: &str) -> Option<Arc<str>> {
        self.watches.get(name).map(|(name, _)| Arc::clone(name))
    }

    /// Everything that a `source` may say, in alphabetical order.
    pub(super) fn sources(&self) -> Vec<String> {
        let mut sources: Vec<String> = self.jobs.keys().cloned().collect();
        sources.extend(self.added.iter().map(ToString::to_string));
        sources.extend(self.watches.keys().map(|name| format!("watch.{name}")));
        sources.sort();
        sources
    }
}

fn list<T: Named>(entries: Option<&Field<List<T>>>, incomplete: &mut bool) -> Vec<(String, Use)> {
    let Some(entries) = entries else { return Vec::new() };
    let Some(entries) = &entries.value else {
        *incomplete = true;
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in &entries.0 {
        let named = entry.value.as_ref().and_then(|value| Some((value.identity()?, value)));
        match named.filter(|(name, _)| !name.is_empty()) {
            Some((name, value)) => found.push((name, Use::of(entry.span, value))),
            None => *incomplete = true,
        }
    }
    found
}

fn check_reserved(noun: &str, name: &str, span: Span, problems: &mut Problems) {
    if name == "containerpilot" {
        let message = format!("{noun} {name:?}: this name is reserved");
        problems.add(
            Problem::error("reserved-name", span, message)
                .note("`containerpilot` is the service that telemetry registers in Consul"),
        );
    } else if name.starts_with("watch.") {
        let message = format!("{noun} {name:?}: names that start with `watch.` are reserved");
        problems.add(
            Problem::error("reserved-name", span, message)
                .note("`watch.NAME` is the source of the events of the watch NAME"),
        );
    }
}
