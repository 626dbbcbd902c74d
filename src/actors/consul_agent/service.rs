//! One service in the ConsulAgent's care: what is wanted, what is known, who waits for its end.

use std::sync::Arc;
use std::time::Duration;

use actix::SpawnHandle;
use tokio::time::Instant;

use super::reconcile::{Call, Known, Wanted, reconcile};
use crate::messages::discovery::{Registration, ServiceStatus};

/// A service that is, was or will be registered.
pub struct Service {
    /// As it is to be registered.
    pub registration: Arc<Registration>,
    /// What Consul knows of it.
    pub known: Known,
    /// Whether a call about it is under way.
    pub in_flight: bool,
    /// Failures in a row.
    pub failures: u32,
    /// The next heartbeat, or the next try.
    pub timer: Option<SpawnHandle>,
    /// Called when it is not registered any more, or that is given up.
    pub waiting: Vec<Box<dyn FnOnce()>>,
    wanted: Option<ServiceStatus>,
    /// Counts registrations that differ.
    revision: u64,
    /// Since when Consul should know something else.
    unsettled: Option<Instant>,
}

impl Service {
    /// A service that is to be registered.
    pub fn new(registration: Arc<Registration>, status: ServiceStatus) -> Self {
        Self {
            registration,
            known: Known::Absent,
            in_flight: false,
            failures: 0,
            timer: None,
            waiting: Vec::new(),
            wanted: Some(status),
            revision: 0,
            unsettled: Some(Instant::now()),
        }
    }

    /// It is to be registered so, with this status.
    pub fn want(&mut self, registration: Arc<Registration>, status: ServiceStatus) {
        if registration != self.registration {
            self.registration = registration;
            self.revision += 1;
        }
        self.stop_waiting(); // whoever waited for its end is succeeded by whoever wants it now
        self.change(Some(status));
    }

    /// It is not to be registered.
    pub fn want_nothing(&mut self) {
        self.change(None);
    }

    fn change(&mut self, wanted: Option<ServiceStatus>) {
        if self.wanted != wanted {
            self.wanted = wanted;
            self.unsettled = Some(Instant::now());
        }
    }

    /// Whether somebody wants it registered, maintenance aside.
    pub fn is_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    /// Whether Consul does not know it.
    pub fn is_absent(&self) -> bool {
        self.known == Known::Absent
    }

    /// Whether Consul may know it, or be about to.
    pub fn may_be_known(&self) -> bool {
        self.in_flight || !self.is_absent()
    }

    /// What to tell Consul next.
    pub fn next_call(&self, maintenance: bool, due: bool) -> Option<Call> {
        let wanted = match self.wanted {
            Some(status) if !maintenance => Wanted::Present(self.revision, status),
            Some(_) | None => Wanted::Absent,
        };
        reconcile(wanted, self.known, due)
    }

    /// How long it took until Consul knew what it should, if it does and that is news.
    pub fn settle(&mut self) -> Option<Duration> {
        if let Known::Registered(_) | Known::Uncertain = self.known {
            return None;
        }
        self.unsettled.take().map(|since| since.elapsed())
    }

    /// Notes that a call did not do what it should; `failed` if trying at once would not help.
    pub fn note_failure(&mut self, failed: bool) {
        self.failures = if failed { self.failures.saturating_add(1) } else { 0 };
    }

    /// Whether somebody waits for its end.
    pub fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Tells those who wait for its end to wait no more.
    pub fn stop_waiting(&mut self) {
        for done in self.waiting.drain(..) {
            done();
        }
    }
}
