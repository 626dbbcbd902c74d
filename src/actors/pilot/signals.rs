//! Hears the signals that we get, and hands them to the Pilot, who knows what they mean.

use std::io;
use std::task::Poll;
use std::time::Duration;

use actix::prelude::*;
use slog::warn;
use tokio::signal::unix::{SignalKind, signal};

use super::Pilot;
use crate::config::spec::Spec;
use crate::messages::signal::Signal;
use crate::process::{accept_ordinary_signals, accept_signals};

/// A signal arrived.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct SignalArrived(pub Signal);

/// How long real-time signals stay pending after the start. To handle all thirty takes a quarter of a millisecond, and the first
/// jobs are to start before.
const REAL_TIME_DELAY: Duration = Duration::from_millis(10);

/// Handles every signal that is for us, those first that came since the start.
pub fn listen_to_all(pilot: &Addr<Pilot>) -> io::Result<()> {
    let signals = Signal::all().filter(|signal| signal.is_for_us());
    let (real_time, ordinary): (Vec<Signal>, Vec<Signal>) = signals.partition(|signal| signal.is_real_time());
    listen(pilot, ordinary.into_iter())?;
    accept_ordinary_signals()?;
    let pilot = pilot.clone();
    actix_rt::spawn(async move {
        tokio::time::sleep(REAL_TIME_DELAY).await;
        // A signal that cannot be handled stays pending.
        let _ = listen(&pilot, real_time.into_iter()).and_then(|()| accept_signals());
    });
    Ok(())
}

/// Handles these signals from now on: hands each to the Pilot.
fn listen(pilot: &Addr<Pilot>, signals: impl Iterator<Item = Signal>) -> io::Result<()> {
    let mut streams = Vec::new();
    for number in signals {
        match signal(SignalKind::from_raw(number.number())) {
            Ok(stream) => streams.push((number, stream)),
            // The C library keeps some for itself.
            Err(_) if number.is_real_time() => {}
            Err(error) => return Err(error),
        }
    }
    let pilot = pilot.clone();
    actix_rt::spawn(std::future::poll_fn(move |context| {
        for (number, stream) in &mut streams {
            while let Poll::Ready(Some(())) = stream.poll_recv(context) {
                pilot.do_send(SignalArrived(*number));
            }
        }
        Poll::<()>::Pending
    }));
    Ok(())
}

impl Pilot {
    /// Handles signals that have no meaning to us, because a job asks for them.
    pub(super) fn listen_for_jobs(&mut self, spec: &Spec, ctx: &Context<Self>) {
        let mut signals: Vec<Signal> = spec.jobs.iter().flat_map(|job| job.forward.iter().copied()).collect();
        signals.retain(|signal| !signal.is_for_us() && self.heard_for_jobs.insert(*signal));
        if signals.is_empty() {
            return;
        }
        if let Err(error) = listen(&ctx.address(), signals.into_iter()) {
            warn!(self.resources.log.logger(), "cannot forward all signals: {error}");
        }
    }
}
