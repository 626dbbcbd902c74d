//! Which waiting jobs can still start: begins with the events that jobs which live can cause, and adds the jobs that these can
//! start, until nothing is added.

use std::collections::{BTreeMap, BTreeSet};

use super::member::Member;
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::job::{Missing, Phase};

/// The events that may still come from outside the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outside {
    /// `shutdown` is still to be published.
    pub shutdown: bool,
    /// Signals, watches and maintenance.
    pub world: bool,
    /// Whether what coprocesses do counts.
    pub coprocesses: bool,
    /// Whether a wait with a time limit may last until then; a shutdown does not wait for that.
    pub time_limits: bool,
}

impl Outside {
    /// While the program runs, everything may come.
    pub const RUNNING: Self = Self { shutdown: true, world: true, coprocesses: true, time_limits: true };
    /// In a shutdown, only jobs cause events.
    pub const SHUTDOWN: Self = Self { shutdown: false, world: false, coprocesses: true, time_limits: false };
}

/// For each job, whether it lives or can still come to life.
pub fn can_live(jobs: &[Member], outside: Outside) -> Vec<bool> {
    can_live_after(jobs, outside, BTreeSet::new())
}

/// The same once the jobs in `ending` have published their end without having run.
///
/// Each waiting job is looked at again only when a job that it waits for was found, so that the cost grows
/// with the number of `when` entries and not with its square.
fn can_live_after(jobs: &[Member], outside: Outside, ending: BTreeSet<&str>) -> Vec<bool> {
    search(jobs, outside, ending).alive
}

/// For each event that a job waits for, whether it can still come.
pub fn can_still_come(jobs: &[Member], outside: Outside, keys: &[(&Member, EventKey)]) -> Vec<bool> {
    let search = search(jobs, outside, BTreeSet::new());
    keys.iter().map(|(job, key)| search.can_come(key, job)).collect()
}

fn search<'a>(jobs: &'a [Member], outside: Outside, ending: BTreeSet<&'a str>) -> Search<'a> {
    let index = jobs.iter().enumerate().map(|(index, job)| (&**job.name(), index)).collect();
    let alive = vec![false; jobs.len()];
    let mut search = Search { jobs, outside, ending, alive, index, waiters: waiters(jobs) };
    let mut found: Vec<usize> = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let waits = job.phase == Phase::Waiting;
        if (!waits && search.counts(job)) || (waits && search.can_start(job)) {
            found.push(index);
        }
    }
    while let Some(index) = found.pop() {
        found.extend(search.mark(index));
    }
    search
}

struct Search<'a> {
    jobs: &'a [Member],
    outside: Outside,
    /// Jobs that are about to publish their end.
    ending: BTreeSet<&'a str>,
    alive: Vec<bool>,
    /// Jobs by name.
    index: BTreeMap<&'a str, usize>,
    /// Waiting jobs by the name of a job that they wait for.
    waiters: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Search<'a> {
    fn counts(&self, job: &Member) -> bool {
        !job.is_complete() && (self.outside.coprocesses || job.is_ordinary())
    }

    /// Notes that a job can live, and returns the jobs that can therefore start.
    fn mark(&mut self, index: usize) -> Vec<usize> {
        match self.alive.get_mut(index) {
            Some(alive) if !*alive => *alive = true,
            Some(_) | None => return vec![],
        }
        let Some(job) = self.jobs.get(index) else { return vec![] };
        let waiters = self.waiters.get(&**job.name()).map(Vec::as_slice).unwrap_or_default();
        let startable = |waiter: &&usize| {
            !self.alive.get(**waiter).copied().unwrap_or(true)
                && self.jobs.get(**waiter).is_some_and(|waiter| self.can_start(waiter))
        };
        waiters.iter().filter(startable).copied().collect()
    }

    fn can_start(&self, job: &Member) -> bool {
        if !self.counts(job) {
            return false;
        }
        match &job.missing {
            Missing::Nothing => true,
            Missing::AnyOf(keys) => keys.iter().any(|key| self.can_come(key, job)),
            Missing::AllOf(keys) => keys.iter().all(|key| self.can_come(key, job)),
        }
    }

    fn can_come(&self, key: &EventKey, job: &Member) -> bool {
        match (&key.source, key.code) {
            (Source::Global, EventCode::Startup) => false,
            (Source::Global, EventCode::Shutdown) => self.outside.shutdown,
            (Source::Global | Source::Watch(_) | Source::Signal(_), _) => self.outside.world,
            (Source::Job(name), EventCode::Stopping | EventCode::Stopped)
                if name != job.name() && (self.ending.contains(&**name) || self.ends_in_time(name)) =>
            {
                true
            }
            (Source::Job(name), code) => self.can_emit(name, code),
            (Source::Group(name), EventCode::Stopped)
                if !job.is_in_group(name) && self.is_of_one_ending(name) =>
            {
                true
            }
            (Source::Group(name), code) => self.group_can_emit(name, code),
            // Checks are tried for as long as the job's health can become known.
            (Source::Check(name), _) => self.can_emit(name, EventCode::Healthy),
        }
    }

    /// Whether a job ends soon because it waits with a time limit.
    fn ends_in_time(&self, name: &str) -> bool {
        let job = self.index.get(name).and_then(|index| self.jobs.get(*index));
        self.outside.time_limits && job.is_some_and(Member::gives_up_in_time)
    }

    fn is_of_one_ending(&self, group: &str) -> bool {
        self.jobs.iter().any(|job| job.is_in_group(group) && self.ending.contains(&**job.name()))
    }

    /// Whether a group can still publish an event: if one of its members lives; to be ready, every one has to, or must have
    /// been a success.
    fn group_can_emit(&self, group: &str, code: EventCode) -> bool {
        let mut members = self.jobs.iter().zip(&self.alive).filter(|(job, _)| job.is_in_group(group));
        match code {
            EventCode::Ready => {
                members.all(|(job, alive)| *alive || (job.is_complete() && job.last_status == Some(0)))
            }
            EventCode::Healthy | EventCode::Unhealthy => {
                members.any(|(job, alive)| *alive && !job.spec.health.is_empty())
            }
            EventCode::ExitFailed | EventCode::Stopped => members.any(|(_, alive)| *alive),
            EventCode::Startup
            | EventCode::Shutdown
            | EventCode::ExitSuccess
            | EventCode::Changed
            | EventCode::Stopping
            | EventCode::EnterMaintenance
            | EventCode::ExitMaintenance
            | EventCode::Signal => false,
        }
    }

    fn can_emit(&self, name: &str, code: EventCode) -> bool {
        self.index.get(name).is_some_and(|index| {
            self.alive.get(*index).copied().unwrap_or(false)
                && self.jobs.get(*index).is_some_and(|job| job.can_emit(code))
        })
    }
}

fn waiters(jobs: &[Member]) -> BTreeMap<&str, Vec<usize>> {
    let mut waiters: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate().filter(|(_, job)| job.phase == Phase::Waiting) {
        let keys = match &job.missing {
            Missing::Nothing => continue,
            Missing::AnyOf(keys) | Missing::AllOf(keys) => keys,
        };
        for key in keys {
            match &key.source {
                Source::Job(name) | Source::Check(name) => waiters.entry(name).or_default().push(index),
                Source::Group(group) => {
                    for member in jobs.iter().filter(|job| job.is_in_group(group)) {
                        waiters.entry(member.name()).or_default().push(index);
                    }
                }
                Source::Global | Source::Watch(_) | Source::Signal(_) => {}
            }
        }
    }
    waiters
}

/// The waiting jobs to be given up: nothing can start them any more. A job that is given up still publishes `stopping` and
/// `stopped`; jobs that these events can start, directly or through others, are left for later. Jobs that wait for each
/// other in a circle are given up together, unless the time limit of one ends the circle.
pub fn lost(jobs: &[Member], outside: Outside) -> Vec<usize> {
    let waits = |index: &usize| jobs.get(*index).is_some_and(|job| job.phase == Phase::Waiting);
    let dead = |alive: Vec<bool>| -> Vec<usize> {
        let dead = alive.into_iter().enumerate().filter_map(|(index, alive)| (!alive).then_some(index));
        dead.filter(waits).collect()
    };
    let lost = dead(can_live(jobs, outside));
    if lost.is_empty() {
        return lost;
    }
    let ending = lost.iter().filter_map(|index| jobs.get(*index)).map(|job| &**job.name()).collect();
    let first = dead(can_live_after(jobs, outside, ending));
    if first.is_empty() { in_circles(jobs, outside, &lost) } else { first }
}

/// The lost jobs that wait only for jobs which wait for them in turn, directly or through others.
fn in_circles(jobs: &[Member], outside: Outside, lost: &[usize]) -> Vec<usize> {
    let by_name: BTreeMap<&str, usize> =
        lost.iter().filter_map(|index| Some((&**jobs.get(*index)?.name(), *index))).collect();
    let is_in = |index: usize, group: &str| jobs.get(index).is_some_and(|job| job.is_in_group(group));
    let awaited = |index: usize| -> Vec<usize> {
        let keys = match jobs.get(index).map(|job| &job.missing) {
            Some(Missing::AnyOf(keys) | Missing::AllOf(keys)) => keys.as_slice(),
            Some(Missing::Nothing) | None => &[],
        };
        let sources = keys.iter().flat_map(|key| match &key.source {
            Source::Job(name) | Source::Check(name) => by_name.get(&**name).copied().into_iter().collect(),
            Source::Group(group) => lost.iter().copied().filter(|other| is_in(*other, group)).collect(),
            Source::Global | Source::Watch(_) | Source::Signal(_) => vec![],
        });
        sources.collect()
    };
    let chain = |index: usize| -> BTreeSet<usize> {
        let (mut found, mut next) = (BTreeSet::new(), awaited(index));
        while let Some(index) = next.pop() {
            if found.insert(index) {
                next.extend(awaited(index));
            }
        }
        found
    };
    let chains: BTreeMap<usize, BTreeSet<usize>> = lost.iter().map(|index| (*index, chain(*index))).collect();
    let waits_for = |one: usize, other: usize| chains.get(&one).is_some_and(|chain| chain.contains(&other));
    let ends_in_time =
        |index: usize| outside.time_limits && jobs.get(index).is_some_and(Member::gives_up_in_time);
    let is_in_circle = |index: &usize| {
        let is_of_it = |other: &usize| waits_for(*other, *index) && !ends_in_time(*other);
        chains.get(index).is_none_or(|chain| chain.iter().all(is_of_it))
    };
    lost.iter().copied().filter(is_in_circle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::config::spec::{GroupPlace, JobSpec};

    use super::super::tests::{checked, coprocess, event};

    const OPEN: Outside = Outside::RUNNING;

    fn job(name: &str, phase: Phase, missing: Missing) -> Member {
        Member { missing, ..super::super::tests::job(name, phase) }
    }

    fn waits(name: &str, on: &str, code: EventCode) -> Member {
        job(name, Phase::Waiting, Missing::AnyOf(vec![event(on, code)]))
    }

    fn limited(job: Member) -> Member {
        let mut spec = (*job.spec).clone();
        spec.when.timeout = Some(std::time::Duration::from_secs(1));
        Member { spec: Arc::new(spec), ..job }
    }

    #[test]
    fn a_chain_behind_a_running_job_can_start() {
        let jobs = [
            waits("c", "b", EventCode::ExitSuccess),
            waits("b", "a", EventCode::Stopped),
            job("a", Phase::Running, Missing::Nothing),
        ];
        assert_eq!(can_live(&jobs, OPEN), [true, true, true]);
    }

    #[test]
    fn a_chain_behind_a_complete_job_cannot_start() {
        let jobs = [
            waits("c", "b", EventCode::ExitSuccess),
            waits("b", "a", EventCode::Stopped),
            job("a", Phase::Complete, Missing::Nothing),
        ];
        assert_eq!(can_live(&jobs, OPEN), [false, false, false]);
    }

    #[test]
    fn a_cycle_cannot_start_itself() {
        let jobs = [waits("a", "b", EventCode::ExitSuccess), waits("b", "a", EventCode::ExitSuccess)];
        assert_eq!(can_live(&jobs, OPEN), [false, false]);
    }

    #[test]
    fn a_job_cannot_be_started_by_its_own_events_alone() {
        assert_eq!(can_live(&[waits("a", "a", EventCode::ExitFailed)], OPEN), [false]);
    }

    #[test]
    fn who_waits_for_the_end_of_a_circle_is_not_given_up_with_it() {
        let jobs = [
            waits("last", "a", EventCode::Stopped),
            waits("a", "b", EventCode::Stopping),
            waits("b", "a", EventCode::Stopping),
        ];
        assert_eq!(lost(&jobs, OPEN), [1, 2]);
        let over = |job: &Member| Member { phase: Phase::Complete, ..job.clone() };
        assert_eq!(lost(&[jobs[0].clone(), over(&jobs[1]), over(&jobs[2])], OPEN), [0]);
    }

    #[test]
    fn a_circle_in_which_one_waits_with_a_time_limit_is_not_given_up() {
        let limited = limited(waits("a", "b", EventCode::Ready));
        let other = waits("b", "a", EventCode::Stopping);
        assert_eq!(lost(&[limited.clone(), other.clone()], OPEN), [0; 0]);
        let has_run = Member { last_status: Some(0), ..limited };
        assert_eq!(lost(&[has_run, other], OPEN), [0, 1], "the limit was for its first run");
    }

    #[test]
    fn a_circle_ends_with_the_time_limit_of_one_even_if_nobody_waits_for_the_end_of_that_one() {
        let circle = [
            waits("b", "f", EventCode::Stopped),
            limited(waits("c", "b", EventCode::Ready)),
            waits("f", "c", EventCode::Ready),
        ];
        assert_eq!(lost(&circle, OPEN), [0; 0]);
        let [b, c, f] = circle;
        assert_eq!(lost(&[b, Member { phase: Phase::Complete, ..c }, f], OPEN), [2], "then b can start");
    }

    #[test]
    fn a_shutdown_does_not_wait_for_the_time_limit_of_a_wait() {
        let circle = [limited(waits("a", "b", EventCode::Stopped)), waits("b", "a", EventCode::Stopped)];
        assert_eq!(lost(&circle, OPEN), [0; 0]);
        assert_eq!(lost(&circle, Outside::SHUTDOWN), [0, 1]);
    }

    #[test]
    fn who_waits_for_the_end_of_a_group_is_not_given_up_with_its_last_member() {
        let stopped = EventKey { code: EventCode::Stopped, source: Source::Group(Arc::from("g")) };
        let last = job("last", Phase::Waiting, Missing::AnyOf(vec![stopped]));
        let mut member = waits("a", "gone", EventCode::ExitSuccess);
        let place = GroupPlace { group: Arc::from("g"), after: vec![] };
        member.spec = Arc::new(JobSpec { group: Some(place), ..(*member.spec).clone() });
        assert_eq!(lost(&[last.clone(), member.clone()], OPEN), [1]);
        assert_eq!(lost(&[last, Member { phase: Phase::Complete, ..member }], OPEN), [0]);
    }

    #[test]
    fn a_group_can_be_ready_if_every_member_lives_or_was_a_success() {
        let of = |code: EventCode| EventKey { code, source: Source::Group(Arc::from("g")) };
        let waits_for = |code: EventCode| job("last", Phase::Waiting, Missing::AnyOf(vec![of(code)]));
        let member = |job: Member| {
            let place = GroupPlace { group: Arc::from("g"), after: vec![] };
            Member { spec: Arc::new(JobSpec { group: Some(place), ..(*job.spec).clone() }), ..job }
        };
        let runs = || member(job("a", Phase::Running, Missing::Nothing));
        let over = |status: u8| Member {
            last_status: Some(status),
            ..member(job("b", Phase::Complete, Missing::Nothing))
        };
        let can_come = |code: EventCode, members: [Member; 2]| {
            let [one, other] = members;
            can_live(&[waits_for(code), one, other], OPEN)[0]
        };
        assert!(can_come(EventCode::Ready, [runs(), over(0)]));
        assert!(!can_come(EventCode::Ready, [runs(), over(1)]));
        assert!(!can_come(EventCode::Healthy, [runs(), over(0)]), "nobody is checked");
        let is_checked = || member(checked("a", Phase::Running));
        assert!(can_come(EventCode::Healthy, [is_checked(), over(0)]));
        assert!(can_come(EventCode::Stopped, [runs(), over(0)]));
        assert!(!can_come(EventCode::Stopped, [over(0), over(0)]));
    }

    #[test]
    fn the_end_of_a_job_that_gives_up_in_time_can_still_come() {
        let (key, jobs) = (event("c", EventCode::Stopped), [limited(waits("c", "gone", EventCode::Ready))]);
        let waiter = waits("x", "c", EventCode::Stopped);
        assert_eq!(can_still_come(&jobs, OPEN, &[(&waiter, key.clone())]), [true]);
        let shutdown = Outside { time_limits: false, ..OPEN };
        assert_eq!(can_still_come(&jobs, shutdown, &[(&waiter, key)]), [false]);
    }

    #[test]
    fn healthy_needs_a_health_check() {
        let jobs = [waits("b", "a", EventCode::Healthy), job("a", Phase::Running, Missing::Nothing)];
        assert_eq!(can_live(&jobs, OPEN), [false, true]);
    }

    #[test]
    fn all_needs_every_event() {
        let missing =
            Missing::AllOf(vec![event("a", EventCode::ExitSuccess), event("gone", EventCode::ExitSuccess)]);
        let jobs = [
            job("b", Phase::Waiting, missing),
            job("a", Phase::Running, Missing::Nothing),
            job("gone", Phase::Complete, Missing::Nothing),
        ];
        assert_eq!(can_live(&jobs, OPEN), [false, true, false]);
    }

    #[test]
    fn a_stopping_job_still_ends_but_is_never_healthy_again() {
        let stopping = checked("a", Phase::Terminating);
        let jobs = [
            waits("healthy", "a", EventCode::Healthy),
            waits("stopping", "a", EventCode::Stopping),
            waits("exit", "a", EventCode::ExitFailed),
            waits("stopped", "a", EventCode::Stopped),
            stopping,
        ];
        assert_eq!(can_live(&jobs, OPEN), [false, false, true, true, true]);
    }

    #[test]
    fn signals_and_watches_can_come_unless_we_shut_down() {
        let key = EventKey { code: EventCode::Changed, source: Source::Watch(Arc::from("db")) };
        let jobs = [job("a", Phase::Waiting, Missing::AnyOf(vec![key]))];
        assert_eq!(can_live(&jobs, OPEN), [true]);
        assert_eq!(can_live(&jobs, Outside { world: false, ..OPEN }), [false]);
    }

    #[test]
    fn what_only_a_coprocess_can_start_counts_only_when_coprocesses_do() {
        let coprocess = coprocess(job("c", Phase::Running, Missing::Nothing));
        let jobs = [waits("a", "c", EventCode::Stopped), coprocess];
        assert_eq!(can_live(&jobs, OPEN), [true, true]);
        assert_eq!(can_live(&jobs, Outside { coprocesses: false, ..OPEN }), [false, false]);
    }
}
