//! The end of the program: who is told to stop and when, how long it may take, and what a second signal does.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::member::Member;
use super::review::{Reason, exit_status};
use super::startable::{Outside, lost};
use super::stop_order::{self, Candidate};
use super::{Action, Stage, State, Timer};
use crate::actors::machine::{LogLine, Severity};
use crate::config::spec::StopBudget;
use crate::messages::job::{JobCommand, Phase, StopOccasion};
use crate::messages::moment::Moment;
use crate::messages::signal::Signal;

/// The share of the shutdown's budget after which everything left is told to stop.
pub(super) const LAST_CALL: f64 = 0.8;
/// How long after the budget we leave with processes that even SIGKILL does not end.
const PATIENCE: Duration = Duration::from_secs(3);
/// Another signal sooner than this after the first does not count: a shell may signal both us and our process group at once.
const REPEAT_AFTER: Duration = Duration::from_millis(250);
/// How long processes that jobs left behind have to end.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// A shutdown under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shutdown {
    /// Why.
    reason: Reason,
    /// The status to exit with, if how jobs end from now on has no say in it.
    status: Option<u8>,
    /// Since when.
    began: Moment,
    /// The event that tells of it, once it is published.
    event: Option<u64>,
    /// Whether `shutdown` has reached everybody, so that we may tell jobs to stop.
    is_announced: bool,
    /// Whether everything is killed that is left.
    kills: bool,
    /// The job that took longest to stop, and its time.
    slowest: Option<(Arc<str>, Duration)>,
}

impl Shutdown {
    /// How long it took, and who took longest.
    fn summary(&self, now: Moment) -> String {
        let took = now.since(self.began).as_secs_f64();
        match &self.slowest {
            Some((name, longest)) => {
                format!("shutdown took {took:.3}s, of which job {name} took {:.3}s", longest.as_secs_f64())
            }
            None => format!("shutdown took {took:.3}s"),
        }
    }
}

/// The orders to jobs during a shutdown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Orders {
    /// To be told to stop.
    pub stop: Vec<usize>,
    /// Listeners for an end that can no longer come.
    pub lost: Vec<usize>,
}

/// The jobs to be told something now. `is_confirmed` tells of those that said, after all events so far, that they still
/// wait.
pub fn orders(jobs: &[Member], is_confirmed: impl Fn(&Member) -> bool) -> Orders {
    let unreachable = lost(jobs, Outside::SHUTDOWN);
    let candidate = |(index, job)| {
        let is_lost = unreachable.binary_search(&index).is_ok();
        candidate(job, is_lost, is_lost && is_confirmed(job))
    };
    let candidates: Vec<Candidate<'_>> = jobs.iter().enumerate().map(candidate).collect();
    let stop = stop_order::next(&candidates);
    let lost = unreachable.iter().copied().filter(|index| jobs.get(*index).is_some_and(is_closer)).collect();
    Orders { stop, lost }
}

/// Whether a job listens for an end, and so may still have work to do.
fn is_closer(job: &Member) -> bool {
    job.listens_for_an_end() && !job.ran_before
}

/// A job in a shutdown: `is_lost` if it waits for what can no longer come, as far as we know, `is_gone` if that is certain.
fn candidate(job: &Member, is_lost: bool, is_gone: bool) -> Candidate<'_> {
    let (lives, waits, closer) = (!job.is_complete(), job.phase == Phase::Waiting, is_closer(job));
    Candidate {
        name: job.name(),
        needs: &job.needs,
        remains: job.remains() && !closer,
        may_run: lives && (!waits || (closer && !is_gone)),
        waits,
        progresses: lives && (job.told.is_some() || (closer && (!waits || is_lost))),
    }
}

impl State {
    /// Begins to shut down.
    pub(super) fn shut_down(&mut self, now: Moment, reason: Reason) -> Vec<Action> {
        let (level, text) = match &reason {
            Reason::Signal => (Severity::Info, "shutting down".to_owned()),
            Reason::Essential(name, Some(status)) => (
                Severity::Info,
                format!("shutting down: the essential job {name} ended with status {status}"),
            ),
            Reason::Essential(name, None) => (
                Severity::Warning,
                format!("shutting down: the essential job {name} is over without having run"),
            ),
            Reason::Unhealthy(name) => {
                (Severity::Warning, format!("shutting down: the job {name} is unhealthy"))
            }
            Reason::Group(group, job, _) => (
                Severity::Warning,
                format!("shutting down: the group {group} gave up when the job {job} ended"),
            ),
            Reason::Completed => (Severity::Debug, "shutting down: every job is complete".to_owned()),
        };
        let mut actions = vec![Action::log(level, text)];
        actions.extend(self.refuse_reloads());
        actions.push(Action::PublishShutdown);
        self.members.begin_to_stop();
        let status = match reason {
            Reason::Signal | Reason::Essential(..) | Reason::Unhealthy(_) | Reason::Group(..) => {
                Some(exit_status(self.members.list(), &reason))
            }
            Reason::Completed => None,
        };
        let shutdown = Shutdown {
            reason,
            status,
            began: now,
            event: None,
            is_announced: false,
            kills: false,
            slowest: None,
        };
        self.stage = Stage::ShuttingDown(shutdown);
        match self.spec.stop_timeout {
            StopBudget::Immediate => actions.extend(self.kill_all()),
            StopBudget::Within(budget) => {
                actions.push(Action::StartTimer(Timer::LastCall, budget.mul_f64(LAST_CALL)));
                actions.push(Action::StartTimer(Timer::StopBudget, budget));
            }
        }
        // Comes back after `shutdown` is delivered: what is sent then finds its listeners at work.
        actions.push(self.barrier());
        actions
    }

    /// The event that tells of the shutdown is this one: it is the cause of every stop.
    pub(super) fn note_shutdown_event(&mut self, number: u64) {
        if let Stage::ShuttingDown(shutdown) = &mut self.stage {
            shutdown.event = Some(number);
        }
    }

    /// `shutdown` has reached everybody.
    pub(super) fn note_announced(&mut self) {
        if let Stage::ShuttingDown(shutdown) = &mut self.stage {
            shutdown.is_announced = true;
        }
    }

    /// Takes note of how long a job took that is complete now.
    pub(super) fn note_completed(&mut self, name: &Arc<str>, took: Duration) {
        if let Stage::ShuttingDown(shutdown) = &mut self.stage
            && shutdown.slowest.as_ref().is_none_or(|(_, longest)| took > *longest)
        {
            shutdown.slowest = Some((name.clone(), took));
        }
    }

    /// Tells those to stop who may, and leaves once all are complete.
    pub(super) fn go_on_stopping(&mut self, now: Moment) -> Vec<Action> {
        let Stage::ShuttingDown(shutdown) = &self.stage else { return vec![] };
        if !shutdown.is_announced {
            return vec![];
        }
        if self.members.list().iter().all(Member::is_complete) {
            return self.leave(now);
        }
        // A job that an earlier order has just started is killed like the others.
        let stop = match shutdown.kills {
            true => JobCommand::Kill,
            false => JobCommand::Stop { cause: shutdown.event, occasion: StopOccasion::Shutdown },
        };
        let orders = orders(self.members.list(), |job| self.members.is_confirmed(job));
        let mut actions = self.members.stop(&orders.stop, now, stop);
        actions.extend(self.members.give_up(&orders.lost, true));
        actions
    }

    /// Most of the time is over: everything left is told, but for those who wait for the end of another, which may still
    /// come.
    pub(super) fn last_call(&mut self, now: Moment) -> Vec<Action> {
        let Stage::ShuttingDown(shutdown) = &self.stage else { return vec![] };
        let stop = JobCommand::Stop { cause: shutdown.event, occasion: StopOccasion::Shutdown };
        let mut actions = Vec::new();
        for job in self.members.list_mut() {
            let may_still_be_called = job.listens_for_an_end() && job.phase == Phase::Waiting;
            if !job.is_complete() && !may_still_be_called {
                job.told.get_or_insert(now);
                actions.push(Action::Tell(job.name().clone(), stop));
                actions.push(Action::Tell(job.name().clone(), JobCommand::Hurry));
            }
        }
        actions
    }

    /// The time to stop is over.
    pub(super) fn stop_budget_elapsed(&mut self) -> Vec<Action> {
        let Stage::ShuttingDown(_) = self.stage else { return vec![] };
        let line = LogLine::new(Severity::Warning, "the time to stop is over: killing what is left");
        let mut actions = vec![Action::Log(line.about("jobs", self.members.living()))];
        actions.extend(self.kill_all());
        actions
    }

    fn kill_all(&mut self) -> Vec<Action> {
        if let Stage::ShuttingDown(shutdown) = &mut self.stage {
            shutdown.kills = true;
        }
        let mut actions = self.members.tell_all(JobCommand::Kill);
        actions.push(Action::StartTimer(Timer::Patience, PATIENCE));
        actions
    }

    /// Some process does not even die of SIGKILL; whoever stops us must not wait for it.
    pub(super) fn patience_elapsed(&mut self, now: Moment) -> Vec<Action> {
        let Stage::ShuttingDown(_) = self.stage else { return vec![] };
        let line = LogLine::new(Severity::Error, "leaving although not all processes are gone");
        let mut actions = vec![Action::Log(line.about("jobs", self.members.living()))];
        actions.extend(self.leave(now));
        // They had their time: nothing more is waited for.
        actions.push(Action::EndOrphans { grace: Duration::ZERO, patience: Duration::ZERO });
        actions
    }

    /// Every job is over. Processes that left their job's group may still live: they end before we do.
    fn leave(&mut self, now: Moment) -> Vec<Action> {
        let Stage::ShuttingDown(shutdown) = &self.stage else { return vec![] };
        let status = shutdown.status.unwrap_or_else(|| exit_status(self.members.list(), &shutdown.reason));
        let is_quiet = shutdown.reason == Reason::Completed;
        let level = if is_quiet { Severity::Debug } else { Severity::Info };
        let mut actions = vec![Action::log(level, shutdown.summary(now))];
        if is_quiet && status != 0 {
            let text = "every job is complete: exits with status";
            let text = format!("{text} {status}, that of the first job that failed");
            actions.push(Action::log(Severity::Info, text));
        }
        let left = match self.spec.stop_timeout {
            StopBudget::Within(budget) if !shutdown.kills => shutdown.began.plus(budget).since(now),
            StopBudget::Within(_) | StopBudget::Immediate => Duration::ZERO,
        };
        self.stage = Stage::EndingOrphans { status };
        actions.push(Action::EndOrphans { grace: left.min(ORPHAN_GRACE), patience: PATIENCE });
        actions
    }

    /// Nothing of any job is left.
    pub(super) fn orphans_gone(&mut self) -> Vec<Action> {
        let Stage::EndingOrphans { status } = self.stage else { return vec![] };
        self.stage = Stage::Gone;
        vec![Action::Exit(status)]
    }

    /// A signal that asks for a shutdown. Another one, `REPEAT_AFTER` or later after the first, kills.
    pub(super) fn interrupt(&mut self, now: Moment, signal: Signal) -> Vec<Action> {
        let is_first = self.interrupted.is_none();
        let first = *self.interrupted.get_or_insert(now);
        let is_repeated = !is_first && now.since(first) >= REPEAT_AFTER;
        match &self.stage {
            Stage::Running | Stage::Reloading(_) => {
                let mut actions = vec![Action::log(Severity::Info, format!("{signal} received"))];
                actions.extend(self.shut_down(now, Reason::Signal));
                actions
            }
            Stage::ShuttingDown(_) if is_repeated => {
                let text = format!("{signal} received again: killing everything");
                let mut actions = vec![Action::log(Severity::Warning, text)];
                actions.extend(self.kill_all());
                actions
            }
            Stage::ShuttingDown(_) if is_first => {
                vec![Action::log(Severity::Info, format!("{signal} received: shutting down already"))]
            }
            Stage::EndingOrphans { .. } if is_repeated => {
                vec![Action::EndOrphans { grace: Duration::ZERO, patience: PATIENCE }]
            }
            Stage::ShuttingDown(_) | Stage::EndingOrphans { .. } | Stage::Gone => vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{event, job, with};
    use super::*;
    use crate::config::spec::Trigger;
    use crate::messages::event::EventCode;

    #[test]
    fn a_job_that_listens_for_an_end_needs_no_order_once_it_runs_or_waits_in_vain() {
        let listens = |phase| {
            let stopped = Trigger::Once(event("db", EventCode::Stopped));
            with(job("last", phase), |spec| spec.when.trigger = stopped)
        };
        let progresses = |phase, is_lost| candidate(&listens(phase), is_lost, false).progresses;
        assert!(progresses(Phase::Running, false));
        assert!(progresses(Phase::Waiting, true));
        assert!(!progresses(Phase::Waiting, false), "the end that it waits for may come");
        assert!(!progresses(Phase::Complete, false));
        assert!(!candidate(&job("app", Phase::Running), false, false).progresses, "it has to be told");
    }
}
