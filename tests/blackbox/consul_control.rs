//! Service discovery and the control plane: maintenance, reload, status and metrics, with a real Consul.

use std::thread;
use std::time::Duration;

use crate::support::consul::Consul;
use crate::support::http::get_port;
use crate::support::ports::free_port;
use crate::support::proxy::{Fault, Proxy};
use crate::support::{Exit, Pilot};

const TOKEN: &str = "99999999-8888-7777-6666-abcdefabcdef";

fn job(name: &str) -> String {
    format!(
        r#"{{ name: "{name}", exec: "sleep 1000", port: 80, interfaces: "static:10.1.2.3",
            health: {{ exec: "true", interval: "50ms", timeout: "10s", heartbeat: "1s" }} }}"#
    )
}

fn config(consul: &Consul, telemetry: u16) -> String {
    format!(
        r#"{{ consul: {{ address: "{}", token: "{TOKEN}" }}, telemetry: {{ port: {telemetry}, interfaces: "static:127.0.0.1" }},
            watches: [{{ name: "db", interval: "1s" }}], jobs: [{}, {}] }}"#,
        consul.address(),
        job("app"),
        job("other")
    )
}

fn enter(pilot: &Pilot, on: bool) {
    let path = if on { "/v3/maintenance/enable" } else { "/v3/maintenance/disable" };
    assert_eq!(pilot.ask("PUT", path, "").status, 200);
}

#[test]
fn in_maintenance_nothing_is_registered_and_afterwards_everything_is() {
    let consul = Consul::start();
    let pilot = Pilot::start(&config(&consul, free_port()));
    let services = ["app", "other", "containerpilot"];
    services.iter().for_each(|service| consul.wait_for_status(service, "passing"));
    for round in 1..=2 {
        enter(&pilot, true);
        services.iter().for_each(|service| consul.wait_for_absence(service));
        assert_eq!(pilot.status_of("app")["health"], "maintenance");
        enter(&pilot, false);
        services.iter().for_each(|service| consul.wait_for_status(service, "passing"));
        pilot.wait_for_events("app healthy", round + 1);
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
    services.iter().for_each(|service| consul.wait_for_absence(service));
}

#[test]
fn a_reload_changes_what_changed_and_nothing_else() {
    let consul = Consul::start();
    let pilot = Pilot::start(&config(&consul, free_port()));
    consul.wait_for_status("app", "passing");
    consul.wait_for_status("other", "passing");
    pilot.wait_for_event("watch.db unhealthy");
    let index_of =
        |service: &str| consul.get(&format!("/v1/catalog/service/{service}"))[0]["CreateIndex"].clone();
    let before = index_of("app");
    pilot.edit(&job("other"), &job("third"));
    pilot.edit(r#"{ name: "db", interval: "1s" }"#, r#"{ name: "cache", interval: "1s" }"#);
    pilot.tell(&["-reload"]);
    consul.wait_for_status("third", "passing");
    consul.wait_for_absence("other");
    pilot.wait_for_event("watch.cache unhealthy");
    assert_eq!(index_of("app"), before, "what did not change stays registered");
    consul.register("db", "db-1", 1, &[]);
    consul.register("cache", "cache-1", 1, &[]);
    pilot.wait_for_event("watch.cache healthy");
    assert_eq!(pilot.count("watch.db healthy"), 0, "nobody watches it any more");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_reload_moves_everything_to_another_consul() {
    let (old, new) = (Consul::start(), Consul::start());
    let pilot = Pilot::start(&config(&old, free_port()));
    old.wait_for_status("app", "passing");
    pilot.edit(&old.address(), &new.address());
    pilot.tell(&["-reload"]);
    new.wait_for_status("app", "passing");
    new.wait_for_status("containerpilot", "passing");
    old.wait_for_absence("app");
    new.register("db", "db-1", 1, &[]);
    pilot.wait_for_event("watch.db healthy");
    assert_eq!(pilot.stop(), Exit::Code(0));
    new.wait_for_absence("app");
}

#[test]
fn a_reload_that_changes_only_the_way_to_consul_leaves_every_service_registered() {
    let consul = Consul::start();
    let proxy = Proxy::new(consul.port());
    let names: Vec<String> = (0..10).map(|number| format!("app-{number}")).collect();
    // The next heartbeat, which would mend everything, comes after the test's deadline.
    let job = |name: &String| job(name).replace(r#"heartbeat: "1s""#, r#"ttl: "300s", heartbeat: "120s""#);
    let jobs: Vec<String> = names.iter().map(job).collect();
    let pilot = Pilot::start(&format!(r#"{{ consul: "{}", jobs: [{}] }}"#, proxy.address(), jobs.join(",")));
    names.iter().for_each(|name| consul.wait_for_status(name, "passing"));
    // What is sent over the former way arrives after what is sent at the same time over the other.
    let delay = Duration::from_millis(300);
    proxy.set(Fault::Late(delay));
    pilot.edit(&proxy.address(), &format!("localhost:{}", consul.port()));
    pilot.tell(&["-reload"]);
    let registrations = || {
        let is_one = |message: &str| message.starts_with("Register(") && message.ends_with("done");
        pilot.log().with_records(|records| records.iter().filter(|record| is_one(&record.message)).count())
    };
    pilot.eventually("all are registered again", || registrations() >= 2 * names.len());
    // Longer than the proxy holds anything up, so that whatever was sent has arrived.
    thread::sleep(2 * delay);
    names.iter().for_each(|name| consul.wait_for_status(name, "passing"));
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_call_that_was_under_way_when_consul_moved_is_not_taken_for_one_to_the_new_consul() {
    let (old, new) = (Consul::start(), Consul::start());
    let proxy = Proxy::new(old.port());
    // Answers come late; the next heartbeat, which would mend everything, comes after the test's deadline.
    proxy.set(Fault::Slow(Duration::from_secs(3)));
    let job =
        job("app").replace("1s", "120s").replace(r#"interval: "50ms""#, r#"interval: "50ms", ttl: "300s""#);
    let pilot = Pilot::start(&format!(r#"{{ consul: "{}", jobs: [{job}] }}"#, proxy.address()));
    old.wait_for_status("app", "passing");
    pilot.edit(&proxy.address(), &new.address());
    pilot.tell(&["-reload"]);
    new.wait_for_status("app", "passing");
    old.wait_for_absence("app");
    assert_eq!(new.statuses("app"), ["passing"]);
    assert_eq!(pilot.stop(), Exit::Code(0));
    new.wait_for_absence("app");
}

#[test]
fn a_reload_without_consul_withdraws_everything_and_one_with_it_brings_it_back() {
    let consul = Consul::start();
    let setting = format!(r#"consul: "{}","#, consul.address());
    let watches = r#"watches: [{ name: "app", interval: "1s" }]"#;
    let pilot = Pilot::start(&format!("{{ {setting} {watches}, jobs: [{}] }}", job("app")));
    consul.wait_for_status("app", "passing");
    pilot.wait_for_event("watch.app healthy");
    pilot.edit(&setting, "");
    assert!(pilot.client(&["-reload"]).status.success());
    consul.wait_for_absence("app");
    pilot.edit(watches, &format!("{setting} {watches}"));
    pilot.tell(&["-reload"]);
    consul.wait_for_status("app", "passing");
    pilot.wait_for_events("watch.app healthy", 2);
    assert_eq!(pilot.count("app healthy"), 1, "the job itself was left alone");
}

#[test]
fn the_trouble_of_a_watch_ends_with_it_and_the_next_is_told_again() {
    let consul = Consul::start();
    let far = r#"{ name: "db", dc: "elsewhere", interval: "1s" }"#;
    let near = r#"{ name: "db", interval: "1s" }"#;
    let config = format!(
        r#"{{ consul: "{}", watches: [{far}], jobs: [{{ exec: "sleep 1000" }}] }}"#,
        consul.address()
    );
    let pilot = Pilot::start(&config);
    let trouble = || pilot.ask("GET", "/v3/status", "").json()["consul"]["trouble"].clone();
    pilot.wait_for_message("Consul is in trouble");
    assert!(trouble().as_str().unwrap().contains("No path to datacenter"));
    pilot.edit(far, near);
    pilot.tell(&["-reload"]);
    pilot.wait_for_message("nobody has trouble with Consul any more");
    pilot.wait_for_event("watch.db unhealthy");
    assert!(trouble().is_null());
    pilot.edit(near, far);
    pilot.tell(&["-reload"]);
    let told = || pilot.log().records().iter().filter(|it| it.message.contains("in trouble")).count();
    pilot.eventually("the next trouble is told", || told() == 2);
}

#[test]
fn status_and_metrics_tell_of_watches_and_calls_and_show_no_token() {
    let consul = Consul::start();
    consul.register("db", "db-1", 5432, &[]);
    let port = free_port();
    let pilot = Pilot::start(&config(&consul, port));
    consul.wait_for_status("app", "passing");
    pilot.wait_for_event("watch.db healthy");
    let status = pilot.ask("GET", "/v3/status", "").body;
    assert!(status.contains("db-1") && status.contains("5432"), "{status}");
    // Two about the job, one about our own service, one of the watch.
    let calls = || get_port(port, "/metrics", "").sample("containerpilot_consul_requests_total");
    pilot.eventually("four calls are counted", || calls().unwrap().parse::<f64>().unwrap() >= 4.0);
    let metrics = get_port(port, "/metrics", "");
    assert_eq!(metrics.sample(r#"containerpilot_watch_instances{service="db"}"#).unwrap(), "1");
    assert_eq!(metrics.sample("containerpilot_consul_failures_total").unwrap(), "0");
    let lag: f64 = metrics.sample("containerpilot_consul_lag_seconds").unwrap().parse().unwrap();
    assert!(lag > 0.0 && lag < 10.0, "{lag}");
    for text in [&status, &metrics.body, &pilot.log().text(), &get_port(port, "/status", "").body] {
        assert!(!text.contains(TOKEN), "a token is shown");
    }
}
