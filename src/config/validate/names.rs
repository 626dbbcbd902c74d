//! The names of all jobs and watches, which must be known before any `source` can be judged.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::context::value;
use crate::config::diagnostic::{Problem, Problems};
use crate::config::merge::{Named, Use, duplicate_name};
use crate::config::raw::{List, Opt, RawConfig};
use crate::config::source::Span;
use crate::config::suggest::did_you_mean;

/// The possible sources of events.
#[derive(Debug, Default)]
pub(super) struct Names {
    jobs: HashMap<Arc<str>, Use>,
    /// The job that the command line adds.
    added: Option<Arc<str>>,
    watches: HashSet<Arc<str>>,
    groups: HashSet<Arc<str>>,
    /// A name or a whole file could not be read, so that nobody can say that a job or watch does not exist.
    pub(super) incomplete: bool,
    /// Everything that a `source` may say, in alphabetical order.
    sources: Vec<String>,
    /// How often advice was asked for.
    asked: usize,
}

/// For so many unknown sources a similar name is looked for: each is compared with all names, and a report shows no more.
const MOST_ADVICE: usize = 100;

/// Names that advice lists.
const MOST_LISTED: usize = 20;

impl Names {
    /// Collects the names and reports those that jobs and coprocesses share.
    pub(super) fn collect(
        config: &RawConfig,
        added: Option<&str>,
        incomplete: bool,
        problems: &mut Problems,
    ) -> Self {
        let mut names = Self { added: added.map(Arc::from), incomplete, ..Self::default() };
        names.add_all(&config.jobs, problems);
        names.add_all(&config.coprocesses, problems);
        let watches = list(&config.watches, &mut names.incomplete).into_iter();
        names.watches = watches.map(|(name, _)| name).collect();
        let groups = list(&config.groups, &mut names.incomplete).into_iter();
        names.groups = groups.map(|(name, _)| name).collect();
        names.sources = names.all_sources();
        names
    }

    /// Adds the names of a list, and reports those that an earlier list has. Within one list, duplicates have been reported
    /// file by file, before merging.
    fn add_all<T: Named>(&mut self, entries: &Opt<List<T>>, problems: &mut Problems) {
        let mut added = HashMap::new();
        for (name, place) in list(entries, &mut self.incomplete) {
            check_reserved(T::NOUN, &name, place.span, problems);
            if let Some(earlier) = self.jobs.get(&name) {
                problems.add(duplicate_name("job", &name, place, *earlier));
            } else {
                added.entry(name).or_insert(place);
            }
        }
        self.jobs.extend(added);
    }

    pub(super) fn job(&self, name: &str) -> Option<Arc<str>> {
        let known = self.jobs.get_key_value(name).map(|(name, _)| name);
        known.or(self.added.as_ref().filter(|added| ***added == *name)).cloned()
    }

    /// Whether the command line adds the job of that name.
    pub(super) fn is_added(&self, name: &str) -> bool {
        self.added.as_deref() == Some(name)
    }

    pub(super) fn watch(&self, name: &str) -> Option<Arc<str>> {
        self.watches.get(name).cloned()
    }

    pub(super) fn group(&self, name: &str) -> Option<Arc<str>> {
        self.groups.get(name).cloned()
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = &str> {
        self.jobs.keys().map(|name| &**name)
    }

    /// Advice about a source that is not defined: the one that may be meant, or all that there are.
    pub(super) fn advice(&mut self, text: &str) -> String {
        self.asked += 1;
        if self.asked <= MOST_ADVICE
            && let Some(help) = did_you_mean(text, self.sources.iter().map(String::as_str))
        {
            return help;
        }
        match self.sources.split_at_checked(MOST_LISTED) {
            Some((first, rest)) if !rest.is_empty() => {
                format!("there are {} and {} more", first.join(", "), rest.len())
            }
            Some(_) | None => format!("there are {}", self.sources.join(", ")),
        }
    }

    fn all_sources(&self) -> Vec<String> {
        let mut sources: Vec<String> = self.jobs.keys().map(ToString::to_string).collect();
        sources.extend(self.added.iter().map(ToString::to_string));
        sources.extend(self.watches.iter().map(|name| format!("watch.{name}")));
        sources.extend(self.groups.iter().map(|name| format!("group.{name}")));
        sources.sort();
        sources
    }
}

/// The names of a list's entries; `incomplete` is set if not all can be told.
fn list<T: Named>(entries: &Opt<List<T>>, incomplete: &mut bool) -> Vec<(Arc<str>, Use)> {
    *incomplete |= entries.as_ref().is_some_and(|entries| entries.value.is_none());
    let mut found = Vec::new();
    for entry in value(entries).into_iter().flatten() {
        let named = entry.value.as_ref().and_then(|value| Some((value.identity()?, value)));
        match named.filter(|(name, _)| !name.is_empty()) {
            Some((name, value)) => found.push((name.into(), Use::of(entry.span, value))),
            None => *incomplete = true,
        }
    }
    found
}

fn check_reserved(noun: &str, name: &str, span: Span, problems: &mut Problems) {
    let (what, why) = if name == "containerpilot" {
        ("this name is", "`containerpilot` is the service that telemetry registers in Consul")
    } else if name.starts_with("watch.") {
        ("names that start with `watch.` are", "`watch.NAME` is the source of the events of the watch NAME")
    } else if name.starts_with("group.") {
        ("names that start with `group.` are", "`group.NAME` is the source of the events of the group NAME")
    } else {
        return;
    };
    let message = format!("{noun} {name:?}: {what} reserved");
    problems.add(Problem::error("reserved-name", span, message).note(why));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watches(count: usize) -> Names {
        let watches = (1..=count).map(|number| format!("{number:02}").into()).collect();
        let mut names = Names { watches, ..Names::default() };
        names.sources = names.all_sources();
        names
    }

    #[test]
    fn advice_lists_twenty_names_and_counts_the_others() {
        assert_eq!(watches(2).advice("x"), "there are watch.01, watch.02");
        assert!(watches(MOST_LISTED).advice("x").ends_with(", watch.19, watch.20"));
        assert!(watches(MOST_LISTED + 1).advice("x").ends_with(", watch.19, watch.20 and 1 more"));
    }

    #[test]
    fn a_similar_name_is_looked_for_only_a_hundred_times() {
        let mut names = watches(1);
        for _ in 0..MOST_ADVICE {
            assert_eq!(names.advice("wacth.01"), "did you mean \"watch.01\"?");
        }
        assert_eq!(names.advice("wacth.01"), "there are watch.01");
    }
}
