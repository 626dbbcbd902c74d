//! Events that happened before a reload added a job, and still hold. A new job that waits for
//! the health of a job which is healthy already, or for the end of one that is over, need not wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Watched;
use super::group::Group;
use super::member::Member;
use super::members::may_have_process;
use crate::config::spec::{Spec, Trigger, When};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::health::Health;

/// The events of jobs and watches that still hold, those of the jobs in `without` aside.
pub fn known(
    jobs: &[Member],
    watches: &BTreeMap<Arc<str>, Watched>,
    without: &BTreeSet<&str>,
) -> BTreeSet<EventKey> {
    let mut known = BTreeSet::new();
    for job in jobs.iter().filter(|job| !without.contains(&**job.name())) {
        let mut add = |code| known.insert(EventKey { code, source: Source::Job(job.name().clone()) });
        match job.health {
            Health::Healthy => add(EventCode::Healthy),
            Health::Unhealthy => add(EventCode::Unhealthy),
            Health::Unknown | Health::Maintenance => false,
        };
        // A job that has ended with success counts as ready, or healthy, if it ever was.
        let is_done = job.is_complete() && job.last_status == Some(0);
        if job.ready || is_done && job.has_been_ready {
            add(EventCode::Ready);
        }
        if is_done && job.has_been_healthy {
            add(EventCode::Healthy);
        }
        // While it runs again, the end of its last run is a thing of the past.
        match job.last_status.filter(|_| !may_have_process(job.phase)) {
            Some(0) => add(EventCode::ExitSuccess),
            Some(_) => add(EventCode::ExitFailed),
            None => false,
        };
        if job.is_complete() {
            add(EventCode::Stopping);
            add(EventCode::Stopped);
        }
    }
    for (name, watch) in watches {
        let codes: &[EventCode] = match watch.found {
            Some(true) => &[EventCode::Healthy, EventCode::Changed],
            Some(false) => &[EventCode::Unhealthy],
            None => &[],
        };
        known.extend(codes.iter().map(|code| EventKey { code: *code, source: Source::Watch(name.clone()) }));
    }
    known
}

/// The events of groups that hold and are published.
pub fn of_groups(groups: &[Group]) -> impl Iterator<Item = EventKey> {
    groups.iter().flat_map(|group| {
        let source = Source::Group(Arc::clone(&group.spec().name));
        group.holds().into_iter().map(move |code| EventKey { code, source: source.clone() })
    })
}

/// Whether what a fact is about is observed by the new configuration as by the old one; jobs are told apart elsewhere.
pub fn is_observed_still(fact: &EventKey, old: &Spec, new: &Spec) -> bool {
    let Source::Watch(name) = &fact.source else { return true };
    let watch = |spec: &Spec| spec.watches.iter().find(|watch| watch.name == *name).cloned();
    watch(old).zip(watch(new)).is_some_and(|(old, new)| old.observes_like(&new))
}

/// The events that a job may take from the past: those that it needs once.
pub fn wanted(when: &When) -> &[EventKey] {
    match &when.trigger {
        Trigger::Once(key) => std::slice::from_ref(key),
        Trigger::All(keys) | Trigger::Any(keys) => keys,
        Trigger::Interval(_) | Trigger::Cron(_) => &when.after,
        Trigger::Each(_) => &[],
    }
}
