//! Containers that give their entrypoint less: no writable root, another user, no capabilities, few processes,
//! little memory, no network.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::support::container::Container;
use crate::support::{Exit, Record};

#[test]
fn a_read_only_root_needs_a_tmpfs_for_the_socket_and_no_more() {
    let config = r#"{ control: { socket: "/run/containerpilot.socket" }, jobs: [
        { name: "app", exec: ["sh", "-c", "touch /etc/x 2>/dev/null || echo read-only; exec sleep 1000"] } ] }"#;
    let Some(container) = Container::start(&["--read-only", "--tmpfs", "/run"], config) else { return };
    container.wait_for_line("app", "read-only");
    container.ask(&["-ping"]);
    assert_eq!(container.stop().0, Exit::Code(0));
}

#[test]
fn without_a_place_for_the_socket_the_error_names_it() {
    let config = r#"{ control: { socket: "/run/containerpilot.socket" }, jobs: [{ exec: "sleep 1000" }] }"#;
    let Some(container) = Container::start(&["--read-only"], config) else { return };
    assert_eq!(container.wait_exit(), Exit::Code(1));
    let log = container.log().text();
    assert!(log.contains("/run/containerpilot.socket: Read-only file system"), "{log}");
    assert!(log.contains("control.socket can name another place"), "{log}");
}

#[test]
fn an_ordinary_user_can_run_everything_but_jobs_of_others() {
    let config = r#"{ control: { socket: "/tmp/containerpilot.socket" }, jobs: [
        { name: "own", exec: ["sh", "-c", "id -u"], user: "1000" },
        { name: "app", exec: "sleep 1000" },
        { name: "other", exec: "id -u", user: "nobody" },
    ] }"#;
    let Some(container) = Container::start_with(&["--user", "1000:1000"], |setup| {
        fs::set_permissions(setup.dir(), Permissions::from_mode(0o755)).unwrap();
        setup.config(config)
    }) else {
        return;
    };
    container.wait_for_line("own", "1000");
    let refused = failure(&container, "other");
    assert!(refused.contains("nobody") && refused.contains("not permitted"), "{refused}");
    container.ask(&["-ping"]);
    assert_eq!(container.stop().0, Exit::Code(0));
}

/// The message of the record that tells of a job's failed start.
fn failure(container: &Container, job: &str) -> String {
    let told = |record: &Record| record.job == job && record.message.starts_with("cannot ");
    container.wait_for_record(&format!("{job} cannot start"), told).message
}

#[test]
fn without_capabilities_and_new_privileges_jobs_run_are_stopped_and_reaped() {
    let options = ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"];
    let config = r#"{ jobs: [
        { name: "orphans", exec: ["sh", "-c", "setsid sleep 0.1 & grep NoNewPrivs /proc/self/status | tr -d '\\t'"] },
        { name: "app", exec: "sleep 1000" },
        { name: "other", exec: "id -u", user: "nobody" },
    ] }"#;
    let Some(container) = Container::start(&options, config) else { return };
    container.wait_for_line("orphans", "NoNewPrivs:1");
    let refused = failure(&container, "other");
    assert!(refused.contains("nobody") && refused.contains("not permitted"), "{refused}");
    container.wait_for_event("orphans stopped");
    assert_eq!(container.stop().0, Exit::Code(0));
}

#[test]
fn without_the_capability_to_signal_jobs_of_other_users_it_warns() {
    let options = ["--cap-drop", "ALL", "--cap-add", "SETUID", "--cap-add", "SETGID"];
    let config = r#"{ jobs: [
        { name: "own", exec: "sleep 1000" },
        { name: "other", exec: "sleep 2", user: "nobody" },
    ] }"#;
    let Some(container) = Container::start(&options, config) else { return };
    let warned = container.wait_for_message("cannot stop jobs of other users");
    assert!(warned.message.contains("CAP_KILL"), "{}", warned.message);
    container.wait_for_event("other exitSuccess");
    assert_eq!(container.stop().0, Exit::Code(0));
}

#[test]
fn at_the_limit_of_processes_starts_lookups_and_reloads_fail_by_name_and_work_again_later() {
    let config = r#"{ telemetry: { port: 9090, interfaces: ["lo"] }, jobs: [
        { name: "hog", when: { source: "SIGUSR2" },
          // Takes every place that becomes free, too.
          exec: ["perl", "-e", "while (1) { my $p = fork; defined $p ? $p || last : select(undef, undef, undef, 0.01) } sleep 1000"] },
        { name: "late", exec: "echo here", when: { source: "SIGHUP" } },
        { name: "app", exec: "sleep 1000",
          health: { http: "http://localhost:9090/healthz", interval: "300ms", ttl: 60 } },
    ] }"#;
    let Some(container) = Container::start(&["--pids-limit", "40"], config) else { return };
    container.wait_for_event("app healthy");
    container.kill("HUP");
    container.wait_for_line("late", "here");
    container.kill("USR2");
    container.eventually("no process can be started", || {
        container.kill("HUP");
        let refused = |record: &Record| record.job == "late" && record.message.starts_with("cannot ");
        container.log().with_records(|records| records.iter().any(refused))
    });
    let refused = failure(&container, "late");
    assert!(refused.contains("the limit on the number of processes is reached"), "{refused}");
    container.wait_for_event("app unhealthy");
    let refused = container.client(&["-reload"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot start a thread"), "{refused:?}");

    container.tell(&["stop", "hog"]);
    container.wait_for_event("hog stopped");
    container.wait_for_events("app healthy", 2);
    container.tell(&["-reload"]);
    let before = container.lines_of("late").len();
    container.kill("HUP");
    container.eventually("late runs again", || container.lines_of("late").len() > before);
    assert_eq!(container.stop().0, Exit::Code(0));
}

#[test]
fn a_job_that_is_killed_for_memory_is_said_to_be_and_the_others_go_on() {
    let config = r#"{ jobs: [
        { name: "hungry", exec: "tail /dev/zero" },
        { name: "shell", exec: ["sh", "-c", "tail /dev/zero; exit $?"], when: { source: "hungry", once: "stopped" } },
        { name: "killed", exec: ["sh", "-c", "sleep 2; kill -9 $$"], when: { source: "shell", once: "stopped" } },
        { name: "app", exec: "sleep 1000" },
    ] }"#;
    let Some(container) = Container::start(&["--memory", "64m", "--memory-swap", "64m"], config) else {
        return;
    };
    container.wait_for_event("killed stopped");
    let told = |job: &str| container.status_of(job)["lastExit"].clone();
    assert_eq!(told("hungry")["reason"], "killed for memory (SIGKILL)");
    assert_eq!(told("hungry")["status"], 137);
    assert_eq!(told("shell")["reason"], "exited with status 137: a process of it was killed for memory");
    assert_eq!(told("killed")["reason"], "killed by SIGKILL", "by somebody else");
    let warned = container.wait_for_message("killed for memory (SIGKILL)");
    assert_eq!((warned.job.as_str(), warned.level.as_str()), ("hungry", "warning"));
    assert_eq!(container.events_of("app"), ["ready"]);
    assert_eq!(container.stop().0, Exit::Code(0));
}

#[test]
fn without_a_network_everything_but_the_network_works() {
    let config = r#"{ jobs: [
        { name: "app", exec: "sleep 1000", health: { tcp: "192.0.2.1:80", interval: "300ms", ttl: 60 } },
        { name: "task", exec: "echo run", when: { interval: "300ms" } },
    ] }"#;
    let Some(container) = Container::start(&["--network", "none"], config) else { return };
    container.wait_for_events("task exitSuccess", 3);
    container.wait_for_event("app unhealthy");
    container.ask(&["-ping"]);
    assert_eq!(container.stop().0, Exit::Code(0));
}

#[test]
fn many_jobs_start_though_a_filter_forbids_what_makes_that_cheap() {
    // As filters do that are older than the call.
    let filter = r#"{ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        { "names": ["close_range"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1 } ] }"#;
    let job = |number: usize| {
        format!(
            r#"{{ name: "job{number}", exec: ["sh", "-c", "ls /proc/self/fd; echo problem >&2; exec sleep 1000"] }}"#
        )
    };
    let jobs = (0..60).map(job).collect::<Vec<_>>().join(", ");
    let Some(container) = Container::start_with(&["--security-opt", "seccomp={dir}/filter.json"], |setup| {
        setup.file("filter.json", filter).config(&format!("{{ jobs: [{jobs}] }}"))
    }) else {
        return;
    };
    for number in 0..60 {
        let job = format!("job{number}");
        container.wait_for_line(&job, "problem");
        // The last is the folder that `ls` reads.
        container.eventually("its descriptors are listed", || container.lines_of(&job).len() == 5);
        let mut lines = container.lines_of(&job);
        lines.sort();
        assert_eq!(lines, ["0", "1", "2", "3", "problem"]);
    }
    assert_eq!(container.stop().0, Exit::Code(0));
}

#[test]
fn when_memory_runs_out_a_job_is_killed_and_not_process_1() {
    // Many small jobs, none of which is larger than we are.
    let eater = r#"exec: ["perl", "-e", "my $x = 'x' x 4_000_000; sleep 1000"], restarts: "unlimited", backoff: { min: "1s" }"#;
    let jobs: Vec<String> = (0..40).map(|number| format!(r#"{{ name: "j{number}", {eater} }}"#)).collect();
    let config = format!("{{ jobs: [{}] }}", jobs.join(", "));
    let Some(container) = Container::start(&["--memory", "128m", "--memory-swap", "128m"], &config) else {
        return;
    };
    container.wait_for_message("killed for memory");
    assert_eq!(container.ask(&["-ping"]).trim(), "ok");
    let (exit, _) = container.stop();
    assert_eq!(exit, Exit::Code(0), "process 1 was not killed");
}

#[test]
fn where_orphans_cannot_be_adopted_it_warns_and_runs_jobs_all_the_same() {
    // 36 is PR_SET_CHILD_SUBREAPER, which emulators and old kernels do not know.
    let filter = r#"{ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        { "names": ["prctl"], "action": "SCMP_ACT_ERRNO", "errnoRet": 22,
          "args": [{ "index": 0, "value": 36, "op": "SCMP_CMP_EQ" }] } ] }"#;
    // Below an init: process 1 adopts orphans anyway.
    let options = ["--init", "--security-opt", "seccomp={dir}/filter.json"];
    let Some(container) = Container::start_with(&options, |setup| {
        let config = r#"{ jobs: [{ name: "app", exec: ["sh", "-c", "echo here; exec sleep 1000"] }] }"#;
        setup.file("filter.json", filter).config(config)
    }) else {
        return;
    };
    container.wait_for_line("app", "here");
    let record = container.wait_for_message("cannot adopt orphans: Invalid argument (os error 22)");
    assert_eq!(record.level, "warning");
    assert_eq!(container.stop().0, Exit::Code(0));
}
