//! One job in sentences: what it does, and why, by itself. What it waits for is told by the story around it.

mod ends;

use std::sync::Arc;
use std::time::SystemTime;

use super::Scene;
use super::words::{awaited, clock, ending, happened, list, probe, span, times, until};
use crate::config::duration::GoDuration;
use crate::config::spec::{JobSpec, ReadyBy, Trigger};
use crate::messages::account::{Exceeded, FailingCheck};
use crate::messages::health::{Health, Verdict};
use crate::messages::job::{Missing, Phase};
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
    let spec = scene.spec_of(name).map(|spec| &**spec);
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
        let is_awaited = |name: &&Arc<str>| {
            let over = |job: &JobStatus| matches!(job.phase, Phase::Halted | Phase::Complete);
            self.scene.job(name).is_some_and(|job| !job.ready && !over(job))
        };
        let before = place.into_iter().flat_map(|place| &place.after).filter(is_awaited);
        let before: Vec<String> = before.map(ToString::to_string).collect();
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
            Trigger::Interval(interval) => Some(format!(" (every {})", span(*interval))),
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
            Health::Maintenance => {
                let text = format!("{runs}. The container is in maintenance, so it is not checked.");
                Told::new(text).advise("leave maintenance with `containerpilot -maintenance disable`")
            }
            Health::Unknown if !self.is_asked => Told::new(format!("{runs}.")).and(self.earlier_ends()),
            Health::Unknown => Told::new(format!("{runs}. It has no health check."))
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
        let (text, advice) = match self.job.pid {
            Some(pid) => (
                format!(
                    "{name} was started at {since} as process {pid} and is not ready: it {}.",
                    self.awaited_word()
                ),
                format!("see what {name} prints with `containerpilot logs {name}`"),
            ),
            None => (
                format!("{name} is being started since {since}: execve(2) has not returned."),
                "see whether the file system of its program responds".to_owned(),
            ),
        };
        let says = self.job.status_text.as_ref().map(|text| format!("It says: {text}."));
        Told::new(text).and(says).and(self.earlier_ends()).advise(advice)
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

    fn sweeping(&self) -> Told {
        let exit = self.last_exit_or("its main process has ended");
        let text = format!(
            "{} has ended ({exit}); before its next run, the rest of its process group is being ended since {}.",
            self.name,
            self.since()
        );
        Told::new(text)
    }

    fn delayed(&self) -> Told {
        let (name, job) = (self.name, self.job);
        let when = self.until().map_or("soon".to_owned(), |time| format!("in {time}"));
        let exit = self.last_exit_or("has ended");
        let early = match job.early_ends {
            0 | 1 => String::new(),
            ends => format!(
                " It ended {} in a row within {} of its start, so each restart waits longer.",
                times(u64::from(ends)),
                span(job.settles_after)
            ),
        };
        let text =
            format!("{name} does not run: at {} it {exit}; it is restarted {when}.{early}", self.since());
        let told = Told::new(text).and(self.ill_health()).advise(self.look_at_end());
        Told { next_try: job.account.until, ..told }
    }

    /// What helps against the way it ended, or the command that shows more of that.
    fn look_at_end(&self) -> String {
        let name = self.name;
        let words = self.job.last_exit.as_ref().map_or("", |(_, words)| words.as_str());
        if words.contains("Operation not permitted") {
            return format!(
                "run the container as a user that may do this, or take this setting away from {name}"
            );
        }
        if words.starts_with("cannot execute") {
            return format!("correct `exec` of {name}, or the file that it names");
        }
        if words.starts_with("cannot ") {
            return format!("correct what {name} cannot do, or the setting of {name} that asks for it");
        }
        if words.contains("killed for memory") {
            return format!(
                "give the container more memory or have {name} use less; see what it used with `containerpilot crashes {name}`"
            );
        }
        format!("see how {name} ended and what it printed last with `containerpilot crashes {name}`")
    }

    /// Why it was stopped for ill health, if it was.
    fn ill_health(&self) -> Option<String> {
        let failing: Vec<String> = self
            .job
            .checks
            .iter()
            .filter_map(|(check, _)| Some(format!("{check}: {}", self.failure(check)?.reason)))
            .collect();
        let stopped = self.job.account.stop_reason.as_deref() == Some("it is unhealthy");
        (stopped && !failing.is_empty())
            .then(|| format!("It was stopped because it was unhealthy: {}.", failing.join("; ")))
    }
}
