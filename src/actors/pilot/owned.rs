//! The actors that the Pilot owns: jobs with their health checks, and watches.

use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use slog::{Logger, warn};

use super::Pilot;
use crate::actors::health_check::{CheckResources, HealthCheck};
use crate::actors::job::machine::trigger::interests;
use crate::actors::job::{Job, JobResources};
use crate::actors::registry::Registry;
use crate::actors::watch::machine::State;
use crate::actors::watch::{Agent, Begin, Retire, Watch};
use crate::config::spec::{CheckSpec, JobSpec, WatchSpec};
use crate::messages::bus::{Interest, Subscribe, Unsubscribe};
use crate::messages::event::EventKey;
use crate::messages::health::CheckCommand;
use crate::messages::job::JobCommand;
use crate::process::has_terminal;

/// Creates jobs and their checks.
pub struct JobFactory {
    /// The other parts of the program that jobs use.
    pub jobs: Rc<JobResources>,
    /// The other parts of the program that checks use.
    pub checks: Rc<CheckResources>,
    /// Where they listen for events.
    pub registry: Addr<Registry>,
}

/// A job and its checks.
pub struct JobAddress {
    job: Addr<Job>,
    checks: Vec<Recipient<CheckCommand>>,
}

impl JobFactory {
    /// Creates a job with its checks, and subscribes it to its events.
    fn create(&self, spec: &Arc<JobSpec>, generation: u64, log: &Logger) -> JobAddress {
        let context = Context::<Job>::new();
        let check = |(index, check): (usize, &CheckSpec)| {
            let (spec, check, job) = (Arc::clone(spec), check.clone(), context.address().recipient());
            let check = HealthCheck::new(spec, index, check, job, Rc::clone(&self.checks), log);
            check.start().recipient()
        };
        let checks: Vec<Recipient<CheckCommand>> = spec.health.iter().enumerate().map(check).collect();
        let job = context.run(Job::new(Arc::clone(spec), generation, Rc::clone(&self.jobs), checks.clone()));
        let interest = Interest::Keys(interests(spec));
        self.registry.do_send(Subscribe { interest, recipient: job.clone().recipient() });
        JobAddress { job, checks }
    }
}

impl Pilot {
    pub(super) fn start_job(&mut self, spec: &Arc<JobSpec>, generation: u64) {
        if spec.tty && !has_terminal() {
            let text = "has no terminal, since the program has none: `docker run` needs -it for that";
            warn!(self.resources.log.logger(), "{text}"; "job" => &*spec.name);
        }
        let job = self.resources.jobs.create(spec, generation, self.resources.log.logger());
        self.jobs.insert(spec.name.clone(), job);
    }

    pub(super) fn end_job(&mut self, name: &Arc<str>) {
        if let Some(JobAddress { job, .. }) = self.jobs.remove(name) {
            job.do_send(JobCommand::Retire);
            self.resources.jobs.registry.do_send(Unsubscribe(job.recipient()));
        }
        let board = &mut self.resources.board.write();
        board.jobs.remove(name);
        let failing: Vec<_> = board.failing.keys().filter(|(job, _)| job == name).cloned().collect();
        for check in &failing {
            board.failing.remove(check);
        }
    }

    pub(super) fn tell(&self, name: &str, command: JobCommand) {
        if let Some(JobAddress { job, .. }) = self.jobs.get(name) {
            job.do_send(command);
        }
    }

    pub(super) fn publish_outcomes(&self, name: &str, are_awaited: bool) {
        for check in self.jobs.get(name).into_iter().flat_map(|job| &job.checks) {
            check.do_send(CheckCommand::PublishOutcomes(are_awaited));
        }
    }

    pub(super) fn tell_job_event(&self, name: &str, key: EventKey) {
        if let Some(JobAddress { job, .. }) = self.jobs.get(name) {
            job.do_send(self.resources.bus.private(key));
        }
    }

    pub(super) fn start_watch(&mut self, spec: WatchSpec, generation: u64) {
        let (bus, board) = (self.resources.bus.clone(), self.resources.board.clone());
        let agent = Agent {
            queries: self.resources.consul.clone().recipient(),
            removals: self.resources.consul.clone().recipient(),
        };
        let name = spec.name.clone();
        let clock = &self.resources.clock;
        let watch =
            Watch::new(State::new(spec, generation), bus, board, agent, (clock, self.resources.log.logger()));
        self.watches.insert(name, watch.start());
    }

    pub(super) fn end_watch(&mut self, name: &Arc<str>) {
        if let Some(watch) = self.watches.remove(name) {
            watch.do_send(Retire);
        }
        self.resources.board.write().watches.remove(name);
    }

    pub(super) fn begin_watch(&self, name: &str) {
        if let Some(watch) = self.watches.get(name) {
            watch.do_send(Begin);
        }
    }
}
