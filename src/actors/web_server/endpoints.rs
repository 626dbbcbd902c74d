//! The endpoints that are served: the control socket and the telemetry port, and how they change at a reload. The
//! listeners that a new configuration needs are bound before those of the old one are closed, so an address that cannot
//! be had changes nothing.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use actix_rt::task::JoinHandle;
use actix_web::web::Data;
use slog::{Logger, debug, error, info};

use super::connection::serving;
use super::connections::Connections;
use super::listener::{Listener, SocketFile, accept_loop, bind_control, bind_telemetry};
use super::{Api, AppState, application};
use crate::config::spec::{ControlSpec, Spec, TelemetrySpec};

/// Listeners that are bound and not served yet. If they are dropped, they are closed.
#[derive(Debug)]
pub struct Listeners {
    control: Option<(Listener, SocketFile)>,
    telemetry: Option<(Listener, SocketAddr)>,
}

impl Listeners {
    /// Binds the listeners of the first configuration, within a running actix system. Without `needs_control`, a control
    /// socket that cannot be created is only logged.
    pub fn bind(spec: &Spec, needs_control: bool, log: &Logger) -> io::Result<Self> {
        Self::bind_missing(spec, &Endpoints::default(), needs_control, log)
    }

    /// Binds the listeners that a configuration needs and that are not served yet.
    pub fn bind_missing(
        spec: &Spec,
        served: &Endpoints,
        needs_control: bool,
        log: &Logger,
    ) -> io::Result<Self> {
        let telemetry = spec.telemetry.as_ref().map(|telemetry| served.bind_telemetry(telemetry));
        let telemetry = telemetry.transpose()?.flatten();
        let control = match served.bind_control(&spec.control) {
            Err(error) if !needs_control => {
                info!(log, "{error}; running without it");
                None
            }
            outcome => outcome?,
        };
        Ok(Self { control, telemetry })
    }

    /// Accepts connections on them from now on.
    pub fn serve(self, state: &Data<AppState>) -> Endpoints {
        let serve = |api, listener| Endpoint::new(api, listener, state.clone());
        Endpoints {
            control: self.control.map(|(listener, file)| (serve(Api::Control, listener), file)),
            telemetry: self.telemetry.map(|(listener, address)| (serve(Api::Telemetry, listener), address)),
        }
    }
}

/// A listener that is served, and its connections.
#[derive(Debug)]
struct Endpoint {
    /// Owned here and not by the task that accepts: an aborted task ends later, and the address must be free at once.
    _listener: Rc<Listener>,
    accepting: JoinHandle<()>,
    connections: Connections,
}

impl Endpoint {
    fn new(api: Api, listener: Listener, state: Data<AppState>) -> Self {
        let (listener, connections) = (Rc::new(listener), Connections::default());
        // The application is made for the first client: often none comes, and it would delay the start of the jobs.
        let serve = async move { serving(application(api, state)).await };
        let accepting = accept_loop(Rc::downgrade(&listener), serve, connections.clone());
        Self { _listener: listener, accepting: actix_rt::spawn(accepting), connections }
    }
}

impl Drop for Endpoint {
    /// Stops accepting and closes idle connections. Requests that are being answered get their responses.
    fn drop(&mut self) {
        self.accepting.abort();
        self.connections.end_idle();
    }
}

/// The endpoints that are served. If they are dropped, they are closed.
#[derive(Debug, Default)]
pub struct Endpoints {
    control: Option<(Endpoint, SocketFile)>,
    telemetry: Option<(Endpoint, SocketAddr)>,
}

impl Endpoints {
    /// Is there a control socket?
    pub fn has_control(&self) -> bool {
        self.control.is_some()
    }

    /// Creates the control socket; `None` if it is served already.
    fn bind_control(&self, spec: &ControlSpec) -> io::Result<Option<(Listener, SocketFile)>> {
        match &self.control {
            Some((_, file)) if file.path() == spec.socket && file.exists() => Ok(None),
            Some(_) | None => bind_control(spec).map(Some),
        }
    }

    /// Binds the telemetry port; `None` if it is served already.
    fn bind_telemetry(&self, spec: &TelemetrySpec) -> io::Result<Option<(Listener, SocketAddr)>> {
        let wanted = SocketAddr::new(spec.address, spec.port);
        let served = self.telemetry.as_ref().map(|(_, address)| *address);
        if served == Some(wanted) {
            return Ok(None);
        }
        match (bind_telemetry(wanted), served) {
            (Ok(listener), _) => Ok(Some((listener, wanted))),
            (Err(error), Some(served)) if exclude_each_other(served, wanted) => {
                let advice = "move it to another port first, or restart containerpilot";
                let message = format!("{error}: it is served on {served} now; {advice}");
                Err(io::Error::new(error.kind(), message))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Changes to a configuration: takes over the endpoints that are new in it, and closes those that it does not name.
    pub fn adopt(&mut self, spec: &Spec, new: Self, log: &Logger) {
        self.control = new.control.or(self.control.take());
        self.telemetry = new.telemetry.or(self.telemetry.take()).filter(|_| spec.telemetry.is_some());
        if let Some((_, file)) = &mut self.control
            && let Err(error) = file.set_mode(spec.control.mode)
        {
            error!(log, "cannot change the mode of {}: {error}", spec.control.socket.display());
        }
    }

    /// Logs where the endpoints are.
    pub fn log(&self, log: &Logger) {
        if let Some((_, file)) = &self.control {
            debug!(log, "the control socket is at {}", file.path().display());
        }
        if let Some((_, address)) = &self.telemetry {
            debug!(log, "telemetry is at {address}");
        }
    }

    /// The connections of all endpoints.
    pub fn connections(&self) -> Vec<Connections> {
        let control = self.control.iter().map(|(endpoint, _)| endpoint);
        let telemetry = self.telemetry.iter().map(|(endpoint, _)| endpoint);
        control.chain(telemetry).map(|endpoint| endpoint.connections.clone()).collect()
    }
}

/// Does listening on one of these addresses keep the kernel from listening on the other?
fn exclude_each_other(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && (one.ip().is_unspecified() || other.ip().is_unspecified())
}
