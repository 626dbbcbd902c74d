//! The end of processes: every child is waited for, whoever started it; what is left of a job's group ends before
//! the job goes on; nothing outlives the program. Each as an ordinary process and as process 1.

use std::fs;

use crate::support::bare::{Bare, open_gate};
use crate::support::needs::{can_be_pid_one, skip};
use crate::support::{Exit, Pilot, Record, Setup, children, state, zombies};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn event(pilot: &Pilot, event: &str) -> Record {
    pilot.wait_for_record(event, |record| record.event() == Some(event))
}

#[test]
fn a_process_in_the_group_of_another_job_lives_on_whatever_it_is_called() {
    let config = r#"{ jobs: [
        { name: "b", exec: ["sh", "-c", "(env -i /bin/sh -c 'echo $$ > {dir}/pid; while :; do /bin/sleep 0.1; done' &); exec sleep 1000"] },
        { name: "a", exec: ["sh", "-c", "true"], when: { interval: "200ms", startup: false } },
    ] }"#;
    Pilot::in_both_ways(config, |pilot| {
        pilot.eventually("a has run for longer than what is left of it has", || {
            pilot.status_of("a")["restarts"].as_u64().unwrap_or_default() >= 10
        });
        let pid: i32 = fs::read_to_string(pilot.path("pid")).unwrap().trim().parse().unwrap();
        assert!(kill(Pid::from_raw(pid), None).is_ok(), "it lives");
        assert_eq!(pilot.count("in the background"), 0);
        assert_eq!(pilot.stop(), Exit::Code(0));
    });
}

#[test]
fn a_thousand_orphans_leave_no_zombie_and_no_exit_status_is_lost_meanwhile() {
    // Each orphan waits at the gate, so that all of them end at once.
    let script = "mkfifo {dir}/gate; i=0; \
        while [ $i -lt 1000 ]; do ( read _ < {dir}/gate & ); i=$((i+1)); done; exec sleep 1000";
    let config = format!(
        r#"{{ jobs: [
            {{ name: "parent", exec: ["sh", "-c", "{script}"] }},
            {{ name: "good", exec: "true", restarts: 150, backoff: {{ max: "0s" }} }},
            {{ name: "bad", exec: "false", restarts: 150, backoff: {{ max: "0s" }} }},
        ] }}"#
    );
    Pilot::in_both_ways(&config, |pilot| {
        pilot.eventually("a thousand orphans are ours", || children(pilot.pid()).len() > 1000);
        // Again and again: one that comes late finds the gate closed.
        let left = || {
            let _ = open_gate(&pilot.path("gate"));
            children(pilot.pid()).len()
        };
        pilot.eventually("all orphans are gone", || left() <= 3);
        pilot.wait_for_event("good stopped");
        pilot.wait_for_event("bad stopped");
        pilot.eventually("one process is left", || left() == 1);
        assert_eq!(zombies(pilot.pid()), [0; 0]);
        let expected =
            |code: &'static str| [["ready", code].repeat(151), vec!["stopping", "stopped"]].concat();
        assert_eq!(pilot.events_of("good"), expected("exitSuccess"));
        assert_eq!(pilot.events_of("bad"), expected("exitFailed"));
        assert_eq!(pilot.events_of("parent"), ["ready"]);
        assert_eq!(pilot.stop(), Exit::Code(0));
    });
}

#[test]
fn two_thousand_processes_of_a_group_end_with_its_leader() {
    let script =
        "i=0; while [ $i -lt 2000 ]; do read _ < {dir}/gate & i=$((i+1)); done; read _ < {dir}/end; exit 7";
    let config = format!(
        r#"{{ jobs: [
            {{ name: "crowd", exec: ["sh", "-c", "mkfifo {{dir}}/gate {{dir}}/end; {script}"] }},
            {{ name: "other", exec: "sleep 1000" }},
        ] }}"#
    );
    Pilot::in_both_ways(&config, |pilot| {
        pilot.eventually("the crowd is there", || open_gate(&pilot.path("end")).is_ok());
        pilot.wait_for_event("crowd stopped");
        pilot.wait_for_message("exited with status 7");
        let living = |pid: &i32| state(*pid).is_some_and(|state| !matches!(state, 'Z' | 'X'));
        let others: Vec<i32> = children(pilot.pid()).into_iter().filter(living).collect();
        assert_eq!(others.len(), 1, "only the other job: {others:?}");
        pilot.eventually("all are reaped", || children(pilot.pid()) == others);
        assert_eq!(pilot.events_of("crowd"), ["ready", "exitFailed", "stopping", "stopped"]);
        assert_eq!(pilot.stop(), Exit::Code(0));
    });
}

#[test]
fn a_number_that_comes_again_belongs_to_another_process() {
    // Where the kernel lets one say which number comes next.
    let last = "/proc/sys/kernel/ns_last_pid";
    if !std::path::Path::new(last).exists() {
        return skip("this kernel lets nobody choose the next process number");
    }
    if !can_be_pid_one() {
        return;
    }
    let config = format!(
        r#"{{ jobs: [
            {{ name: "first", exec: ["sh", "-c", "echo $$ > {{dir}}/first; exit 3"] }},
            {{ name: "rewind", exec: ["sh", "-c", "read number < {{dir}}/first; echo $((number - 1)) > {last}"],
               when: {{ source: "first", once: "stopped" }} }},
            {{ name: "second", exec: ["sh", "-c", "echo $$ > {{dir}}/second; exit 5"],
               when: {{ source: "rewind", once: "exitSuccess" }} }},
            {{ name: "other", exec: "sleep 1000" }},
        ] }}"#
    );
    let pilot = Setup::new().as_pid_one().config(&config).start();
    pilot.wait_for_event("second stopped");
    assert_eq!(pilot.text("first"), pilot.text("second"), "the same number");
    pilot.wait_for_message("exited with status 5");
    for job in ["first", "second"] {
        assert_eq!(pilot.events_of(job), ["ready", "exitFailed", "stopping", "stopped"], "{job}");
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn what_is_left_of_a_group_ends_before_the_next_run() {
    let script = "for pid in $(cat {dir}/left); do { read -r _ _ state _ < /proc/$pid/stat && [ $state != Z ] && \
        echo $pid lives; } 2> /dev/null; done; sleep 1000 & echo $! >> {dir}/left";
    let config = format!(
        r#"{{ jobs: [{{ name: "app", exec: ["sh", "-c", "{script}"], restarts: 20, backoff: {{ max: "0s" }} }}] }}"#
    );
    let pilot = Setup::new().file("left", "").config(&config).start();
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert_eq!(pilot.count("app exitSuccess"), 21);
    assert_eq!(pilot.lines("left").len(), 21);
    assert_eq!(pilot.lines_of("app"), [""; 0]);
}

#[test]
fn what_is_left_of_a_group_and_ignores_sigterm_is_killed_after_a_second() {
    // The leader goes when the other one ignores the signal.
    let script = "rm -f {dir}/deaf; mkfifo {dir}/deaf; \
        (trap '' TERM; echo > {dir}/deaf; exec sleep 1000) & read _ < {dir}/deaf";
    let config = format!(r#"{{ jobs: [{{ name: "app", exec: ["sh", "-c", "{script}"], restarts: 1 }}] }}"#);
    let (exit, pilot) = Pilot::run(&config);
    assert_eq!(exit, Exit::Code(0));
    let records = pilot.log().records();
    let of = |message: &str| -> Vec<&Record> {
        records.iter().filter(|record| record.job == "app" && record.message == message).collect()
    };
    let (starts, ends) = (of("started"), of("exited with status 0"));
    assert_eq!((starts.len(), ends.len()), (2, 2));
    let gap = starts[1].seconds_after(ends[0]);
    assert!((0.5..10.0).contains(&gap), "{gap} s between the runs");
    let gap = event(&pilot, "app stopped").seconds_after(ends[1]);
    assert!((0.5..10.0).contains(&gap), "{gap} s until stopped");
}

#[test]
fn stopped_is_told_when_the_whole_group_is_gone() {
    let app = "trap 'exit 0' TERM; mkfifo {dir}/ready; \
        (trap '' TERM; echo > {dir}/ready; exec sleep 1000) & echo $! > {dir}/deaf; \
        read _ < {dir}/ready; echo ready; wait; wait";
    let config = format!(
        r#"{{ jobs: [
            {{ name: "app", exec: ["sh", "-c", "{app}"] }},
            {{
                name: "witness",
                exec: ["sh", "-c", "kill -0 $(cat {{dir}}/deaf) 2> /dev/null && echo lives || echo gone"],
                when: {{ source: "app", once: "stopped" }},
            }},
        ] }}"#
    );
    let pilot = Pilot::start(&config);
    pilot.wait_for_line("app", "ready");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.lines_of("witness"), ["gone"]);
    pilot.assert_order(&["app stopping", "app exitSuccess", "app stopped", "witness exitSuccess"]);
}

#[test]
fn a_process_that_left_its_group_ends_with_its_job() {
    for deaf in ["", "trap '' TERM;"] {
        let script = format!(
            "mkfifo {{dir}}/left; setsid sh -c \\\"{deaf} echo \\\\$\\\\$ > {{dir}}/far; echo > {{dir}}/left; \
             sleep 1000; :\\\" & read _ < {{dir}}/left"
        );
        let config = format!(
            r#"{{ jobs: [
                {{ name: "app", exec: ["sh", "-c", "{script}"] }},
                {{ name: "other", exec: "sleep 1000" }},
            ] }}"#
        );
        let pilot = Pilot::start(&config);
        pilot.wait_for_event("app stopped");
        let far: i32 = pilot.text("far").trim().parse().unwrap();
        assert!(!pilot.processes().contains(&far), "stopped is told when nothing of it is left");
        let told = format!("(pid {far}) running in the background");
        assert!(pilot.log().text().contains(&told), "{}", pilot.log().text());
        assert_eq!(pilot.stop(), Exit::Code(0));
    }
}

/// A job whose leader is stopped; its process.
fn stopped_leader(pilot: &Pilot) -> Pid {
    pilot.wait_for_line("app", "ready");
    let leader = Pid::from_raw(pilot.text("pid").trim().parse().unwrap());
    kill(leader, Signal::SIGSTOP).unwrap();
    pilot.eventually("the leader is stopped", || state(leader.as_raw()) == Some('T'));
    leader
}

const STOPPABLE: &str =
    r#"name: "app", exec: ["sh", "-c", "echo $$ > {dir}/pid; echo ready; exec sleep 1000"]"#;

#[test]
fn a_stopped_process_holds_up_nobody_and_ends_when_told_to() {
    let pilot = Pilot::start(&format!(
        r#"{{ stopTimeout: "30s", jobs: [
            {{ {STOPPABLE} }},
            {{ name: "ticks", exec: ["sh", "-c", "echo >> {{dir}}/ticks"], when: {{ interval: "20ms" }}, timeout: "10s" }},
        ] }}"#
    ));
    let leader = stopped_leader(&pilot);
    let ticks = pilot.lines("ticks").len();
    pilot.wait_for_lines("ticks", ticks + 10);
    assert_eq!(pilot.events_of("app"), ["ready"]);
    // SIGTERM reaches it because SIGCONT follows.
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(state(leader.as_raw()), None);
    pilot.assert_order(&["app stopping", "app exitFailed", "app stopped"]);
    let (began, ended) = (event(&pilot, "global shutdown"), event(&pilot, "app stopped"));
    let took = ended.seconds_after(&began);
    assert!(took < 10.0, "{took} s");
}

#[test]
fn a_stopped_process_goes_on_where_it_was() {
    let pilot = Pilot::start(&format!("{{ jobs: [{{ {STOPPABLE} }}] }}"));
    let leader = stopped_leader(&pilot);
    kill(leader, Signal::SIGCONT).unwrap();
    pilot.eventually("it sleeps again", || state(leader.as_raw()) == Some('S'));
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.events_of("app"), ["ready", "stopping", "exitFailed", "stopped"]);
}

#[test]
fn a_stopped_process_is_killed_when_its_run_takes_too_long() {
    let pilot = Pilot::start(&format!(r#"{{ jobs: [{{ {STOPPABLE}, timeout: "1s" }}] }}"#));
    stopped_leader(&pilot);
    assert_eq!(pilot.wait_exit(), Exit::Code(137));
    assert_eq!(pilot.events_of("app"), ["ready", "exitFailed", "stopping", "stopped"]);
}

#[test]
fn the_children_that_we_begin_with_are_waited_for() {
    // The shell becomes the program: its child is ours, and ends when the gate opens.
    let config = r#"{ jobs: [{ name: "app", exec: "sleep 1000" }] }"#;
    let words = ["sh", "-c", "mkfifo {dir}/gate; read _ < {dir}/gate & exec {program} -config {config}"];
    let mut bare = Bare::start_in(&words, config, |_| {});
    bare.eventually("the job and the child are there", || children(bare.pid()).len() == 2);
    bare.eventually("the program runs", || {
        fs::read_to_string(format!("/proc/{}/comm", bare.pid())).is_ok_and(|name| name == "containerpilot\n")
    });
    bare.eventually("the gate opens", || open_gate(&bare.path("gate")).is_ok());
    bare.eventually("the child is gone", || children(bare.pid()).len() == 1);
    assert_eq!(bare.stop(), Exit::Code(0));
}
