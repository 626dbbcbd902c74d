//! The board: what the status of the program shows. Actors write to it, the WebServer and the metrics read it. No decision
//! depends on it.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::account::{Account, FailingCheck};
use super::health::{Health, Verdict};
use super::job::Phase;

/// How people see the state of a job that is complete and never ran.
pub const NEVER_RAN: &str = "never ran";

/// One job as users see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Its phase.
    pub phase: Phase,
    /// The time at which it entered the phase.
    pub since: SystemTime,
    /// Its health.
    pub health: Health,
    /// Its checks, by name.
    pub checks: Vec<(Arc<str>, Verdict)>,
    /// Its process, while one runs.
    pub pid: Option<i32>,
    /// Whether its process is being started, or nothing has told yet whether it can be used.
    pub starting: bool,
    /// Whether its process can be used: it said so, was first healthy, or was executed, whichever counts for it.
    pub ready: bool,
    /// Whether its process tells itself when it can be used.
    pub tells_ready: bool,
    /// What its process does, in its own words.
    pub status_text: Option<String>,
    /// How long the last execution that became ready took for that.
    pub ready_after: Option<Duration>,
    /// How often its watchdog ended it; `None` without one.
    pub watchdog_kills: Option<u64>,
    /// Runs after the first, since it was configured.
    pub restarts: u64,
    /// The exit status of its last execution as in a shell, and in words.
    pub last_exit: Option<(u8, String)>,
    /// That execution was a success by the rules of the job.
    pub succeeded: bool,
    /// The address and port that are advertised.
    pub advertised: Option<(String, u16)>,
    /// The group that it belongs to.
    pub group: Option<Arc<str>>,
    /// Whether it ends the program when it completes.
    pub essential: bool,
    /// Whether the container is ready only while it runs and is healthy.
    pub required: bool,
    /// Whether it was ever started since it was configured.
    pub has_run: bool,
    /// Why it will never run; `None` if it may run or has run.
    pub never_ran: Option<String>,
    /// When it runs next by its schedule, if it has one.
    pub next_run: Option<SystemTime>,
    /// Scheduled runs that did not come or were skipped; `None` without a schedule.
    pub missed_runs: Option<u64>,
    /// The number of runs in a row that were shorter than `settles_after`.
    pub early_ends: u32,
    /// `backoff.resetAfter`.
    pub settles_after: Duration,
    /// Why it is where it is.
    pub account: Account,
}

impl JobStatus {
    /// A job with that phase and nothing else.
    pub fn new(phase: Phase) -> Self {
        Self {
            phase,
            since: SystemTime::UNIX_EPOCH,
            health: Health::Unknown,
            checks: Vec::new(),
            pid: None,
            starting: false,
            ready: false,
            tells_ready: false,
            status_text: None,
            ready_after: None,
            watchdog_kills: None,
            restarts: 0,
            last_exit: None,
            succeeded: false,
            advertised: None,
            group: None,
            essential: false,
            required: false,
            has_run: false,
            never_ran: None,
            next_run: None,
            missed_runs: None,
            early_ends: 0,
            settles_after: Duration::ZERO,
            account: Account::default(),
        }
    }

    /// Whether execve(2) has not returned yet, or its process has yet to tell that it is ready.
    pub fn is_unready_yet(&self) -> bool {
        self.starting && (self.pid.is_none() || self.tells_ready)
    }

    /// Whether it is complete and has done no work. `state` calls it `complete`, as programs know it; people are shown
    /// [`NEVER_RAN`].
    pub fn has_never_run(&self) -> bool {
        self.phase == Phase::Complete && !self.has_run
    }

    /// The state as people see it.
    pub fn shown_state(&self) -> &'static str {
        if self.has_never_run() { NEVER_RAN } else { self.state() }
    }

    /// The state as programs see it: the phase, or `starting`. A watchdog lets its process run for a while after SIGABRT.
    pub fn state(&self) -> &'static str {
        if self.account.exceeded.is_some() {
            Phase::TimedOut.name()
        } else if self.starting {
            "starting"
        } else {
            self.phase.name()
        }
    }
}

/// One group as users see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Its jobs, in their order.
    pub jobs: Vec<Arc<str>>,
    /// Whether all of them are ready.
    pub ready: bool,
    /// How often it restarted jobs, since it was configured.
    pub restarts: u64,
    /// Whether it gave up.
    pub has_given_up: bool,
}

/// One watch as users see it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WatchStatus {
    /// Healthy instances: id, address, port.
    pub instances: Vec<(String, String, u16)>,
    /// Whether Consul has replied at least once.
    pub known: bool,
}

/// The state of the connection to Consul; contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DiscoveryStatus {
    /// How long it took until Consul knew the latest change of a service.
    pub lag: Duration,
    /// The reason of an outage, while there is one.
    pub trouble: Option<String>,
    /// The jobs and watches (`watch.NAME`) whose last call failed.
    pub failures: BTreeMap<Arc<str>, DiscoveryFailure>,
}

/// Why the last call to Consul for a job or watch failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveryFailure {
    /// The reason, in words.
    pub reason: String,
    /// Consul answered, with an error.
    pub is_answer: bool,
}

/// The order of the configuration, in which jobs and watches are shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// Jobs in the order of the configuration, coprocesses first.
    pub jobs: Vec<Arc<str>>,
    /// Watches in the order of the configuration.
    pub watches: Vec<Arc<str>>,
    /// Address and port of telemetry, our own service.
    pub telemetry: Option<(String, u16)>,
    /// How long the whole shutdown may take.
    pub stop_budget: Duration,
}

/// How much was logged, and whether that goes well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogUsage {
    /// Bytes that were written.
    pub bytes: u64,
    /// How often the output of jobs had to wait, because the log was not read fast enough.
    pub stalls: u64,
    /// Whether it waits now, or the log cannot be written.
    pub is_stalled: bool,
}

/// The content of the board.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    /// The order of jobs and watches.
    pub layout: Layout,
    /// Jobs by name. Shared with those who look at a copy of all this.
    pub jobs: BTreeMap<Arc<str>, Arc<JobStatus>>,
    /// Groups, in the order of the configuration.
    pub groups: Vec<GroupStatus>,
    /// Watches by name.
    pub watches: BTreeMap<Arc<str>, WatchStatus>,
    /// The checks whose last try failed, by job and name.
    pub failing: BTreeMap<(Arc<str>, Arc<str>), FailingCheck>,
    /// The state of the connection to Consul.
    pub discovery: DiscoveryStatus,
    /// When a reload was refused, if none has succeeded since.
    pub refused_reload: Option<SystemTime>,
    /// Whether the container is in maintenance.
    pub maintenance: bool,
    /// Whether the program is shutting down.
    pub shutting_down: bool,
    /// When that began.
    pub shutdown_began: Option<Instant>,
}

impl Overview {
    /// Jobs in the order of the configuration; those that a reload removes come last.
    pub fn jobs_in_order(&self) -> Vec<(&Arc<str>, &JobStatus)> {
        let ordered = in_order(&self.layout.jobs, &self.jobs).into_iter();
        ordered.map(|(name, job)| (name, &**job)).collect()
    }

    /// Watches in the order of the configuration; those that a reload removes come last.
    pub fn watches_in_order(&self) -> Vec<(&Arc<str>, &WatchStatus)> {
        in_order(&self.layout.watches, &self.watches)
    }
}

fn in_order<'a, T>(order: &[Arc<str>], all: &'a BTreeMap<Arc<str>, T>) -> Vec<(&'a Arc<str>, &'a T)> {
    let configured: HashSet<&Arc<str>> = order.iter().collect();
    let first = order.iter().filter_map(|name| all.get_key_value(name));
    first.chain(all.iter().filter(|(name, _)| !configured.contains(name))).collect()
}

/// The board; clones share it, on the one thread of all actors.
#[derive(Debug, Clone, Default)]
pub struct Board(Rc<RefCell<Overview>>);

impl Board {
    /// To read; not to be held across an await.
    pub fn read(&self) -> Ref<'_, Overview> {
        self.0.borrow()
    }

    /// To write; not to be held across an await.
    pub fn write(&self) -> RefMut<'_, Overview> {
        self.0.borrow_mut()
    }
}
