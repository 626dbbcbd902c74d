//! The Job actor: performs one job's life. The decisions are in [`machine`].

use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use actix::prelude::*;
use slog::{Logger, debug, error, o};

use super::machine::{Clock, Driver};
use super::task::{Task, cancel};
use crate::config::spec::JobSpec;
use crate::logging::{KeptOutput, LogSink};
use crate::messages::bus::{Bus, Hold, HoldReleased, Notice};
use crate::messages::crashes::{Dossier, Dossiers, Failure, Usage};
use crate::messages::discovery::{DiscoveryCommand, Withdrawn};
use crate::messages::event::{Detail, EventCode, EventKey, Source};
use crate::messages::health::{CheckChanged, CheckCommand, Health};
use crate::messages::job::{JobChanged, JobCommand, Phase};
use crate::messages::process::ExecutionReport;
use crate::messages::signal::Signal;
use crate::messages::status::{Board, JobStatus};
use crate::metrics::Recorder;
use crate::process::wall_clock::WallTimer;
use crate::process::{Kind, Launcher, Order, random_share};

pub mod machine;
mod timers;

use machine::{Action, Deadline, Input, State};

/// How much of the output of a process that failed is in its dossier.
const LINES_OF_A_CRASH: usize = 50;
const BYTES_OF_A_CRASH: usize = 8 << 10;

/// The resources that all jobs share.
pub struct JobResources {
    /// Publishes events, and reports to the Pilot.
    pub bus: Bus,
    /// Starts processes.
    pub launcher: Launcher,
    /// The ConsulAgent.
    pub consul: Recipient<DiscoveryCommand>,
    /// This host's name, a part of service ids.
    pub host: Arc<str>,
    /// Shows users what a job does.
    pub board: Board,
    /// The clock of the whole program.
    pub clock: Clock,
    /// The log.
    pub log: Logger,
    /// Where the output of its processes goes, if there is room.
    pub sink: LogSink,
    /// The last of that output.
    pub kept: KeptOutput,
    /// The last failures of each job.
    pub dossiers: Dossiers,
    /// Counts crashes.
    pub recorder: Recorder,
}

/// One job.
pub struct Job {
    driver: Driver<State>,
    resources: Rc<JobResources>,
    checks: Vec<Recipient<CheckCommand>>,
    log: Logger,
    /// The timer of the phase.
    timer: Option<Task>,
    /// The deadlines of the execution.
    deadlines: Vec<(Deadline, Task)>,
    /// The next tick, or the end of the wait for the first trigger.
    schedule: Option<Task>,
    /// The timer of a cron schedule, and the wait for it.
    wall_timer: Option<Rc<WallTimer>>,
    clock_wait: Option<Task>,
    /// The wait until the log has room.
    log_room: Option<Task>,
    /// Kept while we act on another job's `stopping`.
    hold: Option<Arc<Hold>>,
    /// The hold of the event that is being handled.
    offered: Option<Arc<Hold>>,
    /// The time at which the phase began.
    since: SystemTime,
    /// The resources used by the process that ended last.
    usage: Option<Box<Usage>>,
    /// Its last failure has a dossier that does not say yet what follows.
    is_undecided: bool,
    /// The time at which the timer of the phase elapses.
    until: Option<SystemTime>,
    /// The time at which the timer of `when` elapses.
    schedule_until: Option<SystemTime>,
}

impl Job {
    /// A job that waits for its trigger, with its checks already there.
    pub fn new(
        spec: Arc<JobSpec>,
        generation: u64,
        resources: Rc<JobResources>,
        checks: Vec<Recipient<CheckCommand>>,
    ) -> Self {
        Self {
            log: resources.log.new(o!("job" => spec.name.to_string())),
            driver: Driver::new(State::new(spec, generation, &resources.host), &resources.clock),
            resources,
            checks,
            timer: None,
            deadlines: Vec::new(),
            schedule: None,
            wall_timer: None,
            clock_wait: None,
            log_room: None,
            hold: None,
            offered: None,
            since: SystemTime::now(),
            usage: None,
            is_undecided: false,
            until: None,
            schedule_until: None,
        }
    }

    fn advance(&mut self, input: Input, ctx: &mut Context<Self>) {
        for action in self.driver.step(input) {
            self.perform(action, ctx);
        }
    }

    fn perform(&mut self, action: Action, ctx: &mut Context<Self>) {
        match action {
            Action::NotePhase { from, to } => {
                debug!(self.log, "{from} → {to}");
                self.since = SystemTime::now();
            }
            Action::CheckLog => self.check_log(ctx),
            Action::AwaitLog => {
                let sink = self.resources.sink.clone();
                let room = async move { sink.room().await };
                self.log_room = Some(Task::spawn(room, ctx, |(), job: &mut Self, ctx| job.check_log(ctx)));
            }
            Action::CancelAwaitLog => cancel(&mut self.log_room, ctx),
            Action::Launch(occasion) => self.launch(occasion, ctx),
            Action::End(execution, signal) => self.resources.launcher.end(execution, signal),
            Action::Signal(execution, signal) => self.resources.launcher.signal(execution, signal),
            Action::Forward(execution, main, signal) => {
                self.resources.launcher.forward(execution, main, signal);
            }
            Action::Publish { code, detail, hold } => {
                let hold = hold.map(|number| Hold::new(ctx.address().recipient(), number));
                let published = self.publish(code, detail, hold);
                self.advance(Input::Published(published), ctx);
            }
            Action::DrawJitter => self.advance(Input::JitterDrawn(random_share()), ctx),
            Action::StartTimer(wait) => {
                self.until = SystemTime::now().checked_add(wait);
                self.timer = Some(Task::later(wait, ctx, |job: &mut Self, ctx| {
                    job.until = None;
                    job.advance(Input::TimerElapsed, ctx);
                }));
            }
            Action::CancelTimer => {
                self.until = None;
                cancel(&mut self.timer, ctx);
            }
            Action::StartDeadline(deadline, wait) => self.start_deadline(deadline, wait, ctx),
            Action::CancelDeadline(deadline) => self.cancel_deadline(deadline, ctx),
            Action::StartSchedule(wait) => {
                let elapsed =
                    |job: &mut Self, ctx: &mut Context<Self>| job.advance(Input::ScheduleElapsed, ctx);
                self.schedule_until = SystemTime::now().checked_add(wait);
                self.schedule = Some(Task::later(wait, ctx, elapsed));
            }
            Action::CancelSchedule => cancel(&mut self.schedule, ctx),
            Action::ReadClock => self.read_clock(ctx),
            Action::StartClock(at) => self.start_clock(at, ctx),
            Action::StopClock => {
                cancel(&mut self.clock_wait, ctx);
                self.wall_timer = None;
            }
            Action::KeepHold => self.hold = self.offered.take(),
            Action::ReleaseHold => self.hold = None,
            Action::Check(command) => self.checks.iter().for_each(|check| check.do_send(command)),
            Action::Advertise(registration, status) => {
                self.resources.consul.do_send(DiscoveryCommand::Advertise(registration, status));
            }
            Action::Withdraw { id, is_awaited } => {
                let reply = is_awaited.then(|| ctx.address().recipient());
                self.resources.consul.do_send(DiscoveryCommand::Withdraw(id, reply));
            }
            Action::Report(changed) => self.resources.bus.report(changed),
            Action::NoteFailure(failure) => self.note_failure(failure),
            Action::Show => {
                self.show();
                self.note_decision();
            }
            Action::Log(severity, text, pid) => severity.log(&self.log, &text, slog::kv!("pid" => pid)),
            Action::Stop => ctx.stop(),
        }
    }

    /// Writes a dossier. Called before the board shows the end, so the results of checks there are the last ones.
    fn note_failure(&mut self, failure: Failure) {
        let name = self.name();
        let pid = failure.pid.and_then(|pid| u32::try_from(pid).ok());
        let lines =
            pid.map(|pid| self.resources.kept.last_lines(&name, pid, LINES_OF_A_CRASH, BYTES_OF_A_CRASH));
        let board = self.resources.board.read();
        let checks = board.jobs.get(&name).map(|status| status.checks.clone()).unwrap_or_default();
        let dossier = Dossier {
            time: SystemTime::now(),
            failure,
            usage: self.usage.take().map(|usage| *usage),
            lines: lines.unwrap_or_default(),
            checks: checks
                .into_iter()
                .map(|(check, verdict)| {
                    let failing = board.failing.get(&(Arc::clone(&name), Arc::clone(&check)));
                    (check, verdict, failing.map(|failing| failing.reason.clone()))
                })
                .collect(),
            events: None,
            decision: String::new(),
        };
        self.resources.dossiers.push(&name, dossier);
        self.is_undecided = true;
    }

    /// Completes the dossier when it is clear what follows.
    fn note_decision(&mut self) {
        if self.is_undecided {
            let (decision, is_final) = self.driver.machine().decision();
            self.resources.dossiers.decide(&self.name(), decision);
            self.is_undecided = !is_final;
        }
    }

    fn show(&self) {
        let machine = self.driver.machine();
        let mut status = JobStatus { since: self.since, next_run: self.next_run(), ..machine.status() };
        status.account.until = self.until;
        status.account.gives_up = self.schedule_until.filter(|_| machine.gives_up_in_time());
        self.resources.board.write().jobs.insert(self.name(), Arc::new(status));
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.driver.machine().spec().name)
    }

    fn check_log(&mut self, ctx: &mut Context<Self>) {
        self.log_room = None;
        let is_flooded = self.resources.sink.is_flooded();
        self.advance(Input::LogChecked { is_flooded }, ctx);
    }

    fn launch(&mut self, occasion: Option<EventKey>, ctx: &mut Context<Self>) {
        let job = Arc::clone(self.driver.machine().spec());
        let order = Order { raw_output: job.raw_output, job, kind: Kind::Job, occasion };
        let owner = ctx.address().recipient();
        let execution = self.resources.launcher.launch(order, owner);
        self.advance(Input::Launched(execution), ctx);
    }

    fn publish(&self, code: EventCode, detail: Detail, hold: Option<Arc<Hold>>) -> u64 {
        let key = EventKey { code, source: Source::Job(self.name()) };
        self.resources.bus.publish_with(key, self.driver.machine().cause(), detail, hold)
    }
}

impl Actor for Job {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.advance(Input::Created, ctx);
    }
}

impl Handler<Notice> for Job {
    type Result = ();

    fn handle(&mut self, notice: Notice, ctx: &mut Context<Self>) {
        let (key, cause) = (notice.event.key.clone(), notice.cause());
        let has_hold = notice.hold.is_some();
        self.offered = notice.hold;
        self.advance(Input::Happened { key, cause, has_hold }, ctx);
        self.offered = None;
    }
}

impl Handler<JobCommand> for Job {
    type Result = ();

    fn handle(&mut self, command: JobCommand, ctx: &mut Context<Self>) {
        self.advance(Input::Commanded(command), ctx);
    }
}

impl Handler<ExecutionReport> for Job {
    type Result = ();

    fn handle(&mut self, report: ExecutionReport, ctx: &mut Context<Self>) {
        let input = match report {
            ExecutionReport::Started(started) => Input::Started(started),
            ExecutionReport::Ended(ended, usage) => {
                self.usage = usage;
                if let Some(reason) = self.driver.machine().crash(&ended) {
                    self.resources.recorder.metrics().job_crashed(&self.name(), reason);
                }
                Input::Ended(ended)
            }
            ExecutionReport::Ready(execution) => Input::ReadyTold(execution),
            ExecutionReport::Notified(execution, news) => Input::Notified(execution, news),
            ExecutionReport::Gone(execution) => Input::GroupGone(execution),
        };
        self.advance(input, ctx);
    }
}

impl Handler<CheckChanged> for Job {
    type Result = ();

    fn handle(&mut self, change: CheckChanged, ctx: &mut Context<Self>) {
        self.advance(Input::CheckChanged(change), ctx);
    }
}

impl Handler<Withdrawn> for Job {
    type Result = ();

    fn handle(&mut self, _: Withdrawn, ctx: &mut Context<Self>) {
        self.advance(Input::Withdrawn, ctx);
    }
}

impl Handler<HoldReleased> for Job {
    type Result = ();

    fn handle(&mut self, HoldReleased(number): HoldReleased, ctx: &mut Context<Self>) {
        self.advance(Input::HoldReleased(number), ctx);
    }
}

impl Drop for Job {
    /// Nobody waits forever for a job whose actor died by a panic.
    fn drop(&mut self) {
        let last = self.driver.machine().changed(None);
        if !std::thread::panicking() || matches!(last.phase, Phase::Complete | Phase::Halted) {
            return;
        }
        error!(self.log, "the job's actor ended unexpectedly: its processes are killed");
        for check in &self.checks {
            check.do_send(CheckCommand::Pause);
        }
        if let Some(execution) = self.driver.machine().execution() {
            self.resources.launcher.end(execution, Signal::KILL);
        }
        if let Some(id) = self.driver.machine().service_id() {
            self.resources.consul.do_send(DiscoveryCommand::Withdraw(Arc::clone(id), None));
        }
        if !last.phase.is_stopping() {
            self.publish(EventCode::Stopping, Detail::reason("its actor ended unexpectedly"), None);
        }
        self.publish(EventCode::Stopped, Detail::default(), None);
        let (phase, health) = (Phase::Complete, Health::Unknown);
        self.resources.bus.report(JobChanged { phase, returns: false, health, ready: false, ..last });
    }
}
