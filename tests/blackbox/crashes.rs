//! Dossiers of crashes: `crashes`, `/v3/crashes` and `/v3/jobs/NAME/crashes`.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::Pilot;

/// The dossiers of a job, newest first.
fn crashes(pilot: &Pilot, job: &str) -> Vec<Value> {
    let answer = pilot.ask("GET", &format!("/v3/jobs/{job}/crashes"), "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer_body(&answer.body)["crashes"].as_array().unwrap().clone()
}

/// The JSON of a chunked body.
fn answer_body(body: &str) -> Value {
    let (mut text, mut rest) = (String::new(), body);
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        text.push_str(&after[..length]);
        rest = after[length..].trim_start_matches("\r\n");
    }
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[test]
fn a_crash_leaves_a_dossier_with_all_that_is_known() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "db", exec: "true" },
            { name: "app", exec: ["sh", "-c", "i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); done; echo last words >&2; exit 3"],
              when: { source: "db", once: "exitSuccess" } },
            { name: "other", exec: "sleep 1000" },
        ] }"#,
    );
    pilot.wait_for_event("app exitFailed");
    pilot.eventually("the dossier", || {
        crashes(&pilot, "app").first().is_some_and(|crash| crash["events"][0].is_object())
    });
    let crash = crashes(&pilot, "app").remove(0);
    assert_eq!(crash["job"], "app");
    assert_eq!(
        (&crash["status"], &crash["signal"], &crash["killedBy"]),
        (&3.into(), &Value::Null, &Value::Null)
    );
    assert_eq!(crash["reason"], "exited with status 3");
    assert_eq!(crash["decision"], "is not restarted: `restarts` is \"never\"");
    assert!(crash["seconds"].as_f64().unwrap() > 0.0);
    assert!(crash["rusage"]["maxResidentKiB"].as_u64().unwrap() > 100, "{}", crash["rusage"]);
    let lines: Vec<&str> =
        crash["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(lines.len(), 50);
    assert!(lines.iter().any(|line| line.contains("last words")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("line 59")), "{lines:?}");
    let events = crash["events"].as_array().unwrap();
    assert_eq!((&events[0]["code"], &events[0]["source"]), (&"startup".into(), &"global".into()));
    assert!(events.iter().any(|event| event["source"] == "db" && event["code"] == "exitSuccess"));
    assert!(events.iter().all(|event| event["code"] != "exitFailed"), "only those before");
    assert!(crashes(&pilot, "other").is_empty());
    assert_eq!(pilot.ask("GET", "/v3/jobs/nope/crashes", "").status, 404);
    let human = pilot.tell(&["crashes"]);
    assert!(human.contains(" app [pid ") && human.contains("exited with status 3 after "), "{human}");
    assert_eq!(human.lines().count(), 1);
    let full = pilot.tell(&["crashes", "app"]);
    assert!(full.contains("its last lines:") && full.contains("last words"), "{full}");
    assert_eq!(pilot.tell(&["crashes", "other"]), "no crashes\n");
    let json: Value = serde_json::from_str(&pilot.tell(&["crashes", "-format", "json"])).unwrap();
    assert_eq!(json["crashes"].as_array().unwrap().len(), 1);
}

#[test]
fn it_is_told_who_killed_a_process_as_far_as_the_kernel_tells() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "slow", exec: "sleep 1000", timeout: "300ms" },
            { name: "stubborn", exec: ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"], killTimeout: "200ms" },
            { name: "victim", exec: "sleep 1001" },
            { name: "signalled", exec: "sleep 1002" },
            { name: "polite", exec: "sleep 1003" },
            { name: "stays", exec: "sleep 1004" },
        ] }"#,
    );
    pilot.wait_for_line("stubborn", "up");
    pilot.eventually("all run", || {
        ["victim", "signalled", "polite"].iter().all(|job| pilot.status_of(job)["pid"].is_i64())
    });
    kill(Pid::from_raw(i32::try_from(pilot.pid_of("victim")).unwrap()), Signal::SIGKILL).unwrap();
    pilot.tell(&["signal", "signalled", "SIGHUP"]);
    pilot.tell(&["stop", "stubborn"]);
    pilot.tell(&["stop", "polite"]);
    let of = |job: &'static str| {
        pilot.eventually(job, || !crashes(&pilot, job).is_empty());
        crashes(&pilot, job).remove(0)
    };
    for (job, status, reason, killer) in [
        ("slow", 137, "ran longer than its timeout: killed by SIGKILL", "containerpilot: its time was over"),
        ("stubborn", 137, "killed by SIGKILL after killTimeout", "containerpilot: it is stopped by hand"),
        (
            "victim",
            137,
            "killed by SIGKILL",
            "not containerpilot; the kernel does not tell a parent who sent SIGKILL",
        ),
        ("signalled", 129, "killed by SIGHUP", "containerpilot: the signal was asked for by hand"),
    ] {
        let crash = of(job);
        assert_eq!(crash["status"], status, "{crash}");
        assert_eq!(crash["reason"], reason, "{crash}");
        assert_eq!(crash["killedBy"], killer, "{crash}");
    }
    pilot.wait_for_event("polite stopped");
    assert!(crashes(&pilot, "polite").is_empty(), "it ended because it was told to");
    let told = pilot.tell(&["crashes"]);
    assert_eq!(told.lines().count(), 4, "{told}");
}

#[test]
fn the_last_ten_of_a_crash_loop_are_kept_and_say_what_was_decided() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "loop", exec: ["sh", "-c", "echo run >> {dir}/runs; exit 1"], restarts: 14, backoff: { min: "1ms", max: "5ms" } },
            { name: "stays", exec: "sleep 1000" },
        ] }"#,
    );
    pilot.eventually("the end", || {
        crashes(&pilot, "loop")
            .first()
            .is_some_and(|crash| crash["decision"] == "is not restarted: its 14 restarts are used up")
    });
    let all = crashes(&pilot, "loop");
    assert_eq!(all.len(), 10);
    let decisions: Vec<&str> = all.iter().map(|crash| crash["decision"].as_str().unwrap()).collect();
    assert!(
        decisions[1].starts_with("restarts in") && decisions[1].ends_with("(restart 14 of 14)"),
        "{decisions:?}"
    );
    assert!(decisions[9].ends_with("(restart 6 of 14)"), "{decisions:?}");
    let times: Vec<&str> = all.iter().map(|crash| crash["time"].as_str().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[0] >= pair[1]), "newest first: {times:?}");
    assert!(all[0]["events"].as_array().unwrap().len() <= 50);
}

#[test]
fn a_check_that_failed_is_in_the_dossier() {
    let pilot = Pilot::start(
        r#"{ jobs: [{
            name: "app", exec: ["sh", "-c", "while [ ! -e {dir}/go ]; do sleep 0.05; done; exit 1"],
            health: { exec: "false", interval: 1, timeout: 1 },
        }, { name: "stays", exec: "sleep 1000" }] }"#,
    );
    pilot.wait_for_event("app unhealthy");
    std::fs::write(pilot.path("go"), "").unwrap();
    pilot.eventually("the dossier", || !crashes(&pilot, "app").is_empty());
    let crash = crashes(&pilot, "app").remove(0);
    assert_eq!(crash["checks"][0]["status"], "failing", "{crash}");
    assert_eq!(crash["checks"][0]["reason"], "exited with status 1", "{crash}");
}
