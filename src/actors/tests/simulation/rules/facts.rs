//! Rules about what the kernel tells: starts, ends, signals and lines.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::kernel::Observer;
use super::super::story::Says;
use super::{AT_ONCE, Account, End, Ledger, Rules, Stream, budget};
use crate::config::spec::{OnUnhealthy, Trigger};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::health::Health;
use crate::messages::job::Phase;
use crate::messages::process::{ExitStatus, Pid};
use crate::messages::signal::Signal;
use crate::process::Launch;

/// The variable that clients set.
pub const VARIABLE: &str = "SIMULATED";

/// The execution and the stream that a line belongs to: the lines with even numbers are on stderr.
fn stream(mark: &str) -> Option<Stream> {
    let (birth, number) = mark.trim_matches('~').split_once('.')?;
    let number: u32 = number.parse().ok()?;
    Some((birth.parse().ok()?, number.is_multiple_of(2)))
}

/// The job that a check is about.
fn job_of(check: &str) -> &str {
    check.trim_start_matches("check-").trim_end_matches("-too")
}

impl Observer for Rules {
    fn started(&self, job: &str, living: usize, launch: &Launch) {
        self.settle_replies();
        if living > 0 {
            self.break_rule("never two executions of a job", format!("{living} processes of {job} live"));
        }
        let now = self.journal.awake();
        let mut ledger = self.ledger.borrow_mut();
        let (is_blurred, is_reloading) = (ledger.is_blurred, ledger.reloads > 0);
        let (environ, environ_asked) = (ledger.environ, ledger.environ_asked.clone());
        let (after, decided_at) = (ledger.last_sequence, ledger.decided_at());
        let is_clock_right = ledger.clock_changes == 0 && ledger.flooded.is_zero();
        self.check_start_in_group(job, &ledger);
        let Some(account) = ledger.jobs.get_mut(job) else {
            drop(ledger);
            if !is_blurred && !is_reloading {
                self.break_rule("only configured jobs are started", job);
            }
            return;
        };
        if account.starts > 0 {
            account.restarted.push((account.ended_clock, Instant::now()));
        }
        account.starts += 1;
        account.after = after;
        account.last_start = now;
        (account.is_due, account.returns, account.is_owed_a_start) = (false, false, false);
        account.health = Health::Unknown;
        account.lives = true;
        account.checks.clear();
        account.failed.clear();
        account.doubtful = now;
        account.phase = None;
        let is_repeated =
            account.spec.when.trigger.is_periodic() || matches!(account.spec.when.trigger, Trigger::Each(_));
        let was_last = account.starts > 1 && !is_repeated && !account.may_restart();
        account.was_signalled = false;
        (account.says_ready, account.says_stops, account.is_nearly_late) = (false, false, false);
        (account.began, account.last_sign, account.sleeps) = (Instant::now(), Instant::now(), 0);
        let was_decided_before = self.journal.is_awakening() && account.was_due;
        let is_missed = is_clock_right && !was_decided_before && account.is_missed(decided_at);
        let is_scheduled = account.is_scheduled(self.journal.is_awakening(), decided_at);
        let was_over = std::mem::take(&mut account.is_over);
        if let Some(value) = environ {
            let told = launch.whole_environment();
            let told = told.as_ref().ok().and_then(|told| told.get(VARIABLE));
            let may_be =
                |told: &OsStr| [value].iter().chain(&environ_asked).any(|may| *told == *may.to_string());
            if !told.is_some_and(may_be) {
                self.break_rule("a process has the variables that were set before", job);
            }
        }
        // An order may have its effect before its reply is heard, and so may a reload.
        if is_blurred || account.by_hand > 0 || account.orders > 0 || is_reloading {
            return;
        }
        if was_over && !account.is_restarted_by_others() {
            self.break_rule("a job that is over does not run again", job);
        }
        // A process that exits by itself while its unhealthy job is being stopped counts as failed, also with status 0.
        let may_be_ill = account.spec.on_unhealthy == OnUnhealthy::Restart;
        if was_last && account.spec.group.is_none() && !may_be_ill {
            self.break_rule("a job is restarted after the ends that its rules name", job);
        }
        if is_missed && !account.is_restarted_by_others() {
            self.break_rule("a run that was missed is made up for only with `catchUp`", job);
        }
        if !is_scheduled && !account.is_restarted_by_others() {
            self.break_rule("no scheduled run is early or doubled", job);
        }
        self.check_restart(account);
        // Whether it was triggered is looked at later: its event may be heard in this moment.
        let name = Arc::clone(&account.spec.name);
        self.check_limit(&name, &ledger);
        ledger.suspects.push(name);
    }

    fn executed(&self, job: &str) {
        // Its watchdog begins.
        if let Some(account) = self.ledger.borrow_mut().jobs.get_mut(job) {
            (account.last_sign, account.sleeps) = (Instant::now(), 0);
            account.was_executed = true;
            account.executed = account.starts;
        }
    }

    fn ended(&self, job: &str, execution: u64, pid: Option<Pid>, status: ExitStatus) {
        let at = self.journal.awake();
        let mut ledger = self.ledger.borrow_mut();
        let mut was_signalled = false;
        if let Some(account) = ledger.jobs.get_mut(job) {
            // One of its limits was over: whether that or its end was noticed first is not known.
            let (lasted, spec) = (account.began.elapsed(), &account.spec);
            let limits = [spec.timeout, spec.ready.timeout, spec.watchdog];
            was_signalled = account.was_signalled || limits.iter().flatten().any(|limit| lasted >= *limit);
            account.lives = false;
            account.ended = at;
            account.note_end(lasted);
            account.last_end = Some(status);
        }
        ledger.ends.push(End { job: Arc::from(job), execution, pid, status, at, was_signalled });
    }

    fn check_started(&self, check: &str, living: usize) {
        self.settle_replies();
        if living > 0 {
            self.break_rule("never two executions of a check", check);
        }
        let since = self.ledger.borrow().maintenance_since;
        if since.is_some_and(|since| self.journal.awake() > since) {
            self.break_rule("nothing is checked in maintenance", check);
        }
        if let Some(account) = self.ledger.borrow_mut().jobs.get_mut(job_of(check)) {
            account.checking.insert(check.to_owned());
        }
    }

    fn checked(&self, check: &str, passed: bool) {
        self.settle_replies();
        let now = self.journal.awake();
        if let Some(account) = self.ledger.borrow_mut().jobs.get_mut(job_of(check)) {
            account.checks.insert(check.to_owned(), passed);
            account.checking.remove(check);
            let failed = account.failed.entry(check.to_owned()).or_default();
            *failed = if passed { 0 } else { *failed + 1 };
            if !passed {
                account.doubtful = now;
            }
        }
    }

    fn notified(&self, job: &str, says: Says) {
        let now = self.journal.awake();
        let mut ledger = self.ledger.borrow_mut();
        let Some(account) = ledger.jobs.get_mut(job) else { return };
        match says {
            Says::Ready => (account.says_ready, account.said_ready) = (true, Some(now)),
            Says::Stops => account.says_stops = true,
            Says::NeedsTime(milliseconds) => {
                let until = now + Duration::from_millis(milliseconds);
                account.needs_until = account.needs_until.max(until);
            }
            // At the last moment it may come too late.
            Says::Lives if account.is_in_time() => {
                (account.last_sign, account.sleeps, account.is_nearly_late) = (Instant::now(), 0, false);
            }
            Says::Lives => account.is_nearly_late = true,
            Says::Reloads | Says::Nonsense => {}
        }
    }

    fn signalled(&self, job: &str, signal: Signal) {
        self.check_watchdog(job, signal);
        if let Some(account) = self.ledger.borrow_mut().jobs.get_mut(job) {
            account.signalled.insert(signal, self.journal.awake());
        }
        if ![Signal::TERM, Signal::KILL].contains(&signal) {
            return;
        }
        match self.phase_of(job) {
            Some(Phase::Running) => self.break_rule("a process that serves is not asked to end", job),
            Some(phase) if phase.is_stopping() && signal == Signal::TERM => {
                self.check_withdrawn(job, "a job is withdrawn before it gets its stop signal");
                self.check_hold(job);
                self.check_drain(job);
                self.check_hook(job);
            }
            Some(_) | None => {}
        }
    }

    fn signalled_too_late(&self, execution: u64) {
        let mut ledger = self.ledger.borrow_mut();
        let Ledger { ends, jobs, .. } = &mut *ledger;
        for end in ends.iter_mut().filter(|end| end.execution == execution) {
            end.was_signalled = true;
            if let Some(account) = jobs.get_mut(&end.job) {
                account.was_signalled = true;
            }
        }
    }

    fn printed(&self, execution: u64, line: &str) {
        let stream = stream(line).unwrap_or((execution, false));
        self.ledger.borrow_mut().lines.entry(stream).or_default().push(line.to_owned());
    }
}

impl Rules {
    /// Takes note of a signal of ours; a process that gives signs of life is not aborted.
    fn check_watchdog(&self, job: &str, signal: Signal) {
        let is_awakening = self.journal.is_awakening();
        let mut ledger = self.ledger.borrow_mut();
        let is_known = !ledger.is_blurred && ledger.reloads == 0;
        let Some(account) = ledger.jobs.get_mut(job) else { return };
        account.was_signalled |= [Signal::TERM, Signal::KILL, Signal::ABRT].contains(&signal);
        let is_watched = account.spec.watchdog.is_some();
        let is_in_time = account.is_in_time() || is_awakening && account.was_kept_from_signs();
        if is_watched && is_known && signal == Signal::ABRT && is_in_time {
            self.break_rule("who gives signs of life is not ended", job);
        }
    }

    /// A job gets its stop signal after the jobs that its `stopping` has started, unless they take too long.
    fn check_hold(&self, name: &str) {
        let ledger = self.ledger.borrow();
        let Some(account) = ledger.jobs.get(name) else { return };
        let Some((stopping, since)) = account.stopping else { return };
        let last_call = budget(ledger.program.budget).mul_f64(0.8);
        let is_last_call = ledger.shutdown_clock.is_some_and(|began| began.elapsed() + AT_ONCE >= last_call);
        let limit = account.spec.stop.wait.unwrap_or(Duration::from_secs(5));
        let is_late = account.stopping_clock.elapsed() + AT_ONCE >= limit;
        if is_late || is_last_call || ledger.killed.is_some() || ledger.is_blurred {
            return;
        }
        let key = EventKey { code: EventCode::Stopping, source: Source::Job(Arc::clone(&account.spec.name)) };
        let now = self.journal.awake();
        let acts = |other: &&Account| {
            // It ends in this moment, which is yet to be heard.
            let is_late = other.spec.timeout.is_some_and(|limit| now >= other.last_start + limit);
            let is_over = is_late || other.ended == now;
            let is_started_by_it = matches!(&other.spec.when.trigger, Trigger::Once(wanted) if *wanted == key)
                && other.starts == 1
                && other.by_hand == 0
                // A group decides itself when its members start.
                && other.spec.group.is_none()
                && other.last_start == since
                && other.after >= stopping;
            is_started_by_it && !is_over && matches!(self.phase_of(&other.spec.name), Some(Phase::Running))
        };
        if let Some(other) = ledger.jobs.values().find(acts) {
            let how = format!("{} still acts on the end of {name}", other.spec.name);
            self.break_rule("a stop waits for those that act on it", how);
        }
    }

    /// Between its withdrawal and its stop signal, a job has the time of its `drain`.
    fn check_drain(&self, name: &str) {
        let ledger = self.ledger.borrow();
        let Some(account) = ledger.jobs.get(name).filter(|account| account.is_stopping) else { return };
        let last_call = budget(ledger.program.budget).mul_f64(0.8);
        let is_last_call = ledger.shutdown_clock.is_some_and(|began| began.elapsed() + AT_ONCE >= last_call);
        let is_known = !ledger.is_blurred && ledger.reloads == 0 && ledger.killed.is_none();
        let lasted = account.stopping_clock.elapsed() + Duration::from_millis(2);
        if is_known && !is_last_call && lasted < account.spec.stop.drain {
            self.break_rule("a job is drained before it gets its stop signal", name);
        }
    }

    /// What has come into the log.
    pub fn logged(&self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let mut ledger = self.ledger.borrow_mut();
        for line in text.lines() {
            let Some(start) = line.find('~') else { continue };
            let mark = &line[start..];
            let Some(lines) = stream(mark).and_then(|stream| ledger.lines.get_mut(&stream)) else { continue };
            if lines.first().is_some_and(|first| first == mark) {
                lines.remove(0);
            } else {
                self.break_rule(
                    "lines are logged once and in order",
                    format!("{mark}, expected {:?}", lines.first()),
                );
            }
        }
    }
}
