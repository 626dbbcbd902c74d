//! Every kind of dependency that applications in containers have, with a real Consul.

use crate::support;
use crate::support::consul::{Consul, program};
use crate::support::ports::free_port;
use crate::support::{Exit, Pilot};

const APP: &str = r#"name: "app", port: 80, interfaces: "static:10.1.2.3", health: { exec: "true", interval: "50ms", timeout: "10s" }"#;

#[test]
fn an_application_waits_for_an_external_service() {
    let consul = Consul::start();
    let config = format!(
        r#"{{ consul: "{}", watches: [{{ name: "db", interval: "1s" }}], jobs: [
            {{ {APP}, exec: "sleep 1000", when: {{ source: "watch.db", once: "healthy" }} }}] }}"#,
        consul.address()
    );
    let pilot = Pilot::start(&config);
    pilot.wait_for_event("watch.db unhealthy");
    assert_eq!(pilot.count("app healthy"), 0);
    consul.register("db", "db-1", 1, &[]);
    consul.wait_for_status("app", "passing");
    pilot.wait_for_event("app healthy");
    pilot.assert_order(&["watch.db healthy", "app healthy"]);
}

#[test]
fn an_application_waits_for_the_consul_agent_in_its_own_container_which_stops_last() {
    let (http, server, gossip) = (free_port(), free_port(), free_port());
    let config = format!(
        r#"{{ consul: "127.0.0.1:{http}", stopTimeout: "20s", jobs: [
            {{ name: "agent", exec: ["{}", "agent", "-dev", "-bind=127.0.0.1", "-dns-port=-1", "-grpc-port=-1", "-serf-wan-port=-1",
                 "-http-port={http}", "-server-port={server}", "-serf-lan-port={gossip}"],
               health: {{ http: {{ url: "http://127.0.0.1:{http}/v1/status/leader", contains: "127" }}, interval: "1s" }} }},
            {{ {APP}, exec: "sleep 1000", when: {{ source: "agent", once: "healthy" }} }}] }}"#,
        program().display()
    );
    let pilot = Pilot::start(&config);
    pilot.wait_for_record("app is registered", |record| {
        record.job == "consul" && record.message.contains("Register")
    });
    assert_eq!(pilot.stop(), Exit::Code(0));
    pilot.assert_order(&[
        "agent healthy",
        "app healthy",
        "app stopping",
        "app stopped",
        "agent stopping",
        "agent stopped",
    ]);
    let log = pilot.log().text();
    assert!(log.contains("Deregister done"), "the agent was still there to hear it");
    assert!(!log.contains("Consul is in trouble"), "nothing was told to an agent that was gone");
}

#[test]
fn an_application_gets_the_environment_that_a_setup_job_has_set() {
    let consul = Consul::start();
    let itself = support::program();
    let config = format!(
        r#"{{ consul: "{}", jobs: [
            {{ name: "setup", exec: ["{itself}", "-config", "{{dir}}/containerpilot.json5", "-putenv", "DB=there=1"] }},
            {{ {APP}, exec: ["sh", "-c", "echo DB is $DB; exec sleep 1000"], when: {{ source: "setup", once: "exitSuccess" }} }}] }}"#,
        consul.address()
    );
    let pilot = Pilot::start(&config);
    pilot.wait_for_line("app", "DB is there=1");
    consul.wait_for_status("app", "passing");
}

#[test]
fn an_application_waits_for_a_file_that_is_generated_from_the_store() {
    let consul = Consul::start();
    let url = format!("http://{}/v1/kv/app/setting?raw", consul.address());
    let config = format!(
        r#"{{ consul: "{}", watches: [{{ name: "setting", key: "app/setting", interval: "60s" }}], jobs: [
            {{ name: "render", exec: "curl -s -o {{dir}}/file {url}", when: {{ source: "watch.setting", each: "changed" }} }},
            {{ {APP}, exec: ["sh", "-c", "echo $(cat {{dir}}/file); exec sleep 1000"], when: {{ source: "render", once: "exitSuccess" }} }}] }}"#,
        consul.address()
    );
    let pilot = Pilot::start(&config);
    pilot.wait_for_event("watch.setting unhealthy");
    consul.put("/v1/kv/app/setting", "the setting");
    pilot.wait_for_line("app", "the setting");
    consul.put("/v1/kv/app/setting", "another");
    pilot.eventually("the file is rendered anew", || pilot.text("file") == "another");
}

#[test]
fn hard_quasi_hard_and_soft_dependencies_differ_in_what_waits() {
    let consul = Consul::start();
    let url = format!("http://{}/v1/health/service/db?passing=1", consul.address());
    let advertised = r#"port: 80, interfaces: "static:10.1.2.3""#;
    let config = format!(
        r#"{{ consul: "{}", watches: [{{ name: "db", interval: "1s" }}], jobs: [
            {{ name: "hard", exec: "sleep 1000", {advertised}, health: {{ exec: "true", interval: "50ms", timeout: "10s" }}, when: {{ source: "watch.db", once: "healthy" }} }},
            {{ name: "quasi-hard", exec: "sleep 1000", {advertised}, health: {{ http: {{ url: "{url}", contains: "db-1" }}, interval: "50ms" }} }},
            {{ name: "soft", exec: "sleep 1000", {advertised}, health: {{ exec: "true", interval: "50ms", timeout: "10s" }} }},
            {{ name: "adapt-soft", exec: "true", when: {{ source: "watch.db", each: "changed" }} }} ] }}"#,
        consul.address()
    );
    let pilot = Pilot::start(&config);
    pilot.wait_for_event("watch.db unhealthy");
    consul.wait_for_status("soft", "passing");
    pilot.wait_for_event("quasi-hard unhealthy");
    assert_eq!(pilot.status_of("hard")["state"], "waiting");
    assert_eq!(pilot.status_of("quasi-hard")["state"], "running");
    assert_eq!(consul.statuses("quasi-hard"), [""; 0]);
    consul.register("db", "db-1", 1, &[]);
    consul.wait_for_status("hard", "passing");
    consul.wait_for_status("quasi-hard", "passing");
    pilot.wait_for_event("adapt-soft exitSuccess");
    consul.put("/v1/agent/service/deregister/db-1", "");
    consul.wait_for_status("quasi-hard", "critical");
    pilot.wait_for_events("adapt-soft exitSuccess", 2);
    assert_eq!(pilot.status_of("hard")["state"], "running", "it has started, and decides for itself");
}
