//! Jobs that the clock starts: cron schedules, time zones, and intervals without a run at startup.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::support::http::get_port;
use crate::support::ports::free_port;
use crate::support::{Exit, Pilot, Setup};
use nix::sys::signal::Signal;

#[test]
fn a_job_runs_at_each_second_that_its_schedule_names_and_never_before() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", when: { cron: "*/2 * * * * *" }, exec: ["sh", "-c", "date +%s%N >> {dir}/runs"] }] }"#,
    );
    pilot.wait_for_lines("runs", 3);
    assert_eq!(pilot.stop(), Exit::Code(0));
    let seconds: Vec<u64> = pilot.times("runs").iter().map(|time| time / 1000).collect();
    let mut unique = seconds.clone();
    unique.dedup();
    assert_eq!(seconds, unique, "none twice");
    // On a busy machine a run may be late, but none is early: of each pair of seconds there is one at most.
    let mut pairs: Vec<u64> = seconds.iter().map(|second| second / 2).collect();
    pairs.dedup();
    assert_eq!(pairs.len(), seconds.len(), "{seconds:?}");
}

#[test]
fn status_tells_the_next_run_in_utc_whatever_the_zone() {
    let pilot = Setup::new()
        .env("TZ", "Asia/Kathmandu")
        .config(
            r#"{ jobs: [
                { name: "kolkata", when: { cron: "0 3 * * *", timezone: "Asia/Kolkata" }, exec: "true" },
                { name: "local", when: { cron: "0 3 * * *", timezone: "local" }, exec: "true" },
                { name: "utc", when: { cron: "0 3 * * *" }, exec: "true" },
                { name: "hourly", when: { interval: "1h", startup: false }, exec: "true" },
                { name: "server", exec: "sleep 1000" },
            ] }"#,
        )
        .start();
    pilot.wait_for_event("global startup");
    pilot.eventually("the schedules have begun", || pilot.status_of("utc")["nextRun"].is_string());
    let next = |job: &str| pilot.status_of(job)["nextRun"].as_str().unwrap_or_default().to_owned();
    assert!(next("kolkata").ends_with("T21:30:00.000000000Z"), "{}", next("kolkata"));
    assert!(next("local").ends_with("T21:15:00.000000000Z"), "{}", next("local"));
    assert!(next("utc").ends_with("T03:00:00.000000000Z"), "{}", next("utc"));
    assert!(next("hourly").as_str() > pilot.status_of("hourly")["since"].as_str().unwrap());
    assert!(pilot.status_of("server")["nextRun"].is_null());
    let table = pilot.tell(&["when"]);
    assert!(table.contains("NEXT RUN") && table.contains("T21:30:00Z"), "{table}");
    pilot.tell(&["stop", "utc"]);
    pilot.wait_for_event("utc stopped");
    pilot.eventually("a stopped job has no next run", || pilot.status_of("utc")["nextRun"].is_null());
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.count("kolkata exitSuccess"), 0);
}

#[test]
fn a_run_that_is_due_while_the_last_one_lives_is_skipped_and_counted() {
    let port = free_port();
    let config = r#"{ telemetry: { port: PORT, interfaces: "static:127.0.0.1" }, jobs: [
        { name: "app", when: { cron: "* * * * * *" }, exec: ["sh", "-c", "echo run >> {dir}/runs; test -e {dir}/go || exec sleep 1000"] },
        { name: "server", exec: "sleep 1000" },
    ] }"#;
    let pilot = Pilot::start(&config.replace("PORT", &port.to_string()));
    pilot.wait_for_lines("runs", 1);
    let missed = || {
        let answer = get_port(port, "/metrics", "");
        answer
            .sample(r#"containerpilot_job_missed_runs_total{name="app"}"#)
            .map_or(0.0, |value| value.parse().unwrap())
    };
    pilot.eventually("two are skipped", || missed() >= 2.0);
    assert_eq!(pilot.lines("runs").len(), 1);
    assert!(!get_port(port, "/metrics", "").body.contains(r#"missed_runs_total{name="server"}"#));
    fs::write(pilot.path("go"), "").unwrap();
    pilot.tell(&["signal", "app", "SIGKILL"]);
    pilot.wait_for_lines("runs", 3);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

/// The timers of the clock on the wall that the program has, as the kernel describes them.
fn timers(pilot: &Pilot) -> Vec<String> {
    let folder = format!("/proc/{}/fd", pilot.pid());
    let is_timer = |name: &String| {
        fs::read_link(format!("{folder}/{name}"))
            .is_ok_and(|target| target.to_string_lossy().contains("[timerfd]"))
    };
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(is_timer)
        .map(|name| fs::read_to_string(format!("/proc/{}/fdinfo/{name}", pilot.pid())).unwrap())
        .collect()
}

#[test]
fn the_kernel_tells_of_a_clock_that_is_set_and_nothing_is_there_without_a_schedule() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", when: { cron: "@yearly" }, exec: "true" }, { name: "every", when: { interval: "1h" }, exec: "true" }] }"#,
    );
    pilot.eventually("there is a timer", || timers(&pilot).len() == 1);
    let timer = timers(&pilot).remove(0);
    // CLOCK_REALTIME; TFD_TIMER_ABSTIME and TFD_TIMER_CANCEL_ON_SET.
    assert!(timer.contains("clockid: 0\n") && timer.contains("settime flags: 03\n"), "{timer}");
    pilot.tell(&["stop", "app"]);
    pilot.eventually("it goes with the schedule", || timers(&pilot).is_empty());
    assert_eq!(pilot.stop(), Exit::Code(0));
    let pilot = Pilot::start(r#"{ jobs: [{ name: "every", when: { interval: "1h" }, exec: "true" }] }"#);
    pilot.wait_for_event("every exitSuccess");
    assert_eq!(timers(&pilot), [""; 0]);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_pause_is_followed_by_one_run_for_all_that_it_left_out() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", when: { cron: "* * * * * *", catchUp: true }, exec: ["sh", "-c", "date +%s%N >> {dir}/runs"] }] }"#,
    );
    pilot.wait_for_lines("runs", 1);
    pilot.signal(Signal::SIGSTOP);
    let began = SystemTime::now();
    pilot.eventually("some seconds have passed", || began.elapsed().unwrap() > Duration::from_secs(4));
    let before = pilot.lines("runs").len();
    pilot.signal(Signal::SIGCONT);
    pilot.wait_for_message("of its scheduled runs did not come");
    pilot.wait_for_lines("runs", before + 2);
    assert_eq!(pilot.stop(), Exit::Code(0));
    let times = pilot.times("runs");
    let resumed = began + Duration::from_secs(4);
    let resumed = u64::try_from(resumed.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let after: Vec<u64> = times.iter().filter(|time| **time >= resumed).map(|time| time / 1000).collect();
    let mut unique = after.clone();
    unique.dedup();
    assert!(after.len() - unique.len() <= 1, "the one that makes up, and one per second: {after:?}");
}

#[test]
fn an_interval_can_leave_out_the_run_at_startup_and_keeps_the_program_alive() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [{ name: "app", when: { interval: "300ms", startup: false }, restarts: 1,
              exec: ["sh", "-c", "date +%s%N >> {dir}/runs"] }] }"#,
    );
    assert_eq!((exit, pilot.count("app exitSuccess")), (Exit::Code(0), 2));
    let (startup, first) = (pilot.at("global startup"), pilot.at("app exitSuccess"));
    assert!(startup < first);
    let times = pilot.times("runs");
    assert!(times[1] - times[0] >= 150, "{times:?}");
}

#[test]
fn a_reload_begins_a_changed_schedule_and_leaves_others_alone() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "changed", when: { cron: "@yearly" }, exec: ["sh", "-c", "echo run >> {dir}/runs"] },
            { name: "same", when: { cron: "@yearly" }, exec: "true" },
        ] }"#,
    );
    pilot.eventually("both have a timer", || timers(&pilot).len() == 2);
    let since = pilot.status_of("same")["since"].clone();
    pilot.edit(
        r#"{ name: "changed", when: { cron: "@yearly" }"#,
        r#"{ name: "changed", when: { cron: "* * * * * *" }"#,
    );
    pilot.tell(&["-reload"]);
    pilot.wait_for_lines("runs", 2);
    assert_eq!(pilot.status_of("same")["since"], since);
    assert_eq!(timers(&pilot).len(), 2);
    assert_eq!(pilot.stop(), Exit::Code(0));
}
