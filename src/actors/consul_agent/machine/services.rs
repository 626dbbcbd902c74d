//! Decides about registrations: keeps what Consul knows of each service equal to what is wanted, one call at a time.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::reconcile::{Call, Known, Outcome, Wanted, after, reconcile};
use super::{Action, CallFailure, Link, Remark, State, retry};
use crate::messages::discovery::{Registration, ServiceStatus};
use crate::messages::moment::Moment;

/// After this time a job that waits for its withdrawal is told to go on: before its own limit of 2 s, so that we answer first.
/// All withdrawals of a shutdown have this time together.
pub const WITHDRAWAL_LIMIT: Duration = Duration::from_millis(1900);
/// After this many failures in a row, nobody waits for a withdrawal any more.
const WITHDRAWAL_TRIES: u32 = 2;

/// A service that is, was or will be registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    registration: Arc<Registration>,
    /// Counts registrations that differ.
    revision: u64,
    /// The status to register it with; `None`: it is to be deregistered.
    wanted: Option<ServiceStatus>,
    /// The registration as Consul knows it.
    known: Known,
    /// Consul deregistered it because it was critical for as long as its configuration says. It stays absent until it has
    /// another status.
    is_expelled: bool,
    /// The link of the call that is under way, if one is; a former one while it is deregistered over that.
    in_flight: Option<Link>,
    /// Failures in a row.
    failures: u32,
    /// A timer runs: for the next heartbeat, or for the next try.
    has_timer: bool,
    /// The number of the withdrawal that is waited for.
    withdrawal: u64,
    /// The waiters to release when it is deregistered, or when that is given up.
    waiting: Vec<u64>,
    /// The time since which Consul knows something else than is wanted.
    unsettled_since: Option<Moment>,
}

impl Service {
    fn new(now: Moment, registration: Arc<Registration>, status: ServiceStatus) -> Self {
        Self {
            registration,
            revision: 0,
            wanted: Some(status),
            known: Known::Absent,
            is_expelled: false,
            in_flight: None,
            failures: 0,
            has_timer: false,
            withdrawal: 0,
            waiting: Vec::new(),
            unsettled_since: Some(now),
        }
    }

    /// The name of its job.
    pub(super) fn name(&self) -> &str {
        &self.registration.name
    }

    fn want(&mut self, now: Moment, wanted: Option<ServiceStatus>) {
        if self.wanted != wanted {
            self.wanted = wanted;
            self.unsettled_since = Some(now);
            self.is_expelled = false;
        }
    }

    /// May Consul know it now, or be about to?
    fn may_be_known(&self) -> bool {
        self.in_flight.is_some() || self.known != Known::Absent
    }

    fn next_call(&self, is_hidden: bool, is_heartbeat: bool) -> Option<Call> {
        let wanted = match self.wanted {
            Some(status) if !is_hidden && !self.is_expelled => Wanted::Present(self.revision, status),
            Some(_) | None => Wanted::Absent,
        };
        reconcile(wanted, self.known, is_heartbeat)
    }

    /// How long it took until Consul knew what it should, if this call completed that.
    fn settle(&mut self, now: Moment) -> Option<Duration> {
        match self.known {
            Known::Registered(_) | Known::Uncertain => None,
            Known::Absent | Known::Present(..) => self.unsettled_since.take().map(|since| now.since(since)),
        }
    }
}

/// Whether a Consul that does not know a service has probably deregistered it itself, since it was critical for too long.
fn has_expelled(call: Call, registration: &Registration) -> bool {
    match call {
        Call::Update(_, ServiceStatus::Critical) => registration.deregister_critical_after.is_some(),
        Call::Update(_, ServiceStatus::Passing | ServiceStatus::Warning)
        | Call::Register(..)
        | Call::Deregister => false,
    }
}

/// Whether a Consul that does not know a service has forgotten it, as after its restart. One that forgets it again before it has
/// taken its status, or that does not know it when it is to register it, is in trouble: asked at once it would say the same.
const fn has_forgotten(call: Call, failures: u32) -> bool {
    match call {
        Call::Register(..) => false,
        Call::Update(..) => failures == 0,
        Call::Deregister => true,
    }
}

impl State {
    pub(super) fn advertise(
        &mut self,
        now: Moment,
        registration: Arc<Registration>,
        status: ServiceStatus,
        actions: &mut Vec<Action>,
    ) {
        let id = Arc::clone(&registration.id);
        // A job that waited for the withdrawal is replaced by the one that wants the service now.
        self.stop_waiting(&id, actions);
        match self.services.get_mut(&id) {
            Some(service) => {
                if registration != service.registration {
                    service.registration = registration;
                    service.revision = service.revision.saturating_add(1);
                }
                service.want(now, Some(status));
            }
            None => {
                self.services.insert(Arc::clone(&id), Service::new(now, registration, status));
            }
        }
        self.reconcile(&id, false, actions);
    }

    pub(super) fn withdraw(
        &mut self,
        now: Moment,
        id: &Arc<str>,
        waiter: Option<u64>,
        actions: &mut Vec<Action>,
    ) {
        let Some(service) = self.services.get_mut(id) else {
            return actions.extend(waiter.map(Action::Release));
        };
        let limit = self.patience.map_or(WITHDRAWAL_LIMIT, |patience| patience.left(now));
        service.want(now, None);
        if let Some(waiter) = waiter {
            let awaited = self.waiters.entry(waiter).or_default();
            *awaited = awaited.saturating_add(1);
            if service.waiting.is_empty() {
                self.withdrawals = self.withdrawals.saturating_add(1);
                service.withdrawal = self.withdrawals;
                let number = service.withdrawal;
                actions.push(Action::StartWithdrawalLimit(Arc::clone(id), number, limit));
            }
            service.waiting.push(waiter);
        }
        if self.is_withdrawal_hopeless || limit.is_zero() {
            self.stop_waiting(id, actions);
        }
        self.reconcile(id, false, actions);
    }

    pub(super) fn withdraw_all(&mut self, now: Moment, waiter: u64, actions: &mut Vec<Action>) {
        // Counted as one more, so that the waiter is released only after the last service.
        self.waiters.insert(waiter, 1);
        for id in self.services.keys().cloned().collect::<Vec<_>>() {
            self.withdraw(now, &id, Some(waiter), actions);
        }
        self.release(waiter, actions);
    }

    pub(super) fn give_up_waiting(&mut self, id: &Arc<str>, number: u64, actions: &mut Vec<Action>) {
        let is_waited_for = |service: &Service| service.withdrawal == number && !service.waiting.is_empty();
        if self.services.get(id).is_some_and(is_waited_for) {
            self.is_withdrawal_hopeless = true;
            self.stop_waiting(id, actions);
        }
    }

    fn stop_waiting(&mut self, id: &Arc<str>, actions: &mut Vec<Action>) {
        let Some(service) = self.services.get_mut(id) else { return };
        for waiter in std::mem::take(&mut service.waiting) {
            self.release(waiter, actions);
        }
    }

    /// Releases a waiter if this was the last service that it waited for.
    fn release(&mut self, waiter: u64, actions: &mut Vec<Action>) {
        let Some(left) = self.waiters.get_mut(&waiter) else { return };
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.waiters.remove(&waiter);
            actions.push(Action::Release(waiter));
        }
    }

    pub(super) fn timer_elapsed(&mut self, id: &Arc<str>, is_heartbeat: bool, actions: &mut Vec<Action>) {
        if let Some(service) = self.services.get_mut(id) {
            service.has_timer = false;
            self.reconcile(id, is_heartbeat, actions);
        }
    }

    /// Makes the next call about a service, if one is needed and none is under way.
    fn reconcile(&mut self, id: &Arc<str>, is_heartbeat: bool, actions: &mut Vec<Action>) {
        let is_hidden = self.maintenance || self.link.address.is_none();
        let Some(service) = self.services.get_mut(id).filter(|service| service.in_flight.is_none()) else {
            return;
        };
        if std::mem::take(&mut service.has_timer) {
            actions.push(Action::CancelTimer(Arc::clone(id)));
        }
        match service.next_call(is_hidden, is_heartbeat) {
            Some(_) if self.link.address.is_none() => self.stop_waiting(id, actions),
            Some(call) => {
                service.in_flight = Some(self.link.clone());
                actions.push(Action::Call(Arc::clone(&service.registration), call, self.link.number));
            }
            None if service.known == Known::Absent => {
                let is_wanted = service.wanted.is_some();
                self.stop_waiting(id, actions);
                if !is_wanted {
                    self.services.remove(id);
                }
            }
            None => {
                service.has_timer = true;
                let wait = service.registration.heartbeat;
                actions.push(Action::StartTimer { id: Arc::clone(id), wait, is_heartbeat: true });
            }
        }
    }

    pub(super) fn reconcile_all(&mut self, actions: &mut Vec<Action>) {
        for id in self.services.keys().cloned().collect::<Vec<_>>() {
            self.reconcile(&id, false, actions);
        }
    }

    /// Consul serves again: a pause that was meant for a Consul in trouble is over.
    pub(super) fn retry_failed_services(&mut self, actions: &mut Vec<Action>) {
        let failing = self.services.iter().filter(|(_, service)| service.failures > 0);
        for id in failing.map(|(id, _)| Arc::clone(id)).collect::<Vec<_>>() {
            self.reconcile(&id, false, actions);
        }
    }

    pub(super) fn call_ended(
        &mut self,
        now: Moment,
        id: &Arc<str>,
        (call, link): (Call, u64),
        result: Result<(), CallFailure>,
        random: f64,
        actions: &mut Vec<Action>,
    ) {
        let Some(service) = self.services.get_mut(id) else { return };
        let Some(used) = service.in_flight.take() else { return };
        if link != self.link.number {
            let is_elsewhere = used.address != self.link.address;
            if is_elsewhere && call != Call::Deregister {
                // The call had its effect on the former Consul.
                service.in_flight = Some(used);
                return actions.push(Action::DeregisterOverFormer(Arc::clone(id), link));
            }
            self.reconcile(id, false, actions);
            return self.close_unused(link, actions);
        }
        match result {
            Ok(()) => {
                service.known = after(call, Outcome::Done);
                actions.push(Action::Log(Remark::Done(Arc::clone(id), call)));
                if let Call::Register(..) = call {
                    // Only its status, which is told next, shows that Consul really has it.
                    actions.push(Action::Count { answered: true });
                } else {
                    service.failures = 0;
                    actions.extend(service.settle(now).map(Action::ShowLag));
                    self.served(now, id, actions);
                }
                self.reconcile(id, false, actions);
            }
            Err(failure) if failure.is_unknown && has_forgotten(call, service.failures) => {
                service.known = after(call, Outcome::Forgotten);
                service.failures = u32::from(matches!(call, Call::Update(..)));
                service.is_expelled = service.wanted == Some(ServiceStatus::Critical)
                    && has_expelled(call, &service.registration);
                actions.push(Action::Log(Remark::Forgotten(Arc::clone(id))));
                self.served(now, id, actions);
                self.reconcile(id, false, actions);
            }
            Err(failure) => {
                service.known = after(call, Outcome::Failed);
                service.failures = service.failures.saturating_add(1);
                self.failed(now, id, &failure, actions);
                self.try_later(id, random, actions);
            }
        }
    }

    fn try_later(&mut self, id: &Arc<str>, random: f64, actions: &mut Vec<Action>) {
        let is_first = self.outage.is_first(id);
        let Some(service) = self.services.get_mut(id) else { return };
        let wait = retry::delay(service.failures, service.registration.heartbeat, is_first, random);
        service.has_timer = true;
        if service.failures >= WITHDRAWAL_TRIES {
            self.stop_waiting(id, actions);
        }
        actions.push(Action::StartTimer { id: Arc::clone(id), wait, is_heartbeat: false });
    }

    /// Registers everything anew: with another Consul, or with the same one, which keeps the token of each registration. What is
    /// at another address may be the same agent: a service is deregistered there first, so that this undoes nothing.
    pub(super) fn leave(&mut self, former: &Link, is_elsewhere: bool, actions: &mut Vec<Action>) {
        for (id, service) in self.services.iter_mut().filter(|(_, service)| service.may_be_known()) {
            service.failures = 0;
            service.known = if is_elsewhere { Known::Absent } else { Known::Uncertain };
            if is_elsewhere && service.in_flight.is_none() {
                if std::mem::take(&mut service.has_timer) {
                    actions.push(Action::CancelTimer(Arc::clone(id)));
                }
                service.in_flight = Some(former.clone());
                actions.push(Action::DeregisterOverFormer(Arc::clone(id), former.number));
            }
        }
    }

    /// Closes a former link when its last call is over.
    pub(super) fn close_unused(&self, former: u64, actions: &mut Vec<Action>) {
        let uses = |service: &Service| service.in_flight.as_ref().is_some_and(|link| link.number == former);
        if !self.services.values().any(uses) {
            actions.push(Action::CloseLink(former));
        }
    }
}
