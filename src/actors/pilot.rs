//! The Pilot: the root of the program. It starts the other actors, hears what becomes of the jobs, and ends the
//! program. What it does is decided in [`life`]; who can still start in [`reach`].

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use slog::{debug, error, info, warn};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::config::spec::{Spec, StopBudget, Trigger};
use crate::logging::Log;
use crate::messages::bus::{Bus, Marked};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::job::{JobChanged, JobCommand, Phase};
use crate::messages::signal::Signal;
use crate::process::Children;

pub mod life;
pub mod reach;
mod shutdown;
pub mod view;

use life::{Reason, course, exit_status, orders};
use shutdown::Shutdown;
use view::JobView;

/// The share of the shutdown's budget after which everything left is told to stop.
const LAST_CALL: f64 = 0.8;
/// How long after the budget we leave with processes that even SIGKILL does not end.
const LEAVE_AFTER: Duration = Duration::from_secs(3);
/// How long processes that jobs left behind have to end.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);
/// How often they are looked for, once everything else is over.
const ORPHAN_POLL: Duration = Duration::from_millis(10);

/// The root actor.
pub struct Pilot {
    spec: Rc<Spec>,
    log: Log,
    children: Children,
    bus: Option<Bus>,
    commands: Vec<Recipient<JobCommand>>,
    jobs: Vec<JobView>,
    index: HashMap<Arc<str>, usize>,
    /// Counts changes of jobs: an answer from before the last one says nothing.
    news: u64,
    /// The news at which each was asked where it is.
    asked: Vec<u64>,
    /// The news at which each was asked, once it has answered.
    answered: Vec<u64>,
    stage: Stage,
    /// Counts ends of jobs, to know which was first.
    ends: u64,
    /// A decision is due in the next turn.
    due: bool,
    exit: Option<oneshot::Sender<u8>>,
}

/// How far the program's life has come.
enum Stage {
    Starting,
    Running,
    ShuttingDown(Shutdown),
    /// Jobs are over; what they left behind is being ended.
    Leaving {
        status: u8,
        kill_from: Instant,
    },
    Gone,
}

/// A job as the Pilot deals with it.
pub struct Member {
    /// What is known of it.
    pub view: JobView,
    /// Where it takes commands.
    pub commands: Recipient<JobCommand>,
}

/// Command to the Pilot: everything is ready, begin.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Begin {
    /// The publishing side of the Registry.
    pub bus: Bus,
    /// Every job, subscribed already.
    pub members: Vec<Member>,
}

/// A signal arrived.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct SignalArrived(pub Signal);

/// Command to ourselves: jobs have changed, look at the whole.
#[derive(Message)]
#[rtype(result = "()")]
struct Decide;

impl Pilot {
    /// A pilot for that configuration; `exit` hears the exit status when all is over.
    pub fn new(spec: Rc<Spec>, log: Log, children: Children, exit: oneshot::Sender<u8>) -> Self {
        Self {
            spec,
            log,
            children,
            bus: None,
            commands: Vec::new(),
            jobs: Vec::new(),
            index: HashMap::new(),
            news: 1,
            asked: Vec::new(),
            answered: Vec::new(),
            stage: Stage::Starting,
            ends: 0,
            due: false,
            exit: Some(exit),
        }
    }

    fn publish(&self, key: EventKey) -> u64 {
        self.bus.as_ref().map_or(0, |bus| bus.publish(key, None))
    }

    fn tell(&self, index: usize, command: JobCommand) {
        if let Some(job) = self.commands.get(index) {
            job.do_send(command);
        }
    }

    fn tell_all(&self, command: JobCommand) {
        for (index, _) in self.jobs.iter().enumerate().filter(|(_, job)| !job.is_complete()) {
            self.tell(index, command);
        }
    }

    /// Several changes that come together lead to one decision.
    fn decide_soon(&mut self, ctx: &mut Context<Self>) {
        if !self.due {
            self.due = true;
            ctx.address().do_send(Decide);
        }
    }

    fn decide(&mut self, ctx: &mut Context<Self>) {
        match &self.stage {
            Stage::Running => self.keep_course(ctx),
            Stage::ShuttingDown(_) => self.go_on_stopping(ctx),
            Stage::Starting | Stage::Leaving { .. } | Stage::Gone => {}
        }
    }

    fn keep_course(&mut self, ctx: &mut Context<Self>) {
        let course = course(&self.jobs, false);
        self.give_up(&course.lost);
        if let Some(reason) = course.shut_down {
            self.shut_down(reason, ctx);
        }
    }

    /// Ends the wait of jobs for what can no longer come. What we know of them may be older than events that are
    /// on their way to them, so each is asked first; who answers has seen all that those gone before have sent.
    fn give_up(&mut self, lost: &[usize]) {
        let confirmed = self.confirmed();
        let doubtful = lost.iter().filter(|index| !confirmed.get(**index).copied().unwrap_or(false));
        let doubtful: Vec<usize> = doubtful.copied().collect();
        if doubtful.is_empty() {
            for index in lost {
                self.tell(*index, JobCommand::GiveUp);
            }
        }
        for index in doubtful {
            if let Some(asked) = self.asked.get_mut(index).filter(|asked| **asked != self.news) {
                *asked = self.news;
                self.tell(index, JobCommand::Answer(self.news));
            }
        }
    }

    /// Who has said, since anybody changed, where it is.
    fn confirmed(&self) -> Vec<bool> {
        self.answered.iter().map(|answered| *answered == self.news).collect()
    }

    fn shut_down(&mut self, reason: Reason, ctx: &mut Context<Self>) {
        match &reason {
            Reason::Signal => info!(self.log.logger(), "shutting down"),
            Reason::Essential(name, status) => {
                info!(
                    self.log.logger(),
                    "shutting down: the essential job {name} ended with status {status}"
                );
            }
            Reason::Completed => debug!(self.log.logger(), "shutting down: every job is complete"),
        }
        let event = self.publish(global(EventCode::Shutdown));
        self.stage = Stage::ShuttingDown(Shutdown::new(reason, event, &self.jobs));
        match self.spec.stop_timeout {
            StopBudget::Immediate => self.tell_all(JobCommand::Kill),
            StopBudget::Within(budget) => {
                ctx.run_later(budget.mul_f64(LAST_CALL), |pilot, _| pilot.last_call());
                ctx.run_later(budget, |pilot, _| pilot.kill_all());
                ctx.run_later(budget.saturating_add(LEAVE_AFTER), |pilot, ctx| pilot.leave_regardless(ctx));
            }
        }
        // Comes back after `shutdown` is delivered: what we send then finds its listeners at work.
        if let Some(bus) = &self.bus {
            bus.mark();
        }
    }

    fn last_call(&mut self) {
        let Stage::ShuttingDown(shutdown) = &mut self.stage else { return };
        let event = shutdown.event;
        for index in 0..self.jobs.len() {
            shutdown.tell(index);
        }
        self.tell_all(JobCommand::Stop { cause: Some(event), in_shutdown: true });
        self.tell_all(JobCommand::Hurry);
    }

    fn kill_all(&mut self) {
        if let Stage::ShuttingDown(_) = self.stage {
            let left: Vec<&str> =
                self.jobs.iter().filter(|job| !job.is_complete()).map(|job| &*job.name).collect();
            warn!(self.log.logger(), "the time to stop is over: killing what is left"; "jobs" => left.join(" "));
            self.tell_all(JobCommand::Kill);
        }
    }

    /// Some process does not even die of SIGKILL; whoever stops us must not wait for it.
    fn leave_regardless(&mut self, ctx: &mut Context<Self>) {
        if let Stage::ShuttingDown(_) = self.stage {
            let left: Vec<&str> =
                self.jobs.iter().filter(|job| !job.is_complete()).map(|job| &*job.name).collect();
            error!(self.log.logger(), "leaving although not all processes are gone"; "jobs" => left.join(" "));
            self.leave(ctx);
        }
    }

    fn go_on_stopping(&mut self, ctx: &mut Context<Self>) {
        if self.jobs.iter().all(JobView::is_complete) {
            return self.leave(ctx);
        }
        let confirmed = self.confirmed();
        let Stage::ShuttingDown(shutdown) = &mut self.stage else { return };
        if !shutdown.announced {
            return;
        }
        let orders = orders(&self.jobs, &shutdown.told, &shutdown.started_before, &confirmed);
        let event = shutdown.event;
        let stop: Vec<usize> = orders.stop.into_iter().filter(|index| shutdown.tell(*index)).collect();
        for index in stop {
            self.tell(index, JobCommand::Stop { cause: Some(event), in_shutdown: true });
        }
        self.give_up(&orders.lost);
    }

    /// Every job is over. Processes that left their job's group may still live: they end before we do.
    fn leave(&mut self, ctx: &mut Context<Self>) {
        let Stage::ShuttingDown(shutdown) = &self.stage else { return };
        let status = exit_status(&self.jobs, &shutdown.reason);
        if shutdown.reason == Reason::Completed {
            debug!(self.log.logger(), "{}", shutdown.summary());
        } else {
            info!(self.log.logger(), "{}", shutdown.summary());
        }
        let budget_end = match self.spec.stop_timeout {
            StopBudget::Immediate => Some(shutdown.began),
            StopBudget::Within(budget) => shutdown.began.checked_add(budget),
        };
        let grace_end = Instant::now() + ORPHAN_GRACE;
        let kill_from = budget_end.map_or(grace_end, |end| end.min(grace_end));
        self.stage = Stage::Leaving { status, kill_from };
        self.children.signal_adopted(Signal::TERM);
        self.wait_for_orphans(ctx);
    }

    fn wait_for_orphans(&mut self, ctx: &mut Context<Self>) {
        let Stage::Leaving { status, kill_from } = self.stage else { return };
        let late = kill_from.elapsed() >= LEAVE_AFTER;
        if late || !self.children.has_adopted() {
            self.stage = Stage::Gone;
            if let Some(exit) = self.exit.take() {
                let _ = exit.send(status);
            }
            return;
        }
        if Instant::now() >= kill_from {
            // Again and again: each that dies may leave us its children.
            self.children.signal_adopted(Signal::KILL);
        }
        ctx.run_later(ORPHAN_POLL, Self::wait_for_orphans);
    }

    fn interrupt(&mut self, signal: Signal, ctx: &mut Context<Self>) {
        match &mut self.stage {
            Stage::Starting | Stage::Running => {
                info!(self.log.logger(), "{signal} received");
                self.shut_down(Reason::Signal, ctx);
            }
            Stage::ShuttingDown(_) => {
                warn!(self.log.logger(), "{signal} received again: killing everything");
                self.tell_all(JobCommand::Kill);
            }
            Stage::Leaving { kill_from, .. } => *kill_from = (*kill_from).min(Instant::now()),
            Stage::Gone => {}
        }
    }

    fn hang_up(&self) {
        let key = EventKey { code: EventCode::Signal, source: Source::Signal(Signal::HUP) };
        let wanted = self.spec.jobs.iter().any(|job| listens_for(&job.when.trigger, &key));
        if wanted {
            self.publish(key);
        } else {
            warn!(
                self.log.logger(),
                "SIGHUP received: no job waits for it, and this build cannot reload yet"
            );
        }
    }
}

fn listens_for(trigger: &Trigger, key: &EventKey) -> bool {
    match trigger {
        Trigger::Once(wanted) | Trigger::Each(wanted) => wanted == key,
        Trigger::All(wanted) | Trigger::Any(wanted) => wanted.contains(key),
        Trigger::Interval(_) => false,
    }
}

fn global(code: EventCode) -> EventKey {
    EventKey { code, source: Source::Global }
}

impl Actor for Pilot {
    type Context = Context<Self>;
}

impl Handler<Begin> for Pilot {
    type Result = ();

    fn handle(&mut self, begin: Begin, ctx: &mut Context<Self>) {
        self.bus = Some(begin.bus);
        for member in begin.members {
            self.index.insert(member.view.name.clone(), self.jobs.len());
            self.jobs.push(member.view);
            self.commands.push(member.commands);
            self.asked.push(0);
            self.answered.push(0);
        }
        if let Stage::Starting = self.stage {
            self.publish(global(EventCode::Startup));
            self.stage = Stage::Running;
            if let Some(bus) = &self.bus {
                bus.mark();
            }
        } else {
            self.decide_soon(ctx); // told to end before we began
        }
    }
}

impl Handler<Marked> for Pilot {
    type Result = ();

    fn handle(&mut self, _: Marked, ctx: &mut Context<Self>) {
        if let Stage::ShuttingDown(shutdown) = &mut self.stage {
            shutdown.announced = true;
        }
        self.decide_soon(ctx);
    }
}

impl Handler<JobChanged> for Pilot {
    type Result = ();

    fn handle(&mut self, change: JobChanged, ctx: &mut Context<Self>) {
        let Some(index) = self.index.get(&change.name).copied() else { return };
        let Some(job) = self.jobs.get_mut(index) else { return };
        let completed = change.phase == Phase::Complete && !job.is_complete();
        self.news += u64::from(change.phase != job.phase);
        job.phase = change.phase;
        job.missing = change.missing;
        job.last_status = change.last_status;
        if let (Some(news), Some(answered)) = (change.answers, self.answered.get_mut(index)) {
            *answered = news;
        }
        if completed {
            self.ends += 1;
            job.last_end = self.ends;
            if let Stage::ShuttingDown(shutdown) = &mut self.stage {
                shutdown.completed(index, &change.name);
            }
        }
        let ended = matches!(change.phase, Phase::Complete | Phase::Halted);
        if ended || change.answers.is_some() || matches!(self.stage, Stage::ShuttingDown(_)) {
            self.decide_soon(ctx);
        }
    }
}

impl Handler<Decide> for Pilot {
    type Result = ();

    fn handle(&mut self, _: Decide, ctx: &mut Context<Self>) {
        self.due = false;
        self.decide(ctx);
    }
}

impl Handler<SignalArrived> for Pilot {
    type Result = ();

    fn handle(&mut self, SignalArrived(signal): SignalArrived, ctx: &mut Context<Self>) {
        match signal {
            Signal::TERM | Signal::INT => self.interrupt(signal, ctx),
            Signal::HUP => self.hang_up(),
            Signal::USR1 => self.log.reopen(),
            _ => {
                self.publish(EventKey { code: EventCode::Signal, source: Source::Signal(signal) });
            }
        }
    }
}
