//! The HealthCheck actor: carries out the tries of one check of a job. The decisions are in [`machine`].

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use slog::{Logger, o};

use super::machine::{Clock, Driver};
use super::task::{Task, cancel};
use crate::config::spec::{CheckSpec, CommandLine, JobSpec};
use crate::dial;
use crate::logging::LogSink;
use crate::messages::account::FailingCheck;
use crate::messages::bus::Bus;
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::health::{CheckChanged, CheckCommand};
use crate::messages::process::{ExecutionReport, ProcessEnded};
use crate::messages::signal::Signal;
use crate::messages::status::Board;
use crate::metrics::Recorder;
use crate::process::{Kind, Launcher, Order};
use crate::reason::reason;

pub mod http;
pub mod machine;

use http::Http;
use machine::{Action, Failing, Input, ProbeOutcome, State};

/// The resources that all checks share.
pub struct CheckResources {
    /// Starts the processes of exec checks.
    pub launcher: Launcher,
    /// Where the output of these processes goes, if there is room.
    pub sink: LogSink,
    /// The TLS settings of http checks.
    pub http: Http,
    /// Records how long tries take.
    pub recorder: Recorder,
    /// The clock of the whole program.
    pub clock: Clock,
    /// Publishes the outcome of a try.
    pub bus: Bus,
    /// Shows users which checks fail, and why.
    pub board: Board,
}

/// One check of a job.
pub struct HealthCheck {
    driver: Driver<State>,
    job: Arc<JobSpec>,
    /// The job, which is told when the verdict changes.
    verdicts: Recipient<CheckChanged>,
    resources: Rc<CheckResources>,
    log: Logger,
    /// The name that the output of its processes is logged under.
    label: Arc<str>,
    /// The timer of the next try.
    next: Option<Task>,
    /// The timer of the timeout.
    timeout: Option<Task>,
    /// The connection or request of a try.
    probe: Option<Task>,
}

impl HealthCheck {
    /// The check at a place among a job's checks; it tells `verdicts` when its verdict changes.
    pub fn new(
        job: Arc<JobSpec>,
        index: usize,
        spec: CheckSpec,
        verdicts: Recipient<CheckChanged>,
        resources: Rc<CheckResources>,
        log: &Logger,
    ) -> Self {
        let label: Arc<str> = format!("check.{}", job.name).into();
        Self {
            driver: Driver::new(State::new(spec, index), &resources.clock),
            log: log.new(o!("job" => label.to_string())),
            job,
            verdicts,
            resources,
            label,
            next: None,
            timeout: None,
            probe: None,
        }
    }

    fn advance(&mut self, input: Input, ctx: &mut Context<Self>) {
        for action in self.driver.step(input) {
            self.perform(action, ctx);
        }
    }

    fn perform(&mut self, action: Action, ctx: &mut Context<Self>) {
        match action {
            Action::Schedule(wait) => self.schedule(wait, ctx),
            Action::CancelNext => cancel(&mut self.next, ctx),
            Action::Launch(command) => self.launch(command, ctx),
            Action::StartTimeout(timeout) => {
                let elapsed =
                    |check: &mut Self, ctx: &mut Context<Self>| check.advance(Input::TimeoutElapsed, ctx);
                self.timeout = Some(Task::later(timeout, ctx, elapsed));
            }
            Action::CancelTimeout => cancel(&mut self.timeout, ctx),
            Action::Connect(address, timeout) => {
                let connect =
                    async move { dial::connect_and_close(&address).await.map_err(|error| reason(&error)) };
                self.probe(connect, timeout, ctx);
            }
            Action::Request(probe, timeout) => {
                let http = self.resources.http.clone();
                self.probe(async move { http::attempt(&http, &probe).await }, timeout, ctx);
            }
            Action::Abandon => cancel(&mut self.probe, ctx),
            Action::Kill(execution) => self.resources.launcher.end(execution, Signal::KILL),
            Action::Measure(took) => {
                let name = &self.driver.machine().spec().name;
                self.resources.recorder.metrics().check_took(&self.job.name, name, took);
            }
            Action::Show(failing) => self.show(failing),
            Action::PublishOutcome { passed } => self.publish(passed),
            Action::Report(changed) => self.verdicts.do_send(changed),
            Action::Log(severity, text) => severity.log(&self.log, &text, ()),
            Action::Stop => ctx.stop(),
        }
    }

    /// Publishes how a try ended, as ContainerPilot does.
    fn publish(&self, passed: bool) {
        let code = if passed { EventCode::ExitSuccess } else { EventCode::ExitFailed };
        let source = Source::Check(Arc::clone(&self.job.name));
        self.resources.bus.publish(EventKey { code, source }, None);
    }

    /// Shows the failing tries to users, with times of day.
    fn show(&self, failing: Option<Failing>) {
        let place = (Arc::clone(&self.job.name), Arc::clone(&self.driver.machine().spec().name));
        let shown = &mut self.resources.board.write().failing;
        let Some(Failing { reason, times, next }) = failing else {
            shown.remove(&place);
            return;
        };
        let (now, wall) = (self.resources.clock.now(), SystemTime::now());
        let since = shown.get(&place).map_or(wall, |known| known.since);
        let next = next.and_then(|next| wall.checked_add(next.since(now)));
        shown.insert(place, FailingCheck { reason, times, since, next });
    }

    fn schedule(&mut self, wait: Duration, ctx: &mut Context<Self>) {
        self.next = Some(Task::later(wait, ctx, |check: &mut Self, ctx| {
            check.next = None;
            check.advance(Input::TryDue, ctx);
        }));
    }

    fn launch(&mut self, command: Arc<CommandLine>, ctx: &mut Context<Self>) {
        let order = Order {
            job: Arc::clone(&self.job),
            kind: Kind::Check(Arc::clone(&self.label), command),
            raw_output: self.driver.machine().spec().raw_output,
            occasion: None,
        };
        let execution = self.resources.launcher.launch(order, ctx.address().recipient());
        self.advance(Input::Launched(execution), ctx);
    }

    /// Carries out a try that needs no process.
    fn probe(
        &mut self,
        probe: impl Future<Output = Result<(), String>> + 'static,
        timeout: Duration,
        ctx: &mut Context<Self>,
    ) {
        let probe = tokio::time::timeout(timeout, probe);
        self.probe = Some(Task::spawn(probe, ctx, |outcome, check: &mut Self, ctx| {
            check.probe = None;
            let outcome = match outcome {
                Ok(Ok(())) => ProbeOutcome::Passed,
                Ok(Err(reason)) => ProbeOutcome::Failed(reason),
                Err(_) => ProbeOutcome::TimedOut,
            };
            check.advance(Input::Probed(outcome), ctx);
        }));
    }
}

impl Actor for HealthCheck {
    type Context = Context<Self>;
}

impl Handler<CheckCommand> for HealthCheck {
    type Result = ();

    fn handle(&mut self, command: CheckCommand, ctx: &mut Context<Self>) {
        let input = match command {
            CheckCommand::Begin(round) => Input::Started(round),
            CheckCommand::Pause => Input::Paused,
            CheckCommand::PublishOutcomes(are_awaited) => Input::OutcomesAwaited(are_awaited),
            CheckCommand::Retire => Input::Retired,
        };
        self.advance(input, ctx);
    }
}

impl Handler<ExecutionReport> for HealthCheck {
    type Result = ();

    fn handle(&mut self, report: ExecutionReport, ctx: &mut Context<Self>) {
        let input = match report {
            // Only the end of a check's process matters.
            ExecutionReport::Started(_) | ExecutionReport::Ready(_) | ExecutionReport::Notified(..) => return,
            ExecutionReport::Ended(ProcessEnded { execution, status, unstarted, leftover, .. }, _) => {
                Input::ProcessEnded { execution, status, unstarted, leftover }
            }
            ExecutionReport::Gone(execution) => Input::GroupGone(execution),
        };
        self.advance(input, ctx);
    }
}
