//! The decisions about the whole program: which jobs and watches there are, when each is told to stop, when the
//! configuration changes, when the program ends and with which status. Pure: no clock, no I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::actors::machine::{Kind, LogLine, Machine, Severity};
use crate::config::spec::{ConsulSpec, JobSpec, Spec, TelemetrySpec, WatchSpec};
use crate::messages::bus::Report;
use crate::messages::control::{ControlJob, Refusal, Reload, ReloadSummary};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::job::{JobChanged, JobCommand, Phase};
use crate::messages::moment::Moment;
use crate::messages::signal::Signal;

mod by_hand;
mod changeover;
mod environment;
mod facts;
mod forwarding;
mod group;
mod groups;
mod member;
mod members;
mod needs;
mod plan;
mod prospects;
mod reload;
mod review;
mod shutdown;
mod signals;
mod startable;
mod stop_order;
#[cfg(test)]
mod tests;

pub use environment::ExecStrings;
use group::Group;
use members::Members;
pub use reload::BadConfiguration;
use reload::{Reloading, Reloads};
use review::review;
use shutdown::Shutdown;
use signals::Meaning;

/// Everything that the Pilot knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The configuration that is in force.
    spec: Arc<Spec>,
    /// Counts configurations: tells jobs and watches from others that had their name before.
    generation: u64,
    members: Members,
    groups: Vec<Group>,
    watches: BTreeMap<Arc<str>, Watched>,
    stage: Stage,
    reloads: Reloads,
    maintenance: bool,
    /// When the first signal came that asks for a shutdown.
    interrupted: Option<Moment>,
    /// A decision is due in the next turn.
    is_due: bool,
    /// Barriers that are under way: what we published before them may not have been heard.
    #[serde(default)]
    barriers: u32,
}

/// How far the program's life has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Stage {
    Running,
    Reloading(Reloading),
    ShuttingDown(Shutdown),
    /// Jobs are over; what they left behind is being ended.
    EndingOrphans {
        status: u8,
    },
    Gone,
}

/// The state of a watch, as the Pilot knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Watched {
    generation: u64,
    /// Whether it was told to begin.
    has_begun: bool,
    /// Whether there are instances, once Consul has answered.
    found: Option<bool>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// The program begins.
    Started,
    /// Everything that was published before the last [`Action::Barrier`] is delivered.
    Delivered,
    /// A job or watch reports.
    Reported(Report),
    /// The turn after [`Action::DecideSoon`] has come.
    DecisionDue,
    /// A signal arrived.
    Signal(Signal),
    /// Somebody asks for a reload, and waits for the reply to this number.
    ReloadAsked(Option<u64>, Reload),
    /// A configuration was loaded, or could not be: then the report says why.
    Loaded(Purpose, Result<Arc<Spec>, BadConfiguration>),
    /// The listeners, log and Consul client of the new configuration are ready for use, or could not be made.
    Prepared(Result<(), String>),
    /// The event that tells of the shutdown has this number.
    ShutdownPublished(u64),
    /// The timer has elapsed.
    Elapsed(Timer),
    /// No process that jobs left behind lives any more.
    OrphansGone,
    /// Somebody orders something to be done to a job, and waits for the reply to this number.
    JobOrdered(u64, ControlJob),
    /// Somebody sets maintenance, and waits for the reply to this number.
    MaintenanceSet(u64, bool),
    /// Somebody changes the environment of processes started from now on, and waits for the reply to this number.
    EnvironmentAsked(u64, ExecStrings),
    /// Processes are started with the changed environment that was asked for with this number.
    EnvironmentUsed(u64),
}

/// The purpose of loading a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// To be put into force.
    Reload,
    /// To tell what that would do.
    DryRun {
        /// The number of the request.
        request: u64,
        /// Whether what did not change would be restarted too.
        restart_all: bool,
    },
}

/// The timers of a reload or shutdown; none is ever cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timer {
    /// Most of the time to stop is over.
    LastCall,
    /// The time to stop is over.
    StopBudget,
    /// The time is over that killed processes have to disappear.
    Patience,
    /// The time is over that jobs have which a reload ends, and which run when others stop. The number tells of which reload.
    HooksOfReload(u64),
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Action {
    /// Create the actors of a job, of that generation, and subscribe it to its events.
    StartJob(Arc<JobSpec>, u64),
    /// End the actors of a job that is over.
    EndJob(Arc<str>),
    /// Command a job.
    Tell(Arc<str>, JobCommand),
    /// Have the checks of a job publish the outcome of each try, or not.
    PublishOutcomes(Arc<str>, bool),
    /// Tell one job of an event that happened before it was there.
    TellJobEvent(Arc<str>, EventKey),
    /// Create a watch, of that generation.
    StartWatch(WatchSpec, u64),
    /// End a watch.
    EndWatch(Arc<str>),
    /// Let a watch ask Consul from now on.
    BeginWatch(Arc<str>),
    /// Reach Consul like this from now on.
    Reconnect(Option<ConsulSpec>),
    /// Advertise our own telemetry like this from now on.
    AdvertiseTelemetry(Option<TelemetrySpec>),
    /// Publish an event.
    Publish(EventKey),
    /// Publish `shutdown`, and tell its number by [`Input::ShutdownPublished`].
    PublishShutdown,
    /// Report [`Input::Delivered`] once everything published so far is delivered.
    Barrier,
    /// Report [`Input::DecisionDue`] in the next turn: several changes lead to one decision.
    DecideSoon,
    /// Load the configuration, then report [`Input::Loaded`].
    Load(Purpose),
    /// Make the listeners, log and Consul client of this configuration, which can fail, then report [`Input::Prepared`].
    Prepare(Arc<Spec>),
    /// Put to use what was prepared for this configuration.
    Adopt(Arc<Spec>),
    /// Give back what was prepared.
    Discard,
    /// Report the end of a timer after this time.
    StartTimer(Timer, Duration),
    /// End what jobs left behind, then report [`Input::OrphansGone`]: SIGTERM, after `grace` SIGKILL, and no wait beyond
    /// `patience` after that.
    EndOrphans {
        /// How long they have after SIGTERM.
        grace: Duration,
        /// How long they have after SIGKILL.
        patience: Duration,
    },
    /// Start processes with the environment that was asked for with this number, then report
    /// [`Input::EnvironmentUsed`].
    UseEnvironment(u64),
    /// Open the log file anew.
    ReopenLog,
    /// Log this.
    Log(LogLine),
    /// Reply to whoever asked.
    Reply(u64, Reply),
    /// End the program with this status.
    Exit(u8),
}

/// A reply to whoever asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Reply {
    /// To a reload.
    Reload(Result<ReloadSummary, Refusal>),
    /// To an order to a job.
    Order(Result<(), Refusal>),
    /// To maintenance: whether that changed anything.
    Maintenance(bool),
    /// To a change of the environment.
    Environment(Result<(), Refusal>),
}

impl Action {
    fn log(severity: Severity, text: impl Into<String>) -> Self {
        Self::Log(LogLine::new(severity, text))
    }
}

impl State {
    /// A program that has not begun.
    pub fn new(spec: Arc<Spec>) -> Self {
        Self {
            spec,
            generation: 0,
            members: Members::default(),
            groups: vec![],
            watches: BTreeMap::new(),
            stage: Stage::Running,
            reloads: Reloads::default(),
            maintenance: false,
            interrupted: None,
            is_due: false,
            barriers: 0,
        }
    }

    /// The configuration that is in force.
    pub const fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// Whether the program is in maintenance.
    pub const fn is_in_maintenance(&self) -> bool {
        self.maintenance
    }

    /// Whether the program shuts down.
    pub const fn is_shutting_down(&self) -> bool {
        matches!(self.stage, Stage::ShuttingDown(_) | Stage::EndingOrphans { .. } | Stage::Gone)
    }

    fn start(&mut self) -> Vec<Action> {
        let spec = Arc::clone(&self.spec);
        let mut actions = self.start_jobs(&spec.jobs.iter().collect::<Vec<_>>(), |_| false);
        self.change_groups(&BTreeSet::new());
        actions.extend(watches_of(&spec).iter().map(|watch| self.start_watch(watch)));
        actions.extend([Action::Publish(global(EventCode::Startup)), self.barrier()]);
        actions.extend(self.begin_watches());
        actions
    }

    fn barrier(&mut self) -> Action {
        self.barriers += 1;
        Action::Barrier
    }

    /// Everybody has received what we published. Answers from before may not take it into account, so they no longer count.
    fn delivered(&mut self) -> Vec<Action> {
        self.barriers = self.barriers.saturating_sub(1);
        self.members.note_news();
        if self.barriers == 0 {
            self.note_announced();
        }
        self.decide_soon()
    }

    fn start_watch(&mut self, watch: &WatchSpec) -> Action {
        let watched = Watched { generation: self.generation, has_begun: false, found: None };
        self.watches.insert(watch.name.clone(), watched);
        Action::StartWatch(watch.clone(), self.generation)
    }

    /// Begins the watches that may begin now: those with `after_coprocesses` wait until every coprocess was started.
    fn begin_watches(&mut self) -> Vec<Action> {
        let are_started = self.members.list().iter().all(|job| job.is_ordinary() || job.was_started());
        let mut actions = vec![];
        for watch in watches_of(&self.spec).iter().filter(|watch| are_started || !watch.after_coprocesses) {
            if let Some(watched) = self.watches.get_mut(&watch.name).filter(|watched| !watched.has_begun) {
                watched.has_begun = true;
                actions.push(Action::BeginWatch(watch.name.clone()));
            }
        }
        actions
    }

    fn reported(&mut self, now: Moment, report: Report) -> Vec<Action> {
        match report {
            Report::Job(change) => self.job_changed(now, &change),
            Report::Watch(change) => {
                let watch = self.watches.get_mut(&change.name);
                if let Some(watch) = watch.filter(|watch| watch.generation == change.generation) {
                    watch.found = change.found;
                }
                vec![]
            }
        }
    }

    fn job_changed(&mut self, now: Moment, change: &JobChanged) -> Vec<Action> {
        let Some((completed, job)) = self.members.note(change) else { return vec![] };
        let (is_reason_to_end, is_ordinary) = (job.is_too_ill(), job.is_ordinary());
        if let Some(told) = job.told.filter(|_| completed) {
            self.note_completed(&change.name, now.since(told));
        }
        // A job that waits again may wait for an event that can no longer come.
        let is_idle = matches!(change.phase, Phase::Complete | Phase::Halted | Phase::Waiting);
        let was_ordered = self.has_ordered_group();
        let mut actions = self.note_in_group(now, change);
        if !is_ordinary && matches!(self.stage, Stage::Running) {
            actions.extend(self.begin_watches());
        }
        let is_done = was_ordered && !self.has_ordered_group();
        let is_answer = change.answers.is_some();
        if is_idle || is_answer || is_done || is_reason_to_end || !matches!(self.stage, Stage::Running) {
            actions.extend(self.decide_soon());
        }
        actions
    }

    fn decide_soon(&mut self) -> Vec<Action> {
        if std::mem::replace(&mut self.is_due, true) { vec![] } else { vec![Action::DecideSoon] }
    }

    fn decide(&mut self, now: Moment) -> Vec<Action> {
        self.is_due = false;
        match &self.stage {
            Stage::Running => self.look_at_all(now),
            Stage::Reloading(_) => self.go_on_reloading(now),
            Stage::ShuttingDown(_) => self.go_on_stopping(now),
            Stage::EndingOrphans { .. } | Stage::Gone => vec![],
        }
    }

    fn look_at_all(&mut self, now: Moment) -> Vec<Action> {
        let review = review(self.members.list());
        let mut actions = vec![];
        // A member that is over starts once those after it have stopped, if somebody ordered that.
        if self.barriers == 0 && !self.has_ordered_group() {
            actions.extend(self.members.give_up(&review.lost, false));
        }
        let Some(reason) = review.end else { return actions };
        if !review.dormant.is_empty() && self.barriers > 0 {
            return actions;
        }
        let next = self.members.ask(&review.dormant).unwrap_or_else(|| self.shut_down(now, reason));
        actions.extend(next);
        actions
    }

    fn signal(&mut self, now: Moment, signal: Signal) -> Vec<Action> {
        let event = EventKey { code: EventCode::Signal, source: Source::Signal(signal) };
        if let Some(actions) = self.forward(signal, &event) {
            return actions;
        }
        match signals::meaning(signal, &self.spec.shutdown_signals) {
            Meaning::ShutDown => self.interrupt(now, signal),
            Meaning::HangUp => self.hang_up(event),
            Meaning::ReopenLog => vec![Action::ReopenLog],
            Meaning::Event => vec![Action::Publish(event)],
            Meaning::Unexpected => {
                let advice = "it does nothing here; to shut down by it, add it to shutdownSignals";
                vec![Action::log(Severity::Warning, format!("{signal} received: {advice}"))]
            }
            Meaning::Nothing => vec![],
        }
    }

    /// SIGHUP is an event if some job waits for it, else it asks for a reload.
    fn hang_up(&mut self, event: EventKey) -> Vec<Action> {
        if self.is_awaited(&event) {
            vec![Action::Publish(event)]
        } else if self.is_shutting_down() {
            vec![Action::log(Severity::Warning, "SIGHUP received: no reload while shutting down")]
        } else {
            self.ask_reload(None, Reload { restart_all: false, dry_run: false })
        }
    }

    fn elapsed(&mut self, now: Moment, timer: Timer) -> Vec<Action> {
        match timer {
            Timer::LastCall => self.last_call(now),
            Timer::StopBudget => self.stop_budget_elapsed(),
            Timer::Patience => self.patience_elapsed(now),
            Timer::HooksOfReload(since) => self.hooks_elapsed(now, since),
        }
    }
}

impl Machine for State {
    type Input = Input;
    type Action = Action;
    const KIND: Kind = Kind::Pilot;

    fn step(&mut self, now: Moment, input: Input) -> Vec<Action> {
        match input {
            Input::Started => self.start(),
            Input::Delivered => self.delivered(),
            Input::Reported(report) => self.reported(now, report),
            Input::DecisionDue => self.decide(now),
            Input::Signal(signal) => self.signal(now, signal),
            Input::ReloadAsked(request, reload) => self.ask_reload(request, reload),
            Input::Loaded(purpose, outcome) => self.loaded(purpose, outcome),
            Input::Prepared(outcome) => self.prepared(now, outcome),
            Input::ShutdownPublished(number) => {
                self.note_shutdown_event(number);
                vec![]
            }
            Input::Elapsed(timer) => self.elapsed(now, timer),
            Input::OrphansGone => self.orphans_gone(),
            Input::JobOrdered(request, control) => self.order(now, request, &control),
            Input::MaintenanceSet(request, on) => self.set_maintenance(request, on),
            Input::EnvironmentAsked(request, strings) => self.change_environment(request, &strings),
            Input::EnvironmentUsed(request) => self.environment_used(request),
        }
    }
}

fn global(code: EventCode) -> EventKey {
    EventKey { code, source: Source::Global }
}

/// The watches of a configuration: none without Consul.
fn watches_of(spec: &Spec) -> &[WatchSpec] {
    if spec.consul.is_some() { &spec.watches } else { &[] }
}
