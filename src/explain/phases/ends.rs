//! The sentences for a job that stops, is stopped or is over.

use std::sync::Arc;

use super::{Subject, Told};
use crate::config::spec::{JobSpec, Limit};
use crate::explain::words::{awaited, list};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::job::{Missing, Phase};

/// When a job that has failed is to be started by hand.
const START_AFTER_REPAIR: &str = "when that is repaired, run";

impl Subject<'_> {
    pub(super) fn holding(&self) -> Told {
        let others = self.hooks();
        let others = if others.is_empty() {
            "the jobs that its `stopping` event started".to_owned()
        } else {
            list(&others, "and")
        };
        let at_most = self.until().map(|time| format!(", for at most {time} more"));
        let told = self.stopping(&format!("it waits for {others}{}", at_most.unwrap_or_default()), None);
        told.advise("wait, or have those jobs end sooner")
    }

    /// The jobs that act on its `stopping` event and have not ended.
    pub(super) fn hooks(&self) -> Vec<String> {
        let key = EventKey { code: EventCode::Stopping, source: Source::Job(self.name.into()) };
        let acts = |spec: &&Arc<JobSpec>| {
            let is_busy = self
                .scene
                .job(&spec.name)
                .is_some_and(|job| job.phase == Phase::Running || job.pid.is_some());
            is_busy && spec.when.keys().contains(&key)
        };
        self.scene.spec.jobs.iter().filter(acts).map(|spec| spec.name.to_string()).collect()
    }

    /// A step of a stop; `limit` is what happens at its end.
    pub(super) fn stopping(&self, step: &str, limit: Option<String>) -> Told {
        let why = self.job.account.stop_reason.as_deref().unwrap_or("it will not run again");
        let limit = limit.map(|limit| format!("; {limit}")).unwrap_or_default();
        let text =
            format!("{} is being stopped because {why}: {step}, since {}{limit}.", self.name, self.since());
        Told { next_try: self.job.account.until, ..Told::new(text) }
    }

    pub(super) fn draining(&self) -> Told {
        let signal = self.spec.map_or("its stop signal".to_owned(), |spec| spec.stop.signal.to_string());
        let limit = self.until().map(|time| format!("it gets {signal} in {time}"));
        let consul =
            if self.job.advertised.is_some() { "Consul does not know it any more, and " } else { "" };
        self.stopping(&format!("{consul}it finishes what it has begun (`drain`)"), limit)
    }

    pub(super) fn terminating(&self) -> Told {
        let signal = self.spec.map_or("its stop signal".to_owned(), |spec| spec.stop.signal.to_string());
        let limit = self.until().map(|time| format!("if it does not end, it is killed in {time}"));
        let told = self.stopping(&format!("it got {signal} and has not ended"), limit);
        told.advise(format!("find out why it ignores {signal}, or set another `stopSignal`"))
    }

    pub(super) fn killing(&self) -> Told {
        let told = self.stopping("it got SIGKILL and has not disappeared", None);
        told.advise("see whether a disk or network mount that it uses responds: a process that waits for one cannot be killed")
    }

    pub(super) fn halted(&self) -> Told {
        let name = self.name;
        let exit = self.last_exit().map(|exit| format!("Its last run {exit}."));
        let text = format!("{name} was stopped by hand at {} and stays so.", self.since());
        self.advise_start(Told::new(text).and(exit), "start it again with")
    }

    pub(super) fn complete(&self) -> Told {
        let (name, since, account) = (self.name, self.since(), &self.job.account);
        let exit = self.last_exit_or("has ended");
        if let Some(reason) = &account.stop_reason {
            let text = format!("{name} is over since {since}, because {reason}. Its last run {exit}.");
            let told = Told::new(text).and(self.ill_health());
            let has_failed =
                ["it is unhealthy", "its group gave up"].iter().any(|why| reason.starts_with(why));
            return if has_failed {
                self.advise_start(told.advise(self.look_at_end()), START_AFTER_REPAIR)
            } else {
                told
            };
        }
        if !account.failed {
            return Told::new(format!(
                "{name} has done its work: at {since} it {exit}. It is not to run again."
            ));
        }
        let why = account.no_restart.clone().unwrap_or_else(|| self.restart_limit());
        let text = format!("{name} has failed: at {since} it {exit}. It is not restarted: {why}.");
        self.advise_start(Told::new(text).advise(self.look_at_end()), START_AFTER_REPAIR)
    }

    /// Advises to start the job, unless the program shuts down: it starts none then.
    fn advise_start(&self, told: Told, when: &str) -> Told {
        if self.scene.overview.shutting_down {
            return told;
        }
        told.advise(format!("{when} `containerpilot start {}`", self.name))
    }

    pub(super) fn restart_limit(&self) -> String {
        match self.spec.map(|spec| spec.restarts) {
            Some(Limit::Finite(0)) => "its `restarts` allow none".to_owned(),
            Some(Limit::Finite(1)) => "its only restart is used".to_owned(),
            Some(Limit::Finite(limit)) => format!("all of its {limit} restarts are used"),
            Some(Limit::Unlimited) | None => "its restart rules allow none".to_owned(),
        }
    }

    pub(super) fn never_ran(&self) -> Told {
        let name = self.name;
        let why = match (&self.job.account.missing, &self.job.never_ran) {
            (Missing::AnyOf(keys), Some(reason)) => {
                format!(": it waited for {}, {}", awaited(keys, "or"), loss(reason, keys, "none of which"))
            }
            (Missing::AllOf(keys), Some(reason)) => {
                format!(
                    ": it waited for {}, {}",
                    awaited(keys, "and"),
                    loss(reason, keys, "not all of which")
                )
            }
            (Missing::Nothing, Some(reason)) => format!(": {reason}"),
            (_, None) => {
                let stopped = self.job.account.stop_reason.as_deref();
                let is_limited = self.spec.is_some_and(|spec| spec.timeout.is_some());
                let late = is_limited.then_some("its program was not started within its `timeout`");
                stopped.or(late).map(|reason| format!(": {reason}")).unwrap_or_default()
            }
        };
        let text = format!("{name} never ran and gave up at {}{why}.", self.since());
        self.advise_start(Told::new(text), "then run")
    }
}

/// What became of the events that a job waited for; `which` of several are lost.
fn loss(reason: &str, keys: &[EventKey], which: &str) -> String {
    let is_lost = reason.contains("can no longer come");
    match (is_lost, keys) {
        (true, [_, _, ..]) => format!("{which} can come any more"),
        (true, _) => "which can no longer come".to_owned(),
        (false, _) => "which did not come in time".to_owned(),
    }
}
