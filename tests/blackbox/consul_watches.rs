//! Watches of a real Consul: what changes there starts what waits for it here.

use std::time::Instant;

use crate::support::consul::Consul;
use crate::support::proxy::{Fault, Proxy};
use crate::support::{Exit, Pilot, proc_status};

fn config(consul: &str, watches: &str, jobs: &str) -> String {
    format!(
        r#"{{ consul: "{consul}", watches: [{watches}], jobs: [{{ name: "main", exec: "sleep 1000" }}, {jobs}] }}"#
    )
}

/// A job that says when it runs.
fn reaction(name: &str, source: &str, event: &str) -> String {
    format!(
        r#"{{ name: "{name}", exec: "echo ran", when: {{ source: "{source}", {event} }}, restarts: "never" }},"#
    )
}

/// What Consul allows a client. We keep 160 at a time; for a moment some more are still being closed.
const MOST_CONNECTIONS: usize = 200;

#[test]
fn a_watch_without_instances_is_unhealthy_once() {
    let consul = Consul::start();
    let watches = r#"{ name: "db", interval: "1s" }"#;
    let pilot = Pilot::start(&config(&consul.address(), watches, ""));
    pilot.wait_for_event("watch.db unhealthy");
    consul.register("db", "db-1", 1, &[]);
    pilot.wait_for_event("watch.db healthy");
    assert_eq!(pilot.events_of("watch.db"), ["unhealthy", "changed", "healthy"]);
}

#[test]
fn every_change_of_the_instances_is_told() {
    let consul = Consul::start();
    consul.register("db", "db-1", 1, &[]);
    let pilot = Pilot::start(&config(&consul.address(), r#"{ name: "db", interval: 100 }"#, ""));
    pilot.wait_for_event("watch.db healthy");
    consul.register("db", "db-2", 2, &[]);
    pilot.wait_for_events("watch.db changed", 2);
    consul.put("/v1/agent/check/fail/service:db-1", "");
    pilot.wait_for_events("watch.db changed", 3);
    consul.register("db", "db-2", 3, &[]);
    pilot.wait_for_events("watch.db changed", 4);
    consul.put("/v1/agent/service/deregister/db-2", "");
    pilot.wait_for_event("watch.db unhealthy");
    let expected = ["changed", "healthy", "changed", "changed", "changed", "changed", "unhealthy"];
    assert_eq!(pilot.events_of("watch.db"), expected);
}

#[test]
fn a_change_starts_the_waiting_job_long_before_the_interval_is_over() {
    let consul = Consul::start();
    let jobs = reaction("react", "watch.db", r#"each: "changed""#);
    let pilot = Pilot::start(&config(&consul.address(), r#"{ name: "db", interval: "300s" }"#, &jobs));
    pilot.wait_for_event("watch.db unhealthy");
    let mut lags = Vec::new();
    for number in 1..=6 {
        let began = Instant::now();
        consul.register("db", &format!("db-{number}"), number, &[]);
        pilot.wait_for_events("react exitSuccess", usize::from(number));
        lags.push(began.elapsed());
    }
    lags.sort();
    // How long it takes is measured by `make bench`; here the machine may do anything else meanwhile.
    println!("from the change to the end of the job that it started: {lags:?}");
}

#[test]
fn watches_of_one_service_differ_by_tag_and_name() {
    let consul = Consul::start();
    consul.register("db", "db-1", 1, &["replica"]);
    let watches = r#"{ name: "db", tag: "primary", interval: "1s" }, { name: "db", tag: "replica", as: "replicas", interval: "1s" }"#;
    let pilot = Pilot::start(&config(&consul.address(), watches, ""));
    pilot.wait_for_event("watch.replicas healthy");
    pilot.wait_for_event("watch.db unhealthy");
    consul.register("db", "db-2", 2, &["primary"]);
    pilot.wait_for_event("watch.db healthy");
    assert_eq!(pilot.events_of("watch.replicas"), ["changed", "healthy"]);
}

#[test]
fn a_watch_asks_the_datacentre_that_it_names() {
    let consul = Consul::start();
    consul.register("db", "db-1", 1, &[]);
    let watches = r#"{ name: "db", dc: "dc1", interval: "1s" }, { name: "db", dc: "elsewhere", as: "far", interval: "1s" }"#;
    let pilot = Pilot::start(&config(&consul.address(), watches, ""));
    pilot.wait_for_event("watch.db healthy");
    let record = pilot.wait_for_message("Consul is in trouble");
    assert!(record.message.contains("No path to datacenter"), "{}", record.message);
    assert_eq!(pilot.events_of("watch.far"), [""; 0], "trouble is no change");
}

#[test]
fn keys_and_prefixes_are_watched() {
    let consul = Consul::start();
    consul.put("/v1/kv/other", "x");
    let watches = r#"{ name: "flag", key: "app/a flag", interval: "100s" }, { name: "settings", prefix: "app/", interval: "100s" }"#;
    let pilot = Pilot::start(&config(&consul.address(), watches, ""));
    pilot.wait_for_event("watch.flag unhealthy");
    pilot.wait_for_event("watch.settings unhealthy");
    consul.put("/v1/kv/app/a%20flag", "1");
    pilot.wait_for_event("watch.flag healthy");
    pilot.wait_for_event("watch.settings healthy");
    consul.put("/v1/kv/app/a%20flag", "2");
    pilot.wait_for_events("watch.flag changed", 2);
    pilot.wait_for_events("watch.settings changed", 2);
    consul.put("/v1/kv/app/b", "1");
    pilot.wait_for_events("watch.settings changed", 3);
    consul.delete("/v1/kv/app/a%20flag");
    pilot.wait_for_event("watch.flag unhealthy");
    pilot.wait_for_events("watch.flag unhealthy", 2);
    pilot.wait_for_events("watch.settings changed", 4);
    let expected = ["unhealthy", "changed", "healthy", "changed", "changed", "unhealthy"];
    assert_eq!(pilot.events_of("watch.flag"), expected);
    let expected = ["unhealthy", "changed", "healthy", "changed", "changed", "changed"];
    assert_eq!(pilot.events_of("watch.settings"), expected);
}

#[test]
fn an_outage_is_no_change_and_news_come_after_it() {
    let consul = Consul::start();
    let proxy = Proxy::new(consul.port());
    consul.register("db", "db-1", 1, &[]);
    let pilot = Pilot::start(&config(&proxy.address(), r#"{ name: "db", interval: "1s" }"#, ""));
    pilot.wait_for_event("watch.db healthy");
    for (round, fault) in [Fault::Refused, Fault::Reset, Fault::Garbage, Fault::WrongBody, Fault::Status500]
        .into_iter()
        .enumerate()
    {
        proxy.set(fault);
        pilot.eventually("the outage is noticed", || pilot.count_messages("in trouble") > round);
        consul.register("db", &format!("db-{round}-new"), 2, &[]);
        proxy.set(Fault::None);
        pilot.wait_for_events("watch.db changed", round + 2);
    }
    let events = pilot.events_of("watch.db");
    assert_eq!(events[..2], ["changed", "healthy"]);
    assert!(events[2..].iter().all(|event| event == "changed"), "{events:?}");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn behind_a_proxy_that_breaks_blocking_queries_a_watch_polls() {
    let consul = Consul::start();
    let proxy = Proxy::new(consul.port());
    proxy.set(Fault::NoIndex);
    let pilot = Pilot::start(&config(&proxy.address(), r#"{ name: "db", interval: "200ms" }"#, ""));
    pilot.wait_for_event("watch.db unhealthy");
    consul.register("db", "db-1", 1, &[]);
    pilot.wait_for_event("watch.db healthy");
}

#[test]
fn a_consul_that_restarts_without_its_state_is_followed() {
    let mut consul = Consul::start();
    for number in 0..20 {
        consul.register("db", &format!("db-{number}"), 1, &[]);
    }
    let pilot = Pilot::start(&config(&consul.address(), r#"{ name: "db", interval: "60s" }"#, ""));
    pilot.wait_for_event("watch.db healthy");
    consul.kill();
    consul.launch();
    pilot.wait_for_event("watch.db unhealthy");
    consul.register("db", "db-1", 1, &[]);
    pilot.wait_for_events("watch.db healthy", 2);
}

#[test]
fn two_hundred_watches_and_advertised_jobs_work_over_few_connections() {
    let consul = Consul::start();
    let proxy = Proxy::new(consul.port());
    let watches: Vec<String> =
        (0..200).map(|number| format!(r#"{{ name: "job-{number}", interval: "2s" }}"#)).collect();
    let jobs: Vec<String> = (0..200)
        .map(|number| {
            format!(
                r#"{{ name: "job-{number}", port: 80, interfaces: "static:10.1.2.3",
                    health: {{ tcp: "{}", interval: "1s", heartbeat: "2s", ttl: "60s" }} }}"#,
                consul.address()
            )
        })
        .collect();
    let pilot = Pilot::start(&config(&proxy.address(), &watches.join(","), &jobs.join(",")));
    let mut most = 0;
    for number in 0..200 {
        pilot.wait_for_event(&format!("watch.job-{number} healthy"));
        most = most.max(proxy.open());
    }
    println!("{} connections, at most {most} at a time", proxy.connections());
    assert!(most < MOST_CONNECTIONS, "{most} connections at a time");
    let began = Instant::now();
    assert_eq!(pilot.stop(), Exit::Code(0));
    println!("stopped in {:?}", began.elapsed());
    // Two seconds are enough, unless the machine has much else to do.
    let left = consul.get("/v1/agent/services").as_object().map_or(0, serde_json::Map::len);
    println!("{left} services are left");
    assert!(left < 200);
}

#[test]
fn with_two_hundred_watches_too_a_change_starts_the_waiting_job_long_before_the_interval_is_over() {
    const WATCHES: usize = 200;
    let consul = Consul::start();
    let proxy = Proxy::new(consul.port());
    let watch = |number: usize| format!(r#"{{ name: "db-{number}", interval: "300s" }},"#);
    let watches: String = (0..WATCHES).map(watch).collect();
    // Every fourth; a third of the watches have no connection of their own, whichever they are.
    let tried: Vec<usize> = (0..WATCHES).step_by(4).collect();
    let react =
        |number| reaction(&format!("react-{number}"), &format!("watch.db-{number}"), r#"each: "changed""#);
    let jobs: String = tried.iter().copied().map(react).collect();
    for number in 0..WATCHES {
        consul.register(&format!("db-{number}"), &format!("db-{number}"), 1, &[]);
    }
    let pilot = Pilot::start(&config(&proxy.address(), &watches, &jobs));
    (0..WATCHES).for_each(|number| pilot.wait_for_event(&format!("watch.db-{number} healthy")));
    let (mut lags, mut most) = (Vec::new(), 0);
    for (round, status) in ["fail", "pass"].into_iter().enumerate() {
        for number in &tried {
            let began = Instant::now();
            consul.put(&format!("/v1/agent/check/{status}/service:db-{number}"), "");
            pilot.wait_for_events(&format!("react-{number} exitSuccess"), round + 2);
            lags.push(began.elapsed());
        }
        most = most.max(proxy.open());
    }
    lags.sort();
    println!(
        "from the change to the end of the job: median {:?}, worst {:?}",
        lags[lags.len() / 2],
        lags.last()
    );
    assert!(most < MOST_CONNECTIONS, "{most} connections at a time");
}

#[test]
fn a_changed_port_and_a_lost_service_are_seen_by_each_of_many_watches() {
    const WATCHES: usize = 150;
    let consul = Consul::start();
    let watch = |number: usize| format!(r#"{{ name: "db", as: "w-{number}", interval: "300s" }},"#);
    let watches: String = (0..WATCHES).map(watch).collect();
    let all = |pilot: &Pilot, event: &str, times: usize| {
        (0..WATCHES).for_each(|number| pilot.wait_for_events(&format!("watch.w-{number} {event}"), times));
    };
    let pilot = Pilot::start(&config(&consul.address(), &watches, ""));
    all(&pilot, "unhealthy", 1);
    consul.register("db", "db-1", 1, &[]);
    all(&pilot, "healthy", 1);
    consul.register("db", "db-1", 2, &[]);
    all(&pilot, "changed", 2);
    consul.put("/v1/agent/service/deregister/db-1", "");
    all(&pilot, "unhealthy", 2);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn more_keys_than_connections_are_watched_in_turn() {
    const KEYS: usize = 140;
    let consul = Consul::start();
    let watch = |number: usize| format!(r#"{{ name: "k-{number}", key: "k/{number}", interval: "5s" }},"#);
    let watches: String = (0..KEYS).map(watch).collect();
    let pilot = Pilot::start(&config(&consul.address(), &watches, ""));
    (0..KEYS).for_each(|number| pilot.wait_for_event(&format!("watch.k-{number} unhealthy")));
    (0..KEYS).for_each(|number| drop(consul.put(&format!("/v1/kv/k/{number}"), "x")));
    (0..KEYS).for_each(|number| pilot.wait_for_event(&format!("watch.k-{number} healthy")));
}

#[test]
fn watches_begin_when_coprocesses_have_started() {
    let consul = Consul::start();
    let proxy = Proxy::new(consul.port());
    let config = format!(
        r#"{{ consul: "{}", watches: [{{ name: "db", interval: "1s" }}], coprocesses: [{{ name: "agent", command: "sleep 1000" }}], jobs: [
            {{ name: "app", exec: "sleep 1000" }},
            {{ name: "preStart", exec: ["sh", "-c", "until test -e {{dir}}/go; do sleep 0.02; done"] }},
            {{ name: "ticks", exec: "true", when: {{ interval: "20ms" }}, restarts: 10 }} ] }}"#,
        proxy.address()
    );
    let pilot = Pilot::start(&config);
    pilot.wait_for_event("ticks stopped");
    assert_eq!(proxy.connections(), 0, "nothing is asked before coprocesses have started");
    std::fs::write(pilot.path("go"), "").unwrap();
    pilot.wait_for_event("watch.db unhealthy");
    pilot.assert_order(&["preStart exitSuccess", "watch.db unhealthy"]);
    let records = pilot.log().records();
    let started = records.iter().position(|record| record.job == "agent" && record.message == "started");
    let asked = records.iter().position(|record| record.event() == Some("watch.db unhealthy"));
    assert!(started.unwrap() < asked.unwrap());
    pilot.edit(r#"{ name: "db", interval: "1s" }"#, r#"{ name: "other", interval: "1s" }"#);
    pilot.tell(&["-reload"]);
    pilot.wait_for_event("watch.other unhealthy"); // what it waits for has happened
}

#[test]
fn watches_begin_when_coprocesses_could_not_be_started() {
    let consul = Consul::start();
    let config = format!(
        r#"{{ consul: "{}", watches: [{{ name: "db", interval: "1s" }}],
            coprocesses: [{{ name: "agent", command: "{{dir}}/missing" }}],
            jobs: [{{ name: "app", exec: "sleep 1000" }}] }}"#,
        consul.address()
    );
    let pilot = Pilot::start(&config);
    pilot.wait_for_event("watch.db unhealthy");
    pilot.assert_order(&["agent exitFailed", "watch.db unhealthy"]);
}

#[test]
fn a_watch_that_pre_start_waits_for_begins_at_once() {
    let consul = Consul::start();
    let config = format!(
        r#"{{ consul: "{}", watches: [{{ name: "db", interval: "1s" }}], coprocesses: [{{ name: "agent", command: "sleep 1000" }}], jobs: [
            {{ name: "app", exec: "echo ran" }},
            {{ name: "preStart", exec: "true", when: {{ source: "watch.db", once: "healthy" }} }} ] }}"#,
        consul.address()
    );
    let pilot = Pilot::start(&config);
    pilot.wait_for_event("watch.db unhealthy");
    consul.register("db", "db-1", 1, &[]);
    pilot.wait_for_line("app", "ran");
}

#[test]
fn a_watch_that_waits_costs_nothing() {
    let consul = Consul::start();
    let watches: Vec<String> =
        (0..20).map(|number| format!(r#"{{ name: "none-{number}", interval: "60s" }}"#)).collect();
    let clock = r#"{ name: "clock", exec: "true", when: { interval: "1s" } }"#;
    let pilot = Pilot::start(&config(&consul.address(), &watches.join(","), clock));
    for number in 0..20 {
        pilot.wait_for_event(&format!("watch.none-{number} unhealthy"));
    }
    // Idleness shows only over time; the window is the time from one run of a job to the next, and what is counted is
    // how often we woke up, of which that run alone needs a few.
    let runs = pilot.count("clock exitSuccess");
    pilot.wait_for_events("clock exitSuccess", runs + 1);
    let before = proc_status(pilot.pid(), "voluntary_ctxt_switches");
    pilot.wait_for_events("clock exitSuccess", runs + 2);
    let woken = proc_status(pilot.pid(), "voluntary_ctxt_switches") - before;
    println!("woke up {woken} times in a second");
    assert!(woken <= 60, "woke up {woken} times in a second");
}
