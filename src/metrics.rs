//! The metrics: those that users define and set (`user`), those that the program counts (`built_in`), and the state
//! of jobs and watches, which a scrape reads from the board. Only `process` does I/O. Label values come from the
//! configuration alone, so a client cannot add series.
//!
//! Written by hand: the `prometheus` crate (0.14) has no summary type, and a registry of it must be rebuilt at each
//! reload, with the values carried over.

mod built_in;
mod digest;
pub mod exposition;
mod histogram;
mod operation;
pub mod process;
mod user;

use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::time::Instant;

use built_in::BuiltIn;
use exposition::{Exposition, Format};
use operation::Operation;
use process::ProcessUse;
use user::UserMetrics;

use crate::config::series;
use crate::config::spec::MetricSpec;
use crate::messages::status::{LogUsage, Overview};

/// All values of all metrics.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    user: UserMetrics,
    built_in: BuiltIn,
    operation: Operation,
}

/// The state of the program at the time of a scrape.
#[derive(Debug)]
pub struct Scene<'a> {
    /// Jobs, watches and maintenance.
    pub overview: &'a Overview,
    /// The number of events that are not delivered yet.
    pub queued: usize,
    /// The resources that our own process uses; `None` without /proc.
    pub process: Option<ProcessUse>,
    /// The time of the scrape.
    pub now: Instant,
    /// Counters of the log.
    pub log: Option<LogUsage>,
}

impl Metrics {
    /// Takes over the metrics that a configuration defines; a metric of the same name and type keeps its values.
    /// Returns those that cannot be used, each with the built-in metric that has its name or one of its series.
    pub fn reconfigure(&mut self, specs: &[MetricSpec]) -> Vec<(String, &'static str)> {
        let (mut usable, mut taken) = (Vec::new(), Vec::new());
        for spec in specs {
            match series::own_taker(&spec.full_name, spec.kind) {
                Some(built_in) => taken.push((spec.full_name.clone(), built_in)),
                None => usable.push(spec),
            }
        }
        self.user.reconfigure(&usable);
        taken
    }

    /// Records values of user metrics: all of them, or none if one is wrong. The error says which, and why.
    pub fn record(&mut self, values: &[(String, f64)], now: Instant) -> Result<(), String> {
        self.user.record(values, now)
    }

    /// The whole exposition.
    pub fn expose(&self, format: Format, scene: &Scene<'_>) -> String {
        let mut out = Exposition::new(format);
        self.user.expose(&mut out, scene.now);
        self.built_in.expose(&mut out);
        self.operation.expose(&mut out);
        built_in::expose_overview(&mut out, scene.overview);
        built_in::expose_queue(&mut out, scene.queued);
        operation::expose(&mut out, scene);
        if let Some(process) = &scene.process {
            process.expose(&mut out);
        }
        out.finish()
    }
}

/// The metrics, shared by all actors on the one thread.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Rc<RefCell<Metrics>>);

impl Recorder {
    /// The metrics, to change or to read; not to be held across an await.
    pub fn metrics(&self) -> RefMut<'_, Metrics> {
        self.0.borrow_mut()
    }
}

#[cfg(test)]
mod tests;
