//! How the Reaper has processes started: on a thread of [`crate::process`], whose outcome it awaits.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use slog::error;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Reaper;
use super::machine::{Failure, Input, SLOW_AFTER, StartOutcome, TELL_AFTER};
use super::notifications::Ways;
use crate::logging::{ChildOutput, Label, OutputStream};
use crate::messages::process::{ExecutionId, Pid};
use crate::process::{Output, SpawnError, SpawnOutcome, Spawned, Spawning};
use crate::reason::reason;

type Outcome = oneshot::Receiver<SpawnOutcome>;

impl Reaper {
    pub(super) fn spawn(&mut self, execution: ExecutionId, ctx: &mut Context<Self>) {
        let Some(handles) = self.handles.get_mut(&execution) else { return };
        let Some(order) = handles.order.take() else { return };
        let (ways, passed) = match Ways::open(&order, &self.stores) {
            Ok(opened) => opened,
            Err(error) => {
                // Settled in a later turn, as any other start: the next one may fail in the same way.
                let (tell, outcome) = oneshot::channel();
                let error =
                    SpawnError::new("open the way by which it tells that it is ready".to_owned(), error);
                let _ = tell.send(SpawnOutcome::Failed { error, child: None });
                return await_outcome(execution, outcome, SLOW_AFTER, Self::await_slow_start, ctx);
            }
        };
        self.ways.extend(ways.map(|ways| (execution, ways)));
        let launch = order.describe(&self.environ, &self.running, passed);
        let Some(launch) = launch else { return };
        if launch.output == Output::Terminal {
            self.at_terminal = Some(execution);
        }
        let Spawning { progress, outcome } = self.kernel.spawn(launch);
        self.starts.insert(execution, progress);
        await_outcome(execution, outcome, SLOW_AFTER, Self::await_slow_start, ctx);
    }

    fn await_slow_start(&mut self, execution: ExecutionId, outcome: Outcome, ctx: &mut Context<Self>) {
        await_outcome(execution, outcome, TELL_AFTER, Self::await_hanging_start, ctx);
        let pid = self.starts.get(&execution).and_then(|progress| progress.pid());
        self.advance(Input::StartIsSlow(execution, pid), ctx);
    }

    fn await_hanging_start(&mut self, execution: ExecutionId, outcome: Outcome, ctx: &mut Context<Self>) {
        ctx.spawn(fut::wrap_future(outcome).map(move |outcome, reaper: &mut Self, ctx| {
            reaper.settle(execution, outcome.ok(), ctx);
        }));
        self.advance(Input::StartHangs(execution), ctx);
    }

    /// Takes note of what became of a start.
    fn settle(&mut self, execution: ExecutionId, outcome: Option<SpawnOutcome>, ctx: &mut Context<Self>) {
        self.starts.remove(&execution);
        // A thread that panicked has started nothing that could be waited for.
        let (start, pipes) = match outcome.unwrap_or(SpawnOutcome::Cancelled) {
            SpawnOutcome::Started(Spawned { pid, pipes }) => (StartOutcome::Started(pid), pipes),
            SpawnOutcome::Failed { error, child } => {
                let failure = Failure { reason: error.to_string(), status: error.shell_code() };
                (StartOutcome::Failed { failure, child }, None)
            }
            SpawnOutcome::Cancelled => (StartOutcome::Cancelled, None),
        };
        if let Some(handles) = self.handles.get_mut(&execution) {
            handles.pipes = pipes;
        }
        let started = if let StartOutcome::Started(pid) = &start { Some(*pid) } else { None };
        self.advance(Input::SpawnSettled(execution, start), ctx);
        // One that was killed meanwhile may have written something before.
        if let Some(pid) = started {
            self.forward_output(execution, pid);
        }
        if self.is_start_awaited && !self.is_reaping {
            self.reap(ctx);
        }
        // It may have been stopped before, when nothing was known of it yet.
        self.look_for_stop(ctx);
    }

    /// Forwards the output of a job as it comes, that of a health check when it has ended.
    pub(super) fn forward_output(&mut self, execution: ExecutionId, pid: Pid) {
        let watch = self.watch_lines(execution);
        let Some(handles) = self.handles.get_mut(&execution) else { return };
        let Some(pipes) = handles.pipes.take() else { return };
        let number = u32::try_from(pid.number()).unwrap_or_default();
        let streams = [(pipes.stdout, OutputStream::Stdout), (pipes.stderr, OutputStream::Stderr)];
        handles.output = streams.map(|(pipe, stream)| {
            let label = Label { job: Arc::clone(&handles.label), pid: number, stream };
            let output = match &self.output {
                Some(output) => Ok(output),
                None => ChildOutput::start(&self.log, self.kept.clone()).map(|output| &*self.output.insert(output)),
            };
            let added = output.and_then(|output| match &handles.variable {
                Some(_) => output.add(pipe, label.clone(), handles.keep),
                None => output.add_held(pipe, label.clone(), handles.keep),
            });
            let tell = |error: &io::Error| {
                error!(self.log.logger(), "cannot read its output: {}", reason(error); "job" => &*label.job, "pid" => pid.number());
            };
            let stream = added.inspect_err(tell).ok();
            if let (Some(stream), Some(watch)) = (&stream, &watch) {
                stream.watch(watch.clone());
            }
            stream
        });
    }
}

/// Settles a start, unless that takes longer than `limit`; then `late` goes on.
fn await_outcome(
    execution: ExecutionId,
    mut outcome: Outcome,
    limit: Duration,
    late: fn(&mut Reaper, ExecutionId, Outcome, &mut Context<Reaper>),
    ctx: &mut Context<Reaper>,
) {
    let wait = async move { (timeout(limit, &mut outcome).await, outcome) };
    ctx.spawn(fut::wrap_future(wait).map(
        move |(in_time, outcome), reaper: &mut Reaper, ctx| match in_time {
            Ok(settled) => reaper.settle(execution, settled.ok(), ctx),
            Err(_) => late(reaper, execution, outcome, ctx),
        },
    ));
}
