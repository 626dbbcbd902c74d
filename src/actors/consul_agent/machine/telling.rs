//! Each success or failure of a call: its consequences for other calls, and what the log and `status` show of it.

use std::sync::Arc;
use std::time::Duration;

use super::outage::Trouble;
use super::{Action, CallFailure, Remark, State};
use crate::messages::moment::Moment;
use crate::messages::status::DiscoveryFailure;

/// After this long without any reply, Consul was really away, and not just slow.
const OUTAGE_AFTER: Duration = Duration::from_secs(1);

impl State {
    /// Consul did what a service or watch asked for.
    pub(super) fn served(&mut self, now: Moment, caller: &str, actions: &mut Vec<Action>) {
        self.is_withdrawal_hopeless = false;
        actions.push(Action::Count { answered: true });
        let was_failing = self.outage.failure(caller).is_some();
        let began = self.outage.served(caller);
        actions.extend(began.map(|began| Action::Log(Remark::Recovered(now.since(began)))));
        self.show_trouble(actions);
        if was_failing {
            self.show_failure(caller, actions);
        }
        // A busy Consul that is late now and then must not make everybody come back at once.
        let is_outage = |since: Option<Moment>| since.is_some_and(|since| now.since(since) >= OUTAGE_AFTER);
        if is_outage(self.unreachable_since.take()) {
            self.interrupt_queries(actions);
        }
        if is_outage(self.failing_since.take()) {
            self.end_pauses(actions);
            self.retry_failed_services(actions);
        }
    }

    pub(super) fn failed(
        &mut self,
        now: Moment,
        caller: &Arc<str>,
        failure: &CallFailure,
        actions: &mut Vec<Action>,
    ) {
        actions.push(Action::Count { answered: false });
        actions.push(Action::Log(Remark::Failed(Arc::clone(caller), failure.reason.clone())));
        if failure.trouble == Trouble::Unreachable {
            self.unreachable_since.get_or_insert(now);
        }
        self.failing_since.get_or_insert(now);
        let is_shown = self.outage.failure(caller) == Some((failure.trouble, &*failure.reason));
        let is_news = self.outage.failed(now, Arc::clone(caller), failure.trouble, failure.reason.clone());
        let began = self.outage.over();
        actions.extend(began.map(|began| Action::Log(Remark::Recovered(now.since(began)))));
        if is_news {
            actions.push(Action::Log(Remark::InTrouble(Arc::clone(caller), failure.reason.clone())));
        }
        self.show_trouble(actions);
        if !is_shown {
            self.show_failure(caller, actions);
        }
    }

    pub(super) fn show_trouble(&mut self, actions: &mut Vec<Action>) {
        if self.shown.as_deref() != self.outage.reason() {
            self.shown = self.outage.reason().map(str::to_owned);
            actions.push(Action::ShowTrouble(self.shown.clone()));
        }
    }

    /// Shows why the last call of a service or watch failed, if it did. Services are shown by the name of their job.
    pub(super) fn show_failure(&self, caller: &str, actions: &mut Vec<Action>) {
        let service = self.services.get(caller);
        let name = service.map_or_else(|| caller.into(), |service| service.name().into());
        let failure = self.outage.failure(caller).map(|(trouble, reason)| DiscoveryFailure {
            reason: reason.to_owned(),
            is_answer: matches!(trouble, Trouble::Answered(_)),
        });
        actions.push(Action::ShowFailure(name, failure));
    }

    /// Shows no trouble any more: it was with the former Consul.
    pub(super) fn forget_outage(&mut self, actions: &mut Vec<Action>) {
        let former = std::mem::take(&mut self.outage);
        for caller in former.callers() {
            self.show_failure(caller, actions);
        }
        self.show_trouble(actions);
    }
}
