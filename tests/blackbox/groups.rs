//! Groups: which jobs are restarted together, in which order, and when a group gives up.

use crate::support::{Exit, Pilot};

/// Three jobs that write down when they start and when they stop, in a group.
fn group(settings: &str) -> String {
    let job = |name: &str| {
        format!(
            r#"{{ name: "{name}", restarts: "unlimited", backoff: {{ max: "0s" }}, ready: {{ fd: 3 }},
                 exec: ["sh", "-c", "trap 'echo {name} stops >> {{dir}}/log; exit 0' TERM; echo {name} starts >> {{dir}}/log; echo >&3; while :; do sleep 0.02; done"] }}"#
        )
    };
    format!(
        r#"{{ jobs: [{}, {}, {}], groups: [{{ name: "all", jobs: ["db", "app", "web"], {settings} }}] }}"#,
        job("web"),
        job("app"),
        job("db")
    )
}

const START: [&str; 3] = ["db starts", "app starts", "web starts"];

fn kill(pilot: &Pilot, job: &str) {
    pilot.tell(&["signal", job, "SIGKILL"]);
}

#[test]
fn members_start_in_the_order_of_the_list_and_stop_in_the_reverse() {
    let pilot = Pilot::start(&group(r#"strategy: "oneForOne""#));
    pilot.wait_for_event("group.all ready");
    assert_eq!(pilot.wait_for_lines("log", 3), START);
    pilot.stop();
    assert_eq!(pilot.lines("log")[3..], ["web stops", "app stops", "db stops"]);
}

#[test]
fn a_job_that_waits_for_the_end_of_a_group_runs_at_the_shutdown() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "db", exec: "sleep 1000" }, { name: "app", exec: "sleep 1000" },
                    { name: "last", exec: "echo all of it has stopped", when: { source: "group.all", once: "stopped" } }],
             groups: [{ name: "all", jobs: ["db", "app"] }] }"#,
    );
    pilot.wait_for_event("group.all ready");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.lines_of("last"), ["all of it has stopped"]);
}

#[test]
fn one_for_one_restarts_the_member_alone() {
    let pilot = Pilot::start(&group(r#"strategy: "oneForOne""#));
    pilot.wait_for_event("group.all ready");
    kill(&pilot, "db");
    pilot.wait_for_events("group.all ready", 2);
    assert_eq!(pilot.lines("log")[3..], ["db starts"]);
}

#[test]
fn one_for_all_stops_all_last_first_and_starts_all_first_first() {
    let pilot = Pilot::start(&group(r#"strategy: "oneForAll""#));
    pilot.wait_for_event("group.all ready");
    kill(&pilot, "app");
    pilot.wait_for_events("group.all ready", 2);
    let expected = [["web stops", "db stops"].as_slice(), &START].concat();
    assert_eq!(pilot.lines("log")[3..], expected);
    pilot.wait_for_message("restarts app, which ended with status 137, and with it db, web");
}

#[test]
fn rest_for_one_restarts_those_listed_after_it() {
    let pilot = Pilot::start(&group(r#"strategy: "restForOne""#));
    pilot.wait_for_event("group.all ready");
    kill(&pilot, "app");
    pilot.wait_for_events("group.all ready", 2);
    assert_eq!(pilot.lines("log")[3..], ["web stops", "app starts", "web starts"]);
}

#[test]
fn a_member_that_is_restarted_for_ill_health_takes_those_after_it_along() {
    let job = |name: &str, settings: &str| {
        format!(
            r#"{{ name: "{name}", restarts: "unlimited", backoff: {{ max: "0s" }}, {settings}
                 exec: ["sh", "-c", "echo {name} starts >> {{dir}}/log; exec sleep 1000"] }}"#
        )
    };
    // Ill for one check.
    let check = r#"["sh", "-c", "! rm {dir}/b-is-ill 2> /dev/null"]"#;
    let health =
        format!(r#"onUnhealthy: "restart", health: {{ exec: {check}, interval: "20ms", timeout: "30s" }},"#);
    let pilot = Pilot::start(&format!(
        r#"{{ jobs: [{}, {}, {}], groups: [{{ name: "g", jobs: ["a", "b", "c"], strategy: "restForOne" }}] }}"#,
        job("a", ""),
        job("b", &health),
        job("c", "")
    ));
    pilot.wait_for_event("group.g ready");
    pilot.wait_for_lines("log", 3);
    std::fs::write(pilot.path("b-is-ill"), "").unwrap();
    pilot.wait_for_events("group.g ready", 2);
    pilot.assert_order(&["b unhealthy", "group.g unhealthy", "group.g healthy"]);
    assert_eq!(pilot.wait_for_lines("log", 5)[3..], ["b starts", "c starts"]);
}

#[test]
fn a_member_whose_own_limit_is_reached_is_complete_and_the_group_goes_on() {
    let pilot = Pilot::start(
        r#"{ jobs: [
              { name: "base", exec: "sleep 1000", restarts: "unlimited" },
              { name: "app", exec: ["sh", "-c", "echo run >> {dir}/runs; exit 7"], restarts: { limit: 2, per: "1h" },
                backoff: { max: "0s" } },
            ],
            groups: [{ name: "g", jobs: ["base", "app"], limit: 10, per: "1h" }] }"#,
    );
    pilot.wait_for_event("app stopped");
    assert_eq!((pilot.lines("runs").len(), pilot.count("group.g exitFailed")), (3, 0));
    assert_eq!(pilot.status_of("app")["state"], "complete");
    assert_eq!(pilot.status_of("base")["state"], "running");
}

#[test]
fn a_group_that_gives_up_ends_the_program_with_the_status_of_the_member() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [
              { name: "base", exec: "sleep 1000", restarts: "unlimited" },
              { name: "app", exec: ["sh", "-c", "exit 7"], restarts: "unlimited", backoff: { max: "0s" } },
            ],
            groups: [{ name: "g", jobs: ["base", "app"], strategy: "oneForAll", limit: 2, per: "1h" }] }"#,
    );
    assert_eq!(
        (exit, pilot.count("app exitFailed"), pilot.count("group.g exitFailed")),
        (Exit::Code(7), 3, 1)
    );
    pilot.wait_for_message("gives up after too many restarts: app ended with status 7");
}

#[test]
fn a_group_that_stops_completes_and_others_go_on() {
    let pilot = Pilot::start(
        r#"{ jobs: [
              { name: "base", exec: "sleep 1000", restarts: "unlimited" },
              { name: "app", exec: ["sh", "-c", "exit 7"], restarts: "unlimited", backoff: { max: "0s" } },
              { name: "other", exec: "sleep 1000" },
              { name: "alarm", exec: "touch {dir}/alarm", when: { source: "group.g", once: "exitFailed" } },
            ],
            groups: [{ name: "g", jobs: ["base", "app"], limit: 0, onExhausted: "stop" }] }"#,
    );
    pilot.wait_for_event("group.g stopped");
    pilot.wait_for_event("alarm exitSuccess");
    pilot.assert_order(&["group.g exitFailed", "base stopped", "group.g stopped"]);
    assert_eq!(
        (pilot.count("base stopped"), pilot.count("app stopped"), pilot.count("other stopped")),
        (1, 1, 0)
    );
}

#[test]
fn a_whole_group_is_stopped_started_and_restarted_by_hand() {
    let pilot = Pilot::start(&group(r#"strategy: "oneForOne""#));
    pilot.wait_for_event("group.all ready");
    pilot.tell(&["stop", "-no-wait", "group.all"]);
    pilot.wait_for_event("group.all stopped");
    assert_eq!(pilot.lines("log")[3..], ["web stops", "app stops", "db stops"]);
    pilot.tell(&["start", "-no-wait", "group.all"]);
    pilot.wait_for_events("group.all ready", 2);
    assert_eq!(pilot.lines("log")[6..], START);
    pilot.tell(&["restart", "-no-wait", "group.all"]);
    pilot.wait_for_events("group.all ready", 3);
    let again = [["web stops", "app stops", "db stops"].as_slice(), &START].concat();
    assert_eq!(pilot.lines("log")[9..], again);
}

#[test]
fn a_member_that_is_restarted_by_hand_takes_those_after_it_along() {
    let pilot = Pilot::start(&group(r#"strategy: "restForOne", limit: 0"#));
    pilot.wait_for_event("group.all ready");
    pilot.tell(&["restart", "-no-wait", "app"]);
    pilot.wait_for_events("group.all ready", 2);
    assert_eq!(pilot.lines("log")[3..], ["web stops", "app stops", "app starts", "web starts"]);
}

#[test]
fn a_reload_that_changes_a_member_restarts_those_after_it() {
    let pilot = Pilot::start(&group(r#"strategy: "restForOne""#));
    pilot.wait_for_event("group.all ready");
    pilot.edit(r#"name: "app","#, r#"name: "app", env: { A: "1" },"#);
    assert_eq!(pilot.tell(&["-reload"]), "stopped: web, app\nstarted: web, app\nkept: db\n");
    pilot.wait_for_lines("log", 7);
    assert_eq!(pilot.lines("log")[3..], ["web stops", "app stops", "app starts", "web starts"]);
}

#[test]
fn the_status_tells_the_group_and_how_often_it_restarted() {
    let pilot = Pilot::start(&group(r#"strategy: "oneForAll""#));
    pilot.wait_for_event("group.all ready");
    kill(&pilot, "web");
    pilot.wait_for_events("group.all ready", 2);
    let status = pilot.ask("GET", "/v3/status", "").json();
    let group = &status["groups"][0];
    assert_eq!(
        (&group["name"], &group["restarts"], &group["ready"]),
        (&"all".into(), &1.into(), &true.into())
    );
    assert_eq!(status["jobs"][0]["group"], "all");
    let table = pilot.tell(&["status"]);
    assert!(
        table.ends_with("\nGROUP  STATE  RESTARTS  JOBS\nall    ready  1         db app web\n"),
        "{table}"
    );
}
