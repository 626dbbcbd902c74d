//! One job in sentences: what it does, and why, by itself. What it waits for is told by the story around it.

mod delayed;
mod ends;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Scene;
use super::words::{awaited, clock, ending, happened, list, probe, span, times, until};
use crate::config::duration::GoDuration;
use crate::config::spec::{JobSpec, ReadyBy, Trigger};
use crate::messages::account::{Exceeded, FailingCheck};
use crate::messages::health::{Health, Verdict};
use crate::messages::job::{Missing, Phase};
use crate::messages::process::LONG_START;
use crate::messages::status::JobStatus;

/// The explanation of one job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    /// Whole sentences.
    pub sentences: Vec<String>,
    /// What a user can do about it, each as an imperative.
    pub advice: Vec<String>,
    /// When it is tried again, by itself.
    pub next_try: Option<SystemTime>,
}

impl Told {
    fn new(sentence: String) -> Self {
        Self { sentences: vec![sentence], ..Self::default() }
    }

    fn and(mut self, sentence: Option<String>) -> Self {
        self.sentences.extend(sentence);
        self
    }

    fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }
}

/// What helps when the log is full.
const READ_THE_LOG: &str = "read the output of the container, or log to a file (`logging.output`)";

/// One job, as it is told about.
struct Subject<'a> {
    scene: &'a Scene<'a>,
    name: &'a str,
    job: &'a JobStatus,
    spec: Option<&'a JobSpec>,
    /// It is asked about, and not only behind the one that is.
    is_asked: bool,
}

/// What a job does, and why; more if it is the one that is asked about.
pub fn tell(scene: &Scene<'_>, name: &str, job: &JobStatus, is_asked: bool) -> Told {
    let spec = scene.spec_of(name);
    let subject = Subject { scene, name, job, spec, is_asked };
    match job.phase {
        Phase::Waiting => subject.waiting(),
        Phase::Running if job.account.exceeded.is_none() => subject.running(),
        Phase::Running | Phase::TimedOut => subject.timed_out(),
        Phase::Sweeping => subject.sweeping(),
        Phase::Queued => subject.queued(),
        Phase::Delayed => subject.delayed(),
        Phase::Holding => subject.holding(),
        Phase::Deregistering => subject.stopping("is being withdrawn from Consul", None),
        Phase::Draining => subject.draining(),
        Phase::Terminating => subject.terminating(),
        Phase::Killing => subject.killing(),
        Phase::Ending => subject
            .stopping("its main process has ended, and the rest of its process group is being ended", None),
        Phase::Halted => subject.halted(),
        Phase::Complete if job.has_run => subject.complete(),
        Phase::Complete => subject.never_ran(),
    }
}

impl Subject<'_> {
    fn since(&self) -> String {
        clock(self.job.since, self.scene.now)
    }

    fn until(&self) -> Option<String> {
        self.job.account.until.map(|time| until(time, self.scene.now))
    }

    /// How the last run ended, without a subject.
    fn last_exit(&self) -> Option<String> {
        self.job.last_exit.as_ref().map(|(_, words)| ending(words))
    }

    fn last_exit_or(&self, unknown: &str) -> String {
        self.last_exit().unwrap_or_else(|| unknown.to_owned())
    }

    fn waiting(&self) -> Told {
        let (name, account) = (self.name, &self.job.account);
        let told = match &account.missing {
            Missing::Nothing => self.between_runs(),
            Missing::AnyOf(keys) if account.has_had_event() => {
                Told::new(format!("{name} waits for {} again.", awaited(keys, "or")))
            }
            Missing::AnyOf(keys) => Told::new(format!("{name} waits for {}.", awaited(keys, "or"))),
            Missing::AllOf(keys) => Told::new(format!("{name} waits for {}.", awaited(keys, "and"))),
        };
        let now = self.scene.now;
        let limit = account.gives_up.map(|time| format!("It gives up waiting in {}.", until(time, now)));
        told.and(self.earlier_runs()).and(limit)
    }

    /// It waits for others of its group.
    fn queued(&self) -> Told {
        let place = self.spec.and_then(|spec| spec.group.as_ref());
        let group = place.map_or("", |place| &*place.group);
        let before: Vec<String> = awaited_members(self.scene, self.name).map(ToString::to_string).collect();
        let why = if before.is_empty() {
            "others of the group are stopped first".to_owned()
        } else {
            format!("{} must be ready first", list(&before, "and"))
        };
        let told = Told::new(format!("{} waits for its turn in the group {group}: {why}.", self.name));
        told.and(self.earlier_runs())
    }

    /// It waits for the clock.
    fn between_runs(&self) -> Told {
        let (name, now) = (self.name, self.scene.now);
        let Some(time) = self.job.next_run else {
            let is_scheduled = self.spec.is_some_and(|spec| spec.when.trigger.is_periodic());
            let text = if is_scheduled {
                format!("{name} waits for its schedule, which never comes.")
            } else {
                format!("{name} is about to be started.")
            };
            let told = Told::new(text);
            return if is_scheduled {
                told.advise(format!("correct `when` of {name} and reload"))
            } else {
                told
            };
        };
        let rule = self.spec.and_then(|spec| match &spec.when.trigger {
            Trigger::Cron(cron) => Some(format!(" (cron \"{}\")", cron.text)),
            Trigger::Interval(interval) => Some(format!(" (every {})", period(*interval))),
            Trigger::Once(_) | Trigger::Each(_) | Trigger::All(_) | Trigger::Any(_) => None,
        });
        let text = format!(
            "{name} waits for its next run at {}, in {}{}.",
            clock(time, now),
            until(time, now),
            rule.unwrap_or_default()
        );
        Told { next_try: Some(time), ..Told::new(text) }
    }

    fn earlier_runs(&self) -> Option<String> {
        let (runs, exit) = (self.job.account.runs, self.last_exit()?);
        Some(if runs == 1 {
            format!("It ran once and {exit}.")
        } else {
            format!("It ran {}; its last run {exit}.", times(runs))
        })
    }

    fn running(&self) -> Told {
        let (name, since) = (self.name, self.since());
        if self.job.account.awaits_log {
            let text = format!(
                "{name} is to be started, but waits since {since} for room in the log: whoever reads our standard output does not keep up."
            );
            return Told::new(text).advise(READ_THE_LOG);
        }
        if self.job.is_unready_yet() {
            return self.starting();
        }
        if let Some(told) = self.held_up_by_log() {
            return told;
        }
        let pid = self.job.pid.map(|pid| format!(" as process {pid}")).unwrap_or_default();
        let runs = match self.spec.map(|spec| spec.exec.is_some()) {
            Some(false) => format!("{name} is served by something else since {since}"),
            Some(true) | None => format!("{name} runs since {since}{pid}"),
        };
        match self.job.health {
            Health::Unhealthy => self.unhealthy(&runs),
            Health::Unknown if !self.job.checks.is_empty() => self.unchecked(&runs),
            Health::Healthy => {
                Told::new(format!("{runs} and is healthy.")).and(self.occasion()).and(self.earlier_ends())
            }
            Health::Maintenance if !self.job.checks.is_empty() => {
                let text = format!("{runs}. The container is in maintenance, so it is not checked.");
                Told::new(text).advise("leave maintenance with `containerpilot -maintenance disable`")
            }
            Health::Unknown | Health::Maintenance if !self.is_asked => {
                Told::new(format!("{runs}.")).and(self.earlier_ends())
            }
            Health::Unknown | Health::Maintenance => Told::new(format!("{runs}. It has no health check."))
                .and(self.occasion())
                .and(self.earlier_ends()),
        }
    }

    /// It waits because the log is full.
    fn held_up_by_log(&self) -> Option<Told> {
        let prints = self.spec.is_some_and(|spec| spec.exec.is_some() && !spec.raw_output && !spec.tty);
        let pid = self.job.pid.filter(|_| self.scene.is_log_full && prints)?;
        let text = format!(
            "{} runs since {} as process {pid}, but waits whenever it prints: the log is full, because whoever reads our standard output does not keep up.",
            self.name,
            self.since(),
        );
        Some(Told::new(text).advise(READ_THE_LOG))
    }

    fn starting(&self) -> Told {
        let (name, since) = (self.name, self.since());
        let Some(pid) = self.job.pid else { return self.executing() };
        let text = format!(
            "{name} was started at {since} as process {pid} and is not ready: it {}.",
            self.awaited_word()
        );
        let says = self.job.status_text.as_ref().map(|text| format!("It says: {text}."));
        let told = Told::new(text).and(says).and(self.earlier_ends());
        told.advise(format!("see what {name} prints with `containerpilot logs {name}`"))
    }

    /// It has no process yet. Only a start that takes long is worth a word about execve(2).
    fn executing(&self) -> Told {
        let (name, since) = (self.name, self.since());
        let lasts = self.scene.now.duration_since(self.job.since).unwrap_or_default();
        if lasts < LONG_START {
            return Told::new(format!("{name} is being started since {since}.")).and(self.earlier_ends());
        }
        let text = format!("{name} is being started since {since}: execve(2) has not returned.");
        let told = Told::new(text).and(self.earlier_ends());
        told.advise("see whether the file system of its program responds")
    }

    /// How a process that is not ready would tell that it is, after "it".
    fn awaited_word(&self) -> String {
        match self.spec.and_then(|spec| spec.ready.by.as_ref()) {
            Some(ReadyBy::Notify) => "has not sent READY=1 to $NOTIFY_SOCKET".to_owned(),
            Some(ReadyBy::Descriptor(number)) => format!("has not written a newline to descriptor {number}"),
            Some(ReadyBy::Log(_)) => "has not printed a line that matches `ready.log`".to_owned(),
            None => "has not said so".to_owned(),
        }
    }

    fn unhealthy(&self, runs: &str) -> Told {
        let (name, failures) = (self.name, self.failures(true));
        let why = if failures.is_empty() { String::new() } else { format!(": {}", failures.join("; ")) };
        let told = Told::new(format!("{runs} but is unhealthy{why}."));
        let next_try = self.next_check();
        Told {
            next_try,
            ..told.advise(format!(
                "see what {name} prints with `containerpilot logs {name}`, and try its check by hand"
            ))
        }
    }

    /// It has checks, and none has come to a verdict.
    fn unchecked(&self, runs: &str) -> Told {
        let (name, failures) = (self.name, self.failures(false));
        let why = if failures.is_empty() { String::new() } else { format!(": {}", failures.join("; ")) };
        let told = Told::new(format!("{runs} but has not passed its health check yet{why}."))
            .and(self.earlier_ends());
        let next_try = self.next_check();
        let told = Told { next_try, ..told };
        if failures.is_empty() {
            told
        } else {
            told.advise(format!("see what {name} prints with `containerpilot logs {name}`"))
        }
    }

    /// Its failing checks, each with the reason; only those that have come to that verdict, if `failed`.
    fn failures(&self, failed: bool) -> Vec<String> {
        let failing = self.job.checks.iter().filter(|(_, verdict)| !failed || *verdict == Verdict::Failing);
        let text = |(check, _): &(Arc<str>, Verdict)| {
            let configured = self.spec.and_then(|spec| spec.health.iter().find(|known| known.name == *check));
            let tried =
                configured.and_then(|check| probe(&check.probe)).unwrap_or_else(|| format!("check {check}"));
            match self.failure(check) {
                Some(failure) => Some(format!("{tried}: {}", self.failure_text(failure))),
                None if failed => Some(format!("{tried} fails")),
                None => None,
            }
        };
        failing.filter_map(text).collect()
    }

    fn failure(&self, check: &Arc<str>) -> Option<&FailingCheck> {
        self.scene.overview.failing.get(&(self.name.into(), check.clone()))
    }

    fn failure_text(&self, failure: &FailingCheck) -> String {
        let now = self.scene.now;
        let since = clock(failure.since, now);
        let next = failure.next.map(|time| format!("; tried again in {}", until(time, now)));
        format!("{} ({} since {since}){}", failure.reason, times(failure.times), next.unwrap_or_default())
    }

    fn next_check(&self) -> Option<SystemTime> {
        self.job.checks.iter().filter_map(|(check, _)| self.failure(check)?.next).min()
    }

    fn occasion(&self) -> Option<String> {
        let account = &self.job.account;
        match &account.occasion {
            _ if !self.is_asked => None,
            Some(key) if account.runs == 1 => Some(format!("It was started because {}.", happened(key))),
            None if account.runs == 1 => Some("It was started by hand.".to_owned()),
            Some(_) | None => None,
        }
    }

    /// That it was restarted, and why.
    fn earlier_ends(&self) -> Option<String> {
        let (restarts, exit) = (self.job.restarts, self.last_exit()?);
        (restarts > 0).then(|| format!("It was restarted {}; its last run {exit}.", times(restarts)))
    }

    fn timed_out(&self) -> Told {
        let (name, since) = (self.name, self.since());
        match self.job.account.exceeded {
            Some(Exceeded::Watchdog) => {
                let text = format!("{name} is being ended by its `watchdog`: its process got SIGABRT.");
                Told::new(text)
                    .advise("find out where it hangs (a core dump may tell), or set a longer `watchdog`")
            }
            Some(Exceeded::ReadyTimeout) => {
                let text = format!(
                    "{name} was not ready within its `ready.timeout` and is being killed since {since}."
                );
                Told::new(text).advise("find out why it takes so long, or set a longer `ready.timeout`")
            }
            Some(Exceeded::Timeout) | None => {
                let limit = self.spec.and_then(|spec| spec.timeout);
                let limit = limit.map(|limit| format!(" of {}", GoDuration::from(limit))).unwrap_or_default();
                let text =
                    format!("{name} ran longer than its `timeout`{limit} and is being killed since {since}.");
                Told::new(text).advise("find out why it takes so long, or set a longer `timeout`")
            }
        }
    }
}

/// An interval in words; one that is no whole number of seconds as the configuration has it.
fn period(interval: Duration) -> String {
    if interval.subsec_nanos() == 0 { span(interval) } else { GoDuration::from(interval).to_string() }
}

/// The members of its group that must be ready before a queued job starts, and are not.
pub(super) fn awaited_members<'a>(scene: &'a Scene<'_>, name: &str) -> impl Iterator<Item = &'a Arc<str>> {
    let place = scene.spec_of(name).and_then(|spec| spec.group.as_ref());
    place.into_iter().flat_map(|place| &place.after).filter(|name| {
        let over = |job: &JobStatus| matches!(job.phase, Phase::Halted | Phase::Complete);
        scene.job(name).is_some_and(|job| !job.ready && !over(job))
    })
}
