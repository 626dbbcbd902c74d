//! Rules about restarts: how long each waits, and how many there may be within a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{AT_ONCE, Account, Ledger, Rules};
use crate::config::spec::{BackoffSpec, GroupSpec, Limit, OnUnhealthy, Strategy, Trigger};

/// The second restart in a row waits so long, and each one after it `factor` times as long.
const SECOND_DELAY: f64 = 0.1;

/// How long a restart waits at least after so many early ends in a row.
fn shortest_delay(backoff: &BackoffSpec, early_ends: u32) -> Duration {
    let grown = match early_ends {
        0 | 1 => 0.0,
        number => SECOND_DELAY * backoff.factor.powf(f64::from(number - 2)),
    };
    let delay = grown.max(backoff.min.as_secs_f64()).min(backoff.max.as_secs_f64());
    Duration::from_secs_f64(delay * (1.0 - backoff.jitter))
}

impl Account {
    /// Whether all its starts after the first are restarts by its own rules.
    fn restarts_by_itself(&self) -> bool {
        let is_repeated =
            self.spec.when.trigger.is_periodic() || matches!(self.spec.when.trigger, Trigger::Each(_));
        let is_left_alone = self.by_hand == 0 && self.orders == 0 && !self.is_told;
        !is_repeated && is_left_alone && self.spec.on_unhealthy != OnUnhealthy::Restart
    }

    /// An execution has ended that was asked for so long ago.
    pub(super) fn note_end(&mut self, lasted: Duration) {
        self.ended_clock = Instant::now();
        let is_early = lasted + AT_ONCE < self.spec.backoff.reset_after;
        self.early_ends = if is_early { self.early_ends + 1 } else { 1 };
    }

    /// Whether it may have had so many restarts, within its `per` if it has one.
    pub(super) fn has_had(&self, restarts: u32) -> bool {
        // A run whose start was given up had no process.
        let is_known = self.restarts_by_itself() && self.ends == self.starts;
        let Some(per) = self.spec.restart_rule.per.filter(|_| is_known) else {
            return self.ends > restarts;
        };
        // Each was decided before its start, and the end of the job after the end of its process.
        let may_count = |started: Instant| self.ended_clock.saturating_duration_since(started) < per;
        let number = self.restarted.iter().filter(|(_, started)| may_count(*started)).count();
        u32::try_from(number).is_ok_and(|number| number >= restarts)
    }
}

impl Rules {
    /// A job was started: if that is a restart, it waited for its delay, and was not one too many.
    pub(super) fn check_restart(&self, account: &Account) {
        let (Some((ended, started)), true) = (account.restarted.last(), account.restarts_by_itself()) else {
            return;
        };
        if account.spec.group.is_some() {
            return;
        }
        let waited = started.saturating_duration_since(*ended) + Duration::from_millis(2);
        if waited < shortest_delay(&account.spec.backoff, account.early_ends) {
            let how = format!("{} after {} early ends", account.spec.name, account.early_ends);
            self.break_rule("a restart waits for its delay", how);
        }
        if let (Limit::Finite(limit), Some(per)) = (account.spec.restarts, account.spec.restart_rule.per)
            && certain(account.restarted.iter(), *started, per) > limit
        {
            let how = format!("{}: more than {limit} within {per:?}", account.spec.name);
            self.break_rule("a job is restarted as often as configured", how);
        }
    }

    /// A member of a group was started: its group does not restart more often than it may.
    pub(super) fn check_limit(&self, job: &str, ledger: &Ledger) {
        let is_in = |group: &&GroupSpec| group.jobs.iter().any(|name| **name == *job);
        let Some(group) = ledger.program.groups.iter().find(is_in) else { return };
        let members = || group.jobs.iter().filter_map(|name| ledger.jobs.get(name));
        // With other strategies, a member may be stopped long after the end that led to it.
        let is_known = group.strategy == Strategy::OneForOne && members().all(Account::restarts_by_itself);
        let Limit::Finite(limit) = group.limit else { return };
        let is_counted =
            |(ended, _): &&(Instant, Instant)| ledger.groups_since.is_none_or(|since| *ended > since);
        let restarted = members().flat_map(|member| &member.restarted).filter(is_counted);
        if is_known && certain(restarted, Instant::now(), group.per) > limit {
            let how = format!("{}: more than {limit} within {:?}", group.name, group.per);
            self.break_rule("a group gives up after so many restarts", how);
        }
    }

    /// A group gives up: its members have ended more often than it may restart them.
    pub(super) fn check_exhausted(&self, name: &Arc<str>) {
        let ledger = self.ledger.borrow();
        let is_changing = ledger.is_blurred || ledger.reloads > 0;
        let Some(group) = ledger.program.groups.iter().find(|group| group.name == *name && !is_changing)
        else {
            return;
        };
        let members = || group.jobs.iter().filter_map(|name| ledger.jobs.get(name));
        let ends: u32 = members().map(|member| member.ends).sum();
        let is_known = members().all(|member| !member.is_new);
        if is_known && matches!(group.limit, Limit::Finite(limit) if ends <= limit) {
            let how = format!("{name} after {ends} ends");
            self.break_rule("a group gives up after so many restarts", how);
        }
    }
}

/// How many restarts were certainly decided within the time `per` before a start: after the end of the former execution.
fn certain<'a>(
    restarted: impl Iterator<Item = &'a (Instant, Instant)>,
    started: Instant,
    per: Duration,
) -> u32 {
    let within = restarted.filter(|(ended, _)| started.saturating_duration_since(*ended) < per);
    u32::try_from(within.count()).unwrap_or(u32::MAX)
}
