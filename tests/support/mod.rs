//! Runs the real program for black-box tests: each run has a folder, a control socket and a log of its own.
//!
//! Tests wait for facts, never for time: a missed deadline fails the test and shows the whole log, and nothing
//! that a run started survives its test.
#![allow(dead_code, unused_imports, reason = "each test program uses its own part of this")]

pub mod bare;
pub mod browser;
pub mod consul;
pub mod container;
pub mod flood;
pub mod http;
pub mod lease;
mod log;
pub mod needs;
pub mod ports;
mod processes;
pub mod programs;
pub mod proxy;
pub mod record;
mod setup;
pub mod terminal;
pub mod tls;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

pub use self::log::{Log, Record, Waited};
pub use self::processes::{Mark, children, open_files, proc_status, resident_kib, state, threads, zombies};
pub use self::setup::Setup;

/// The program that is tested: the one that Cargo has just built, or the one that `CONTAINERPILOT_TESTED` names.
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        std::env::var("CONTAINERPILOT_TESTED")
            .unwrap_or_else(|_| env!("CARGO_BIN_EXE_containerpilot").to_owned())
    })
}

/// Holds off every other test that measures, for as long as the result lives. The rest go on beside it.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a fact may take to come true: long enough for a busy machine, since only a failing test waits for it.
pub const DEADLINE: Duration = Duration::from_secs(30);
/// How often a fact that cannot wake us is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits for a fact that cannot wake us; whether it came true in time.
pub fn comes_true(limit: Duration, mut fact: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !fact() {
        if began.elapsed() > limit {
            return false;
        }
        thread::sleep(LOOK_EVERY);
    }
    true
}

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// The program, running.
pub struct Pilot {
    dir: TempDir,
    mark: Mark,
    log: Arc<Log>,
    /// The process that we started: the program, or what made a namespace for it.
    child: Pid,
    /// The program.
    pid: Pid,
    /// Whether it is process 1 in its own eyes.
    is_first: bool,
    /// Kept open, so that it fills up rather than breaks.
    unread: Option<ChildStdout>,
}

impl Pilot {
    /// Starts the program with a configuration; in it, `{dir}` stands for the folder of the run. A control socket
    /// in that folder and a log that shows every event are added, unless the configuration has its own.
    pub fn start(config: &str) -> Self {
        Setup::new().config(config).start()
    }

    /// Starts the program with a configuration and waits for its end.
    pub fn run(config: &str) -> (Exit, Self) {
        let pilot = Self::start(config);
        (pilot.wait_exit(), pilot)
    }

    /// Tests the program as an ordinary process, and as process 1 where that can be.
    pub fn in_both_ways(config: &str, test: impl Fn(&Self)) {
        test(&Self::start(config));
        if needs::can_be_pid_one() {
            test(&Setup::new().config(config).as_pid_one().start());
        }
    }

    /// The folder of the run.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A file in the folder of the run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// The control socket that was configured.
    pub fn socket(&self) -> PathBuf {
        self.path(setup::SOCKET)
    }

    /// The program's process, as seen from here.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// The text of a file in the folder of the run; empty if there is none.
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The lines of a file in the folder of the run.
    pub fn lines(&self, name: &str) -> Vec<String> {
        self.text(name).lines().map(str::to_owned).collect()
    }

    /// The times in milliseconds that `date +%s%N` has written into a file of the run.
    pub fn times(&self, name: &str) -> Vec<u64> {
        self.lines(name).iter().map(|line| line.parse::<u64>().unwrap() / 1_000_000).collect()
    }

    /// What is known of the log so far.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Every event so far, as `SOURCE CODE`.
    pub fn events(&self) -> Vec<String> {
        self.log.with_records(|records| records.iter().filter_map(Record::event).map(str::to_owned).collect())
    }

    /// The codes of one source's events so far.
    pub fn events_of(&self, source: &str) -> Vec<String> {
        let prefix = format!("{source} ");
        self.events().iter().filter_map(|event| event.strip_prefix(&prefix)).map(str::to_owned).collect()
    }

    /// How often an event was published so far.
    pub fn count(&self, event: &str) -> usize {
        self.events().iter().filter(|seen| *seen == event).count()
    }

    /// The place of an event's first publication in the order of all.
    pub fn at(&self, event: &str) -> usize {
        let place = self.events().iter().position(|seen| seen == event);
        place.unwrap_or_else(|| self.fail(&format!("no event {event}")))
    }

    /// Asserts that these events came in this order, whatever came in between.
    pub fn assert_order(&self, expected: &[&str]) {
        let events = self.events();
        let mut rest = events.iter();
        for event in expected {
            if !rest.any(|seen| seen == event) {
                self.fail(&format!("no {event} in its place of {expected:?}"));
            }
        }
    }

    /// What the processes of a job printed, line by line.
    pub fn lines_of(&self, job: &str) -> Vec<String> {
        self.log.with_records(|records| {
            let printed = records.iter().filter(|record| record.job == job && self.is_output(record));
            printed.map(|record| record.message.clone()).collect()
        })
    }

    /// Our own records say which process of ours wrote them, are not informational, or tell of a start or an end.
    fn is_output(&self, record: &Record) -> bool {
        let tells_of_process = record.message.starts_with("started")
            || record.message == "is ready"
            || record.message.starts_with("restarts in ")
            || record.message.starts_with("is not restarted: ")
            || record.message.starts_with("exited with status ");
        record.level == "info" && record.pid != self.own_number() && !tells_of_process
    }

    /// The process number that the program has in its own eyes.
    fn own_number(&self) -> i64 {
        if self.is_first { 1 } else { i64::from(self.pid()) }
    }

    /// Waits for a record of the log.
    pub fn wait_for_record(&self, what: &str, wanted: impl Fn(&Record) -> bool) -> Record {
        self.wait_for_log(what, |record| wanted(record).then(|| record.clone()))
    }

    /// Waits for a record whose message contains a text.
    pub fn wait_for_message(&self, text: &str) -> Record {
        self.wait_for_record(text, |record| record.message.contains(text))
    }

    /// How many messages so far contain a text.
    pub fn count_messages(&self, text: &str) -> usize {
        self.log.with_records(|records| records.iter().filter(|record| record.message.contains(text)).count())
    }

    /// Waits for a line that a job prints.
    pub fn wait_for_line(&self, job: &str, line: &str) {
        self.wait_for_record(&format!("{job} prints {line}"), |record| {
            record.job == job && record.message == line && self.is_output(record)
        });
    }

    /// Waits for an event, written as `SOURCE CODE`.
    pub fn wait_for_event(&self, event: &str) {
        self.wait_for_events(event, 1);
    }

    /// Waits until an event has been published that often.
    pub fn wait_for_events(&self, event: &str, times: usize) {
        let mut seen = 0;
        self.wait_for_log(&format!("event {event} × {times}"), |record| {
            seen += usize::from(record.event() == Some(event));
            (seen >= times).then_some(())
        });
    }

    fn wait_for_log<T>(&self, what: &str, look: impl FnMut(&Record) -> Option<T>) -> T {
        match self.log.wait(DEADLINE, look) {
            Waited::Found(found) => found,
            Waited::Ended => self.fail(&format!("the program ended without: {what}")),
            Waited::Late => self.fail(&format!("missed deadline: {what}")),
        }
    }

    /// Waits until a file of the run exists.
    pub fn wait_for_file(&self, name: &str) {
        self.eventually(&format!("file {name}"), || self.path(name).exists());
    }

    /// Waits until a file of the run has that many lines, and returns them.
    pub fn wait_for_lines(&self, name: &str, count: usize) -> Vec<String> {
        self.eventually(&format!("{count} lines in {name}"), || {
            self.text(name).matches('\n').count() >= count
        });
        self.lines(name)
    }

    /// Waits for a fact that cannot wake us.
    pub fn eventually(&self, what: &str, fact: impl Fn() -> bool) {
        self.within(DEADLINE, what, fact);
    }

    /// The same for a fact that is much work on a busy machine.
    pub fn within(&self, limit: Duration, what: &str, fact: impl Fn() -> bool) {
        if !comes_true(limit, fact) {
            self.fail(&format!("missed deadline: {what}"));
        }
    }

    /// Sends the program a signal; one that has just ended misses it.
    pub fn signal(&self, signal: Signal) {
        if self.log.exit().is_none() {
            let sent = kill(self.pid, signal);
            assert!(matches!(sent, Ok(()) | Err(Errno::ESRCH)), "{signal}: {sent:?}");
        }
    }

    /// The same with any signal, real-time ones included.
    #[allow(unsafe_code, reason = "nix knows no real-time signals")]
    pub fn signal_number(&self, number: i32) {
        // SAFETY: takes numbers.
        assert_eq!(unsafe { libc::kill(self.pid(), number) }, 0);
    }

    /// Sends the program a signal when some time has passed.
    pub fn signal_after(&self, time: Duration, signal: Signal) {
        let began = Instant::now();
        self.eventually("time passes", || began.elapsed() >= time);
        self.signal(signal);
    }

    /// Asks the program to end, and waits until it has.
    pub fn stop(&self) -> Exit {
        self.signal(Signal::SIGTERM);
        self.wait_exit()
    }

    /// Waits until the program has ended and its log is complete; nothing that it started may survive it.
    pub fn wait_exit(&self) -> Exit {
        let status = self.log.wait_ended(DEADLINE);
        let status = status.unwrap_or_else(|| self.fail("missed deadline: the program ends"));
        let survivors = self.mark.living();
        if !survivors.is_empty() {
            self.fail(&format!("processes survived the program: {survivors:?}"));
        }
        if !self.log.wait_closed(DEADLINE) {
            self.fail("missed deadline: the log ends");
        }
        Exit::from(status)
    }

    /// Every process of this run, the program included.
    pub fn processes(&self) -> Vec<i32> {
        self.mark.living()
    }

    /// Fails the test, showing everything that is known.
    pub fn fail(&self, why: &str) -> ! {
        let descriptions: Vec<String> = self.mark.living().into_iter().map(processes::describe).collect();
        panic!("{why}\n--- log\n{}\n--- processes\n{}\n---", self.log.text(), descriptions.join("\n"));
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or(0)),
        }
    }
}

impl Drop for Pilot {
    fn drop(&mut self) {
        if self.log.exit().is_none() {
            let _ = kill(self.child, Signal::SIGKILL);
        }
        self.mark.kill_all();
        if record::are_all_recorded() && !thread::panicking() {
            record::assert_same_actions(self.dir());
        }
    }
}
