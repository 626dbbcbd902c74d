//! Starts what jobs and health checks execute, one after the other and in the order of the requests. A start that takes
//! long, as on a file system that hangs, lets the next one begin beside it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use slog::warn;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::children::{Children, Name, Owner};
use super::environment::{Environ, Request};
use super::execution::is_another_user;
use super::{Launch, Output, SpawnOutcome};
use crate::config::spec::{CommandLine, JobSpec};
use crate::messages::event::EventKey;
use crate::messages::process::{ExecutionId, ExitStatus, ProcessEnded, Unstarted};
use crate::messages::signal::Signal;

/// A start that takes longer does not keep others waiting.
const SLOW_AFTER: Duration = Duration::from_millis(100);
/// A start that takes longer is told in the log.
const TELL_AFTER: Duration = Duration::from_secs(5);

/// Starts processes; clones share the queue, the environment and the table of children.
#[derive(Clone)]
pub struct Launcher {
    /// Every live child.
    pub children: Children,
    /// The variables that processes start with.
    pub environ: Rc<RefCell<Environ>>,
    queue: Rc<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: RefCell<VecDeque<Waiting>>,
    /// A start is under way that is not known to be slow.
    busy: Cell<bool>,
}

struct Waiting {
    execution: ExecutionId,
    order: Order,
    owner: Owner,
}

/// One process to start.
#[derive(Clone)]
pub struct Order {
    /// The job that it belongs to.
    pub job: Arc<JobSpec>,
    /// The program and its arguments.
    pub command: CommandLine,
    /// Whether it is the job's own process, or a health check's.
    pub kind: Kind,
    /// Whether it writes to our own stdout and stderr.
    pub raw_output: bool,
    /// The event that started it.
    pub occasion: Option<EventKey>,
}

/// What a process is for.
#[derive(Clone)]
pub enum Kind {
    /// It is the job's process.
    Job,
    /// It checks the job; its output is logged under this name.
    Check(Arc<str>),
}

impl Launcher {
    /// A launcher into that table, with that environment.
    pub fn new(children: Children, environ: Environ) -> Self {
        Self { children, environ: Rc::new(RefCell::new(environ)), queue: Rc::default() }
    }

    /// Asks for a process to be started; `owner` hears what becomes of it.
    pub fn launch(&self, order: Order, owner: Owner) -> ExecutionId {
        let execution = self.children.next_execution();
        self.queue.waiting.borrow_mut().push_back(Waiting { execution, order, owner });
        self.start_next();
        execution
    }

    /// Asks an execution to end: one without a process is cancelled, one with gets the signal. A stopped process acts on
    /// it only after SIGCONT.
    pub fn end(&self, execution: ExecutionId, signal: Signal) -> io::Result<()> {
        if self.cancel(execution) {
            return Ok(());
        }
        self.children.signal(execution, signal)?;
        if signal == Signal::KILL { Ok(()) } else { self.children.signal(execution, Signal::CONT) }
    }

    /// Sends a signal to an execution, once its program runs.
    pub fn signal(&self, execution: ExecutionId, signal: Signal) -> io::Result<()> {
        self.children.signal(execution, signal)
    }

    fn cancel(&self, execution: ExecutionId) -> bool {
        let mut waiting = self.queue.waiting.borrow_mut();
        let Some(place) = waiting.iter().position(|waiting| waiting.execution == execution) else {
            return self.children.cancel(execution);
        };
        if let Some(Waiting { owner, .. }) = waiting.remove(place) {
            owner.ended.do_send(ProcessEnded {
                execution,
                pid: None,
                status: ExitStatus::Code(126),
                unstarted: Some(Unstarted::Cancelled),
                for_memory: false,
                daemons: vec![],
                leftover: false,
            });
        }
        true
    }

    /// One start at a time, so that each process is told the numbers of those started before it.
    fn start_next(&self) {
        if self.queue.busy.get() {
            return;
        }
        let Some(Waiting { execution, order, owner }) = self.queue.waiting.borrow_mut().pop_front() else {
            return;
        };
        self.queue.busy.set(true);
        let (label, job) = match &order.kind {
            Kind::Job => (order.job.name.clone(), Some(order.job.name.clone())),
            Kind::Check(label) => (label.clone(), None),
        };
        let outcome = self.children.spawn(execution, self.describe(order), owner);
        let launcher = self.clone();
        actix_rt::spawn(async move { launcher.follow(execution, &Name { label, job }, outcome).await });
    }

    async fn follow(
        &self,
        execution: ExecutionId,
        name: &Name,
        mut outcome: oneshot::Receiver<SpawnOutcome>,
    ) {
        let settled = if let Ok(outcome) = timeout(SLOW_AFTER, &mut outcome).await {
            self.queue.busy.set(false);
            outcome
        } else {
            self.queue.busy.set(false);
            self.start_next();
            self.outcome_of_slow_start(name, outcome).await
        };
        // A thread that panicked has started nothing that could be waited for.
        let settled = settled.unwrap_or(SpawnOutcome::Cancelled);
        let process = self.children.settle(execution, name, settled);
        if let (Some(job), Some(process)) = (&name.job, process) {
            self.environ.borrow_mut().set_process(job, Some(process));
        }
        self.start_next();
    }

    async fn outcome_of_slow_start(
        &self,
        name: &Name,
        mut outcome: oneshot::Receiver<SpawnOutcome>,
    ) -> Result<SpawnOutcome, oneshot::error::RecvError> {
        if let Ok(outcome) = timeout(TELL_AFTER, &mut outcome).await {
            return outcome;
        }
        warn!(
            self.children.log().logger(),
            "is still being started after {} s: the file system of its program does not answer",
            TELL_AFTER.as_secs();
            "job" => &*name.label
        );
        outcome.await
    }

    fn describe(&self, order: Order) -> Launch {
        let execution = &order.job.execution;
        let environment = self.environ.borrow().build(&Request {
            job: matches!(order.kind, Kind::Job).then_some(&*order.job.name),
            another_user: execution.user.as_ref().is_some_and(is_another_user),
            own: &execution.env,
            occasion: order.occasion.as_ref(),
        });
        Launch {
            command: order.command,
            execution: execution.clone(),
            environment,
            output: if order.raw_output { Output::Inherited } else { Output::Piped },
        }
    }
}
