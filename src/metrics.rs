//! Numbers about the program: those that users define and set, and those that it keeps itself. What jobs and
//! watches show of themselves is read from the board when somebody asks. No clock and no I/O in here but
//! [`process`]; the label values that [`Metrics`] remembers come from the configuration alone, so that no client can add series.

mod built_in;
mod digest;
pub mod exposition;
mod histogram;
pub mod process;
mod user;

use std::cell::{RefCell, RefMut};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use built_in::BuiltIn;
use exposition::{Exposition, Format};
use process::ProcessUse;
use user::UserMetrics;

use crate::config::spec::MetricSpec;
use crate::messages::event::{EventKey, Source};
use crate::messages::status::Overview;

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    user: UserMetrics,
    built_in: BuiltIn,
}

/// What a scrape shows beside what was counted.
#[derive(Debug)]
pub struct Scene<'a> {
    /// Jobs, watches and maintenance.
    pub overview: &'a Overview,
    /// Events that wait for their delivery.
    pub queued: usize,
    /// What our own process uses, if the system tells.
    pub process: Option<ProcessUse>,
    /// When it is.
    pub now: Instant,
}

impl Metrics {
    /// Takes over the metrics that a configuration defines; a metric of the same name and type keeps its values.
    /// Returns the names that cannot be used because we use them ourselves.
    pub fn reconfigure(&mut self, specs: &[MetricSpec]) -> Vec<String> {
        let (usable, taken): (Vec<&MetricSpec>, Vec<&MetricSpec>) =
            specs.iter().partition(|spec| !built_in::is_taken(&spec.full_name));
        self.user.reconfigure(&usable);
        taken.into_iter().map(|spec| spec.full_name.clone()).collect()
    }

    /// Records values of user metrics: all of them, or none if one is wrong. The error says which, and why.
    pub fn record(&mut self, values: &[(String, f64)], now: Instant) -> Result<(), String> {
        self.user.record(values, now)
    }

    /// Counts an event.
    pub fn event_published(&mut self, key: &EventKey) {
        self.built_in.event_published(key);
    }

    /// Counts a request to the control socket; `path` is a route's pattern.
    pub fn control_answered(&mut self, path: &str, status: u16) {
        self.built_in.control_answered(path, status);
    }

    /// Notes how long a health check took.
    pub fn check_took(&mut self, job: &Arc<str>, check: &Arc<str>, time: Duration) {
        self.built_in.check_took(job, check, time);
    }

    /// Counts a request to Consul.
    pub fn consul_answered(&mut self, success: bool) {
        self.built_in.consul_answered(success);
    }

    /// Forgets the series of jobs and watches that are not among these.
    pub fn forget_all_but(&mut self, configured: &HashSet<Source>) {
        self.built_in.forget_all_but(configured);
    }

    /// The whole exposition.
    pub fn expose(&self, format: Format, scene: &Scene<'_>) -> String {
        let mut out = Exposition::new(format);
        self.user.expose(&mut out, scene.now);
        self.built_in.expose(&mut out);
        built_in::expose_overview(&mut out, scene.overview);
        built_in::expose_queue(&mut out, scene.queued);
        if let Some(process) = &scene.process {
            process.expose(&mut out);
        }
        out.finish()
    }
}

/// The metrics, shared by those on the one thread who count.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Rc<RefCell<Metrics>>);

impl Recorder {
    /// To count or to look; not to be held across an await.
    pub fn metrics(&self) -> RefMut<'_, Metrics> {
        self.0.borrow_mut()
    }
}

#[cfg(test)]
mod tests;
