//! Makes a story from a seed. The same seed makes the same story.

mod manners;
mod steps;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::story::{KEY, Program, SERVICE, Story};
use crate::actors::tests::health::exec_check;
use crate::config::schedule::CronSpec;
use crate::config::schedule::cron::Pattern;
use crate::config::schedule::zone::Zone;
use crate::config::spec::{
    AdvertiseSpec, CommandLine, EndOfRun, GroupSpec, InitialStatus, JobKind, JobSpec, Limit, OnExhausted,
    OnUnhealthy, ReadyBy, ReadySpec, RestartOn, StopBudget, Strategy, Trigger, WatchSpec, WatchTarget,
};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::signal::Signal;

const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
/// The errors of a start that the kernel is short of something.
const SHORTAGES: [i32; 4] = [libc::EAGAIN, libc::ENOMEM, libc::EMFILE, libc::E2BIG];

/// The name of the group, if there is one.
const GROUP: &str = "g";
/// Ten seconds before the clocks of Berlin change, in spring and in autumn 2027, in milliseconds since 1970.
const CLOCK_CHANGES: [i64; 2] = [1_806_195_590_000, 1_824_944_390_000];

struct Dice(Rng);

impl Dice {
    fn one_in(&mut self, number: u32) -> bool {
        self.0.u32(0..number) == 0
    }

    fn ms(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.0.u64(range))
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.0.usize(0..values.len())]
    }

    /// The index of one of the weights, chosen as often as they say.
    fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut left = self.0.u32(0..weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        0
    }
}

/// The story of a seed.
pub fn story(seed: u64) -> Story {
    let mut dice = Dice(Rng::with_seed(seed));
    // Few jobs more often than many: a small story is cheaper and finds as much.
    let number = if dice.one_in(3) { 1 + dice.0.usize(0..12) } else { 1 + dice.0.usize(0..5) };
    let has_consul = dice.one_in(2);
    let program = dice.program(number, has_consul);
    let mut manners = BTreeMap::new();
    for name in &NAMES[..number] {
        manners.insert((*name).to_owned(), dice.manner());
        manners.insert(format!("check-{name}"), dice.check_manner());
    }
    let steps = dice.steps(&program);
    let second_signal = dice.one_in(3).then(|| dice.0.u64(0..1500));
    let wall = dice.pick(&CLOCK_CHANGES) + dice.0.i64(0..1000);
    // With few of them, the number of a process that has ended soon belongs to another one.
    let pids = if dice.one_in(2) { dice.0.i32(30..90) } else { dice.0.i32(120..400) };
    Story { seed, pids, program, wall, manners, steps, second_signal }
}

impl Dice {
    fn program(&mut self, number: usize, has_consul: bool) -> Program {
        let jobs = (0..number).map(|index| self.job(index, number, has_consul)).collect();
        let budget = self.budget();
        let watches = if has_consul { self.watches() } else { vec![] };
        let groups = if self.one_in(3) { vec![self.group(number)] } else { vec![] };
        let mut program = Program { jobs, groups, watches, has_consul, budget };
        program.settle_groups();
        program
    }

    fn budget(&mut self) -> StopBudget {
        match self.weighted(&[1, 12]) {
            0 => StopBudget::Immediate,
            _ => StopBudget::Within(self.ms(500..5000)),
        }
    }

    /// A group of some of the jobs, in another order now and then.
    fn group(&mut self, number: usize) -> GroupSpec {
        let mut jobs: Vec<Arc<str>> = NAMES[..number].iter().map(|name| Arc::from(*name)).collect();
        if self.one_in(4) {
            self.0.shuffle(&mut jobs);
        }
        jobs.retain(|_| !self.one_in(4));
        GroupSpec {
            name: Arc::from(GROUP),
            jobs,
            strategy: self.pick(&[Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne]),
            limit: self.pick(&[Limit::Finite(0), Limit::Finite(3), Limit::Finite(10), Limit::Unlimited]),
            per: self.ms(1000..30_000),
            on_exhausted: self.pick(&[OnExhausted::Shutdown, OnExhausted::Stop]),
        }
    }

    fn watches(&mut self) -> Vec<WatchSpec> {
        let service = WatchTarget::Service { service: SERVICE.to_owned(), tag: None };
        let interval = self.ms(300..2000);
        let after_coprocesses = interval.as_millis().is_multiple_of(2);
        let watch = |name: &str, target, interval| WatchSpec {
            name: Arc::from(name),
            target,
            interval,
            datacentre: None,
            after_coprocesses,
        };
        vec![watch("service", service, interval), watch("key", WatchTarget::Key(KEY.to_owned()), interval)]
    }

    fn job(&mut self, index: usize, number: usize, has_consul: bool) -> JobSpec {
        let name = NAMES[index];
        let command = CommandLine { program: name.to_owned(), args: vec![] };
        let mut job = JobSpec::new(Arc::from(name), Some(command));
        if self.one_in(12) {
            job.kind = JobKind::Coprocess;
            job.restarts = self.pick(&[Limit::Finite(0), Limit::Finite(3), Limit::Unlimited]);
            // As if another job were `preStart`.
            if number > 1 && self.one_in(2) {
                let other = (index + self.0.usize(1..number)) % number;
                let event = |code| EventKey { code, source: Source::Job(Arc::from(NAMES[other])) };
                let ends = [EventCode::ExitSuccess, EventCode::ExitFailed, EventCode::Stopped];
                job.when.trigger = Trigger::Any(ends.map(event).to_vec());
            }
            return job;
        }
        job.when.trigger = self.trigger(index, number, has_consul);
        if job.when.trigger.is_periodic() && self.one_in(3) {
            job.when.after = self.others_to_be_ready(index);
        }
        job.when.timeout = self.one_in(5).then(|| self.ms(0..4000));
        job.restarts = self.pick(&[Limit::Finite(0), Limit::Finite(0), Limit::Finite(2), Limit::Unlimited]);
        if matches!(job.when.trigger, Trigger::Each(_)) && job.restarts == Limit::Unlimited {
            job.restarts = Limit::Finite(1);
        }
        job.timeout = self.one_in(5).then(|| self.ms(20..1500));
        if !job.when.trigger.is_periodic() {
            self.add_restart_rule(&mut job);
        }
        if let (Trigger::Interval(interval), None) = (&job.when.trigger, job.timeout) {
            job.timeout = Some(*interval);
        }
        if self.one_in(6) {
            job.backoff.min = self.ms(0..300);
            job.backoff.max = self.ms(300..1000);
        }
        job.stop.wait = self.one_in(3).then(|| self.ms(0..1500));
        job.stop.kill_timeout = self.one_in(3).then(|| self.ms(50..1500));
        if self.one_in(5) {
            job.stop.drain = self.ms(1..400);
        }
        job.essential = self.one_in(14);
        job.required = self.one_in(2);
        job.raw_output = self.one_in(4);
        if self.one_in(8) {
            job.forward = vec![self.pick(&[Signal::HUP, Signal::USR1, Signal::USR2, Signal::WINCH])];
        }
        self.add_checks(&mut job);
        self.add_readiness(&mut job);
        if !job.health.is_empty() {
            let nothing = OnUnhealthy::Nothing;
            let all = [nothing, nothing, nothing, nothing, OnUnhealthy::Restart, OnUnhealthy::Shutdown];
            job.on_unhealthy = self.pick(&all);
        }
        if has_consul && !job.health.is_empty() && !self.one_in(3) {
            job.advertise = Some(Box::new(self.advertisement(index)));
            if self.one_in(10) {
                (job.exec, job.ready, job.watchdog) = (None, ReadySpec::default(), None);
                job.on_unhealthy = OnUnhealthy::Nothing;
            }
        }
        job
    }

    /// Which ends are a success, and which are followed by a restart.
    fn add_restart_rule(&mut self, job: &mut JobSpec) {
        let ends = [EndOfRun::Code(1), EndOfRun::Code(2), EndOfRun::Signal(Signal::QUIT)];
        if self.one_in(4) {
            job.success.push(self.pick(&ends));
        }
        if self.one_in(4) {
            let on = [RestartOn::Always, RestartOn::Failure, RestartOn::Failure, RestartOn::Success];
            job.restart_rule.on = self.pick(&on);
            job.restart_rule.except = if self.one_in(3) { vec![self.pick(&ends)] } else { vec![] };
        }
        if matches!(job.restarts, Limit::Finite(1..)) && self.one_in(3) {
            job.restart_rule.per = Some(self.ms(100..4000));
        }
    }

    /// The first line that a process prints makes it ready, or what it tells.
    fn add_readiness(&mut self, job: &mut JobSpec) {
        if self.one_in(5) {
            let by_log = ReadyBy::Log("~".to_owned());
            let by_log = if job.raw_output { None } else { Some(by_log) };
            job.ready.by = if self.one_in(2) { Some(ReadyBy::Notify) } else { by_log };
            job.ready.timeout = self.one_in(2).then(|| self.ms(20..2000));
        }
        job.watchdog = self.one_in(12).then(|| self.ms(20..2000));
    }

    fn add_checks(&mut self, job: &mut JobSpec) {
        if self.one_in(2) {
            return;
        }
        let names: &[String] = &[format!("check-{}", job.name), format!("check-{}-too", job.name)];
        for name in names.iter().take(if self.one_in(4) { 2 } else { 1 }) {
            let mut check = exec_check(name, self.0.u64(200..2000));
            check.timeout = if self.one_in(3) { self.ms(50..3000) } else { check.interval };
            check.failures = self.0.u32(1..4);
            job.health.push(check);
        }
    }

    fn advertisement(&mut self, index: usize) -> AdvertiseSpec {
        let heartbeat = self.ms(500..3000);
        let statuses = [InitialStatus::Passing, InitialStatus::Warning, InitialStatus::Critical];
        AdvertiseSpec {
            port: 8000 + u16::try_from(index).unwrap_or(0),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            tags: vec![],
            meta: vec![],
            initial_status: self.one_in(4).then(|| self.pick(&statuses)),
            heartbeat,
            ttl: heartbeat * 3,
            enable_tag_override: false,
            deregister_critical_after: None,
        }
    }

    fn trigger(&mut self, index: usize, number: usize, has_consul: bool) -> Trigger {
        let keys = |dice: &mut Self| {
            let length = dice.0.usize(1..4);
            (0..length).map(|_| dice.key(index, number, has_consul)).collect()
        };
        match self.weighted(&[5, 6, 3, 2, 2, 2, 1]) {
            0 => Trigger::Once(global(EventCode::Startup)),
            1 => Trigger::Once(self.key(index, number, has_consul)),
            2 => Trigger::Each(self.key(index, number, has_consul)),
            3 => Trigger::All(keys(self)),
            4 => Trigger::Any(keys(self)),
            5 => Trigger::Interval(self.ms(150..2500)),
            _ => Trigger::Cron(Arc::new(self.schedule())),
        }
    }

    fn schedule(&mut self) -> CronSpec {
        let text = self.pick(&[
            "* * * * * *",
            "*/2 * * * * *",
            "*/5 * * * * *",
            "0 * * * * *",
            "0 1 * * *",
            "0 3 * * *",
        ]);
        let zone = self.pick(&["UTC", "Europe/Berlin"]);
        CronSpec {
            text: text.to_owned(),
            pattern: Pattern::parse(text).expect("a schedule"),
            zone: Zone::named(zone).expect("a zone"),
            jitter: Duration::ZERO,
            catch_up: self.one_in(2),
        }
    }

    /// Events `ready` of earlier jobs.
    fn others_to_be_ready(&mut self, index: usize) -> Vec<EventKey> {
        let name = |dice: &mut Self| Arc::from(NAMES[dice.0.usize(0..=index)]);
        let number = self.0.usize(1..3);
        (0..number).map(|_| EventKey { code: EventCode::Ready, source: Source::Job(name(self)) }).collect()
    }

    fn key(&mut self, index: usize, number: usize, has_consul: bool) -> EventKey {
        let codes = [
            EventCode::Ready,
            EventCode::Ready,
            EventCode::Healthy,
            EventCode::Healthy,
            EventCode::ExitSuccess,
            EventCode::ExitSuccess,
            EventCode::Unhealthy,
            EventCode::ExitFailed,
            EventCode::Stopping,
            EventCode::Stopped,
        ];
        // Mostly of an earlier job, so that chains form and few jobs wait for each other.
        let other = if self.one_in(5) { self.0.usize(0..number) } else { self.0.usize(0..=index) };
        let name: Arc<str> = Arc::from(NAMES[other]);
        match self.weighted(&[20, 2, 1, 1, if has_consul { 3 } else { 0 }, 1]) {
            0 => EventKey { code: self.pick(&codes), source: Source::Job(name) },
            1 => global(self.pick(&[
                EventCode::Shutdown,
                EventCode::EnterMaintenance,
                EventCode::ExitMaintenance,
            ])),
            2 => {
                let signal = self.pick(&[Signal::HUP, Signal::USR2]);
                EventKey { code: EventCode::Signal, source: Source::Signal(signal) }
            }
            3 => {
                let code = self.pick(&[EventCode::ExitSuccess, EventCode::ExitFailed]);
                EventKey { code, source: Source::Check(name) }
            }
            4 => {
                let code = self.pick(&[EventCode::Healthy, EventCode::Unhealthy, EventCode::Changed]);
                EventKey { code, source: Source::Watch(Arc::from(self.pick(&["service", "key"]))) }
            }
            // Startup instead, if there is no group.
            _ => {
                let codes = [EventCode::Ready, EventCode::Healthy, EventCode::ExitFailed, EventCode::Stopped];
                EventKey { code: self.pick(&codes), source: Source::Group(Arc::from(GROUP)) }
            }
        }
    }
}

fn global(code: EventCode) -> EventKey {
    EventKey { code, source: Source::Global }
}
