//! The WebServer: serves the control socket and the telemetry port on the program's one thread. It decides
//! nothing: what clients ask is passed on to the Pilot, what they see is read from the board.

pub mod connection;
pub mod control;
pub mod event_log;
mod head_end;
pub mod listener;
pub mod places;
mod readiness;
pub mod reply;
pub mod status;
pub mod telemetry;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use actix_service::Service;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::web::{self, Data};
use actix_web::{App, Error};
use tokio::time::Instant;

use connection::{ConnectionState, ConnectionTracker, Connections};
use event_log::EventLog;
use places::{Places, Prepared};

use crate::config::spec::Spec;
use crate::messages::bus::Notice;
use crate::messages::control::{ChangeEnvironment, ControlJob, Reload, SetMaintenance};
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
            let tracker = request.conn_data::<ConnectionTracker>().cloned();
            if let Some(tracker) = &tracker {
                tracker.begin_request();
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
                if let Some(tracker) = tracker.filter(|tracker| tracker.state() == ConnectionState::Answering)
                {
                    tracker.set_state(ConnectionState::Idle);
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

/// The web server.
pub struct WebServer {
    shared: Data<Shared>,
    places: Rc<Places>,
    prepared: Option<Prepared>,
}

impl WebServer {
    /// A server of these places.
    pub fn new(places: Rc<Places>) -> Self {
        Self { shared: places.shared().clone(), places, prepared: None }
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

/// Command of a reload: bind the listeners that this configuration asks for and that are not served yet. They are kept
/// until one of the next two commands, or replaced by the next `PrepareListeners`. An error changes nothing and closes
/// what was bound.
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
        // First, since the new ones may be in the way of the next ones.
        self.prepared = None;
        self.prepared = Some(self.places.prepare(&spec).map_err(|error| error.to_string())?);
        Ok(())
    }
}

impl Handler<AdoptListeners> for WebServer {
    type Result = ();

    fn handle(&mut self, _: AdoptListeners, _: &mut Context<Self>) {
        if let Some(prepared) = self.prepared.take() {
            self.places.adopt(prepared);
        }
    }
}

impl Handler<DiscardListeners> for WebServer {
    type Result = ();

    fn handle(&mut self, _: DiscardListeners, _: &mut Context<Self>) {
        self.prepared = None;
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
        let connections = self.places.close();
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
