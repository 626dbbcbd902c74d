//! Raw configuration → [`Spec`]: every default filled in, every reference resolved, every problem
//! collected. Nothing here stops at the first mistake.

mod address;
mod advertise;
mod after;
mod command;
mod consul;
mod context;
mod execution;
mod groups;
mod health;
mod jobs;
mod names;
mod ready;
mod restarts;
mod sections;
mod signals;
mod terminal;
mod tls;
mod watches;
mod when;

use std::collections::BTreeMap;
use std::time::Duration;

use super::diagnostic::{Place, Problems};
use super::raw::RawConfig;
use super::source::Span;
use super::spec::Spec;
use super::system::System;
use context::Context;
pub(super) use context::shown;
pub(super) use jobs::PRE_START;
use names::Names;
pub(super) use sections::{DEFAULT_MODE, DEFAULT_SOCKET};
pub(super) use signals::forwardable;
pub(super) use when::{after, signal, startup};

/// Where the parts of a [`Spec`] are, for the lints.
#[derive(Debug, Default)]
pub struct SpecSpans {
    /// One per job of the specification, in its order.
    pub jobs: Vec<JobSpans>,
    /// The lists of jobs of the groups, in the specification's order.
    pub groups: Vec<Span>,
    /// The names of the watches, in the specification's order.
    pub watches: Vec<Span>,
    /// The names of the metrics of telemetry, in the specification's order.
    pub metrics: Vec<Span>,
    /// The control socket's path and mode.
    pub control: ControlSpans,
    /// The global `stopTimeout`, if it is a time.
    pub stop_timeout: Option<Span>,
    /// Files that are read later, and where they are named.
    pub files: Vec<MentionedFile>,
}

/// Where the settings of the control socket are, if given.
#[derive(Debug, Default)]
pub struct ControlSpans {
    /// Its path.
    pub socket: Option<Span>,
    /// Its permissions.
    pub mode: Option<Span>,
}

/// A file with a certificate, a key or environment variables.
#[derive(Debug)]
pub struct MentionedFile {
    /// What it is a setting of.
    pub of: String,
    /// Where it is written; nowhere if a variable of our environment names it.
    pub place: Place,
    /// The file.
    pub path: std::path::PathBuf,
}

/// Where the parts of a job are.
#[derive(Debug, Clone, Default)]
pub struct JobSpans {
    /// Its name, or what its name is taken from.
    pub name: Span,
    /// Its `when`, or its name if it has none.
    pub when: Span,
    /// Its `when.cron`.
    pub cron: Option<Span>,
    /// Its `when.jitter`.
    pub jitter: Option<Span>,
    /// Its `exec`.
    pub exec: Option<Span>,
    /// Its `port`.
    pub port: Option<Span>,
    /// The value that decides its TTL.
    pub ttl: Option<Span>,
    /// The commands of its health checks, in their order; none for those that run nothing.
    pub checks: Vec<Option<Span>>,
}

/// What validation found.
#[derive(Debug)]
pub struct Validated {
    /// The specification; meaningless if an error was reported.
    pub spec: Spec,
    /// Where its parts are.
    pub places: SpecSpans,
}

/// Validates a whole configuration; `added` is a job that the command line adds to it. `incomplete` says that a
/// part of it could not be read, so that a name that nothing defines may well be defined there.
pub fn validate(
    config: &RawConfig,
    added: Option<&str>,
    env: &BTreeMap<String, String>,
    system: &System,
    incomplete: bool,
    problems: &mut Problems,
) -> Validated {
    let names = Names::collect(config, added, incomplete, problems);
    let mut context = Context::new(config, names, env, system, problems);
    let mut jobs = jobs::validate(&mut context, config);
    let groups = groups::validate(&mut context, &config.groups, &mut jobs);
    let stop_timeout = sections::stop_budget(&mut context, &config.stop_timeout, &jobs);
    terminal::check_one(&mut context, config);
    let (env, variable_files) = execution::environment(&mut context, "env", &config.env);
    let spec = Spec {
        consul: consul::validate(&mut context, &config.consul),
        logging: sections::logging(&mut context, &config.logging),
        jobs,
        groups,
        watches: watches::validate(&mut context, &config.watches),
        control: sections::control(&mut context, &config.control),
        telemetry: sections::telemetry(&mut context, &config.telemetry),
        stop_timeout,
        shutdown_signals: signals::shutdown(&mut context, config),
        env,
        variable_files,
    };
    execution::total(&mut context, config.env.as_ref().map(|field| field.span), &spec);
    Validated { spec, places: context.places }
}

/// The budget of a shutdown if none is given and no job asks for more.
pub(super) const DEFAULT_STOP_BUDGET: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
