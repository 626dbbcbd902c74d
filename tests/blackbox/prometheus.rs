//! The alerting rules and the dashboard of `examples/prometheus/`, and the metrics that they use.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::http::{Answer, get_port};
use crate::support::needs::has_programs;
use crate::support::ports::free_port;
use crate::support::{Exit, Pilot};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/prometheus")
}

fn metrics(port: u16) -> Answer {
    get_port(port, "/metrics", "")
}

/// The names of metrics in a text, without what histograms add to them.
fn used(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("containerpilot_") || word.starts_with("process_"));
    names.map(|name| name.trim_end_matches("_bucket").to_owned()).collect()
}

#[test]
fn every_metric_of_the_rules_and_the_dashboard_is_exposed() {
    let port = free_port();
    let pilot = Pilot::start(&format!(
        r#"{{ telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"] }}, jobs: [
            {{ name: "app", exec: "sleep 1000", health: {{ exec: "true", interval: "100ms", timeout: "10s" }} }},
            {{ name: "watched", exec: "sleep 1000", restarts: 1, watchdog: "1h" }},
            {{ name: "task", exec: "true", when: {{ interval: "1h" }} }} ],
            groups: [{{ name: "all", jobs: ["watched"] }}] }}"#
    ));
    pilot.wait_for_event("app healthy");
    pilot.wait_for_event("group.all ready");
    let text = metrics(port).body;
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let exposed: BTreeSet<String> = families.map(str::to_owned).collect();
    for file in ["rules.yml", "rules_test.yml", "dashboard.json"] {
        let used = used(&fs::read_to_string(folder().join(file)).unwrap());
        assert!(used.len() >= 7, "{file}: {used:?}");
        let missing: Vec<&String> = used.difference(&exposed).collect();
        assert!(missing.is_empty(), "{file}: {missing:?} are not among {exposed:?}");
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn the_alerting_rules_pass_their_tests() {
    if !has_programs(&["promtool"]) {
        return;
    }
    for words in [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]] {
        let output = Command::new("promtool").args(words).current_dir(folder()).output().unwrap();
        assert!(output.status.success(), "promtool {words:?}: {output:?}");
    }
}

#[test]
fn the_queries_of_the_dashboard_are_valid() {
    if !has_programs(&["promtool"]) {
        return;
    }
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(folder().join("dashboard.json")).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let queries: Vec<String> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| {
            target["expr"].as_str().unwrap().replace("$__rate_interval", "5m").replace("$__range", "1h")
        })
        .collect();
    assert!(queries.len() >= 20, "{queries:?}");
    // As rules they go through the parser of Prometheus.
    let rules: Vec<Value> = (0..)
        .zip(&queries)
        .map(|(number, query)| serde_json::json!({ "record": format!("query_{number}"), "expr": query }))
        .collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    let whole = serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    fs::write(file.path(), whole.to_string()).unwrap();
    let output = Command::new("promtool").args(["check", "rules"]).arg(file.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn crashes_are_counted_by_reason_and_a_job_that_gave_up_is_told() {
    let port = free_port();
    let pilot = Pilot::start(&format!(
        r#"{{ telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"] }}, jobs: [
            {{ name: "app", exec: "sleep 1000" }},
            {{ name: "status", exec: "false", restarts: 2, backoff: {{ max: "0s" }} }},
            {{ name: "fine", exec: ["sh", "-c", "exit 3"], success: [3] }},
            {{ name: "signal", exec: ["sh", "-c", "kill -KILL $$"] }},
            {{ name: "late", exec: "sleep 1000", timeout: "500ms" }},
            {{ name: "start", exec: "/no/such/program" }} ] }}"#
    ));
    for job in ["status", "signal", "late", "start", "fine"] {
        pilot.wait_for_event(&format!("{job} stopped"));
    }
    let found = metrics(port);
    for (job, reason, count) in [
        ("status", "status", "3"),
        ("signal", "signal", "1"),
        ("late", "timeout", "1"),
        ("start", "start", "1"),
    ] {
        let series = format!("containerpilot_job_crashes_total{{name=\"{job}\",reason=\"{reason}\"}}");
        assert_eq!(found.sample(&series).as_deref(), Some(count), "{}", found.body);
        let series = format!("containerpilot_job_gave_up{{name=\"{job}\"}}");
        assert_eq!(found.sample(&series).as_deref(), Some("1"), "{}", found.body);
    }
    assert_eq!(
        found.sample("containerpilot_job_gave_up{name=\"fine\"}").as_deref(),
        Some("0"),
        "3 is a success"
    );
    assert!(
        !found.body.contains(r#"crashes_total{name="app""#)
            && !found.body.contains(r#"crashes_total{name="fine""#)
    );
    assert_eq!(found.sample("containerpilot_shutdown_seconds").as_deref(), Some("0"));
    assert_eq!(found.sample("containerpilot_shutdown_budget_seconds").as_deref(), Some("5"));
    assert_eq!(found.sample("containerpilot_log_stalled").as_deref(), Some("0"));
    let bytes: f64 = found.sample("containerpilot_log_bytes_total").unwrap().parse().unwrap();
    assert!(bytes > 500.0, "{bytes}");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn reloads_are_counted_by_outcome() {
    let port = free_port();
    let pilot = Pilot::start(&format!(
        r#"{{ telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"] }}, jobs: [{{ name: "app", exec: "sleep 1000" }}] }}"#
    ));
    pilot.wait_for_message("started");
    let count = |outcome: &str| {
        metrics(port).sample(&format!("containerpilot_reloads_total{{outcome=\"{outcome}\"}}")).unwrap()
    };
    assert_eq!((count("success"), count("failure")), ("0".to_owned(), "0".to_owned()));
    pilot.tell(&["-reload"]);
    let good = pilot.text("containerpilot.json5");
    fs::write(pilot.path("containerpilot.json5"), "{ jobs: 1 }").unwrap();
    pilot.signal(nix::sys::signal::Signal::SIGHUP);
    pilot.eventually("the reload is refused", || count("failure") == "1");
    assert_eq!(count("success"), "1");
    fs::write(pilot.path("containerpilot.json5"), good).unwrap();
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_shutdown_that_is_under_way_tells_how_long_it_takes() {
    let port = free_port();
    let pilot = Pilot::start(&format!(
        r#"{{ stopTimeout: "20s", telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"] }}, jobs: [
            {{ name: "app", exec: ["sh", "-c", "trap '' TERM; echo ready; while test ! -e {{dir}}/end; do sleep 0.02; done"] }} ] }}"#
    ));
    pilot.wait_for_line("app", "ready");
    pilot.signal(nix::sys::signal::Signal::SIGTERM);
    pilot.eventually("the shutdown is measured", || {
        let seconds = metrics(port).sample("containerpilot_shutdown_seconds");
        seconds.is_some_and(|seconds| seconds.parse::<f64>().unwrap() > 0.0)
    });
    assert_eq!(metrics(port).sample("containerpilot_shutdown_budget_seconds").as_deref(), Some("20"));
    fs::write(pilot.path("end"), "").unwrap();
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
}
