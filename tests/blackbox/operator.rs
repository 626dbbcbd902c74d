//! What an operator uses daily: the status with its reasons, `-ready`, orders that wait, `when` and `graph`.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{self, Exit, Pilot, Setup};

const SERVER: &str = r#"{ name: "server", exec: "sleep 1000" }"#;

/// A job that ignores SIGTERM and is killed only after an hour, and says when it does.
const STUBBORN: &str = r#"{ name: "stubborn", exec: ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done"],
    killTimeout: "1h" }"#;

/// Clients of one stream.
const CLIENTS: usize = 50;

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A client that goes on beside the test; its output is in a file of the run.
pub fn beside(pilot: &Pilot, arguments: &[&str], file: &str) -> Child {
    pilot.wait_for_event("global startup");
    let out = std::fs::File::create(pilot.path(file)).unwrap();
    let errors = out.try_clone().unwrap();
    let mut command = Command::new(support::program());
    command.arg("-config").arg(pilot.config()).args(arguments).stdout(out).stderr(errors).spawn().unwrap()
}

fn state(pilot: &Pilot, job: &str) -> String {
    pilot.status_of(job)["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_status_says_why_a_job_does_not_run() {
    let pilot = Pilot::start(&format!(
        r#"{{ jobs: [
            {SERVER},
            {{ name: "migrate", exec: "false" }},
            {{ name: "app", exec: "true", when: {{ source: "migrate", once: "exitSuccess" }} }},
            {{ name: "later", exec: "true", when: {{ source: "server", once: "exitSuccess" }} }},
            {{ name: "loop", exec: "false", restarts: "unlimited", backoff: {{ min: "1h", max: "1h" }} }},
        ] }}"#
    ));
    pilot.eventually("app is given up", || pilot.status_of("app")["neverRan"].is_string());
    pilot.eventually("loop is delayed", || state(&pilot, "loop") == "delayed");
    let table = pilot.tell(&["status"]);
    let line = |job: &str| table.lines().find(|line| line.starts_with(job)).unwrap_or_default().to_owned();
    assert!(table.contains("  REASON\n"), "{table}");
    assert!(line("app").ends_with("never ran: migrate failed"), "{table}");
    assert!(line("later").ends_with("waits for server exitSuccess"), "{table}");
    assert!(line("loop").contains("restarts in "), "{table}");
    let one = pilot.tell(&["status", "later"]);
    assert!(one.contains("waits for server") && !one.contains("migrate failed"), "{one}");
    let unknown = pilot.client(&["status", "nobody"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert_eq!(stderr(&unknown), "containerpilot: there is no job \"nobody\"\n");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_watched_status_is_drawn_again_at_a_change() {
    let pilot = Pilot::start(&format!("{{ jobs: [{SERVER}, {{ name: 'keeper', exec: 'sleep 1000' }}] }}"));
    pilot.pid_of("server");
    let mut client = beside(&pilot, &["status", "-watch"], "watched");
    pilot.eventually("the first one", || pilot.text("watched").contains("server  running"));
    pilot.tell(&["stop", "server"]);
    pilot.eventually("the change", || pilot.text("watched").contains("server  halted"));
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(client.wait().unwrap().code(), Some(1));
    assert!(
        pilot.text("watched").ends_with("containerpilot: the program has ended\n"),
        "{}",
        pilot.text("watched")
    );
}

#[test]
fn what_is_followed_ends_as_soon_as_nobody_reads_it() {
    let pilot =
        Pilot::start("{ jobs: [{ name: 'keeper', exec: ['sh', '-c', 'echo words; exec sleep 1000'] }] }");
    pilot.wait_for_line("keeper", "words");
    for arguments in [
        ["status", "-watch"].as_slice(),
        &["events", "-f", "-since", "0"],
        &["logs", "-f"],
        // It has printed nothing before.
        &["events", "-f"],
    ] {
        let mut client = Command::new(support::program());
        client.arg("-config").arg(pilot.config()).args(arguments);
        let mut client = client.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut stdout = client.stdout.take().unwrap();
        if arguments != ["events", "-f"] {
            assert_eq!(stdout.read(&mut [0]).unwrap(), 1, "{arguments:?}");
        }
        drop(stdout);
        // Nothing happens meanwhile.
        pilot.eventually(&format!("the end of {arguments:?}"), || client_ended(&client));
        assert_eq!(client.wait().unwrap().code(), Some(0), "{arguments:?}");
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
}

/// Whether it waits only for its parent.
fn client_ended(client: &Child) -> bool {
    support::state(client.id().cast_signed()) == Some('Z')
}

#[test]
fn a_client_whose_stream_is_closed_for_others_goes_on() {
    let pilot = Pilot::start(&format!("{{ jobs: [{SERVER}, {{ name: 'keeper', exec: 'sleep 1000' }}] }}"));
    pilot.pid_of("server");
    let mut client = beside(&pilot, &["status", "-watch"], "watched");
    pilot.eventually("the first one", || pilot.text("watched").contains("server  running"));
    // More than the program serves at once: it closes the oldest stream, which is that of the client.
    let others: Vec<UnixStream> = (0..130).map(|_| streaming(&pilot, "/v3/events")).collect();
    drop(others);
    pilot.tell(&["stop", "server"]);
    pilot.eventually("the change", || pilot.text("watched").contains("server  halted"));
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(client.wait().unwrap().code(), Some(1));
}

#[test]
fn a_client_that_is_gone_is_noticed_though_nothing_happens() {
    let pilot = Pilot::start("{ jobs: [{ name: 'keeper', exec: 'sleep 1000' }] }");
    pilot.pid_of("keeper");
    for path in ["/v3/events", "/v3/logs?follow=1"] {
        let clients: Vec<UnixStream> = (0..CLIENTS).map(|_| streaming(&pilot, path)).collect();
        let most = support::open_files(pilot.pid());
        drop(clients);
        pilot.eventually("their connections are closed", || {
            support::open_files(pilot.pid()) + CLIENTS <= most
        });
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
}

/// A client whose stream has begun.
fn streaming(pilot: &Pilot, path: &str) -> UnixStream {
    let mut stream = pilot.connect();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 1);
    stream
}

#[test]
fn ready_tells_whether_the_container_is_or_a_job_is() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "app", exec: "sleep 1000", essential: true, health: { exec: "test -e {dir}/fine", interval: "50ms", timeout: "10s" } },
            { name: "side", exec: "sleep 1000" },
        ] }"#,
    );
    pilot.wait_for_event("app unhealthy");
    pilot.pid_of("side");
    let ready = |arguments: &[&str]| {
        let output = pilot.client(arguments);
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (code, _, error) = ready(&["-ready"]);
    assert_eq!(code, Some(1));
    assert_eq!(error, "containerpilot: not ready: app is unhealthy: check check fails\n");
    assert_eq!(ready(&["-ready", "side"]).0, Some(0));
    assert_eq!(ready(&["-ready", "side", "app"]).0, Some(1));
    assert!(ready(&["-ready", "nobody"]).2.contains("there is no job \"nobody\""));
    let (code, _, error) = ready(&["-ready", "app", "-wait", "200ms"]);
    assert!(code == Some(1) && error.contains("app is unhealthy"), "{error}");
    let mut waiting = beside(&pilot, &["-ready", "-wait", "60s"], "waited");
    std::fs::write(pilot.path("fine"), "").unwrap();
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
    assert_eq!(pilot.text("waited"), "ready\n");
    assert_eq!(ready(&["-ready"]), (Some(0), "ready\n".to_owned(), String::new()));
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn ready_waits_for_a_program_that_does_not_run_yet() {
    let setup = Setup::new().config("{ jobs: [{ name: 'app', exec: 'sleep 1000', essential: true }] }");
    let socket = setup.dir().join("control.socket");
    let mut early = Command::new(support::program());
    early.arg("-ready").arg("app").arg("-wait").arg("60s").arg("-socket").arg(&socket).stdout(Stdio::piped());
    let mut early = early.spawn().unwrap();
    let pilot = setup.start();
    assert_eq!(early.wait().unwrap().code(), Some(0));
    let mut text = String::new();
    early.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "ready\n");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn an_order_waits_until_it_is_done_and_says_how_it_went() {
    let pilot = Pilot::start(&format!(
        r#"{{ jobs: [
            {SERVER},
            {{ name: "slow", exec: ["sh", "-c", "trap 'sleep 0.3; exit 0' TERM; echo up; while :; do sleep 0.02; done"] }},
            {{ name: "task", exec: "true", when: {{ source: "SIGUSR2" }} }},
            {{ name: "wrong", exec: "/no/such/program", when: {{ source: "SIGUSR2" }} }},
        ] }}"#
    ));
    pilot.wait_for_line("slow", "up");
    pilot.pid_of("server");
    let text = pilot.tell(&["stop", "server", "slow"]);
    assert_eq!((state(&pilot, "server").as_str(), state(&pilot, "slow").as_str()), ("halted", "halted"));
    assert!(text.contains("server: stopped; its last run was killed by SIGTERM\n"), "{text}");
    assert!(text.contains("slow: stopped; its last run exited with status 0\n"), "{text}");
    let text = pilot.tell(&["start", "server"]);
    let pid = pilot.pid_of("server");
    assert_eq!(text, format!("server: started, runs as process {pid}\n"));
    let text = pilot.tell(&["restart", "server"]);
    assert!(
        text.starts_with("server: restarted, runs as process ") && !text.contains(&pid.to_string()),
        "{text}"
    );
    // It ends as soon as it is started: the client sees it before or after that.
    let text = pilot.tell(&["start", "task"]);
    let is_told = text.starts_with("task: started, runs as process ")
        || text == "task: started, and exited with status 0\n";
    assert!(is_told, "{text}");
    let failed = pilot.client(&["start", "wrong", "server", "nobody"]);
    assert_eq!(failed.status.code(), Some(1));
    let errors = stderr(&failed);
    for part in [
        "job \"server\" runs already",
        "there is no job \"nobody\"",
        "containerpilot: wrong: started, but could not be started: cannot execute \"/no/such/program\"",
    ] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn an_order_that_leads_to_the_end_of_the_program_is_told_as_it_went() {
    for (status, code, words) in
        [(0, 0, "b: started, and exited with status 0"), (3, 1, "b: started, but exited with status 3")]
    {
        // What the program does first, ends or answers, is chance.
        for _ in 0..4 {
            let pilot = Pilot::start(&format!(
                r#"{{ jobs: [{{ name: "b", exec: ["sh", "-c", "test -e {{dir}}/again && exit {status}; exec sleep 1000"] }}] }}"#
            ));
            pilot.pid_of("b");
            pilot.tell(&["stop", "b"]);
            std::fs::write(pilot.path("again"), "").unwrap();
            let output = pilot.client(&["start", "b"]);
            // It may have been seen while it ran.
            if !stdout(&output).starts_with("b: started, runs as process ") {
                assert!((stdout(&output) + &stderr(&output)).contains(words), "{output:?}");
                assert_eq!(output.status.code(), Some(code), "{output:?}");
            }
            assert_eq!(pilot.wait_exit(), Exit::Code(status));
        }
    }
}

#[test]
fn an_order_that_takes_long_says_how_far_it_is_and_goes_on() {
    let pilot = Pilot::start(&format!("{{ stopTimeout: '1s', jobs: [{STUBBORN}, {SERVER}] }}"));
    pilot.wait_for_line("stubborn", "deaf");
    let late = pilot.client(&["stop", "stubborn", "-wait", "100ms"]);
    assert_eq!(late.status.code(), Some(1));
    let text = stderr(&late);
    let expected = "containerpilot: the time to wait is over; the stop of stubborn goes on: it is terminating (it is stopped by hand; killed in ";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(state(&pilot, "stubborn"), "terminating");
    pilot.tell(&["signal", "stubborn", "SIGKILL"]);
    pilot.eventually("it is gone", || state(&pilot, "stubborn") == "halted");
    // The same for one who does not want to wait any more.
    pilot.tell(&["start", "stubborn"]);
    pilot.eventually("deaf again", || pilot.lines_of("stubborn").len() == 2);
    let mut client = beside(&pilot, &["stop", "stubborn"], "interrupted");
    pilot.eventually("it is told to stop", || state(&pilot, "stubborn") == "terminating");
    let number = i32::try_from(client.id()).unwrap();
    pilot.eventually("the client handles SIGINT", || catches_interrupts(number));
    kill(Pid::from_raw(number), Signal::SIGINT).unwrap();
    assert_eq!(client.wait().unwrap().code(), Some(1));
    let text = pilot.text("interrupted");
    assert!(text.starts_with("containerpilot: interrupted; the stop of stubborn goes on: "), "{text}");
    // Who does not wait at all hears nothing.
    pilot.tell(&["signal", "stubborn", "SIGKILL"]);
    pilot.eventually("it is gone", || state(&pilot, "stubborn") == "halted");
    assert_eq!(pilot.tell(&["start", "stubborn", "-no-wait"]), "");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_stop_or_restart_that_another_order_overtakes_says_so_at_once() {
    let slow = "{ name: 'slow', exec: ['sh', '-c', 'trap \"sleep 1; exit 0\" TERM; echo up; while :; do sleep 0.1; done'] }";
    let pilot = Pilot::start(&format!("{{ jobs: [{slow}, {SERVER}] }}"));
    for (runs, order, other, status, expected) in [
        (1, "stop", "start", 0, "slow: stopped, and started again since\n"),
        (2, "restart", "stop", 1, "containerpilot: slow: was stopped by hand meanwhile\n"),
    ] {
        // The shell may also tell that its sleep was terminated.
        let starts = || pilot.lines_of("slow").iter().filter(|line| *line == "up").count();
        pilot.eventually("it is up", || starts() == runs);
        let mut client = beside(&pilot, &[order, "slow", "-wait", "10s"], order);
        pilot.eventually("it is told to stop", || state(&pilot, "slow") == "terminating");
        pilot.tell(&[other, "slow", "-no-wait"]);
        assert_eq!(client.wait().unwrap().code(), Some(status), "{}", pilot.text(order));
        assert_eq!(pilot.text(order), expected);
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
}

/// Whether a process has a handler for SIGINT (bit 1 of SigCgt in proc(5)).
fn catches_interrupts(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 0b10 != 0)
}

#[test]
fn the_next_runs_of_schedules_and_retries_are_shown() {
    let pilot = Pilot::start(&format!(
        r#"{{ jobs: [
            {SERVER},
            {{ name: "backup", exec: "true", when: {{ cron: "30 3 1 1 *" }} }},
            {{ name: "loop", exec: "false", restarts: "unlimited", backoff: {{ min: "1h", max: "1h" }} }},
        ] }}"#
    ));
    pilot.eventually("loop is delayed", || state(&pilot, "loop") == "delayed");
    pilot.eventually("backup is scheduled", || pilot.status_of("backup")["nextRun"].is_string());
    let table = pilot.tell(&["when"]);
    assert!(table.contains("-01-01T03:30:00Z  next 20"), "{table}");
    assert!(table.contains("restarts in ") && !table.contains("server"), "{table}");
    let one = pilot.tell(&["when", "server"]);
    assert!(one.contains("server  -         running"), "{one}");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn the_graph_is_that_of_the_program_or_else_of_the_configuration() {
    let config = r#"{ jobs: [
        { name: "db", exec: "sleep 1000", health: { exec: "true", interval: "50ms", timeout: "10s" } },
        { name: "migrate", exec: "true", when: { source: "db", once: "healthy" } },
        { name: "app", exec: "sleep 1000", when: { source: "migrate", once: "exitSuccess" } },
    ] }"#;
    let pilot = Pilot::start(config);
    pilot.pid_of("app");
    let text = pilot.tell(&["graph"]);
    let tree = "db: running, healthy\n└─ healthy → migrate: complete *\n   └─ exitSuccess → app: running *\n";
    assert!(text.starts_with(tree), "{text}");
    assert!(text.contains("\nThe start took ") && text.contains("db started, healthy after "), "{text}");
    for (format, part) in [
        ("dot", "digraph containerpilot {"),
        ("mermaid", "flowchart LR\n"),
        ("svg", "<svg xmlns="),
        ("json", "\"criticalPath\""),
    ] {
        let text = pilot.tell(&["graph", "-format", format]);
        assert!(text.contains(part) && text.contains("migrate"), "{text}");
        let answer = pilot.ask("GET", &format!("/v3/graph?format={format}"), "");
        assert_eq!((answer.status, answer.body.contains("migrate")), (200, true));
    }
    assert_eq!(pilot.ask("GET", "/v3/graph?format=png", "").status, 400);
    assert_eq!(pilot.stop(), Exit::Code(0));
    let output =
        Command::new(support::program()).arg("graph").arg("-config").arg(pilot.config()).output().unwrap();
    assert_eq!(stdout(&output), "db\n└─ healthy → migrate\n   └─ exitSuccess → app\n", "{output:?}");
    assert!(output.status.success());
}

#[test]
fn a_graph_that_the_program_refuses_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let client = Command::new(support::program())
        .args(["graph", "-socket"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    assert_ne!(stream.read(&mut [0; 4096]).unwrap(), 0);
    let answer = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 19\r\n\r\n{\"error\":\"not now\"}";
    stream.write_all(answer.as_bytes()).unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
    assert_eq!(stderr(&output), "containerpilot: not now\n");
}

/// Every answer that is for people to read, and what is behind it.
#[test]
fn no_answer_shows_a_secret() {
    let setup = Setup::new().file("password", "PLANTED-file\n").config(
        r#"{
            consul: { address: "127.0.0.1:9", token: "PLANTED-token" },
            env: { GLOBAL: "PLANTED-global" },
            jobs: [
                { name: "app", exec: ["sh", "-c", "exit 3", "PLANTED-argument"], restarts: "unlimited",
                  env: { PASSWORD: { file: "{dir}/password" }, OWN: "PLANTED-own" },
                  backoff: { min: "1h", max: "1h" } },
                { name: "sick", exec: "sleep 1000", port: 9, health: [
                    { name: "http", http: { url: "http://user:PLANTED-url@127.0.0.1:9/x?key=PLANTED-query",
                      headers: { Authorization: "PLANTED-header" } }, interval: "50ms", ttl: "10s" },
                    { name: "exec", exec: ["false", "PLANTED-check"], interval: "50ms", ttl: "10s" },
                ] },
                { name: "waits", exec: "true", when: { source: "sick", once: "healthy" } },
                { name: "found", exec: "true", when: { source: "watch.db", once: "healthy" } },
            ],
            watches: [{ name: "db", interval: 1 }],
        }"#,
    );
    let pilot = setup.start();
    pilot.wait_for_event("sick unhealthy");
    pilot.eventually("app is delayed", || state(&pilot, "app") == "delayed");
    let commands: &[&[&str]] = &[
        &["status"],
        &["status", "-format", "json"],
        &["when"],
        &["events"],
        &["graph"],
        &["graph", "-format", "dot"],
        &["graph", "-format", "mermaid"],
        &["graph", "-format", "svg"],
        &["graph", "-format", "json"],
        &["why", "app"],
        &["why", "sick"],
        &["why", "waits"],
        &["why", "found"],
        &["why", "waits", "-format", "json"],
        &["-ready"],
        &["-ready", "sick", "app"],
        &["start", "app", "-wait", "20s"],
    ];
    for arguments in commands {
        let output = pilot.client(arguments);
        let text = stdout(&output) + &stderr(&output);
        assert!(!text.is_empty() && !text.contains("PLANTED"), "{arguments:?}: {text}");
    }
    pilot.stop();
}

#[test]
fn answers_stay_small_and_come_at_once_whatever_fails_how_often() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: "sleep 1000", health: { exec: "false", interval: "10ms", timeout: "1s" } }] }"#,
    );
    pilot.wait_for_event("app unhealthy");
    let times = || {
        let why = pilot.ask("GET", "/v3/jobs/app/why", "").json()["summary"].as_str().unwrap().to_owned();
        let (before, _) = why.split_once(" times since ")?;
        before.rsplit('(').next()?.parse::<u64>().ok()
    };
    pilot.within(Duration::from_secs(60), "a hundred failures", || times().is_some_and(|times| times >= 100));
    let answer = pilot.ask("GET", "/v3/jobs/app/why", "");
    assert!(answer.body.len() < 2000, "{}", answer.body);
    assert_eq!(pilot.stop(), Exit::Code(0));
}
