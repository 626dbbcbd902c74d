//! Hears the signals that we get, and hands them to the Pilot, who knows what they mean.

use std::future::poll_fn;
use std::io;

use actix::prelude::*;
use slog::warn;

use super::Pilot;
use crate::config::spec::Spec;
use crate::messages::signal::Signal;
use crate::process::Signals;

/// A signal arrived.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct SignalArrived(pub Signal);

/// Hands every signal that is for us to the Pilot, those first that came since the start.
pub fn listen_to_all(pilot: &Addr<Pilot>) -> io::Result<()> {
    hand_on(Signals::for_us()?, pilot.clone());
    Ok(())
}

fn hand_on(mut signals: Signals, pilot: Addr<Pilot>) {
    actix_rt::spawn(async move {
        while let Ok(signal) = poll_fn(|context| signals.poll_next(context)).await {
            pilot.do_send(SignalArrived(signal));
        }
    });
}

impl Pilot {
    /// Hears signals that have no meaning to us, because a job asks for them.
    pub(super) fn listen_for_jobs(&mut self, spec: &Spec, ctx: &Context<Self>) {
        let mut signals: Vec<Signal> = spec.jobs.iter().flat_map(|job| job.forward.iter().copied()).collect();
        signals.retain(|signal| !signal.is_for_us() && !self.heard_for_jobs.contains(signal));
        if signals.is_empty() {
            return;
        }
        match Signals::only(&signals) {
            Ok(read) => {
                self.heard_for_jobs.extend(signals);
                hand_on(read, ctx.address());
            }
            Err(error) => warn!(self.resources.log.logger(), "cannot forward all signals: {error}"),
        }
    }
}
