//! The decisions of a job. Pure: no clock, no I/O, no address. [`lifecycle`] decides the phases; the rules around it are
//! in the other files: which events start the job, its timers, its process, its health, what others are told.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::actors::machine::{Kind, Machine, Severity};
use crate::config::spec::JobSpec;
use crate::messages::account::FirstRun;
use crate::messages::crashes::Failure;
use crate::messages::discovery::{Registration, ServiceStatus};
use crate::messages::event::{Detail, EventCode, EventKey};
use crate::messages::health::{CheckChanged, CheckCommand, Health};
use crate::messages::job::{JobChanged, JobCommand, Phase};
use crate::messages::moment::{ClockReading, Moment, WallTime};
use crate::messages::notify::Notification;
use crate::messages::process::{ExecutionId, Pid, ProcessEnded, ProcessStarted};
use crate::messages::signal::Signal;

mod account;
mod advertisement;
mod calendar;
mod commands;
mod crash_reason;
mod crashes;
mod executions;
mod health;
pub mod lifecycle;
mod notify;
mod readiness;
mod reasons;
mod reporting;
mod restarts;
pub mod schedule;
#[cfg(test)]
mod tests;
mod timers;
pub mod trigger;
mod watchdog;

use advertisement::Advertisement;
use calendar::Calendar;
use executions::Execution;
use health::Checks;
use notify::ExecutionFacts;
use readiness::Readiness;
use reasons::{Kill, StopReason};
use restarts::Window;
use schedule::Schedule;
use timers::Countdown;
use trigger::Listener;

/// Everything that a job knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    spec: Arc<JobSpec>,
    /// Which of the jobs that had this name: one per configuration that was loaded.
    generation: u64,
    life: lifecycle::State,
    listener: Listener,
    checks: Checks,
    advertisement: Option<Advertisement>,
    /// The execution under way, or the last one.
    execution: Option<Execution>,
    /// The time of this step.
    now: Moment,
    /// Whether the execution under way can be used.
    readiness: Readiness,
    /// How long the last execution that became ready took for that.
    ready_after: Option<Duration>,
    /// The messages of the process by systemd's notify protocol.
    told: ExecutionFacts,
    /// Executions that were silent for too long.
    watchdog_kills: u64,
    /// The deadlines that are set.
    deadlines: Vec<Deadline>,
    /// The process is to start as soon as the log has room for its output.
    awaits_log: bool,
    /// The timer of the phase.
    timer: Option<Countdown>,
    schedule: Option<Schedule>,
    /// Where its cron schedule is, from startup on.
    calendar: Option<Box<Calendar>>,
    /// Ticks that led to no run of their own.
    missed_runs: u64,
    /// The last event in the chain that led here.
    cause: Option<u64>,
    /// The event that started the current execution.
    occasion: Option<EventKey>,
    /// It keeps the hold of another job, on whose `stopping` it acts.
    keeps_hold: bool,
    /// The number of its own latest hold.
    holds: u64,
    in_shutdown: bool,
    /// How its last execution ended: the status as a shell tells it, and in words.
    last_exit: Option<(u8, String)>,
    /// The status of that execution by the job's rules: 0 if and only if it was a success.
    last_outcome: Option<u8>,
    /// The restart rules exclude a restart after the last execution.
    is_last_run: bool,
    /// Why the restart rules exclude it, where the settings alone do not tell.
    no_restart: Option<String>,
    /// How its first execution went.
    beginnings: FirstRun,
    /// The restarts that count, if `restarts.per` limits them.
    restarted: Window,
    /// Why it gave up before its first run.
    never_ran: Option<String>,
    /// Details of the end that is about to be published.
    ended: Option<Detail>,
    /// Why we sent SIGKILL to the current execution.
    kill: Option<Kill>,
    /// The last signal that was sent to the current execution by hand.
    signalled: Option<Signal>,
    /// Why it was told to stop.
    stop_reason: Option<StopReason>,
    /// Executions since it was configured.
    runs: u64,
    /// The phase, health and readiness that the Pilot knows, and whether the job returns from that phase.
    reported: Option<(Phase, bool, Health, bool)>,
    /// The number of the last order of its group that it carried out.
    group_order: u64,
    /// It is over and not needed any more: what still comes is ignored.
    retired: bool,
}

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// Its actor runs.
    Created,
    /// An event that it listens for was published.
    Happened {
        /// The event.
        key: EventKey,
        /// The number of the event, if it has one.
        cause: Option<u64>,
        /// Whether it comes with a hold, to be kept by those who act on the event.
        has_hold: bool,
    },
    /// The Pilot's command.
    Commanded(JobCommand),
    /// The answer to [`Action::CheckLog`], or there is room after [`Action::AwaitLog`].
    LogChecked {
        /// The log has no room for the output of another process.
        is_flooded: bool,
    },
    /// The process was requested.
    Launched(ExecutionId),
    /// The process runs its program.
    Started(ProcessStarted),
    /// The process ended, or could not be started.
    Ended(ProcessEnded),
    /// The process has told that it can be used, by its descriptor or its output.
    ReadyTold(ExecutionId),
    /// The process has told something by systemd's protocol.
    Notified(ExecutionId, Box<Notification>),
    /// No process of an execution is left.
    GroupGone(ExecutionId),
    /// A check came to another verdict.
    CheckChanged(CheckChanged),
    /// Consul does not know the job any more.
    Withdrawn,
    /// Nobody acts on the `stopping` event with the hold of that number any more.
    HoldReleased(u64),
    /// The event was published under this number.
    Published(u64),
    /// The answer to [`Action::DrawJitter`]: a random number in 0..1.
    JitterDrawn(f64),
    /// The timer of the phase elapsed.
    TimerElapsed,
    /// A deadline of the execution has come.
    DeadlineElapsed(Deadline),
    /// The timer of the schedule elapsed.
    ScheduleElapsed,
    /// The answer to [`Action::ReadClock`]; after [`Action::StartClock`], also when it is that time or the clock was set.
    ClockRead(ClockReading),
}

/// Something that the actor is to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Action {
    /// Note that the phase changed, and when.
    NotePhase {
        /// The former phase.
        from: Phase,
        /// The phase from now on.
        to: Phase,
    },
    /// Report at once, as [`Input::LogChecked`], whether the log has room.
    CheckLog,
    /// Report [`Input::LogChecked`] when the log has room.
    AwaitLog,
    /// Wait for the log no longer.
    CancelAwaitLog,
    /// Request the process, which this event started, and report [`Input::Launched`] at once.
    Launch(Option<EventKey>),
    /// Ask every process of an execution to end.
    End(ExecutionId, Signal),
    /// Send a signal to the processes of an execution.
    Signal(ExecutionId, Signal),
    /// Send a signal to the main process of an execution.
    Forward(ExecutionId, Option<Pid>, Signal),
    /// Publish an event of the job, and report [`Input::Published`] at once.
    Publish {
        /// The code of the event.
        code: EventCode,
        /// Its details: process, status, reason.
        detail: Detail,
        /// The number of the hold that comes with it: [`Input::HoldReleased`] follows.
        hold: Option<u64>,
    },
    /// Report [`Input::JitterDrawn`] at once.
    DrawJitter,
    /// Report [`Input::TimerElapsed`] after this time.
    StartTimer(Duration),
    /// Cancel the timer of the phase.
    CancelTimer,
    /// Report [`Input::DeadlineElapsed`] after this time, in place of an earlier one of the kind.
    StartDeadline(Deadline, Duration),
    /// Cancel a deadline.
    CancelDeadline(Deadline),
    /// Report [`Input::ScheduleElapsed`] after this time.
    StartSchedule(Duration),
    /// Cancel the timer of the schedule.
    CancelSchedule,
    /// Report [`Input::ClockRead`] at once.
    ReadClock,
    /// Report [`Input::ClockRead`] at this time by the clock on the wall, and when somebody sets that clock.
    StartClock(WallTime),
    /// Follow the clock on the wall no longer.
    StopClock,
    /// Keep the hold of the event that just happened, in place of any other.
    KeepHold,
    /// Drop the hold that is kept.
    ReleaseHold,
    /// Tell every check.
    Check(CheckCommand),
    /// Have the job registered in Consul, with this status.
    Advertise(Arc<Registration>, ServiceStatus),
    /// Have this service registered no more.
    Withdraw {
        /// The service's id.
        id: Arc<str>,
        /// Report [`Input::Withdrawn`] when that is done.
        is_awaited: bool,
    },
    /// Tell the Pilot.
    Report(JobChanged),
    /// Show users [`State::status`].
    Show,
    /// Write a dossier of this failure.
    NoteFailure(Failure),
    /// Write this into the log, about that process.
    Log(Severity, String, Option<i32>),
    /// End the actor.
    Stop,
}

/// A time limit of an execution, beside that of its phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deadline {
    /// It has to be ready.
    Ready,
    /// It has to give a sign of life.
    Watchdog,
    /// It has to end after its watchdog has sent SIGABRT.
    Abort,
}

type Actions = Vec<Action>;

impl State {
    /// A job that waits for its trigger. The host's name is a part of its id in Consul.
    pub fn new(spec: Arc<JobSpec>, generation: u64, host: &str) -> Self {
        Self {
            life: lifecycle::State::new(),
            listener: Listener::new(spec.when.beginning()),
            checks: Checks::new(spec.health.len()),
            advertisement: Advertisement::new(&spec, host),
            execution: None,
            now: Moment::default(),
            readiness: Readiness::No,
            ready_after: None,
            told: ExecutionFacts::default(),
            watchdog_kills: 0,
            deadlines: Vec::new(),
            awaits_log: false,
            timer: None,
            schedule: None,
            calendar: None,
            missed_runs: 0,
            cause: None,
            occasion: None,
            keeps_hold: false,
            holds: 0,
            in_shutdown: false,
            last_exit: None,
            last_outcome: None,
            is_last_run: false,
            no_restart: None,
            beginnings: FirstRun::default(),
            restarted: Window::default(),
            never_ran: None,
            ended: None,
            kill: None,
            signalled: None,
            stop_reason: None,
            runs: 0,
            reported: None,
            group_order: 0,
            retired: false,
            spec,
            generation,
        }
    }

    /// Its settings.
    pub const fn spec(&self) -> &Arc<JobSpec> {
        &self.spec
    }

    /// The event that led to what it does now.
    pub const fn cause(&self) -> Option<u64> {
        self.cause
    }

    fn happened(&mut self, key: EventKey, cause: Option<u64>, has_hold: bool, list: &mut Actions) {
        let before = (self.listener.missing(), self.gives_up_in_time());
        let is_triggered = self.listener.observe(&key);
        let is_begun = self.schedule.is_some() || self.calendar.is_some();
        let begins =
            if self.spec.when.after.is_empty() { key.code == EventCode::Startup } else { is_triggered };
        if begins && !is_begun {
            self.schedule_from_beginning(list);
        }
        if !is_triggered {
            // Users see which of several are still missing, and until when it waits.
            if before != (self.listener.missing(), self.gives_up_in_time()) {
                list.push(Action::Show);
            }
            return;
        }
        if self.spec.when.waits_for_clock() {
            // It waits for no event any more: the Pilot has to know.
            self.reported = None;
            self.report(list);
            list.push(Action::Show);
            return;
        }
        if !self.spec.when.trigger.is_periodic() {
            self.cancel_schedule(list);
        }
        self.cause = cause;
        self.occasion = Some(key);
        self.advance(lifecycle::Input::Triggered, list);
        let answers = matches!(self.life.phase, Phase::Running | Phase::Delayed) || self.life.pending;
        if has_hold && answers {
            self.keeps_hold = true;
            list.push(Action::KeepHold);
        }
    }

    fn advance(&mut self, input: lifecycle::Input, list: &mut Actions) {
        let (next, actions) = lifecycle::step(&self.policy(), self.life, input);
        let before = self.life.phase;
        self.life = next;
        if next.phase != before {
            list.push(Action::NotePhase { from: before, to: next.phase });
            self.cancel_timer(list);
            self.cancel_deadlines(list);
        }
        if actions.contains(&lifecycle::Action::Kill) {
            self.kill = Kill::by(input).or(self.kill);
        }
        if self.spec.exec.is_none() {
            self.check_without_process(before, list);
        }
        for action in actions {
            self.perform(action, list);
        }
        if before != Phase::Running && next.phase == Phase::Running {
            self.begin_advertisement(list);
            if self.spec.exec.is_none() {
                self.ready_by_start(list);
            }
        }
        self.settle(list);
        if self.awaits_log && next.phase != Phase::Running {
            self.awaits_log = false;
            list.push(Action::CancelAwaitLog);
            self.ended = Some(Detail::reason("stopped before it was started"));
            self.advance(lifecycle::Input::SpawnFailed, list);
        }
    }

    fn perform(&mut self, action: lifecycle::Action, list: &mut Actions) {
        match action {
            lifecycle::Action::Spawn => self.spawn(list),
            lifecycle::Action::Publish(code) => self.publish(code, None, list),
            lifecycle::Action::PublishStoppingAndHold => {
                self.holds = self.holds.saturating_add(1);
                self.publish(EventCode::Stopping, Some(self.holds), list);
            }
            lifecycle::Action::Arm(timer) => self.start_timer(timer, list),
            lifecycle::Action::Deregister => {
                list.extend(self.advertisement.as_mut().map(Advertisement::withdraw));
            }
            lifecycle::Action::Signal => self.end(self.spec.stop.signal, list),
            lifecycle::Action::Kill => self.end(Signal::KILL, list),
        }
    }

    /// After every change: what is still kept, and what others are told of the job.
    fn settle(&mut self, list: &mut Actions) {
        self.follow_health(list);
        if matches!(self.life.phase, Phase::Complete | Phase::Halted) {
            self.release_hold(list);
            self.cancel_schedule(list);
        }
        self.report(list);
        list.push(Action::Show);
    }

    fn release_hold(&mut self, list: &mut Actions) {
        if self.keeps_hold {
            self.keeps_hold = false;
            list.push(Action::ReleaseHold);
        }
    }
}

impl Machine for State {
    type Input = Input;
    type Action = Action;
    const KIND: Kind = Kind::Job;

    fn name(&self) -> &str {
        &self.spec.name
    }

    fn step(&mut self, now: Moment, input: Input) -> Actions {
        let mut actions = Vec::new();
        let list = &mut actions;
        if self.retired {
            return actions;
        }
        self.now = now;
        self.forget_restarts();
        match input {
            Input::Created => {
                self.begin_advertisement(list);
                list.push(Action::Show);
            }
            Input::Happened { key, cause, has_hold } => self.happened(key, cause, has_hold, list),
            Input::Commanded(command) => self.command(command, list),
            Input::LogChecked { is_flooded } => self.log_checked(is_flooded, list),
            Input::Launched(id) => self.launched(id, list),
            Input::Started(started) => self.started(started, list),
            Input::Ended(ended) => self.process_ended(&ended, list),
            Input::ReadyTold(id) => self.ready_told(id, list),
            Input::Notified(id, notification) => self.notified(id, &notification, list),
            Input::GroupGone(id) => {
                if self.is_current(id) {
                    self.advance(lifecycle::Input::GroupGone, list);
                }
            }
            Input::CheckChanged(change) => self.check_changed(change, list),
            Input::Withdrawn => self.advance(lifecycle::Input::DeregistrationEnded, list),
            Input::HoldReleased(number) => {
                if number == self.holds {
                    self.advance(lifecycle::Input::HoldEnded, list);
                }
            }
            Input::Published(number) => self.cause = Some(number),
            Input::JitterDrawn(random) => self.start_delay(random, list),
            Input::TimerElapsed => self.timer_elapsed(list),
            Input::DeadlineElapsed(deadline) => self.deadline_elapsed(deadline, list),
            Input::ScheduleElapsed => self.schedule_elapsed(list),
            Input::ClockRead(reading) => self.clock_read(reading, list),
        }
        self.note_restarts();
        self.note_beginnings();
        actions
    }
}
