//! Rules of the metrics as a whole.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::config::spec::MetricKind;
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::status::GroupStatus;

fn spec(name: &str, kind: MetricKind) -> MetricSpec {
    MetricSpec { full_name: name.to_owned(), help: "Help.".to_owned(), kind }
}

fn metrics(specs: &[MetricSpec]) -> Metrics {
    let mut metrics = Metrics::default();
    assert_eq!(metrics.reconfigure(specs), []);
    metrics
}

fn exposed(metrics: &Metrics) -> String {
    let overview = Overview::default();
    let scene = Scene { overview: &overview, queued: 3, process: None, now: Instant::now(), log: None };
    metrics.expose(Format::Prometheus, &scene)
}

#[track_caller]
fn assert_line(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
}

fn four() -> [MetricSpec; 4] {
    [
        spec("c", MetricKind::Counter),
        spec("g", MetricKind::Gauge),
        spec("h", MetricKind::Histogram),
        spec("s", MetricKind::Summary),
    ]
}

fn values(list: &[(&str, f64)]) -> Vec<(String, f64)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[test]
fn counters_add_gauges_set_histograms_and_summaries_observe() {
    let mut metrics = metrics(&four());
    for value in [1.0, 2.0, 3.0] {
        let all = values(&[("c", value), ("g", value), ("h", value), ("s", value)]);
        metrics.record(&all, Instant::now()).unwrap();
    }
    let text = exposed(&metrics);
    for line in [
        "c 6",
        "g 3",
        "h_sum 6",
        "h_bucket{le=\"2.5\"} 2",
        "s{quantile=\"0.5\"} 2",
        "s{quantile=\"0.99\"} 3",
        "s_sum 6",
        "s_count 3",
        "# TYPE c counter",
        "# HELP s Help.",
    ] {
        assert_line(&text, line);
    }
}

#[test]
fn one_wrong_value_means_that_nothing_is_recorded() {
    let mut metrics = metrics(&four());
    for (wrong, words) in [
        (("nope", 1.0), "nope: telemetry.metrics defines no metric of this name"),
        (("g", f64::NAN), "g: expected a finite number"),
        (("c", -1.0), "c: a counter only grows"),
    ] {
        let error = metrics.record(&values(&[("g", 9.0), wrong]), Instant::now()).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    assert_line(&exposed(&metrics), "g 0");
    assert_line(&exposed(&metrics), "c 0");
}

#[test]
fn values_survive_a_reload_if_name_and_type_stay() {
    let mut metrics = metrics(&four());
    metrics.record(&values(&[("c", 5.0), ("g", 7.0), ("s", 1.0)]), Instant::now()).unwrap();
    let mut specs =
        vec![spec("g", MetricKind::Counter), spec("s", MetricKind::Summary), spec("c", MetricKind::Counter)];
    specs[2].help = "Other.".to_owned();
    metrics.reconfigure(&specs);
    let text = exposed(&metrics);
    for line in ["c 5", "g 0", "s_count 1", "# HELP c Other."] {
        assert_line(&text, line);
    }
    assert!(!text.contains("\nh_"), "{text}");
}

#[test]
fn names_of_our_own_are_refused() {
    let mut metrics = Metrics::default();
    let specs = [spec("containerpilot_events", MetricKind::Gauge), spec("mine", MetricKind::Gauge)];
    assert_eq!(metrics.reconfigure(&specs), [("containerpilot_events".to_owned(), "containerpilot_events")]);
    assert!(metrics.record(&values(&[("mine", 1.0)]), Instant::now()).is_ok());
}

#[test]
fn no_user_metric_can_have_a_name_that_we_expose() {
    let group =
        GroupStatus { name: "all".into(), jobs: vec![], ready: true, restarts: 2, has_given_up: false };
    let overview = Overview { groups: vec![group], ..Overview::default() };
    let process = ProcessUse::read();
    let scene = Scene { overview: &overview, queued: 0, process, now: Instant::now(), log: None };
    let text = Metrics::default().expose(Format::Prometheus, &scene);
    assert_line(&text, "containerpilot_group_restarts_total{name=\"all\"} 2");
    let names: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert!(names.len() > 15, "{text}");
    for name in names {
        assert_eq!(series::own_taker(name, MetricKind::Gauge), Some(name));
    }
}

#[test]
fn no_user_metric_can_have_a_series_of_ours() {
    for (name, kind, own) in [
        (
            "containerpilot_check_duration_seconds_sum",
            MetricKind::Gauge,
            "containerpilot_check_duration_seconds",
        ),
        ("containerpilot_reloads", MetricKind::Gauge, "containerpilot_reloads_total"),
        ("containerpilot_job_up_total", MetricKind::Counter, "containerpilot_job_up"),
    ] {
        assert_eq!(series::own_taker(name, kind), Some(own));
    }
    assert_eq!(series::own_taker("containerpilot_job_up_total", MetricKind::Gauge), None);
}

#[test]
fn events_are_spelt_as_containerpilot_does() {
    let mut metrics = Metrics::default();
    let job = EventKey { code: EventCode::Healthy, source: Source::Job(Arc::from("app")) };
    metrics.event_published(&EventKey { code: EventCode::Startup, source: Source::Global });
    metrics.event_published(&job);
    metrics.event_published(&job);
    let text = exposed(&metrics);
    assert_line(&text, "containerpilot_events{code=\"Startup\",source=\"global\"} 1");
    assert_line(&text, "containerpilot_events{code=\"StatusHealthy\",source=\"app\"} 2");
    assert_line(&text, "containerpilot_event_queue_depth 3");
}

#[test]
fn what_is_no_longer_configured_is_forgotten() {
    let mut metrics = Metrics::default();
    for name in ["stays", "goes"].map(Arc::<str>::from) {
        metrics.check_took(&name, &Arc::from("check"), Duration::from_millis(3));
        metrics.event_published(&EventKey { code: EventCode::Healthy, source: Source::Job(name) });
    }
    metrics.event_published(&EventKey { code: EventCode::Startup, source: Source::Global });
    metrics.forget_all_but(&HashSet::from([Source::Job("stays".into())]));
    let text = exposed(&metrics);
    assert!(!text.contains("goes") && text.contains("global"), "{text}");
    assert_line(&text, "containerpilot_events{code=\"StatusHealthy\",source=\"stays\"} 1");
    assert_line(&text, "containerpilot_check_duration_seconds_count{name=\"stays\",check=\"check\"} 1");
}
