//! Rules about states, looked at after every step: how long each may last.

use std::sync::Arc;
use std::time::Duration;

use super::super::kernel::{Process, SimulatedKernel, State};
use super::events::has_recovered;
use super::{AT_ONCE, Account, Ledger, Rules};
use crate::config::spec::{JobSpec, Trigger};
use crate::messages::health::Health;
use crate::messages::job::Phase;

/// The rest of a group has a second between SIGTERM and SIGKILL.
const SWEEP: Duration = Duration::from_millis(1300);
/// How long what a job has in Consul may differ from what it should have, while Consul is well.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

impl Rules {
    /// Looks at everything.
    pub fn inspect(&self, kernel: &SimulatedKernel, is_flooded: bool) {
        let Some(board) = self.board.get() else { return };
        let now = self.journal.awake();
        self.check_given_up();
        let mut ledger = self.ledger.borrow_mut();
        if is_flooded {
            ledger.flooded = now;
        }
        if ledger.maintenance_since.is_some() {
            ledger.unchecked = now;
        }
        let late = ledger.ends.iter().find(|end| now.saturating_sub(end.at) > AT_ONCE);
        if let Some(end) = late {
            self.break_rule("no exit status is lost", format!("of a process of {}", end.job));
        }
        let board = board.read();
        kernel.look(|processes| self.inspect_processes(now, processes, &board.jobs));
        let is_stopping = ledger.shutdown.is_some();
        // Several reloads at once, one of them by a signal: nobody was told which one a job is of.
        let is_of_any = ledger.is_blurred && (ledger.reloads > 0 || ledger.is_uncertain);
        let is_changing = ledger.is_blurred || ledger.reloads > 0;
        let Ledger { jobs, flooded, is_blurred, unchecked, .. } = &mut *ledger;
        for (name, account) in jobs.iter_mut() {
            let phase = board.jobs.get(name).map(|job| job.phase);
            account.note_phase(phase, now);
            account.forget_orders(now);
            if !is_stopping && !is_of_any {
                self.inspect_phase(now, name, account, *unchecked);
            }
            if !is_stopping && !is_changing {
                self.inspect_due(now, account);
            }
            let is_idle = kernel.look(|all| !all.iter().any(|it| it.is_of(name) && it.leads() && it.lives()));
            let is_running = phase == Some(Phase::Running) && account.spec.exec.is_some() && !*is_blurred;
            if !(is_idle && is_running)
                || kernel.is_searched(name)
                || now.saturating_sub(*flooded) < SETTLED_AFTER
            {
                account.idle = None;
            } else if now.saturating_sub(*account.idle.get_or_insert(now)) > Duration::from_secs(1) {
                self.break_rule("a job that runs has a process", &**name);
            }
        }
        let is_blurred = *is_blurred;
        // What ended during a reload is looked at when that is over.
        let reloaded = ledger.reloaded;
        let is_ending = |account: &&Account| {
            let since = account.over_since.max(reloaded);
            let is_over = account.is_over && now.saturating_sub(since) > AT_ONCE;
            let ends_alone = !account.is_told && !account.is_new && !account.is_restarted_by_others();
            account.spec.essential && is_over && ends_alone
        };
        if !is_stopping
            && !is_blurred
            && ledger.reloads == 0
            && let Some(account) = ledger.jobs.values().find(is_ending)
        {
            self.break_rule("the end of an essential job ends the program", &*account.spec.name);
        }
        if !is_stopping && !is_changing {
            self.inspect_end(now, &ledger);
        }
        drop(board);
        if !is_stopping && !is_blurred {
            self.inspect_consul(now, &mut ledger, kernel);
        }
    }

    fn inspect_processes(
        &self,
        now: Duration,
        processes: &[Process],
        jobs: &std::collections::BTreeMap<Arc<str>, Arc<crate::messages::status::JobStatus>>,
    ) {
        for process in processes {
            if let (State::Zombie(_), true, Some(ended)) = (process.state, process.is_settled, process.ended)
                && now.saturating_sub(ended) > AT_ONCE
            {
                self.break_rule("zombies are reaped at once", format!("process {}", process.pid));
            }
            if process.state == State::Stopped
                && process.asked_in_vain.is_some_and(|asked| now.saturating_sub(asked) > AT_ONCE)
            {
                let how = format!("process {}", process.pid);
                self.break_rule("a stopped process that is asked to end is continued", how);
            }
            let super::super::kernel::Owner::Job(name) = &process.owner else { continue };
            if !process.lives() || !process.leads() || !process.is_settled {
                continue;
            }
            let phase = jobs.get(name).map(|job| job.phase);
            let outlives = [Phase::Waiting, Phase::Queued, Phase::Delayed, Phase::Halted, Phase::Complete];
            if phase.is_none_or(|phase| outlives.contains(&phase)) {
                let how = format!("process {} of {name}, which is {phase:?}", process.pid);
                self.break_rule("no process outlives its job", how);
            }
        }
    }

    fn inspect_phase(&self, now: Duration, name: &str, account: &Account, unchecked: Duration) {
        let Some((phase, since)) = account.phase else { return };
        // A start that was requested may have to wait until the one before it, which hangs, has ended.
        let began = account.last_start.max(since);
        // By its checks it can become ready only while these are on.
        let began = if account.spec.ready.by.is_none() { began.max(unchecked) } else { began };
        let ready_by =
            account.spec.ready.timeout.map(|limit| began + limit * self.journal.times_given(began) + AT_ONCE);
        if phase == Phase::Running
            && account.lives
            && !account.is_ready
            && !account.was_signalled
            && now > account.needs_until + AT_ONCE
            && ready_by.is_some_and(|by| now > by)
        {
            self.break_rule("a job that is not ready in time is killed", name);
        }
        let is_each = matches!(account.spec.when.trigger, Trigger::Each(_));
        let waits = phase == Phase::Waiting && now.saturating_sub(since) > AT_ONCE;
        if waits && is_each && account.is_due && !account.is_told {
            self.break_rule("no trigger is lost", format!("{name} does not run again"));
        }
        let Some(limit) = longest(phase, &account.spec) else { return };
        if phase == Phase::Terminating && now <= account.needs_until + AT_ONCE {
            return;
        }
        if now.saturating_sub(since) > limit * self.journal.times_given(since) + AT_ONCE {
            self.break_rule("every step of a stop has its limit", format!("{name} is {phase} for too long"));
        }
    }

    /// Nothing is registered that does not serve.
    fn inspect_consul(&self, now: Duration, ledger: &mut Ledger, kernel: &SimulatedKernel) {
        let Ledger { jobs, maintenance_since, program, strangers, .. } = ledger;
        self.consul.look(|services, well_since| {
            let Some(well_since) = well_since.filter(|_| program.has_consul) else {
                strangers.clear();
                jobs.values_mut().for_each(|account| account.unserved = None);
                return;
            };
            let is_recovered = has_recovered(now, well_since);
            let is_there = |name: &str| services.values().any(|service| service.name == name);
            strangers.retain(|name, _| is_there(name));
            jobs.values_mut().filter(|it| !is_there(&it.spec.name)).for_each(|it| it.unserved = None);
            for service in services.values() {
                let name = &service.name;
                let Some(account) = jobs.get_mut(name.as_str()) else {
                    let since = *strangers.entry(name.clone()).or_insert(now);
                    if is_recovered && now.saturating_sub(since) > SETTLED_AFTER {
                        self.break_rule("nothing is registered that does not serve", name);
                    }
                    continue;
                };
                strangers.remove(name);
                let serves =
                    kernel.look(|all| all.iter().any(|it| it.is_of(name) && it.leads() && it.lives()));
                let serves = serves || account.spec.exec.is_none();
                let is_early = account.spec.advertise.as_ref().is_some_and(|it| it.initial_status.is_some());
                let is_over = matches!(account.phase, Some((Phase::Halted | Phase::Complete, _)));
                let is_wrong = is_over
                    || maintenance_since.is_some()
                    || (account.health == Health::Unhealthy && service.status == "passing")
                    || (!serves && !is_early && service.status == "passing");
                if !is_wrong {
                    account.unserved = None;
                } else if now.saturating_sub(*account.unserved.get_or_insert(now)) > SETTLED_AFTER
                    && is_recovered
                {
                    self.break_rule("nothing is registered that does not serve", name);
                }
                let is_silent = now.saturating_sub(service.told) > service.ttl;
                if is_recovered && is_silent && serves && maintenance_since.is_none() && !is_over {
                    self.break_rule("a registered service has its heartbeats", name);
                }
            }
        });
    }
}

impl Account {
    /// A job that runs for a while after an order ends by its own doing again.
    fn forget_orders(&mut self, now: Duration) {
        let runs_since = self.phase.filter(|(phase, _)| *phase == Phase::Running).map(|(_, since)| since);
        let has_run = runs_since.is_some_and(|since| now.saturating_sub(since) > 2 * AT_ONCE);
        if has_run && self.orders == 0 && self.lives && !self.is_stopping {
            self.is_told = false;
        }
    }

    fn note_phase(&mut self, phase: Option<Phase>, now: Duration) {
        if self.phase.map(|(phase, _)| phase) != phase {
            self.phase = phase.map(|phase| (phase, now));
        }
    }
}

/// How long a job may be in a phase, outside of a shutdown.
fn longest(phase: Phase, spec: &JobSpec) -> Option<Duration> {
    let step = Duration::from_secs(5);
    match phase {
        Phase::TimedOut | Phase::Killing => Some(Duration::ZERO),
        Phase::Sweeping | Phase::Ending => Some(SWEEP),
        Phase::Holding => Some(spec.stop.wait.unwrap_or(step)),
        Phase::Deregistering => Some(Duration::from_secs(2)),
        Phase::Draining => Some(spec.stop.drain),
        Phase::Terminating => Some(spec.stop.kill_timeout.unwrap_or(step)),
        // In a group its delay may begin anew, with another member's restart.
        Phase::Delayed if spec.group.is_some() => None,
        Phase::Delayed => Some(spec.backoff.max.mul_f64(1.0 + spec.backoff.jitter)),
        Phase::Running => spec.timeout.filter(|_| spec.exec.is_some()),
        Phase::Waiting | Phase::Queued | Phase::Halted | Phase::Complete => None,
    }
}
