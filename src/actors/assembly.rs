//! Puts the actors together and runs them: the only place that knows them all.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use slog::Logger;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::consul_agent::ConsulAgent;
use super::consul_agent::link::connect;
use super::health_check::CheckResources;
use super::health_check::http::Http;
use super::job::JobResources;
use super::machine::Clock;
use super::pilot::{
    JobFactory, Load, Pilot, Resources, configure_environment, host_name, listen_to_all, own_service,
};
use super::reaper::Reaper;
use super::registry::{PilotAddress, Registry};
use super::web_server::endpoints::Listeners;
use super::web_server::event_log::EventLog;
use super::web_server::page::feed::Feed;
use super::web_server::{AppState, CloseConnections, PilotLink, WebServer};
use crate::config::spec::Spec;
use crate::logging::{KeptOutput, Log};
use crate::messages::bus::{Bus, Interest, Subscribe};
use crate::messages::crashes::Dossiers;
use crate::messages::discovery::WithdrawAll;
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::status::Board;
use crate::metrics::Recorder;
use crate::process::{Environ, Kernel, Launcher};
use crate::reason::reason;
use crate::recording::Recording;

/// How long the last withdrawals may take once everything else is over.
const FAREWELL_LIMIT: Duration = Duration::from_millis(500);
/// The descriptors of so many pipes are more than actix needs.
const PIPES_AT_START: usize = 6;

/// The parts that the program is assembled from.
pub struct Setup {
    /// The first configuration.
    pub spec: Spec,
    /// Loads the next one.
    pub load: Arc<Load>,
    /// Where everything is logged.
    pub log: Log,
    /// Starts processes and waits for them.
    pub kernel: Box<dyn Kernel>,
    /// The environment that processes start with.
    pub environ: Environ,
    /// Where the inputs of all machines are written down, if they are.
    pub recording: Option<Recording>,
}

/// Supervises until everything is over; returns the status to exit with. With `needs_control`, there must be a control socket.
pub fn run(setup: Setup, needs_control: bool) -> io::Result<u8> {
    check_descriptors()?;
    System::new().block_on(async {
        let listeners = Listeners::bind(&setup.spec, needs_control, setup.log.logger())?;
        let program = assemble(setup, Some(listeners))?;
        listen_to_all(&program.pilot)?;
        let status = program.exited.await;
        if let Some(web_server) = program.web_server {
            let _ = web_server.send(CloseConnections).await;
        }
        // A job that was killed did not wait until it was deregistered. A healthy Consul does that in a moment.
        let _ = tokio::time::timeout(FAREWELL_LIMIT, program.consul.send(WithdrawAll)).await;
        status.map_err(|_| io::Error::other("the supervisor ended unexpectedly"))
    })
}

/// An error if only a few files may be open: actix panics if it cannot open those that it needs.
fn check_descriptors() -> io::Result<()> {
    let pipes: Result<Vec<_>, _> = (0..PIPES_AT_START).map(|_| io::pipe()).collect();
    pipes.map(drop).map_err(|error| {
        io::Error::new(error.kind(), format!("too few files may be open: {}", reason(&error)))
    })
}

/// The program, put together and about to publish `startup`.
pub struct Program {
    /// The root actor.
    pub pilot: Addr<Pilot>,
    /// Where events can be listened for.
    pub registry: Addr<Registry>,
    /// The one who talks to Consul.
    pub consul: Addr<ConsulAgent>,
    /// The state of jobs and watches, for display.
    pub board: Board,
    /// Serves the control socket and telemetry.
    pub web_server: Option<Addr<WebServer>>,
    /// Tells the status to exit with.
    pub exited: oneshot::Receiver<u8>,
}

/// Puts the actors together, within a running actix system; `listeners` are served, if there are any. Nothing runs
/// before the caller waits.
pub fn assemble(setup: Setup, listeners: Option<Listeners>) -> io::Result<Program> {
    let Setup { spec, load, log, kernel, mut environ, recording } = setup;
    configure_environment(&mut environ, &spec);
    let clock = Clock::start(recording);
    let (exit, exited) = oneshot::channel();
    let board = Board::default();
    let recorder = Recorder::default();
    let queued = Rc::new(Cell::new(0));
    let (kept, dossiers) = (KeptOutput::default(), Dossiers::default());
    let pilot_context = Context::<Pilot>::new();
    let pilot = pilot_context.address();
    let environ = Arc::new(environ);
    let orphans_gone = pilot.clone().recipient();
    let reaper =
        Reaper::new(kernel, Arc::clone(&environ), orphans_gone, &clock, (log.clone(), kept.clone()))?.start();
    let launcher = Launcher::new(reaper.clone().recipient());
    let pilot_address =
        PilotAddress { reports: pilot.clone().recipient(), barriers: pilot.clone().recipient() };
    let registry = Registry::new(log.logger().clone(), pilot_address, Rc::clone(&queued)).start();
    let bus = Bus::new(registry.clone().recipient());
    let consul = start_consul_agent(&spec, (&board, &recorder), &registry, (&clock, log.logger()))?;
    let checks = Rc::new(CheckResources {
        launcher: launcher.clone(),
        sink: log.sink().clone(),
        http: Http::default(),
        recorder: recorder.clone(),
        clock: clock.clone(),
        bus: bus.clone(),
        board: board.clone(),
    });
    let jobs = Rc::new(JobResources {
        bus: bus.clone(),
        launcher,
        consul: consul.clone().recipient(),
        host: host_name(),
        board: board.clone(),
        clock: clock.clone(),
        log: log.logger().clone(),
        sink: log.sink().clone(),
        kept: kept.clone(),
        dossiers: dossiers.clone(),
        recorder: recorder.clone(),
    });
    let web_server = listeners.map(|listeners| {
        let state = AppState {
            pilot: PilotLink {
                reload: pilot.clone().recipient(),
                job: pilot.clone().recipient(),
                maintenance: pilot.clone().recipient(),
                environment: pilot.clone().recipient(),
                inquiry: pilot.clone().recipient(),
            },
            board: board.clone(),
            recorder: recorder.clone(),
            events: EventLog::default(),
            kept,
            dossiers,
            queued,
            started: Instant::now(),
            sink: Some(log.sink().clone()),
            feed: Feed::default(),
        };
        let web_server = WebServer::new(listeners, &spec, state, log.logger().clone()).start();
        let recipient = web_server.clone().recipient();
        registry.do_send(Subscribe { interest: Interest::Everything, recipient });
        web_server
    });
    let resources = Resources {
        log,
        clock,
        load,
        environ,
        bus,
        board: board.clone(),
        jobs: JobFactory { jobs, checks, registry: registry.clone() },
        consul: consul.clone(),
        web_server: web_server.clone(),
        reaper: reaper.recipient(),
        recorder,
    };
    pilot_context.run(Pilot::new(Arc::new(spec), resources, exit));
    Ok(Program { pilot, registry, consul, board, web_server, exited })
}

/// Starts the one who talks to Consul, and subscribes it to what it registers and withdraws our own service at.
fn start_consul_agent(
    spec: &Spec,
    (board, recorder): (&Board, &Recorder),
    registry: &Addr<Registry>,
    (clock, log): (&Clock, &Logger),
) -> io::Result<Addr<ConsulAgent>> {
    let client = connect(spec.consul.as_ref(), log)
        .map_err(|error| io::Error::other(format!("the client of Consul: {error}")))?;
    let own_service = spec.telemetry.as_ref().map(own_service);
    let agent =
        ConsulAgent::new(client, (board.clone(), recorder.clone()), own_service, (clock, log)).start();
    let keys =
        [EventCode::Startup, EventCode::Shutdown, EventCode::EnterMaintenance, EventCode::ExitMaintenance]
            .map(|code| EventKey { code, source: Source::Global });
    let interest = Interest::Keys(keys.to_vec());
    registry.do_send(Subscribe { interest, recipient: agent.clone().recipient() });
    Ok(agent)
}
