//! The stream of events: numbered without gaps, each with a cause that is in the stream too.

use std::collections::HashSet;

use crate::support::Pilot;
use serde_json::Value;

/// All events so far, as the control socket tells them.
fn listed(pilot: &Pilot) -> Vec<Value> {
    let body = pilot.ask("GET", "/v3/events?since=0&wait=0", "").body;
    let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
    events.map(|event| serde_json::from_str(event).unwrap()).collect()
}

fn assert_causes_are_listed(pilot: &Pilot) {
    let events = listed(pilot);
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
    let expected: Vec<u64> = (1..).take(numbers.len()).collect();
    assert_eq!(numbers, expected, "numbered without gaps");
    let known: HashSet<u64> = numbers.into_iter().collect();
    for event in &events {
        let own = event["sequence"].as_u64().unwrap();
        let cause = event["cause"].as_u64();
        assert!(cause.is_none_or(|cause| cause < own && known.contains(&cause)), "{event}\n{events:#?}");
    }
}

#[test]
fn every_cause_is_an_event_that_is_listed_also_after_a_reload() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "db", exec: "sleep 1000", health: { exec: "true", interval: "100ms", timeout: "10s" } },
            { name: "app", exec: "true", when: { source: "db", once: "healthy" } },
            { name: "hook", exec: "true", when: { source: "app", each: "exitSuccess" } } ] }"#,
    );
    pilot.wait_for_event("hook exitSuccess");
    assert_causes_are_listed(&pilot);
    // What came before is told to new jobs alone: startup to one, the health of another job to the other.
    pilot.edit(
        "jobs: [",
        r#"jobs: [{ name: "late", exec: "true" }, { name: "later", exec: "true", when: { source: "db", once: "healthy" } },"#,
    );
    pilot.tell(&["-reload"]);
    pilot.wait_for_event("late stopped");
    pilot.wait_for_event("later stopped");
    assert_causes_are_listed(&pilot);
    assert_eq!(pilot.ask("PUT", "/v3/jobs/db/restart", "").status, 200);
    pilot.wait_for_events("db healthy", 2);
    pilot.tell(&["-reload", "-all"]);
    pilot.wait_for_events("hook exitSuccess", 2);
    assert_causes_are_listed(&pilot);
}
