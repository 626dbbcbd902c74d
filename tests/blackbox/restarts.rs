//! How often a job runs: restarts, their delays, run timeouts, and events that come while it runs.

use std::fs;

use crate::support::{Exit, Pilot};
use nix::sys::signal::Signal;

/// What lies between times that follow each other.
fn gaps(times: &[u64]) -> Vec<u64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn a_job_runs_once_and_then_as_often_as_it_has_restarts() {
    for (restarts, runs) in
        [("", 1), (r#"restarts: "never","#, 1), ("restarts: 0,", 1), (r#"restarts: "3","#, 4)]
    {
        for (program, event) in [("true", "app exitSuccess"), ("false", "app exitFailed")] {
            let (_, pilot) = Pilot::run(&format!(
                r#"{{ jobs: [{{ name: "app", {restarts} exec: "{program}", backoff: {{ max: "0s" }} }}] }}"#
            ));
            assert_eq!(pilot.count(event), runs, "{restarts} {program}");
            assert_eq!(pilot.count("app stopped"), 1);
        }
    }
}

#[test]
fn unlimited_restarts_end_only_with_the_program() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: "false", restarts: "unlimited", backoff: { max: "0s" } }] }"#,
    );
    pilot.wait_for_events("app exitFailed", 100);
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.events().last().map(String::as_str), Some("app stopped"));
}

#[test]
fn a_crash_loop_is_slowed_more_and_more() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", restarts: "unlimited", backoff: { jitter: 0 },
              exec: ["sh", "-c", "date +%s%N >> {dir}/runs; exit 1"] }] }"#,
    );
    pilot.wait_for_lines("runs", 5);
    let gaps = gaps(&pilot.times("runs"));
    for (gap, least) in gaps.iter().skip(1).zip([50, 120, 280]) {
        assert!(*gap >= least, "{gaps:?}");
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_missing_program_is_slowed_too_and_tells_the_systems_reason() {
    let pilot =
        Pilot::start(r#"{ jobs: [{ name: "app", restarts: "unlimited", exec: "/no/such/program" }] }"#);
    pilot.wait_for_events("app exitFailed", 4);
    assert_eq!(pilot.stop(), Exit::Code(0));
    let records = pilot.log().records();
    let delays = records.iter().filter(|record| record.message.starts_with("restarts in")).count();
    assert!(delays >= 2, "{records:?}");
    assert!(records.iter().any(|record| record.level == "error"
        && record.message.contains("/no/such/program")
        && record.message.contains("No such file or directory")));
}

#[test]
fn a_long_run_starts_the_delays_over() {
    let (_, pilot) = Pilot::run(
        r#"{ jobs: [{ name: "app", restarts: 4, backoff: { resetAfter: "1s" },
              exec: ["sh", "-c", "echo run >> {dir}/runs; test $(wc -l < {dir}/runs) != 4 || sleep 1.1"] }] }"#,
    );
    assert_eq!(pilot.lines("runs").len(), 5);
    let records = pilot.log().records();
    let delays = records.iter().filter(|record| record.message.starts_with("restarts in")).count();
    assert_eq!(delays, 2, "the runs 3 and 4 are delayed; 2 is the first restart, 5 follows a long run");
}

#[test]
fn a_run_that_takes_too_long_is_killed_with_all_its_children() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [{ name: "app", timeout: "300ms",
              exec: ["sh", "-c", "trap '' TERM; sleep 1000 & sleep 1000; echo survived"] }] }"#,
    );
    assert_eq!(exit, Exit::Code(128 + Signal::SIGKILL as i32));
    assert_eq!(pilot.events_of("app"), ["ready", "exitFailed", "stopping", "stopped"]);
    assert_eq!(pilot.lines_of("app"), [""; 0]);
}

#[test]
fn every_restart_has_the_whole_timeout() {
    let (_, pilot) = Pilot::run(
        r#"{ jobs: [{ name: "app", timeout: "500ms", restarts: 2, backoff: { max: "0s" },
              exec: ["sh", "-c", "date +%s%N >> {dir}/runs; exec sleep 1000"] }] }"#,
    );
    assert_eq!(pilot.count("app exitFailed"), 3);
    let gaps = gaps(&pilot.times("runs"));
    assert!(gaps.iter().all(|gap| *gap >= 250), "{gaps:?}");
}

#[test]
fn a_group_is_gone_before_its_job_runs_again() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [{ name: "app", restarts: 2, backoff: { max: "0s" },
              exec: ["sh", "-c", "if test -e {dir}/pid && kill -0 $(cat {dir}/pid); then exit 9; fi; sleep 1000 & echo $! > {dir}/pid"] }] }"#,
    );
    assert_eq!((exit, pilot.count("app exitSuccess")), (Exit::Code(0), 3));
}

#[test]
fn events_while_it_runs_start_no_second_process_and_none_is_lost() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", when: { source: "SIGUSR2" },
              exec: ["sh", "-c", "mkdir {dir}/alone || echo overlap; cat {dir}/round; rmdir {dir}/alone"] }] }"#,
    );
    pilot.wait_for_event("global startup");
    for round in 0..20 {
        fs::write(pilot.path("next"), format!("round {round}\n")).unwrap();
        fs::rename(pilot.path("next"), pilot.path("round")).unwrap();
        for _ in 0..50 {
            pilot.signal(Signal::SIGUSR2);
        }
        pilot.wait_for_line("app", &format!("round {round}"));
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(!pilot.lines_of("app").iter().any(|line| line.contains("overlap")));
    assert!(pilot.events_of("app").len() < 1000, "events that come while it runs collapse into one run");
}

#[test]
fn each_event_gives_the_whole_number_of_restarts() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", when: { source: "SIGUSR2" }, restarts: 2, exec: "false", backoff: { max: "0s" } }] }"#,
    );
    pilot.wait_for_event("global startup");
    for round in 1..=3 {
        pilot.signal(Signal::SIGUSR2);
        pilot.wait_for_events("app exitFailed", 3 * round);
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.events_of("app").iter().filter(|code| *code == "exitFailed").count(), 9);
}
