//! Puts the actors together and runs them: the only place that knows them all.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use actix::prelude::*;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::consul_agent::ConsulAgent;
use super::health_check::http::Http;
use super::health_check::{CheckResources, HealthCheck};
use super::job::advertisement::Discovery;
use super::job::{Job, Surroundings};
use super::machine::Clock;
use super::pilot::crew::Hand;
use super::pilot::view::JobView;
use super::pilot::{Load, Pilot, Prepare, SignalArrived, Tools, configure_environment};
use super::reaper::Reaper;
use super::registry::{Overseer, Registry};
use super::web_server::event_log::EventLog;
use super::web_server::places::{Listeners, Places};
use super::web_server::{Leave, PilotLink, Shared, WebServer};
use crate::config::spec::{CheckSpec, JobSpec, Spec};
use crate::logging::Log;
use crate::messages::bus::{Bus, Interest, Notice, Subscribe, Unsubscribe};
use crate::messages::discovery::WithdrawAll;
use crate::messages::signal::Signal;
use crate::messages::status::Board;
use crate::metrics::Recorder;
use crate::process::{Environ, Kernel, Launcher, accept_signals};

mod discovery;

use discovery::{Discovering, host_name};

/// How long the last withdrawals may take once everything else is over.
const FAREWELL_LIMIT: Duration = Duration::from_millis(500);
/// What the program is made from.
pub struct Parts {
    /// The first configuration.
    pub spec: Spec,
    /// Whether there must be a control socket.
    pub needs_control: bool,
    /// Loads the next one.
    pub load: Arc<Load>,
    /// Where everything is logged.
    pub log: Log,
    /// What starts and waits for processes.
    pub kernel: Box<dyn Kernel>,
    /// What processes start with.
    pub environ: Environ,
}

/// Supervises until everything is over; returns the status to exit with.
pub fn run(parts: Parts) -> io::Result<u8> {
    System::new().block_on(async {
        let listeners = Listeners::bind(&parts.spec, parts.needs_control, parts.log.logger())?;
        let program = assemble(parts, Some(listeners))?;
        forward_signals(&program.pilot)?;
        accept_signals()?;
        let status = program.exited.await;
        if let Some(web_server) = program.web_server {
            let _ = web_server.send(Leave).await;
        }
        // Who was killed did not wait for its withdrawal; a well Consul needs but a moment.
        let _ = tokio::time::timeout(FAREWELL_LIMIT, program.consul.send(WithdrawAll)).await;
        status.map_err(|_| io::Error::other("the supervisor ended unexpectedly"))
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
    /// What there is to see.
    pub board: Board,
    /// What serves the control socket and telemetry.
    pub web_server: Option<Addr<WebServer>>,
    /// Tells the status to exit with.
    pub exited: oneshot::Receiver<u8>,
}

/// Puts the actors together, within a running actix system; `listeners` are served, if there are any. Nothing runs
/// before the caller waits.
pub fn assemble(parts: Parts, listeners: Option<Listeners>) -> io::Result<Program> {
    let Parts { spec, needs_control: _, load, log, kernel, mut environ } = parts;
    configure_environment(&mut environ, &spec);
    let clock = Clock::start();
    let (exit, exited) = oneshot::channel();
    let board = Board::default();
    let recorder = Recorder::default();
    let queued = Rc::new(Cell::new(0));
    let pilot_context = Context::<Pilot>::new();
    let pilot = pilot_context.address();
    let environ = Rc::new(RefCell::new(environ));
    let orphans_gone = pilot.clone().recipient();
    let reaper = Reaper::new(kernel, Rc::clone(&environ), orphans_gone, clock, log.clone())?.start();
    let launcher = Launcher::new(reaper.clone().recipient());
    let overseer = Overseer { reports: pilot.clone().recipient(), marks: pilot.clone().recipient() };
    let registry = Registry::new(log.logger().clone(), overseer, Rc::clone(&queued)).start();
    let bus =
        Bus::new(registry.clone().recipient(), registry.clone().recipient(), registry.clone().recipient());
    let discovering =
        Rc::new(Discovering::new(&spec, bus.clone(), (&board, &recorder), &registry, (clock, log.logger()))?);
    let consul = discovering.agent.clone();
    let resources = Rc::new(CheckResources {
        launcher: launcher.clone(),
        sink: log.sink().clone(),
        http: Http::default(),
        recorder: recorder.clone(),
        clock,
        bus: bus.clone(),
        sources: RefCell::default(),
    });
    resources.configure(&spec);
    let around = Rc::new(Surroundings {
        bus: bus.clone(),
        launcher,
        discovery: Discovery { agent: consul.clone().recipient(), host: host_name() },
        board: board.clone(),
        recorder: recorder.clone(),
        log: log.logger().clone(),
        sink: log.sink().clone(),
    });
    let places = listeners.map(|listeners| {
        let pilot = PilotLink {
            reload: pilot.clone().recipient(),
            job: pilot.clone().recipient(),
            maintenance: pilot.clone().recipient(),
            environment: pilot.clone().recipient(),
        };
        let board = board.clone();
        let shared =
            Shared { pilot, board, recorder, events: EventLog::default(), queued, started: Instant::now() };
        Rc::new(Places::new(listeners, shared, log.logger().clone()))
    });
    let web_server = places.clone().map(|places| {
        let web_server = WebServer::new(places).start();
        let recipient = web_server.clone().recipient();
        registry.do_send(Subscribe { interest: Interest::Everything, recipient });
        web_server
    });
    let tools = Tools {
        log,
        orphans: reaper.recipient(),
        environ,
        bus,
        board: board.clone(),
        load,
        hire: Box::new({
            let (registry, resources) = (registry.clone(), Rc::clone(&resources));
            move |spec, generation| hire(spec, generation, &around, &resources, &registry)
        }),
        dismiss: Box::new({
            let registry = registry.clone();
            move |hand| registry.do_send(Unsubscribe(hand.notices.clone()))
        }),
        prepare: preparing(places, Rc::clone(&discovering)),
        reconfigured: {
            let discovery = Rc::clone(&discovering);
            vec![
                Box::new(move |old, new, facts| discovery.reconfigure(old, new, facts)),
                Box::new(move |_, new, _| resources.configure(new)),
            ]
        },
    };
    let spec = Rc::new(spec);
    pilot_context.run(Pilot::new(Rc::clone(&spec), tools, exit));
    discovering.observe_all(&spec);
    Ok(Program { pilot, registry, consul, board, web_server, exited })
}

/// What can fail of a new configuration: the places that it wants served, and the way to Consul.
fn preparing(places: Option<Rc<Places>>, discovering: Rc<Discovering>) -> Box<Prepare> {
    Box::new(move |old, new| {
        discovering.check(old, new).map_err(|error| error.to_string())?;
        let Some(places) = places.clone() else { return Ok(Box::new(|| {})) };
        let prepared = places.prepare(new).map_err(|error| error.to_string())?;
        Ok(Box::new(move || places.adopt(prepared)))
    })
}

/// Starts a job's actors and subscribes it to what it listens for.
fn hire(
    spec: &Arc<JobSpec>,
    generation: u64,
    around: &Rc<Surroundings>,
    resources: &Rc<CheckResources>,
    registry: &Addr<Registry>,
) -> Hand {
    let interests = Job::interests(spec);
    let view = JobView::new(spec, Job::first_missing(spec), &interests);
    let job = Job::create(|ctx| {
        let check = |(index, check): (usize, &CheckSpec)| {
            let verdicts = ctx.address().recipient();
            HealthCheck::new(
                Arc::clone(spec),
                index,
                check.clone(),
                verdicts,
                Rc::clone(resources),
                &around.log,
            )
            .start()
            .recipient()
        };
        let checks = spec.health.iter().enumerate().map(check).collect();
        Job::new(Arc::clone(spec), generation, Rc::clone(around), checks)
    });
    let notices: Recipient<Notice> = job.clone().recipient();
    registry.do_send(Subscribe { interest: Interest::Keys(interests), recipient: notices.clone() });
    Hand { spec: Arc::clone(spec), generation, view, commands: job.recipient(), notices }
}

/// Hands every signal that can be handled to the Pilot, who knows what it means.
fn forward_signals(pilot: &Addr<Pilot>) -> io::Result<()> {
    let mut streams = Vec::new();
    for number in Signal::all().filter(|number| number.is_for_us()) {
        match signal(SignalKind::from_raw(number.number())) {
            Ok(stream) => streams.push((number, stream)),
            // The C library keeps some for itself.
            Err(_) if number.is_real_time() => {}
            Err(error) => return Err(error),
        }
    }
    let pilot = pilot.clone();
    actix_rt::spawn(std::future::poll_fn(move |context| {
        for (number, stream) in &mut streams {
            while let Poll::Ready(Some(())) = stream.poll_recv(context) {
                pilot.do_send(SignalArrived(*number));
            }
        }
        Poll::<()>::Pending
    }));
    Ok(())
}
