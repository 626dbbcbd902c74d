//! The WebServer actor: owns the listeners and connections of the control socket and of the telemetry port, all on the
//! program's one thread. It decides nothing: it passes on to the Pilot what clients ask for, and shows them the board.

mod answer;
pub mod connection;
pub mod connections;
mod control;
mod crashes;
pub mod endpoints;
pub mod event_log;
mod head_end;
pub mod inquiry;
mod insight;
mod listener;
mod logs;
pub mod page;
mod readiness;
mod reply;
mod report;
mod socket;
mod status;
mod telemetry;

use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use actix_service::Service;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::web::{self, Data};
use actix_web::{App, Error};
use slog::{Logger, warn};
use tokio::time::Instant;

use answer::{AnswerGuard, GuardedBody};
use connection::ConnectionTracker;
use connections::Connections;
use endpoints::{Endpoints, Listeners};
use event_log::EventLog;
use inquiry::Inquire;
use page::feed::Feed;

use crate::config::spec::{Spec, StopBudget};
use crate::logging::{KeptOutput, LogSink};
use crate::messages::bus::Notice;
use crate::messages::control::{ChangeEnvironment, ControlJob, Reload, SetMaintenance};
use crate::messages::crashes::Dossiers;
use crate::messages::event::{EventCode, Source};
use crate::messages::status::{Board, Layout};
use crate::metrics::Recorder;
use crate::process::has_terminal;

/// How long clients may take to read their last responses before we exit.
const LAST_RESPONSES: Duration = Duration::from_millis(250);
/// How often we look whether they have.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The number of events in the dossier of a failure.
const EVENTS_OF_A_CRASH: usize = 50;

/// The Pilot, who carries out the commands of clients.
pub struct PilotLink {
    /// Load the configuration again.
    pub reload: Recipient<Reload>,
    /// Act on one job.
    pub job: Recipient<ControlJob>,
    /// Enter or leave maintenance.
    pub maintenance: Recipient<SetMaintenance>,
    /// Change the environment.
    pub environment: Recipient<ChangeEnvironment>,
    /// Questions that only the Pilot can answer.
    pub inquiry: Recipient<Inquire>,
}

/// The application state of actix-web, which every route can use.
pub struct AppState {
    /// Carries out commands.
    pub pilot: PilotLink,
    /// The state of jobs and watches.
    pub board: Board,
    /// The metrics.
    pub recorder: Recorder,
    /// The last events.
    pub events: EventLog,
    /// The last output of jobs.
    pub kept: KeptOutput,
    /// The last failures of each job.
    pub dossiers: Dossiers,
    /// How many events wait for their delivery.
    pub queued: Rc<Cell<usize>>,
    /// When the program started.
    pub started: Instant,
    /// The content of pages.
    pub feed: Feed,
    /// The log, whose use is measured.
    pub sink: Option<LogSink>,
}

/// The two sets of routes, each with its own listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// The control socket.
    Control,
    /// The telemetry port.
    Telemetry,
}

/// The routes of one of them as an application, to be served or tested.
pub fn application(
    api: Api,
    state: Data<AppState>,
) -> App<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse<impl MessageBody>,
        Error = Error,
        InitError = (),
    >,
> {
    App::new()
        .app_data(state.clone())
        .wrap_fn(move |request, service| {
            let tracker = request.conn_data::<ConnectionTracker>().cloned();
            if let Some(tracker) = &tracker {
                tracker.begin_request(request.headers());
            }
            let guard = AnswerGuard::new(tracker);
            let (response, state) = (service.call(request), state.clone());
            async move {
                let response = response.await?;
                if api == Api::Control {
                    // The pattern, not the path: labels of metrics must not be made up by clients.
                    let path = response.request().match_pattern().unwrap_or_else(|| "unknown".to_owned());
                    let path = path.replace(control::ANY, "");
                    state.recorder.metrics().control_answered(&path, response.status().as_u16());
                }
                Ok(response.map_body(|_, body| GuardedBody::new(body, guard)))
            }
        })
        .configure(match api {
            Api::Control => control::routes,
            Api::Telemetry => telemetry::routes,
        })
        .default_service(web::to(reply::not_found))
}

/// The web server.
pub struct WebServer {
    state: Data<AppState>,
    /// The endpoints that are served now.
    endpoints: Endpoints,
    /// Prepared by a reload: its configuration, and the endpoints that are new in it.
    prepared: Option<(Arc<Spec>, Endpoints)>,
    log: Logger,
}

impl WebServer {
    /// Serves the first configuration on the listeners that were bound for it.
    pub fn new(listeners: Listeners, spec: &Spec, state: AppState, log: Logger) -> Self {
        let state = Data::new(state);
        let new = listeners.serve(&state);
        let mut server = Self { state, endpoints: Endpoints::default(), prepared: None, log };
        server.adopt(spec, new);
        server
    }

    /// Changes to a configuration, whose new endpoints are given. Metrics that both configurations have keep their values.
    fn adopt(&mut self, spec: &Spec, new: Endpoints) {
        self.state.board.write().layout = layout(spec);
        self.state.feed.configure(spec, self.state.started.elapsed());
        let has_terminal = spec.jobs.iter().any(|job| job.tty) && has_terminal();
        self.state.kept.configure(spec, has_terminal);
        let names: HashSet<&str> = spec.jobs.iter().map(|job| &*job.name).collect();
        self.state.dossiers.forget_all_but(|name| names.contains(name));
        let custom = spec.telemetry.as_ref().map(|telemetry| telemetry.metrics.as_slice());
        let mut metrics = self.state.recorder.metrics();
        for (name, own) in metrics.reconfigure(custom.unwrap_or_default()) {
            warn!(
                self.log,
                "telemetry.metrics: {name} collides with our own metric {own}; yours is left out"
            );
        }
        metrics.forget_all_but(&sources(spec));
        self.endpoints.adopt(spec, new, &self.log);
    }
}

/// The order in which jobs and watches are shown.
fn layout(spec: &Spec) -> Layout {
    Layout {
        jobs: spec.jobs.iter().map(|job| job.name.clone()).collect(),
        watches: spec.watches.iter().map(|watch| watch.name.clone()).collect(),
        telemetry: spec.telemetry.as_ref().map(|telemetry| (telemetry.address.to_string(), telemetry.port)),
        stop_budget: match spec.stop_timeout {
            StopBudget::Immediate => Duration::ZERO,
            StopBudget::Within(budget) => budget,
        },
    }
}

/// Every job, watch and group as a source of events.
fn sources(spec: &Spec) -> HashSet<Source> {
    let jobs = spec.jobs.iter().map(|job| Source::Job(job.name.clone()));
    let checks = spec.jobs.iter().map(|job| Source::Check(job.name.clone()));
    let watches = spec.watches.iter().map(|watch| Source::Watch(watch.name.clone()));
    let groups = spec.groups.iter().map(|group| Source::Group(group.name.clone()));
    jobs.chain(checks).chain(watches).chain(groups).collect()
}

impl Actor for WebServer {
    type Context = Context<Self>;
}

impl Handler<Notice> for WebServer {
    type Result = ();

    fn handle(&mut self, notice: Notice, _: &mut Context<Self>) {
        self.state.recorder.metrics().event_published(&notice.event.key);
        if let (EventCode::ExitFailed, Source::Job(job)) = (notice.event.key.code, &notice.event.key.source) {
            self.state.dossiers.add_events(job, || self.state.events.last(EVENTS_OF_A_CRASH));
        }
        self.state.events.push(notice.event);
    }
}

/// Command of a reload: bind the listeners that this configuration needs and that are not served yet. They are kept,
/// and accept connections, until [`AdoptListeners`] or [`DiscardListeners`]; a second `PrepareListeners` replaces the
/// first. An error changes nothing that is served.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), String>")]
pub struct PrepareListeners(pub Arc<Spec>);

/// Command of a reload: from now on serve the configuration that was prepared, and nothing else.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct AdoptListeners;

/// Command of a reload that was given up: close the listeners that were prepared.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct DiscardListeners;

impl Handler<PrepareListeners> for WebServer {
    type Result = Result<(), String>;

    fn handle(&mut self, PrepareListeners(spec): PrepareListeners, _: &mut Context<Self>) -> Self::Result {
        // Before the bind: the next configuration may need the same addresses.
        self.prepared = None;
        // A program that began without a control socket can go on without one.
        let needs_control = self.endpoints.has_control();
        let bound = Listeners::bind_missing(&spec, &self.endpoints, needs_control, &self.log);
        let new = bound.map_err(|error| error.to_string())?.serve(&self.state);
        new.log(&self.log);
        self.prepared = Some((spec, new));
        Ok(())
    }
}

impl Handler<AdoptListeners> for WebServer {
    type Result = ();

    fn handle(&mut self, _: AdoptListeners, _: &mut Context<Self>) {
        if let Some((spec, new)) = self.prepared.take() {
            self.adopt(&spec, new);
        }
    }
}

impl Handler<DiscardListeners> for WebServer {
    type Result = ();

    fn handle(&mut self, _: DiscardListeners, _: &mut Context<Self>) {
        self.prepared = None;
    }
}

/// Command: the program ends. No more connections are accepted. It is done when clients have read their last responses,
/// or after 250 ms.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct CloseConnections;

impl Handler<CloseConnections> for WebServer {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: CloseConnections, _: &mut Context<Self>) -> Self::Result {
        self.state.events.close();
        self.state.kept.close();
        self.prepared = None;
        let connections = std::mem::take(&mut self.endpoints).connections();
        let deadline = Instant::now() + LAST_RESPONSES;
        Box::pin(async move {
            while connections.iter().any(Connections::end_idle) && Instant::now() < deadline {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        })
    }
}

#[cfg(test)]
mod tests;
