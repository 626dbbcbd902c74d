//! The decisions of a health check: when it is tried, one try at a time, and what the outcomes mean. Pure: no clock, no
//! I/O. The times between tries are in `schedule`.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::actors::machine::{Kind, Machine, Severity, is_late};
use crate::config::spec::{CheckSpec, CommandLine, HttpProbe, Probe};
use crate::messages::health::CheckChanged;
use crate::messages::moment::Moment;
use crate::messages::process::{ExecutionId, ExitStatus, Unstarted};

mod schedule;
#[cfg(test)]
mod tests;

use schedule::{Progress, first_try};

/// Everything that a check knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    spec: CheckSpec,
    /// Its place among the job's checks.
    index: usize,
    /// The execution of the job that is checked; `None` while nothing is.
    round: Option<Round>,
    /// The result of the tries of this round.
    progress: Progress,
    phase: Phase,
    /// The tries in a row that failed, if the last one did; kept until the next round, as users may ask why this one
    /// ended.
    failing: Option<Failing>,
    /// Whether a job waits for the outcomes of tries, which are published only then.
    publishes_outcomes: bool,
}

/// Tries in a row that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    /// Why the last one did.
    pub reason: String,
    /// How many there are.
    pub times: u64,
    /// When the next try is due, if that is known.
    pub next: Option<Moment>,
}

/// One execution of the job, as its checks see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Round {
    number: u64,
    /// The time at which the job's process started.
    since: Moment,
}

/// The step of its work that a check is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// No try runs, and none is scheduled.
    Idle,
    /// The next try follows when a timer elapses.
    Waiting,
    /// A try runs.
    Trying(Attempt),
    /// The outcome of the try is known, but a process of it is left. No try begins before all are gone.
    Ending(Attempt),
}

/// One try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Attempt {
    began: Moment,
    /// The process that carries it out; `None` for a connection or a request of our own.
    process: Option<ExecutionId>,
    /// When its process has to have ended.
    due: Moment,
    /// Its time was over too late, and it has it once more.
    is_spared: bool,
}

/// Something that happened to a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// The job's process has started; its execution has this number.
    Started(u64),
    /// The job's process has ended, or is not to be checked for now.
    Paused,
    /// The check is not needed any more.
    Retired,
    /// Some job waits for the outcomes of tries, or none does.
    OutcomesAwaited(bool),
    /// The time of the next try has come.
    TryDue,
    /// The process of the try was requested.
    Launched(ExecutionId),
    /// A connection or request of our own is over.
    Probed(ProbeOutcome),
    /// The process of a try has ended.
    ProcessEnded {
        /// Its execution.
        execution: ExecutionId,
        /// How it ended.
        status: ExitStatus,
        /// Why its program never ran, if it did not.
        unstarted: Option<Unstarted>,
        /// Other processes of it are left; [`Input::GroupGone`] follows once they are gone.
        leftover: bool,
    },
    /// No process of an execution is left.
    GroupGone(ExecutionId),
    /// The process of a try has run for as long as it may.
    TimeoutElapsed,
}

/// The outcome of a connection or request of our own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeOutcome {
    /// It got the expected answer.
    Passed,
    /// It did not, for this reason.
    Failed(String),
    /// It was not over within its timeout.
    TimedOut,
}

/// Something that the actor is to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Action {
    /// Report [`Input::TryDue`] after this time.
    Schedule(Duration),
    /// Cancel the timer of the next try.
    CancelNext,
    /// Start this program, and report [`Input::Launched`].
    Launch(Arc<CommandLine>),
    /// Report [`Input::TimeoutElapsed`] after this time.
    StartTimeout(Duration),
    /// Cancel the timer of the timeout.
    CancelTimeout,
    /// Connect to `host:port` within this time, and report [`Input::Probed`].
    Connect(Arc<str>, Duration),
    /// Send this request within this time, and report [`Input::Probed`].
    Request(Arc<HttpProbe>, Duration),
    /// Drop the connection or request.
    Abandon,
    /// Kill every process of this execution.
    Kill(ExecutionId),
    /// Add the duration of a try to the metrics.
    Measure(Duration),
    /// Show users that tries fail, or that they do not.
    Show(Option<Failing>),
    /// Publish whether the try passed, for jobs that wait for it.
    PublishOutcome {
        /// Whether it did.
        passed: bool,
    },
    /// Tell the job.
    Report(CheckChanged),
    /// Write this into the log.
    Log(Severity, String),
    /// End the actor.
    Stop,
}

const TIMED_OUT: &str = "took longer than its timeout";

impl State {
    /// The check at that place among a job's checks; it tries nothing before the job's process starts.
    pub fn new(spec: CheckSpec, index: usize) -> Self {
        Self {
            spec,
            index,
            round: None,
            progress: Progress::default(),
            phase: Phase::Idle,
            failing: None,
            publishes_outcomes: false,
        }
    }

    /// Its settings.
    pub const fn spec(&self) -> &CheckSpec {
        &self.spec
    }

    fn idle(&mut self, now: Moment, input: &Input) -> Vec<Action> {
        match input {
            Input::Started(round) => self.begin(now, *round),
            Input::Paused => self.pause(),
            Input::Retired => self.retire(),
            Input::TryDue
            | Input::Launched(_)
            | Input::Probed(_)
            | Input::ProcessEnded { .. }
            | Input::GroupGone(_)
            | Input::TimeoutElapsed
            | Input::OutcomesAwaited(_) => Vec::new(),
        }
    }

    fn waiting(&mut self, now: Moment, input: &Input) -> Vec<Action> {
        match input {
            Input::TryDue => self.try_once(now),
            Input::Started(round) => self.begin(now, *round),
            Input::Paused => self.pause(),
            Input::Retired => self.retire(),
            Input::Launched(_)
            | Input::Probed(_)
            | Input::ProcessEnded { .. }
            | Input::GroupGone(_)
            | Input::TimeoutElapsed
            | Input::OutcomesAwaited(_) => Vec::new(),
        }
    }

    fn trying(&mut self, now: Moment, attempt: Attempt, input: Input) -> Vec<Action> {
        match input {
            Input::Launched(execution) => {
                let due = now.plus(self.spec.timeout);
                self.phase = Phase::Trying(Attempt { process: Some(execution), due, ..attempt });
                vec![Action::StartTimeout(self.spec.timeout)]
            }
            Input::Probed(outcome) => {
                let mut actions = match outcome {
                    ProbeOutcome::Passed => self.conclude(now, attempt.began, Ok(())),
                    ProbeOutcome::Failed(reason) => self.conclude(now, attempt.began, Err(&reason)),
                    ProbeOutcome::TimedOut => self.conclude(now, attempt.began, Err(TIMED_OUT)),
                };
                actions.extend(self.schedule_after(now, attempt.began));
                actions
            }
            Input::ProcessEnded { execution, status, unstarted, leftover } => {
                if attempt.process != Some(execution) {
                    return Vec::new();
                }
                let mut actions = vec![Action::CancelTimeout];
                actions.extend(self.conclude_process(now, attempt.began, status, unstarted));
                if leftover {
                    self.phase = Phase::Ending(attempt);
                } else {
                    actions.extend(self.schedule_after(now, attempt.began));
                }
                actions
            }
            Input::TimeoutElapsed => self.time_out(now, attempt),
            Input::Started(round) => self.begin(now, round),
            Input::Paused => self.pause(),
            Input::Retired => self.retire(),
            // The next try is scheduled at the end of this one. A group is gone only after its process has ended.
            Input::TryDue | Input::GroupGone(_) | Input::OutcomesAwaited(_) => Vec::new(),
        }
    }

    fn ending(&mut self, now: Moment, attempt: Attempt, input: &Input) -> Vec<Action> {
        match input {
            Input::GroupGone(execution) | Input::ProcessEnded { execution, leftover: false, .. }
                if attempt.process == Some(*execution) =>
            {
                self.schedule_after(now, attempt.began).into_iter().collect()
            }
            Input::Started(round) => self.begin(now, *round),
            Input::Paused => self.pause(),
            Input::Retired => self.retire(),
            Input::GroupGone(_)
            | Input::ProcessEnded { .. }
            | Input::TryDue
            | Input::Launched(_)
            | Input::Probed(_)
            | Input::TimeoutElapsed
            | Input::OutcomesAwaited(_) => Vec::new(),
        }
    }

    fn begin(&mut self, now: Moment, round: u64) -> Vec<Action> {
        let mut actions = self.pause();
        self.round = Some(Round { number: round, since: now });
        self.progress = Progress::default();
        self.failing = None;
        if self.phase == Phase::Idle {
            actions.push(self.schedule(now, first_try(&self.spec)));
        }
        actions
    }

    /// Ends the round. The process of a try is killed, and its end is waited for.
    fn pause(&mut self) -> Vec<Action> {
        self.round = None;
        if let Some(failing) = &mut self.failing {
            failing.next = None;
        }
        match self.phase {
            Phase::Idle => Vec::new(),
            Phase::Waiting => {
                self.phase = Phase::Idle;
                vec![Action::CancelNext]
            }
            Phase::Trying(Attempt { process: None, .. }) | Phase::Ending(Attempt { process: None, .. }) => {
                self.phase = Phase::Idle;
                vec![Action::Abandon]
            }
            Phase::Trying(Attempt { process: Some(execution), .. })
            | Phase::Ending(Attempt { process: Some(execution), .. }) => vec![Action::Kill(execution)],
        }
    }

    fn retire(&mut self) -> Vec<Action> {
        self.failing = None;
        let mut actions = self.pause();
        actions.push(Action::Stop);
        actions
    }

    fn try_once(&mut self, now: Moment) -> Vec<Action> {
        let timeout = self.spec.timeout;
        let action = match &self.spec.probe {
            Probe::Exec(command) => Action::Launch(Arc::clone(command)),
            Probe::Tcp(address) => Action::Connect(Arc::clone(address), timeout),
            Probe::Http(probe) => Action::Request(Arc::clone(probe), timeout),
            Probe::Running => {
                // A round lasts as long as the job's process, so the process runs, and one try is enough.
                self.phase = Phase::Idle;
                return self.conclude(now, now, Ok(()));
            }
        };
        self.phase = Phase::Trying(Attempt { began: now, process: None, due: now, is_spared: false });
        vec![action]
    }

    /// It has failed now, however long its process takes to end: one that hangs in the kernel does so for ever.
    fn time_out(&mut self, now: Moment, attempt: Attempt) -> Vec<Action> {
        let Some(execution) = attempt.process else { return Vec::new() };
        if is_late(now, attempt.due) && !attempt.is_spared {
            let due = now.plus(self.spec.timeout);
            self.phase = Phase::Trying(Attempt { due, is_spared: true, ..attempt });
            return vec![Action::StartTimeout(self.spec.timeout)];
        }
        self.phase = Phase::Ending(attempt);
        let mut actions = vec![Action::Kill(execution)];
        actions.extend(self.conclude(now, attempt.began, Err(TIMED_OUT)));
        actions
    }

    fn conclude_process(
        &mut self,
        now: Moment,
        began: Moment,
        status: ExitStatus,
        unstarted: Option<Unstarted>,
    ) -> Vec<Action> {
        match unstarted {
            Some(Unstarted::Failed(reason)) => {
                let mut actions = vec![Action::Log(Severity::Error, reason.clone())];
                actions.extend(self.conclude(now, began, Err(&reason)));
                actions
            }
            // The round has ended: nothing counts.
            Some(Unstarted::Cancelled) => Vec::new(),
            None if status.is_success() => self.conclude(now, began, Ok(())),
            None => self.conclude(now, began, Err(&status.to_string())),
        }
    }

    /// Counts the outcome of a try, and tells the job if it changes the verdict.
    fn conclude(&mut self, now: Moment, began: Moment, outcome: Result<(), &str>) -> Vec<Action> {
        let name = Arc::clone(&self.spec.name);
        let mut actions = Vec::new();
        if let Err(reason) = outcome {
            actions.push(Action::Log(Severity::Debug, format!("{name}: {reason}")));
        }
        // A try that began before the round says nothing about it.
        let Some(round) = self.round.filter(|round| began >= round.since) else { return actions };
        let passed = outcome.is_ok();
        actions.push(Action::Measure(now.since(began)));
        self.note_failure(outcome.err());
        if self.publishes_outcomes {
            actions.push(Action::PublishOutcome { passed });
        }
        let before = self.progress.verdict;
        self.progress = self.progress.after(&self.spec, passed, now.since(round.since));
        let verdict = self.progress.verdict;
        if verdict != before {
            actions.push(match outcome {
                Ok(()) => Action::Log(Severity::Debug, format!("{name} is {verdict:?}")),
                Err(reason) => Action::Log(Severity::Info, format!("{name} is {verdict:?}: {reason}")),
            });
            actions.push(Action::Report(CheckChanged { check: self.index, round: round.number, verdict }));
        }
        actions
    }

    fn note_failure(&mut self, reason: Option<&str>) {
        let times = self.failing.as_ref().map_or(0, |failing| failing.times).saturating_add(1);
        self.failing = reason.map(|reason| Failing { reason: reason.to_owned(), times, next: None });
    }

    /// Schedules the try that follows the one that began then, if the round goes on.
    fn schedule_after(&mut self, now: Moment, began: Moment) -> Option<Action> {
        let Some(Round { since, .. }) = self.round else {
            self.phase = Phase::Idle;
            return None;
        };
        let age = now.since(since);
        let wait = if began >= since {
            self.progress.until_next(&self.spec, began.since(since), age, since.since_beginning())
        } else {
            first_try(&self.spec).saturating_sub(age) // It was a try of an earlier round.
        };
        Some(self.schedule(now, wait))
    }

    fn schedule(&mut self, now: Moment, wait: Duration) -> Action {
        self.phase = Phase::Waiting;
        if let Some(failing) = &mut self.failing {
            failing.next = Some(now.plus(wait));
        }
        Action::Schedule(wait)
    }
}

impl Machine for State {
    type Input = Input;
    type Action = Action;
    const KIND: Kind = Kind::HealthCheck;

    fn name(&self) -> &str {
        &self.spec.name
    }

    fn step(&mut self, now: Moment, input: Input) -> Vec<Action> {
        if let Input::OutcomesAwaited(are_awaited) = input {
            self.publishes_outcomes = are_awaited;
        }
        let shown = self.failing.clone();
        let mut actions = match self.phase {
            Phase::Idle => self.idle(now, &input),
            Phase::Waiting => self.waiting(now, &input),
            Phase::Trying(attempt) => self.trying(now, attempt, input),
            Phase::Ending(attempt) => self.ending(now, attempt, &input),
        };
        if self.failing != shown {
            actions.insert(0, Action::Show(self.failing.clone()));
        }
        actions
    }
}
