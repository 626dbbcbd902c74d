//! The metrics that tell an operator how the program fares: reloads, registrations, crashes, the shutdown and the log.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::exposition::Exposition;
use super::{Metrics, Scene};
use crate::messages::event::Source;
use crate::messages::job::Phase;
use crate::messages::process::CrashReason;
use crate::messages::status::JobStatus;

/// The values that are counted.
#[derive(Debug, Clone, Default)]
pub struct Operation {
    reloads: u64,
    refused_reloads: u64,
    registrations: BTreeMap<String, u64>,
    crashes: BTreeMap<(Arc<str>, CrashReason), u64>,
}

impl Metrics {
    /// Counts a reload, which changed the configuration or did not.
    pub fn reload_ended(&mut self, success: bool) {
        let operation = &mut self.operation;
        *(if success { &mut operation.reloads } else { &mut operation.refused_reloads }) += 1;
    }

    /// Counts a registration that Consul has accepted.
    pub fn service_registered(&mut self, service: &str) {
        *self.operation.registrations.entry(service.to_owned()).or_default() += 1;
    }

    /// Counts a failed run that nobody had asked to end.
    pub fn job_crashed(&mut self, job: &Arc<str>, reason: CrashReason) {
        *self.operation.crashes.entry((Arc::clone(job), reason)).or_default() += 1;
    }
}

impl Operation {
    /// Forgets the jobs that are not among these.
    pub fn forget_all_but(&mut self, configured: &HashSet<Source>) {
        self.crashes.retain(|(job, _), _| configured.contains(&Source::Job(job.clone())));
        // Our own service is no job.
        self.registrations.retain(|service, _| {
            service == "containerpilot" || configured.contains(&Source::Job(service.as_str().into()))
        });
    }

    /// Writes the families of all that is counted.
    pub fn expose(&self, out: &mut Exposition) {
        let help = "Count of reloads, by whether the new configuration was put into force.";
        out.counter("containerpilot_reloads_total", help);
        out.sample(&[("outcome", "success")], self.reloads as f64);
        out.sample(&[("outcome", "failure")], self.refused_reloads as f64);
        let help = "Count of registrations that Consul has accepted, by service.";
        out.counter("containerpilot_registrations_total", help);
        for (service, count) in &self.registrations {
            out.sample(&[("service", service)], *count as f64);
        }
        let help = "Count of failed runs that nobody had asked to end, by job and reason.";
        out.counter("containerpilot_job_crashes_total", help);
        for ((job, reason), count) in &self.crashes {
            out.sample(&[("name", job), ("reason", reason.name())], *count as f64);
        }
    }
}

/// Writes what is read at the time of the scrape.
pub fn expose(out: &mut Exposition, scene: &Scene<'_>) {
    let help = "1 if the job will not run again, and its last run failed or it never ran.";
    out.gauge("containerpilot_job_gave_up", help);
    for (name, job) in &scene.overview.jobs {
        out.sample(&[("name", name)], f64::from(u8::from(has_given_up(job))));
    }
    let began = scene.overview.shutdown_began;
    let seconds = began.map_or(0.0, |began| scene.now.saturating_duration_since(began).as_secs_f64());
    let help = "How long the shutdown has taken so far; 0 before it begins.";
    out.gauge("containerpilot_shutdown_seconds", help);
    out.sample(&[], seconds);
    let help = "How long the whole shutdown may take.";
    out.gauge("containerpilot_shutdown_budget_seconds", help);
    out.sample(&[], scene.overview.layout.stop_budget.as_secs_f64());
    let Some(log) = &scene.log else { return };
    out.counter("containerpilot_log_bytes_total", "Bytes that were written to the log.");
    out.sample(&[], log.bytes as f64);
    let help = "How often the output of jobs had to wait because the log was not read fast enough.";
    out.counter("containerpilot_log_stalls_total", help);
    out.sample(&[], log.stalls as f64);
    let help = "Whether the output of jobs waits for the log now, or the log cannot be written.";
    out.gauge("containerpilot_log_stalled", help);
    out.sample(&[], f64::from(u8::from(log.is_stalled)));
}

fn has_given_up(job: &JobStatus) -> bool {
    job.phase == Phase::Complete && (job.account.failed || job.never_ran.is_some())
}
