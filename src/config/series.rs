//! The names that a metric takes: no other metric can have one of them. Those of our own metrics are listed here, so that a
//! configuration can be checked against them.

use super::spec::MetricKind;

/// Every metric that the program exposes itself: a user's metric cannot have such a name.
const OWN_NAMES: [&str; 32] = [
    "containerpilot_check_duration_seconds",
    "containerpilot_consul_failures_total",
    "containerpilot_consul_lag_seconds",
    "containerpilot_consul_requests_total",
    "containerpilot_control_http_requests",
    "containerpilot_event_queue_depth",
    "containerpilot_events",
    "containerpilot_group_restarts_total",
    "containerpilot_job_crashes_total",
    "containerpilot_job_gave_up",
    "containerpilot_job_health",
    "containerpilot_job_last_exit_code",
    "containerpilot_job_missed_runs_total",
    "containerpilot_job_ready_seconds",
    "containerpilot_job_restarts_total",
    "containerpilot_job_up",
    "containerpilot_job_watchdog_kills_total",
    "containerpilot_log_bytes_total",
    "containerpilot_log_stalled",
    "containerpilot_log_stalls_total",
    "containerpilot_maintenance",
    "containerpilot_registrations_total",
    "containerpilot_reloads_total",
    "containerpilot_shutdown_budget_seconds",
    "containerpilot_shutdown_seconds",
    "containerpilot_watch_instances",
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
];

/// The time that health checks took: the only one of them that is a histogram.
pub const CHECK_DURATION: &str = "containerpilot_check_duration_seconds";

/// The name of the metric, those of its parts, and in OpenMetrics that of the family of a counter, which lacks `_total`.
pub fn names(name: &str, kind: MetricKind) -> Vec<String> {
    let parts: &[&str] = match kind {
        MetricKind::Counter | MetricKind::Gauge => &[],
        MetricKind::Histogram => &["_bucket", "_sum", "_count"],
        MetricKind::Summary => &["_sum", "_count"],
    };
    let family = name.strip_suffix("_total").filter(|_| kind == MetricKind::Counter);
    let parts = parts.iter().map(|part| format!("{name}{part}"));
    [name.to_owned()].into_iter().chain(parts).chain(family.map(ToOwned::to_owned)).collect()
}

/// Our own metric that takes one of the names of this one.
pub fn own_taker(name: &str, kind: MetricKind) -> Option<&'static str> {
    let wanted = names(name, kind);
    OWN_NAMES.into_iter().find(|own| {
        // As far as names go, a gauge is a counter.
        let kind = if *own == CHECK_DURATION { MetricKind::Histogram } else { MetricKind::Counter };
        names(own, kind).iter().any(|taken| wanted.contains(taken))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_takes_the_names_of_its_parts_and_of_its_family() {
        assert_eq!(names("jobs", MetricKind::Gauge), ["jobs"]);
        assert_eq!(names("jobs_total", MetricKind::Counter), ["jobs_total", "jobs"]);
        assert_eq!(names("s", MetricKind::Summary), ["s", "s_sum", "s_count"]);
        assert_eq!(names("h", MetricKind::Histogram), ["h", "h_bucket", "h_sum", "h_count"]);
    }
}
