//! The command line of the real program: what it prints and the status it exits with.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::Path;
use std::process::{Command, Stdio};

struct Outcome {
    status: i32,
    stdout: String,
    stderr: String,
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_containerpilot"));
    command.env_remove("CONTAINERPILOT").env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

fn outcome(command: &mut Command) -> Outcome {
    let output = command.output().unwrap();
    Outcome {
        status: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn call(arguments: &[&str]) -> Outcome {
    outcome(program().args(arguments))
}

#[test]
fn version_names_the_version_and_the_git_hash() {
    for flag in ["-version", "--version", "-v"] {
        let Outcome { status, stdout, stderr } = call(&[flag]);
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!((status, stderr.as_str()), (0, ""));
        assert_eq!(lines.first(), Some(&concat!("Version: ", env!("CARGO_PKG_VERSION"))));
        let hash = lines.get(1).and_then(|line| line.strip_prefix("GitHash: ")).unwrap();
        let is_hash = hash.len() == 7 && hash.chars().all(|c| c.is_ascii_hexdigit());
        assert!(is_hash || hash == "unknown", "{hash}");
    }
}

#[test]
fn help_goes_to_stdout() {
    for arguments in [&["-help"][..], &["-h"], &["check", "--help"]] {
        let Outcome { status, stdout, stderr } = call(arguments);
        assert_eq!((status, stderr.as_str()), (0, ""));
        assert!(stdout.contains("Usage: "), "{stdout}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_says_why() {
    for (arguments, part) in [
        (&["-confg", "F"][..], "'--config'"),
        (&["-reload", "-ping"], "cannot be used with"),
        (&["-putenv", "1=2"], "is not a variable's name"),
        (&["nonsense"], "'-- nonsense'"),
        (&["--"], "a command must follow"),
        (&["check", "-format", "xml"], "human, json"),
    ] {
        let Outcome { status, stdout, stderr } = call(arguments);
        assert_eq!((status, stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_refused_request_exits_with_1() {
    for arguments in [&["-ping"][..], &["status"], &["signal", "app", "HUP"]] {
        let Outcome { status, stdout, stderr } = call(arguments);
        assert_eq!((status, stdout.as_str()), (1, ""), "{arguments:?}");
        assert!(stderr.starts_with("containerpilot: "), "{stderr}");
    }
}

#[test]
fn without_a_configuration_it_says_where_it_looked() {
    if ["/etc/containerpilot.json5", "/etc/containerpilot.d"].iter().any(|place| Path::new(place).exists()) {
        return;
    }
    for arguments in [&[][..], &["check"], &["-template"]] {
        let Outcome { status, stdout, stderr } = call(arguments);
        assert_eq!((status, stdout.as_str()), (1, ""), "{arguments:?}");
        for place in ["-config", "$CONTAINERPILOT", "/etc/containerpilot.json5", "/etc/containerpilot.d"] {
            assert!(stderr.contains(place), "{stderr}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = program().arg("--help").stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
