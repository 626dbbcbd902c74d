//! Jobs that can never start. An event is possible if something can bring it about; a job can start if
//! its trigger is possible. What is left when no more can be added starts only by hand, if at all.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::config::diagnostic::{Problem, Problems};
use crate::config::spec::{GroupSpec, JobSpec, Limit, Spec, Trigger, When};
use crate::config::validate::SpecSpans;
use crate::messages::event::{EventCode, EventKey, Source};

/// Why a job can never start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reason {
    /// It waits for the health of a job that has no health check.
    NoHealthCheck(usize, EventCode),
    /// It waits for the exit of a job that executes nothing.
    NoProcess(usize, EventCode),
    /// It waits for a job that can never start.
    WaitsFor(usize, EventCode),
    /// It waits for a group, of which this job can never start.
    WaitsForMember(Arc<str>, usize, EventCode),
    /// It waits for the health of a group of which no job has a health check.
    NoHealthCheckInGroup(Arc<str>, EventCode),
    /// It waits until a group gives up that never does.
    NeverGivesUp(Arc<str>),
    /// It waits for itself, through these jobs.
    Cycle(Vec<usize>),
}

/// Reports every job that can never start.
pub(super) fn lint(spec: &Spec, places: &SpecSpans, problems: &mut Problems) {
    for (job, reason) in never_start(spec) {
        let Some(place) = places.jobs.get(job) else { continue };
        let code = if matches!(reason, Reason::Cycle(_)) { "start-cycle" } else { "never-starts" };
        let message = format!("job {:?} can never start: {}", name(spec, job), why(spec, job, &reason));
        let mut problem = Problem::refused_by_check(code, place.when, message);
        if let Reason::NoHealthCheck(source, _) = reason {
            problem = problem.help(format!("add `health` to job {:?}", name(spec, source)));
        }
        if let Reason::Cycle(jobs) = &reason {
            for other in jobs.iter().filter(|other| **other != job) {
                if let Some(other_place) = places.jobs.get(*other) {
                    let label = format!("{:?} waits here", name(spec, *other));
                    problem = problem.related(other_place.when, label);
                }
            }
        }
        problems.add(problem);
    }
}

fn name(spec: &Spec, job: usize) -> &str {
    spec.jobs.get(job).map_or("", |job| &*job.name)
}

/// The reason in words.
fn why(spec: &Spec, job: usize, reason: &Reason) -> String {
    let of_job = |event: &EventCode, source: &usize| {
        format!("it waits for {:?} of job {:?}", event.config_name(), name(spec, *source))
    };
    let of_group = |event: &EventCode, group: &Arc<str>| {
        format!("it waits for {:?} of group {group:?}", event.config_name())
    };
    match reason {
        Reason::NoHealthCheck(source, event) => {
            format!("{}, which has no health check", of_job(event, source))
        }
        Reason::NoProcess(source, event) => format!("{}, which executes nothing", of_job(event, source)),
        Reason::WaitsFor(source, event) => format!("{}, which can never start", of_job(event, source)),
        Reason::WaitsForMember(group, member, event) => {
            let member = name(spec, *member);
            format!("{}, whose job {member:?} can never start", of_group(event, group))
        }
        Reason::NoHealthCheckInGroup(group, event) => {
            format!("{}, of which no job has a health check", of_group(event, group))
        }
        Reason::NeverGivesUp(group) => {
            format!("{}, which has an unlimited `limit`", of_group(&EventCode::ExitFailed, group))
        }
        Reason::Cycle(jobs) if jobs.len() == 1 => {
            let is_own_group = |job: &JobSpec, key: &EventKey| match (&key.source, &job.group) {
                (Source::Group(name), Some(place)) => place.group == *name,
                _ => false,
            };
            let waits_for_group =
                |job: &Arc<JobSpec>| job.when.keys().iter().any(|key| is_own_group(job, key));
            if spec.jobs.get(job).is_some_and(waits_for_group) {
                "it waits for the group it belongs to".to_owned()
            } else {
                "it waits for an event of its own".to_owned()
            }
        }
        Reason::Cycle(jobs) => {
            let names: Vec<&str> = jobs.iter().chain(jobs.first()).map(|job| name(spec, *job)).collect();
            format!("the jobs wait for each other: {}", names.join(" → "))
        }
    }
}

/// The jobs that can never start, each with its reason; a cycle is named once, at its first job.
pub(super) fn never_start(spec: &Spec) -> Vec<(usize, Reason)> {
    let graph = Graph::new(&spec.jobs, &spec.groups);
    let can_start = graph.can_start();
    let stuck = |index: usize| !can_start.get(index).copied().unwrap_or(true);
    let mut cycles = Cycles::default();
    let mut found = Vec::new();
    for (index, job) in spec.jobs.iter().enumerate() {
        if !stuck(index) || job.exec.is_none() || cycles.members.contains(&index) {
            continue;
        }
        let reason = match graph.cycle(index, &can_start, &mut cycles) {
            Some(jobs) => Some(Reason::Cycle(jobs)),
            None => graph.first_obstacle(index, &can_start),
        };
        found.extend(reason.map(|reason| (index, reason)));
    }
    found
}

/// The cycles that were found so far. Each job is looked at once, however many lead to it.
#[derive(Default)]
struct Cycles {
    /// The jobs of those that were found.
    members: HashSet<usize>,
    /// The jobs that are in none.
    outside: HashSet<usize>,
}

/// Jobs, and who waits for whom.
struct Graph<'a> {
    jobs: &'a [Arc<JobSpec>],
    groups: &'a [Arc<GroupSpec>],
    index: HashMap<&'a str, usize>,
    /// For each job, those that wait for one of its events.
    waiting: Vec<Vec<usize>>,
    /// Pairs of a job and one whose end it waits for, and that in turn waits for the job.
    mutual: HashSet<(usize, usize)>,
}

impl<'a> Graph<'a> {
    fn new(jobs: &'a [Arc<JobSpec>], groups: &'a [Arc<GroupSpec>]) -> Self {
        let index: HashMap<&str, usize> =
            jobs.iter().enumerate().map(|(index, job)| (&*job.name, index)).collect();
        let mut graph = Self { jobs, groups, index, waiting: vec![], mutual: HashSet::new() };
        let mut waiting = vec![Vec::new(); jobs.len()];
        for job in 0..jobs.len() {
            for source in graph.keys(job).iter().flat_map(|key| graph.sources(key)) {
                if let Some(waiters) = waiting.get_mut(source) {
                    waiters.push(job);
                }
            }
        }
        graph.waiting = waiting;
        graph.mutual = (0..jobs.len()).flat_map(|job| graph.mutual_waits(job)).collect();
        graph
    }

    /// The jobs whose end a job waits for although they, directly or through others, wait for it. Such a circle ends if one of
    /// the others waits with a time limit.
    fn mutual_waits(&self, job: usize) -> Vec<(usize, usize)> {
        let is_end = |key: &&EventKey| matches!(key.code, EventCode::Stopping | EventCode::Stopped);
        let ends: Vec<usize> =
            self.keys(job).iter().filter(is_end).flat_map(|key| self.sources(key)).collect();
        if ends.is_empty() {
            return vec![];
        }
        let dependents = self.dependents(job);
        ends.into_iter().filter(|source| dependents.contains(source)).map(|source| (job, source)).collect()
    }

    /// A job, and those that wait for it without a time limit, directly or through others that do.
    fn dependents(&self, job: usize) -> HashSet<usize> {
        let waits_for_ever =
            |waiter: &usize| self.jobs.get(*waiter).is_some_and(|job| job.when.timeout.is_none());
        let mut found: HashSet<usize> = HashSet::from([job]);
        let mut open = vec![job];
        while let Some(current) = open.pop() {
            let waiters = self.waiting.get(current).into_iter().flatten().copied();
            open.extend(waiters.filter(waits_for_ever).filter(|waiter| found.insert(*waiter)));
        }
        found
    }

    fn keys(&self, job: usize) -> &'a [EventKey] {
        self.jobs.get(job).map_or(&[], |job| job.when.keys())
    }

    /// The jobs that an event depends on.
    fn sources(&self, key: &EventKey) -> Vec<usize> {
        match &key.source {
            Source::Job(name) | Source::Check(name) => self.index.get(&**name).copied().into_iter().collect(),
            Source::Group(name) => self.group(name).map_or_else(Vec::new, |group| self.members(group)),
            Source::Global | Source::Watch(_) | Source::Signal(_) => vec![],
        }
    }

    fn group(&self, name: &str) -> Option<&'a GroupSpec> {
        self.groups.iter().find(|group| *group.name == *name).map(|group| &**group)
    }

    fn members(&self, group: &GroupSpec) -> Vec<usize> {
        group.jobs.iter().filter_map(|job| self.index.get(&**job).copied()).collect()
    }

    /// Which jobs can start: the least fixed point, one visit per wait.
    fn can_start(&self) -> Vec<bool> {
        let mut can_start = vec![false; self.jobs.len()];
        let mut open: VecDeque<usize> = (0..self.jobs.len()).collect();
        while let Some(index) = open.pop_front() {
            let Some(job) = self.jobs.get(index) else { continue };
            let known = can_start.get(index).copied().unwrap_or(true);
            if known || !self.is_possible(index, &job.when, &can_start) {
                continue;
            }
            if let Some(known) = can_start.get_mut(index) {
                *known = true;
            }
            open.extend(self.waiting.get(index).into_iter().flatten());
        }
        can_start
    }

    fn is_possible(&self, waiter: usize, when: &When, can_start: &[bool]) -> bool {
        let can_happen = |key: &EventKey| self.obstacle(waiter, key, can_start).is_none();
        match &when.trigger {
            Trigger::Once(key) | Trigger::Each(key) => can_happen(key),
            Trigger::All(keys) => keys.iter().all(can_happen),
            Trigger::Any(keys) => keys.iter().any(can_happen),
            Trigger::Interval(_) | Trigger::Cron(_) => when.after.iter().all(can_happen),
        }
    }

    /// What prevents an event, if anything does. Watches, signals and the program itself are beyond
    /// our knowledge: their events may come. Every job stops in the end, even one that never started,
    /// unless it waits for the very job that waits for its end.
    fn obstacle(&self, waiter: usize, key: &EventKey, can_start: &[bool]) -> Option<Reason> {
        if let Source::Group(name) = &key.source {
            return self.obstacle_in_group(self.group(name)?, key.code, can_start);
        }
        let source = self.sources(key).pop()?;
        let job = self.jobs.get(source)?;
        let stuck = !can_start.get(source).copied().unwrap_or(true);
        // A check is tried when the job's health can become known.
        let is_check = matches!(key.source, Source::Check(_));
        match if is_check { EventCode::Healthy } else { key.code } {
            EventCode::ExitSuccess | EventCode::ExitFailed if job.exec.is_none() => {
                Some(Reason::NoProcess(source, key.code))
            }
            EventCode::Healthy | EventCode::Unhealthy if job.health.is_empty() => {
                Some(Reason::NoHealthCheck(source, key.code))
            }
            // Something else runs the process of such a job; its health is known regardless.
            EventCode::Healthy | EventCode::Unhealthy | EventCode::Ready if job.exec.is_none() => None,
            EventCode::ExitSuccess
            | EventCode::ExitFailed
            | EventCode::Ready
            | EventCode::Healthy
            | EventCode::Unhealthy => stuck.then_some(Reason::WaitsFor(source, key.code)),
            EventCode::Stopping | EventCode::Stopped => {
                let hopeless = stuck && self.mutual.contains(&(waiter, source));
                hopeless.then_some(Reason::WaitsFor(source, key.code))
            }
            EventCode::Startup
            | EventCode::Shutdown
            | EventCode::Changed
            | EventCode::EnterMaintenance
            | EventCode::ExitMaintenance
            | EventCode::Signal => None,
        }
    }

    fn obstacle_in_group(&self, group: &GroupSpec, code: EventCode, can_start: &[bool]) -> Option<Reason> {
        let is_stuck = |job: &usize| !can_start.get(*job).copied().unwrap_or(true);
        let is_checked = |job: &usize| self.jobs.get(*job).is_some_and(|job| !job.health.is_empty());
        let members = self.members(group);
        let checked: Vec<usize> = members.iter().copied().filter(is_checked).collect();
        let name = || Arc::clone(&group.name);
        let without = |job: Option<usize>| job.map(|job| Reason::WaitsForMember(name(), job, code));
        match code {
            EventCode::Healthy | EventCode::Unhealthy if checked.is_empty() => {
                Some(Reason::NoHealthCheckInGroup(name(), code))
            }
            EventCode::Ready => without(members.into_iter().find(is_stuck)),
            EventCode::Healthy => without(checked.into_iter().find(is_stuck)),
            EventCode::Unhealthy => {
                without(checked.first().copied().filter(|_| checked.iter().all(is_stuck)))
            }
            EventCode::ExitFailed => (group.limit == Limit::Unlimited).then(|| Reason::NeverGivesUp(name())),
            EventCode::ExitSuccess
            | EventCode::Stopping
            | EventCode::Stopped
            | EventCode::Startup
            | EventCode::Shutdown
            | EventCode::Changed
            | EventCode::EnterMaintenance
            | EventCode::ExitMaintenance
            | EventCode::Signal => None,
        }
    }

    fn first_obstacle(&self, index: usize, can_start: &[bool]) -> Option<Reason> {
        self.keys(index).iter().find_map(|key| self.obstacle(index, key, can_start))
    }

    /// The way from a job back to itself, always along the first obstacle.
    fn cycle(&self, index: usize, can_start: &[bool], cycles: &mut Cycles) -> Option<Vec<usize>> {
        let mut way = Vec::new();
        let mut place: HashMap<usize, usize> = HashMap::new();
        let mut next = Some(index);
        let mut start_of_cycle = None;
        while let Some(current) = next {
            start_of_cycle = place.get(&current).copied();
            let is_known = cycles.members.contains(&current) || cycles.outside.contains(&current);
            if start_of_cycle.is_some() || is_known {
                break;
            }
            place.insert(current, way.len());
            way.push(current);
            next = self.waits_for(current, can_start);
        }
        if start_of_cycle == Some(0) {
            cycles.members.extend(&way);
            return Some(way);
        }
        // A cycle further on is reported at its own first job.
        cycles.outside.extend(way.iter().take(start_of_cycle.unwrap_or(way.len())));
        None
    }

    /// The job that is the first obstacle of a job.
    fn waits_for(&self, job: usize, can_start: &[bool]) -> Option<usize> {
        match self.first_obstacle(job, can_start)? {
            Reason::WaitsFor(next, _) | Reason::WaitsForMember(_, next, _) => Some(next),
            Reason::NoHealthCheck(..)
            | Reason::NoProcess(..)
            | Reason::NoHealthCheckInGroup(..)
            | Reason::NeverGivesUp(_)
            | Reason::Cycle(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
