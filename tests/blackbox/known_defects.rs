//! What users of ContainerPilot and its peers met, as far as no other file shows it: each named after what must be
//! true here.

use std::fs;

use crate::support::needs::{can_be_pid_one, is_root};
use crate::support::{DEADLINE, Exit, Pilot, Setup, alone, zombies};

/// Makes 1,000 orphans, each of which ends at once or a little later.
const ORPHANS: &str = r#"{ jobs: [{ name: "app",
    exec: ["sh", "-c", "i=0; while test $i -lt 500; do i=$((i+1)); (true & sleep 0.2 &); done; echo ready; exec sleep 1000"] }] }"#;

fn assert_no_zombies(pilot: &Pilot) {
    pilot.wait_for_line("app", "ready");
    pilot.eventually("the orphans have ended, and no zombie is left", || {
        pilot.processes().len() <= 3 && zombies(pilot.pid()).is_empty()
    });
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.events_of("app"), ["ready", "stopping", "exitFailed", "stopped"]);
}

#[test]
fn a_thousand_orphans_leave_no_zombie() {
    assert_no_zombies(&Pilot::start(ORPHANS));
}

#[test]
fn a_thousand_orphans_of_process_1_leave_no_zombie() {
    if can_be_pid_one() {
        assert_no_zombies(&Setup::new().config(ORPHANS).as_pid_one().start());
    }
}

#[test]
fn no_status_is_lost_when_many_processes_end_at_once() {
    let jobs: Vec<String> = (0..100)
        .map(|number| {
            format!(
                r#"{{ name: "job{number}", exec: ["sh", "-c", "until test -e {{dir}}/go; do sleep 0.1; done; exit {number}"] }}"#
            )
        })
        .collect();
    let pilot = Pilot::start(&format!("{{ jobs: [{}] }}", jobs.join(", ")));
    fs::write(pilot.path("go"), "").unwrap();
    assert!(matches!(pilot.wait_exit(), Exit::Code(1..100)));
    let records = pilot.log().records();
    for number in 0..100 {
        let told = format!("exited with status {number}");
        let count = records.iter().filter(|r| r.job == format!("job{number}") && r.message == told).count();
        assert_eq!(count, 1, "job{number} in\n{}", pilot.log().text());
    }
}

#[test]
fn the_end_of_a_thousand_jobs_comes() {
    let _alone = alone();
    let jobs: Vec<String> =
        (0..1000).map(|number| format!(r#"{{ name: "job{number}", exec: "sleep 1000" }}"#)).collect();
    // In a file: of what we read ourselves, a quick program would have to leave out what we are too slow for.
    let config = format!(
        r#"{{ stopTimeout: "25s", logging: {{ output: "{{dir}}/log", format: "json", level: "DEBUG" }},
              jobs: [{}, {{ name: "last", exec: "echo ready" }}] }}"#,
        jobs.join(", ")
    );
    let pilot = Pilot::start(&config);
    pilot.within(4 * DEADLINE, "the last job has run", || pilot.text("log").contains(": last exitSuccess"));
    assert_eq!(pilot.stop(), Exit::Code(0));
    let stopped = pilot.lines("log").iter().filter(|line| line.contains(r#" stopped","#)).count();
    assert_eq!(stopped, 1001);
}

#[test]
fn an_exit_is_noticed_although_a_daemon_holds_the_output() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "app", exec: ["sh", "-c", "setsid sleep 1000 & echo done"] },
            { name: "next", exec: "sleep 1000", when: { source: "app", once: "exitSuccess" } },
        ] }"#,
    );
    pilot.wait_for_event("app stopped");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.lines_of("app"), ["done"]);
}

#[test]
fn a_very_long_line_is_split_and_the_job_lives_on() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [{ name: "app", exec: ["sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x; echo; echo after"] }] }"#,
    );
    assert_eq!(exit, Exit::Code(0));
    let lines = pilot.lines_of("app");
    let letters: usize = lines.iter().map(|line| line.matches('x').count()).sum();
    assert_eq!((letters, lines.last().map(String::as_str)), (200_000, Some("after")));
    assert!(lines.len() > 3);
}

#[test]
fn a_last_line_without_newline_is_logged_before_the_exit_is_told() {
    let (_, pilot) = Pilot::run(r#"{ jobs: [{ name: "app", exec: ["printf", "first\nlast"] }] }"#);
    assert_eq!(pilot.lines_of("app"), ["first", "last"]);
    let records = pilot.log().records();
    let at = |wanted: &str| records.iter().position(|record| record.message.ends_with(wanted)).unwrap();
    assert!(at("last") < at("app exitSuccess"));
}

#[test]
fn no_line_is_lost_torn_or_out_of_order_under_load() {
    let jobs: Vec<String> = (0..3)
        .map(|number| format!(r#"{{ name: "job{number}", exec: "seq 1 15000", restarts: 1 }}"#))
        .collect();
    let (exit, pilot) = Pilot::run(&format!("{{ jobs: [{}] }}", jobs.join(", ")));
    assert_eq!(exit, Exit::Code(0));
    let once: Vec<String> = (1..=15_000).map(|number| number.to_string()).collect();
    let twice = [once.clone(), once].concat();
    for number in 0..3 {
        let lines = pilot.lines_of(&format!("job{number}"));
        let differs = lines.iter().zip(&twice).position(|(line, wanted)| line != wanted);
        assert_eq!((differs, lines.len()), (None, twice.len()), "job{number}");
    }
}

#[test]
fn output_that_nobody_reads_stalls_the_writer_and_nobody_else() {
    let pilot = Setup::new()
        .config(
            r#"{ stopTimeout: "20s", jobs: [
                { name: "writer", exec: ["sh", "-c", "trap 'touch {dir}/told; exit 0' TERM; yes"] },
                { name: "task", exec: ["sh", "-c", "echo x >> {dir}/ticks"], when: { interval: "10ms" }, timeout: "10s" },
            ] }"#,
        )
        .with_unread_output()
        .start();
    pilot.wait_for_lines("ticks", 100);
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(pilot.path("told").exists());
}

#[test]
fn a_missing_program_in_a_loop_does_not_flood_the_log() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: "/no/such/program", restarts: "unlimited", backoff: { max: "0s" } }] }"#,
    );
    pilot.wait_for_events("app exitFailed", 500);
    pilot.wait_for_message(" times)");
    assert_eq!(pilot.stop(), Exit::Code(0));
    let records = pilot.log().records();
    let errors: Vec<_> = records.iter().filter(|record| record.level == "error").collect();
    let seconds = errors.last().unwrap().seconds_after(errors[0]);
    // Five and their summary each second; on a busy machine the first or the last second may seem shorter.
    assert!(errors.len() as f64 <= 6.0 * (seconds + 2.0), "{} errors in {seconds} s", errors.len());
}

#[test]
fn a_service_may_have_a_name_of_one_letter_and_needs_no_consul() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [{ name: "a", exec: "echo hello", port: 80, interfaces: "static:192.0.2.1",
              health: { exec: "true", interval: 1, ttl: 5 } }] }"#,
    );
    assert_eq!(exit, Exit::Code(0));
    assert_eq!(pilot.lines_of("a"), ["hello"]);
}

#[test]
fn a_folder_of_configurations_is_one_configuration() {
    let setup = Setup::new();
    fs::create_dir(setup.dir().join("conf.d")).unwrap();
    let pilot = setup
        .file(
            "conf.d/1.json5",
            r#"{ jobs: [{ name: "a", exec: "echo first" }, { name: "b", exec: "echo b" }] }"#,
        )
        .file(
            "conf.d/2.json5",
            r#"{ jobs: [{ name: "a", exec: "echo second" }], control: { socket: "{dir}/s" } }"#,
        )
        .arguments(&["-config", "{dir}/conf.d"])
        .start();
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    let log = pilot.log().text();
    assert!(log.contains(" second") && log.contains(" b"), "{log}");
    assert!(!log.contains(" first"), "{log}");
}

#[test]
fn a_value_with_an_equals_sign_reaches_the_job_whole() {
    let config = r#"{ jobs: [{ name: "app", exec: ["echo", "{{ .OPTIONS }}"] }] }"#;
    let pilot = Setup::new().config(config).env("OPTIONS", "a=b=c").start();
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert_eq!(pilot.lines_of("app"), ["a=b=c"]);
}

#[test]
fn several_jobs_can_prepare_for_one() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [
            { name: "app", exec: "cat {dir}/one {dir}/two",
              when: { all: [{ source: "one", once: "exitSuccess" }, { source: "two", once: "exitSuccess" }] } },
            { name: "one", exec: ["sh", "-c", "sleep 0.2; echo 1 > {dir}/one"] },
            { name: "two", exec: ["sh", "-c", "echo 2 > {dir}/two"] },
        ] }"#,
    );
    assert_eq!(exit, Exit::Code(0));
    assert_eq!(pilot.lines_of("app"), ["1", "2"]);
}

#[test]
fn raw_output_is_passed_on_untouched() {
    let (_, pilot) =
        Pilot::run(r#"{ jobs: [{ name: "app", exec: "printf 'as it is\\n'", logging: { raw: true } }] }"#);
    assert!(pilot.log().text().lines().any(|line| line == "as it is"), "{}", pilot.log().text());
}

#[test]
fn a_job_can_run_as_another_user_in_another_folder() {
    if !is_root() {
        return;
    }
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [{ name: "app", exec: ["sh", "-c", "id -u; id -g; pwd; umask"], user: 65534, group: 65534, cwd: "/", umask: "027" }] }"#,
    );
    assert_eq!(exit, Exit::Code(0));
    assert_eq!(pilot.lines_of("app"), ["65534", "65534", "/", "0027"]);
}
