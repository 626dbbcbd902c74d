//! The WebServer: serves the control socket and the telemetry port on the program's one thread. It decides
//! nothing: what clients ask is passed on to the Pilot, what they see is read from the board.

pub mod connection;
pub mod control;
pub mod event_log;
pub mod listener;
pub mod reply;
pub mod status;
pub mod telemetry;

use std::cell::Cell;
use std::collections::HashSet;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use actix::prelude::*;
use actix_rt::task::JoinHandle;
use actix_service::Service;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::web::{self, Data};
use actix_web::{App, Error};
use slog::{Logger, debug, error, info, warn};
use tokio::time::Instant;

use connection::{Activity, Connections, Occupation, serving};
use event_log::EventLog;
use listener::{Listener, SocketFile, bind_control, bind_telemetry};

use crate::config::spec::{ControlSpec, Spec, TelemetrySpec};
use crate::messages::bus::Notice;
use crate::messages::control::{ChangeEnvironment, ControlJob, Reload, SetMaintenance};
use crate::messages::event::Source;
use crate::messages::status::Board;
use crate::metrics::Recorder;

/// How long clients may take to read their last answers before we exit.
const LAST_ANSWERS: Duration = Duration::from_millis(250);
/// How often we look whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Where the Pilot takes what clients ask for.
pub struct PilotLink {
    /// Load the configuration again.
    pub reload: Recipient<Reload>,
    /// Act on one job.
    pub job: Recipient<ControlJob>,
    /// Enter or leave maintenance.
    pub maintenance: Recipient<SetMaintenance>,
    /// Change the environment.
    pub environment: Recipient<ChangeEnvironment>,
}

/// What the routes work with.
pub struct Shared {
    /// Who carries out what clients ask for.
    pub pilot: PilotLink,
    /// What there is to see.
    pub board: Board,
    /// What is counted.
    pub recorder: Recorder,
    /// The last events.
    pub events: EventLog,
    /// How many events wait for their delivery.
    pub queued: Rc<Cell<usize>>,
    /// Since when we run.
    pub started: Instant,
}

/// The two things that we serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plane {
    /// The control socket.
    Control,
    /// The telemetry port.
    Telemetry,
}

/// The routes of one plane as an application, to be served or tested.
pub fn application(
    plane: Plane,
    shared: Data<Shared>,
) -> App<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse<impl MessageBody>,
        Error = Error,
        InitError = (),
    >,
> {
    let counting = shared.clone();
    App::new()
        .app_data(shared)
        .wrap_fn(move |request, service| {
            let activity = request.conn_data::<Activity>().cloned();
            if let Some(activity) = &activity {
                activity.begin();
            }
            let (answer, counting) = (service.call(request), counting.clone());
            async move {
                let answer = answer.await?;
                if plane == Plane::Control {
                    // The pattern, not the path: what clients make up must not become a label.
                    let path = answer.request().match_pattern().unwrap_or_else(|| "unknown".to_owned());
                    let path = path.replace(control::ANY, "");
                    counting.recorder.metrics().control_answered(&path, answer.status().as_u16());
                }
                if let Some(activity) = activity.filter(|activity| activity.get() == Occupation::Answering) {
                    activity.set(Occupation::Idle);
                }
                Ok(answer)
            }
        })
        .configure(match plane {
            Plane::Control => control::routes,
            Plane::Telemetry => telemetry::routes,
        })
        .default_service(web::to(reply::not_found))
}

/// Bound places to listen on, not served yet.
pub struct Listeners {
    control: Option<(Listener, SocketFile)>,
    telemetry: Option<(Listener, TelemetrySpec)>,
}

impl Listeners {
    /// Binds what a configuration asks for, within a running actix system. Who has no configuration did not ask for a
    /// control socket: without `needs_control` it is only logged that there is none.
    pub fn bind(spec: &Spec, needs_control: bool, log: &Logger) -> io::Result<Self> {
        let telemetry = match &spec.telemetry {
            Some(telemetry) => Some((bind_telemetry(telemetry)?, telemetry.clone())),
            None => None,
        };
        let control = match bind_control(&spec.control) {
            Ok(control) => Some(control),
            Err(error) if needs_control => return Err(error),
            Err(error) => {
                info!(log, "{error}; running without it");
                None
            }
        };
        Ok(Self { control, telemetry })
    }
}

/// A listener that is being served.
struct Served {
    accepting: JoinHandle<()>,
    connections: Connections,
}

impl Served {
    fn new(listener: Listener, plane: Plane, shared: &Data<Shared>) -> Self {
        let connections = Connections::default();
        let serve = serving(application(plane, shared.clone()));
        Self { accepting: listener.serve(serve, connections.clone()), connections }
    }
}

impl Drop for Served {
    /// Nobody new is accepted, and who does nothing is dropped; the others get their answers.
    fn drop(&mut self) {
        self.accepting.abort();
        self.connections.end_idle();
    }
}

/// The web server.
pub struct WebServer {
    shared: Data<Shared>,
    control: Option<(Served, SocketFile)>,
    telemetry: Option<(Served, TelemetrySpec)>,
    log: Logger,
}

impl WebServer {
    /// A server of these listeners.
    pub fn new(listeners: Listeners, shared: Shared, log: Logger) -> Self {
        let shared = Data::new(shared);
        let control = listeners.control;
        let control = control.map(|(listener, file)| (Served::new(listener, Plane::Control, &shared), file));
        let telemetry = listeners
            .telemetry
            .map(|(listener, spec)| (Served::new(listener, Plane::Telemetry, &shared), spec));
        let server = Self { control, telemetry, shared, log };
        let metrics = server.telemetry.as_ref().map(|(_, spec)| spec.clone());
        server.define_metrics(metrics.as_ref());
        server
    }

    fn define_metrics(&self, telemetry: Option<&TelemetrySpec>) {
        let specs = telemetry.map(|telemetry| telemetry.metrics.as_slice()).unwrap_or_default();
        let mut metrics = self.shared.recorder.metrics();
        for name in metrics.reconfigure(specs) {
            warn!(self.log, "telemetry.metrics: {name} is a metric of our own; yours is left out");
        }
    }

    fn move_control(&mut self, spec: &ControlSpec) -> io::Result<()> {
        match &mut self.control {
            Some((_, file)) if file.spec() == spec => Ok(()),
            Some((_, file)) if file.spec().socket == spec.socket => file.set_mode(spec.mode),
            Some(_) | None => {
                let (listener, file) = bind_control(spec)?;
                debug!(self.log, "the control socket is at {}", spec.socket.display());
                self.control = Some((Served::new(listener, Plane::Control, &self.shared), file));
                Ok(())
            }
        }
    }

    fn move_telemetry(&mut self, wanted: Option<TelemetrySpec>) -> io::Result<()> {
        let place = |spec: &TelemetrySpec| (spec.address, spec.port);
        match (&mut self.telemetry, wanted) {
            (_, None) => self.telemetry = None,
            (Some((_, current)), Some(spec)) if place(current) == place(&spec) => *current = spec,
            (_, Some(spec)) => {
                let listener = bind_telemetry(&spec)?;
                debug!(self.log, "telemetry is at {}:{}", spec.address, spec.port);
                self.telemetry = Some((Served::new(listener, Plane::Telemetry, &self.shared), spec));
            }
        }
        Ok(())
    }
}

impl Actor for WebServer {
    type Context = Context<Self>;
}

impl Handler<Notice> for WebServer {
    type Result = ();

    fn handle(&mut self, notice: Notice, _: &mut Context<Self>) {
        self.shared.recorder.metrics().event_published(&notice.event.key);
        self.shared.events.push(notice.event);
    }
}

/// Command: serve these places from now on, and these metrics. What did not change stays as it is; what cannot
/// be bound stays where it was.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Rebind {
    /// The control socket.
    pub control: ControlSpec,
    /// The telemetry port and the users' metrics.
    pub telemetry: Option<TelemetrySpec>,
    /// Every job and watch: what is counted of others is forgotten.
    pub configured: HashSet<Source>,
}

impl Rebind {
    /// What a configuration asks for.
    pub fn new(spec: &Spec) -> Self {
        let jobs = spec.jobs.iter().map(|job| Source::Job(job.name.clone()));
        let watches = spec.watches.iter().map(|watch| Source::Watch(watch.name.clone()));
        let configured = jobs.chain(watches).collect();
        Self { control: spec.control.clone(), telemetry: spec.telemetry.clone(), configured }
    }
}

impl Handler<Rebind> for WebServer {
    type Result = ();

    fn handle(&mut self, Rebind { control, telemetry, configured }: Rebind, _: &mut Context<Self>) {
        self.define_metrics(telemetry.as_ref());
        self.shared.recorder.metrics().forget_all_but(&configured);
        for outcome in [self.move_control(&control), self.move_telemetry(telemetry)] {
            if let Err(error) = outcome {
                error!(self.log, "{error}; it stays where it was");
            }
        }
    }
}

/// Command: the program ends. Nobody new is served; answers once clients have read their last answers, or soon.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Leave;

impl Handler<Leave> for WebServer {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Leave, _: &mut Context<Self>) -> Self::Result {
        self.shared.events.close();
        let served =
            [self.control.take().map(|(served, _)| served), self.telemetry.take().map(|(served, _)| served)];
        let connections: Vec<Connections> =
            served.iter().flatten().map(|served| served.connections.clone()).collect();
        drop(served);
        let deadline = Instant::now() + LAST_ANSWERS;
        Box::pin(async move {
            while connections.iter().any(Connections::end_idle) && Instant::now() < deadline {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
    }
}

#[cfg(test)]
mod tests;
