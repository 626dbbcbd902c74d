//! The rule about the order of stops in a shutdown.

use std::sync::Arc;
use std::time::Duration;

use super::super::kernel::SimulatedKernel;
use super::{Account, Rules, needs};
use crate::config::spec::{OnUnhealthy, StopBudget};
use crate::messages::health::Health;

impl Rules {
    /// In a shutdown, a job that runs is told to stop after the running jobs that needed it.
    pub(super) fn check_order_of_stops(&self, name: &str, kernel: &SimulatedKernel) {
        let ledger = self.ledger.borrow();
        let (Some(began), StopBudget::Within(budget)) = (ledger.shutdown, ledger.program.budget) else {
            return;
        };
        // By the clock of the program, which does not stop while the machine sleeps.
        let lasted = ledger.shutdown_clock.map_or(Duration::ZERO, |began| began.elapsed());
        let is_late = lasted + Duration::from_millis(2) >= budget.mul_f64(0.8);
        let runs =
            |job: &str| kernel.look(|all| all.iter().any(|it| it.is_of(job) && it.leads() && it.lives()));
        // A group that gives up stops its members whoever needs them, maybe just before the shutdown; and who is restarted when
        // it is unhealthy is so until it is told to stop.
        let was_told = |account: &Account| {
            let is_ill =
                account.health == Health::Unhealthy && account.spec.on_unhealthy == OnUnhealthy::Restart;
            account.is_told || ledger.has_given_up(&account.spec) || is_ill
        };
        let was_told = ledger.jobs.get(name).is_none_or(was_told) || ledger.is_blurred;
        let is_new = ledger.jobs.get(name).is_some_and(|account| account.last_start >= began);
        if is_late || ledger.killed.is_some() || was_told || is_new || ledger.reloads > 0 || !runs(name) {
            return;
        }
        let jobs: Vec<_> = ledger.jobs.values().map(|account| Arc::clone(&account.spec)).collect();
        let Some(job) = jobs.iter().find(|job| *job.name == *name) else { return };
        let jobs = needs::connected(&jobs, job);
        if needs::has_circle(&jobs) {
            return;
        }
        for job in jobs.iter().filter(|job| *job.name != *name && runs(&job.name)) {
            let Some(account) = ledger.jobs.get(&job.name) else { continue };
            let is_stopping = account.is_stopping;
            // Those that the shutdown itself starts are not waited for.
            if account.last_start < began && needs::needs(&jobs, job, name) {
                let how = format!("{name} stops while {} runs, stopping: {is_stopping}", job.name);
                self.break_rule("a job stops after those that need it", how);
            }
        }
    }
}
