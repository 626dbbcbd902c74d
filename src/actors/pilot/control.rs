//! Requests of the control plane to the Pilot.

use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::oneshot;

use super::Pilot;
use super::machine::{ExecStrings, Input, Reply};
use crate::actors::web_server::inquiry::{Inquire, Knowledge};
use crate::config::exec_limits::{ExecLimits, cost_of_job, length};
use crate::config::spec::Environment;
use crate::messages::control::{
    ChangeEnvironment, ControlJob, Refusal, Reload, ReloadSummary, SetMaintenance,
};
use crate::process::Environ;

impl Pilot {
    /// Hands a request to the machine; the reply comes when it is known.
    fn ask(&mut self, input: impl FnOnce(u64) -> Input, ctx: &mut Context<Self>) -> oneshot::Receiver<Reply> {
        self.last_request += 1;
        let (asker, reply) = oneshot::channel();
        self.replies.insert(self.last_request, asker);
        self.advance(input(self.last_request), ctx);
        reply
    }
}

fn given_up() -> Refusal {
    Refusal::NotNow("the program is shutting down".into())
}

impl Handler<Reload> for Pilot {
    type Result = ResponseFuture<Result<ReloadSummary, Refusal>>;

    fn handle(&mut self, reload: Reload, ctx: &mut Context<Self>) -> Self::Result {
        let reply = self.ask(|request| Input::ReloadAsked(Some(request), reload), ctx);
        Box::pin(async {
            let Ok(Reply::Reload(outcome)) = reply.await else { return Err(given_up()) };
            outcome
        })
    }
}

impl Handler<ControlJob> for Pilot {
    type Result = ResponseFuture<Result<(), Refusal>>;

    fn handle(&mut self, control: ControlJob, ctx: &mut Context<Self>) -> Self::Result {
        let reply = self.ask(|request| Input::JobOrdered(request, control), ctx);
        Box::pin(async {
            let Ok(Reply::Order(outcome)) = reply.await else { return Err(given_up()) };
            outcome
        })
    }
}

impl Handler<SetMaintenance> for Pilot {
    type Result = ResponseFuture<bool>;

    fn handle(&mut self, SetMaintenance(on): SetMaintenance, ctx: &mut Context<Self>) -> Self::Result {
        let reply = self.ask(|request| Input::MaintenanceSet(request, on), ctx);
        Box::pin(async { matches!(reply.await, Ok(Reply::Maintenance(true))) })
    }
}

impl Handler<Inquire> for Pilot {
    type Result = MessageResult<Inquire>;

    fn handle(&mut self, Inquire(job): Inquire, _: &mut Context<Self>) -> Self::Result {
        let machine = self.driver.machine();
        let awaited = job.map(|job| machine.prospects(&job)).unwrap_or_default();
        MessageResult(Knowledge { spec: Arc::clone(machine.spec()), awaited })
    }
}

impl Handler<ChangeEnvironment> for Pilot {
    type Result = ResponseFuture<Result<(), Refusal>>;

    fn handle(
        &mut self,
        ChangeEnvironment(changes): ChangeEnvironment,
        ctx: &mut Context<Self>,
    ) -> Self::Result {
        let mut changed = Environ::clone(&self.resources.environ);
        changed.change(&changes);
        let strings = self.exec_strings(&changes, &changed);
        self.changed_environ = Some(changed);
        let reply = self.ask(|request| Input::EnvironmentAsked(request, strings), ctx);
        self.changed_environ = None; // if it was refused
        Box::pin(async {
            let Ok(Reply::Environment(outcome)) = reply.await else { return Err(given_up()) };
            outcome
        })
    }
}

impl Pilot {
    fn exec_strings(&self, changes: &Environment, changed: &Environ) -> ExecStrings {
        let set = changes.iter().filter_map(|(name, value)| Some((name, length(name, value.as_ref()?))));
        let longest = set.max_by_key(|(_, length)| *length).map(|(name, length)| (name.clone(), length));
        let jobs = &self.driver.machine().spec().jobs;
        let largest_job = jobs.iter().map(|job| cost_of_job(job)).max().unwrap_or_default();
        let limits = ExecLimits::current();
        ExecStrings {
            longest,
            string_limit: limits.string(),
            total: changed.cost() + largest_job,
            total_limit: limits.total(),
        }
    }

    /// Starts processes with the changed environment from now on.
    pub(super) fn use_environment(&mut self, request: u64, ctx: &mut Context<Self>) {
        let Some(changed) = self.changed_environ.take() else {
            debug_assert!(false, "a change is decided while it is asked for");
            self.replies.remove(&request);
            return;
        };
        self.resources.environ = Arc::new(changed);
        let used = self.resources.jobs.jobs.launcher.use_environment(Arc::clone(&self.resources.environ));
        ctx.spawn(fut::wrap_future(used).map(move |_, pilot: &mut Self, ctx| {
            pilot.advance(Input::EnvironmentUsed(request), ctx);
        }));
    }
}
