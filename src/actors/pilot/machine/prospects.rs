//! Which events of a job's `when` have happened, and which can still come. Answers a question of users; decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::State;
use super::member::Member;
use super::startable::{Outside, can_still_come};
use crate::config::spec::Trigger;
use crate::messages::account::Awaited;
use crate::messages::event::{EventKey, Source};
use crate::messages::job::{Missing, Phase};

impl State {
    /// The events that a job and all those that it waits for, through any chain, name in their `when`.
    pub fn prospects(&self, name: &str) -> BTreeMap<Arc<str>, Vec<Awaited>> {
        let jobs = self.members.list();
        let asked = self.chain(name);
        let keys: Vec<(&Member, EventKey)> =
            asked.iter().flat_map(|job| named(job).iter().map(|key| (*job, key.clone()))).collect();
        let outside = if self.is_shutting_down() { Outside::SHUTDOWN } else { Outside::RUNNING };
        let prospects = can_still_come(jobs, outside, &keys);
        let mut awaited: BTreeMap<Arc<str>, Vec<Awaited>> = BTreeMap::new();
        for ((job, key), can_still_come) in keys.into_iter().zip(prospects) {
            let happened = has_happened(job, &key);
            let entry = awaited.entry(Arc::clone(job.name())).or_default();
            entry.push(Awaited { key, happened, can_still_come });
        }
        awaited
    }

    /// The job of that name and all that it waits for.
    fn chain(&self, name: &str) -> Vec<&Member> {
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        let mut next: Vec<&Member> = self.members.get(name).into_iter().collect();
        while let Some(job) = next.pop() {
            if !seen.insert(job.name()) {
                continue;
            }
            found.push(job);
            let place = job.spec.group.iter();
            next.extend(place.flat_map(|place| &place.after).filter_map(|name| self.members.get(name)));
            for key in named(job) {
                match &key.source {
                    Source::Job(name) | Source::Check(name) => next.extend(self.members.get(name)),
                    Source::Group(group) => {
                        next.extend(self.members.list().iter().filter(|job| job.is_in_group(group)));
                    }
                    Source::Global | Source::Watch(_) | Source::Signal(_) => {}
                }
            }
        }
        found
    }
}

fn named(job: &Member) -> &[EventKey] {
    job.spec.when.keys()
}

/// Whether a job has seen an event that it waits for, or waited for.
fn has_happened(job: &Member, key: &EventKey) -> bool {
    let has_begun = job.phase != Phase::Waiting && !(job.is_complete() && job.last_status.is_none());
    match (&job.spec.when.trigger, &job.missing) {
        // It waits for the next one.
        (Trigger::Each(_), _) => has_begun,
        (_, Missing::Nothing) => true,
        (_, Missing::AnyOf(missing) | Missing::AllOf(missing)) => !missing.contains(key),
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::super::tests::{event, job};
    use super::*;
    use crate::config::spec::{JobSpec, Spec};
    use crate::messages::event::EventCode;

    fn waits(name: &str, keys: &[EventKey], missing: &[EventKey]) -> Member {
        let mut member = job(name, Phase::Waiting);
        let mut spec = JobSpec::clone(&member.spec);
        spec.when.trigger = Trigger::All(keys.to_vec());
        member.spec = Arc::new(spec);
        member.missing = Missing::AllOf(missing.to_vec());
        member
    }

    fn program(jobs: Vec<Member>) -> State {
        let mut state = State::new(Arc::new(Spec::default()));
        let order: Vec<Arc<JobSpec>> = jobs.iter().map(|job| Arc::clone(&job.spec)).collect();
        state.members.change(|_| true, jobs, &order);
        state
    }

    #[test]
    fn each_event_says_whether_it_happened_and_can_still_come() {
        let (done, lost) = (event("migrate", EventCode::ExitSuccess), event("gone", EventCode::ExitSuccess));
        let open = event("db", EventCode::ExitFailed);
        let keys = [done.clone(), lost.clone(), open.clone()];
        let state = program(vec![
            waits("app", &keys, &[lost.clone(), open.clone()]),
            job("migrate", Phase::Complete),
            job("gone", Phase::Complete),
            job("db", Phase::Running),
        ]);
        let prospects = state.prospects("app");
        let found: Vec<(EventKey, bool, bool)> = prospects["app"]
            .iter()
            .map(|awaited| (awaited.key.clone(), awaited.happened, awaited.can_still_come))
            .collect();
        assert_eq!(found, [(done, true, false), (lost, false, false), (open, false, true)]);
    }

    #[test]
    fn an_event_of_each_has_happened_while_the_job_runs_and_not_while_it_waits_for_the_next() {
        let key = event("db", EventCode::Changed);
        let happened = |phase: Phase, last_status: Option<u8>| {
            let mut member = job("app", phase);
            let mut spec = JobSpec::clone(&member.spec);
            spec.when.trigger = Trigger::Each(key.clone());
            member.spec = Arc::new(spec);
            (member.missing, member.last_status) = (Missing::AnyOf(vec![key.clone()]), last_status);
            program(vec![member, job("db", Phase::Running)]).prospects("app")["app"][0].happened
        };
        assert!(happened(Phase::Running, None) && happened(Phase::Complete, Some(0)));
        assert!(!happened(Phase::Waiting, Some(0)));
        assert!(!happened(Phase::Complete, None), "it was given up");
    }

    #[test]
    fn the_jobs_that_are_waited_for_are_told_too_and_a_circle_ends() {
        let (a, b) = (event("a", EventCode::ExitSuccess), event("b", EventCode::ExitSuccess));
        let state = program(vec![
            waits("a", slice::from_ref(&b), slice::from_ref(&b)),
            waits("b", slice::from_ref(&a), slice::from_ref(&a)),
            job("c", Phase::Running),
        ]);
        let prospects = state.prospects("a");
        assert_eq!(prospects.keys().map(|name| &**name).collect::<Vec<_>>(), ["a", "b"]);
        assert!(prospects.values().flatten().all(|awaited| !awaited.happened && !awaited.can_still_come));
        assert!(state.prospects("nobody").is_empty());
    }
}
