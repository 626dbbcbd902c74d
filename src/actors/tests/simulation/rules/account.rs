//! What the rules know of one job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::due::Overdue;
use super::{schedules, startup};
use crate::config::spec::{EndOfRun, JobSpec, Limit, OnUnhealthy, RestartOn, Trigger};
use crate::messages::event::EventKey;
use crate::messages::health::Health;
use crate::messages::job::Phase;
use crate::messages::moment::WallTime;
use crate::messages::process::ExitStatus;
use crate::messages::signal::Signal;

/// A watchdog that elapses so much too late did so because the machine slept.
const LATE: Duration = Duration::from_millis(150);

/// What is known of one job, since it was configured.
pub struct Account {
    pub spec: Arc<JobSpec>,
    /// Whether a reload brought it.
    pub is_new: bool,
    /// When it was configured, on the real clock of the run.
    pub since: Instant,
    /// When it may have begun at the earliest.
    pub begun: Instant,
    /// Events of its trigger that have come.
    pub seen: Vec<EventKey>,
    /// The last event before it was configured, or before its last run.
    pub after: u64,
    /// How often its trigger fired.
    pub fired: u32,
    /// How often it was started or restarted by hand.
    pub by_hand: u32,
    /// Whether it was told to stop by hand.
    pub is_told: bool,
    /// Orders to it that have no reply yet.
    pub orders: u32,
    /// It ran when the first of them was given.
    pub ran_when_ordered: bool,
    /// When that was, and how often it had been started then.
    pub ordered_at: Duration,
    pub starts_when_ordered: u32,
    /// It ran when it was told to restart; how often it had been started then.
    pub is_owed_a_restart: Option<u32>,
    /// It ran when a restart was ordered, and its next process was not asked for yet.
    pub returns: bool,
    pub starts: u32,
    /// Its program was executed at least once.
    pub was_executed: bool,
    /// The number of its last execution that became its program.
    pub executed: u32,
    /// Ends of executions that were told.
    pub ends: u32,
    /// Processes whose end was told.
    pub processes_ended: u32,
    pub last_start: Duration,
    /// Its trigger fired after its last start.
    pub is_due: bool,
    pub is_stopping: bool,
    /// The number of its `stopping` event, and when it was.
    pub stopping: Option<(u64, Duration)>,
    /// The same by the clock of the program, which does not stop while the machine sleeps.
    pub stopping_clock: Instant,
    pub is_over: bool,
    pub over_since: Duration,
    pub health: Health,
    /// `ready` was told of its present execution.
    pub is_ready: bool,
    /// Its process lives, as far as the kernel was asked for one.
    pub lives: bool,
    /// The last outcome of each check of its present execution.
    pub checks: BTreeMap<String, bool>,
    /// When a check last failed or began anew.
    pub doubtful: Duration,
    pub phase: Option<(Phase, Duration)>,
    /// Since when its service is advertised although nothing serves.
    pub unserved: Option<Duration>,
    pub idle: Option<Duration>,
    /// When each restart's former execution ended, and when it was started, on the clock of the program.
    pub restarted: Vec<(Instant, Instant)>,
    /// Runs in a row that ended early, at least.
    pub early_ends: u32,
    pub ended_clock: Instant,
    /// When its last execution ended, and how.
    pub ended: Duration,
    pub last_end: Option<ExitStatus>,
    /// We have sent a signal to its present execution that may end it.
    pub was_signalled: bool,
    /// Its present execution has said that it is ready, or that it stops.
    pub says_ready: bool,
    pub says_stops: bool,
    /// When an execution last said that it is ready.
    pub said_ready: Option<Duration>,
    /// Its checks that were started and have not ended by themselves.
    pub checking: BTreeSet<String>,
    /// When its last execution was asked for, on the clock of the program.
    pub began: Instant,
    /// When it last gave a sign of life.
    pub last_sign: Instant,
    /// How often the machine slept since then, and whether it was in time when that began.
    pub sleeps: u32,
    pub was_in_time: bool,
    /// Whether a run was due when the machine last fell asleep.
    pub was_due: bool,
    /// Its last sign came at the last moment: whether in time is not known.
    pub is_nearly_late: bool,
    /// It has asked for time until then.
    pub needs_until: Duration,
    /// Until then every due time of its schedule had its turn.
    pub scheduled: WallTime,
    /// A run was due when somebody set the clock, and has not begun: the one before it still ended.
    pub is_owed: bool,
    /// How often each check has failed in a row.
    pub failed: BTreeMap<String, u32>,
    /// When each signal last came to its main process.
    pub signalled: BTreeMap<Signal, Duration>,
    /// A client's signal that was accepted: what, when it was sent, and the number of the execution.
    pub owed_signal: Option<(Signal, Duration, u32)>,
    /// A client's start was accepted, and no process was asked for since.
    pub is_owed_a_start: bool,
    /// A client's stop was accepted, and no start since.
    pub is_owed_a_stop: bool,
    /// Since when it is what it should not be for long.
    pub overdue: BTreeMap<Overdue, Duration>,
}

impl Account {
    /// It has a schedule that has not begun.
    pub fn waits_for_its_schedule(&self) -> bool {
        !self.spec.when.after.is_empty() && self.fired == 0
    }

    /// The reload that has brought it was asked for then; the reply may be heard much later, if the machine sleeps.
    pub fn may_have_begun(&mut self, asked: Option<(Instant, WallTime)>) {
        if let Some((began, wall)) = asked {
            self.begun = began;
            let before = WallTime::from_milliseconds(wall.milliseconds() - 1000);
            self.scheduled = self.scheduled.min(before);
        }
    }

    /// When its last execution was told to stop, or else ended, on the clock of the program.
    pub fn end_began(&self) -> Instant {
        let is_stopped = self.stopping.is_some_and(|(_, at)| at >= self.last_start);
        if is_stopped { self.ended_clock.min(self.stopping_clock) } else { self.ended_clock }
    }

    /// Whether an event that it waits for was delivered at the present time.
    pub fn is_fired_in(&self, moment: &[(u64, EventKey)]) -> bool {
        moment.iter().any(|(_, key)| self.spec.when.keys().contains(key))
    }

    pub fn new(spec: Arc<JobSpec>, is_new: bool, (now, after): (Duration, u64)) -> Self {
        let mut account = Self {
            is_new,
            since: Instant::now(),
            begun: Instant::now(),
            seen: vec![],
            after,
            fired: 0,
            by_hand: 0,
            is_told: false,
            orders: 0,
            ran_when_ordered: false,
            ordered_at: Duration::ZERO,
            starts_when_ordered: 0,
            is_owed_a_restart: None,
            returns: false,
            starts: 0,
            was_executed: false,
            executed: 0,
            ends: 0,
            processes_ended: 0,
            last_start: now,
            is_due: false,
            is_stopping: false,
            stopping: None,
            stopping_clock: Instant::now(),
            is_over: false,
            over_since: Duration::ZERO,
            health: Health::Unknown,
            is_ready: false,
            lives: false,
            checks: BTreeMap::new(),
            doubtful: now,
            phase: None,
            unserved: None,
            idle: None,
            restarted: vec![],
            early_ends: 0,
            ended_clock: Instant::now(),
            ended: Duration::ZERO,
            last_end: None,
            was_signalled: false,
            says_ready: false,
            says_stops: false,
            said_ready: None,
            checking: BTreeSet::new(),
            began: Instant::now(),
            last_sign: Instant::now(),
            sleeps: 0,
            was_in_time: false,
            was_due: false,
            is_nearly_late: false,
            needs_until: Duration::ZERO,
            // The reply to a reload may be heard some time after it.
            scheduled: WallTime::from_milliseconds(schedules::wall().milliseconds() - 1000),
            is_owed: false,
            failed: BTreeMap::new(),
            signalled: BTreeMap::new(),
            owed_signal: None,
            is_owed_a_start: false,
            is_owed_a_stop: false,
            overdue: BTreeMap::new(),
            spec,
        };
        if is_new {
            account.observe(&startup());
        }
        account
    }

    /// Takes note of an event that its `when` may name.
    pub fn observe(&mut self, key: &EventKey) {
        if self.is_stopping || self.is_over {
            return;
        }
        let is_first = self.fired == 0;
        let fires = match &self.spec.when.beginning() {
            Trigger::Once(wanted) => is_first && wanted == key,
            Trigger::Each(wanted) => wanted == key,
            Trigger::Any(wanted) => is_first && wanted.contains(key),
            Trigger::Interval(_) | Trigger::Cron(_) => is_first && *key == startup(),
            Trigger::All(wanted) => {
                if wanted.contains(key) && !self.seen.contains(key) {
                    self.seen.push(key.clone());
                }
                is_first && wanted.iter().all(|wanted| self.seen.contains(wanted))
            }
        };
        // When the schedule of a job that a reload has brought began is not known.
        let is_known = !self.is_new || self.since != Instant::now();
        if fires && is_known && matches!(self.spec.when.trigger, Trigger::Cron(_)) {
            // Its schedule begins.
            self.scheduled = self.scheduled.max(schedules::wall());
        }
        self.fired += u32::from(fires);
        self.is_due |= fires;
    }

    /// Whether its watchdog has yet to wait for its next sign of life.
    pub fn is_in_time(&self) -> bool {
        let limit = self.spec.watchdog.unwrap_or(Duration::MAX);
        self.last_sign.elapsed() + Duration::from_millis(2) < limit
    }

    /// Whether the machine slept for so long that its process could give no sign of life.
    pub fn was_kept_from_signs(&self) -> bool {
        let limit = self.spec.watchdog.unwrap_or(Duration::MAX);
        self.sleeps == 1 && self.was_in_time && self.last_sign.elapsed() >= limit.saturating_add(LATE)
    }

    /// Whether it was started again before its stop was told, as one that is restarted may be.
    pub fn is_back(&self) -> bool {
        self.starts > 0 && self.stopping.is_some_and(|(_, at)| self.last_start >= at)
    }

    /// Whether it may be stopped and started again for other reasons than its own ends.
    pub fn is_restarted_by_others(&self) -> bool {
        self.spec.group.is_some() || self.spec.on_unhealthy == OnUnhealthy::Restart
    }

    /// Whether its rules may end it before it has had all its restarts.
    pub fn is_choosy(&self) -> bool {
        let rule = &self.spec.restart_rule;
        rule.on != RestartOn::Always || !rule.except.is_empty()
    }

    /// Whether it may be restarted after its last end; one that we brought about may count as failed or not.
    pub fn may_restart(&self) -> bool {
        let Some(status) = self.last_end.filter(|_| !self.was_signalled) else { return true };
        let (rule, is_in) =
            (&self.spec.restart_rule, |ends: &[EndOfRun]| ends.iter().any(|end| end.is(status)));
        let is_wanted = match rule.on {
            RestartOn::Always => true,
            RestartOn::Failure => !is_in(&self.spec.success),
            RestartOn::Success => is_in(&self.spec.success),
        };
        is_wanted && !is_in(&rule.except)
    }

    /// How often it may be executed, as long as nobody starts it by hand.
    pub fn most_starts(&self) -> Option<u32> {
        if self.spec.group.is_some() || self.spec.restart_rule.per.is_some() {
            return None;
        }
        let Limit::Finite(restarts) = self.spec.restarts else { return None };
        let triggers = if let Trigger::Each(_) = self.spec.when.trigger { self.fired } else { 1 };
        Some(triggers.saturating_mul(restarts + 1))
    }
}
