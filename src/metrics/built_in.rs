//! The metrics that the program counts itself, and those that are read from the board. ContainerPilot 3 had
//! `containerpilot_events`, `containerpilot_control_http_requests` and `containerpilot_watch_instances`.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::Metrics;
use super::exposition::Exposition;
use super::histogram::Histogram;
use crate::config::series::CHECK_DURATION;
use crate::config::spec::MetricKind;
use crate::messages::event::{EventKey, Source};
use crate::messages::health::Health;
use crate::messages::status::{JobStatus, Overview};

const HEALTHS: [Health; 4] = [Health::Unknown, Health::Healthy, Health::Unhealthy, Health::Maintenance];

/// The values of the metrics that the program counts itself.
#[derive(Debug, Clone, Default)]
pub struct BuiltIn {
    events: BTreeMap<EventKey, u64>,
    /// By status and path.
    control_requests: BTreeMap<(u16, String), u64>,
    /// By job and check.
    check_durations: BTreeMap<(Arc<str>, Arc<str>), Histogram>,
    consul_requests: u64,
    consul_failures: u64,
}

impl Metrics {
    /// Counts an event.
    pub fn event_published(&mut self, key: &EventKey) {
        *self.built_in.events.entry(key.clone()).or_default() += 1;
    }

    /// Counts a request to the control socket; `path` is a route's pattern.
    pub fn control_answered(&mut self, path: &str, status: u16) {
        *self.built_in.control_requests.entry((status, path.to_owned())).or_default() += 1;
    }

    /// Records how long a health check took.
    pub fn check_took(&mut self, job: &Arc<str>, check: &Arc<str>, time: Duration) {
        let name = (Arc::clone(job), Arc::clone(check));
        self.built_in.check_durations.entry(name).or_default().observe(time.as_secs_f64());
    }

    /// Counts a request to Consul.
    pub fn consul_answered(&mut self, success: bool) {
        self.built_in.consul_requests += 1;
        self.built_in.consul_failures += u64::from(!success);
    }

    /// Forgets the series of jobs and watches that are not among these.
    pub fn forget_all_but(&mut self, configured: &HashSet<Source>) {
        self.built_in.events.retain(|key, _| match &key.source {
            Source::Global | Source::Signal(_) => true,
            Source::Job(_) | Source::Watch(_) | Source::Check(_) | Source::Group(_) => {
                configured.contains(&key.source)
            }
        });
        self.operation.forget_all_but(configured);
        self.built_in.check_durations.retain(|(job, _), _| configured.contains(&Source::Job(job.clone())));
    }
}

impl BuiltIn {
    /// Writes the families of all that is counted.
    pub fn expose(&self, out: &mut Exposition) {
        out.counter("containerpilot_events", "Count of published events, by code and source.");
        for (key, count) in &self.events {
            let source = key.source.to_string();
            out.sample(&[("code", key.code.metric_name()), ("source", &source)], *count as f64);
        }
        let help = "Count of requests to the control socket, by response code and path.";
        out.counter("containerpilot_control_http_requests", help);
        for ((status, path), count) in &self.control_requests {
            out.sample(&[("code", &status.to_string()), ("path", path)], *count as f64);
        }
        let help = "How long health checks took, by job and check.";
        out.family(CHECK_DURATION, help, MetricKind::Histogram);
        for ((job, check), histogram) in &self.check_durations {
            histogram.expose(out, &[("name", job), ("check", check)]);
        }
        out.counter("containerpilot_consul_requests_total", "Count of requests to Consul.");
        out.sample(&[], self.consul_requests as f64);
        let help = "Count of requests to Consul that failed.";
        out.counter("containerpilot_consul_failures_total", help);
        out.sample(&[], self.consul_failures as f64);
    }
}

/// Writes the state of jobs and watches. The label is `name`, since Prometheus has a label `job` of its own.
pub fn expose_overview(out: &mut Exposition, overview: &Overview) {
    out.gauge("containerpilot_watch_instances", "Healthy instances of each watched service.");
    for (name, watch) in &overview.watches {
        out.sample(&[("service", name)], watch.instances.len() as f64);
    }
    let help = "How long it took until Consul knew the latest change of a service.";
    out.gauge("containerpilot_consul_lag_seconds", help);
    out.sample(&[], overview.discovery.lag.as_secs_f64());
    let jobs = || overview.jobs.iter().map(|(name, job)| (&**name, job));
    out.gauge("containerpilot_job_up", "Whether a process of the job runs.");
    for (name, job) in jobs() {
        out.sample(&[("name", name)], f64::from(u8::from(job.pid.is_some())));
    }
    let help = "Runs of the job after its first, since it was configured.";
    out.counter("containerpilot_job_restarts_total", help);
    for (name, job) in jobs() {
        out.sample(&[("name", name)], job.restarts as f64);
    }
    let missed = of_some(overview, |job| Some(job.missed_runs? as f64));
    if !missed.is_empty() {
        let help = "Scheduled runs of the job that did not come or were skipped, since it was configured.";
        out.counter("containerpilot_job_missed_runs_total", help);
    }
    for (name, missed) in missed {
        out.sample(&[("name", name)], missed);
    }
    if !overview.groups.is_empty() {
        let help = "Restarts that the group decided on, since it was configured.";
        out.counter("containerpilot_group_restarts_total", help);
    }
    for group in &overview.groups {
        out.sample(&[("name", &group.name)], group.restarts as f64);
    }
    let ready = of_some(overview, |job| Some(job.ready_after?.as_secs_f64()));
    if !ready.is_empty() {
        let help = "How long the last execution of the job that became ready took for that.";
        out.gauge("containerpilot_job_ready_seconds", help);
    }
    for (name, seconds) in ready {
        out.sample(&[("name", name)], seconds);
    }
    let kills = of_some(overview, |job| Some(job.watchdog_kills? as f64));
    if !kills.is_empty() {
        let help = "Executions of the job that its watchdog ended, since it was configured.";
        out.counter("containerpilot_job_watchdog_kills_total", help);
    }
    for (name, kills) in kills {
        out.sample(&[("name", name)], kills);
    }
    let help = "Status of the job's last execution as a shell tells it: 128+N for signal N.";
    out.gauge("containerpilot_job_last_exit_code", help);
    for (name, job) in jobs() {
        if let Some((status, _)) = &job.last_exit {
            out.sample(&[("name", name)], f64::from(*status));
        }
    }
    out.gauge("containerpilot_job_health", "1 for the health that the job has, 0 for the others.");
    for (name, job) in jobs() {
        for health in HEALTHS {
            let is_so = f64::from(u8::from(job.health == health));
            out.sample(&[("name", name), ("health", health.name())], is_so);
        }
    }
    out.gauge("containerpilot_maintenance", "Whether the container is in maintenance.");
    out.sample(&[], f64::from(u8::from(overview.maintenance)));
}

/// A value that only some jobs have, such as those with a schedule; by name.
fn of_some(overview: &Overview, value: impl Fn(&JobStatus) -> Option<f64>) -> Vec<(&str, f64)> {
    overview.jobs.iter().filter_map(|(name, job)| Some((&**name, value(job)?))).collect()
}

/// Writes the length of the Registry's queue.
pub fn expose_queue(out: &mut Exposition, queued: usize) {
    out.gauge("containerpilot_event_queue_depth", "Events that wait for their delivery.");
    out.sample(&[], queued as f64);
}
