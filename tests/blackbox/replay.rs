//! `-record` and `replay`: what the program decided can be decided again, to the same actions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use nix::sys::signal::Signal;

use crate::support::consul::Consul;
use crate::support::ports::free_port;
use crate::support::record::replay;
use crate::support::{Exit, Pilot, Setup, program};

fn recorded(config: &str) -> Pilot {
    Setup::new().config(config).arguments(&["-record", "{dir}/record"]).start()
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Replays the record of a run, which must come to the same actions; returns what it says.
fn replayed(pilot: &Pilot) -> String {
    let output = replay(&pilot.path("record"));
    let (said, problem) = texts(&output);
    assert!(output.status.success() && said.contains(": the same actions\n"), "{said}{problem}");
    said
}

const STORY: &str = r#"{ stopTimeout: "5s", jobs: [
    { name: "preStart", exec: "true" },
    { name: "db", exec: "sleep 1000", when: { source: "preStart", once: "exitSuccess" },
      health: { exec: "test -e {dir}/up", interval: "100ms", timeout: "10s" } },
    { name: "app", exec: ["sh", "-c", "trap 'exit 3' USR1; echo ready; while :; do sleep 0.02; done"],
      env: { MODE: "version 1" }, restarts: "unlimited", when: { source: "db", once: "healthy" },
      health: [{ name: "open", tcp: "127.0.0.1:1", interval: "1s" }, { name: "runs", exec: "true", interval: "100ms" }] },
    { name: "hook", exec: "sleep 0.1", when: { source: "app", each: "stopping" } },
    { name: "tick", exec: "true", when: { interval: "100ms" } },
    { name: "missing", exec: "/no/such/program" },
    { name: "hup", exec: "true", when: { source: "SIGUSR2", each: "signal" } },
    { name: "late", exec: "true", when: { source: "never", once: "exitSuccess", timeout: "300ms" } },
    { name: "never", exec: "sleep 1000", when: { source: "SIGHUP", once: "signal" } },
] }"#;

#[test]
fn a_run_with_starts_restarts_health_signals_a_reload_and_a_stop_replays_to_the_same_actions() {
    let pilot = recorded(STORY);
    pilot.wait_for_event("preStart stopped");
    fs::write(pilot.path("up"), "").unwrap();
    pilot.wait_for_event("db healthy");
    pilot.wait_for_event("late stopped");
    pilot.signal(Signal::SIGUSR2);
    pilot.wait_for_event("hup exitSuccess");
    pilot.wait_for_line("app", "ready");
    pilot.tell(&["signal", "app", "USR1"]);
    pilot.wait_for_event("app exitFailed");
    fs::remove_file(pilot.path("up")).unwrap();
    pilot.wait_for_event("db unhealthy");
    pilot.tell(&["restart", "-no-wait", "db"]);
    pilot.wait_for_event("db stopping");
    pilot.tell(&["-maintenance", "enable"]);
    pilot.tell(&["-maintenance", "disable"]);
    pilot.edit("version 1", "version 2");
    assert!(pilot.tell(&["-reload"]).contains("stopped: app\n"));
    pilot.wait_for_events("tick exitSuccess", 3);
    pilot.stop();
    let said = replayed(&pilot);
    assert!(said.ends_with("the record ends: the program ended\n"), "{said}");
    let steps: u32 = said.split(' ').next().unwrap().parse().unwrap();
    assert!(steps > 200, "{said}");
    assert_eq!(fs::metadata(pilot.path("record")).unwrap().permissions().mode() & 0o7777, 0o600);
}

/// The fuzz target `records` changes this record. When the machines have changed, it is recorded anew: run
/// `containerpilot -config fuzz/records/config.json5 -record FILE`, change it by `-putenv A=1`, and stop it when `after` is
/// ready and `ill` is unhealthy.
#[test]
fn the_record_that_fuzzing_begins_with_is_of_this_program() {
    let output = replay(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/records/base.jsonl"));
    let (said, problem) = texts(&output);
    assert!(output.status.success() && said.contains(": the same actions\n"), "{said}{problem}");
}

#[test]
fn no_secret_is_in_a_record_and_a_reload_that_changes_one_replays_to_the_same_actions() {
    let consul = Consul::start();
    consul.put("/v1/kv/planted", "secret-of-key");
    let config = r#"{
        consul: { address: "CONSUL", token: "secret-of-token" },
        env: { A: "secret-of-env" },
        watches: [{ name: "key", key: "planted", interval: "1s" }],
        jobs: [
            { name: "app", exec: ["sh", "-c", "sleep 1000 # secret-of-argument"], port: 80, interfaces: "static:127.0.0.1",
              env: { B: "secret-of-job" },
              health: { http: { url: "http://me:secret-of-url@127.0.0.1:1/?key=secret-of-query",
                                headers: { Authorization: "secret-of-header" } }, interval: "100ms" } },
            { name: "same", exec: "sleep 1000" },
            { name: "other", exec: "true", when: { source: "watch.key", each: "changed" } },
        ] }"#;
    let config = config.replace("CONSUL", &consul.address());
    let pilot = recorded(&config);
    pilot.wait_for_event("app unhealthy");
    pilot.wait_for_event("watch.key healthy");
    consul.put("/v1/kv/planted", "secret-of-key, changed");
    pilot.wait_for_events("watch.key changed", 2);
    pilot.edit("secret-of-job", "secret-of-job, changed");
    assert_eq!(pilot.tell(&["-reload"]), "stopped: app\nstarted: app\nkept: same, other\n");
    pilot.edit("secret-of-url", "secret-of-url-changed");
    assert_eq!(pilot.tell(&["-reload"]), "stopped: app\nstarted: app\nkept: same, other\n");
    pilot.edit("secret-of-token", "secret-of-token-changed");
    assert_eq!(pilot.tell(&["-reload"]), "kept: app, same, other\n");
    pilot.stop();
    replayed(&pilot);
    let record = pilot.text("record");
    assert!(record.contains("***") && !record.contains("secret-of"), "{record}");
}

#[test]
fn advertised_jobs_and_watches_replay_to_the_same_actions() {
    let mut consul = Consul::start();
    let config = r#"{ consul: "CONSUL", telemetry: { port: PORT, interfaces: "static:127.0.0.1" },
        watches: [{ name: "db", interval: "1s" }],
        jobs: [{ name: "app", exec: "sleep 1000", port: 80, interfaces: "static:127.0.0.1",
                 health: { exec: "true", interval: "100ms", timeout: "10s", ttl: "2s" } },
               { name: "react", exec: "true", when: { source: "watch.db", each: "changed" } }] }"#;
    let config = config.replace("CONSUL", &consul.address()).replace("PORT", &free_port().to_string());
    let pilot = recorded(&config);
    consul.wait_for_status("app", "passing");
    consul.register("db", "db-1", 1, &[]);
    pilot.wait_for_event("react exitSuccess");
    consul.kill();
    pilot.eventually("Consul is in trouble", || {
        pilot.tell(&["status", "-format", "json"]).contains("trouble")
    });
    consul.launch();
    consul.wait_for_status("app", "passing");
    pilot.stop();
    replayed(&pilot);
}

#[test]
fn the_record_of_a_program_that_was_killed_replays_as_far_as_it_goes() {
    let pilot =
        recorded(r#"{ jobs: [{ name: "app", exec: "true", restarts: "unlimited", backoff: { max: 0 } }] }"#);
    pilot.wait_for_events("app exitSuccess", 20);
    pilot.signal(Signal::SIGKILL);
    pilot.eventually("the program is gone", || pilot.log().exit().is_some());
    let said = replayed(&pilot);
    assert!(said.ends_with("the record was cut off: the program was killed, or it still runs\n"), "{said}");
}

#[test]
fn another_decision_is_shown_and_is_a_failure() {
    let pilot = recorded(r#"{ jobs: [{ name: "app", exec: "true" }] }"#);
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    let record = pilot.text("record");
    let line = record.lines().position(|line| line.contains(r#"{"Exit":0}"#)).unwrap() + 1;
    fs::write(pilot.path("record"), record.replace(r#"{"Exit":0}"#, r#"{"Exit":7}"#)).unwrap();
    let output = replay(&pilot.path("record"));
    let (said, problem) = texts(&output);
    assert_eq!((output.status.code(), &*said), (Some(1), ""));
    let expected =
        format!("containerpilot: {}: line {line}: pilot decides otherwise, ", pilot.path("record").display());
    assert!(problem.starts_with(&expected), "{problem}");
    assert!(problem.contains("\n- {\"Exit\":7}\n+ {\"Exit\":0}\n"), "{problem}");
}

#[test]
fn a_file_that_is_no_record_is_neither_replaced_nor_replayed() {
    let pilot = Setup::new()
        .file("precious", "do not lose me\n")
        .config(r#"{ jobs: [{ name: "app", exec: "touch {dir}/ran" }] }"#)
        .arguments(&["-record", "{dir}/precious"])
        .start();
    assert_eq!(pilot.wait_exit(), Exit::Code(1));
    pilot.wait_for_message("precious is there already, and is no record");
    assert_eq!((pilot.text("precious"), pilot.path("ran").exists()), ("do not lose me\n".into(), false));
    let output = replay(&pilot.path("precious"));
    assert_eq!(output.status.code(), Some(1));
    let (_, problem) = texts(&output);
    assert!(problem.contains("precious: line 1: this is no record: "), "{problem}");
}

#[test]
fn a_full_disk_ends_the_record_and_not_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("record");
    // A limit of 20 blocks of 512 bytes on any file stands for the full disk.
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 20; exec \"$@\"", "sh", program(), "-record"])
        .arg(&record)
        .args(["--", "sh", "-c", "i=0; while [ $i -lt 300 ]; do (sleep 0.001 &); i=$((i+1)); done; exit 7"])
        .output()
        .unwrap();
    let (log, problem) = texts(&output);
    assert_eq!(output.status.code(), Some(7), "{log}{problem}");
    assert_eq!(log.matches("the record ends: cannot write").count(), 1, "{log}{problem}");
    let output = replay(&record);
    assert!(output.status.success(), "{:?}", texts(&output));
}
