//! The Reaper: the only place that waits for children, ours and the orphans that the kernel gives us.

use std::future::poll_fn;
use std::time::Duration;

use actix::prelude::*;
use slog::{Logger, error, warn};
use tokio::time::Instant;

use crate::messages::process::{EndOrphans, OrphansGone};
use crate::messages::signal::Signal;
use crate::process::{Children, Deaths};

/// Children reaped before other actors have their turn.
const PER_TURN: usize = 16;
/// How often the remains of a group are looked at: a member whose parent lives elsewhere ends silently.
const SWEEP_EVERY: Duration = Duration::from_millis(25);

/// Waits for children.
pub struct Reaper {
    children: Children,
    log: Logger,
    deaths: Option<Deaths>,
    /// Told when no orphan is left.
    pilot: Recipient<OrphansGone>,
    /// From when on orphans are killed, and until when they are waited for.
    ending: Option<(Instant, Instant)>,
    /// What is left to reap is reaped in the next turn.
    reaping: bool,
    sweeping: bool,
}

/// SIGCHLD arrived: one or more children ended.
#[derive(Message)]
#[rtype(result = "()")]
struct ChildrenDied;

impl Reaper {
    /// A reaper that hears of every child that ends from now on: to be made before the first one is started.
    pub fn new(children: Children, log: Logger, pilot: Recipient<OrphansGone>) -> std::io::Result<Self> {
        let deaths = Some(children.deaths()?);
        Ok(Self { children, log, deaths, pilot, ending: None, reaping: false, sweeping: false })
    }

    fn reap(&mut self, ctx: &mut Context<Self>) {
        match self.children.reap(PER_TURN) {
            Ok(false) => {}
            Ok(true) => self.reap_in_next_turn(ctx),
            Err(error) => error!(self.log, "cannot wait for children: {error}"),
        }
        if self.children.note_empty_groups() {
            self.sweep_later(ctx);
        }
    }

    fn reap_in_next_turn(&mut self, ctx: &mut Context<Self>) {
        self.reaping = true;
        ctx.spawn(fut::wrap_future(tokio::task::yield_now()).map(|(), reaper: &mut Self, ctx| {
            reaper.reaping = false;
            reaper.reap(ctx);
        }));
    }

    fn sweep_later(&mut self, ctx: &mut Context<Self>) {
        if !self.sweeping {
            self.sweeping = true;
            ctx.run_later(SWEEP_EVERY, |reaper, ctx| {
                reaper.sweeping = false;
                if reaper.children.sweep() {
                    reaper.sweep_later(ctx);
                }
            });
        }
    }
}

impl Actor for Reaper {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(mut deaths) = self.deaths.take() {
            let (reaper, children) = (ctx.address(), self.children.clone());
            ctx.spawn(fut::wrap_future(async move {
                loop {
                    tokio::select! {
                        died = poll_fn(&mut deaths) => if died.is_none() { return },
                        () = children.settled() => {}
                    }
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
        if !self.reaping {
            self.reap(ctx);
        }
    }
}

/// How long we wait for children that `/proc` does not show, so that they cannot be signalled.
const UNKNOWN_GRACE: Duration = Duration::from_millis(100);
/// How often orphans are looked for, once everything else is over.
const ORPHAN_POLL: Duration = Duration::from_millis(10);

impl Handler<EndOrphans> for Reaper {
    type Result = ();

    fn handle(&mut self, EndOrphans { grace, patience }: EndOrphans, ctx: &mut Context<Self>) {
        let kill_from = Instant::now() + grace;
        let first = self.ending.is_none();
        self.ending = Some((kill_from, kill_from + patience));
        if first {
            self.children.signal_adopted(Signal::TERM);
            self.children.signal_adopted(Signal::CONT);
        }
        self.wait_for_orphans(ctx);
    }
}

impl Reaper {
    fn wait_for_orphans(&mut self, ctx: &mut Context<Self>) {
        let Some((kill_from, until)) = self.ending else { return };
        let now = Instant::now();
        let mut given_up = false;
        if now >= kill_from {
            // Again and again: each that dies may leave us its children.
            let are_known = self.children.signal_adopted(Signal::KILL);
            given_up = now >= until;
            if !are_known && now >= kill_from + UNKNOWN_GRACE {
                warn!(self.log, "leaving a process behind that cannot be found: is /proc mounted?");
                given_up = true;
            }
        }
        if given_up || !self.children.has_adopted() {
            self.ending = None;
            return self.pilot.do_send(OrphansGone);
        }
        ctx.run_later(ORPHAN_POLL, Self::wait_for_orphans);
    }
}
