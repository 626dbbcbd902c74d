//! What a reload does: a pure function of the jobs before and after.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::spec::{GroupSpec, JobKind, JobSpec};

/// Which jobs a reload leaves alone, ends and begins. A changed job is both stopped and started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// Go on as they are.
    pub keep: Vec<Arc<str>>,
    /// Are stopped, in the old order.
    pub stop: Vec<Arc<str>>,
    /// Are started, in the new order.
    pub start: Vec<Arc<str>>,
}

/// The way from the old jobs to the new ones. What counts is the validated job, not its text. Coprocesses always
/// begin anew, as do the jobs in `stopped_by_hand`; with `restart_all` everything does. So do the members of a group that
/// are restarted with one that begins anew.
pub fn plan(
    old: &[Arc<JobSpec>],
    new: &[Arc<JobSpec>],
    groups: &[Arc<GroupSpec>],
    stopped_by_hand: &BTreeSet<Arc<str>>,
    restart_all: bool,
) -> Plan {
    let before: BTreeMap<&str, &JobSpec> = old.iter().map(|job| (&*job.name, &**job)).collect();
    let unchanged = |job: &JobSpec| {
        !restart_all
            && job.kind == JobKind::Job
            && !stopped_by_hand.contains(&job.name)
            && before.get(&*job.name).is_some_and(|before| *before == job)
    };
    let anew: BTreeSet<&str> = new.iter().filter(|job| !unchanged(job)).map(|job| &*job.name).collect();
    let with_them: BTreeSet<&str> = groups.iter().flat_map(|group| restarted_with(group, &anew)).collect();
    let is_kept = |job: &&Arc<JobSpec>| !anew.contains(&*job.name) && !with_them.contains(&*job.name);
    let (keep, start): (Vec<_>, Vec<_>) = new.iter().partition(is_kept);
    let kept: BTreeSet<&str> = keep.iter().map(|job| &*job.name).collect();
    let stop = old.iter().filter(|job| !kept.contains(&*job.name));
    let names = |jobs: Vec<&Arc<JobSpec>>| jobs.into_iter().map(|job| job.name.clone()).collect();
    Plan { stop: names(stop.collect()), keep: names(keep), start: names(start) }
}

/// The members of a group that are restarted with those that begin anew.
fn restarted_with<'a>(group: &'a GroupSpec, anew: &BTreeSet<&str>) -> Vec<&'a str> {
    let members = group.jobs.iter().enumerate().filter(|(_, job)| anew.contains(&***job));
    let restarted = members.flat_map(|(index, _)| group.restarted_with(index));
    restarted.filter_map(|index| group.jobs.get(index)).map(|job| &**job).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::spec::{CommandLine, Limit};
    use proptest::prelude::*;

    fn job(name: &str, version: u32) -> Arc<JobSpec> {
        let command = CommandLine { program: "true".into(), args: vec![] };
        let mut job = JobSpec::new(Arc::from(name), Some(command));
        job.restarts = Limit::Finite(version);
        Arc::new(job)
    }

    fn coprocess(name: &str) -> Arc<JobSpec> {
        let mut job = JobSpec::clone(&job(name, 0));
        job.kind = JobKind::Coprocess;
        Arc::new(job)
    }

    fn names(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn what_did_not_change_is_kept_and_what_changed_is_stopped_and_started() {
        let old = [job("same", 0), job("changed", 0), job("gone", 0)];
        let new = [job("new", 0), job("changed", 1), job("same", 0)];
        let plan = plan(&old, &new, &[], &BTreeSet::new(), false);
        assert_eq!(plan.keep, names(&["same"]));
        assert_eq!(plan.stop, names(&["changed", "gone"]));
        assert_eq!(plan.start, names(&["new", "changed"]));
    }

    #[test]
    fn coprocesses_and_what_was_stopped_by_hand_begin_anew() {
        let jobs = [coprocess("agent"), job("halted", 0), job("app", 0)];
        let plan = plan(&jobs, &jobs, &[], &BTreeSet::from([Arc::from("halted")]), false);
        assert_eq!(plan.keep, names(&["app"]));
        assert_eq!(plan.start, names(&["agent", "halted"]));
    }

    #[test]
    fn everything_begins_anew_when_asked_for() {
        let jobs = [job("a", 0), job("b", 0)];
        assert_eq!(plan(&jobs, &jobs, &[], &BTreeSet::new(), true).start, names(&["a", "b"]));
    }

    #[test]
    fn who_is_restarted_with_a_member_of_its_group_begins_anew_with_it() {
        let group = GroupSpec {
            name: "all".into(),
            jobs: names(&["a", "b", "c"]),
            strategy: crate::config::spec::Strategy::RestForOne,
            limit: Limit::Unlimited,
            per: std::time::Duration::from_secs(1),
            on_exhausted: crate::config::spec::OnExhausted::Stop,
        };
        let old = [job("a", 0), job("b", 0), job("c", 0), job("d", 0)];
        let new = [job("a", 0), job("b", 1), job("c", 0), job("d", 0)];
        let plan = plan(&old, &new, &[Arc::new(group)], &BTreeSet::new(), false);
        assert_eq!((plan.keep, plan.start), (names(&["a", "d"]), names(&["b", "c"])));
    }

    fn some_jobs() -> impl Strategy<Value = Vec<Arc<JobSpec>>> {
        proptest::collection::btree_map("[a-f]", (0u32..3, any::<bool>()), 0..6).prop_map(|jobs| {
            let make = |(name, (version, is_coprocess)): (String, (u32, bool))| {
                if is_coprocess { coprocess(&name) } else { job(&name, version) }
            };
            jobs.into_iter().map(make).collect()
        })
    }

    proptest! {
        #[test]
        fn every_job_is_kept_or_stopped_and_kept_or_started_exactly_once(
            old in some_jobs(), new in some_jobs(), all in any::<bool>(),
        ) {
            let plan = plan(&old, &new, &[], &BTreeSet::new(), all);
            let mut before: Vec<_> = plan.keep.iter().chain(&plan.stop).cloned().collect();
            let mut after: Vec<_> = plan.keep.iter().chain(&plan.start).cloned().collect();
            before.sort();
            after.sort();
            prop_assert_eq!(before, old.iter().map(|job| job.name.clone()).collect::<Vec<_>>());
            prop_assert_eq!(after, new.iter().map(|job| job.name.clone()).collect::<Vec<_>>());
        }

        #[test]
        fn applying_a_plan_twice_does_nothing_but_restart_coprocesses(old in some_jobs(), new in some_jobs()) {
            let first = plan(&old, &new, &[], &BTreeSet::new(), false);
            let named = |jobs: &[Arc<JobSpec>], name: &Arc<str>| {
                jobs.iter().find(|job| job.name == *name).cloned().unwrap()
            };
            // A job that is kept runs with what it was started with.
            let kept = first.keep.iter().map(|name| named(&old, name));
            let running: Vec<_> = kept.chain(first.start.iter().map(|name| named(&new, name))).collect();
            let mut second = plan(&running, &new, &[], &BTreeSet::new(), false);
            let coprocesses: Vec<_> =
                new.iter().filter(|job| job.kind == JobKind::Coprocess).map(|job| job.name.clone()).collect();
            second.stop.sort();
            second.start.sort();
            prop_assert_eq!(&second.stop, &coprocesses);
            prop_assert_eq!(&second.start, &coprocesses);
        }
    }
}
