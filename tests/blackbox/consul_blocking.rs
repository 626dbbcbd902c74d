//! Watches wait for news instead of asking for it: how often Consul is asked, and by whom it cannot be waited for.

use std::time::{Duration, Instant};

use crate::support::consul::Consul;
use crate::support::proxy::{Fault, Proxy};
use crate::support::{Exit, Pilot};

/// Every question about the service of the watch.
const QUESTION: &str = "GET /v1/health/service/db?";

/// A watch, and a job that runs at short intervals: what can be told of silence is told by counting its runs.
fn config(consul: &str, interval: &str) -> String {
    format!(
        r#"{{ consul: "{consul}", watches: [{{ name: "db", interval: "{interval}" }}],
            jobs: [{{ name: "clock", exec: "true", when: {{ interval: "500ms" }} }}] }}"#
    )
}

/// Waits while the clock runs that often.
fn let_pass(pilot: &Pilot, runs: usize) {
    let before = pilot.count("clock exitSuccess");
    pilot.wait_for_events("clock exitSuccess", before + runs);
}

fn troubles(pilot: &Pilot) -> usize {
    pilot.count_messages("Consul is in trouble")
}

#[test]
fn an_idle_watch_asks_once_and_hears_of_a_change_at_once_however_short_its_interval() {
    let consul = Consul::start();
    consul.register("db", "db-0", 1, &[]);
    let proxy = Proxy::new(consul.port());
    let pilot = Pilot::start(&config(&proxy.address(), "1s"));
    pilot.wait_for_event("watch.db healthy");
    pilot.eventually("the watch waits for news", || proxy.heard_times("&index=") > 0);
    let asked = proxy.heard_times(QUESTION);
    let_pass(&pilot, 8);
    assert_eq!(proxy.heard_times(QUESTION), asked, "{}", proxy.heard());
    let mut lags = Vec::new();
    for number in 1..=5 {
        let began = Instant::now();
        consul.register("db", &format!("db-{number}"), number, &[]);
        pilot.wait_for_events("watch.db changed", usize::from(number) + 1);
        lags.push(began.elapsed());
    }
    lags.sort();
    println!("from the change to its event: {lags:?}");
    // The quickest: a machine that has much else to do may take its time for the others.
    assert!(lags[0] < Duration::from_millis(500), "{lags:?}");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_server_that_answers_at_once_without_a_newer_index_is_asked_each_interval_and_not_in_a_loop() {
    const INTERVAL: Duration = Duration::from_millis(300);
    let proxy = Proxy::new(1);
    proxy.set(Fault::SameIndex);
    let pilot = Pilot::start(&config(&proxy.address(), "300ms"));
    pilot.wait_for_event("watch.db unhealthy");
    // One for an answer, one that does not block by chance, one that shows that it is no chance.
    pilot.eventually("it is seen not to block", || proxy.heard_times(QUESTION) >= 3);
    let (began, before) = (Instant::now(), proxy.heard_times(QUESTION));
    pilot.eventually("it is polled", || proxy.heard_times(QUESTION) >= before + 5);
    // The first of the five may be due already.
    let took = began.elapsed();
    assert!(took >= INTERVAL * 4, "five questions in {took:?}");
    assert_eq!(troubles(&pilot), 0);
}

#[test]
fn a_proxy_that_closes_silent_connections_is_no_trouble_and_hides_no_change() {
    let consul = Consul::start();
    consul.register("db", "db-1", 1, &[]);
    let proxy = Proxy::new(consul.port());
    proxy.set(Fault::CutAfter(Duration::from_millis(1500)));
    let pilot = Pilot::start(&config(&proxy.address(), "1s"));
    pilot.wait_for_event("watch.db healthy");
    pilot.eventually("three connections were cut", || proxy.connections() >= 4);
    consul.register("db", "db-2", 2, &[]);
    pilot.wait_for_events("watch.db changed", 2);
    assert_eq!(troubles(&pilot), 0, "{}", pilot.log().text());
    proxy.set(Fault::Refused);
    pilot.wait_for_message("Consul is in trouble");
    consul.register("db", "db-3", 3, &[]);
    proxy.set(Fault::None);
    pilot.wait_for_events("watch.db changed", 3);
    pilot.wait_for_message("Consul is back");
}

#[test]
fn a_watch_that_was_removed_leaves_no_question_behind() {
    let consul = Consul::start();
    consul.register("db", "db-1", 1, &[]);
    let proxy = Proxy::new(consul.port());
    let pilot = Pilot::start(&config(&proxy.address(), "10s"));
    pilot.wait_for_event("watch.db healthy");
    pilot.eventually("the watch waits for news", || proxy.heard_times("&index=") > 0);
    assert_eq!(proxy.open(), 1);
    pilot.edit(r#"{ name: "db", interval: "10s" }"#, "");
    pilot.tell(&["-reload"]);
    pilot.eventually("its connection is closed", || proxy.open() == 0);
    assert_eq!(troubles(&pilot), 0);
    consul.register("db", "db-2", 2, &[]);
    let_pass(&pilot, 1);
    assert_eq!(pilot.events_of("watch.db"), ["changed", "healthy"]);
}
