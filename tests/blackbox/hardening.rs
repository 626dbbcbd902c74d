//! What an attacker and an operator found from outside: as PID 1, nothing of this may end, freeze or mislead.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support;
use crate::support::container::Container;
use crate::support::lease::Lease;
use crate::support::needs::{can_be_pid_one, has_programs, is_root, skip};
use crate::support::ports::free_port;
use crate::support::{Exit, Pilot, Setup};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process that leaves its group for that of its parent, our own, as setpgid(2) lets it, then does as told.
fn leaves_its_group(then: &str) -> String {
    format!(r#"["perl", "-e", "$| = 1; setpgrp(0, getpgrp(getppid())); {then}"]"#)
}

#[test]
fn a_start_that_hangs_freezes_nothing_and_its_job_can_be_stopped() {
    let setup = Setup::new();
    let lease = Lease::take(&setup.dir().join("hangs"), "echo never");
    let pilot = setup
        .config(
            r#"{ jobs: [
                { name: "hangs", exec: "{dir}/hangs", restarts: "unlimited" },
                { name: "timed", exec: "{dir}/hangs", timeout: "300ms" },
                { name: "checked", exec: "sleep 1000", health: { exec: "{dir}/hangs", interval: "100ms", timeout: "100ms" } },
                { name: "other", exec: ["sh", "-c", "echo here; exec sleep 1000"] },
            ] }"#,
        )
        .start();
    pilot.wait_for_line("other", "here");
    assert_eq!(pilot.tell(&["-ping"]).trim(), "ok");
    pilot.eventually("it is shown", || pilot.status_of("hangs")["state"] == "starting");
    pilot.wait_for_message("was being started longer than its timeout of 300ms: it is killed");
    pilot.wait_for_message("it was killed while it was being started");
    pilot.wait_for_event("timed exitFailed");
    pilot.wait_for_event("checked unhealthy");
    // Every start that hangs is waited for on a thread of its own, and goes with its process.
    let began = Instant::now();
    pilot.tell(&["stop", "hangs"]);
    pilot.wait_for_event("hangs stopped");
    assert!(began.elapsed() < Duration::from_secs(4), "it has nothing to end gently: {:?}", began.elapsed());
    let began = Instant::now();
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    drop(lease);
}

#[test]
fn sigterm_ends_a_program_whose_start_hangs() {
    for pid_one in [false, true] {
        if pid_one && !can_be_pid_one() {
            return;
        }
        let setup = Setup::new();
        let lease = Lease::take(&setup.dir().join("hangs"), "echo never");
        let setup = setup.config(r#"{ stopTimeout: "1s", jobs: [{ name: "hangs", exec: "{dir}/hangs" }] }"#);
        let pilot = if pid_one { setup.as_pid_one() } else { setup }.start();
        pilot.wait_for_event("global startup");
        let began = Instant::now();
        assert_eq!(pilot.stop(), Exit::Code(0));
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        drop(lease);
    }
}

#[test]
fn a_job_that_leaves_its_group_is_stopped_timed_out_and_killed() {
    let serve = leaves_its_group("print qq(ready\\n); sleep 1000");
    let deaf = leaves_its_group("$SIG{TERM} = 'IGNORE'; print qq(ready\\n); sleep 1 while 1");
    let config = format!(
        r#"{{ stopTimeout: "20s", jobs: [
            {{ name: "app", exec: {serve} }},
            {{ name: "timed", exec: {serve}, timeout: "300ms" }},
            {{ name: "deaf", exec: {deaf}, killTimeout: "300ms" }},
        ] }}"#
    );
    Pilot::in_both_ways(&config, |pilot| {
        pilot.wait_for_line("app", "ready");
        pilot.wait_for_line("deaf", "ready");
        pilot.wait_for_event("timed stopped");
        let began = Instant::now();
        assert_eq!(pilot.stop(), Exit::Code(0));
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        pilot.wait_for_message("did not end within 300ms of SIGTERM: it is killed");
    });
}

#[test]
fn a_check_that_leaves_its_group_is_killed_and_tried_again() {
    let check = leaves_its_group("open(F, '>>', '{dir}/tries'); print F qq(x\\n); close F; sleep 1000");
    let pilot = Pilot::start(&format!(
        r#"{{ jobs: [
            {{ name: "app", exec: "sleep 1000", health: {{ exec: {check}, interval: "300ms", timeout: "300ms" }} }},
        ] }}"#
    ));
    pilot.wait_for_event("app unhealthy");
    pilot.wait_for_lines("tries", 4);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn the_stop_signals_of_images_shut_down_and_other_deadly_ones_are_logged() {
    let config = r#"{ shutdownSignals: ["SIGWINCH"], jobs: [{ name: "app", exec: "sleep 1000" }] }"#;
    for signal in [Signal::SIGQUIT as i32, 34 + 3, Signal::SIGWINCH as i32] {
        Pilot::in_both_ways(config, |pilot| {
            pilot.wait_for_message("started");
            for deadly in [Signal::SIGALRM, Signal::SIGPWR, Signal::SIGIO] {
                pilot.signal(deadly);
                pilot.wait_for_message(&format!("{} received: it does nothing here", deadly.as_str()));
            }
            pilot.signal_number(signal);
            assert_eq!(pilot.wait_exit(), Exit::Code(0), "signal {signal}");
            pilot.assert_order(&["global shutdown", "app stopping", "app stopped"]);
        });
    }
}

#[test]
fn docker_stop_with_the_stop_signal_of_an_image_ends_at_once() {
    let config = r#"{ shutdownSignals: ["SIGWINCH"], jobs: [{ name: "app", exec: "sleep 1000" }] }"#;
    for signal in ["SIGQUIT", "SIGRTMIN+3", "SIGWINCH"] {
        let Some(container) = Container::start(&["--stop-signal", signal], config) else { return };
        container.wait_for_message("started");
        let (exit, took) = container.stop();
        assert_eq!(exit, Exit::Code(0), "{signal}");
        assert!(took < Duration::from_secs(20), "{signal}: {took:?}");
    }
}

#[test]
fn no_sigterm_is_lost_once_process_1_has_begun() {
    if !can_be_pid_one() {
        return;
    }
    for _ in 0..30 {
        let pilot = Setup::new().config(r#"{ jobs: [{ exec: "sleep 1000" }] }"#).as_pid_one().start();
        // From the first line of `main` on.
        pilot.eventually("main has begun", || {
            let status = fs::read_to_string(format!("/proc/{}/status", pilot.pid())).unwrap_or_default();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap_or("0");
            let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
            let is_blocked = mask & (1 << (Signal::SIGTERM as i32 - 1)) != 0;
            let is_us = fs::read_link(format!("/proc/{}/exe", pilot.pid()))
                .is_ok_and(|path| path == fs::canonicalize(support::program()).unwrap());
            is_us && is_blocked
        });
        assert_eq!(pilot.stop(), Exit::Code(0));
    }
}

#[test]
fn jobs_are_likelier_victims_than_we_are_when_memory_runs_out() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "app", exec: ["sh", "-c", "while :; do cat /proc/$$/oom_score_adj; sleep 0.1; done"] },
            { name: "set", exec: ["sh", "-c", "cat /proc/self/oom_score_adj; exec sleep 1000"], oomScoreAdj: 700 },
        ] }"#,
    );
    pilot.wait_for_line("set", "700");
    let ours: i32 =
        fs::read_to_string(format!("/proc/{}/oom_score_adj", pilot.pid())).unwrap().trim().parse().unwrap();
    let is_above = |line: &String| line.parse::<i32>().is_ok_and(|score| score > ours);
    pilot.eventually("it has a higher score", || pilot.lines_of("app").iter().any(is_above));
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_database_stops_after_the_application_that_its_migration_started() {
    let server = |name: &str, rest: &str| {
        format!(
            r#"{{ name: "{name}", {rest} exec: ["sh", "-c", "trap 'echo {name} >> {{dir}}/order; exit 0' TERM; \
               echo ready; while :; do sleep 0.02; done"] }}"#
        )
    };
    let pilot = Pilot::start(&format!(
        r#"{{ stopTimeout: "20s", jobs: [
            {},
            {{ name: "migrate", exec: "true", when: {{ source: "db", once: "healthy" }} }},
            {{ name: "seed", exec: "true", when: {{ source: "migrate", once: "exitSuccess" }} }},
            {},
        ] }}"#,
        server("db", r#"health: { exec: "true", interval: "50ms", timeout: "10s" },"#),
        server("app", r#"when: { source: "seed", once: "exitSuccess" },"#),
    ));
    pilot.wait_for_line("app", "ready");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.lines("order"), ["app", "db"]);
}

#[test]
fn a_daemon_whose_first_thread_has_ended_is_found_at_the_end() {
    if !has_programs(&["python3"]) {
        return;
    }
    // It hides whose it is, and runs on in a thread.
    let daemon = "import ctypes, os, threading, time\n\
        os.setsid()\n\
        threading.Thread(target=time.sleep, args=(1000,)).start()\n\
        open('{dir}/ready', 'w').write(str(os.getpid()))\n\
        ctypes.CDLL(None).pthread_exit(None)\n";
    let config = r#"{ stopTimeout: "2s", jobs: [
        { name: "app", exec: ["sh", "-c", "env -u CONTAINERPILOT_JOB python3 {dir}/daemon.py & sleep 1000"] },
    ] }"#;
    for pid_one in [false, true] {
        if pid_one && !can_be_pid_one() {
            return;
        }
        let setup = Setup::new().file("daemon.py", daemon).config(config);
        let pilot = if pid_one { setup.as_pid_one() } else { setup }.start();
        pilot.eventually("it is ready", || !pilot.text("ready").is_empty());
        let began = Instant::now();
        assert_eq!(pilot.stop(), Exit::Code(0));
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        // Its environment cannot be read any more, so that it must be looked for by its number.
        if !pid_one {
            let daemon = pilot.text("ready").parse().unwrap();
            assert!(kill(Pid::from_raw(daemon), None).is_err(), "{daemon} survived");
        }
    }
}

#[test]
fn a_process_that_hangs_while_it_maps_a_file_holds_up_nobody_else() {
    if !has_programs(&["python3"]) || !is_root() || !can_be_pid_one() {
        return;
    }
    if !Path::new("/dev/fuse").exists() {
        return skip("this machine has no /dev/fuse");
    }
    let config = r#"{ stopTimeout: "5s", jobs: [
        { name: "files", exec: ["python3", "{dir}/hanging.py", "serve", "{dir}/files"], ready: { log: "^mounted$" } },
        { name: "app", exec: ["python3", "{dir}/hanging.py", "map", "{dir}/files/file"], after: ["files"] },
    ] }"#;
    let setup = Setup::new().file("hanging.py", include_str!("hardening/hanging_file.py")).config(config);
    fs::create_dir(setup.dir().join("files")).unwrap();
    let pilot = setup.as_pid_one().start();
    pilot.wait_for_event("app exitSuccess");
    pilot.tell(&["-ping"]);
    pilot.wait_for_event("app stopped");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_program_that_daemonises_is_told_and_its_daemon_ends_with_the_job() {
    // Each run waits for its own daemon.
    let script = "rm -f {dir}/ready; setsid sh -c 'echo $$ >> {dir}/daemons; echo > {dir}/ready; exec sleep 1000' & \
        while ! test -s {dir}/ready; do sleep 0.01; done";
    let pilot = Pilot::start(&format!(
        r#"{{ jobs: [{{ name: "app", exec: ["sh", "-c", "{script}"], restarts: 1 }}, {{ exec: "sleep 1000" }}] }}"#
    ));
    pilot.wait_for_event("app stopped");
    let daemons: Vec<i32> = pilot.lines("daemons").iter().map(|pid| pid.parse().unwrap()).collect();
    for daemon in daemons {
        assert!(kill(Pid::from_raw(daemon), None).is_err(), "{daemon} lives on");
    }
    pilot.wait_for_message("running in the background");
    pilot.wait_for_message("must stay in the foreground");
    let last = pilot.status_of("app")["lastExit"].to_string();
    assert!(last.contains("running in the background"), "{last}");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_server_that_hides_whose_it_is_in_the_background_ends_with_its_job() {
    if !has_programs(&["nginx"]) {
        return;
    }
    let port = free_port();
    let conf = format!(
        "pid {{dir}}/nginx.pid; error_log {{dir}}/error.log; events {{}} \
         http {{ access_log off; server {{ listen 127.0.0.1:{port}; }} }}"
    );
    let config = format!(
        r#"{{ jobs: [
            {{
                name: "web",
                exec: "nginx -p {{dir}} -c {{dir}}/nginx.conf",
                restarts: "unlimited",
                backoff: {{ max: "200ms" }},
                health: {{ tcp: "127.0.0.1:{port}", interval: "100ms" }},
            }},
            {{ exec: "sleep 1000" }},
        ] }}"#
    );
    let pilot = Setup::new().file("nginx.conf", &conf).config(&config).start();
    // Each run finds the port free again.
    for run in 1..=3 {
        pilot.wait_for_events("web exitSuccess", run);
    }
    pilot.wait_for_message("nginx (pid");
    assert!(!pilot.text("error.log").contains("Address already in use"), "{}", pilot.text("error.log"));
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn the_first_thing_in_main_is_to_hold_signals() {
    let main = include_str!("../../src/main.rs").split("fn main()").nth(1).unwrap();
    let (hold, run) = (main.find("hold_signals()").unwrap(), main.find("cli::run").unwrap());
    assert!(hold < run && !main[..hold].contains("let "));
}

#[test]
fn a_start_an_end_and_a_kill_are_told_at_info() {
    let deaf = "trap '' TERM; echo ready; while :; do sleep 0.02; done";
    let config = format!(
        r#"{{ logging: {{ format: "json" }}, stopTimeout: "20s", jobs: [
            {{ name: "again", exec: "true", restarts: 2 }},
            {{ name: "deaf", exec: ["sh", "-c", "{deaf}"], killTimeout: "200ms" }},
            {{ name: "later", exec: ["sh", "-c", "{deaf}"] }},
        ] }}"#
    );
    let pilot = Pilot::start(&config);
    pilot.wait_for_line("deaf", "ready");
    pilot.wait_for_line("later", "ready");
    let of = |job: &str, text: &str| {
        let of_job = |record: &&support::Record| record.job == job && record.message.starts_with(text);
        pilot.log().records().iter().filter(of_job).count()
    };
    pilot.eventually("both runs are told", || {
        of("again", "started") == 3 && of("again", "exited with status 0") == 3
    });
    let record = pilot.log().records().into_iter().find(|record| record.message.starts_with("restarts in"));
    assert_ne!(record.unwrap().pid, i64::from(pilot.pid()), "the pid is the job's");
    pilot.signal(Signal::SIGTERM);
    pilot.wait_for_message("did not end within 200ms of SIGTERM: it is killed");
    pilot.signal_after(Duration::from_millis(300), Signal::SIGTERM);
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert_eq!(of("later", "is killed: its time to stop is over"), 1);
}

#[test]
fn a_job_of_another_user_can_open_its_own_output() {
    if !is_root() {
        return;
    }
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [
            { name: "app", user: "nobody", exec: ["sh", "-c", "echo out > /dev/stdout; echo err > /dev/stderr"] },
        ] }"#,
    );
    assert_eq!(exit, Exit::Code(0), "{}", pilot.log().text());
    let mut lines = pilot.lines_of("app");
    lines.sort();
    assert_eq!(lines, ["err", "out"]);
}

#[test]
fn a_reload_that_is_given_up_has_not_switched_the_log() {
    let pilot = Pilot::start(
        r#"{ stopTimeout: "500ms", logging: { format: "json", level: "DEBUG" }, jobs: [
            { name: "app", exec: ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.02; done"] },
        ] }"#,
    );
    pilot.wait_for_line("app", "ready");
    pilot.edit(r#"level: "DEBUG" }"#, r#"level: "DEBUG", output: "{dir}/other.log" }"#);
    pilot.edit("{dir}", pilot.dir().to_str().unwrap());
    pilot.edit("echo ready", "echo changed");
    pilot.signal(Signal::SIGHUP);
    // It waits for the stubborn process; the shutdown comes in between.
    pilot.wait_for_event("app stopping");
    assert_eq!(pilot.stop(), Exit::Code(0));
    pilot.wait_for_message("shutdown took");
    assert_eq!(pilot.text("other.log"), "");
}

#[test]
fn an_essential_job_that_waited_in_vain_does_not_exit_with_the_status_of_a_job_that_was_stopped() {
    let (exit, _) = Pilot::run(
        r#"{ jobs: [
            { name: "db", exec: "sleep 1000", health: { exec: "false", interval: "10s" } },
            { name: "app", exec: "true", essential: true, when: { source: "db", once: "healthy", timeout: "200ms" } },
        ] }"#,
    );
    assert_eq!(exit, Exit::Code(1));
}
