//! The HealthCheck actor: tries one check of one job, one try at a time. When it tries and what the tries mean
//! is decided in [`schedule`].

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use slog::{Logger, debug, error, info, o};
use tokio::time::Instant;

use crate::config::spec::{CheckSpec, CommandLine, HttpProbe, JobSpec, Probe, Spec};
use crate::dial;
use crate::messages::bus::Bus;
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::health::{CheckChanged, CheckCommand};
use crate::messages::process::{ExecutionId, GroupGone, ProcessEnded, ProcessStarted, Unstarted};
use crate::messages::signal::Signal;
use crate::metrics::Recorder;
use crate::process::{Kind, Launcher, Order, Owner};
use crate::reason::reason;

pub mod http;
pub mod schedule;

use http::Http;
use schedule::{Progress, first_try};

/// What all checks share.
pub struct Means {
    /// Starts the processes of exec checks.
    pub launcher: Launcher,
    /// Whom http checks trust.
    pub http: Http,
    /// Takes down how long tries last.
    pub recorder: Recorder,
    /// The moment that the beat of their tries is counted from.
    pub beginning: Instant,
    /// Where the outcome of a try is published, if a job waits for it.
    pub bus: Bus,
    /// The jobs whose checks are the source of another job's `when`.
    pub sources: RefCell<HashSet<Arc<str>>>,
}

impl Means {
    /// Takes note of the checks whose outcomes jobs of this configuration wait for.
    pub fn configure(&self, spec: &Spec) {
        let keys = spec.jobs.iter().flat_map(|job| job.when.trigger.keys());
        let name = |key: &EventKey| match &key.source {
            Source::Check(name) => Some(Arc::clone(name)),
            Source::Global | Source::Job(_) | Source::Watch(_) | Source::Signal(_) => None,
        };
        *self.sources.borrow_mut() = keys.filter_map(name).collect();
    }

    /// Publishes how a try ended, as ContainerPilot does, but only if a job waits for that.
    fn publish(&self, job: &Arc<str>, passed: bool) {
        if self.sources.borrow().contains(job) {
            let code = if passed { EventCode::ExitSuccess } else { EventCode::ExitFailed };
            self.bus.publish(EventKey { code, source: Source::Check(Arc::clone(job)) }, None);
        }
    }
}

/// One check of a job.
pub struct HealthCheck {
    job: Arc<JobSpec>,
    spec: CheckSpec,
    /// Its place among the job's checks.
    index: usize,
    verdicts: Recipient<CheckChanged>,
    means: Rc<Means>,
    log: Logger,
    /// The name that its output is logged under.
    label: Arc<str>,
    round: u64,
    /// When the job's process started; `None` while nothing is checked.
    since: Option<Instant>,
    progress: Progress,
    /// The next try.
    next: Option<SpawnHandle>,
    attempt: Option<Attempt>,
}

/// A try under way.
struct Attempt {
    began: Instant,
    /// Ends the try, or carries it out.
    task: SpawnHandle,
    /// The process that carries it out.
    process: Option<ExecutionId>,
    /// The process group is ending; what the try showed is known.
    over: bool,
}

impl HealthCheck {
    /// The check at a place among a job's checks; it tells `verdicts` what it finds.
    pub fn new(
        job: Arc<JobSpec>,
        index: usize,
        spec: CheckSpec,
        verdicts: Recipient<CheckChanged>,
        means: Rc<Means>,
        log: &Logger,
    ) -> Self {
        let label: Arc<str> = format!("check.{}", job.name).into();
        let log = log.new(o!("job" => label.to_string()));
        Self {
            job,
            spec,
            index,
            verdicts,
            means,
            log,
            label,
            round: 0,
            since: None,
            progress: Progress::new(),
            next: None,
            attempt: None,
        }
    }

    fn schedule(&mut self, wait: Duration, ctx: &mut Context<Self>) {
        self.next = Some(ctx.run_later(wait, |check, ctx| {
            check.next = None;
            check.attempt(ctx);
        }));
    }

    fn attempt(&mut self, ctx: &mut Context<Self>) {
        if self.attempt.is_some() {
            return; // what is left of the last one still ends; its end schedules the next
        }
        match self.spec.probe.clone() {
            Probe::Exec(command) => self.attempt_exec(&command, ctx),
            Probe::Tcp(address) => self.attempt_tcp(address, ctx),
            Probe::Http(probe) => self.attempt_http(probe, ctx),
            // Checks pause while the process does not run, so that it runs now; nothing changes that until its end.
            Probe::Running => self.conclude(Ok(()), Instant::now()),
        }
    }

    fn attempt_exec(&mut self, command: &CommandLine, ctx: &mut Context<Self>) {
        let began = Instant::now();
        if !self.spec.raw_output && self.means.launcher.children.log_is_flooded() {
            return self.schedule_after(began, ctx); // what it writes would find no place
        }
        let order = Order {
            job: Arc::clone(&self.job),
            command: command.clone(),
            kind: Kind::Check(Arc::clone(&self.label)),
            raw_output: self.spec.raw_output,
            occasion: None,
        };
        let address = ctx.address();
        let owner = Owner {
            started: address.clone().recipient(),
            ended: address.clone().recipient(),
            gone: address.recipient(),
        };
        let process = Some(self.means.launcher.launch(order, owner));
        let task = ctx.run_later(self.spec.timeout, |check, _| check.time_out());
        self.attempt = Some(Attempt { began, task, process, over: false });
    }

    fn conclude_unstarted(&mut self, reason: &str, began: Instant) {
        error!(self.log, "{reason}");
        self.conclude(Err("it could not be started"), began);
    }

    fn time_out(&mut self) {
        debug!(self.log, "took longer than its timeout: it is killed");
        self.kill();
    }

    fn attempt_tcp(&mut self, address: Arc<str>, ctx: &mut Context<Self>) {
        let reach = async move { dial::reach(&address).await.map_err(|error| reason(&error)) };
        self.attempt_here(reach, ctx);
    }

    fn attempt_http(&mut self, probe: Arc<HttpProbe>, ctx: &mut Context<Self>) {
        let http = self.means.http.clone();
        self.attempt_here(async move { http::attempt(&http, &probe).await }, ctx);
    }

    /// Carries out a try that needs no process.
    fn attempt_here(
        &mut self,
        attempt: impl Future<Output = Result<(), String>> + 'static,
        ctx: &mut Context<Self>,
    ) {
        let attempt = tokio::time::timeout(self.spec.timeout, attempt);
        let began = Instant::now();
        let task = ctx.spawn(fut::wrap_future(attempt).map(move |outcome, check: &mut Self, ctx| {
            check.attempt = None;
            let outcome = outcome.unwrap_or_else(|_| Err("took longer than its timeout".to_owned()));
            check.conclude(outcome.as_ref().copied().map_err(String::as_str), began);
            check.schedule_after(began, ctx);
        }));
        self.attempt = Some(Attempt { began, task, process: None, over: false });
    }

    /// Takes the outcome of a try into account, or the reason why it did not pass, and tells the job if it changes
    /// the verdict.
    fn conclude(&mut self, outcome: Result<(), &str>, began: Instant) {
        let name = &self.spec.name;
        if let Err(reason) = outcome {
            debug!(self.log, "{name}: {reason}");
        }
        let Some(since) = self.since.filter(|since| began >= *since) else { return };
        self.means.recorder.metrics().check_took(&self.job.name, name, began.elapsed());
        self.means.publish(&self.job.name, outcome.is_ok());
        let before = self.progress.verdict;
        self.progress = self.progress.after(&self.spec, outcome.is_ok(), since.elapsed());
        let verdict = self.progress.verdict;
        if verdict == before {
            return;
        }
        match outcome {
            Ok(()) => debug!(self.log, "{name} is {verdict:?}"),
            Err(reason) => info!(self.log, "{name} is {verdict:?}: {reason}"),
        }
        self.verdicts.do_send(CheckChanged { check: self.index, round: self.round, verdict });
    }

    fn schedule_after(&mut self, began: Instant, ctx: &mut Context<Self>) {
        let Some(since) = self.since else { return };
        let wait = if began >= since {
            let start = since - self.means.beginning;
            self.progress.until_next(&self.spec, began - since, since.elapsed(), start)
        } else {
            first_try(&self.spec).saturating_sub(since.elapsed()) // it was a try of an earlier round
        };
        self.schedule(wait, ctx);
    }

    fn kill(&self) {
        let Some(process) = self.attempt.as_ref().and_then(|attempt| attempt.process) else { return };
        if let Err(error) = self.means.launcher.end(process, Signal::KILL) {
            error!(self.log, "cannot kill the check's process: {error}");
        }
    }

    fn begin(&mut self, round: u64, ctx: &mut Context<Self>) {
        self.pause(ctx);
        self.round = round;
        self.since = Some(Instant::now());
        self.progress = Progress::new();
        if self.attempt.is_none() {
            self.schedule(first_try(&self.spec), ctx);
        }
    }

    fn pause(&mut self, ctx: &mut Context<Self>) {
        self.since = None;
        if let Some(next) = self.next.take() {
            ctx.cancel_future(next);
        }
        match &self.attempt {
            Some(Attempt { process: Some(_), .. }) => self.kill(),
            Some(Attempt { process: None, task, .. }) => {
                ctx.cancel_future(*task);
                self.attempt = None;
            }
            None => {}
        }
    }

    /// The try's process group is gone.
    fn finish(&mut self, ctx: &mut Context<Self>) {
        if let Some(attempt) = self.attempt.take() {
            self.schedule_after(attempt.began, ctx);
        }
    }
}

impl Actor for HealthCheck {
    type Context = Context<Self>;
}

impl Handler<CheckCommand> for HealthCheck {
    type Result = ();

    fn handle(&mut self, command: CheckCommand, ctx: &mut Context<Self>) {
        match command {
            CheckCommand::Begin(round) => self.begin(round, ctx),
            CheckCommand::Pause => self.pause(ctx),
            CheckCommand::Retire => {
                self.pause(ctx);
                ctx.stop();
            }
        }
    }
}

impl Handler<ProcessStarted> for HealthCheck {
    type Result = ();

    /// How it ends is all that counts.
    fn handle(&mut self, _: ProcessStarted, _: &mut Context<Self>) {}
}

impl Handler<ProcessEnded> for HealthCheck {
    type Result = ();

    fn handle(&mut self, ended: ProcessEnded, ctx: &mut Context<Self>) {
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.process == Some(ended.execution))
        else {
            return;
        };
        attempt.over = true;
        let began = attempt.began;
        let task = attempt.task;
        ctx.cancel_future(task);
        let reason = ended.status.to_string();
        match ended.unstarted {
            Some(Unstarted::Failed(reason)) => self.conclude_unstarted(&reason, began),
            Some(Unstarted::Cancelled) => self.conclude(Err("took longer than its timeout"), began),
            None => self.conclude(if ended.status.is_success() { Ok(()) } else { Err(&reason) }, began),
        }
        if !ended.leftover {
            self.finish(ctx);
        }
    }
}

impl Handler<GroupGone> for HealthCheck {
    type Result = ();

    fn handle(&mut self, GroupGone(group): GroupGone, ctx: &mut Context<Self>) {
        if self.attempt.as_ref().is_some_and(|attempt| attempt.over && attempt.process == Some(group)) {
            self.finish(ctx);
        }
    }
}
