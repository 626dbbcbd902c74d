//! Puts the actors together and runs them: the only place that knows them all.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use slog::warn;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::consul_agent::ConsulAgent;
use super::health_check::{HealthCheck, http};
use super::job::advertisement::Discovery;
use super::job::{Job, Surroundings};
use super::pilot::view::JobView;
use super::pilot::{Begin, Member, Pilot, SignalArrived};
use super::reaper::Reaper;
use super::registry::{Overseer, Registry};
use super::watch::Watch;
use crate::config::spec::{ConsulAddress, JobSpec, Probe, Spec, TelemetrySpec, WatchSpec};
use crate::consul::Client;
use crate::logging::Log;
use crate::messages::bus::{Bus, Interest, Subscribe};
use crate::messages::discovery::{Registration, WithdrawAll};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::signal::Signal;
use crate::messages::status::Board;
use crate::process::{Children, Environ, Kernel, Launcher};

/// The signals that mean something to us.
const SIGNALS: [Signal; 5] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1, Signal::USR2];

/// How long the last withdrawals may take once everything else is over.
const FAREWELL_LIMIT: Duration = Duration::from_millis(500);
/// How often our own service tells Consul that it is there, and how long that holds.
const OWN_HEARTBEAT: Duration = Duration::from_secs(5);
const OWN_TTL: Duration = Duration::from_secs(15);

/// Supervises until everything is over; returns the status to exit with.
pub fn run(spec: Spec, log: &Log, kernel: Box<dyn Kernel>, environ: Environ) -> io::Result<u8> {
    System::new().block_on(async {
        let program = assemble(spec, log, kernel, environ)?;
        forward_signals(&program.pilot)?;
        let status = program.exited.await;
        if let Some(consul) = program.consul {
            // Who was killed did not wait; a well Consul needs but a moment.
            let _ = tokio::time::timeout(FAREWELL_LIMIT, consul.send(WithdrawAll)).await;
        }
        status.map_err(|_| io::Error::other("the supervisor ended unexpectedly"))
    })
}

/// The program, put together and about to publish `startup`.
pub struct Program {
    /// The root actor.
    pub pilot: Addr<Pilot>,
    /// Where events can be listened for.
    pub registry: Addr<Registry>,
    /// The one who talks to Consul, if there is one.
    pub consul: Option<Addr<ConsulAgent>>,
    /// Tells the status to exit with.
    pub exited: oneshot::Receiver<u8>,
}

/// Puts the actors together, within a running actix system.
pub fn assemble(spec: Spec, log: &Log, kernel: Box<dyn Kernel>, mut environ: Environ) -> io::Result<Program> {
    environ.configure(spec.env.clone());
    for job in &spec.jobs {
        if let Some(advertise) = &job.advertise {
            environ.set_address(&job.name, advertise.address);
        }
    }
    let (exit, exited) = oneshot::channel();
    let children = Children::new(kernel, log.clone());
    Reaper::new(children.clone(), log.logger().clone())?.start();
    let spec = Rc::new(spec);
    let pilot = Pilot::new(Rc::clone(&spec), log.clone(), children.clone(), exit).start();
    let overseer = Overseer { reports: pilot.clone().recipient(), marks: pilot.clone().recipient() };
    let registry = Registry::new(log.logger().clone(), overseer, Rc::new(Cell::new(0))).start();
    let bus =
        Bus::new(registry.clone().recipient(), registry.clone().recipient(), registry.clone().recipient());
    let board = Board::default();
    let consul = connect(&spec, &board, log, &registry)?;
    let around = Surroundings {
        bus: bus.clone(),
        launcher: Launcher::new(children, environ),
        discovery: consul
            .as_ref()
            .map(|consul| Discovery { agent: consul.clone().recipient(), host: host_name() }),
        board,
        log: log.logger().clone(),
    };
    let http = http_client(&spec)?;
    let members = spec.jobs.iter().map(|job| hire(job, &around, http.as_ref(), &registry)).collect();
    if let Some(consul) = &consul {
        for watch in &spec.watches {
            observe(watch, &around, consul, &registry);
        }
    }
    pilot.do_send(Begin { bus, members });
    Ok(Program { pilot, registry, consul, exited })
}

/// The client of all http checks, if there are any.
fn http_client(spec: &Spec) -> io::Result<Option<awc::Client>> {
    let urls: Vec<&str> = spec
        .jobs
        .iter()
        .flat_map(|job| &job.health)
        .filter_map(|check| match &check.probe {
            Probe::Http(probe) => Some(probe.url.as_str()),
            Probe::Exec(_) | Probe::Tcp(_) => None,
        })
        .collect();
    if urls.is_empty() {
        return Ok(None);
    }
    let client = http::client(urls.iter().any(|url| url.to_ascii_lowercase().starts_with("https:")));
    client.map(Some).map_err(|error| io::Error::other(format!("the client of http checks: {error}")))
}

/// Starts the one who talks to Consul, if there is a Consul.
fn connect(
    spec: &Spec,
    board: &Board,
    log: &Log,
    registry: &Addr<Registry>,
) -> io::Result<Option<Addr<ConsulAgent>>> {
    let Some(settings) = &spec.consul else { return Ok(None) };
    if !settings.tls.verify && matches!(settings.address, ConsulAddress::Tcp { tls: true, .. }) {
        warn!(log.logger(), "consul.tls.verify is false: whoever answers is taken for Consul");
    }
    let client =
        Client::new(settings).map_err(|error| io::Error::other(format!("the client of Consul: {error}")))?;
    let own_service = spec.telemetry.as_ref().map(own_service);
    let agent = ConsulAgent::new(client, board.clone(), own_service, log.logger()).start();
    let keys =
        [EventCode::Startup, EventCode::Shutdown].map(|code| EventKey { code, source: Source::Global });
    let interest = Interest::Keys(keys.to_vec());
    registry.do_send(Subscribe { interest, recipient: agent.clone().recipient() });
    Ok(Some(agent))
}

/// The service under which our metrics are found.
fn own_service(spec: &TelemetrySpec) -> Registration {
    let mut tags = spec.tags.clone();
    tags.push(env!("CARGO_PKG_VERSION").to_owned());
    Registration {
        id: format!("containerpilot-{}", host_name()).into(),
        name: "containerpilot".to_owned(),
        address: spec.address,
        port: spec.port,
        tags,
        meta: Vec::new(),
        enable_tag_override: false,
        heartbeat: OWN_HEARTBEAT,
        ttl: OWN_TTL,
        deregister_critical_after: None,
    }
}

fn host_name() -> Arc<str> {
    let name = nix::unistd::gethostname().unwrap_or_default();
    name.to_string_lossy().into()
}

/// Starts a watch; it begins at `startup`, after the jobs that subscribed before it.
fn observe(spec: &WatchSpec, around: &Surroundings, consul: &Addr<ConsulAgent>, registry: &Addr<Registry>) {
    let (bus, board) = (around.bus.clone(), around.board.clone());
    let watch = Watch::new(spec.clone(), bus, board, consul.clone().recipient(), &around.log).start();
    let startup = EventKey { code: EventCode::Startup, source: Source::Global };
    registry.do_send(Subscribe { interest: Interest::Keys(vec![startup]), recipient: watch.recipient() });
}

/// Starts a job's actors and subscribes it to what it listens for.
fn hire(
    spec: &JobSpec,
    around: &Surroundings,
    http: Option<&awc::Client>,
    registry: &Addr<Registry>,
) -> Member {
    let spec = Arc::new(spec.clone());
    let interests = Job::interests(&spec);
    let view = JobView::new(&spec, Job::first_missing(&spec), &interests);
    let job = Job::create(|ctx| {
        let check = |(index, check): (usize, &crate::config::spec::CheckSpec)| {
            let verdicts = ctx.address().recipient();
            let means = (around.launcher.clone(), http.cloned());
            HealthCheck::new(Arc::clone(&spec), index, check.clone(), verdicts, means, &around.log)
                .start()
                .recipient()
        };
        let checks = spec.health.iter().enumerate().map(check).collect();
        Job::new(Arc::clone(&spec), 0, around.clone(), checks)
    });
    registry.do_send(Subscribe { interest: Interest::Keys(interests), recipient: job.clone().recipient() });
    Member { view, commands: job.recipient() }
}

fn forward_signals(pilot: &Addr<Pilot>) -> io::Result<()> {
    for number in SIGNALS {
        let mut stream = signal(SignalKind::from_raw(number.number()))?;
        let pilot = pilot.clone();
        actix_rt::spawn(async move {
            while stream.recv().await.is_some() {
                pilot.do_send(SignalArrived(number));
            }
        });
    }
    Ok(())
}
