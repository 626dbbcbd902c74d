//! Puts the actors together and runs them: the only place that knows them all.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::health_check::HealthCheck;
use super::job::{Job, Surroundings};
use super::pilot::view::JobView;
use super::pilot::{Begin, Member, Pilot, SignalArrived};
use super::reaper::Reaper;
use super::registry::{Overseer, Registry};
use crate::config::spec::{JobSpec, Spec};
use crate::logging::Log;
use crate::messages::bus::{Bus, Interest, Subscribe};
use crate::messages::signal::Signal;
use crate::messages::status::Board;
use crate::process::{Children, Environ, Kernel, Launcher};

/// The signals that mean something to us.
const SIGNALS: [Signal; 5] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1, Signal::USR2];

/// Supervises until everything is over; returns the status to exit with.
pub fn run(spec: Spec, log: &Log, kernel: Box<dyn Kernel>, environ: Environ) -> io::Result<u8> {
    System::new().block_on(async {
        let program = assemble(spec, log, kernel, environ)?;
        forward_signals(&program.pilot)?;
        program.exited.await.map_err(|_| io::Error::other("the supervisor ended unexpectedly"))
    })
}

/// The program, put together and about to publish `startup`.
pub struct Program {
    /// The root actor.
    pub pilot: Addr<Pilot>,
    /// Where events can be listened for.
    pub registry: Addr<Registry>,
    /// Tells the status to exit with.
    pub exited: oneshot::Receiver<u8>,
}

/// Puts the actors together, within a running actix system.
pub fn assemble(spec: Spec, log: &Log, kernel: Box<dyn Kernel>, mut environ: Environ) -> io::Result<Program> {
    environ.configure(spec.env.clone());
    for job in &spec.jobs {
        if let Some(advertise) = &job.advertise {
            environ.set_address(&job.name, advertise.address);
        }
    }
    let (exit, exited) = oneshot::channel();
    let children = Children::new(kernel, log.clone());
    Reaper::new(children.clone(), log.logger().clone())?.start();
    let spec = Rc::new(spec);
    let pilot = Pilot::new(Rc::clone(&spec), log.clone(), children.clone(), exit).start();
    let overseer = Overseer { reports: pilot.clone().recipient(), marks: pilot.clone().recipient() };
    let registry = Registry::new(log.logger().clone(), overseer, Rc::new(Cell::new(0))).start();
    let bus =
        Bus::new(registry.clone().recipient(), registry.clone().recipient(), registry.clone().recipient());
    let around = Surroundings {
        bus: bus.clone(),
        launcher: Launcher::new(children, environ),
        board: Board::default(),
        log: log.logger().clone(),
    };
    let members = spec.jobs.iter().map(|job| hire(job, &around, &registry)).collect();
    pilot.do_send(Begin { bus, members });
    Ok(Program { pilot, registry, exited })
}

/// Starts a job's actors and subscribes it to what it listens for.
fn hire(spec: &JobSpec, around: &Surroundings, registry: &Addr<Registry>) -> Member {
    let spec = Arc::new(spec.clone());
    let interests = Job::interests(&spec);
    let view = JobView::new(&spec, Job::first_missing(&spec), &interests);
    let job = Job::create(|ctx| {
        let check = |(index, check): (usize, &crate::config::spec::CheckSpec)| {
            let verdicts = ctx.address().recipient();
            let launcher = around.launcher.clone();
            HealthCheck::new(Arc::clone(&spec), index, check.clone(), verdicts, launcher, &around.log)
                .start()
                .recipient()
        };
        let checks = spec.health.iter().enumerate().map(check).collect();
        Job::new(Arc::clone(&spec), 0, around.clone(), checks)
    });
    registry.do_send(Subscribe { interest: Interest::Keys(interests), recipient: job.clone().recipient() });
    Member { view, commands: job.recipient() }
}

fn forward_signals(pilot: &Addr<Pilot>) -> io::Result<()> {
    for number in SIGNALS {
        let mut stream = signal(SignalKind::from_raw(number.number()))?;
        let pilot = pilot.clone();
        actix_rt::spawn(async move {
            while stream.recv().await.is_some() {
                pilot.do_send(SignalArrived(number));
            }
        });
    }
    Ok(())
}
