//! Telemetry from outside: what is scraped, by us and by a real Prometheus.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use crate::support::http::{Answer, get_port};
use crate::support::needs::has_programs;
use crate::support::ports::free_port;
use crate::support::{Exit, Pilot};

fn config(port: u16) -> String {
    format!(
        r#"{{ telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"], metrics: [
            {{ namespace: "shop", subsystem: "web", name: "orders_total", help: "Orders.", type: "counter" }},
            {{ name: "stock", help: "Pieces on stock.", type: "gauge" }},
            {{ name: "wait_seconds", help: "Time to wait.", type: "histogram" }},
            {{ name: "size_bytes", help: "Sizes.", type: "summary" }} ] }},
          jobs: [ {{ name: "app", exec: "sleep 1000", essential: true, health: {{ exec: "true", interval: "200ms", timeout: "10s" }} }},
                  {{ name: "loop", exec: "false", restarts: 2 }} ] }}"#
    )
}

fn start() -> (Pilot, u16) {
    let port = free_port();
    let pilot = Pilot::start(&config(port));
    pilot.wait_for_event("app healthy");
    pilot.wait_for_event("loop stopped");
    (pilot, port)
}

fn metrics(port: u16) -> Answer {
    let answer = get_port(port, "/metrics", "");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

#[test]
fn metrics_of_users_and_our_own_are_exposed() {
    let (pilot, port) = start();
    pilot.tell(&[
        "-putmetric",
        "shop_web_orders_total=2",
        "-putmetric",
        "stock=-5.5",
        "-putmetric",
        "wait_seconds=0.3",
        "-putmetric",
        "size_bytes=100",
    ]);
    pilot.tell(&["-putmetric", "shop_web_orders_total=1", "-putmetric", "shop_web_orders_total=2"]);
    let found = metrics(port);
    for (series, value) in [
        ("shop_web_orders_total", "5"),
        ("stock", "-5.5"),
        ("wait_seconds_bucket{le=\"0.25\"}", "0"),
        ("wait_seconds_bucket{le=\"0.5\"}", "1"),
        ("size_bytes{quantile=\"0.99\"}", "100"),
        ("containerpilot_events{code=\"Startup\",source=\"global\"}", "1"),
        ("containerpilot_events{code=\"StatusHealthy\",source=\"app\"}", "1"),
        ("containerpilot_events{code=\"ExitFailed\",source=\"loop\"}", "3"),
        ("containerpilot_control_http_requests{code=\"200\",path=\"/v3/metric\"}", "3"),
        ("containerpilot_job_up{name=\"app\"}", "1"),
        ("containerpilot_job_up{name=\"loop\"}", "0"),
        ("containerpilot_job_restarts_total{name=\"loop\"}", "2"),
        ("containerpilot_job_last_exit_code{name=\"loop\"}", "1"),
        ("containerpilot_job_health{name=\"app\",health=\"healthy\"}", "1"),
    ] {
        assert_eq!(found.sample(series).as_deref(), Some(value), "{series} in\n{}", found.body);
    }
    let checks = found.sample("containerpilot_check_duration_seconds_count{name=\"app\",check=\"check\"}");
    assert!(
        found.body.contains("containerpilot_check_duration_seconds_count{name=\"app\""),
        "{checks:?}\n{}",
        found.body
    );
}

#[test]
fn values_survive_a_reload_and_the_port_moves_with_its_setting() {
    let (pilot, port) = start();
    pilot.tell(&["-putmetric", "stock=7", "-putmetric", "shop_web_orders_total=1"]);
    let new = free_port();
    pilot.edit(&port.to_string(), &new.to_string());
    pilot.edit("Pieces on stock.", "Pieces.");
    assert!(pilot.tell(&["-reload"]).contains("kept: "));
    pilot.eventually("telemetry has moved", || {
        get_port(new, "/healthz", "").status == 200 && get_port(port, "/healthz", "").status == 0
    });
    let found = metrics(new);
    assert_eq!(found.sample("stock").as_deref(), Some("7"));
    assert_eq!(found.sample("shop_web_orders_total").as_deref(), Some("1"));
    assert!(found.body.contains("# HELP stock Pieces.\n"));
    assert_eq!(
        found.sample("containerpilot_events{code=\"StatusHealthy\",source=\"app\"}").as_deref(),
        Some("1")
    );
}

#[test]
fn a_port_that_is_taken_is_an_error_before_anything_starts() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (exit, pilot) = Pilot::run(&config(taken.local_addr().unwrap().port()));
    assert_eq!(exit, Exit::Code(1));
    assert!(pilot.log().text().contains("cannot serve telemetry on 127.0.0.1:"), "{}", pilot.log().text());
    assert!(pilot.events().is_empty());
    assert!(!pilot.socket().exists());
}

#[test]
fn status_and_probes_answer() {
    let (pilot, port) = start();
    let status = get_port(port, "/status", "").json();
    let named = |name: &str, status: &str| serde_json::json!({ "Name": name, "Status": status });
    assert_eq!(status["Jobs"], serde_json::json!([named("app", "healthy"), named("loop", "unknown")]));
    let own = serde_json::json!({ "Name": "containerpilot", "Address": "127.0.0.1", "Port": port, "Status": "healthy" });
    assert_eq!(status["Services"], serde_json::json!([own]));
    assert_eq!(get_port(port, "/healthz", "").body, "ok\n");
    assert_eq!(get_port(port, "/readyz", "").status, 200);
    pilot.tell(&["-maintenance", "enable"]);
    pilot.eventually("not ready", || get_port(port, "/readyz", "").status == 503);
    assert_eq!(get_port(port, "/readyz", "").json()["notReady"][0]["name"], "app");
    assert_eq!(metrics(port).sample("containerpilot_maintenance").as_deref(), Some("1"));
}

#[test]
fn promtool_finds_nothing_but_names_that_containerpilot_fixed() {
    if !has_programs(&["promtool"]) {
        return;
    }
    let (_pilot, port) = start();
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(metrics(port).body.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let found = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    let ours: Vec<&str> = found
        .lines()
        .filter(|line| {
            !line.starts_with("containerpilot_events ")
                && !line.starts_with("containerpilot_control_http_requests ")
        })
        .collect();
    assert!(ours.is_empty(), "{found}");
}

/// A Prometheus server, ended with the test.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_prometheus_scrapes_us_and_answers() {
    if !has_programs(&["prometheus"]) {
        return;
    }
    let (pilot, port) = start();
    pilot.tell(&["-putmetric", "stock=42"]);
    let (own, settings) = (free_port(), pilot.path("prometheus.yml"));
    fs::write(
        &settings,
        format!(
            "global: {{ scrape_interval: 200ms, scrape_timeout: 200ms }}\n\
             scrape_configs:\n  - job_name: pilot\n    static_configs: [{{ targets: ['127.0.0.1:{port}'] }}]\n"
        ),
    )
    .unwrap();
    let log = fs::File::create(pilot.path("prometheus.log")).unwrap();
    let _server = Prometheus(
        Command::new("prometheus")
            .arg(format!("--config.file={}", settings.display()))
            .arg(format!("--storage.tsdb.path={}", pilot.path("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{own}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap(),
    );
    let value = |query: &str| {
        let answer = get_port(own, &format!("/api/v1/query?query={query}"), "");
        let answer: serde_json::Value = serde_json::from_str(&answer.body).ok()?;
        Some(answer["data"]["result"].get(0)?["value"][1].as_str()?.to_owned())
    };
    for (query, expected) in [
        ("up", "1"),
        ("stock", "42"),
        ("containerpilot_events%7Bcode%3D%22ExitFailed%22%2Csource%3D%22loop%22%7D", "3"),
        ("containerpilot_job_up%7Bname%3D%22app%22%7D", "1"),
    ] {
        pilot.eventually(&format!("{query} = {expected}"), || value(query).as_deref() == Some(expected));
    }
}

#[test]
fn the_container_is_not_ready_while_a_required_job_crashes_again_and_again() {
    let port = free_port();
    let pilot = Pilot::start(&format!(
        r#"{{ telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"] }}, jobs: [
            {{ name: "once", exec: "true", required: true }},
            {{ name: "helper", exec: ["sh", "-c", "exit 3"] }},
            {{ name: "waits", exec: "sleep 1000", when: {{ source: "helper", once: "exitSuccess" }}, required: false }},
            {{ name: "app", exec: ["sh", "-c", "test -e {{dir}}/good || exit 3; exec sleep 1000"],
              restarts: "unlimited", backoff: {{ max: "20ms", resetAfter: "300ms" }} }} ] }}"#
    ));
    let against = || {
        let answer = get_port(port, "/readyz", "");
        (answer.status, answer.json()["notReady"].clone())
    };
    pilot.wait_for_events("app exitFailed", 3);
    // It is running at some of these moments, and delayed at others.
    for _ in 0..100 {
        let (status, jobs) = against();
        assert_eq!(status, 503, "{jobs}");
        assert_eq!((&jobs[0]["name"], &jobs[1]), (&"app".into(), &serde_json::Value::Null), "{jobs}");
        assert!(jobs[0]["reason"].as_str().unwrap().contains("exited with status 3"), "{jobs}");
    }
    fs::write(pilot.path("good"), "").unwrap();
    pilot.eventually("it is ready", || against().0 == 200);
    assert_eq!(pilot.status_of("waits")["neverRan"], "\"helper exitSuccess\" can no longer come");
    assert_eq!(pilot.status_of("app")["required"], true);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn status_keeps_the_order_of_the_configuration_through_a_reload() {
    let port = free_port();
    let pilot = Pilot::start(&format!(
        r#"{{ telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"] }}, jobs: [
            {{ name: "zulu", exec: "sleep 1000" }}, {{ name: "alpha", exec: "sleep 1000" }},
            {{ name: "mike", exec: "sleep 1000" }} ] }}"#
    ));
    let names = |list: &serde_json::Value, key: &str| -> Vec<String> {
        list.as_array().unwrap().iter().map(|job| job[key].as_str().unwrap().to_owned()).collect()
    };
    let shown = || {
        let ours = pilot.ask("GET", "/v3/status", "").json();
        let theirs = get_port(port, "/status", "").json();
        (names(&ours["jobs"], "name"), names(&theirs["Jobs"], "Name"))
    };
    pilot.wait_for_event("global startup");
    let order = ["zulu", "alpha", "mike"].map(str::to_owned).to_vec();
    assert_eq!(shown(), (order.clone(), order));
    pilot.edit(r#"{ name: "zulu", exec: "sleep 1000" }"#, r#"{ name: "yoke", exec: "sleep 1000" }"#);
    pilot.tell(&["-reload"]);
    let order = ["yoke", "alpha", "mike"].map(str::to_owned).to_vec();
    assert_eq!(shown(), (order.clone(), order));
    assert_eq!(pilot.stop(), Exit::Code(0));
}
