//! A reload: load and validate, get hold of what the new configuration needs, stop what changed, then start what is new.
//! Nothing changes before the first two steps are done (`loaded`, `prepared`). Requests that come meanwhile are answered together
//! by one more reload.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::member::Member;
use super::plan::{Plan, plan};
use super::shutdown::LAST_CALL;
use super::stop_order::{self, Candidate};
use super::{Action, Purpose, Reply, Stage, State, Timer};
use crate::actors::machine::Severity;
use crate::config::spec::{Spec, StopBudget};
use crate::messages::control::{Refusal, Reload, ReloadSummary};
use crate::messages::job::{JobCommand, Phase, StopOccasion};
use crate::messages::moment::Moment;

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadConfiguration {
    /// The whole report, for those who asked for the reload.
    pub report: String,
    /// The same for the log: a line for each problem.
    pub lines: Vec<String>,
}

impl From<String> for BadConfiguration {
    fn from(report: String) -> Self {
        Self { lines: report.lines().map(str::to_owned).collect(), report }
    }
}

/// Reloads that were asked for and have not changed anything yet.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reloads {
    /// Asked for while another one was under way, or about to begin.
    next: Option<Asked>,
    /// Its configuration is being loaded or prepared.
    current: Option<Asked>,
    /// The configuration that is being prepared.
    spec: Option<Arc<Spec>>,
}

/// A reload that was asked for, by one or more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Asked {
    requests: Vec<u64>,
    restart_all: bool,
}

/// A reload under way: the old jobs are stopping.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reloading {
    pub(super) spec: Arc<Spec>,
    pub(super) plan: Plan,
    pub(super) requests: Vec<u64>,
    /// The number of the last news when it began.
    since: u64,
    /// The time is over that jobs have which run because others stop.
    is_late: bool,
}

/// A job that the reload ends, and that runs when others stop which it ends, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hook {
    /// Others still have to stop.
    Waits,
    /// They have stopped, which it may not know yet.
    IsCalled,
    /// It runs.
    Runs,
}

impl State {
    /// Somebody asks for a reload.
    pub(super) fn ask_reload(&mut self, request: Option<u64>, reload: Reload) -> Vec<Action> {
        if self.is_shutting_down() {
            return reply_all(request, &Err(not_now()));
        }
        if let (true, Some(request)) = (reload.dry_run, request) {
            return vec![Action::Load(Purpose::DryRun { request, restart_all: reload.restart_all })];
        }
        let next = self.reloads.next.get_or_insert_default();
        next.requests.extend(request);
        next.restart_all |= reload.restart_all;
        self.reload_next()
    }

    /// Begins the next reload, if one was asked for and none is under way.
    pub(super) fn reload_next(&mut self) -> Vec<Action> {
        if self.reloads.current.is_some() || !matches!(self.stage, Stage::Running) {
            return vec![];
        }
        self.reloads.current = self.reloads.next.take();
        self.reloads.current.iter().map(|_| Action::Load(Purpose::Reload)).collect()
    }

    /// A configuration was loaded, or could not be.
    pub(super) fn loaded(
        &mut self,
        purpose: Purpose,
        outcome: Result<Arc<Spec>, BadConfiguration>,
    ) -> Vec<Action> {
        if let Purpose::DryRun { request, restart_all } = purpose {
            let summary = |spec: Arc<Spec>| summary(&self.plan(&spec, restart_all));
            let refusal = |bad: BadConfiguration| Refusal::BadConfiguration(bad.report);
            return reply_all([request], &outcome.map(summary).map_err(refusal));
        }
        match outcome {
            Ok(spec) if self.reloads.current.is_some() => {
                self.reloads.spec = Some(Arc::clone(&spec));
                vec![Action::Prepare(spec)]
            }
            // It was refused meanwhile.
            Ok(_) => vec![],
            Err(bad) => self.refuse(bad),
        }
    }

    fn plan(&self, spec: &Spec, restart_all: bool) -> Plan {
        plan(&self.members.specs(), &spec.jobs, &spec.groups, &self.members.halted(), restart_all)
    }

    /// The new configuration cannot be used: nothing has changed.
    fn refuse(&mut self, bad: BadConfiguration) -> Vec<Action> {
        let Some(asked) = self.reloads.current.take() else { return vec![] };
        let text = "the configuration was not reloaded, everything goes on as it was:";
        let mut actions = vec![Action::log(Severity::Warning, text)];
        actions.extend(bad.lines.into_iter().map(|line| Action::log(Severity::Warning, line)));
        actions.extend(reply_all(asked.requests, &Err(Refusal::BadConfiguration(bad.report))));
        actions.extend(self.reload_next());
        actions
    }

    /// The listeners, log and Consul client of the new configuration are ready for use, or could not be made.
    pub(super) fn prepared(&mut self, now: Moment, outcome: Result<(), String>) -> Vec<Action> {
        let spec = self.reloads.spec.take();
        if let Err(report) = outcome {
            // The listeners may have been made, and the log not.
            return [vec![Action::Discard], self.refuse(report.into())].concat();
        }
        let (Some(spec), Some(asked)) = (spec, self.reloads.current.take()) else {
            return vec![Action::Discard];
        };
        self.members.begin_to_stop();
        let plan = self.plan(&spec, asked.restart_all);
        self.members.note_news();
        let since = self.members.news();
        let is_late = self.spec.stop_timeout == StopBudget::Immediate;
        let reloading = Reloading { spec, plan, requests: asked.requests, since, is_late };
        let has_hooks = self.hooks(&reloading).iter().any(Option::is_some);
        self.stage = Stage::Reloading(reloading);
        let mut actions = self.go_on_reloading(now);
        if let (true, StopBudget::Within(budget)) = (has_hooks, self.spec.stop_timeout) {
            // As long as in a shutdown.
            actions.push(Action::StartTimer(Timer::HooksOfReload(since), budget.mul_f64(LAST_CALL)));
        }
        actions
    }

    /// The time is over that jobs have which run because others stop; `since` tells of which reload.
    pub(super) fn hooks_elapsed(&mut self, now: Moment, since: u64) -> Vec<Action> {
        let Stage::Reloading(reloading) = &mut self.stage else { return vec![] };
        if reloading.since != since {
            return vec![];
        }
        reloading.is_late = true;
        self.go_on_reloading(now)
    }

    /// For each job, whether the reload has to wait for it to run because others stop.
    fn hooks(&self, reloading: &Reloading) -> Vec<Option<Hook>> {
        let stopping: BTreeSet<&str> = reloading.plan.stop.iter().map(|name| &**name).collect();
        let stops = |job: &Member| stopping.contains(&**job.name());
        let jobs = self.members.list();
        let hook = |job: &Member| {
            let may_be_called = stops(job) && job.listens_for_an_end() && !reloading.is_late;
            if !may_be_called || job.is_complete() || job.ran_before || job.told.is_some() {
                return None;
            }
            let others = jobs.iter().filter(|other| other.name() != job.name() && stops(other));
            let mut awaited = others.filter(|other| job.awaits_end_of(other)).peekable();
            if awaited.peek().is_none() {
                None
            } else if job.phase != Phase::Waiting {
                Some(Hook::Runs)
            } else if awaited.any(|other| !other.is_complete()) {
                Some(Hook::Waits)
            } else {
                (!self.members.is_confirmed(job)).then_some(Hook::IsCalled)
            }
        };
        jobs.iter().map(hook).collect()
    }

    /// Tells the next of the old jobs to stop; when all are gone, the new ones begin.
    pub(super) fn go_on_reloading(&mut self, now: Moment) -> Vec<Action> {
        let Stage::Reloading(reloading) = &self.stage else { return vec![] };
        let stopping: BTreeSet<&str> = reloading.plan.stop.iter().map(|name| &**name).collect();
        let jobs = self.members.list();
        let hooks = self.hooks(reloading);
        let candidates = jobs.iter().zip(&hooks);
        let candidates: Vec<Candidate<'_>> =
            candidates.map(|(job, hook)| candidate(job, stopping.contains(&**job.name()), *hook)).collect();
        if !candidates.iter().any(|candidate| candidate.remains || candidate.progresses) {
            // One that is over may have been started by hand just before, and its report of that be on its way.
            let over = self.members.list().iter().enumerate();
            let over = over.filter(|(_, job)| job.told.is_none() && stopping.contains(&**job.name()));
            let (over, since) = (over.map(|(index, _)| index).collect::<Vec<_>>(), reloading.since);
            let questions = self.members.ask_since(&over, since);
            return questions.unwrap_or_else(|| self.finish_reload(now));
        }
        let next = stop_order::next(&candidates);
        let called = hooks.iter().enumerate().filter(|(_, hook)| **hook == Some(Hook::IsCalled));
        let called: Vec<usize> = called.map(|(index, _)| index).collect();
        let mut actions = self.members.ask(&called).unwrap_or_default();
        let stop = JobCommand::Stop { cause: None, occasion: StopOccasion::Reload };
        actions.extend(self.members.stop(&next, now, stop));
        actions
    }

    /// No reload will be carried out any more.
    pub(super) fn refuse_reloads(&mut self) -> Vec<Action> {
        let asked = [self.reloads.next.take(), self.reloads.current.take()];
        let mut requests: Vec<u64> = asked.into_iter().flatten().flat_map(|asked| asked.requests).collect();
        let mut actions = Vec::new();
        if let Stage::Reloading(reloading) = &mut self.stage {
            requests.append(&mut reloading.requests);
            actions.push(Action::Discard);
        }
        actions.extend(reply_all(requests, &Err(not_now())));
        actions
    }
}

/// A job in a reload; `stops` says whether the reload ends it, and `hook` whether it may run before.
fn candidate(job: &Member, stops: bool, hook: Option<Hook>) -> Candidate<'_> {
    let (lives, waits) = (stops && !job.is_complete(), job.phase == Phase::Waiting);
    Candidate {
        name: job.name(),
        needs: &job.needs,
        remains: lives && job.told.is_none() && hook.is_none(),
        may_run: lives && (!waits || hook.is_some()),
        waits,
        progresses: lives && (job.told.is_some() || matches!(hook, Some(Hook::IsCalled | Hook::Runs))),
    }
}

fn not_now() -> Refusal {
    Refusal::NotNow("the program is shutting down".into())
}

pub(super) fn summary(plan: &Plan) -> ReloadSummary {
    let texts = |names: &[Arc<str>]| names.iter().map(|name| name.to_string()).collect();
    ReloadSummary { started: texts(&plan.start), stopped: texts(&plan.stop), kept: texts(&plan.keep) }
}

pub(super) fn reply_all(
    requests: impl IntoIterator<Item = u64>,
    outcome: &Result<ReloadSummary, Refusal>,
) -> Vec<Action> {
    let reply = |request| Action::Reply(request, Reply::Reload(outcome.clone()));
    requests.into_iter().map(reply).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::job;
    use super::*;

    #[test]
    fn what_a_job_needs_stays_while_the_reload_ends_it_and_it_may_run() {
        let may_run = |phase, stops| candidate(&job("app", phase), stops, None).may_run;
        assert!(may_run(Phase::Running, true));
        assert!(!may_run(Phase::Running, false), "the reload leaves it alone");
        assert!(!may_run(Phase::Waiting, true) && !may_run(Phase::Waiting, false));
        assert!(!may_run(Phase::Complete, true));
    }
}
