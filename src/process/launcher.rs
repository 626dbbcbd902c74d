//! How jobs and health checks have their programs executed: a handle on the Reaper, which starts, signals and waits for
//! every process.

use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix::prelude::{Message, Recipient};
use tokio::sync::oneshot;

use super::adopted::kernel_name;
use super::environment::{Environ, Request, process_name};
use super::execution::is_another_user;
use super::terminal::has_terminal;
use super::{Launch, Output, Passed, RunningJobs};
use crate::config::spec::{CommandLine, JobSpec, Spec};
use crate::messages::event::EventKey;
use crate::messages::process::{ExecutionId, ExecutionReport, Pid};
use crate::messages::signal::Signal;

/// Has programs executed; clones share the numbers of executions.
#[derive(Clone)]
pub struct Launcher {
    reaper: Recipient<ExecutionCommand>,
    next: Arc<AtomicU64>,
}

/// Command to the Reaper.
#[derive(Message)]
#[rtype(result = "()")]
pub enum ExecutionCommand {
    /// Start a process, and tell its owner what becomes of it.
    Launch(ExecutionId, Order, Recipient<ExecutionReport>),
    /// Ask an execution to end: one without a process is cancelled, one whose program does not run yet is killed, any
    /// other one gets the signal.
    End(ExecutionId, Signal),
    /// Send a signal to an execution, once its program runs.
    Signal(ExecutionId, Signal),
    /// Keep the descriptors that these jobs have stored, and those of no other job.
    KeepDescriptors(HashSet<Arc<str>>),
    /// Start processes with these variables from now on, and tell so.
    UseEnvironment(Arc<Environ>, oneshot::Sender<()>),
    /// Send a signal to the main process of an execution alone, once its program runs: to the one that it has named, or to
    /// the one that was started.
    Forward(ExecutionId, Option<Pid>, Signal),
}

/// One process to start.
#[derive(Clone)]
pub struct Order {
    /// The job that it belongs to.
    pub job: Arc<JobSpec>,
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
    /// It checks the job by this command; its output is logged under this name.
    Check(Arc<str>, Arc<CommandLine>),
}

impl Launcher {
    /// A launcher that sends its commands there.
    pub fn new(reaper: Recipient<ExecutionCommand>) -> Self {
        Self { reaper, next: Arc::default() }
    }

    /// Asks for a process to be started; `owner` hears what becomes of it.
    pub fn launch(&self, order: Order, owner: Recipient<ExecutionReport>) -> ExecutionId {
        let execution = ExecutionId(self.next.fetch_add(1, Ordering::Relaxed));
        self.reaper.do_send(ExecutionCommand::Launch(execution, order, owner));
        execution
    }

    /// Asks an execution to end.
    pub fn end(&self, execution: ExecutionId, signal: Signal) {
        self.reaper.do_send(ExecutionCommand::End(execution, signal));
    }

    /// Forgets the descriptors that other jobs than those of this configuration have stored.
    pub fn keep_descriptors(&self, spec: &Spec) {
        let jobs = spec.jobs.iter().filter(|job| job.has_notify_socket()).map(|job| job.name.clone());
        self.reaper.do_send(ExecutionCommand::KeepDescriptors(jobs.collect()));
    }

    /// Has processes started with these variables from now on; tells when that is so.
    pub fn use_environment(&self, environ: Arc<Environ>) -> oneshot::Receiver<()> {
        let (tell, used) = oneshot::channel();
        self.reaper.do_send(ExecutionCommand::UseEnvironment(environ, tell));
        used
    }

    /// Sends a signal to an execution, once its program runs.
    pub fn signal(&self, execution: ExecutionId, signal: Signal) {
        self.reaper.do_send(ExecutionCommand::Signal(execution, signal));
    }

    /// Sends a signal to the main process of an execution alone, once its program runs.
    pub fn forward(&self, execution: ExecutionId, main: Option<Pid>, signal: Signal) {
        self.reaper.do_send(ExecutionCommand::Forward(execution, main, signal));
    }
}

impl Order {
    /// The job, unless it is a health check.
    pub const fn own_job(&self) -> Option<&Arc<JobSpec>> {
        match self.kind {
            Kind::Job => Some(&self.job),
            Kind::Check(..) => None,
        }
    }

    /// The name that its output is logged under.
    pub fn label(&self) -> &Arc<str> {
        match &self.kind {
            Kind::Job => &self.job.name,
            Kind::Check(label, _) => label,
        }
    }

    /// The job and the name of its program's processes, unless it is a health check.
    pub fn owner_of_orphans(&self) -> Option<(Arc<str>, String)> {
        let job = self.own_job()?;
        Some((job.name.clone(), kernel_name(&job.exec.as_ref()?.program)))
    }

    /// The variable that tells others of its process, if it is a job's.
    pub fn variable(&self) -> Option<OsString> {
        self.own_job().map(|job| process_name(&job.name))
    }

    /// The start of its process, in that environment; `None` for a job that has nothing to execute.
    pub fn describe(&self, environ: &Environ, running: &RunningJobs, passed: Passed) -> Option<Launch> {
        let command = match &self.kind {
            Kind::Job => self.job.exec.clone()?,
            Kind::Check(_, command) => CommandLine::clone(command),
        };
        let execution = &self.job.execution;
        let environment = environ.build(&Request {
            job: self.own_job().map(|job| &*job.name),
            another_user: execution.user.as_ref().is_some_and(is_another_user),
            own: &execution.env,
            occasion: self.occasion.as_ref(),
            told: &passed.variables,
        });
        let output = match (&self.kind, self.job.tty) {
            (Kind::Job, true) if has_terminal() => Output::Terminal,
            (Kind::Job | Kind::Check(..), _) if self.raw_output => Output::Inherited,
            (Kind::Job | Kind::Check(..), _) => Output::Piped,
        };
        Some(Launch {
            execution: execution.clone(),
            environment,
            variable_files: environ.variable_files().to_vec(),
            running: running.clone(),
            variable: self.variable(),
            output,
            passed,
            command,
        })
    }
}

#[cfg(test)]
mod tests {
    use actix::prelude::{Actor, Context, Handler};
    use tokio::sync::mpsc;

    use super::*;
    use crate::config::spec::ReadyBy;

    /// Hears the commands in the place of the Reaper.
    struct Listener(mpsc::UnboundedSender<String>);

    impl Actor for Listener {
        type Context = Context<Self>;
    }

    impl Handler<ExecutionCommand> for Listener {
        type Result = ();

        fn handle(&mut self, command: ExecutionCommand, _: &mut Context<Self>) {
            let _ = self.0.send(match command {
                ExecutionCommand::Launch(execution, order, _) => {
                    format!("launch {} of {}", execution.0, order.label())
                }
                ExecutionCommand::End(execution, signal) => format!("end {} by {signal}", execution.0),
                ExecutionCommand::Signal(execution, signal) => format!("{signal} to {}", execution.0),
                ExecutionCommand::KeepDescriptors(jobs) => format!("keep those of {jobs:?}"),
                ExecutionCommand::UseEnvironment(_, tell) => {
                    let _ = tell.send(());
                    "use variables".to_owned()
                }
                ExecutionCommand::Forward(execution, _, signal) => {
                    format!("forward {signal} to {}", execution.0)
                }
            });
        }
    }

    /// Hears what becomes of executions.
    struct Owner;

    impl Actor for Owner {
        type Context = Context<Self>;
    }

    impl Handler<ExecutionReport> for Owner {
        type Result = ();

        fn handle(&mut self, _: ExecutionReport, _: &mut Context<Self>) {}
    }

    fn job(name: &str) -> JobSpec {
        JobSpec::new(name.into(), Some(CommandLine { program: "true".into(), args: vec![] }))
    }

    #[actix::test]
    async fn every_request_is_a_command_to_the_reaper() {
        let (sender, mut commands) = mpsc::unbounded_channel();
        let launcher = Launcher::new(Listener(sender).start().recipient());
        let order = || {
            let job = Arc::new(job("app"));
            Order { job, kind: Kind::Job, raw_output: false, occasion: None }
        };
        let owner = Owner.start();
        let executions = [(); 2].map(|()| launcher.launch(order(), owner.clone().recipient()));
        assert_eq!(executions, [ExecutionId(0), ExecutionId(1)]);
        for execution in 0..2 {
            assert_eq!(commands.recv().await, Some(format!("launch {execution} of app")));
        }
        let execution = ExecutionId(7);
        let mut notifying = job("app");
        notifying.ready.by = Some(ReadyBy::Notify);
        let jobs = [notifying, job("other")].map(Arc::new).to_vec();
        launcher.forward(execution, None, Signal::HUP);
        launcher.keep_descriptors(&Spec { jobs, ..Spec::default() });
        launcher.use_environment(Arc::default()).await.unwrap();
        launcher.signal(execution, Signal::TERM);
        launcher.end(execution, Signal::KILL);
        let expected = [
            "forward SIGHUP to 7",
            "keep those of {\"app\"}",
            "use variables",
            "SIGTERM to 7",
            "end 7 by SIGKILL",
        ];
        for text in expected {
            assert_eq!(commands.recv().await.as_deref(), Some(text));
        }
    }
}
