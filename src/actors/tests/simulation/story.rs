//! A story: a configuration, how its programs behave, and what happens to it. Plain data, so that a story can be shrunk,
//! written down and told again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::spec::{
    ConsulAddress, ConsulSpec, GroupPlace, GroupSpec, JobKind, JobSpec, LoggingSpec, Spec, StopBudget,
    TlsSpec, Trigger, WatchSpec,
};
use crate::messages::control::JobOrder;
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::process::ExitStatus;
use crate::messages::signal::Signal;

/// Everything that a run depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Story {
    /// Where it comes from; jitter follows from it.
    pub seed: u64,
    pub program: Program,
    /// What the clock on the wall shows at the beginning, in milliseconds since 1970.
    pub wall: i64,
    /// How programs behave, by name; others serve.
    pub manners: BTreeMap<String, Manner>,
    /// How many process numbers there are before the first is given again.
    pub pids: i32,
    pub steps: Vec<Step>,
    /// The milliseconds between the signal that ends the program and a second one.
    pub second_signal: Option<u64>,
}

/// One configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    pub jobs: Vec<JobSpec>,
    pub groups: Vec<GroupSpec>,
    pub watches: Vec<WatchSpec>,
    pub has_consul: bool,
    pub budget: StopBudget,
}

/// Something that happens after a pause of so many milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub pause: u64,
    pub operation: Operation,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Operation {
    /// A client gives an order to a job, or to a group: `group.NAME`.
    Order(String, JobOrder),
    /// A client enters or leaves maintenance.
    Maintain(bool),
    /// A client sets a variable to this number.
    Environ(u32),
    /// A client asks for a reload, to this configuration.
    Reload { program: Box<Program>, restart_all: bool },
    /// A client asks for a reload of a configuration with errors.
    BadReload,
    /// Somebody writes this configuration, for a reload that a signal asks for.
    Edit(Box<Program>),
    /// We get a signal.
    Signal(Signal),
    /// Somebody else sends a signal to the process of a job.
    Kill(String, Signal),
    /// A program behaves differently when it is started next.
    Behave(String, Manner),
    /// So many starts fail with this error number.
    FailStarts { errno: i32, times: u32 },
    /// Consul behaves like this from now on.
    Consul(Mood),
    /// Consul loses what it knows.
    ConsulForgets,
    /// Others register so many instances of the observed service.
    Instances(u8),
    /// Somebody sets or deletes the observed key.
    Key(Option<u8>),
    /// The log's output behaves like this from now on.
    Log(Flow),
    /// The whole machine sleeps for so many milliseconds.
    Suspend(u64),
    /// Somebody sets the clock on the wall by so many milliseconds.
    SetClock(i64),
}

/// How a program behaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manner {
    pub start: Start,
    pub life: Life,
    pub at_term: AtTerm,
    /// Lines that it prints at its start, and one more of them without newline before its end.
    pub lines: u8,
    pub offspring: Vec<Offspring>,
    /// It stops itself by SIGSTOP after so many milliseconds.
    pub stops_itself: Option<u64>,
    /// What it tells by systemd's protocol, each after so many milliseconds, if it was given a socket.
    pub notices: Vec<(u64, Says)>,
    /// It gives a sign of life every so many milliseconds.
    pub signs: Option<u64>,
    /// After so many milliseconds it joins the group of a child of its own that leads one.
    #[serde(default)]
    pub leaves_group: Option<u64>,
}

impl Manner {
    /// Serves until a signal ends it.
    pub const fn plain() -> Self {
        Self {
            start: Start::AtOnce,
            life: Life::Serves,
            at_term: AtTerm::Dies,
            lines: 0,
            offspring: Vec::new(),
            stops_itself: None,
            notices: Vec::new(),
            signs: None,
            leaves_group: None,
        }
    }
}

/// What a process tells by systemd's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Says {
    Ready,
    Lives,
    Stops,
    Reloads,
    /// It needs so many milliseconds from now on.
    NeedsTime(u64),
    Nonsense,
}

impl Says {
    pub fn text(self) -> String {
        match self {
            Self::Ready => "READY=1\nSTATUS=serves".to_owned(),
            Self::Lives => "WATCHDOG=1".to_owned(),
            Self::Stops => "STOPPING=1".to_owned(),
            Self::Reloads => "RELOADING=1".to_owned(),
            Self::NeedsTime(milliseconds) => format!("EXTEND_TIMEOUT_USEC={}", milliseconds * 1000),
            Self::Nonsense => "\u{1}=READY=1\n\n=".to_owned(),
        }
    }
}

/// What happens between the request for a process and the execution of its program. Times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    AtOnce,
    /// The search for the program takes so long; before that there is no process.
    Searches(u64),
    /// execve(2) takes so long.
    Executes(u64),
    /// execve(2) hangs until the process is killed.
    Hangs,
    /// There is no process.
    Fails(i32),
    /// There is a process, which could not execute the program.
    FailsToExecute(i32),
}

/// How a process ends if nobody ends it. Times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Life {
    Serves,
    Ends(ExitStatus, u64),
    /// It is killed for memory.
    Starves(u64),
}

/// What a process does at a signal that asks it to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AtTerm {
    Dies,
    /// Exits with this status after so many milliseconds.
    Exits(u8, u64),
    Ignores,
}

/// A process that another one forks after so many milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offspring {
    pub after: u64,
    pub place: Place,
    pub life: Life,
    pub at_term: AtTerm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// A child in its parent's group.
    Group,
    /// A child that leads a group of its own.
    Apart,
    /// A daemon: forked twice, so that it is an orphan at once, in a group of its own.
    Daemon,
    /// As a daemon, and in the middle of execve(2) for so many milliseconds.
    Becoming(u8),
}

/// How Consul behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mood {
    Well,
    /// Answers after so many milliseconds.
    Late(u64),
    /// Answers 500, having done what was asked or not.
    Errs {
        does_it: bool,
    },
    /// Answers with a page of another server.
    Rubbish,
    /// Never answers, having done what was asked or not.
    Silent {
        does_it: bool,
    },
    /// Closes the connection instead of answering.
    Closes,
    /// Is behind a proxy that takes away the index, so that queries do not block.
    Unindexed,
}

/// How the output of the log behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flow {
    Flows,
    Blocks,
    /// Every write fails: records wait until there is no room and are lost then.
    Fails,
}

/// The service and the key that stories observe.
pub const SERVICE: &str = "backend";
pub const KEY: &str = "settings/key";

impl Program {
    /// The configuration as the program uses it; Consul listens at `socket`.
    pub fn spec(&self, socket: &str) -> Spec {
        let consul = || ConsulSpec {
            address: ConsulAddress::Unix(PathBuf::from(socket)),
            token: None,
            tls: TlsSpec {
                ca_file: None,
                ca_path: None,
                client_cert: None,
                client_key: None,
                server_name: None,
                verify: true,
            },
        };
        let mut jobs: Vec<Arc<JobSpec>> = self.jobs.iter().cloned().map(Arc::new).collect();
        jobs.sort_by_key(|job| job.kind == JobKind::Job);
        Spec {
            consul: self.has_consul.then(consul),
            logging: LoggingSpec::default(),
            jobs,
            groups: self.groups.iter().cloned().map(Arc::new).collect(),
            watches: self.watches.clone(),
            stop_timeout: self.budget,
            ..Spec::default()
        }
    }

    /// Makes jobs and groups agree, as validation would: a group has jobs that are there and may be in it, each of them knows
    /// its place, and nobody waits for a group that is not there or that it is in.
    pub fn settle_groups(&mut self) {
        let may_be_in_one = |job: &JobSpec| {
            let is_repeated = matches!(job.when.trigger, Trigger::Each(_)) || job.when.trigger.is_periodic();
            job.kind == JobKind::Job && job.exec.is_some() && !is_repeated && !job.when.may_follow_an_end()
        };
        let jobs = &self.jobs;
        for group in &mut self.groups {
            group.jobs.retain(|name| jobs.iter().any(|job| job.name == *name && may_be_in_one(job)));
        }
        self.groups.retain(|group| !group.jobs.is_empty());
        for job in &mut self.jobs {
            let place = self.groups.iter().find_map(|group| {
                let index = group.jobs.iter().position(|name| *name == job.name)?;
                Some(GroupPlace { group: Arc::clone(&group.name), after: group.jobs[..index].to_vec() })
            });
            job.group = place;
            let own = job.group.as_ref().map(|place| &place.group);
            let can_come = |key: &EventKey| match &key.source {
                Source::Group(name) => {
                    own != Some(name) && self.groups.iter().any(|group| group.name == *name)
                }
                Source::Global | Source::Job(_) | Source::Watch(_) | Source::Check(_) | Source::Signal(_) => {
                    true
                }
            };
            let replace = |key: &mut EventKey| {
                if !can_come(key) {
                    *key = EventKey { code: EventCode::Startup, source: Source::Global };
                }
            };
            match &mut job.when.trigger {
                Trigger::Once(key) | Trigger::Each(key) => replace(key),
                Trigger::All(keys) | Trigger::Any(keys) => keys.iter_mut().for_each(replace),
                Trigger::Interval(_) | Trigger::Cron(_) => {}
            }
        }
    }
}
