//! How jobs are executed: every setting as the job itself sees it, what a process starts with, and what becomes of
//! programs that cannot be executed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::bare::Bare;
use crate::support::needs::is_root;
use crate::support::programs::write_program;
use crate::support::{Exit, Pilot, Setup, program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A user that nothing else runs as, another run of these tests included, so that its processes can be counted.
fn stranger() -> u32 {
    100_000_000 + std::process::id()
}

/// What a script prints in a job with these settings.
fn printed(settings: &str, script: &str) -> Vec<String> {
    printed_in(Setup::new(), settings, script)
}

fn printed_in(setup: Setup, settings: &str, script: &str) -> Vec<String> {
    let script = serde_json::to_string(script).unwrap();
    let job = format!(r#"{{ name: "app", exec: ["sh", "-c", {script}], {settings} }}"#);
    let pilot = setup.config(&format!(r#"{{ env: {{ COLOUR: "red" }}, jobs: [{job}] }}"#)).start();
    let exit = pilot.wait_exit();
    assert_eq!(exit, Exit::Code(0), "{}", pilot.log().text());
    pilot.lines_of("app")
}

#[test]
fn variables_are_inherited_overridden_and_unset() {
    let setup = Setup::new().env("INHERITED", "a=b c").env("GONE", "here").env("COLOUR", "green");
    let seen = printed_in(
        setup,
        r#"env: { SIZE: 7, GONE: null }"#,
        r#"echo "$INHERITED" "$COLOUR" "$SIZE" "${GONE-unset}""#,
    );
    assert_eq!(seen, ["a=b c red 7 unset"]);
    assert_eq!(printed(r#"env: { COLOUR: "blue" }"#, "echo $COLOUR"), ["blue"]);
}

#[test]
fn a_job_is_told_who_started_it_and_why_and_which_jobs_run() {
    let (_, pilot) = Pilot::run(
        r#"{ jobs: [
            { name: "my-app", exec: ["sh", "-c", "echo $$; until test -e {dir}/told; do sleep 0.01; done; exit 1"] },
            {
                name: "second",
                when: { source: "my-app", once: "exitFailed" },
                exec: ["sh", "-c", "echo $CONTAINERPILOT_PID $CONTAINERPILOT_EVENT_CODE $CONTAINERPILOT_EVENT_SOURCE ${CONTAINERPILOT_MY_APP_PID-none}"],
            },
            { name: "first", exec: ["sh", "-c", "echo $CONTAINERPILOT_MY_APP_PID $CONTAINERPILOT_EVENT_CODE; touch {dir}/told"] },
        ] }"#,
    );
    let app = &pilot.lines_of("my-app")[0];
    assert_eq!(pilot.lines_of("first"), [format!("{app} startup")]);
    assert_eq!(pilot.lines_of("second"), [format!("{} exitFailed my-app none", pilot.pid())]);
}

#[test]
fn a_job_runs_in_its_directory() {
    assert_eq!(printed(r#"cwd: "/usr/bin""#, "pwd"), ["/usr/bin"]);
    assert_eq!(printed(r#"cwd: "/usr/bin", umask: "022""#, "pwd"), ["/usr/bin"]);
    let dir = tempfile::tempdir().unwrap();
    write_program(&dir.path().join("here"), "#!/bin/sh\necho found", 0o755);
    let pilot =
        Pilot::run(&format!(r#"{{ jobs: [{{ name: "app", exec: "./here", cwd: {:?} }}] }}"#, dir.path()));
    assert_eq!(pilot.1.lines_of("app"), ["found"]);
}

#[test]
fn a_job_runs_as_its_user_and_group() {
    if !is_root() {
        return;
    }
    let script = r#"id -u; id -g; id -G; echo "$HOME $USER $LOGNAME""#;
    let seen = printed(r#"user: "nobody", cwd: "/""#, script);
    assert_eq!((seen[0].as_str(), seen[1].as_str(), seen[2].as_str()), ("65534", "65534", "65534"));
    assert!(seen[3].ends_with(" nobody nobody"), "{seen:?}");
    assert_eq!(printed(r#"user: "nobody", group: "daemon", cwd: "/""#, script)[..2], ["65534", "1"]);
    assert_eq!(printed(r#"group: "daemon""#, script)[..2], ["0", "1"]);
    assert_eq!(printed(r#"user: 54321, group: 54322, cwd: "/""#, script)[..3], ["54321", "54322", "54322"]);
}

#[test]
fn a_low_limit_on_open_files_limits_jobs_and_not_how_many_there_can_be() {
    let directory = tempfile::tempdir().unwrap();
    let (config, socket) = (directory.path().join("config"), directory.path().join("socket"));
    let job = |number| format!("{{ name: \"job-{number}\", exec: \"sleep 1000\" }}");
    let jobs: Vec<String> = (0..60).map(job).collect();
    let text = format!("{{ control: {{ socket: {socket:?} }}, jobs: [{}] }}", jobs.join(", "));
    fs::write(&config, text).unwrap();
    let script = "for i in $(seq 300); do
            test $(\"$0\" -config \"$1\" status | grep -c running) -ge 61 && ulimit -Sn && exit 7
            sleep 0.1
        done";
    let output = Command::new("sh")
        .args(["-c", "ulimit -Sn 64; exec \"$@\"", "sh", program(), "-config"])
        .arg(&config)
        .args(["--", "sh", "-c", script, program()])
        .arg(&config)
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(7), "{log}");
    assert!(log.lines().any(|line| line.ends_with(" 64")), "{log}");
}

#[test]
fn limits_priority_and_mask_are_those_of_the_configuration() {
    assert_eq!(printed(r#"umask: "027""#, "umask"), ["0027"]);
    assert_eq!(printed("nice: 5", "nice"), ["5"]);
    assert_eq!(printed("rlimits: { nofile: 99 }", "ulimit -Sn; ulimit -Hn"), ["99", "99"]);
    let both = "rlimits: { nofile: { soft: 64, hard: 128 }, core: 0 }";
    assert_eq!(printed(both, "ulimit -Sn; ulimit -Hn; ulimit -c"), ["64", "128", "0"]);
    assert_eq!(printed("oomScoreAdj: 500", "cat /proc/self/oom_score_adj"), ["500"]);
    assert_eq!(printed("noNewPrivileges: true", "grep NoNewPrivs /proc/self/status"), ["NoNewPrivs:\t1"]);
}

#[test]
fn settings_of_one_job_change_no_other() {
    let (_, pilot) = Pilot::run(
        r#"{ jobs: [
            { name: "odd", exec: ["sh", "-c", "umask; nice"], umask: "077", nice: 7, env: { ODD: "1" } },
            { name: "plain", exec: ["sh", "-c", "umask; nice; echo ${ODD-unset}"], when: { source: "odd", once: "exitSuccess" } },
        ] }"#,
    );
    assert_eq!(pilot.lines_of("odd"), ["0077", "7"]);
    let ours = printed("", "umask; nice");
    assert_eq!(pilot.lines_of("plain"), [ours[0].as_str(), &ours[1], "unset"]);
}

/// The settings of jobs that are started fast, and of those that need a fork.
const WAYS: [&str; 3] = ["", r#"umask: "022","#, "logging: { raw: true },"];

#[test]
fn a_job_leads_a_process_group_of_its_own_with_nothing_on_stdin() {
    for way in WAYS {
        let script = "read -r pid _ _ _ group _ < /proc/self/stat; echo $pid $group > {dir}/group; \
                      readlink /proc/self/fd/0 > {dir}/stdin; cat >> {dir}/stdin";
        let (exit, pilot) =
            Pilot::run(&format!(r#"{{ jobs: [{{ name: "app", {way} exec: ["sh", "-c", "{script}"] }}] }}"#));
        assert_eq!(exit, Exit::Code(0), "{}", pilot.log().text());
        let group = pilot.text("group");
        let (pid, group) = group.trim().split_once(' ').unwrap();
        assert_eq!(pid, group, "{way}");
        assert_eq!(pilot.text("stdin"), "/dev/null\n", "{way}");
    }
}

/// What a script prints without us, started as the program itself is.
fn printed_without_us(script: &str) -> Vec<String> {
    let output = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn none_of_our_descriptors_reach_a_job() {
    let expected = printed_without_us("ls /proc/$$/fd");
    for way in WAYS {
        let pilot = Pilot::start(&format!(
            r#"{{ logging: {{ output: "{{dir}}/log" }}, jobs: [
                {{ name: "one", exec: "sleep 1000" }},
                {{ name: "two", exec: "sleep 1000", umask: "022" }},
                {{ name: "app", {way} exec: ["sh", "-c", "exec > {{dir}}/fds.new; ls /proc/$$/fd; mv {{dir}}/fds.new {{dir}}/fds"] }},
            ] }}"#
        ));
        pilot.wait_for_file("fds");
        assert_eq!(pilot.lines("fds"), expected, "{way}");
        assert_eq!(pilot.stop(), Exit::Code(0));
    }
}

#[test]
fn no_signal_is_blocked_or_ignored_in_a_job() {
    // The first 28 signals: 32 and 33 are the C library's own. Whoever runs this in the background ignores some.
    let script = "sed -nE 's/^(Sig(Blk|Ign)):.*(.{7})$/\\1 \\3/p' /proc/self/status";
    for way in ["", r#"umask: "022","#] {
        assert_eq!(printed(way, script), ["SigBlk 0000000", "SigIgn 0000000"], "{way}");
    }
}

#[test]
fn a_program_that_cannot_be_executed_has_failed_for_the_reason_that_the_log_tells() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    write_program(Path::new(&path("denied")), "#!/bin/sh\n", 0o644);
    write_program(Path::new(&path("no-shebang")), "echo hello\n", 0o755);
    write_program(Path::new(&path("interpreter")), "#!/no/such/interpreter\n", 0o755);
    write_program(Path::new(&path("empty")), "", 0o755);
    let cases = [
        ("no-such-program".to_owned(), 127, "not found in PATH"),
        (path("absent"), 127, "No such file or directory"),
        (dir.path().display().to_string(), 126, "it is a directory"),
        (path("denied"), 126, "permission denied: the file is not executable (mode 0644)"),
        (path("no-shebang"), 126, "exec format error: is it a script without a #! line?"),
        (path("interpreter"), 127, "its interpreter \"/no/such/interpreter\" does not exist"),
        (path("empty"), 126, "exec format error: the file is empty"),
    ];
    for (program, status, reason) in cases {
        for way in ["", r#"umask: "022","#] {
            let config = format!(r#"{{ jobs: [{{ name: "app", {way} exec: ["{program}"] }}] }}"#);
            let (exit, pilot) = Pilot::run(&config);
            assert_eq!(exit, Exit::Code(status), "{program}: {}", pilot.log().text());
            let record = pilot.wait_for_message("cannot execute");
            assert_eq!((record.job.as_str(), record.level.as_str()), ("app", "error"));
            assert!(record.message.contains(&program) && record.message.contains(reason), "{record:?}");
            assert_eq!(pilot.events_of("app"), ["exitFailed", "stopping", "stopped"], "{program}");
        }
    }
}

#[test]
fn of_many_jobs_that_start_together_each_has_its_own_output_or_failure() {
    let dir = tempfile::tempdir().unwrap();
    let program = |number: usize| dir.path().join(format!("app-{number}"));
    let jobs: String = (0..60)
        .map(|number| {
            let text = if number % 2 == 0 { "#!/bin/sh\necho $0 >&2\n" } else { "no program" };
            write_program(&program(number), text, 0o755);
            format!("{{ name: 'app-{number}', exec: {:?}, restarts: 1 }},", program(number))
        })
        .collect();
    let (_, pilot) = Pilot::run(&format!("{{ jobs: [{jobs}] }}"));
    for number in 0..60 {
        let (name, path) = (format!("app-{number}"), program(number).display().to_string());
        let lines = pilot.lines_of(&name);
        if number % 2 == 0 {
            assert_eq!(lines, [path.as_str(), &path], "{name}");
            assert_eq!(pilot.count(&format!("{name} exitSuccess")), 2);
        } else {
            assert_eq!(lines, [""; 0], "{name}");
            assert_eq!(pilot.events_of(&name), ["exitFailed", "exitFailed", "stopping", "stopped"]);
            let reason = "exec format error: is it a script without a #! line?";
            let told = format!("cannot execute {path:?}: {reason}");
            let records = pilot.log().records();
            let of_ours = records.iter().filter(|record| record.job == name && record.level == "error");
            assert_eq!(of_ours.map(|record| record.message.as_str()).collect::<Vec<_>>(), [&*told, &told]);
        }
    }
}

#[test]
fn a_program_that_cannot_be_executed_is_tried_again_ever_more_slowly() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [{ name: "app", exec: "/no/such/program", restarts: 4, backoff: { jitter: 0 } }] }"#,
    );
    assert_eq!(exit, Exit::Code(127));
    assert_eq!(pilot.count("app exitFailed"), 5);
    let records = pilot.log().records();
    let delays: Vec<&str> =
        records.iter().filter_map(|record| record.message.strip_prefix("restarts in ")).collect();
    assert_eq!(delays, ["100ms", "200ms", "400ms"]);
}

#[test]
fn a_job_that_is_told_to_stop_while_its_start_fails_ends_at_once() {
    let pilot = Pilot::start(
        r#"{ stopTimeout: "20s", jobs: [
            { name: "app", exec: "/no/such/program", restarts: "unlimited", backoff: { max: "0s" } },
        ] }"#,
    );
    pilot.wait_for_events("app exitFailed", 20);
    assert_eq!(pilot.stop(), Exit::Code(0));
    let took = pilot.wait_for_message("shutdown took").message;
    assert!(took.starts_with("shutdown took 0."), "{took}");
    pilot.assert_order(&["app exitFailed", "app stopping", "app stopped"]);
}

#[test]
fn a_user_who_has_too_many_processes_gets_no_more() {
    if !is_root() {
        return;
    }
    // Counted are all processes of that user.
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "first", exec: "sleep 1000", user: 54320, group: 54320, cwd: "/" },
            { name: "second", exec: "true", user: 54320, group: 54320, cwd: "/", rlimits: { nproc: 0 } },
        ] }"#,
    );
    pilot.wait_for_event("second stopped");
    let record = pilot.wait_for_message("cannot execute");
    assert!(record.message.ends_with("the limit on the number of processes is reached"), "{record:?}");
    assert_eq!(pilot.events_of("second"), ["exitFailed", "stopping", "stopped"]);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn at_our_own_limit_of_processes_a_job_waits_for_its_turn() {
    if !is_root() {
        return;
    }
    // Our own three threads, one process for the first job, and none for the second.
    let mut bare = Bare::start_in(
        &["prlimit", "--nproc=4", "{program}", "-config", "{config}"],
        r#"{ logging: { level: "DEBUG" }, jobs: [
            { name: "first", exec: "sleep 1000" },
            { name: "second", exec: "sleep 1001", restarts: "unlimited", backoff: { max: "100ms" } },
        ] }"#,
        |command| {
            fs::set_permissions(command.get_current_dir().unwrap(), fs::Permissions::from_mode(0o777))
                .unwrap();
            command.uid(stranger()).gid(stranger());
        },
    );
    bare.eventually("the second job cannot start", || {
        bare.text("out").contains("the limit on the number of processes is reached")
    });
    let events = |event: &str| bare.text("out").matches(event).count();
    bare.eventually("it is tried again", || events("second exitFailed") >= 2);
    let first = bare.processes().into_iter().find(|pid| *pid != bare.pid()).unwrap();
    kill(Pid::from_raw(first), Signal::SIGKILL).unwrap();
    bare.eventually("the second job starts", || {
        let sleeps =
            |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"sleep\x001001\0");
        bare.processes().iter().any(sleeps)
    });
    assert_eq!(bare.stop(), Exit::Code(0));
}
