//! Makes the steps of a story: orders, signals, reloads and faults while the program runs.

use std::time::Duration;

use super::{Dice, NAMES, SHORTAGES};
use crate::actors::tests::simulation::story::{Flow, Mood, Operation, Program, Step};
use crate::config::spec::{GroupSpec, JobSpec, Trigger};
use crate::messages::control::JobOrder;
use crate::messages::event::Source;
use crate::messages::signal::Signal;

impl Dice {
    /// The steps of a story. Often an order goes to the same job as the one before, so that what was stopped is started again.
    pub(super) fn steps(&mut self, program: &Program) -> Vec<Step> {
        let mut steps: Vec<Step> = (0..self.0.usize(0..14)).map(|_| self.step(program)).collect();
        let mut last: Option<String> = None;
        for step in &mut steps {
            let Operation::Order(target, _) = &mut step.operation else { continue };
            if let Some(last) = last.filter(|_| self.one_in(2)) {
                *target = last;
            }
            last = Some(target.clone());
        }
        if self.one_in(4) {
            let restart = self.restart_of_an_awaited_job(program);
            let place = self.0.usize(0..=steps.len());
            steps.splice(place..place, restart);
        }
        if self.one_in(4) {
            let change_of_mind = self.stop_and_start(program);
            let place = self.0.usize(0..=steps.len());
            steps.splice(place..place, change_of_mind);
        }
        let is_daily =
            |job: &JobSpec| matches!(&job.when.trigger, Trigger::Cron(cron) if cron.text.starts_with("0 "));
        if program.jobs.iter().any(is_daily) && self.one_in(2) {
            let sleep = Operation::Suspend(self.0.u64(60_000..200_000));
            steps.insert(0, Step { pause: self.0.u64(0..9000), operation: sleep });
        }
        steps
    }

    /// A job is stopped, and started again while it stops or soon after.
    fn stop_and_start(&mut self, program: &Program) -> Vec<Step> {
        let member = program.groups.first().and_then(|group| self.0.choice(&group.jobs));
        let name = member.unwrap_or(&program.jobs[self.0.usize(0..program.jobs.len())].name).to_string();
        let again = self.pick(&[JobOrder::Start, JobOrder::Restart]);
        vec![
            Step { pause: self.0.u64(0..1500), operation: Operation::Order(name.clone(), JobOrder::Stop) },
            Step { pause: self.time(), operation: Operation::Order(name, again) },
        ]
    }

    /// A time that something of the program is limited to, so that two things happen together.
    fn a_limit(&mut self, program: &Program) -> u64 {
        let limits = |job: &JobSpec| {
            let checks = job.health.iter().flat_map(|check| [Some(check.interval), Some(check.timeout)]);
            let stop = [job.stop.wait, Some(job.stop.drain), job.stop.kill_timeout];
            let own = [job.timeout, job.when.timeout, job.ready.timeout, job.watchdog];
            checks.chain(stop).chain(own).flatten().collect::<Vec<_>>()
        };
        let limits: Vec<Duration> = program.jobs.iter().flat_map(limits).collect();
        let limit = self.0.choice(limits).unwrap_or_default();
        u64::try_from(limit.as_millis()).unwrap_or(0)
    }

    /// A job is restarted that others may still wait for, and meanwhile another one ends.
    fn restart_of_an_awaited_job(&mut self, program: &Program) -> Vec<Step> {
        let awaited: Vec<&str> = program.jobs.iter().flat_map(awaited).collect();
        let Some(target) = self.0.choice(awaited) else { return vec![] };
        let other = program.jobs[self.0.usize(0..program.jobs.len())].name.to_string();
        let end = if self.0.bool() {
            Operation::Order(other, JobOrder::Stop)
        } else {
            Operation::Kill(other, Signal::KILL)
        };
        let restart = Operation::Order(target.to_owned(), JobOrder::Restart);
        vec![
            Step { pause: self.0.u64(0..1500), operation: restart },
            Step { pause: self.0.u64(0..40), operation: end },
        ]
    }

    fn step(&mut self, program: &Program) -> Step {
        let pause = match self.weighted(&[4, 4, 8, 1]) {
            0 => 0,
            1 => self.0.u64(1..60),
            2 => self.0.u64(60..1500),
            _ => self.a_limit(program),
        };
        Step { pause, operation: self.operation(program) }
    }

    pub(super) fn operation(&mut self, program: &Program) -> Operation {
        let name = |dice: &mut Self| program.jobs[dice.0.usize(0..program.jobs.len())].name.to_string();
        let target = |dice: &mut Self| match program.groups.first() {
            Some(group) if dice.one_in(4) => format!("group.{}", group.name),
            Some(_) | None => name(dice),
        };
        let consul = if program.has_consul { 1 } else { 0 };
        let weights =
            [10, 3, 1, 4, 1, 3, 4, 5, 2, 6 * consul, 2 * consul, 3 * consul, 2 * consul, 3, 1, 1, 1];
        match self.weighted(&weights) {
            0 => Operation::Order(target(self), self.order()),
            1 => Operation::Maintain(self.0.bool()),
            2 => Operation::Environ(self.0.u32(1..1000)),
            3 => Operation::Reload { program: Box::new(self.changed(program)), restart_all: self.one_in(6) },
            4 => Operation::BadReload,
            5 => Operation::Signal(self.signal()),
            6 => Operation::Kill(name(self), self.pick(&[Signal::KILL, Signal::TERM, Signal::HUP])),
            7 if self.one_in(2) => Operation::Behave(format!("check-{}", name(self)), self.check_manner()),
            7 => Operation::Behave(name(self), self.manner()),
            8 => Operation::FailStarts { errno: self.pick(&SHORTAGES), times: self.0.u32(1..5) },
            9 => Operation::Consul(self.mood()),
            10 => Operation::ConsulForgets,
            11 => Operation::Instances(self.0.u8(0..3)),
            12 => Operation::Key(self.0.bool().then(|| self.0.u8(0..4))),
            13 => Operation::Log(self.pick(&[Flow::Flows, Flow::Blocks, Flow::Fails])),
            14 if self.one_in(6) => Operation::Suspend(self.0.u64(60_000..200_000)),
            14 => Operation::Suspend(self.0.u64(1..8000)),
            15 => Operation::SetClock(self.clock_change()),
            _ => Operation::Edit(Box::new(self.changed(program))),
        }
    }

    /// Mostly by a few seconds, as a time server does; sometimes by days, as for a clock that was wrong.
    pub(super) fn clock_change(&mut self) -> i64 {
        if self.one_in(4) { self.0.i64(-400_000_000..400_000_000) } else { self.0.i64(-10_000..10_000) }
    }

    pub(super) fn order(&mut self) -> JobOrder {
        let signal = JobOrder::Signal(Signal::USR1);
        self.pick(&[JobOrder::Start, JobOrder::Stop, JobOrder::Restart, JobOrder::Restart, signal])
    }

    pub(super) fn signal(&mut self) -> Signal {
        self.pick(&[Signal::HUP, Signal::USR2, Signal::USR1, Signal::TERM, Signal::WINCH])
    }

    pub(super) fn mood(&mut self) -> Mood {
        match self.weighted(&[3, 2, 2, 1, 2, 1, 1]) {
            0 => Mood::Well,
            1 => Mood::Late(self.0.u64(1..3000)),
            2 => Mood::Errs { does_it: self.0.bool() },
            3 => Mood::Rubbish,
            4 => Mood::Silent { does_it: self.0.bool() },
            5 => Mood::Closes,
            _ => Mood::Unindexed,
        }
    }

    /// The same configuration with some jobs changed, one more, or one less, and now and then with other settings.
    pub(super) fn changed(&mut self, program: &Program) -> Program {
        let mut number = program.jobs.len();
        if self.one_in(4) {
            number = (number + 1).min(NAMES.len());
        } else if self.one_in(4) {
            number = (number - 1).max(1);
        }
        let mut next = Program { jobs: vec![], ..program.clone() };
        for index in 0..number {
            let old = program.jobs.get(index).filter(|job| refers_within(job, number));
            let job = match old {
                Some(job) if !self.one_in(4) => job.clone(),
                Some(_) | None => self.job(index, number, program.has_consul),
            };
            next.jobs.push(job);
        }
        if self.one_in(6) {
            next.groups = if next.groups.is_empty() { vec![self.group(number)] } else { vec![] };
        }
        for group in &mut next.groups {
            if self.one_in(4) {
                *group = GroupSpec { jobs: group.jobs.clone(), ..self.group(number) };
            }
        }
        if self.one_in(4) {
            next.budget = self.budget();
        }
        if program.has_consul && self.one_in(4) {
            next.watches = self.watches();
        }
        next.settle_groups();
        next
    }
}

/// The jobs that its trigger names.
fn awaited(job: &JobSpec) -> impl Iterator<Item = &str> {
    job.when.keys().iter().filter_map(|key| match &key.source {
        Source::Job(name) => Some(&**name),
        Source::Global | Source::Watch(_) | Source::Check(_) | Source::Group(_) | Source::Signal(_) => None,
    })
}

/// Whether all jobs that it waits for are among the first `number`.
fn refers_within(job: &JobSpec, number: usize) -> bool {
    job.when.keys().iter().all(|key| match &key.source {
        Source::Job(name) | Source::Check(name) => NAMES[..number].contains(&&**name),
        Source::Global | Source::Watch(_) | Source::Group(_) | Source::Signal(_) => true,
    })
}
