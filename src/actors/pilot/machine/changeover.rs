//! The last step of a reload: the old jobs are gone, and the new configuration comes into force.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::member::Member;
use super::reload::{Reloading, reply_all, summary};
use super::{Action, Stage, State, facts, global, watches_of};
use crate::actors::machine::{LogLine, Severity};
use crate::config::spec::{JobSpec, Spec, WatchSpec};
use crate::messages::event::{EventCode, EventKey};
use crate::messages::job::JobCommand;
use crate::messages::moment::Moment;

impl State {
    /// Ends what was stopped and starts what is new.
    pub(super) fn finish_reload(&mut self, now: Moment) -> Vec<Action> {
        let Stage::Reloading(reloading) = std::mem::replace(&mut self.stage, Stage::Running) else {
            return vec![];
        };
        let Reloading { spec, plan, requests, .. } = reloading;
        let old = std::mem::replace(&mut self.spec, Arc::clone(&spec));
        self.generation = self.generation.saturating_add(1);
        let stopped: BTreeSet<&str> = plan.stop.iter().map(|name| &**name).collect();
        let started: BTreeSet<&str> = plan.start.iter().map(|name| &**name).collect();
        let mut facts = facts::known(self.members.list(), &self.watches, &stopped);
        facts.retain(|key| facts::is_observed_still(key, &old, &spec));
        let new: Vec<&Arc<JobSpec>> = spec.jobs.iter().filter(|job| started.contains(&*job.name)).collect();
        let mut actions = vec![Action::Adopt(Arc::clone(&spec))];
        actions.extend(plan.stop.iter().cloned().map(Action::EndJob));
        actions.extend(self.start_jobs(&new, |name| !stopped.contains(name)));
        actions.extend(self.change_awaited_checks(&old, &started));
        self.change_groups(&started);
        facts.extend(facts::of_groups(&self.groups));
        actions.extend(new.iter().flat_map(|job| self.welcome(job, &facts)));
        actions.extend(self.go_on_with_groups(now));
        actions.extend(self.change_discovery(&old, &spec));
        let summary = summary(&plan);
        let line = LogLine::new(Severity::Info, "reloaded")
            .about("started", summary.started.join(" "))
            .about("stopped", summary.stopped.join(" "))
            .about("kept", summary.kept.len().to_string());
        actions.push(Action::Log(line));
        actions.extend(reply_all(requests, &Ok(summary)));
        actions.extend(self.decide_soon());
        actions.extend(self.reload_next());
        actions
    }

    /// Starts jobs, beside those of the old ones that `keep` accepts.
    pub(super) fn start_jobs(&mut self, new: &[&Arc<JobSpec>], keep: impl Fn(&str) -> bool) -> Vec<Action> {
        let generation = self.generation;
        let members = new.iter().map(|job| Member::new(Arc::clone(job), generation)).collect();
        self.members.change(keep, members, &self.spec.jobs);
        let awaited = self.spec.awaited_checks();
        let mut actions = Vec::new();
        for job in new {
            actions.push(Action::StartJob(Arc::clone(job), generation));
            if awaited.contains(&job.name) {
                actions.push(Action::PublishOutcomes(job.name.clone(), true));
            }
        }
        actions
    }

    /// Has the checks of jobs that stay publish the outcomes of their tries if a job waits for them now, and no longer if
    /// none does.
    fn change_awaited_checks(&self, old: &Spec, started: &BTreeSet<&str>) -> Vec<Action> {
        let (before, after) = (old.awaited_checks(), self.spec.awaited_checks());
        let mut actions = Vec::new();
        for job in self.members.list().iter().filter(|job| !started.contains(&**job.name())) {
            let is_awaited = after.contains(job.name());
            if is_awaited != before.contains(job.name()) {
                actions.push(Action::PublishOutcomes(job.name().clone(), is_awaited));
            }
        }
        actions
    }

    /// Tells a new job of `startup`, and of what has come before it and still holds.
    fn welcome(&self, job: &JobSpec, facts: &BTreeSet<EventKey>) -> Vec<Action> {
        let maintain = self.maintenance.then(|| Action::Tell(job.name.clone(), JobCommand::Maintain(true)));
        let past = facts::wanted(&job.when).iter().filter(|key| facts.contains(key)).cloned();
        let events = [global(EventCode::Startup)].into_iter().chain(past);
        maintain.into_iter().chain(events.map(|key| Action::TellJobEvent(job.name.clone(), key))).collect()
    }

    /// Changes what changed of Consul, our own service and the watches.
    fn change_discovery(&mut self, old: &Spec, new: &Spec) -> Vec<Action> {
        let mut actions = Vec::new();
        if old.consul != new.consul {
            actions.push(Action::Reconnect(new.consul.clone()));
        }
        if old.telemetry != new.telemetry {
            actions.push(Action::AdvertiseTelemetry(new.telemetry.clone()));
        }
        let (before, after) = (watches_of(old), watches_of(new));
        let is_in = |watch: &WatchSpec, other: &[WatchSpec]| other.iter().any(|it| it.observes_like(watch));
        for watch in before.iter().filter(|watch| !is_in(watch, after)) {
            self.watches.remove(&watch.name);
            actions.push(Action::EndWatch(watch.name.clone()));
        }
        for watch in after.iter().filter(|watch| !is_in(watch, before)) {
            actions.push(self.start_watch(watch));
        }
        actions.extend(self.begin_watches());
        actions
    }
}
