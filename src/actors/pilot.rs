//! The Pilot: the root of the program. It hears what becomes of the jobs, reloads the configuration and ends the
//! program. What it does is decided in the pure files [`life`], [`reach`] and [`plan`].

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use slog::warn;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::config::spec::{JobSpec, Spec};
use crate::logging::Log;
use crate::messages::bus::{Bus, Marked};
use crate::messages::control::Reload;
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::job::{JobChanged, Phase};
use crate::messages::process::EndOrphans;
use crate::messages::signal::Signal;
use crate::messages::status::Board;
use crate::process::Environ;

mod control;
pub mod crew;
mod ending;
mod facts;
pub mod life;
pub mod needs;
pub mod plan;
pub mod reach;
mod reload;
mod shutdown;
mod signals;
pub mod view;

use crew::{Crew, Hand};
use life::course;
use reload::{Reloading, Requests};
use shutdown::Shutdown;
use signals::Meaning;

/// Loads the configuration anew, with that environment for its templates; an error is the whole report.
pub type Load = dyn Fn(&BTreeMap<String, String>) -> Result<Spec, String> + Send + Sync;

/// Starts a job's actors, of that generation, and subscribes it to what it listens for.
pub type Hire = dyn Fn(&Arc<JobSpec>, u64) -> Hand;

/// Hears of a new configuration: the old one and the new.
pub type Reconfigured = dyn Fn(&Spec, &Spec, &HashSet<EventKey>);

/// Gets hold of what a new configuration (after the old one) needs, before anything is changed. What it returns puts that
/// to use, or gives it back when it is dropped.
pub type Prepare = dyn Fn(&Spec, &Spec) -> Result<Adopt, String>;

/// Puts what was prepared to use.
pub type Adopt = Box<dyn FnOnce()>;

/// What the Pilot needs of the program around it.
pub struct Tools {
    /// Where it logs.
    pub log: Log,
    /// Ends what jobs left behind.
    pub orphans: Recipient<EndOrphans>,
    /// What processes start with.
    pub environ: Rc<RefCell<Environ>>,
    /// Where it publishes.
    pub bus: Bus,
    /// What there is to see.
    pub board: Board,
    /// Loads the configuration anew.
    pub load: Arc<Load>,
    /// Starts jobs.
    pub hire: Box<Hire>,
    /// Ends a job's subscriptions.
    pub dismiss: Box<dyn Fn(&Hand)>,
    /// Gets hold of what a configuration needs.
    pub prepare: Box<Prepare>,
    /// Told of every new configuration.
    pub reconfigured: Vec<Box<Reconfigured>>,
}

impl Tools {
    fn reconfigure(&self, old: &Spec, new: &Spec, facts: &HashSet<EventKey>) {
        for told in &self.reconfigured {
            told(old, new, facts);
        }
    }

    fn forget(&self, hand: &Hand) {
        (self.dismiss)(hand);
    }
}

/// The service under which our own telemetry is advertised.
pub const OWN_SERVICE: &str = "containerpilot";

/// Tells processes what the configuration says of the environment.
pub fn configure_environment(environ: &mut Environ, spec: &Spec) {
    let advertised = spec
        .jobs
        .iter()
        .filter_map(|job| job.advertise.as_ref().map(|advertise| (&*job.name, advertise.address)));
    let own = spec.telemetry.as_ref().filter(|_| spec.consul.is_some());
    let own = own.map(|telemetry| (OWN_SERVICE, telemetry.address));
    environ.configure(spec.env.clone(), advertised.chain(own));
}

/// The root actor.
pub struct Pilot {
    spec: Rc<Spec>,
    tools: Tools,
    crew: Crew,
    stage: Stage,
    generation: u64,
    maintenance: bool,
    requests: Requests,
    /// When the first SIGTERM or SIGINT came.
    interrupted: Option<Instant>,
    /// A decision is due in the next turn.
    due: bool,
    exit: Option<oneshot::Sender<u8>>,
}

/// How far the program's life has come.
enum Stage {
    Running,
    Reloading(Reloading),
    ShuttingDown(Shutdown),
    /// Jobs are over; what they left behind is being ended.
    Leaving {
        status: u8,
    },
    Gone,
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
    pub fn new(spec: Rc<Spec>, tools: Tools, exit: oneshot::Sender<u8>) -> Self {
        Self {
            spec,
            tools,
            crew: Crew::default(),
            stage: Stage::Running,
            generation: 0,
            maintenance: false,
            requests: Requests::default(),
            interrupted: None,
            due: false,
            exit: Some(exit),
        }
    }

    fn publish(&self, key: EventKey) -> u64 {
        self.tools.bus.publish(key, None)
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
            Stage::Reloading(_) => self.go_on_reloading(ctx),
            Stage::ShuttingDown(_) => self.go_on_stopping(),
            Stage::Leaving { .. } | Stage::Gone => {}
        }
    }

    fn keep_course(&mut self, ctx: &mut Context<Self>) {
        let course = course(self.crew.views(), false);
        self.crew.give_up(&course.lost, false);
        if let Some(reason) = course.shut_down {
            self.shut_down(reason, ctx);
        }
    }

    /// SIGHUP is an event if some job waits for it, else it asks for a reload.
    fn hang_up(&mut self, ctx: &mut Context<Self>) {
        let key = EventKey { code: EventCode::Signal, source: Source::Signal(Signal::HUP) };
        if self.spec.jobs.iter().any(|job| job.when.trigger.keys().contains(&key)) {
            self.publish(key);
        } else if matches!(self.stage, Stage::Running | Stage::Reloading(_)) {
            self.request_reload(Reload { restart_all: false, dry_run: false }, None, ctx);
        } else {
            warn!(self.tools.log.logger(), "SIGHUP received: no reload while shutting down");
        }
    }
}

fn global(code: EventCode) -> EventKey {
    EventKey { code, source: Source::Global }
}

impl Actor for Pilot {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Context<Self>) {
        let jobs = self.spec.jobs.iter();
        self.crew = Crew::new(jobs.map(|job| (self.tools.hire)(job, self.generation)).collect());
        self.publish(global(EventCode::Startup));
        self.tools.bus.mark();
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
        let Some(noted) = self.crew.note(&change) else { return };
        if let (Stage::ShuttingDown(shutdown), true) = (&mut self.stage, noted.completed) {
            shutdown.completed(noted.index, &change.name);
        }
        // What waits again may wait for what can no longer come.
        let idle = matches!(change.phase, Phase::Complete | Phase::Halted | Phase::Waiting);
        if idle || change.answers.is_some() || !matches!(self.stage, Stage::Running) {
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
        match signals::meaning(signal, &self.spec.shutdown_signals) {
            Meaning::ShutDown => self.interrupt(signal, ctx),
            Meaning::HangUp => self.hang_up(ctx),
            Meaning::ReopenLog => self.tools.log.reopen(),
            Meaning::Event => {
                self.publish(EventKey { code: EventCode::Signal, source: Source::Signal(signal) });
            }
            Meaning::Unexpected => {
                let log = self.tools.log.logger();
                warn!(
                    log,
                    "{signal} received: it does nothing here; to shut down by it, add it to shutdownSignals"
                );
            }
            Meaning::Nothing => {}
        }
    }
}
