//! The Pilot: the root of the program. It creates and ends jobs and watches, reloads the configuration and ends the
//! program. The decisions are in [`machine`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use actix::prelude::*;
use tokio::sync::oneshot;

use super::consul_agent::link::{Reconnect, connect};
use super::consul_agent::{ConsulAgent, SetOwnService};
use super::machine::{Clock, Driver};
use super::watch::Watch;
use super::web_server::{AdoptListeners, DiscardListeners, PrepareListeners, WebServer};
use crate::config::spec::Spec;
use crate::logging::{Log, PreparedLog};
use crate::messages::bus::{BarrierReached, Bus, Report};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::process::{EndOrphans, OrphansGone};
use crate::messages::signal::Signal;
use crate::messages::status::Board;
use crate::metrics::Recorder;
use crate::offload;
use crate::process::Environ;

mod control;
pub mod machine;
mod own_service;
mod owned;
mod signals;

use machine::{Action, BadConfiguration, Input, Purpose, Reply, State};
pub use own_service::{host_name, own_service};
use owned::JobAddress;
pub use owned::JobFactory;
pub use signals::{SignalArrived, listen_to_all};

/// Loads the configuration anew, with that environment for its templates.
pub type Load = dyn Fn(&BTreeMap<String, String>) -> Result<Spec, BadConfiguration> + Send + Sync;

/// The other parts of the program that the Pilot uses.
pub struct Resources {
    /// Where it logs.
    pub log: Log,
    /// The clock of the whole program.
    pub clock: Clock,
    /// Loads the configuration anew.
    pub load: Arc<Load>,
    /// The environment that processes start with.
    pub environ: Arc<Environ>,
    /// Where it publishes.
    pub bus: Bus,
    /// The state of jobs and watches, for display.
    pub board: Board,
    /// Creates jobs.
    pub jobs: JobFactory,
    /// The one who talks to Consul.
    pub consul: Addr<ConsulAgent>,
    /// Serves the control socket and telemetry, if anything does.
    pub web_server: Option<Addr<WebServer>>,
    /// Ends processes that jobs left behind.
    pub reaper: Recipient<EndOrphans>,
    /// Counts reloads.
    pub recorder: Recorder,
}

/// Tells processes what the configuration says of the environment.
pub fn configure_environment(environ: &mut Environ, spec: &Spec) {
    let advertised = spec
        .jobs
        .iter()
        .filter_map(|job| job.advertise.as_ref().map(|advertise| (&*job.name, advertise.address)));
    let own = spec.telemetry.as_ref().filter(|_| spec.consul.is_some());
    let own = own.map(|telemetry| (own_service::NAME, telemetry.address));
    environ.configure(spec.env.clone(), advertised.chain(own));
    environ.configure_files(spec.variable_files.clone());
}

/// The root actor.
pub struct Pilot {
    driver: Driver<State>,
    resources: Resources,
    jobs: HashMap<Arc<str>, JobAddress>,
    watches: HashMap<Arc<str>, Addr<Watch>>,
    /// Clients that wait for a reply, by the number of the request.
    replies: HashMap<u64, oneshot::Sender<Reply>>,
    last_request: u64,
    /// A change of the environment that is not decided yet.
    changed_environ: Option<Environ>,
    /// The log of the configuration that is being prepared.
    prepared_log: Option<PreparedLog>,
    /// Signals that are handled only because a job asks for them.
    heard_for_jobs: BTreeSet<Signal>,
    exit: Option<oneshot::Sender<u8>>,
}

/// Command to ourselves: the turn has come in which a decision is due.
#[derive(Message)]
#[rtype(result = "()")]
struct Decide;

impl Pilot {
    /// A pilot for that configuration; `exit` hears the exit status when all is over.
    pub fn new(spec: Arc<Spec>, resources: Resources, exit: oneshot::Sender<u8>) -> Self {
        Self {
            driver: Driver::new(State::new(spec), &resources.clock),
            resources,
            jobs: HashMap::new(),
            watches: HashMap::new(),
            replies: HashMap::new(),
            last_request: 0,
            changed_environ: None,
            prepared_log: None,
            heard_for_jobs: BTreeSet::new(),
            exit: Some(exit),
        }
    }

    fn advance(&mut self, input: Input, ctx: &mut Context<Self>) {
        for action in self.driver.step(input) {
            self.perform(action, ctx);
        }
        let mut board = self.resources.board.write();
        board.maintenance = self.driver.machine().is_in_maintenance();
        board.shutting_down = self.driver.machine().is_shutting_down();
        board.groups = self.driver.machine().group_statuses();
        if board.shutting_down {
            board.shutdown_began.get_or_insert_with(Instant::now);
        }
    }

    fn perform(&mut self, action: Action, ctx: &mut Context<Self>) {
        match action {
            Action::StartJob(spec, generation) => self.start_job(&spec, generation),
            Action::EndJob(name) => self.end_job(&name),
            Action::Tell(name, command) => self.tell(&name, command),
            Action::PublishOutcomes(name, are_awaited) => self.publish_outcomes(&name, are_awaited),
            Action::TellJobEvent(name, key) => self.tell_job_event(&name, key),
            Action::StartWatch(spec, generation) => self.start_watch(spec, generation),
            Action::EndWatch(name) => self.end_watch(&name),
            Action::BeginWatch(name) => self.begin_watch(&name),
            Action::Reconnect(consul) => self.resources.consul.do_send(Reconnect(consul)),
            Action::AdvertiseTelemetry(telemetry) => {
                self.resources.consul.do_send(SetOwnService(telemetry.as_ref().map(own_service)));
            }
            Action::Publish(key) => drop(self.resources.bus.publish(key, None)),
            Action::PublishShutdown => {
                let key = EventKey { code: EventCode::Shutdown, source: Source::Global };
                let number = self.resources.bus.publish(key, None);
                self.advance(Input::ShutdownPublished(number), ctx);
            }
            Action::Barrier => self.resources.bus.barrier(),
            Action::DecideSoon => ctx.address().do_send(Decide),
            Action::Load(purpose) => self.load(purpose, ctx),
            Action::Prepare(spec) => self.prepare(spec, ctx),
            Action::Adopt(spec) => self.adopt(&spec, ctx),
            Action::Discard => self.discard(),
            Action::StartTimer(timer, time) => {
                ctx.run_later(time, move |pilot, ctx| pilot.advance(Input::Elapsed(timer), ctx));
            }
            Action::EndOrphans { grace, patience } => {
                self.resources.reaper.do_send(EndOrphans { grace, patience });
            }
            Action::UseEnvironment(request) => self.use_environment(request, ctx),
            Action::ReopenLog => self.resources.log.reopen(),
            Action::Log(line) => line.write(self.resources.log.logger()),
            Action::Reply(request, reply) => {
                if let Some(asker) = self.replies.remove(&request) {
                    let _ = asker.send(reply);
                }
            }
            Action::Exit(status) => {
                if let Some(exit) = self.exit.take() {
                    let _ = exit.send(status);
                }
            }
        }
    }

    /// Reads and validates on another thread: a slow disk or user database must not stop us.
    fn load(&self, purpose: Purpose, ctx: &mut Context<Self>) {
        let load = Arc::clone(&self.resources.load);
        let environment = self.resources.environ.for_templates();
        let loaded = offload::run(move || load(&environment));
        ctx.spawn(fut::wrap_future(loaded).map(move |outcome, pilot: &mut Self, ctx| {
            let outcome =
                outcome.unwrap_or_else(|error| Err(format!("cannot load the configuration: {error}").into()));
            if purpose == Purpose::Reload {
                pilot.show_refusal(outcome.is_err());
            }
            pilot.advance(Input::Loaded(purpose, outcome.map(Arc::new)), ctx);
        }));
    }

    /// Gets hold of what can fail of a new configuration, before anything changes: the way to Consul, the sockets to
    /// listen on and the log, whose file is created last.
    fn prepare(&self, spec: Arc<Spec>, ctx: &mut Context<Self>) {
        let (consul, web_server) = (self.check_consul(&spec), self.resources.web_server.clone());
        let prepared = async move {
            consul?;
            if let Some(server) = web_server {
                let bound = server.send(PrepareListeners(Arc::clone(&spec))).await;
                bound.map_err(|error| error.to_string())??;
            }
            Ok(spec)
        };
        ctx.spawn(fut::wrap_future(prepared).map(|outcome, pilot: &mut Self, ctx| {
            let outcome = outcome.and_then(|spec| pilot.prepare_log(&spec));
            pilot.show_refusal(outcome.is_err());
            pilot.advance(Input::Prepared(outcome), ctx);
        }));
    }

    /// Shows users that a reload is refused, or that none is.
    fn show_refusal(&self, is_refused: bool) {
        self.resources.board.write().refused_reload = is_refused.then(SystemTime::now);
        if is_refused {
            self.resources.recorder.metrics().reload_ended(false);
        }
    }

    fn prepare_log(&mut self, spec: &Spec) -> Result<(), String> {
        self.prepared_log =
            Some(self.resources.log.prepare(&spec.logging).map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Whether the new configuration's Consul can be spoken to at all, if it is another one.
    fn check_consul(&self, spec: &Spec) -> Result<(), String> {
        if self.driver.machine().spec().consul == spec.consul {
            return Ok(());
        }
        let connected = connect(spec.consul.as_ref(), self.resources.log.logger());
        connected.map(drop).map_err(|error| format!("the client of Consul: {error}"))
    }

    fn adopt(&mut self, spec: &Spec, ctx: &Context<Self>) {
        if let Some(log) = self.prepared_log.take() {
            self.resources.log.adopt(log);
        }
        if let Some(server) = &self.resources.web_server {
            server.do_send(AdoptListeners);
        }
        configure_environment(Arc::make_mut(&mut self.resources.environ), spec);
        let environ = Arc::clone(&self.resources.environ);
        drop(self.resources.jobs.jobs.launcher.use_environment(environ));
        self.resources.jobs.jobs.launcher.keep_descriptors(spec);
        self.listen_for_jobs(spec, ctx);
        self.resources.recorder.metrics().reload_ended(true);
    }

    fn discard(&mut self) {
        self.prepared_log = None;
        if let Some(server) = &self.resources.web_server {
            server.do_send(DiscardListeners);
        }
    }
}

impl Actor for Pilot {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let spec = Arc::clone(self.driver.machine().spec());
        self.listen_for_jobs(&spec, ctx);
        self.advance(Input::Started, ctx);
    }
}

impl Handler<BarrierReached> for Pilot {
    type Result = ();

    fn handle(&mut self, _: BarrierReached, ctx: &mut Context<Self>) {
        self.advance(Input::Delivered, ctx);
    }
}

impl Handler<Report> for Pilot {
    type Result = ();

    fn handle(&mut self, report: Report, ctx: &mut Context<Self>) {
        self.advance(Input::Reported(report), ctx);
    }
}

impl Handler<Decide> for Pilot {
    type Result = ();

    fn handle(&mut self, _: Decide, ctx: &mut Context<Self>) {
        self.advance(Input::DecisionDue, ctx);
    }
}

impl Handler<SignalArrived> for Pilot {
    type Result = ();

    fn handle(&mut self, SignalArrived(signal): SignalArrived, ctx: &mut Context<Self>) {
        self.advance(Input::Signal(signal), ctx);
    }
}

impl Handler<OrphansGone> for Pilot {
    type Result = ();

    fn handle(&mut self, _: OrphansGone, ctx: &mut Context<Self>) {
        self.advance(Input::OrphansGone, ctx);
    }
}
