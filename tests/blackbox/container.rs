//! The entrypoint of a real container: how it ends, what `docker` can ask of it, and what the engine shows.

use std::fs;
use std::time::Duration;

use crate::support;
use crate::support::Exit;
use crate::support::container::Container;
use serde_json::Value;

const SERVER: &str = r#"{ name: "app", exec: "sleep 1000" }"#;

#[test]
fn the_exit_code_of_the_container_is_that_of_what_happened() {
    let run = |arguments: &[&str]| {
        let container = Container::start_with(&[], |setup| setup.arguments(arguments))?;
        let exit = container.wait_exit();
        let seen = container.state()["ExitCode"].as_i64().unwrap();
        assert_eq!(exit, Exit::Code(i32::try_from(seen).unwrap()), "docker run and docker inspect agree");
        Some(seen)
    };
    let Some(success) = run(&["--", "true"]) else { return };
    assert_eq!(success, 0);
    assert_eq!(run(&["--", "sh", "-c", "exit 7"]), Some(7));
    assert_eq!(run(&["--", "sh", "-c", "kill -9 $$"]), Some(137));
    assert_eq!(run(&["--", "no-such-program"]), Some(127));
    assert_eq!(run(&["-config", "/no/such/file"]), Some(1));
    assert_eq!(run(&["-no-such-flag"]), Some(2));
}

#[test]
fn docker_stop_ends_at_once_when_the_jobs_do() {
    let jobs = r#"{ stopTimeout: "50s", jobs: [
        { name: "app", exec: ["sh", "-c", "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"] },
        { name: "web", exec: "sleep 1000" },
    ] }"#;
    let Some(container) = Container::start(&[], jobs) else { return };
    container.wait_for_line("app", "ready");
    let (exit, took) = container.stop();
    assert_eq!(exit, Exit::Code(0));
    assert!(
        took < Duration::from_secs(20),
        "neither stopTimeout nor docker's own time-out was waited for: {took:?}"
    );
    container.wait_for_line("app", "bye");
    container.assert_order(&["global shutdown", "app stopping", "app stopped"]);
}

#[test]
fn docker_logs_shows_whole_lines() {
    let jobs = r#"{ jobs: [
        { name: "one", exec: ["sh", "-c", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo one $i; done"] },
        { name: "two", exec: ["sh", "-c", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo two $i; done"] },
        { name: "long", exec: ["sh", "-c", "head -c 40000 /dev/zero | tr '\\0' x; echo"] },
        { name: "bare", exec: "printf 'no newline'" },
    ] }"#;
    let Some(container) = Container::start(&[], jobs) else { return };
    assert_eq!(container.wait_exit(), Exit::Code(0));
    let text = container.engine_log();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let printed = |job: &str| {
        let of_job = records.iter().filter(move |record| record["job"] == job && record["level"] == "info");
        let messages = of_job.map(|record| record["msg"].as_str().unwrap().to_owned());
        // Beside them, our own words about its start and its end.
        messages.filter(|text| text != "started" && !text.starts_with("exited with")).collect::<Vec<_>>()
    };
    for job in ["one", "two"] {
        let expected = (1..=2000).map(|number| format!("{job} {number}"));
        assert!(printed(job).into_iter().eq(expected), "each line of {job} is there, whole and in order");
    }
    assert_eq!(printed("long"), ["x".repeat(40_000)], "longer than the engine's own buffer");
    assert_eq!(printed("bare"), ["no newline"]);
}

#[test]
fn docker_kill_hands_over_signals() {
    let config = r#"{ logging: { output: "{dir}/log", format: "json", level: "DEBUG" }, jobs: [
        { name: "app", exec: "sleep 1000" },
        { name: "hangup", exec: "touch {dir}/hangup", when: { source: "SIGHUP" } },
        { name: "user", exec: "touch {dir}/user", when: { source: "SIGUSR2" } },
    ] }"#;
    let Some(container) = Container::start(&[], config) else { return };
    container.wait_for_file(support::container::SOCKET);
    container.kill("HUP");
    container.wait_for_file("hangup");
    container.kill("USR2");
    container.wait_for_file("user");
    fs::rename(container.path("log"), container.path("log.1")).unwrap();
    container.kill("USR1");
    container.wait_for_file("log");
    container.kill("TERM");
    assert_eq!(container.wait_exit(), Exit::Code(0));
    assert!(container.text("log.1").contains("SIGHUP"), "what was written before stays where it was");
    assert!(container.text("log").contains("shutdown"), "{}", container.text("log"));
}

/// The times that a script wrote with `date +%s%N`, in milliseconds.
fn times(container: &Container, name: &str) -> Vec<u64> {
    container.lines(name).iter().map(|line| line.parse::<u64>().unwrap() / 1_000_000).collect()
}

#[test]
fn a_pause_of_the_container_is_followed_by_no_burst_of_runs_and_checks() {
    let config = r#"{ jobs: [
        { name: "task", exec: ["sh", "-c", "date +%s%N >> {dir}/runs"], when: { interval: "300ms" } },
        { name: "app", exec: "sleep 1000",
          health: { exec: ["sh", "-c", "date +%s%N >> {dir}/checks"], interval: "300ms", timeout: "10s", ttl: 60 } },
    ] }"#;
    let Some(container) = Container::start(&[], config) else { return };
    container.wait_for_lines("runs", 2);
    container.wait_for_lines("checks", 2);
    container.pause();
    let before = ["runs", "checks"].map(|name| container.lines(name).len());
    container.let_pass(Duration::from_secs(4));
    container.docker(&["unpause"]);
    for (name, before) in ["runs", "checks"].into_iter().zip(before) {
        container.wait_for_lines(name, before + 6);
        let times = times(&container, name);
        // A dozen were missed. The one that was under way at the pause may end after it, one is overdue, and the
        // next tick may be near.
        let span = times[before + 5] - times[before + 1];
        assert!(span >= 700, "{name} came in a burst after the pause: {times:?} from {before} on");
    }
    assert_eq!(container.stop().0, Exit::Code(0));
}

#[test]
fn a_pause_of_the_container_is_no_reason_to_kill_what_could_not_run_either() {
    let config = r#"{ jobs: [
        { name: "task", exec: ["sh", "-c", "sleep 1; echo began; sleep 1; echo done"], timeout: "4s" },
        { name: "app", exec: "sleep 1000", onUnhealthy: "restart", restarts: "unlimited",
          health: { exec: ["sh", "-c", "echo x >> {dir}/checks; sleep 1"], interval: "2s", failures: 1 } },
        { name: "told", exec: ["sh", "-c", "sleep 2; echo READY; exec sleep 1000"],
          ready: { log: "READY", timeout: "4s" } },
    ] }"#;
    // A limit is given once more only once, so a try in which the container was frozen twice says nothing.
    let mut tries = 0;
    let container = loop {
        let Some(container) = Container::start(&[], config) else { return };
        container.wait_for_line("task", "began");
        if container.pause_at_once() {
            break container;
        }
        tries += 1;
        assert!(tries < 10, "docker could never pause it at once");
    };
    container.let_pass(Duration::from_secs(5));
    container.docker(&["unpause"]);
    container.wait_for_line("task", "done");
    container.wait_for_event("told ready");
    let checks = container.lines("checks").len();
    container.wait_for_lines("checks", checks + 2);
    container.wait_for_event("app healthy");
    assert!(!container.events_of("app").contains(&"unhealthy".to_owned()), "it was ill only of the pause");
    assert!(!container.events_of("task").contains(&"exitFailed".to_owned()), "{}", container.log().text());
    assert_eq!(container.stop().0, Exit::Code(0));
}

#[test]
fn docker_exec_reaches_the_program_through_its_own_client() {
    let config = r#"{ jobs: [
        { name: "app", exec: "sleep 1000" },
        { name: "show", exec: ["sh", "-c", "echo colour=$COLOUR"], when: { source: "SIGHUP" } },
    ] }"#;
    let Some(container) = Container::start(&[], config) else { return };
    container.wait_for_file(support::container::SOCKET);
    container.ask(&["-ping"]);
    container.ask(&["-putenv", "COLOUR=blue"]);
    container.kill("HUP");
    container.wait_for_line("show", "colour=blue");
    let table = container.ask(&["status"]);
    assert!(table.contains("app") && table.contains("show"), "{table}");
    container.edit("echo colour=", "echo shade=");
    let told = container.ask(&["-reload"]);
    assert!(told.contains("show"), "{told}");
    container.kill("HUP");
    container.wait_for_line("show", "shade=blue");
    assert_eq!(container.count("app exitFailed"), 0, "the reload left it alone");
    assert_eq!(container.stop().0, Exit::Code(0));
}

#[test]
fn the_engine_knows_the_container_healthy_by_a_ping() {
    let command = format!("{} -config {{dir}}/containerpilot.json5 -ping", support::program());
    let options = ["--health-cmd", &command, "--health-interval", "1s", "--health-timeout", "20s"];
    let Some(container) = Container::start(&options, &format!("{{ jobs: [{SERVER}] }}")) else { return };
    container.eventually("the container is healthy", || container.state()["Health"]["Status"] == "healthy");
    assert_eq!(container.stop().0, Exit::Code(0));
}

#[test]
fn below_an_init_the_program_is_not_process_1_and_does_the_same() {
    let config = r#"{ jobs: [
        { name: "orphans", exec: ["sh", "-c", "(sh -c 'setsid sleep 1000 & setsid sleep 0.1 &' &); echo $PPID > {dir}/pid"] },
        { name: "app", exec: ["sh", "-c", "trap 'exit 5' TERM; echo > {dir}/trap; while :; do sleep 0.05; done"], essential: true },
    ] }"#;
    let Some(container) = Container::start(&["--init"], config) else { return };
    container.wait_for_lines("trap", 1);
    let number = container.wait_for_lines("pid", 1);
    assert_ne!(number, ["1"]);
    container.wait_for_event("orphans stopped");
    container.tell(&["signal", "app", "TERM"]);
    assert_eq!(container.wait_exit(), Exit::Code(5), "the init hands on the exit code");
}

#[test]
fn with_the_hosts_processes_around_nothing_survives_the_container() {
    let config = r#"{ jobs: [
        { name: "left", exec: ["sh", "-c", "setsid sleep 1000 & echo left"] },
        { name: "app", exec: "sleep 1000" },
    ] }"#;
    let Some(container) = Container::start(&["--pid", "host"], config) else { return };
    container.wait_for_event("left stopped");
    assert_ne!(container.pid_of("app"), 0);
    let (exit, took) = container.stop(); // asserts that nothing of this run is left
    assert_eq!(exit, Exit::Code(0));
    assert!(took < Duration::from_secs(20), "{took:?}");
}
