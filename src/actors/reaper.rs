//! The Reaper: starts, signals and waits for every process, and reaps the orphans that the kernel gives us. It alone
//! knows our children; it tells the owner of each what becomes of it. The decisions are in [`machine`].

use std::collections::HashMap;
use std::ffi::OsString;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use actix::prelude::*;
use slog::{error, warn};

use super::machine::{Clock, Driver, Severity};
use crate::logging::{ChildOutput, ChildStream, Keep, KeptOutput, Log};
use crate::messages::crashes::Usage;
use crate::messages::process::{
    EndOrphans, ExecutionId, ExecutionReport, Orphan, OrphansGone, Pid, ProcessEnded,
};
use crate::messages::signal::Signal;
use crate::process::{
    Deaths, Delivery, Environ, ExecutionCommand, Kernel, Kind, Order, Pipes, Progress, RunningJobs,
};

mod looking;
pub mod machine;
mod notifications;
mod spawning;
#[cfg(test)]
mod tests;

use machine::{Action, Input, Name, State};
use notifications::{Stores, Ways};

/// Starts, signals and waits for processes.
pub struct Reaper {
    driver: Driver<State>,
    kernel: Box<dyn Kernel>,
    /// The variables that processes start with.
    environ: Arc<Environ>,
    /// The processes of running jobs, which every process is told.
    running: RunningJobs,
    log: Log,
    /// Keeps the last output of jobs.
    kept: KeptOutput,
    /// Made for the first child that is piped.
    output: Option<ChildOutput>,
    /// The handles of an execution, which are no plain data. In boxes: the table keeps the size that it needed once.
    handles: HashMap<ExecutionId, Box<Handles>>,
    /// By what the process of an execution can tell us something, if its job asks for that.
    ways: HashMap<ExecutionId, Ways>,
    /// Descriptors that jobs have stored.
    stores: Stores,
    /// Starts under way.
    starts: HashMap<ExecutionId, Arc<Progress>>,
    /// Orphans whose description is settled; until they are reaped their numbers are their own.
    orphans: HashMap<Pid, Orphan>,
    /// Told when no orphan is left at the end of the program.
    orphans_gone: Recipient<OrphansGone>,
    /// The execution that has our terminal.
    at_terminal: Option<ExecutionId>,
    deaths: Option<Deaths>,
    /// Whether the next turn of the event loop goes on reaping.
    is_reaping: bool,
    /// A child ended before its start was settled, and is reaped after that.
    is_start_awaited: bool,
    /// Orphans that were reaped since our own children were last looked at.
    orphans_in_a_row: usize,
}

/// The handles of an execution, which are no plain data.
struct Handles {
    owner: Recipient<ExecutionReport>,
    /// The name that its output is logged under.
    label: Arc<str>,
    /// The variable that tells others of its process, if it is a job's.
    variable: Option<OsString>,
    /// How much of its output is kept.
    keep: Keep,
    /// The order to start it, until that begins.
    order: Option<Order>,
    /// The pipes of its output, until they are forwarded.
    pipes: Option<Pipes>,
    /// Its stdout and stderr, where they can be read.
    output: [Option<ChildStream>; 2],
    /// The resources that its process used, once it is reaped.
    usage: Option<Box<Usage>>,
}

/// SIGCHLD arrived: one or more children ended.
#[derive(Message)]
#[rtype(result = "()")]
struct ChildrenDied;

impl Reaper {
    /// A reaper that hears of every child that ends from now on.
    pub fn new(
        kernel: Box<dyn Kernel>,
        environ: Arc<Environ>,
        orphans_gone: Recipient<OrphansGone>,
        clock: &Clock,
        (log, kept): (Log, KeptOutput),
    ) -> io::Result<Self> {
        Ok(Self {
            driver: Driver::new(State::new(kernel.memory_kills()), clock),
            deaths: Some(kernel.deaths()?),
            kernel,
            environ,
            running: RunningJobs::default(),
            log,
            kept,
            output: None,
            handles: HashMap::new(),
            ways: HashMap::new(),
            stores: Stores::default(),
            starts: HashMap::new(),
            orphans: HashMap::new(),
            orphans_gone,
            at_terminal: None,
            is_reaping: false,
            is_start_awaited: false,
            orphans_in_a_row: 0,
        })
    }

    fn advance(&mut self, input: Input, ctx: &mut Context<Self>) {
        for action in self.driver.step(input) {
            self.perform(action, ctx);
        }
    }

    fn perform(&mut self, action: Action, ctx: &mut Context<Self>) {
        match action {
            Action::Spawn(execution) => self.spawn(execution, ctx),
            Action::HelpSlowStarts => {
                if !self.kernel.help_slow_starts() {
                    let log = self.log.logger();
                    warn!(log, "too many starts hang: others have to wait until a file system answers");
                }
            }
            Action::Signal { execution, group, signal, leader_lives } => {
                self.signal(execution, group, signal, ctx);
                if leader_lives && self.kernel.group_of(group).is_some_and(|actual| actual != group) {
                    self.kernel.signal_process(group, signal);
                }
            }
            Action::SignalGroup(group, signal) => drop(self.kernel.signal_group(group, signal)),
            Action::SignalProcess(child, signal) => self.kernel.signal_process(child, signal),
            Action::SignalAll(signal) => {
                if !self.kernel.signal_all_children(signal) {
                    self.advance(Input::OrphansAreUnknown, ctx);
                }
            }
            Action::DrainOutput(execution, status) => {
                let output = self.handles.get(&execution).map(|handles| &handles.output);
                for stream in output.into_iter().flatten().flatten() {
                    stream.drain();
                    stream.release(status.is_success());
                }
                self.hear_the_last(execution);
            }
            Action::TellStarted(started) => {
                self.forward_output(started.execution, started.pid);
                if let Some(handles) = self.handles.get(&started.execution) {
                    handles.owner.do_send(ExecutionReport::Started(started));
                }
                self.listen(started.execution, ctx);
            }
            Action::TellEnded(ended) => {
                self.listen_no_more(ended.execution, ctx);
                self.tell_ended(ended);
            }
            Action::TellGone(execution) => {
                if let Some(handles) = self.handles.remove(&execution) {
                    // Else its pipes stay open as long as nobody reads the log.
                    handles.output.iter().flatten().for_each(ChildStream::drain);
                    handles.owner.do_send(ExecutionReport::Gone(execution));
                }
            }
            Action::SweepAfter(wait) => {
                ctx.run_later(wait, |reaper, ctx| {
                    let survey =
                        reaper.survey(|kernel, groups| kernel.living_groups(groups).into_iter().collect());
                    reaper.advance(Input::Swept(survey), ctx);
                });
            }
            Action::LookForOrphansAfter(wait) if wait.is_zero() => self.look_for_orphans(ctx),
            Action::LookForOrphansAfter(wait) => {
                ctx.run_later(wait, Self::look_for_orphans);
            }
            Action::TellOrphansGone => self.orphans_gone.do_send(OrphansGone),
            Action::Log(severity, label, text) => self.log(severity, label.as_deref(), &text),
        }
    }

    fn signal(&mut self, execution: ExecutionId, group: Pid, signal: Signal, ctx: &mut Context<Self>) {
        match self.kernel.signal_group(group, signal) {
            Ok(Delivery::Sent) => {}
            Ok(Delivery::NoSuchGroup) => self.advance(Input::GroupIsEmpty(execution), ctx),
            Err(error) => {
                let label = self.handles.get(&execution).map(|handles| &*handles.label);
                error!(self.log.logger(), "cannot send {signal}: {error}"; "job" => label, "pid" => group.number());
            }
        }
    }

    fn tell_ended(&mut self, ended: ProcessEnded) {
        let Some(handles) = self.handles.get_mut(&ended.execution) else { return };
        if self.at_terminal == Some(ended.execution) {
            self.at_terminal = None;
            self.kernel.take_terminal_back();
        }
        if let (Some(variable), Some(pid)) = (&handles.variable, ended.pid) {
            self.running.remove(variable, pid);
        }
        let (execution, leftover) = (ended.execution, ended.leftover);
        handles.owner.do_send(ExecutionReport::Ended(ended, handles.usage.take()));
        if !leftover {
            self.handles.remove(&execution);
        }
    }

    /// SIGCHLD also tells of children that were stopped. Only that of the job at the terminal matters.
    fn look_for_stop(&mut self, ctx: &mut Context<Self>) {
        let Some(execution) = self.at_terminal else { return };
        let mut running = self.driver.machine().running().iter();
        let Some((&pid, _)) = running.find(|(_, of)| **of == execution) else { return };
        if let Some(signal) = self.kernel.stopped_by(pid) {
            self.advance(Input::ChildStopped(pid, signal), ctx);
        }
    }

    fn look_for_orphans(&mut self, ctx: &mut Context<Self>) {
        let are_left = self.kernel.has_children();
        self.advance(Input::OrphansLookedFor { are_left }, ctx);
    }

    fn log(&self, severity: Severity, label: Option<&str>, text: &str) {
        let log = self.log.logger();
        match label {
            Some(label) => severity.log(log, text, slog::kv!("job" => label)),
            None => severity.log(log, text, ()),
        }
    }
}

impl Actor for Reaper {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(mut deaths) = self.deaths.take() {
            let reaper = ctx.address();
            ctx.spawn(fut::wrap_future(async move {
                while poll_fn(&mut deaths).await.is_some() {
                    reaper.do_send(ChildrenDied);
                }
            }));
        }
        self.reap(ctx); // what our parent left us with
    }
}

impl Handler<ChildrenDied> for Reaper {
    type Result = ();

    fn handle(&mut self, _: ChildrenDied, ctx: &mut Context<Self>) {
        if !self.is_reaping {
            self.reap(ctx);
        }
        self.look_for_stop(ctx);
    }
}

impl Handler<ExecutionCommand> for Reaper {
    type Result = ();

    fn handle(&mut self, command: ExecutionCommand, ctx: &mut Context<Self>) {
        match command {
            ExecutionCommand::Launch(execution, order, owner) => {
                let (label, variable) = (order.label().clone(), order.variable());
                let name = Name { label: label.clone(), job: order.owner_of_orphans() };
                let keep = match order.kind {
                    Kind::Job => order.job.keep.map_or(Keep::Default, Keep::Bytes),
                    Kind::Check(..) => Keep::Nothing,
                };
                let order = Some(order);
                let handles = Box::new(Handles {
                    owner,
                    label,
                    variable,
                    keep,
                    order,
                    pipes: None,
                    output: [None, None],
                    usage: None,
                });
                self.handles.insert(execution, handles);
                self.advance(Input::LaunchAsked(execution, name), ctx);
            }
            ExecutionCommand::End(execution, signal) => {
                let start = self.starts.get(&execution);
                let is_cancelled = start.is_some_and(|progress| progress.cancel());
                let pid = start.and_then(|progress| progress.pid());
                self.advance(Input::EndAsked { execution, signal, is_cancelled, pid }, ctx);
            }
            ExecutionCommand::KeepDescriptors(jobs) => self.stores.keep(&jobs),
            ExecutionCommand::UseEnvironment(environ, tell) => {
                self.environ = environ;
                let _ = tell.send(());
            }
            ExecutionCommand::Signal(execution, signal) => {
                self.advance(Input::SignalAsked(execution, signal), ctx);
            }
            ExecutionCommand::Forward(execution, main, signal) => {
                let group = self.driver.machine().group_of(execution);
                // The number may belong to somebody else by now.
                let main = main.filter(|pid| group.is_some() && self.kernel.group_of(*pid) == group);
                self.advance(Input::ForwardAsked(execution, main, signal), ctx);
            }
        }
    }
}

impl Handler<EndOrphans> for Reaper {
    type Result = ();

    fn handle(&mut self, command: EndOrphans, ctx: &mut Context<Self>) {
        self.advance(Input::EndOrphansAsked(command), ctx);
    }
}
