//! `containerpilot migrate`: what it makes of files of ContainerPilot 2 passes `check` and runs as they did.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support;
use crate::support::http::get_port;
use crate::support::ports::free_port;
use crate::support::{Exit, Pilot, Setup};

fn program(arguments: &[&str]) -> Output {
    let mut command = Command::new(support::program());
    command.env_remove("CONTAINERPILOT").stdin(Stdio::null()).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What a file becomes, and what is said about it.
fn migrated(old: &Path, main: &[&str]) -> (String, String) {
    let old = old.to_str().unwrap();
    let output = program(&[&["migrate", old], main].concat());
    let (new, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    (new, said)
}

/// As [`migrated`], for a text.
fn migrated_text(old: &str, main: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("old.json");
    fs::write(&path, old).unwrap();
    migrated(&path, main).0
}

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata/migrate").join(name)
}

#[test]
fn real_files_pass_the_check_once_migrated() {
    let directory = tempfile::tempdir().unwrap();
    let new = directory.path().join("new.json5");
    for (name, main) in
        [("nginx.json", &["--", "nginx", "-g", "daemon off;"][..]), ("mysql.json", &[]), ("app.json", &[])]
    {
        let (migrated, _) = migrated(&testdata(name), main);
        fs::write(&new, &migrated).unwrap();
        for agent in ["", "1"] {
            let mut check = Command::new(support::program());
            check.args(["check", "-config"]).arg(&new).env("CONSUL_AGENT", agent).env("FAST", agent);
            let output = check.output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{name}: {}\n{migrated}", text(&output.stdout));
        }
    }
}

#[test]
fn what_must_be_looked_at_is_told_with_its_line() {
    let (new, said) = migrated(&testdata("app.json"), &[]);
    let old = testdata("app.json").display().to_string();
    for (line, part) in [
        ("", "comments of the old file"),
        (":7", "put the main application here"),
        (":7", "version 2 split this at each space"),
        (":8", "a service without a check"),
        (":8", "services[1].weight: nothing here corresponds"),
        (":4", "etcd: there is no support for etcd"),
        (":5", "pidfile: nothing here corresponds"),
    ] {
        let told = said.lines().any(|it| it.starts_with(&format!("{old}{line}: ")) && it.contains(part));
        assert!(told, "{line} {part}: {said}");
    }
    assert!(
        said.ends_with(
            "7 places to look at, marked DECIDE or UNKNOWN. Then: containerpilot check -config NEW\n"
        ),
        "{said}"
    );
    assert_eq!(new.matches("DECIDE:").count() + new.matches("UNKNOWN:").count(), 7, "{new}");
}

#[test]
fn a_file_is_written_whole_and_a_url_is_a_path() {
    let directory = tempfile::tempdir().unwrap();
    let new = directory.path().join("new.json5");
    let old = format!("file://{}", testdata("nginx.json").display());
    let output = program(&["migrate", &old, "-out", new.to_str().unwrap(), "--", "nginx"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), ""));
    assert_eq!(fs::read_to_string(&new).unwrap(), migrated(&testdata("nginx.json"), &["--", "nginx"]).0);
}

#[test]
fn a_file_of_ours_is_handed_on_as_it_is() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hello.json5");
    let (new, said) = migrated(&example, &[]);
    assert_eq!(new, fs::read_to_string(&example).unwrap());
    assert!(said.contains("needs no migration"), "{said}");
}

#[test]
fn what_cannot_be_migrated_is_refused_and_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (directory.path().join("old.json"), directory.path().join("new.json5"));
    fs::write(&old, "{ {{ if .X }}\"preStart\": \"x\"{{ end }} }").unwrap();
    for (old, part) in [(old, "old.json:1:3"), (directory.path().join("none"), "cannot read")] {
        let output = program(&["migrate", old.to_str().unwrap(), "-out", new.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(part), "{}", text(&output.stderr));
        assert!(!new.exists());
    }
    assert_eq!(program(&["migrate"]).status.code(), Some(2));
    assert_eq!(program(&["migrate", "x", "--"]).status.code(), Some(2));
}

/// Starts what became of an old file; each of its commands notes what it does in `order`.
fn start(old: &str, main: &str) -> Pilot {
    let path = std::env::var("PATH").unwrap_or_default();
    let program = Path::new(support::program()).parent().unwrap().display();
    let new = migrated_text(old, &["--", "sh", "-c", main]);
    Setup::new()
        .config(&new)
        .env("PATH", &format!("{program}:{path}"))
        .env("CONTAINERPILOT", "{dir}/containerpilot.json5")
        .start()
}

#[test]
fn a_migrated_file_runs_hooks_main_application_checks_tasks_and_sensors() {
    let port = free_port();
    let old = format!(
        r#"{{
            "preStart": ["sh", "-c", "echo preStart >> {{dir}}/order"],
            "preStop": ["sh", "-c", "echo preStop >> {{dir}}/order"],
            "postStop": ["sh", "-c", "echo postStop >> {{dir}}/order"],
            "services": [{{"name": "app", "port": 8000, "health": "test -e {{dir}}/up", "poll": 1, "ttl": 3,
                           "interfaces": ["static:127.0.0.1"]}}],
            "tasks": [{{"name": "tick", "command": ["sh", "-c", "echo tick >> {{dir}}/ticks"], "frequency": "100ms"}}],
            "coprocesses": [{{"name": "helper", "command": ["sh", "-c", "echo helper >> {{dir}}/helper; exec sleep 1000"]}}],
            "telemetry": {{"port": {port}, "interfaces": "static:127.0.0.1", "sensors": [
                {{"namespace": "n", "name": "answer", "help": "x", "type": "gauge", "poll": 1, "check": "echo 42"}}]}}
        }}"#
    );
    let main = "trap 'echo TERM >> {dir}/order; exit 0' TERM; echo main >> {dir}/order; touch {dir}/up; \
                while :; do sleep 0.05; done";
    let pilot = start(&old, main);
    pilot.wait_for_event("app healthy");
    pilot.wait_for_lines("ticks", 3);
    pilot.wait_for_file("helper");
    pilot.eventually("the sensor's value", || {
        get_port(port, "/metrics", "").sample("n_answer").as_deref() == Some("42")
    });
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.lines("order"), ["preStart", "main", "preStop", "TERM", "postStop"]);
    pilot.assert_order(&[
        "preStart exitSuccess",
        "app healthy",
        "app stopping",
        "preStop exitSuccess",
        "app stopped",
    ]);
}

#[test]
fn the_main_application_ends_the_container_with_its_status() {
    let old = r#"{"tasks": [{"command": "true", "frequency": "50ms"}], "coprocesses": [{"command": "sleep 1000"}]}"#;
    assert_eq!(start(old, "exit 7").wait_exit(), Exit::Code(7));
}

#[test]
fn a_pre_start_that_fails_ends_the_container_before_the_main_application_starts() {
    let hook = r#""preStart": ["sh", "-c", "exit 9"]"#;
    let task = r#""tasks": [{"command": "true", "frequency": "50ms"}]"#;
    for old in [format!("{{{hook}}}"), format!("{{{hook}, {task}}}")] {
        let pilot = start(&old, "touch {dir}/main");
        assert_eq!(pilot.wait_exit(), Exit::Code(9));
        assert!(!pilot.path("main").exists());
    }
}

#[test]
fn a_main_application_that_nobody_named_says_so_and_fails() {
    let new = migrated_text(r#"{"preStart": "true"}"#, &[]);
    let (exit, pilot) = Pilot::run(&new);
    assert_eq!(exit, Exit::Code(1));
    pilot.wait_for_message("put the main application here");
}
