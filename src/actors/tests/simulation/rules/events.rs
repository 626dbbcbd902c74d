//! Rules about events, each looked at when it is delivered.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::kernel::{Process, SimulatedKernel};
use super::given_up::GivenUp;
use super::{AT_ONCE, Account, Ledger, Rules};
use crate::config::spec::{JobKind, Limit, OnUnhealthy, ReadyBy, Trigger};
use crate::messages::event::{Event, EventCode, Source};
use crate::messages::health::Health;
use crate::messages::job::Phase;

/// So long Consul has to be well until what was wrong is right again: a call may take 5 s, and the pause after it 5 s.
const RECOVERED_AFTER: Duration = Duration::from_secs(11);

/// Whether Consul has been well for long enough: from the beginning, or since it recovered.
pub(super) fn has_recovered(now: Duration, well_since: Duration) -> bool {
    well_since.is_zero() || now.saturating_sub(well_since) > RECOVERED_AFTER
}

/// How long after a reply came it may be heard.
const HEARD_WITHIN: Duration = Duration::from_millis(300);

impl Rules {
    /// An event was delivered.
    pub fn happened(&self, event: &Event, kernel: &SimulatedKernel) {
        self.check_sequence(event);
        self.check_given_up();
        match (&event.key.source, event.key.code) {
            (Source::Job(name), code) => self.happened_to(name, code, event, kernel),
            (Source::Global, EventCode::Shutdown) => {
                let now = self.journal.awake();
                self.ledger.borrow_mut().shutdown_clock = Some(Instant::now());
                if self.ledger.borrow_mut().shutdown.replace(now).is_some() {
                    self.break_rule("a shutdown begins once", "it began again");
                }
                self.ledger.borrow_mut().given_up.clear();
                self.check_reason();
            }
            (Source::Global, EventCode::EnterMaintenance) => {
                self.ledger.borrow_mut().maintenance_since = Some(self.journal.awake());
                self.forget_health();
            }
            (Source::Global, EventCode::ExitMaintenance) => {
                self.ledger.borrow_mut().maintenance_since = None;
                self.forget_health();
            }
            (Source::Global, EventCode::Startup) => {
                // Until then they did not wait.
                let mut ledger = self.ledger.borrow_mut();
                ledger.jobs.values_mut().for_each(|account| account.begun = Instant::now());
            }
            (Source::Watch(name), _) => self.check_watch(name),
            (Source::Group(name), EventCode::ExitFailed) => {
                self.check_exhausted(name);
                // Its members stop, whoever has started them.
                let mut ledger = self.ledger.borrow_mut();
                ledger.jobs.values_mut().for_each(|account| account.is_owed_a_start = false);
            }
            (Source::Global | Source::Check(_) | Source::Group(_) | Source::Signal(_), _) => {}
        }
        let mut ledger = self.ledger.borrow_mut();
        ledger.past.insert(event.key.clone());
        ledger.moment.1.push((event.sequence, event.key.clone()));
        let now = self.journal.awake();
        for account in ledger.jobs.values_mut() {
            account.observe(&event.key);
            // Its start may be seen before the event that led to it.
            account.is_due &= account.starts == 0 || account.last_start != now;
        }
    }

    fn check_sequence(&self, event: &Event) {
        let mut ledger = self.ledger.borrow_mut();
        if event.sequence != ledger.last_sequence + 1 {
            self.break_rule("events are delivered in the order of their numbers", event.key.to_string());
        }
        ledger.last_sequence = event.sequence;
    }

    /// A watch begins when coprocesses have been started.
    fn check_watch(&self, name: &Arc<str>) {
        let ledger = self.ledger.borrow();
        let waits = ledger.program.watches.iter().any(|watch| watch.name == *name && watch.after_coprocesses);
        let was_heard =
            ledger.past.iter().any(|key| matches!(&key.source, Source::Watch(known) if known == name));
        if !waits || was_heard || ledger.is_blurred || ledger.reloads > 0 {
            return;
        }
        let is_open = |account: &&Account| {
            let was_started = account.was_executed || account.ends > 0 || account.is_over;
            // By hand, it may have been stopped before that; and one that a reload brought came after the watch.
            let is_exempt = account.is_told || account.orders > 0 || account.by_hand > 0 || account.is_new;
            account.spec.kind == JobKind::Coprocess && !was_started && !is_exempt
        };
        if let Some(account) = ledger.jobs.values().find(is_open) {
            let how = format!("{name} asked before {} was started", account.spec.name);
            self.break_rule("a watch asks when coprocesses have been started", how);
        }
    }

    fn forget_health(&self) {
        let now = self.journal.awake();
        for account in self.ledger.borrow_mut().jobs.values_mut() {
            account.health = Health::Unknown;
            account.doubtful = now;
        }
    }

    fn happened_to(&self, name: &Arc<str>, code: EventCode, event: &Event, kernel: &SimulatedKernel) {
        match code {
            EventCode::ExitSuccess | EventCode::ExitFailed => self.check_end(name, event, kernel),
            EventCode::Ready => self.check_ready(name),
            EventCode::Healthy | EventCode::Unhealthy => self.check_health(name, code),
            EventCode::Stopping => {
                self.check_order_of_stops(name, kernel);
                self.check_stopping(name, event.sequence);
            }
            EventCode::Stopped => self.check_stopped(name, kernel),
            EventCode::Startup
            | EventCode::Shutdown
            | EventCode::Changed
            | EventCode::EnterMaintenance
            | EventCode::ExitMaintenance
            | EventCode::Signal => {}
        }
    }

    /// The end of a process is told after it, once, with its status, and after all that it has written.
    fn check_end(&self, name: &str, event: &Event, kernel: &SimulatedKernel) {
        let mut ledger = self.ledger.borrow_mut();
        let is_known = !ledger.is_blurred && ledger.reloads == 0;
        if let Some(account) = ledger.jobs.get_mut(name) {
            account.ends += 1;
            // It was stopped to run again, and that run, whose start failed, had no process.
            account.is_over = false;
            account.is_owed_a_start = false;
            account.is_ready = false;
            account.phase = None;
        }
        // A process that did not become its program is told without its number.
        let Some(pid) = event.detail.pid else {
            // One that was killed just after that is told in the same way; a start that was cancelled has no status.
            let place = ledger.ends.iter().position(|end| *end.job == *name);
            if let Some(place) = place.filter(|_| event.detail.status.is_some()) {
                let end = ledger.ends.remove(place);
                if let Some(account) = ledger.jobs.get_mut(name) {
                    account.processes_ended += 1;
                }
                self.check_lines(name, end.execution, &mut ledger);
            } else {
                // One that was cancelled just when it failed has none either.
                let is_unborn = |end: &super::End| *end.job == *name && end.execution == 0;
                ledger.ends.retain(|end| !is_unborn(end));
                if let Some(account) = ledger.jobs.get_mut(name) {
                    // Its time may have been over before the log had room for its output.
                    (account.lives, account.is_due) = (false, false);
                }
            }
            return;
        };
        let is_it =
            |end: &super::End| *end.job == *name && end.pid.is_some_and(|ended| ended.number() == pid);
        let place = ledger.ends.iter().position(is_it);
        let Some(place) = place else {
            return self.break_rule("an end is told once and after it", format!("process {pid} of {name}"));
        };
        let end = ledger.ends.remove(place);
        if let Some(account) = ledger.jobs.get_mut(name) {
            account.processes_ended += 1;
        }
        if event.detail.status != Some(end.status.shell_code()) {
            let told = format!("{name}: {:?} instead of {}", event.detail.status, end.status.shell_code());
            self.break_rule("no exit status is lost", told);
        }
        // What we ended, or stop because it is unhealthy, may have failed although its status is a success.
        let is_success = event.key.code == EventCode::ExitSuccess;
        let is_plain = |account: &&Account| {
            let is_ill = account.is_stopping && account.spec.on_unhealthy == OnUnhealthy::Restart;
            is_known && !end.was_signalled && !is_ill
        };
        if let Some(account) = ledger.jobs.get(name).filter(is_plain)
            && is_success != account.spec.success.iter().any(|success| success.is(end.status))
        {
            let how = format!("{name}: {}, told as success: {is_success}", end.status);
            self.break_rule("an end is a success if the configuration says so", how);
        }
        self.check_lines(name, end.execution, &mut ledger);
        let lives = kernel.look(|all| all.iter().any(|it| it.birth == end.execution && it.lives()));
        if lives {
            self.break_rule("an end is told once and after it", format!("process {pid} of {name} lives"));
        }
    }

    /// All that an execution wrote is logged.
    fn check_lines(&self, name: &str, execution: u64, ledger: &mut Ledger) {
        for is_stderr in [false, true] {
            let lost = ledger.lines.remove(&(execution, is_stderr)).unwrap_or_default();
            if let Some(line) = lost.first() {
                self.break_rule("no line is lost", format!("{line} of {name} is not logged"));
            }
        }
    }

    /// An execution is ready once, and not while its job stops; one that is checked, when it is healthy.
    fn check_ready(&self, name: &str) {
        let mut ledger = self.ledger.borrow_mut();
        // A reload has its effect before its reply is heard: the job may be another one already.
        let is_known = !ledger.is_blurred && ledger.reloads == 0;
        let now = self.journal.awake();
        let Some(account) = ledger.jobs.get_mut(name) else { return };
        // This may be about the process before, which ended in this very moment.
        let is_known = is_known && (account.last_start != now || account.starts <= 1);
        if std::mem::replace(&mut account.is_ready, true) {
            self.break_rule("an execution is ready once", name);
        }
        if account.spec.ready.by.is_some() || account.spec.health.is_empty() {
            // Its watchdog begins.
            (account.last_sign, account.sleeps) = (Instant::now(), 0);
        }
        if account.is_stopping {
            self.break_rule("a job that stops has no news of its readiness", name);
        }
        // The next execution may have begun in this moment.
        let says_ready = account.says_ready || account.said_ready == Some(now);
        if is_known && account.spec.ready.by == Some(ReadyBy::Notify) && !says_ready {
            self.break_rule("a job that tells when it is ready is not ready before", name);
        }
        let is_checked = account.spec.ready.by.is_none() && !account.spec.health.is_empty();
        if is_known && is_checked && account.health != Health::Healthy {
            self.break_rule("a job with checks is ready when it is healthy", name);
        }
    }

    fn check_health(&self, name: &str, code: EventCode) {
        let now = self.journal.awake();
        let mut ledger = self.ledger.borrow_mut();
        let is_known = !ledger.is_blurred;
        let Some(account) = ledger.jobs.get_mut(name) else { return };
        if account.last_start == now && account.ends + 1 < account.starts {
            // It was started anew in this very moment, and this is about the process before, whose end is yet to be heard.
            return;
        }
        if account.is_stopping {
            self.break_rule("a job that stops has no news of its health", name);
        }
        let has_process = account.spec.exec.is_some() && !account.is_new;
        if is_known && has_process && account.starts == account.processes_ended {
            self.break_rule("a process that ended has no news of its health", name);
        }
        let health = if code == EventCode::Healthy { Health::Healthy } else { Health::Unhealthy };
        if account.health == health {
            self.break_rule("health is told when it changes", format!("{name} {health} twice"));
        }
        account.health = health;
        account.doubtful = now;
        let passes = |check: &Arc<str>| account.checks.get(&**check).copied().unwrap_or(false);
        let all_pass = account.spec.health.iter().all(|check| passes(&check.name));
        if health == Health::Healthy && !all_pass {
            self.break_rule("a job is healthy when all its checks passed", name);
        }
    }

    /// `stopping` comes once, and for a reason.
    fn check_stopping(&self, name: &Arc<str>, sequence: u64) {
        let phases = self.board.get().map(|board| {
            board.read().jobs.iter().map(|(name, job)| (Arc::clone(name), job.phase)).collect::<Vec<_>>()
        });
        let mut ledger = self.ledger.borrow_mut();
        // One that a reload has stopped may tell it after the reload was refused because the program ends.
        let is_ending = ledger.shutdown.is_some() || ledger.asked_to_end.is_some();
        let is_expected = is_ending || ledger.reloads > 0 || ledger.is_blurred;
        let Ledger { jobs, given_up, moment, .. } = &mut *ledger;
        let Some(account) = jobs.get_mut(name) else { return };
        if account.is_stopping {
            self.break_rule("`stopping` and `stopped` take turns", format!("{name} stops twice"));
        }
        account.is_stopping = true;
        account.stopping = Some((sequence, self.journal.awake()));
        account.stopping_clock = Instant::now();
        account.health = Health::Unknown;
        if account.spec.exec.is_none() {
            account.is_ready = false;
        }
        if is_expected {
            return;
        }
        // If others were given up together with it, which was the event that it waited for, it has only just heard of that.
        let fired = account.fired > 0 && !account.is_fired_in(&moment.1);
        // A run whose time was over before it had a process has ended, too.
        let has_run = account.starts > 0 || account.ends > 0;
        let waits = !has_run && (account.spec.exec.is_some() || !fired);
        // One that was started by hand waits again for the beginning of its schedule.
        let is_repeated =
            matches!(account.spec.when.trigger, Trigger::Each(_)) || account.waits_for_its_schedule();
        // A run by hand may have been the only one that its schedule has.
        let limit = account.spec.restarts;
        let had_all =
            account.waits_for_its_schedule() && matches!(limit, Limit::Finite(most) if account.ends > most);
        let ran_for_each = account.starts > 0 && is_repeated && !had_all;
        // A reply to a reload may be heard some time after it.
        let lasted = account.begun.elapsed() + if account.is_new { HEARD_WITHIN } else { Duration::ZERO };
        let expired = account.spec.when.timeout.is_some_and(|timeout| lasted >= timeout);
        let is_expired = expired && (waits || account.fired == 0);
        // With a run by hand behind it, it may have been given up all the same, with others that wait for its end.
        if (waits || ran_for_each) && (!is_expired || has_run) {
            let halted = phases.unwrap_or_default().into_iter().filter(|(_, phase)| *phase == Phase::Halted);
            let halted = halted.map(|(name, _)| name).collect();
            let mut one = GivenUp::new(account, halted, (self.journal.awake(), &moment.1));
            one.is_excused |= is_expired;
            if let Some(other) = jobs.values().find(|other| one.could_wait_for(other)) {
                let how = format!("{name} does not wait for {}, which is restarted", other.spec.name);
                self.break_rule("no job is given up whose event can come", how);
            }
            given_up.push(one);
        } else if !waits && !ran_for_each && !account.is_told && account.orders == 0 {
            self.check_completed(name, account);
        }
    }

    /// A job that nobody told to stop has had all its runs.
    fn check_completed(&self, name: &str, account: &Account) {
        let had_all = match account.spec.restarts {
            Limit::Unlimited => false,
            Limit::Finite(restarts) => account.has_had(restarts) || account.spec.exec.is_none(),
        };
        let had_all = had_all || account.is_choosy() && (account.was_signalled || !account.may_restart());
        if !had_all && !account.is_new && !account.is_restarted_by_others() {
            self.break_rule("a job has all its runs", format!("{name} is over after {}", account.ends));
        }
    }

    fn check_stopped(&self, name: &str, kernel: &SimulatedKernel) {
        let now = self.journal.awake();
        let lived = |it: &Process| it.is_of(name) && it.lives() && it.born < Instant::now();
        if kernel.look(|all| all.iter().any(lived)) {
            self.break_rule("`stopped` is never told while a process lives", name);
        }
        {
            let mut ledger = self.ledger.borrow_mut();
            let Some(account) = ledger.jobs.get_mut(name) else { return };
            // One that a reload has brought may have said it before the reply to that was heard.
            let is_just_known = account.is_new && account.since == Instant::now();
            if !account.is_stopping && !is_just_known {
                self.break_rule(
                    "`stopping` and `stopped` take turns",
                    format!("{name} stopped without a word"),
                );
            }
            account.is_stopping = false;
            account.is_over = !account.is_back();
            account.over_since = now;
        }
        let is_back = |account: &Account| account.is_back() || account.spec.exec.is_none() && account.is_told;
        let is_back = self.ledger.borrow().jobs.get(name).is_some_and(is_back);
        // One that is restarted may be registered before its process starts, which may have to wait for room in the log.
        let has_room = now.saturating_sub(self.ledger.borrow().flooded) > AT_ONCE;
        let is_to_start = self.phase_of(name) == Some(Phase::Running) && !has_room;
        if self.ledger.borrow().killed.is_none() && !is_back && !is_to_start {
            self.check_withdrawn(name, "a job is withdrawn before it is stopped");
        }
    }

    /// While Consul is well, the service of a job is not registered at this moment.
    pub(super) fn check_withdrawn(&self, name: &str, rule: &'static str) {
        let now = self.journal.awake();
        let ledger = self.ledger.borrow();
        // What is killed does not wait for Consul.
        let end = ledger.shutdown.map(|began| began + super::budget(ledger.program.budget));
        let is_killed =
            ledger.killed.is_some() || end.is_some_and(|end| now + Duration::from_millis(2) >= end);
        let Some(account) = ledger.jobs.get(name).filter(|_| !is_killed) else { return };
        if account.spec.advertise.is_none() || !ledger.program.has_consul {
            return;
        }
        let is_registered = self.consul.look(|services, well_since| {
            well_since.is_some_and(|since| has_recovered(now, since))
                && services.values().any(|service| service.name == name)
        });
        drop(ledger);
        if is_registered {
            self.break_rule(rule, name);
        }
    }
}
