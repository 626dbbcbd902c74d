//! The Job actor: performs one job's life. What it does is decided in [`lifecycle`], [`trigger`], [`backoff`]
//! and [`health`]; here messages become inputs and actions become effects.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use slog::{Logger, debug, info, o, warn};
use tokio::time::Instant;

use crate::config::spec::JobSpec;
use crate::logging::LogSink;
use crate::messages::bus::{Bus, Hold};
use crate::messages::discovery::Withdrawn;
use crate::messages::event::{Detail, EventCode, EventKey};
use crate::messages::health::{CheckCommand, Health};
use crate::messages::job::{JobChanged, Missing, Phase};
use crate::messages::process::{ExecutionId, Pid, ProcessEnded};
use crate::messages::signal::Signal;
use crate::messages::status::{Board, JobStatus};
use crate::metrics::Recorder;
use crate::process::Launcher;

pub mod advertisement;
pub mod backoff;
pub mod health;
mod inbox;
pub mod lifecycle;
mod publishing;
mod reasons;
mod starting;
mod ticker;
mod timers;
pub mod trigger;

use advertisement::{Advertisement, Discovery};
use health::Checks;
use lifecycle::{Action, Afterwards, Cadence, Input, Policy, State, step};
use reasons::Kill;
use trigger::Listener;

/// How long Consul may take to forget a job that stops.
const DEREGISTRATION_LIMIT: Duration = Duration::from_secs(2);
/// How long a step of a stop may take outside a shutdown, unless configured.
const STEP_LIMIT: Duration = Duration::from_secs(5);

/// Starts and successes of a job with a shorter interval are logged at DEBUG.
const ROUTINE_INTERVAL: Duration = Duration::from_secs(60);

/// What jobs need of the program around them.
pub struct Surroundings {
    /// Where it publishes.
    pub bus: Bus,
    /// What starts its processes.
    pub launcher: Launcher,
    /// The way to Consul.
    pub discovery: Discovery,
    /// Where it shows what it does.
    pub board: Board,
    /// Where what it does is counted.
    pub recorder: Recorder,
    /// Where it logs.
    pub log: Logger,
    /// Where the output of its processes goes, if there is room.
    pub sink: LogSink,
}

/// One job.
pub struct Job {
    spec: Arc<JobSpec>,
    generation: u64,
    around: Rc<Surroundings>,
    log: Logger,
    policy: Policy,
    state: State,
    listener: Listener,
    checks: Checks,
    advertisement: Option<Advertisement>,
    execution: Option<Execution>,
    /// The execution waits until the log can take its output.
    postponed: Option<SpawnHandle>,
    /// The timer of the current phase.
    timer: Option<SpawnHandle>,
    /// The next tick, or the end of the wait for the first trigger.
    schedule: Option<SpawnHandle>,
    /// The last event in the chain that led here.
    cause: Option<u64>,
    /// The event that started the current execution.
    occasion: Option<EventKey>,
    /// Kept while we act on another job's `stopping`.
    hold: Option<Arc<Hold>>,
    /// The number of our own latest hold.
    holds: u64,
    in_shutdown: bool,
    last_status: Option<u8>,
    last_exit: Option<String>,
    /// Why it gave up before its first run.
    never_ran: Option<String>,
    /// Details of the end that is about to be published.
    ended: Option<Detail>,
    /// Why we sent SIGKILL to the current execution.
    kill: Option<Kill>,
    /// Why it was told to stop.
    stop_reason: Option<&'static str>,
    /// Executions since it was configured.
    runs: u64,
    since: SystemTime,
    /// The phase and health that the Pilot knows, and whether the job returns from that phase.
    reported: Option<(Phase, bool, Health)>,
}

/// The execution under way, or the last one.
struct Execution {
    id: ExecutionId,
    /// Its process and when that became its program; `None` while it is being started.
    process: Option<(Pid, Instant)>,
}

impl Job {
    /// A job that waits for its trigger, with its checks already there.
    pub fn new(
        spec: Arc<JobSpec>,
        generation: u64,
        around: Rc<Surroundings>,
        checks: Vec<Recipient<CheckCommand>>,
    ) -> Self {
        Self {
            log: around.log.new(o!("job" => spec.name.to_string())),
            policy: Policy::from(&*spec),
            state: State::new(),
            listener: Listener::new(spec.when.trigger.clone()),
            checks: Checks::new(checks),
            advertisement: Advertisement::new(&spec, &around.discovery),
            execution: None,
            postponed: None,
            timer: None,
            schedule: None,
            cause: None,
            occasion: None,
            hold: None,
            holds: 0,
            in_shutdown: false,
            last_status: None,
            last_exit: None,
            never_ran: None,
            ended: None,
            kill: None,
            stop_reason: None,
            runs: 0,
            since: SystemTime::now(),
            reported: None,
            spec,
            generation,
            around,
        }
    }

    /// The events that a job must be told of.
    pub fn interests(spec: &JobSpec) -> Vec<EventKey> {
        let mut keys = trigger::keys(&spec.when.trigger);
        if spec.when.timeout.is_some() && !keys.contains(&trigger::startup()) {
            keys.push(trigger::startup());
        }
        keys
    }

    /// What a job that has seen no event waits for.
    pub fn first_missing(spec: &JobSpec) -> Missing {
        Listener::new(spec.when.trigger.clone()).missing()
    }

    fn advance(&mut self, input: Input, ctx: &mut Context<Self>) {
        let (next, actions) = step(&self.policy, self.state, input);
        let before = self.state.phase;
        if next.phase != before {
            debug!(self.log, "{before} → {}", next.phase);
            self.since = SystemTime::now();
            self.cancel_timer(ctx);
        }
        self.state = next;
        if actions.contains(&Action::Kill) {
            self.kill = Kill::by(input).or(self.kill);
        }
        if !self.policy.has_process {
            self.follow_without_process(before);
        }
        for action in actions {
            self.perform(action, ctx);
        }
        if before != Phase::Running && self.state.phase == Phase::Running {
            self.begin_advertisement();
        }
        self.advertise();
        if matches!(self.state.phase, Phase::Complete | Phase::Halted) {
            self.hold = None;
            self.cancel_schedule(ctx);
        }
        self.report();
        self.show();
        if self.state.phase != Phase::Running
            && let Some(postponed) = self.postponed.take()
        {
            ctx.cancel_future(postponed);
            self.ended = Some(Detail::reason("stopped before it was started"));
            self.advance(Input::SpawnFailed, ctx);
        }
    }

    /// Shows users where the job is.
    fn show(&self) {
        let status = JobStatus {
            phase: self.state.phase,
            since: self.since,
            health: self.checks.health(),
            checks: self
                .spec
                .health
                .iter()
                .map(|check| check.name.clone())
                .zip(self.checks.verdicts())
                .collect(),
            pid: self.live_pid(),
            starting: self.state.phase == Phase::Running && self.policy.has_process && self.pid().is_none(),
            restarts: self.runs.saturating_sub(1),
            last_exit: self.last_status.zip(self.last_exit.clone()),
            advertised: self.spec.advertise.as_ref().map(|spec| (spec.address.to_string(), spec.port)),
            essential: self.spec.essential,
            required: self.spec.required,
            has_run: self.has_run(),
            never_ran: self.never_ran.clone().filter(|_| !self.has_run()),
            early_ends: self.state.early_ends,
            settles_after: self.spec.backoff.reset_after,
        };
        self.around.board.write().jobs.insert(self.spec.name.clone(), status);
    }

    /// A job that something else executes runs as soon as it need not wait.
    fn has_run(&self) -> bool {
        self.runs > 0 || !self.policy.has_process && self.state.phase != Phase::Waiting
    }

    /// A job that something else executes is checked for as long as it serves.
    fn follow_without_process(&mut self, before: Phase) {
        match (before == Phase::Running, self.state.phase == Phase::Running) {
            (false, true) => self.checks.begin(),
            (true, false) => self.checks.pause(),
            (true, true) | (false, false) => {}
        }
    }

    fn perform(&mut self, action: Action, ctx: &mut Context<Self>) {
        match action {
            Action::Spawn => {
                (self.kill, self.stop_reason) = (None, None);
                self.spawn(ctx);
            }
            Action::Publish(code) => self.publish(code),
            Action::PublishStoppingAndHold => {
                self.holds += 1;
                let hold = Hold::new(ctx.address().recipient(), self.holds);
                self.publish_with(EventCode::Stopping, Some(hold));
            }
            Action::Arm(timer) => self.arm(timer, ctx),
            Action::Deregister => self.deregister(ctx),
            Action::Signal => self.end_with(self.spec.stop.signal),
            Action::Kill => self.end_with(Signal::KILL),
        }
    }

    fn begin_advertisement(&mut self) {
        if let Some(advertisement) = &mut self.advertisement {
            advertisement.begin(self.checks.health());
        }
    }

    /// Tells Consul what the job's health means, if that changed. A job that stops and is not checked any more
    /// keeps its standing until it is withdrawn: its pre-stop jobs find it as it was.
    fn advertise(&mut self) {
        let health = self.checks.health();
        if health == Health::Unknown && self.state.phase.is_stopping() {
            return;
        }
        if let Some(advertisement) = &mut self.advertisement {
            advertisement.follow(health);
        }
    }

    fn deregister(&mut self, ctx: &mut Context<Self>) {
        match &mut self.advertisement {
            Some(advertisement) => advertisement.withdraw(Some(ctx.address().recipient())),
            None => ctx.address().do_send(Withdrawn),
        }
    }

    fn maintain(&mut self, on: bool) {
        self.checks.maintain(on);
        self.advertise();
        self.report();
        self.show();
    }

    /// Asks the process to end. It is not checked any more: that it does not answer is no news.
    fn end_with(&mut self, signal: Signal) {
        self.checks.pause();
        let Some(execution) = &self.execution else { return };
        debug!(self.log, "sends {signal}"; "pid" => self.pid());
        self.around.launcher.end(execution.id, signal);
    }

    fn signal(&self, signal: Signal) {
        let Some(execution) = &self.execution else { return };
        debug!(self.log, "sends {signal}"; "pid" => self.pid());
        self.around.launcher.signal(execution.id, signal);
    }

    fn pid(&self) -> Option<i32> {
        let (pid, _) = self.execution.as_ref()?.process?;
        Some(pid.number())
    }

    /// Tells the Pilot where the job is, if it is somewhere else than it was told last.
    fn report(&mut self) {
        let seen = (self.state.phase, self.returns(), self.checks.health());
        if self.reported == Some(seen) {
            return;
        }
        self.reported = Some(seen);
        self.tell_pilot(None);
    }

    /// Whether it stops, but not for good.
    fn returns(&self) -> bool {
        self.state.phase.is_stopping() && self.state.afterwards != Afterwards::Complete
    }

    fn tell_pilot(&self, answers: Option<u64>) {
        self.around.bus.report(JobChanged {
            name: self.spec.name.clone(),
            generation: self.generation,
            phase: self.state.phase,
            returns: self.returns(),
            health: self.checks.health(),
            missing: self.listener.missing(),
            last_status: self.last_status,
            answers,
        });
    }

    /// Says why a job will not run; one that has run, or could only run at the end, needs no words.
    fn note_loss(&mut self, in_shutdown: bool) {
        if self.state.phase == Phase::Waiting && self.runs == 0 && !in_shutdown {
            let reason = format!("{} can no longer come", self.listener.missing());
            warn!(self.log, "will not run: {reason}");
            self.never_ran = Some(reason);
        }
    }

    fn log_end(&self, ended: &ProcessEnded) {
        let pid = ended.pid.map(Pid::number);
        let asked = self.state.phase.is_stopping() || self.state.phase == Phase::TimedOut;
        if ended.for_memory || !ended.daemons.is_empty() || !(ended.status.is_success() || asked) {
            warn!(self.log, "{ended}"; "pid" => pid);
        } else if asked || self.is_routine() {
            debug!(self.log, "{ended}"; "pid" => pid);
        } else {
            info!(self.log, "{ended}"; "pid" => pid);
        }
        if !ended.daemons.is_empty() {
            warn!(self.log, "must stay in the foreground: what it put into the background ends with it"; "pid" => pid);
        }
    }

    /// Whether it runs so often that a line for each start and success would drown all others.
    fn is_routine(&self) -> bool {
        matches!(self.policy.cadence, Cadence::Interval(interval) if interval < ROUTINE_INTERVAL)
    }
}

impl Actor for Job {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Context<Self>) {
        self.begin_advertisement();
        self.show();
    }
}
