//! The status that the program exits with: the one thing that whoever runs a container sees of its end.

use std::os::unix::fs::PermissionsExt;
use std::thread;

use crate::support::needs::can_be_pid_one;
use crate::support::{Exit, Pilot, Setup};
use nix::sys::signal::Signal;

/// Runs started at the same time.
const AT_ONCE: usize = 8;

/// The program without a configuration: nothing but an init for one command.
fn init(command: &[&str]) -> Setup {
    Setup::new().arguments(&["--"]).arguments(command)
}

/// The statuses of `sh -c` for each script.
fn statuses(scripts: &[String]) -> Vec<Exit> {
    let run = |script: &String| init(&["sh", "-c", script]).start().wait_exit();
    let batch = |scripts: &[String]| {
        thread::scope(|scope| {
            let runs: Vec<_> = scripts.iter().map(|script| scope.spawn(move || run(script))).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
        })
    };
    scripts.chunks(AT_ONCE).flat_map(batch).collect()
}

#[test]
fn every_status_of_the_command_is_passed_on() {
    let scripts: Vec<String> = (0..=255).map(|code| format!("exit {code}")).collect();
    let expected: Vec<Exit> = (0..=255).map(Exit::Code).collect();
    assert_eq!(statuses(&scripts), expected);
}

/// What whoever runs this test ignores stays ignored in all that it starts: shells do so for background jobs.
fn inherited_ignored_signals() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
    let reset = [Signal::SIGPIPE, Signal::SIGHUP, Signal::SIGINT].map(|signal| signal as i32);
    (1..=64).filter(|number| mask & (1 << (number - 1)) != 0 && !reset.contains(number)).collect()
}

#[test]
fn every_signal_that_ends_the_command_is_told_as_128_plus_its_number() {
    let harmless = [Signal::SIGCHLD, Signal::SIGCONT, Signal::SIGURG, Signal::SIGWINCH];
    let stopping = [Signal::SIGSTOP, Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];
    // The C library keeps these for itself: a program that it starts ignores them.
    let reserved = [32, 33];
    let survived = harmless.into_iter().chain(stopping).map(|signal| signal as i32).chain(reserved);
    let survived: Vec<i32> = survived.collect();
    let ignored = inherited_ignored_signals();
    let signals = (1..=64).filter(|number| !survived.contains(number) && !ignored.contains(number));
    let signals: Vec<i32> = signals.collect();
    let scripts: Vec<String> =
        signals.iter().map(|number| format!("ulimit -c 0; kill -{number} $$")).collect();
    let expected: Vec<Exit> = signals.iter().map(|number| Exit::Code(128 + number)).collect();
    assert_eq!(statuses(&scripts), expected);
}

#[test]
fn a_command_that_cannot_be_executed_has_the_status_that_shells_give_it() {
    let setup = Setup::new().file("plain", "#!/bin/sh\n").arguments(&["--", "{dir}/plain"]);
    std::fs::set_permissions(setup.dir().join("plain"), PermissionsExt::from_mode(0o644)).unwrap();
    assert_eq!(setup.start().wait_exit(), Exit::Code(126));
    assert_eq!(init(&["{dir}"]).start().wait_exit(), Exit::Code(126));
    assert_eq!(init(&["/no/such/program"]).start().wait_exit(), Exit::Code(127));
}

#[test]
fn the_status_is_passed_on_as_process_1_too() {
    if !can_be_pid_one() {
        return;
    }
    for (script, status) in [("exit 0", 0), ("exit 77", 77), ("kill -9 $$", 137)] {
        let pilot = init(&["sh", "-c", script]).as_pid_one().start();
        assert_eq!(pilot.wait_exit(), Exit::Code(status), "{script}");
    }
}

#[test]
fn the_status_of_an_essential_job_ends_the_program_whatever_the_others_do() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [
            { name: "other", exec: "sleep 1000", restarts: "unlimited" },
            { name: "failed", exec: ["sh", "-c", "exit 3"] },
            { name: "app", exec: ["sh", "-c", "exit 42"], essential: true, when: { source: "failed", once: "stopped" } },
        ] }"#,
    );
    assert_eq!(exit, Exit::Code(42));
    pilot.assert_order(&["app stopped", "global shutdown", "other stopping", "other stopped"]);
}

#[test]
fn an_essential_job_ends_the_program_only_when_its_restarts_are_used_up() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [
            { name: "other", exec: "sleep 1000" },
            { name: "app", exec: ["sh", "-c", "exit 5"], essential: true, restarts: 2, backoff: { max: "0s" } },
        ] }"#,
    );
    assert_eq!((exit, pilot.count("app exitFailed")), (Exit::Code(5), 3));
}

#[test]
fn the_first_of_several_failed_jobs_decides() {
    let (exit, _) = Pilot::run(
        r#"{ jobs: [
            { name: "second", exec: ["sh", "-c", "exit 4"], when: { source: "first", once: "stopped" } },
            { name: "first", exec: ["sh", "-c", "exit 3"], when: { source: "fine", once: "stopped" } },
            { name: "fine", exec: "true" },
        ] }"#,
    );
    assert_eq!(exit, Exit::Code(3));
}

#[test]
fn a_member_that_failed_decides_and_not_one_that_its_group_stopped_therefore() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [
              { name: "app", exec: ["sh", "-c", "exit 5"], restarts: "unlimited",
                when: { source: "base", once: "ready" } },
              { name: "base", exec: "sleep 1000", restarts: "unlimited" },
            ],
            groups: [{ name: "g", jobs: ["base", "app"], limit: 0, onExhausted: "stop" }] }"#,
    );
    pilot.assert_order(&["app exitFailed", "base stopping", "base exitFailed"]);
    assert_eq!(exit, Exit::Code(5));
}

#[test]
fn a_job_that_a_failure_starts_runs_to_its_end_also_if_the_shutdown_would_start_it_too() {
    for _ in 0..10 {
        let (exit, pilot) = Pilot::run(
            r#"{ stopTimeout: "2s", jobs: [
                { name: "app", exec: ["sh", "-c", "exit 3"] },
                { name: "cleanup", exec: ["sh", "-c", "sleep 0.1; echo done >> {dir}/log"],
                  when: { any: [{ source: "app", once: "exitFailed" }, { once: "shutdown" }] } },
            ] }"#,
        );
        pilot.assert_order(&["cleanup exitSuccess", "global shutdown"]);
        assert_eq!((exit, pilot.lines("log").len()), (Exit::Code(3), 1));
    }
}

#[test]
fn only_the_last_execution_of_a_job_counts() {
    let config = |script: &str| {
        format!(r#"{{ jobs: [{{ name: "app", restarts: 1, exec: ["sh", "-c", "{script}"] }}] }}"#,)
    };
    let succeeds = config("test -e {dir}/ran || { touch {dir}/ran; exit 6; }");
    assert_eq!(Pilot::run(&succeeds).0, Exit::Code(0));
    let fails = config("test ! -e {dir}/ran || exit 6; touch {dir}/ran");
    assert_eq!(Pilot::run(&fails).0, Exit::Code(6));
}

#[test]
fn a_shutdown_by_signal_is_a_success_whatever_the_jobs_say() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "failed", exec: "false" },
            { name: "app", essential: true,
              exec: ["sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"] },
        ] }"#,
    );
    pilot.wait_for_line("app", "ready");
    pilot.wait_for_event("failed stopped");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_bad_configuration_is_status_1_a_message_and_nothing_started() {
    let bad = [
        r#"{ jobs: [{ name: "app", exec: "touch {dir}/started" }, { exec: "true", wehn: {} }] }"#,
        r#"{ jobs: [{ name: "app", exec: "touch {dir}/started" }, { name: "b", exec: "true", when: { source: "c", once: "healthy" } }] }"#,
        r#"{ jobs: [{ name: "app", exec: "touch {dir}/started" }, "#,
        r#"{ jobs: [{ name: "app", exec: "touch {dir}/started", user: "no-such-user" }] }"#,
        r#"{ jobs: [{ name: "app", exec: "touch {dir}/started" }], env: "{{ nothing }}" }"#,
    ];
    for config in bad {
        let (exit, pilot) = Pilot::run(config);
        assert_eq!(exit, Exit::Code(1), "{config}");
        assert!(pilot.log().text().contains("containerpilot.json5"), "{}", pilot.log().text());
        assert!(!pilot.path("started").exists(), "{config}");
    }
    let missing = Setup::new().arguments(&["-config", "{dir}/missing.json5"]).start();
    assert_eq!(missing.wait_exit(), Exit::Code(1));
    assert!(missing.log().text().contains("missing.json5"));
}

#[test]
fn a_wrong_call_is_status_2() {
    for arguments in [&["-no-such-flag"][..], &["-config"], &["no-such-command"], &["-maintenance", "maybe"]]
    {
        let pilot = Setup::new().arguments(arguments).start();
        assert_eq!(pilot.wait_exit(), Exit::Code(2), "{arguments:?}");
    }
}

#[test]
fn a_command_without_configuration_is_logged_stopped_and_cleaned_up_after() {
    let script =
        "trap 'echo bye; exit 3' TERM; (setsid sleep 1000 &); echo hello; while :; do sleep 0.05; done";
    let pilot = init(&["sh", "-c", script]).start();
    let hello = pilot.wait_for_message(" hello");
    let words: Vec<&str> = hello.line.split(' ').collect();
    assert_eq!((words[1], words[3]), ("main", "hello"), "time, job, process, message");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(pilot.log().text().lines().any(|line| line.ends_with(" bye")));
}

#[test]
fn a_command_beside_a_configuration_is_one_more_job() {
    let config = r#"{ jobs: [{ name: "app", exec: "sleep 1000", restarts: "unlimited" }] }"#;
    let pilot = Setup::new().config(config).arguments(&["--", "sh", "-c", "exit 12"]).start();
    assert_eq!(pilot.wait_exit(), Exit::Code(12));
    pilot.assert_order(&["main exitFailed", "main stopped", "app stopping", "app stopped"]);
}
