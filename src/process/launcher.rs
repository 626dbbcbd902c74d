//! Starts what jobs and health checks execute, in the order of the requests. A few starts at a time are handed to the
//! thread that makes them; one that takes long, as on a file system that hangs, lets the next begin beside it.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use slog::warn;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::adopted::kernel_name;
use super::children::{Children, Name, Owner};
use super::environment::{Environ, Request, process_name};
use super::execution::is_another_user;
use super::{Launch, Output, RunningJobs, SpawnOutcome};
use crate::config::spec::{CommandLine, JobSpec};
use crate::messages::event::EventKey;
use crate::messages::process::{ExecutionId, ExitStatus, Pid, ProcessEnded, Unstarted};
use crate::messages::signal::Signal;

/// Starts that are handed over before the first of them is over: enough to keep the thread at work.
const AT_ONCE: usize = 8;
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
    /// The processes of running jobs.
    running: RunningJobs,
    queue: Rc<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: RefCell<VecDeque<Waiting>>,
    /// Starts under way that are not known to be slow.
    under_way: Cell<usize>,
    /// The labels of starts that take long. Even after one was cancelled its thread hangs on, so the next start of that
    /// label waits: otherwise each try would take another thread.
    slow: RefCell<HashSet<Arc<str>>>,
}

impl Queue {
    /// The first start that may begin.
    fn next(&self) -> Option<Waiting> {
        let mut waiting = self.waiting.borrow_mut();
        let slow = self.slow.borrow();
        let place = waiting.iter().position(|waiting| !slow.contains(waiting.order.label()))?;
        waiting.remove(place)
    }
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

impl Order {
    fn label(&self) -> &Arc<str> {
        match &self.kind {
            Kind::Job => &self.job.name,
            Kind::Check(label) => label,
        }
    }
}

impl Launcher {
    /// A launcher into that table, with that environment.
    pub fn new(children: Children, environ: Environ) -> Self {
        let environ = Rc::new(RefCell::new(environ));
        Self { children, environ, running: RunningJobs::default(), queue: Rc::default() }
    }

    /// Asks for a process to be started; `owner` hears what becomes of it.
    pub fn launch(&self, order: Order, owner: Owner) -> ExecutionId {
        let execution = self.children.next_execution();
        self.queue.waiting.borrow_mut().push_back(Waiting { execution, order, owner });
        self.start_next();
        execution
    }

    /// Asks an execution to end: one without a process is cancelled, one whose program does not run yet is killed, any
    /// other one gets the signal.
    pub fn end(&self, execution: ExecutionId, signal: Signal) -> io::Result<()> {
        if self.cancel(execution) {
            return Ok(());
        }
        self.children.end(execution, signal)
    }

    /// Sends a signal to an execution, once its program runs.
    pub fn signal(&self, execution: ExecutionId, signal: Signal) -> io::Result<()> {
        self.children.signal(execution, signal)
    }

    /// Says that the process of a job has ended: others are not told of it any more.
    pub fn forget_process(&self, job: &str, process: Pid) {
        self.running.remove(&process_name(job), process);
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

    fn start_next(&self) {
        while self.queue.under_way.get() < AT_ONCE {
            let Some(Waiting { execution, order, owner }) = self.queue.next() else { return };
            self.queue.under_way.update(|count| count + 1);
            let label = order.label().clone();
            let job = matches!(order.kind, Kind::Job)
                .then(|| (order.job.name.clone(), kernel_name(&order.command.program)));
            let outcome = self.children.spawn(execution, self.describe(order), owner);
            let launcher = self.clone();
            actix_rt::spawn(async move { launcher.follow(execution, &Name { label, job }, outcome).await });
        }
    }

    async fn follow(
        &self,
        execution: ExecutionId,
        name: &Name,
        mut outcome: oneshot::Receiver<SpawnOutcome>,
    ) {
        let in_time = timeout(SLOW_AFTER, &mut outcome).await;
        self.queue.under_way.update(|count| count - 1);
        let settled = match in_time {
            Ok(outcome) => outcome,
            Err(_) => {
                self.queue.slow.borrow_mut().insert(name.label.clone());
                if !self.children.note_slow_start(execution) {
                    let log = self.children.log().logger();
                    warn!(log, "too many starts hang: others have to wait until a file system answers");
                }
                self.start_next();
                let outcome = self.outcome_of_slow_start(name, outcome).await;
                self.queue.slow.borrow_mut().remove(&name.label);
                outcome
            }
        };
        // A thread that panicked has started nothing that could be waited for.
        self.children.settle(execution, name, settled.unwrap_or(SpawnOutcome::Cancelled));
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
            running: self.running.clone(),
            variable: matches!(order.kind, Kind::Job).then(|| process_name(&order.job.name)),
            output: if order.raw_output { Output::Inherited } else { Output::Piped },
        }
    }
}
