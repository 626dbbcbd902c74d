//! What has happened before a job came that a reload brought: the events that still hold. A new job that waits for
//! the health of a job which is healthy already, or for the end of one that is over, need not wait.

use std::collections::HashSet;

use super::view::JobView;
use crate::config::spec::{Spec, Trigger};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::health::Health;
use crate::messages::status::Overview;

/// The events of jobs and watches that still hold, those of the jobs in `without` aside.
pub fn known(jobs: &[JobView], overview: &Overview, without: &HashSet<&str>) -> HashSet<EventKey> {
    let mut known = HashSet::new();
    for job in jobs.iter().filter(|job| !without.contains(&*job.name)) {
        let source = Source::Job(job.name.clone());
        let mut add = |code| known.insert(EventKey { code, source: source.clone() });
        match overview.jobs.get(&job.name).map(|status| status.health) {
            Some(Health::Healthy) => add(EventCode::Healthy),
            Some(Health::Unhealthy) => add(EventCode::Unhealthy),
            Some(Health::Unknown | Health::Maintenance) | None => false,
        };
        match overview.jobs.get(&job.name).and_then(|status| status.last_exit.as_ref()) {
            Some((0, _)) => add(EventCode::ExitSuccess),
            Some(_) => add(EventCode::ExitFailed),
            None => false,
        };
        if job.is_complete() {
            add(EventCode::Stopping);
            add(EventCode::Stopped);
        }
    }
    for (name, watch) in &overview.watches {
        let source = Source::Watch(name.clone());
        if watch.known && !watch.instances.is_empty() {
            known.insert(EventKey { code: EventCode::Healthy, source: source.clone() });
            known.insert(EventKey { code: EventCode::Changed, source });
        } else if watch.known {
            known.insert(EventKey { code: EventCode::Unhealthy, source });
        }
    }
    known
}

/// Whether what a fact is about is observed by the new configuration as by the old one; jobs are told apart elsewhere.
pub fn is_observed_still(fact: &EventKey, old: &Spec, new: &Spec) -> bool {
    let Source::Watch(name) = &fact.source else { return true };
    let watch = |spec: &Spec| spec.watches.iter().find(|watch| watch.name == *name).cloned();
    watch(old).zip(watch(new)).is_some_and(|(old, new)| old.observes_like(&new))
}

/// The events that a job may take from the past: those that it needs once.
pub fn wanted(trigger: &Trigger) -> &[EventKey] {
    match trigger {
        Trigger::Once(key) => std::slice::from_ref(key),
        Trigger::All(keys) | Trigger::Any(keys) => keys,
        Trigger::Each(_) | Trigger::Interval(_) => &[],
    }
}
