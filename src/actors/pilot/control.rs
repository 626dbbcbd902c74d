//! Requests of the control plane to the Pilot.

use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::oneshot;

use super::Pilot;
use super::machine::{Input, Reply};
use crate::actors::web_server::inquiry::{Inquire, Knowledge};
use crate::config::exec_limits::{ExecLimits, cost_of_job, length};
use crate::config::spec::Environment;
use crate::messages::control::{
    ChangeEnvironment, ControlJob, Refusal, Reload, ReloadSummary, SetMaintenance,
};

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
            match reply.await {
                Ok(Reply::Reload(outcome)) => outcome,
                Ok(Reply::Order(_) | Reply::Maintenance(_)) | Err(_) => Err(given_up()),
            }
        })
    }
}

impl Handler<ControlJob> for Pilot {
    type Result = ResponseFuture<Result<(), Refusal>>;

    fn handle(&mut self, control: ControlJob, ctx: &mut Context<Self>) -> Self::Result {
        let reply = self.ask(|request| Input::JobOrdered(request, control), ctx);
        Box::pin(async {
            match reply.await {
                Ok(Reply::Order(outcome)) => outcome,
                Ok(Reply::Reload(_) | Reply::Maintenance(_)) | Err(_) => Err(given_up()),
            }
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
    type Result = Result<(), Refusal>;

    fn handle(
        &mut self,
        ChangeEnvironment(changes): ChangeEnvironment,
        _: &mut Context<Self>,
    ) -> Self::Result {
        let mut environ = self.resources.environ.borrow_mut();
        let mut changed = environ.clone();
        changed.change(&changes);
        let largest_job =
            self.driver.machine().spec().jobs.iter().map(|job| cost_of_job(job)).max().unwrap_or_default();
        acceptable(&changes, changed.cost() + largest_job, ExecLimits::current())
            .map_err(Refusal::TooLarge)?;
        *environ = changed;
        Ok(())
    }
}

/// Whether processes can still be started after these changes, when variables and arguments cost `total` then.
fn acceptable(changes: &Environment, total: usize, limits: ExecLimits) -> Result<(), String> {
    let set = changes.iter().filter_map(|(name, value)| Some((name, length(name, value.as_ref()?))));
    let Some((name, longest)) = set.max_by_key(|(_, length)| *length) else { return Ok(()) };
    let (string, all) = (limits.string(), limits.total());
    if longest > string {
        return Err(format!(
            "{name}: it would take {longest} bytes; no process can be started with a variable of more than {string}"
        ));
    }
    if total > all {
        return Err(format!(
            "{name}: with it all variables would take {total} bytes; no process can be started with more than {all}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_would_keep_processes_from_starting_are_refused() {
        let limits = ExecLimits::default();
        let set = |bytes: usize| vec![("A".to_owned(), Some("x".repeat(bytes))), ("B".into(), None)];
        assert_eq!(acceptable(&set(131_069), limits.total(), limits), Ok(()));
        let refused = |changes, total| acceptable(&changes, total, limits).unwrap_err();
        assert!(refused(set(131_070), 0).starts_with("A: it would take 131073 bytes; "));
        assert!(refused(set(1), limits.total() + 1).starts_with("A: with it all variables would take "));
        assert_eq!(
            acceptable(&vec![("B".into(), None)], limits.total() + 1, limits),
            Ok(()),
            "it gets better"
        );
    }
}
