//! Many jobs and many restarts: all of them run, nothing wakes up while nothing is due, and nothing grows.
//!
//! Tests run in the order of their names. These take longest, so the name of this file is one of the first.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::bare::{Bare, open_gate};
use crate::support::{Exit, alone, children, open_files, proc_status, resident_kib};

/// How long many processes may take on a busy machine. Only a hang takes longer.
const LONG: Duration = Duration::from_secs(600);

/// How often any thread of a process has been taken from or given up its core.
fn switches(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .map(|task| {
            let thread = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
            proc_status(thread, "voluntary_ctxt_switches") + proc_status(thread, "nonvoluntary_ctxt_switches")
        })
        .sum()
}

/// How often that happens within a time.
fn switches_within(pid: i32, time: Duration) -> u64 {
    let before = switches(pid);
    thread::sleep(time);
    // A thread that helped while starts were slow may have ended meanwhile, and its count with it.
    switches(pid).saturating_sub(before)
}

/// What must not grow.
#[derive(Debug, Clone, Copy)]
struct Size {
    resident_kib: u64,
    descriptors: usize,
    threads: u64,
}

fn size(pid: i32) -> Size {
    let (resident_kib, descriptors) = (resident_kib(pid), open_files(pid));
    Size { resident_kib, descriptors, threads: proc_status(pid, "Threads") }
}

#[test]
fn a_thousand_jobs_start_sleep_without_waking_up_and_stop() {
    let _alone = alone();
    let jobs: Vec<String> =
        (0..1000).map(|number| format!(r#"{{ name: "j{number}", exec: "sleep 1000" }}"#)).collect();
    let began = Instant::now();
    let mut bare = Bare::start(&format!(r#"{{ stopTimeout: "20s", jobs: [{}] }}"#, jobs.join(",")), |_| {});
    bare.within(LONG, "a thousand jobs run", || children(bare.pid()).len() == 1000);
    eprintln!("1000 jobs started in {:?}, {:?}", began.elapsed(), size(bare.pid()));
    // On a busy machine it takes a while until all has settled.
    let sleeps = || switches_within(bare.pid(), Duration::from_secs(2)) == 0;
    bare.eventually("there is no wake-up in two seconds", sleeps);
    let began = Instant::now();
    assert_eq!(bare.stop(), Exit::Code(0));
    eprintln!("stopped in {:?}", began.elapsed());
    assert!(bare.text("out").contains("shutdown took"));
}

#[test]
fn ten_thousand_restarts_leave_memory_descriptors_and_threads_where_they_were() {
    let _alone = alone();
    let job = |name: &str, after: &str, command: &str, restarts: u32| {
        let when = if after.is_empty() { String::new() } else { format!("when: {{ {after} }},") };
        format!(
            r#"{{ name: "{name}", {when} exec: {command}, restarts: {restarts}, backoff: {{ max: "0s" }} }}"#
        )
    };
    // Between the restarts is a pause in which the program can be measured.
    let pause = |name: &str| format!(r#"["sh", "-c", "mkfifo {{dir}}/{name}; read _ < {{dir}}/{name}"]"#);
    let jobs = [
        // As many as fill what is kept of events.
        job("some", "", r#""true""#, 6000),
        job("first-pause", r#"source: "some", once: "stopped""#, &pause("first"), 0),
        job("many", r#"source: "first-pause", once: "stopped""#, r#""true""#, 10_000),
        job("second-pause", r#"source: "many", once: "stopped""#, &pause("second"), 0),
    ];
    let began = Instant::now();
    let mut bare = Bare::start(&format!("{{ jobs: [{}] }}", jobs.join(",")), |_| {});
    let measured = |name: &str| {
        bare.within(LONG, name, || bare.path(name).exists());
        bare.eventually("the program settles", || {
            switches_within(bare.pid(), Duration::from_millis(100)) == 0
        });
        let size = size(bare.pid());
        bare.eventually("the gate opens", || open_gate(&bare.path(name)).is_ok());
        size
    };
    let (before, after) = (measured("first"), measured("second"));
    assert_eq!(bare.wait_exit(), Exit::Code(0));
    eprintln!("16000 restarts in {:?}: {before:?}, then {after:?}", began.elapsed());
    assert_eq!((after.descriptors, after.threads), (before.descriptors, before.threads));
    assert!(after.resident_kib <= before.resident_kib + 1024, "{before:?}, then {after:?}");
}
