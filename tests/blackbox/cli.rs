//! The command line of the real program: what it prints and the status it exits with.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support;
use crate::support::needs::skip;

struct Outcome {
    status: i32,
    stdout: String,
    stderr: String,
}

fn program() -> Command {
    let mut command = Command::new(support::program());
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
    assert_eq!(call(&["help"]).stdout, call(&["--help"]).stdout);
    assert_eq!(call(&["help", "check"]).stdout, call(&["check", "--help"]).stdout);
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
        // Not the usual socket: another run may be there.
        let arguments = [&["-socket", "/no/such/socket"], arguments].concat();
        let Outcome { status, stdout, stderr } = call(&arguments);
        assert_eq!((status, stdout.as_str()), (1, ""), "{arguments:?}");
        assert!(stderr.starts_with("containerpilot: "), "{stderr}");
    }
}

/// Calls the program with a control socket where another server writes this, again and again, until nobody reads it.
fn call_with_server(arguments: &[&str], first: &str, again: &str) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let (first, again) = (first.to_owned(), again.repeat(1000));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            request.extend(byte);
        }
        let mut sent = stream.write_all(first.as_bytes());
        while sent.is_ok() && !again.is_empty() {
            sent = stream.write_all(again.as_bytes());
        }
    });
    let outcome = call(&[&["-socket", socket.to_str().unwrap()], arguments].concat());
    server.join().unwrap();
    outcome
}

#[test]
fn a_client_bounds_what_it_reads_from_any_server() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (arguments, first, again, part) in [
        (
            &["-ping"][..],
            "HTTP/1.1 200 OK\r\nx: ",
            "xxxxxxxx",
            "the headers of the answer are longer than 65536 bytes",
        ),
        (&["status"], "HTTP/1.1 200 OK\r\n\r\n", "xxxxxxxx", "it is longer than 67108864 bytes"),
        (&["events"], chunked, "8\r\nxxxxxxxx\r\n", "a line is longer than 1048576 bytes"),
        (&["status"], chunked, "x", "a chunk of the answer has no size"),
        (&["-ping"], "SSH-2.0-OpenSSH_9.2\r\n", "", "the answer is not HTTP"),
        (&["-ping"], "", "", "the connection ended without an answer"),
        (
            &["status"],
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}",
            "",
            "the connection ended within the answer",
        ),
        (&["status"], "HTTP/1.1 503 X\r\ncontent-length: 4\r\n\r\nbusy", "", "answered 503: busy"),
    ] {
        let Outcome { status, stdout, stderr } = call_with_server(arguments, first, again);
        assert_eq!((status, stdout.as_str()), (1, ""), "{arguments:?} {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_stream_of_events_that_breaks_off_is_printed_as_far_as_it_came() {
    let event = r#"data: {"sequence":3,"time":"T","code":"healthy","source":"app","cause":2}"#;
    let chunk = format!("{event}\n\n");
    let stream = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{chunk}\r\n5\r\ndat",
        chunk.len()
    );
    let Outcome { status, stdout, stderr } = call_with_server(&["events", "-follow"], &stream, "");
    assert_eq!((status, stdout.as_str(), stderr.as_str()), (0, "T 3 app healthy (because of 2)\n", ""));
}

#[test]
fn without_a_configuration_it_says_where_it_looked() {
    if ["/etc/containerpilot.json5", "/etc/containerpilot.d"].iter().any(|place| Path::new(place).exists()) {
        return skip("this machine has a configuration in /etc");
    }
    for arguments in [&[][..], &["check"], &["-template"]] {
        let Outcome { status, stdout, stderr } = call(arguments);
        assert_eq!((status, stdout.as_str()), (1, ""), "{arguments:?}");
        for place in ["-config", "$CONTAINERPILOT", "/etc/containerpilot.json5", "/etc/containerpilot.d"] {
            assert!(stderr.contains(place), "{stderr}");
        }
    }
}

const GOOD: &str = "{ jobs: [{ name: 'app', exec: 'sh -c {{ .WORD | default `true` }}' }] }";
/// An advertised job without Consul: a warning.
const DOUBTFUL: &str = "{ jobs: [{ name: 'app', exec: 'sh', port: 80, interfaces: 'static:192.0.2.1', \
                        health: { exec: 'true', interval: 1 } }] }";
const BAD: &str = "{\n  jobs: [{ nam: 'app', exec: '' }],\n  stopTimeout: '1d',\n}";

fn written(directory: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = directory.path().join("app.json5");
    fs::write(&path, text).unwrap();
    path
}

fn check(text: &str, options: &[&str]) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    outcome(program().args(["check", "-config"]).arg(written(&directory, text)).args(options))
}

#[test]
fn check_and_graph_take_the_command_that_jobs_wait_for() {
    let text = "{ jobs: [{ name: 'after', exec: 'true', when: { source: 'main', once: 'exitSuccess' } }] }";
    let without = check(text, &[]);
    assert_eq!(without.status, 1);
    assert!(without.stdout.contains("With a command: check -config F -- CMD"), "{}", without.stdout);
    let with = check(text, &["-strict", "--", "true", "-v"]);
    assert_eq!(with.status, 0, "{}", with.stdout);
    assert_eq!(check("{}", &["-strict", "--", "true"]).status, 0, "there is something to run");
    let directory = tempfile::tempdir().unwrap();
    let graph =
        outcome(program().args(["graph", "-config"]).arg(written(&directory, text)).args(["--", "true"]));
    assert_eq!(graph.stdout, "main\n└─ exitSuccess → after\n", "{}", graph.stderr);
}

#[test]
fn check_exits_with_1_for_errors_and_for_warnings_only_if_strict() {
    for (text, options, status) in [
        (GOOD, &[][..], 0),
        (GOOD, &["-strict"], 0),
        (DOUBTFUL, &[], 0),
        (DOUBTFUL, &["-strict"], 1),
        (BAD, &[], 1),
        (BAD, &["-format", "json"], 1),
    ] {
        let found = check(text, options);
        assert_eq!(
            (found.status, found.stderr.as_str()),
            (status, ""),
            "{text} {options:?}: {}",
            found.stdout
        );
    }
}

#[test]
fn check_reports_every_problem_with_its_place() {
    let report = check(BAD, &[]).stdout;
    for part in ["app.json5:2:", "app.json5:3:", "nam", "\"1d\"", "errors"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert!(check(GOOD, &[]).stdout.contains("no problems"));
}

#[test]
fn check_colours_only_when_told_or_on_a_terminal() {
    assert!(!check(BAD, &[]).stdout.contains('\u{1b}'));
    assert!(check(BAD, &["-color", "always"]).stdout.contains('\u{1b}'));
}

#[test]
fn check_prints_json_for_programs() {
    let problems: serde_json::Value = serde_json::from_str(&check(BAD, &["-format=json"]).stdout).unwrap();
    let problems = problems.as_array().unwrap();
    assert!(problems.len() >= 2, "{problems:?}");
    for problem in problems {
        assert!(problem.get("message").is_some() && problem.get("line").is_some(), "{problem}");
    }
    let none: serde_json::Value = serde_json::from_str(&check(GOOD, &["-format=json"]).stdout).unwrap();
    assert_eq!(none, serde_json::json!([]));
}

#[test]
fn a_bad_configuration_starts_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let Outcome { status, stdout, stderr } = outcome(program().arg("-config").arg(written(&directory, BAD)));
    assert_eq!((status, stdout.as_str()), (1, ""));
    for part in ["app.json5:2:", "app.json5:3:", "containerpilot: cannot use "] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}

#[test]
fn a_start_that_fails_says_so_on_stderr_though_the_log_is_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let _in_use = UnixListener::bind(&socket).unwrap();
    let log = directory.path().join("log");
    let config = |output: &str| {
        let text = format!(
            "{{ control: {{ socket: {socket:?} }}, logging: {{ output: {output:?} }}, jobs: [{{ exec: 'true' }}] }}"
        );
        written(&directory, &text)
    };
    let failed = outcome(program().arg("-config").arg(config(log.to_str().unwrap())));
    let words = "cannot supervise: ";
    assert_eq!(failed.status, 1);
    assert!(failed.stderr.starts_with(&format!("containerpilot: {words}")), "{}", failed.stderr);
    assert_eq!(failed.stderr.lines().count(), 1, "{}", failed.stderr);
    assert!(fs::read_to_string(&log).unwrap().contains(words));
    // A log that is read beside stderr, or is stderr, says it once.
    for output in ["stdout", "stderr", "/dev/stderr"] {
        let failed = outcome(program().arg("-config").arg(config(output)));
        let all = failed.stdout + &failed.stderr;
        assert_eq!((failed.status, all.matches(words).count()), (1, 1), "{output}: {all}");
    }
}

#[test]
fn help_that_cannot_be_printed_says_why() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for flag in ["-help", "-version"] {
        let child = program().arg(flag).stdout(full()).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{flag}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with("containerpilot: cannot write the output: "), "{flag}: {text}");
    }
}

#[test]
fn a_log_that_cannot_be_opened_is_named_once() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("log");
    std::os::unix::fs::symlink("missing/log", &link).unwrap();
    let text = format!("{{ logging: {{ output: {link:?} }}, jobs: [{{ exec: 'true' }}] }}");
    let found = outcome(program().arg("-config").arg(written(&directory, &text)));
    assert_eq!(found.status, 1);
    let expected = format!("containerpilot: cannot open the log file {link:?}: No such file or directory\n");
    assert_eq!(found.stderr, expected);
}

#[test]
fn a_configuration_without_jobs_is_warned_about_unless_there_is_a_main_command() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let path = written(&directory, &format!("{{ control: {{ socket: {socket:?} }} }}"));
    let alone = outcome(program().arg("-config").arg(&path));
    assert!(alone.stdout.contains("there is nothing to run"), "{}{}", alone.stdout, alone.stderr);
    let with_main = outcome(program().arg("-config").arg(&path).args(["--", "true"]));
    assert_eq!(with_main.status, 0, "{}", with_main.stderr);
    assert!(!with_main.stdout.contains("there is nothing to run"), "{}", with_main.stdout);
}

#[test]
fn jobs_can_wait_for_the_main_command_and_none_can_have_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let jobs =
        |jobs: &str| written(&directory, &format!("{{ control: {{ socket: {socket:?} }}, jobs: [{jobs}] }}"));
    let path = jobs(r#"{ name: "after", exec: "echo the end", when: { source: "main", once: "stopping" } }"#);
    let run = outcome(program().arg("-config").arg(&path).args(["--", "sh", "-c", "exit 3"]));
    assert_eq!(run.status, 3, "{}", run.stderr);
    assert!(run.stdout.contains("the end"), "{}", run.stdout);
    let alone = outcome(program().arg("-config").arg(&path));
    assert_eq!(alone.status, 1);
    assert!(alone.stderr.contains("the command after `--` has this name"), "{}", alone.stderr);
    let path = jobs(r#"{ name: "main", exec: "true" }"#);
    let twice = outcome(program().arg("-config").arg(&path).args(["--", "true"]));
    assert_eq!(twice.status, 1);
    assert!(twice.stderr.contains("so is the command after `--` named"), "{}", twice.stderr);
}

#[test]
fn the_variable_names_the_configuration_and_may_be_a_url() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(&directory, GOOD);
    for value in [path.display().to_string(), format!("file://{}", path.display())] {
        assert_eq!(outcome(program().env("CONTAINERPILOT", value).arg("-template")).status, 0);
    }
    assert_eq!(outcome(program().env("CONTAINERPILOT", "/no/such/file").arg("check")).status, 1);
}

#[test]
fn template_prints_what_the_environment_makes_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(&directory, GOOD);
    let found = outcome(program().args(["-template", "-config"]).arg(&path).env("WORD", "a=b"));
    assert_eq!((found.status, found.stderr.as_str()), (0, ""));
    assert_eq!(found.stdout, "{ jobs: [{ name: 'app', exec: 'sh -c a=b' }] }");
}

#[test]
fn template_writes_a_file_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(&directory, GOOD);
    let out = directory.path().join("rendered");
    let render = || outcome(program().args(["-template", "-config"]).arg(&path).arg("-out").arg(&out));
    let found = render();
    assert_eq!((found.status, found.stdout.as_str()), (0, ""), "{}", found.stderr);
    let good = "{ jobs: [{ name: 'app', exec: 'sh -c true' }] }";
    assert_eq!(fs::read_to_string(&out).unwrap(), good);

    fs::write(&path, "{{ .A | nonsense }}").unwrap();
    let found = render();
    assert_eq!((found.status, found.stdout.as_str()), (1, ""));
    assert!(found.stderr.contains("app.json5:1:"), "{}", found.stderr);
    assert_eq!(fs::read_to_string(&out).unwrap(), good);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[test]
fn schema_is_json() {
    let Outcome { status, stdout, stderr } = call(&["schema"]);
    assert_eq!((status, stderr.as_str()), (0, ""));
    let schema: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert!(schema.pointer("/properties/jobs").is_some(), "{stdout}");
}

#[test]
fn the_example_has_no_problems() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hello.json5");
    let found = outcome(program().args(["check", "-strict", "-config"]).arg(example));
    assert_eq!(found.status, 0, "{}{}", found.stdout, found.stderr);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = program().arg("--help").stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
