//! Broken containers, and what `why` says about each: a stranger must find the cause from that text alone. The texts are
//! in `tests/blackbox/why/`, with times, processes and paths masked. `UPDATE_WHY=1` rewrites them.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use regex_lite::Regex;

use crate::support::container::Container;
use crate::support::ports::free_port;
use crate::support::{Pilot, Setup};

/// Keeps the program alive while the other jobs are looked at.
const KEEPER: &str = r#"{ name: "keeper", exec: "sleep 1000" }"#;

fn snapshot(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blackbox/why").join(name).with_extension("txt")
}

/// The text without what differs from run to run.
fn masked(text: &str) -> String {
    // The lines are wrapped by length, which differs with the words that are masked.
    let (paragraph, chain) = text.split_once("\n\n").unwrap_or((text, ""));
    let text =
        format!("{}\n\n{chain}", paragraph.replace('\n', " ").replace(" What to do:", "\nWhat to do:"));
    let masks = [
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(Z| UTC)", "TIME"),
        (r"\d\d:\d\d:\d\d UTC", "TIME"),
        (r"process \d+", "process PID"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
        (r"\((once|twice|\d+ times) since", "(N times since"),
        (r"(in|most|within) (less than 1 s|\d+ (s|min|h|d)( \d+ (s|min|h))?)", "$1 SPAN"),
    ];
    let mask = |text: String, (pattern, mask): &(&str, &str)| {
        Regex::new(pattern).unwrap().replace_all(&text, *mask).into_owned()
    };
    format!("{}\n", masks.iter().fold(text, mask).trim_end())
}

/// Waits until a job is in that state, and compares what `why` says of it.
fn assert_why(case: &str, pilot: &Pilot, job: &str, state: &str) {
    pilot.eventually(&format!("{job} is {state}"), || {
        let status = pilot.status_of(job);
        status["state"] == state || state == "never ran" && status["neverRan"].is_string()
    });
    compare(case, pilot, job);
}

fn compare(case: &str, pilot: &Pilot, job: &str) {
    compare_text(case, &pilot.tell(&["why", job]).replace(&*pilot.dir().to_string_lossy(), "DIR"));
}

fn compare_text(case: &str, said: &str) {
    let said = masked(said);
    let path = snapshot(case);
    if std::env::var_os("UPDATE_WHY").is_some_and(|value| value == "1") {
        fs::write(&path, &said).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(said, expected, "{case}: UPDATE_WHY=1 rewrites it");
}

fn start(jobs: &str) -> Pilot {
    Pilot::start(&format!("{{ jobs: [{KEEPER}, {jobs}] }}"))
}

#[test]
fn the_program_is_missing() {
    let pilot = start(r#"{ name: "app", exec: "/no/such/program" }"#);
    assert_why("missing-program", &pilot, "app", "complete");
}

#[test]
fn the_program_may_not_be_executed() {
    let setup = Setup::new().file("app.sh", "#!/bin/sh\n");
    let pilot = setup
        .config(&format!(r#"{{ jobs: [{KEEPER}, {{ name: "app", exec: "{{dir}}/app.sh" }}] }}"#))
        .start();
    assert_why("not-executable", &pilot, "app", "complete");
}

#[test]
fn the_user_may_not_be_changed() {
    let config = r#"{ control: { socket: "/tmp/containerpilot.socket" }, jobs: [
        { name: "keeper", exec: "sleep 1000" }, { name: "app", exec: "sleep 1000", user: "nobody" }] }"#;
    let container = Container::start_with(&["--user", "1000:1000"], |setup| {
        fs::set_permissions(setup.dir(), Permissions::from_mode(0o755)).unwrap();
        setup.config(config)
    });
    let Some(container) = container else { return };
    container.wait_for_event("app stopped");
    compare_text("wrong-user", &container.ask(&["why", "app"]));
}

#[test]
fn it_was_killed_for_memory() {
    let config =
        r#"{ jobs: [{ name: "keeper", exec: "sleep 1000" }, { name: "app", exec: "tail /dev/zero" }] }"#;
    let Some(container) = Container::start(&["--memory", "64m", "--memory-swap", "64m"], config) else {
        return;
    };
    container.wait_for_event("app stopped");
    compare_text("killed-for-memory", &container.ask(&["why", "app"]));
}

#[test]
fn it_may_not_open_so_many_files() {
    let pilot = start(
        r#"{ name: "app", rlimits: { nofile: 6 },
             exec: ["sh", "-c", "exec 3</dev/null 4</dev/null; for file in 5 6 7; do eval \"exec $file</dev/null\"; done"] }"#,
    );
    assert_why("descriptor-limit", &pilot, "app", "complete");
}

#[test]
fn nobody_reads_the_log() {
    let pilot = Setup::new()
        .config(&format!(r#"{{ jobs: [{KEEPER}, {{ name: "app", exec: "yes" }}] }}"#))
        .with_unread_output()
        .start();
    pilot.eventually("app is held up", || pilot.tell(&["why", "app"]).contains("does not keep up"));
    compare("log-blocked", &pilot, "app");
}

#[test]
fn the_disk_is_full() {
    let pilot = start(r#"{ name: "app", exec: "cp /proc/self/status /dev/full" }"#);
    assert_why("disk-full", &pilot, "app", "complete");
}

#[test]
fn the_port_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let program = "import socket, sys\\ntry: socket.socket().bind(('127.0.0.1', int(sys.argv[1])))\\nexcept OSError as error: sys.exit(error.strerror)";
    let port = taken.local_addr().unwrap().port();
    let pilot = start(&format!(
        r#"{{ name: "app", exec: ["python3", "-c", "{program}", "{port}"], restarts: 1, backoff: {{ max: "0s" }} }}"#
    ));
    assert_why("port-taken", &pilot, "app", "complete");
}

#[test]
fn a_dependency_failed() {
    let pilot = start(
        r#"{ name: "migrate", exec: ["sh", "-c", "exit 3"] },
           { name: "app", exec: "true", when: { source: "migrate", once: "exitSuccess" } }"#,
    );
    assert_why("dependency-failed", &pilot, "app", "never ran");
}

#[test]
fn a_dependency_is_unhealthy() {
    let port = free_port();
    let pilot = start(&format!(
        r#"{{ name: "db", exec: "sleep 1000", health: {{ http: "http://127.0.0.1:{port}/", interval: "5s", timeout: "1s" }} }},
           {{ name: "app", exec: "true", when: {{ source: "db", once: "healthy" }} }}"#
    ));
    pilot.wait_for_event("db unhealthy");
    assert_why("dependency-unhealthy", &pilot, "app", "waiting");
}

#[test]
fn a_dependency_has_not_ended() {
    let pilot = start(
        r#"{ name: "migrate", exec: "sleep 1000" },
           { name: "app", exec: "true", when: { source: "migrate", once: "exitSuccess" } }"#,
    );
    pilot.pid_of("migrate");
    assert_why("dependency-runs", &pilot, "app", "waiting");
}

#[test]
fn an_event_never_comes() {
    let pilot = start(r#"{ name: "app", exec: "true", when: { source: "SIGUSR2" } }"#);
    assert_why("signal-never-comes", &pilot, "app", "waiting");
}

#[test]
fn the_wait_is_too_long() {
    let pilot = start(
        r#"{ name: "app", exec: "true", when: { source: "keeper", once: "exitSuccess", timeout: "200ms" } }"#,
    );
    assert_why("when-timeout", &pilot, "app", "never ran");
}

#[test]
fn it_crashes_again_and_again() {
    let pilot = start(
        r#"{ name: "app", exec: ["sh", "-c", "exit 1"], restarts: "unlimited", backoff: { min: "1h", max: "1h" } }"#,
    );
    assert_why("crash-loop", &pilot, "app", "delayed");
}

#[test]
fn somebody_else_killed_it() {
    let pilot = start(r#"{ name: "app", exec: "sleep 1000" }"#);
    let pid = i32::try_from(pilot.pid_of("app")).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    assert_why("killed-by-another", &pilot, "app", "complete");
}

#[test]
fn it_ran_longer_than_its_timeout() {
    let pilot = start(r#"{ name: "app", exec: "sleep 1000", timeout: "2s" }"#);
    assert_why("timeout", &pilot, "app", "complete");
}

#[test]
fn it_is_not_ready() {
    let pilot = start(
        r#"{ name: "db", exec: "sleep 1000", ready: { notify: true } }, { name: "app", exec: "true", after: ["db"] }"#,
    );
    pilot.pid_of("db");
    assert_why("not-ready", &pilot, "app", "waiting");
}

#[test]
fn it_was_not_ready_in_time() {
    let pilot = start(r#"{ name: "app", exec: "sleep 1000", ready: { notify: true, timeout: "2s" } }"#);
    assert_why("ready-timeout", &pilot, "app", "complete");
}

#[test]
fn its_watchdog_heard_nothing() {
    let pilot = start(r#"{ name: "app", exec: "sleep 1000", watchdog: "2s" }"#);
    assert_why("watchdog", &pilot, "app", "complete");
}

#[test]
fn it_does_not_heed_its_stop_signal() {
    let pilot = Pilot::start(&format!(
        r#"{{ stopTimeout: "100ms", jobs: [{KEEPER}, {{ name: "app", killTimeout: "1h",
            exec: ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done"] }}] }}"#
    ));
    pilot.wait_for_line("app", "deaf");
    pilot.tell(&["stop", "app", "-no-wait"]);
    assert_why("stubborn", &pilot, "app", "terminating");
}

#[test]
fn its_stop_waits_for_another_job() {
    let pilot = Pilot::start(&format!(
        r#"{{ stopTimeout: "100ms", jobs: [{KEEPER},
            {{ name: "app", exec: "sleep 1000", stopTimeout: "1h" }},
            {{ name: "hook", exec: "sleep 1000", when: {{ source: "app", once: "stopping" }} }}] }}"#
    ));
    pilot.pid_of("app");
    pilot.tell(&["stop", "app", "-no-wait"]);
    pilot.pid_of("hook");
    assert_why("hook-holds-stop", &pilot, "app", "holding");
}

#[test]
fn it_is_drained() {
    let pilot = Pilot::start(&format!(
        r#"{{ stopTimeout: "100ms", jobs: [{KEEPER}, {{ name: "app", exec: "sleep 1000", drain: "1h" }}] }}"#
    ));
    pilot.pid_of("app");
    pilot.tell(&["stop", "app", "-no-wait"]);
    assert_why("draining", &pilot, "app", "draining");
}

#[test]
fn consul_is_away() {
    let port = free_port();
    let pilot = Pilot::start(&format!(
        r#"{{ consul: "127.0.0.1:{port}", watches: [{{ name: "db", interval: 1 }}], jobs: [{KEEPER},
            {{ name: "app", exec: "true", when: {{ source: "watch.db", once: "healthy" }} }}] }}"#
    ));
    pilot.eventually("Consul is in trouble", || {
        pilot.ask("GET", "/v3/status", "").json()["consul"]["trouble"].is_string()
    });
    assert_why("consul-away", &pilot, "app", "waiting");
}

#[test]
fn a_reload_was_refused() {
    let pilot = start(r#"{ name: "app", exec: "sleep 1000" }"#);
    pilot.pid_of("app");
    pilot.edit(r#"name: "app""#, r#"name: "{{ .Nothing | nonsense }}""#);
    assert_eq!(pilot.ask("PUT", "/v3/reload", "").status, 422);
    // The client needs a configuration that loads.
    pilot.edit(r#"name: "{{ .Nothing | nonsense }}""#, r#"name: "app""#);
    assert_why("bad-reload", &pilot, "app", "running");
}

#[test]
fn jobs_wait_for_each_other() {
    let pilot = start(
        r#"{ name: "a", exec: "true", when: { source: "b", once: "exitSuccess" } },
           { name: "b", exec: "true", when: { source: "a", once: "exitSuccess" } }"#,
    );
    assert_why("circle", &pilot, "a", "never ran");
}

#[test]
fn it_was_stopped_by_hand() {
    let pilot = start(r#"{ name: "app", exec: "sleep 1000" }"#);
    pilot.pid_of("app");
    pilot.tell(&["stop", "app"]);
    assert_why("stopped-by-hand", &pilot, "app", "halted");
}

#[test]
fn it_is_in_maintenance() {
    let pilot = start(r#"{ name: "app", exec: "sleep 1000", health: { exec: "true", interval: "9s" } }"#);
    pilot.wait_for_event("app healthy");
    pilot.tell(&["-maintenance", "enable"]);
    pilot.eventually("maintenance", || pilot.status_of("app")["health"] == "maintenance");
    assert_why("maintenance", &pilot, "app", "running");
}

#[test]
fn a_rule_excludes_its_restart() {
    let pilot = start(
        r#"{ name: "app", exec: ["sh", "-c", "exit 78"], restarts: { limit: "unlimited", except: [78] } }"#,
    );
    assert_why("restart-excluded", &pilot, "app", "complete");
}

#[test]
fn it_waits_for_its_next_run() {
    let pilot = start(r#"{ name: "app", exec: "true", when: { interval: "1h" } }"#);
    pilot.wait_for_event("app exitSuccess");
    assert_why("interval", &pilot, "app", "waiting");
}

#[test]
fn all_is_well() {
    let pilot = start(
        r#"{ name: "db", exec: "sleep 1000", health: { exec: "true", interval: "9s" } },
           { name: "app", exec: "sleep 1000", when: { source: "db", once: "healthy" } }"#,
    );
    pilot.pid_of("app");
    assert_why("well", &pilot, "app", "running");
}

#[test]
fn the_answer_for_programs_says_what_is_waited_for() {
    let pilot = start(
        r#"{ name: "done", exec: "true" },
           { name: "migrate", exec: "sleep 1000" },
           { name: "app", exec: "true", when: { all: [{ source: "done", once: "exitSuccess" }, { source: "migrate", once: "exitSuccess" }] } }"#,
    );
    pilot.wait_for_event("done exitSuccess");
    pilot.eventually("app has seen it", || {
        pilot.status_of("app")["reason"] == "waits for migrate exitSuccess"
    });
    let why = pilot.ask("GET", "/v3/jobs/app/why", "").json();
    let expected = serde_json::json!([
        { "source": "done", "event": "exitSuccess", "happened": true, "canStillCome": false },
        { "source": "migrate", "event": "exitSuccess", "happened": false, "canStillCome": true },
    ]);
    assert_eq!((&why["job"], &why["state"], &why["waitsFor"]), (&"app".into(), &"waiting".into(), &expected));
    assert!(why["nextTry"].is_null() && why["chain"].is_array(), "{why}");
    let unknown = pilot.ask("GET", "/v3/jobs/nobody/why", "");
    assert_eq!((unknown.status, unknown.json()["error"].as_str()), (404, Some("there is no job \"nobody\"")));
}

#[test]
fn the_examples_of_the_manual_are_what_the_program_says() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/troubleshooting.md")).unwrap();
    let folder = fs::read_dir(snapshot("x").parent().unwrap()).unwrap();
    let known: Vec<String> = folder.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    let blocks =
        page.split("```text\n$ containerpilot why ").skip(1).map(|rest| rest.split("```").next().unwrap());
    let examples: Vec<&str> = blocks.map(|block| block.split_once('\n').unwrap().1).collect();
    assert!(examples.len() >= 5, "{examples:?}");
    for example in examples {
        assert!(known.contains(&masked(example)), "{example}\n{}", masked(example));
    }
}
