//! Advertised jobs in a real Consul: registered when healthy, critical when not, withdrawn when they stop.

use std::fs;
use std::time::Instant;

use crate::support;
use crate::support::consul::Consul;
use crate::support::http::get_port;
use crate::support::ports::free_port;
use crate::support::proxy::Proxy;
use crate::support::{Exit, Pilot};

/// A job that is healthy while the file `well` is there.
fn app(consul: &str, more: &str) -> String {
    format!(
        r#"{{ consul: "{consul}", jobs: [{{ name: "app", exec: "sleep 1000", port: 8080, interfaces: "static:10.1.2.3",
            health: {{ exec: "test -e {{dir}}/well", interval: "50ms", timeout: "10s", ttl: "10s", heartbeat: "1s" }}, {more} }}] }}"#
    )
}

/// A status that only a heartbeat tells comes too late: tests wait 30 s at most.
fn app_with_rare_heartbeats(consul: &str) -> String {
    app(consul, "")
        .replace(r#"ttl: "10s""#, r#"ttl: "300s""#)
        .replace(r#"heartbeat: "1s""#, r#"heartbeat: "120s""#)
}

fn host() -> String {
    nix::unistd::gethostname().unwrap().into_string().unwrap()
}

#[test]
fn a_job_is_registered_with_everything_that_its_configuration_says() {
    let consul = Consul::start();
    let more = r#"tags: ["a", "b=c"], meta: { version: "1", "key": "some value" },
        consul: { enableTagOverride: true, deregisterCriticalServiceAfter: "90m" }"#;
    let proxy = Proxy::new(consul.port());
    let pilot = Pilot::start(&app(&proxy.address(), more));
    fs::write(pilot.path("well"), "").unwrap();
    consul.wait_for_status("app", "passing");
    let id = format!("app-{}", host());
    let service = &consul.get("/v1/agent/services")[&id];
    assert_eq!(service["Service"], "app");
    assert_eq!((&service["Address"], &service["Port"]), (&"10.1.2.3".into(), &8080.into()));
    assert_eq!(service["Tags"], serde_json::json!(["a", "b=c"]));
    assert_eq!(service["Meta"], serde_json::json!({ "version": "1", "key": "some value" }));
    assert_eq!(service["EnableTagOverride"], true);
    let check = &consul.get("/v1/agent/checks")[format!("service:{id}")];
    assert_eq!(check["ServiceID"], id.as_str());
    assert!(check["Notes"].as_str().unwrap().contains("containerpilot"), "{check}");
    // Consul shows neither of these, so that what it was told must do.
    let told = proxy.heard();
    assert!(told.contains(r#""DeregisterCriticalServiceAfter":"5400000ms""#), "{told}");
    assert!(told.contains(r#""TTL":"10000ms""#), "{told}");
    assert_eq!(pilot.stop(), Exit::Code(0));
    consul.wait_for_absence("app");
}

#[test]
fn registrations_are_counted_and_those_after_consul_forgot_as_well() {
    let consul = Consul::start();
    let port = free_port();
    let config = app(&consul.address(), "").replacen(
        "{ consul",
        &format!(r#"{{ telemetry: {{ port: {port}, interfaces: "static:127.0.0.1" }}, consul"#),
        1,
    );
    let pilot = Pilot::start(&config);
    fs::write(pilot.path("well"), "").unwrap();
    let counted = |number: u32| {
        let line = format!("containerpilot_registrations_total{{service=\"app\"}} {number}");
        get_port(port, "/metrics", "").body.lines().any(|found| found == line)
    };
    pilot.eventually("one registration", || counted(1));
    consul.put(&format!("/v1/agent/service/deregister/app-{}", host()), "");
    pilot.eventually("two registrations", || counted(2));
}

#[test]
fn a_job_is_not_registered_before_it_is_healthy() {
    let consul = Consul::start();
    let pilot = Pilot::start(&app(&consul.address(), ""));
    pilot.wait_for_event("app unhealthy");
    assert_eq!(consul.statuses("app"), [""; 0]);
    fs::write(pilot.path("well"), "").unwrap();
    consul.wait_for_status("app", "passing");
}

#[test]
fn consul_knows_of_every_change_at_once() {
    let consul = Consul::start();
    let pilot = Pilot::start(&app_with_rare_heartbeats(&consul.address()));
    let mut lags = Vec::new();
    for round in 1..=5 {
        fs::write(pilot.path("well"), "").unwrap();
        pilot.wait_for_events("app healthy", round);
        let began = Instant::now();
        consul.wait_for_status("app", "passing");
        lags.push(began.elapsed());
        fs::remove_file(pilot.path("well")).unwrap();
        pilot.wait_for_events("app unhealthy", round);
        let began = Instant::now();
        consul.wait_for_status("app", "critical");
        lags.push(began.elapsed());
    }
    lags.sort();
    // The figure is not asserted: the machine may do anything else meanwhile.
    println!("from the event to the catalogue: {lags:?}");
}

#[test]
fn a_service_whose_supervisor_is_gone_is_critical_when_its_time_to_live_is_over() {
    let consul = Consul::start();
    let config = app(&consul.address(), "").replace(r#"ttl: "10s""#, r#"ttl: "1500ms""#);
    let pilot = Pilot::start(&config);
    fs::write(pilot.path("well"), "").unwrap();
    consul.wait_for_status("app", "passing");
    pilot.signal(nix::sys::signal::SIGKILL);
    consul.wait_for_status("app", "critical");
}

#[test]
fn a_service_that_an_earlier_life_of_ours_left_behind_is_well_as_soon_as_the_job_is() {
    let consul = Consul::start();
    let id = format!("app-{}", host());
    consul.register("app", &id, 8080, &[]);
    consul.put(&format!("/v1/agent/check/fail/service:{id}"), "");
    consul.wait_for_status("app", "critical");
    let pilot = Pilot::start(&app_with_rare_heartbeats(&consul.address()));
    fs::write(pilot.path("well"), "").unwrap();
    consul.wait_for_status("app", "passing");
}

#[test]
fn an_initial_status_registers_at_once() {
    let consul = Consul::start();
    for status in ["passing", "warning", "critical"] {
        let pilot = Pilot::start(&app(
            &consul.address(),
            &format!(r#"initial_status: "{status}", when: {{ source: "SIGUSR2" }}"#),
        ));
        consul.wait_for_status("app", status);
        pilot.stop();
        consul.wait_for_absence("app");
    }
}

#[test]
fn an_initial_status_registers_at_once_after_maintenance_too() {
    let consul = Consul::start();
    let pilot =
        Pilot::start(&app(&consul.address(), r#"initial_status: "warning", when: { source: "SIGUSR2" }"#));
    for _ in 0..2 {
        consul.wait_for_status("app", "warning");
        assert_eq!(pilot.ask("PUT", "/v3/maintenance/enable", "").status, 200);
        consul.wait_for_absence("app");
        assert_eq!(pilot.ask("PUT", "/v3/maintenance/disable", "").status, 200);
    }
    consul.wait_for_status("app", "warning");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_job_whose_process_died_is_critical_until_the_next_one_passes() {
    let consul = Consul::start();
    let config = app(&consul.address(), r#"restarts: "unlimited""#)
        .replace("sleep 1000", "{dir}/app")
        .replace("{{dir}}", "{dir}");
    let script = "#!/bin/sh\nwhile test ! -e {dir}/go; do sleep 0.02; done\ntouch {dir}/well\n\
        while test ! -e {dir}/die; do sleep 0.02; done\nrm {dir}/well {dir}/go\n";
    let pilot = support::Setup::new().program("app", script).config(&config).start();
    fs::write(pilot.path("go"), "").unwrap();
    consul.wait_for_status("app", "passing");
    fs::write(pilot.path("die"), "").unwrap();
    consul.wait_for_status("app", "critical");
    fs::remove_file(pilot.path("die")).unwrap();
    fs::write(pilot.path("go"), "").unwrap();
    consul.wait_for_status("app", "passing");
}

#[test]
fn a_pre_stop_job_still_sees_the_service_registered_and_the_stop_signal_comes_after_its_end() {
    let consul = Consul::start();
    let url = format!("http://{}/v1/catalog/service/app", consul.address());
    let config = format!(
        r#"{{ consul: "{}", stopTimeout: "20s", jobs: [
            {{ name: "app", exec: ["sh", "-c", "trap 'curl -s {url} > {{dir}}/at-signal; exit' TERM; while :; do sleep 0.05; done"],
               port: 80, interfaces: "static:10.1.2.3", stopTimeout: "10s",
               health: {{ exec: "true", interval: "50ms", timeout: "10s", heartbeat: "1s" }} }},
            {{ name: "pre-stop", exec: ["sh", "-c", "curl -s {url} > {{dir}}/at-stopping"], when: {{ source: "app", once: "stopping" }} }},
        ] }}"#,
        consul.address()
    );
    let pilot = Pilot::start(&config);
    consul.wait_for_status("app", "passing");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(pilot.text("at-stopping").contains("app-"), "{}", pilot.text("at-stopping"));
    assert_eq!(pilot.text("at-signal").trim(), "[]");
}

#[test]
fn a_job_that_completes_is_withdrawn() {
    let consul = Consul::start();
    let config = format!(
        r#"{{ consul: "{}", jobs: [
            {{ name: "app", exec: ["sh", "-c", "while test ! -e {{dir}}/end; do sleep 0.02; done"], port: 80, interfaces: "static:10.1.2.3",
               health: {{ exec: "true", interval: "50ms", timeout: "10s", heartbeat: "1s" }} }},
            {{ name: "other", exec: "sleep 1000" }}] }}"#,
        consul.address()
    );
    let pilot = Pilot::start(&config);
    consul.wait_for_status("app", "passing");
    fs::write(pilot.path("end"), "").unwrap();
    pilot.wait_for_event("app stopped");
    assert_eq!(consul.get("/v1/agent/services"), serde_json::json!({}), "it is gone before it is `stopped`");
}

#[test]
fn a_job_without_exec_is_checked_and_advertised() {
    let consul = Consul::start();
    let (host, port) = consul.address().split_once(':').map(|(h, p)| (h.to_owned(), p.to_owned())).unwrap();
    let config = format!(
        r#"{{ consul: "{host}:{port}", jobs: [
            {{ name: "tcp", port: 80, interfaces: "static:10.1.2.3", health: {{ tcp: "{host}:{port}", interval: "50ms" }} }},
            {{ name: "http", port: 80, interfaces: "static:10.1.2.3", health: {{ http: "http://localhost:{port}/v1/status/leader", interval: "50ms" }} }},
            {{ name: "words", port: 80, interfaces: "static:10.1.2.3", health: {{
                http: {{ url: "http://{host}:{port}/v1/agent/self", status: 200, contains: "Config", headers: {{ "X-Any": "1" }} }}, interval: "50ms" }} }},
            {{ name: "lost", port: 80, interfaces: "static:10.1.2.3", health: {{ http: "http://{host}:{port}/nowhere", interval: "50ms" }} }},
            {{ name: "silent", port: 80, interfaces: "static:10.1.2.3", health: {{
                http: {{ url: "http://{host}:{port}/v1/agent/self", contains: "no such words" }}, interval: "50ms" }} }},
        ] }}"#
    );
    let pilot = Pilot::start(&config);
    for job in ["tcp", "http", "words"] {
        consul.wait_for_status(job, "passing");
    }
    for job in ["lost", "silent"] {
        pilot.wait_for_event(&format!("{job} unhealthy"));
        assert_eq!(consul.statuses(job), [""; 0]);
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
    for job in ["tcp", "http", "words"] {
        consul.wait_for_absence(job);
    }
}

#[test]
fn our_own_service_is_registered_with_telemetry() {
    let consul = Consul::start();
    let config = format!(
        r#"{{ consul: "{}", telemetry: {{ port: {}, interfaces: "static:127.0.0.1", tags: ["t"] }}, jobs: [{{ exec: "sleep 1000" }}] }}"#,
        consul.address(),
        free_port()
    );
    let pilot = Pilot::start(&config);
    consul.wait_for_status("containerpilot", "passing");
    let service = &consul.get("/v1/catalog/service/containerpilot")[0];
    assert_eq!(service["ServiceTags"], serde_json::json!(["t", env!("CARGO_PKG_VERSION")]));
    assert_eq!(pilot.stop(), Exit::Code(0));
    consul.wait_for_absence("containerpilot");
}

#[test]
fn what_is_killed_at_once_is_withdrawn_too() {
    let consul = Consul::start();
    let config = app(&consul.address(), "").replacen('{', "{ stopTimeout: -1, ", 1);
    let pilot = Pilot::start(&config);
    fs::write(pilot.path("well"), "").unwrap();
    consul.wait_for_status("app", "passing");
    pilot.stop();
    consul.wait_for_absence("app");
}

#[test]
fn many_jobs_are_advertised_and_withdrawn_as_far_as_the_time_for_that_allows() {
    let consul = Consul::start();
    let job = |number: usize| {
        format!(
            r#"{{ name: "job-{number}", port: 80, interfaces: "static:10.1.2.3", health: {{ tcp: "{}", interval: "200ms", heartbeat: "1s", ttl: "30s" }} }}"#,
            consul.address()
        )
    };
    let jobs: Vec<String> = (0..200).map(job).collect();
    let pilot = Pilot::start(&format!(r#"{{ consul: "{}", jobs: [{}] }}"#, consul.address(), jobs.join(",")));
    let registered = || consul.get("/v1/agent/services").as_object().map_or(0, serde_json::Map::len);
    consul.eventually("200 services", || registered() == 200);
    assert_eq!(pilot.stop(), Exit::Code(0));
    // A shutdown gives this two seconds: enough, unless the machine has much else to do.
    let left = registered();
    println!("{left} services are left");
    assert!(left < 200);
}
