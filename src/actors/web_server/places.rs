//! The two places that we serve, and how they move at a reload: what a new configuration asks for is bound and
//! listened to before anything of the old is given up, so that a place that cannot be had changes nothing.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use actix_rt::task::JoinHandle;
use actix_web::web::Data;
use slog::{Logger, debug, error, info, warn};

use super::connection::{Connections, serving};
use super::listener::{Listener, SocketFile, bind_control, bind_telemetry};
use super::{Plane, Shared, application};
use crate::config::spec::{ControlSpec, Spec, TelemetrySpec};
use crate::messages::event::Source;
use crate::messages::status::Layout;

/// Bound places to listen on, not served yet.
pub struct Listeners {
    control: Option<(Listener, SocketFile)>,
    telemetry: Option<(Listener, TelemetrySpec)>,
    layout: Layout,
}

/// The order in which a configuration's jobs and watches are shown.
fn layout(spec: &Spec) -> Layout {
    Layout {
        jobs: spec.jobs.iter().map(|job| job.name.clone()).collect(),
        watches: spec.watches.iter().map(|watch| watch.name.clone()).collect(),
        telemetry: spec.telemetry.as_ref().map(|telemetry| (telemetry.address.to_string(), telemetry.port)),
    }
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
            Err(error) if needs_control => return Err(error),
            outcome => or_without(outcome, log),
        };
        Ok(Self { control, telemetry, layout: layout(spec) })
    }
}

fn or_without<T>(outcome: io::Result<T>, log: &Logger) -> Option<T> {
    outcome.inspect_err(|error| info!(log, "{error}; running without it")).ok()
}

/// A listener that is being served.
struct Served {
    accepting: JoinHandle<()>,
    connections: Connections,
}

impl Served {
    fn new(listener: Listener, plane: Plane, shared: &Data<Shared>) -> Self {
        let connections = Connections::default();
        let shared = shared.clone();
        // All of it within: nothing is made before somebody comes.
        let serve = async move { serving(application(plane, shared)).await };
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

#[derive(Default)]
struct Current {
    control: Option<(Served, SocketFile)>,
    telemetry: Option<(Served, TelemetrySpec)>,
}

/// What is served, where.
pub struct Places {
    shared: Data<Shared>,
    current: RefCell<Current>,
    log: Logger,
}

/// What a new configuration asks for, bound and listened to already. Put to use by [`Places::adopt`]; dropped, it is
/// given back.
pub struct Prepared {
    control: ControlSpec,
    new_control: Option<(Served, SocketFile)>,
    telemetry: Option<TelemetrySpec>,
    new_telemetry: Option<Served>,
    /// Every job and watch: what is counted of others is forgotten.
    configured: HashSet<Source>,
    layout: Layout,
}

impl Places {
    /// Serves what was bound.
    pub fn new(listeners: Listeners, shared: Shared, log: Logger) -> Self {
        let shared = Data::new(shared);
        shared.board.write().layout = listeners.layout;
        let control = listeners.control;
        let control = control.map(|(listener, file)| (Served::new(listener, Plane::Control, &shared), file));
        let telemetry = listeners
            .telemetry
            .map(|(listener, spec)| (Served::new(listener, Plane::Telemetry, &shared), spec));
        let metrics = telemetry.as_ref().map(|(_, spec)| spec.clone());
        let places = Self { shared, current: RefCell::new(Current { control, telemetry }), log };
        places.define_metrics(metrics.as_ref());
        places
    }

    /// What the routes work with.
    pub fn shared(&self) -> &Data<Shared> {
        &self.shared
    }

    fn define_metrics(&self, telemetry: Option<&TelemetrySpec>) {
        let specs = telemetry.map(|telemetry| telemetry.metrics.as_slice()).unwrap_or_default();
        let mut metrics = self.shared.recorder.metrics();
        for name in metrics.reconfigure(specs) {
            warn!(self.log, "telemetry.metrics: {name} is a metric of our own; yours is left out");
        }
    }

    /// Binds what a configuration asks for and is not served yet; an error changes nothing.
    pub fn prepare(&self, spec: &Spec) -> io::Result<Prepared> {
        let jobs = spec.jobs.iter().map(|job| Source::Job(job.name.clone()));
        let checks = spec.jobs.iter().map(|job| Source::Check(job.name.clone()));
        let watches = spec.watches.iter().map(|watch| Source::Watch(watch.name.clone()));
        Ok(Prepared {
            new_telemetry: self.prepare_telemetry(spec.telemetry.as_ref())?,
            new_control: self.prepare_control(&spec.control)?,
            control: spec.control.clone(),
            telemetry: spec.telemetry.clone(),
            configured: jobs.chain(checks).chain(watches).collect(),
            layout: layout(spec),
        })
    }

    fn prepare_control(&self, spec: &ControlSpec) -> io::Result<Option<(Served, SocketFile)>> {
        let bound = match &self.current.borrow().control {
            Some((_, file)) if file.spec().socket == spec.socket && file.exists() => return Ok(None),
            Some(_) => Some(bind_control(spec)?),
            // We began without one, so nobody depends on it.
            None => or_without(bind_control(spec), &self.log),
        };
        Ok(bound.map(|(listener, file)| {
            debug!(self.log, "the control socket is at {}", spec.socket.display());
            (Served::new(listener, Plane::Control, &self.shared), file)
        }))
    }

    fn prepare_telemetry(&self, spec: Option<&TelemetrySpec>) -> io::Result<Option<Served>> {
        let Some(spec) = spec else { return Ok(None) };
        let wanted = (spec.address, spec.port);
        let current = self.current.borrow().telemetry.as_ref().map(|(_, spec)| (spec.address, spec.port));
        if current == Some(wanted) {
            return Ok(None);
        }
        let in_the_way = current.filter(|current| overlap(*current, wanted));
        let listener = bind_telemetry(spec).map_err(|error| match in_the_way {
            Some((address, port)) => {
                let ours = SocketAddr::new(address, port);
                let advice = "move it to another port first, or restart containerpilot";
                io::Error::new(error.kind(), format!("{error}: it is served on {ours} now; {advice}"))
            }
            None => error,
        })?;
        debug!(self.log, "telemetry is at {}:{}", spec.address, spec.port);
        Ok(Some(Served::new(listener, Plane::Telemetry, &self.shared)))
    }

    /// Serves what was prepared from now on, and nothing else; values of metrics stay.
    pub fn adopt(&self, prepared: Prepared) {
        let Prepared { control, new_control, telemetry, new_telemetry, configured, layout } = prepared;
        self.shared.board.write().layout = layout;
        self.define_metrics(telemetry.as_ref());
        self.shared.recorder.metrics().forget_all_but(&configured);
        let mut current = self.current.borrow_mut();
        match (new_control, &mut current.control) {
            (Some(new), place) => *place = Some(new),
            (None, Some((_, file))) => {
                if let Err(error) = file.set_mode(control.mode) {
                    error!(self.log, "cannot change the mode of {}: {error}", control.socket.display());
                }
            }
            (None, None) => {}
        }
        current.telemetry = match (telemetry, new_telemetry, current.telemetry.take()) {
            (Some(spec), Some(served), _) | (Some(spec), None, Some((served, _))) => Some((served, spec)),
            (Some(_), None, None) | (None, _, _) => None,
        };
    }

    /// Serves nobody new; what is left are clients that work, or may.
    pub fn close(&self) -> Vec<Connections> {
        let Current { control, telemetry } = self.current.take();
        let served = control.map(|(served, _)| served).into_iter().chain(telemetry.map(|(served, _)| served));
        served.map(|served| served.connections.clone()).collect()
    }
}

/// Whether the kernel lets nobody listen on both.
fn overlap((one, port): (IpAddr, u16), (other, other_port): (IpAddr, u16)) -> bool {
    port == other_port && (one.is_unspecified() || other.is_unspecified())
}
