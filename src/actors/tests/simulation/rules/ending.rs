//! Rules about the end of the program: it has a reason, comes when nothing is left to do, and has the status of its reason.

use std::sync::Arc;
use std::time::Duration;

use super::{AT_ONCE, Account, Ledger, Rules, budget};
use crate::config::spec::{JobKind, OnExhausted, OnUnhealthy, StopBudget, Trigger};
use crate::messages::event::{EventCode, EventKey, Source};

/// The status of a program that was not found, or could not be started.
const NOT_EXECUTED: u8 = 127;

/// The possible outcomes of a shutdown, as far as they are known when it begins.
pub struct Ending {
    /// The statuses that the program may exit with; `None` if it is not known.
    statuses: Option<Vec<u8>>,
    /// Nothing was left to do: those that the shutdown starts may change the status.
    is_completed: bool,
}

impl Account {
    fn is_ordinary(&self) -> bool {
        self.spec.kind == JobKind::Job
    }

    fn waits_for_the_shutdown(&self) -> bool {
        let shutdown = EventKey { code: EventCode::Shutdown, source: Source::Global };
        matches!(&self.spec.when.trigger, Trigger::Once(key) if *key == shutdown)
    }

    /// The statuses that its last execution may have had; `None` if we ended it, or if it had no process.
    fn last_statuses(&self) -> Option<Vec<u8>> {
        // One that exits by itself while it is stopped because it is unhealthy has failed.
        let may_be_ill = self.spec.on_unhealthy == OnUnhealthy::Restart;
        let had_process = self.ended >= self.last_start;
        let status = self.last_end.filter(|_| had_process && !self.was_signalled && !may_be_ill)?;
        let code = status.shell_code();
        let code = Some(code).filter(|code| *code != NOT_EXECUTED)?;
        let is_success = self.spec.success.iter().any(|success| success.is(status));
        Some(if is_success { vec![code, 0] } else { vec![code] })
    }
}

impl Ledger {
    /// Whether it was ever told that a job is unhealthy.
    fn was_ill(&self, account: &Account) -> bool {
        let source = Source::Job(Arc::clone(&account.spec.name));
        self.past.contains(&EventKey { code: EventCode::Unhealthy, source })
    }

    /// The reasons for a shutdown, as the statuses that they lead to; `None` if there may be others.
    fn reasons(&self, now: Duration) -> Option<Vec<u8>> {
        let is_ordered = self.jobs.values().any(|account| account.orders > 0 || account.is_told);
        let gives_up = self.program.groups.iter().any(|group| {
            let source = Source::Group(Arc::clone(&group.name));
            group.on_exhausted == OnExhausted::Shutdown
                && self.past.contains(&EventKey { code: EventCode::ExitFailed, source })
        });
        if self.is_blurred || self.reloads > 0 || is_ordered || gives_up {
            return None;
        }
        let mut statuses = vec![];
        statuses.extend(self.asked_to_end.map(|_| 0));
        for account in self.jobs.values() {
            if account.spec.essential && (account.is_over || account.ends > 0 && !account.lives) {
                statuses.extend(account.last_statuses()?);
            }
            if account.spec.on_unhealthy == OnUnhealthy::Shutdown && self.was_ill(account) {
                statuses.push(1);
            }
        }
        let ordinary = || self.jobs.values().filter(|account| account.is_ordinary());
        // A coprocess may start another job just when the program ends: it does not keep it alive.
        let has_coprocess = self.jobs.values().any(|account| !account.is_ordinary());
        let lives = |account: &Account| account.lives && !(has_coprocess && account.last_start == now);
        if !ordinary().any(lives) {
            statuses.push(0);
            for account in ordinary().filter(|account| account.starts > 0) {
                statuses.extend(account.last_statuses()?);
            }
        }
        Some(statuses)
    }
}

impl Rules {
    /// A shutdown begins.
    pub(super) fn check_reason(&self) {
        let statuses = self.ledger.borrow().reasons(self.journal.awake());
        if statuses.as_ref().is_some_and(Vec::is_empty) {
            self.break_rule("a shutdown has a reason", "nobody asked for it, and a job runs");
        }
        let mut ledger = self.ledger.borrow_mut();
        let is_completed = !ledger.jobs.values().any(|account| account.is_ordinary() && account.lives);
        ledger.ending = Some(Ending { statuses, is_completed });
    }

    /// The program exits.
    pub fn check_status(&self, status: u8) {
        let ledger = self.ledger.borrow();
        let Some(Ending { statuses: Some(statuses), is_completed }) = &ledger.ending else { return };
        let is_late = |account: &Account| ledger.shutdown.is_some_and(|began| account.last_start >= began);
        let is_open =
            *is_completed && ledger.jobs.values().any(|account| account.is_ordinary() && is_late(account));
        if !is_open && !statuses.contains(&status) {
            let how = format!("{status} instead of one of {statuses:?}");
            self.break_rule("the program exits with the status of its reason", how);
        }
    }

    /// With nothing left to do, the program ends.
    pub(super) fn inspect_end(&self, now: Duration, ledger: &Ledger) {
        let is_over = |account: &Account| {
            account.is_over && now.saturating_sub(account.over_since.max(ledger.reloaded)) > 2 * AT_ONCE
        };
        let is_certain = |account: &Account| {
            account.orders == 0 && !account.is_told && !account.is_new && !account.is_restarted_by_others()
        };
        let mut ordinary = ledger.jobs.values().filter(|account| account.is_ordinary()).peekable();
        let has_any = ordinary.peek().is_some();
        if has_any && ordinary.all(|account| is_over(account) && is_certain(account)) {
            self.break_rule("the program ends when every job is over", "it goes on");
        }
    }

    /// A job that the shutdown has started is not asked to end before the others are, unless it is the last call.
    pub(super) fn check_hook(&self, name: &str) {
        let ledger = self.ledger.borrow();
        let (Some(began), Some(clock)) = (ledger.shutdown, ledger.shutdown_clock) else { return };
        let Some(account) = ledger.jobs.get(name) else { return };
        let is_late = clock.elapsed() + AT_ONCE >= budget(ledger.program.budget).mul_f64(0.8);
        let is_known = !ledger.is_blurred && ledger.reloads == 0 && ledger.killed.is_none();
        let is_free = account.spec.group.is_none() && account.spec.on_unhealthy == OnUnhealthy::Nothing;
        let is_alone = !account.is_told && account.orders == 0;
        let is_hook = account.waits_for_the_shutdown() && account.last_start >= began;
        if is_hook && is_known && is_free && is_alone && !is_late {
            self.break_rule("those that wait for the shutdown run", name);
        }
    }

    /// The program has ended: those that wait for the shutdown had their run.
    pub(super) fn check_hooks(&self, ledger: &Ledger) {
        let (Some(began), StopBudget::Within(time)) = (ledger.shutdown, ledger.program.budget) else {
            return;
        };
        let is_known = !ledger.is_blurred && ledger.reloads == 0 && ledger.killed.is_none();
        let is_flooded = ledger.flooded + AT_ONCE >= began;
        if !is_known || is_flooded || time < 2 * AT_ONCE {
            return;
        }
        let is_left_out = |account: &&Account| {
            let waits = account.waits_for_the_shutdown();
            let is_free = account.spec.group.is_none() && account.spec.when.timeout.is_none();
            let is_alone = !account.is_told && account.orders == 0 && account.by_hand == 0;
            // A reload that the shutdown has ended may have stopped it before.
            let was_over = account.is_over && account.over_since <= began;
            let has_exec = account.spec.exec.is_some() && !was_over;
            waits && is_free && is_alone && has_exec && account.starts == 0 && account.ends == 0
        };
        if let Some(account) = ledger.jobs.values().find(is_left_out) {
            self.break_rule("those that wait for the shutdown run", &*account.spec.name);
        }
    }
}
