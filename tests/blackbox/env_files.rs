//! Variables from files: read at each start, an error if they cannot be, and never shown.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::http::get_port;
use crate::support::lease::Lease;
use crate::support::needs::is_root;
use crate::support::ports::free_port;
use crate::support::{Exit, Pilot, Setup};

/// A value that must never be seen.
const PLANTED: &str = "hunter2-planted";

#[test]
fn files_are_read_at_each_start_and_what_is_more_special_wins() {
    let setup = Setup::new()
        .file("licence", "from-top\n")
        .file("first.env", "A=first\nB=first\nC=first\nLICENCE=unused\n")
        .file("second.env", "# later wins\nB=\"second\\tone\"\nC=second\n")
        .file("password", "one");
    let pilot = setup
        .config(
            r#"{ env: { LICENCE: { file: "{dir}/licence" }, A: "top", TOP: { file: "{dir}/licence" } }, jobs: [
                { name: "app", when: { source: "SIGUSR2" }, env: { C: "own", LICENCE: "own", PASSWORD: { file: "{dir}/password" } },
                  envFile: ["{dir}/first.env", "{dir}/second.env"],
                  exec: ["sh", "-c", "echo \"$A|$B|$C|$LICENCE|$TOP|$PASSWORD\""] },
                { name: "other", exec: ["sh", "-c", "echo \"$A|$LICENCE|$PASSWORD\"; exec sleep 1000"] },
            ] }"#,
        )
        .start();
    pilot.wait_for_line("other", "top|from-top|");
    pilot.signal(nix::sys::signal::Signal::SIGUSR2);
    pilot.wait_for_line("app", "first|second\tone|own|own|from-top|one");
    fs::write(pilot.path("password"), "two\n").unwrap();
    fs::write(pilot.path("second.env"), "B=changed").unwrap();
    pilot.signal(nix::sys::signal::Signal::SIGUSR2);
    pilot.wait_for_line("app", "first|changed|own|own|from-top|two");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_health_check_and_the_command_after_the_dashes_get_them_too() {
    let pilot = Setup::new()
        .file("password", "open sesame\n")
        .config(
            r#"{ jobs: [{ name: "app", exec: "sleep 1000", env: { PASSWORD: { file: "{dir}/password" } },
                  health: { exec: ["sh", "-c", "test \"$PASSWORD\" = 'open sesame'"], interval: "50ms", timeout: "10s" } }] }"#,
        )
        .start();
    pilot.wait_for_event("app healthy");
    fs::remove_file(pilot.path("password")).unwrap();
    pilot.wait_for_event("app unhealthy");
    pilot.wait_for_message("cannot read the variable PASSWORD from");
    assert_eq!(pilot.stop(), Exit::Code(0));
    let pilot = Setup::new()
        .file("password", "open sesame\n")
        .config(r#"{ env: { PASSWORD: { file: "{dir}/password" } } }"#)
        .arguments(&["--", "sh", "-c", "echo $PASSWORD"])
        .start();
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert_eq!(pilot.lines_of("main"), ["open sesame"]);
}

#[test]
fn a_file_that_cannot_be_used_fails_the_start_with_its_reason() {
    let too_large = "x".repeat((128 << 10) + 1);
    for (content, setting, reason) in [
        (None, r#"env: { A: { file: "{dir}/f" } }"#, "No such file or directory"),
        (None, r#"envFile: "{dir}/f""#, "No such file or directory"),
        (None, r#"envFile: "{dir}""#, "directory"),
        (None, r#"envFile: "/dev/zero""#, "not an ordinary file"),
        (Some("A=1\nno variable\n"), r#"envFile: "{dir}/f""#, "line 2: expected NAME=VALUE"),
        (Some(too_large.as_str()), r#"env: { A: { file: "{dir}/f" } }"#, "larger than 128 KiB"),
    ] {
        let setup = Setup::new();
        let setup = if let Some(content) = content { setup.file("f", content) } else { setup };
        let config =
            format!(r#"{{ jobs: [{{ name: "app", exec: "echo never", restarts: 1, {setting} }}] }}"#);
        let pilot = setup.config(&config).start();
        let exit = pilot.wait_exit();
        assert!(matches!(exit, Exit::Code(126 | 127)), "{setting}: {exit:?}");
        assert_eq!(pilot.count("app exitFailed"), 2, "{setting}");
        assert_eq!(pilot.lines_of("app"), [""; 0]);
        pilot.wait_for_record(reason, |record| record.level == "error" && record.message.contains(reason));
    }
}

#[test]
fn a_job_whose_file_comes_late_runs_when_it_is_there() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: ["sh", "-c", "echo got $A; exec sleep 1000"], restarts: "unlimited",
              backoff: { max: "50ms" }, env: { A: { file: "{dir}/late" } } }] }"#,
    );
    pilot.wait_for_events("app exitFailed", 2);
    fs::write(pilot.path("next"), "it\n").unwrap();
    fs::rename(pilot.path("next"), pilot.path("late")).unwrap();
    pilot.wait_for_line("app", "got it");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_file_that_hangs_holds_up_its_own_job_only() {
    let setup = Setup::new();
    let lease = Lease::take(&setup.dir().join("hangs"), "A=1");
    let pilot = setup
        .config(
            r#"{ jobs: [
                { name: "hangs", exec: "echo never", envFile: "{dir}/hangs" },
                { name: "other", exec: ["sh", "-c", "echo here; exec sleep 1000"] },
            ] }"#,
        )
        .start();
    pilot.wait_for_line("other", "here");
    pilot.eventually("it is shown", || pilot.status_of("hangs")["state"] == "starting");
    assert_eq!(pilot.tell(&["-ping"]).trim(), "ok");
    pilot.tell(&["stop", "hangs"]);
    pilot.wait_for_event("hangs stopped");
    assert_eq!(pilot.stop(), Exit::Code(0));
    drop(lease);
}

#[test]
fn a_job_of_another_user_gets_what_only_root_can_read() {
    if !is_root() {
        return;
    }
    let setup = Setup::new().file("password", "only for root\n");
    fs::set_permissions(setup.dir().join("password"), fs::Permissions::from_mode(0o600)).unwrap();
    let pilot = setup
        .config(
            r#"{ jobs: [{ name: "app", user: "nobody", env: { PASSWORD: { file: "{dir}/password" } },
                  exec: ["sh", "-c", "echo $(id -un): $PASSWORD"] }] }"#,
        )
        .start();
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert_eq!(pilot.lines_of("app"), ["nobody: only for root"]);
}

/// Jobs whose starts go well and badly, with a value that must never be seen in each.
const JOBS: &str = r#"jobs: [
    { name: "app", exec: ["sh", "-c", "test \"$TOP$A$B\" = \"$(cat {dir}/thrice)\" && touch {dir}/came; END"],
      envFile: "{dir}/good.env", env: { A: { file: "{dir}/value" } },
      health: { exec: ["sh", "-c", "test \"$B\" = \"$(cat {dir}/value)\""], interval: "50ms", timeout: "10s" } },
    { name: "bad", exec: "echo", envFile: "{dir}/bad.env" },
    { name: "crash", exec: ["sh", "-c", "exit 1"], envFile: "{dir}/good.env", restarts: 2, backoff: { max: "0s" } },
    { name: "missing", exec: "/no/such/program", envFile: "{dir}/good.env" },
    { name: "nowhere", exec: "no-such-program", env: { PATH: { file: "{dir}/value" } } },
    { name: "denied", exec: "value", envFile: "{dir}/path.env" },
], env: { TOP: { file: "{dir}/value" } }"#;

fn planted() -> Setup {
    Setup::new()
        .file("value", PLANTED)
        .file("thrice", &PLANTED.repeat(3))
        .file("good.env", &format!("B={PLANTED}\n"))
        .file("bad.env", &format!("{PLANTED}\n"))
        .file("path.env", &format!("PATH=/{PLANTED}:{{dir}}\n"))
}

fn assert_hidden(name: &str, output: &str) {
    assert!(!output.is_empty(), "{name}");
    assert!(!output.contains("hunter2"), "{name}: {output}");
}

#[test]
fn no_answer_of_the_program_shows_a_value_from_a_file() {
    let port = free_port();
    let jobs = JOBS.replace("END", "exec sleep 1000");
    let telemetry = format!(r#"telemetry: {{ port: {port}, interfaces: "static:127.0.0.1" }}"#);
    let recorded = planted().arguments(&["-record", "{dir}/record"]);
    let pilot = recorded.config(&format!("{{ {telemetry}, {jobs} }}")).start();
    pilot.wait_for_event("app healthy");
    pilot.eventually("the values are there", || pilot.path("came").exists());
    for job in ["bad", "crash", "missing", "nowhere", "denied"] {
        pilot.wait_for_event(&format!("{job} stopped"));
    }
    pilot.tell(&["restart", "app"]);
    for arguments in
        [["status", ""], ["check", ""], ["schema", ""], ["-reload", "--dry-run"], ["-template", ""]]
    {
        let arguments: Vec<&str> = arguments.into_iter().filter(|argument| !argument.is_empty()).collect();
        let output = pilot.client(&arguments);
        assert_hidden(arguments[0], &String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    }
    assert_hidden("status as JSON", &pilot.ask("GET", "/v3/status", "").body);
    for path in ["/metrics", "/status", "/readyz"] {
        assert_hidden(path, &get_port(port, path, "").body);
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_hidden("log", &pilot.log().text());
    assert_hidden("record", &String::from_utf8_lossy(&fs::read(pilot.path("record")).unwrap()));
    assert!(pilot.log().text().contains("line 1: expected NAME=VALUE"));
}

#[test]
fn no_format_of_the_log_shows_a_value_from_a_file() {
    for format in ["json", "text", "default"] {
        let logging = format!(r#"logging: {{ format: "{format}", level: "DEBUG", output: "{{dir}}/log" }}"#);
        let pilot = planted().config(&format!("{{ {logging}, {} }}", JOBS.replace("END", "exit 7"))).start();
        assert!(matches!(pilot.wait_exit(), Exit::Code(1..)));
        assert!(pilot.path("came").exists(), "the values are there");
        let log = pilot.text("log");
        assert!(log.contains("line 1: expected NAME=VALUE"), "{log}");
        assert_hidden(format, &log);
    }
}
