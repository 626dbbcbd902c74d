//! Liveness: once faults have ceased for long enough, everything is as the configuration says; and a shutdown ends.

use std::time::Duration;

use super::super::kernel::SimulatedKernel;
use super::{AT_ONCE, Account, Rules, budget};
use crate::config::spec::{JobKind, Limit, ReadyBy, Trigger};
use crate::messages::health::Health;
use crate::messages::job::Phase;
use crate::messages::status::JobStatus;

/// What a shutdown takes beyond its budget: the rest of a group has a second after its leader was killed.
const AFTER_BUDGET: Duration = Duration::from_millis(1600);
/// The program exits this long after it has killed everything, even if processes are left.
const PATIENCE: Duration = Duration::from_secs(3);

impl Rules {
    /// Looks at everything after all faults have ceased and nobody has asked for anything for a while.
    pub fn check_settled(&self, kernel: &SimulatedKernel) {
        let (Some(board), false) = (self.board.get(), self.is_shutting_down()) else { return };
        let now = self.journal.awake();
        let board = board.read();
        let ledger = self.ledger.borrow();
        if ledger.reloads > 0 {
            self.break_rule("every client gets a reply", "a reload has none");
        }
        if ledger.is_blurred {
            return;
        }
        for (name, account) in &ledger.jobs {
            let Some(job) = board.jobs.get(name) else {
                self.break_rule("every configured job is there", &**name);
                continue;
            };
            let is_repeated = account.spec.when.trigger.is_periodic();
            let is_once = !matches!(account.spec.when.trigger, Trigger::Each(_)) && !is_repeated;
            let is_scheduled = matches!(account.spec.when.trigger, Trigger::Cron(_));
            let waits = job.phase == Phase::Waiting;
            // A run whose time is over before the log has room for its output ends without a start.
            let had_none = account.starts == 0 && account.ends == 0;
            if waits && account.fired > 0 && (is_once || had_none && !is_scheduled) {
                self.break_rule("no trigger is lost", format!("{name} waits for what has come"));
            }
            let is_missed = waits && account.is_due && !account.is_told;
            if is_missed && matches!(account.spec.when.trigger, Trigger::Each(_)) {
                self.break_rule("no trigger is lost", format!("{name} does not run again"));
            }
            if let (Trigger::Interval(interval), true) =
                (&account.spec.when.trigger, waits && account.fired > 0 && !account.is_told)
                && now.saturating_sub(account.last_start)
                    > 2 * *interval
                        + account.spec.timeout.unwrap_or_default()
                            * self.journal.times_given(account.last_start)
                        + Duration::from_secs(2)
            {
                self.break_rule("an interval has its ticks", &**name);
            }
            let waited = account.phase.map_or(Duration::ZERO, |(_, since)| now.saturating_sub(since));
            if waits
                && account.fired > 0
                && !account.is_told
                && ledger.clock_changes == 0
                && account.has_lost_a_run(waited)
            {
                self.break_rule("no scheduled run is lost", &**name);
            }
            let is_queued =
                account.phase.is_some_and(|(phase, _)| phase == Phase::Queued) && waited > AT_ONCE;
            if is_queued && job.phase == Phase::Queued {
                self.check_queue(name, &ledger);
            }
            let is_over = matches!(job.phase, Phase::Halted | Phase::Complete);
            if is_over && account.is_owed_a_start && account.spec.exec.is_some() {
                self.check_start_by_hand(account, &ledger);
            }
            if !is_over && !job.phase.is_stopping() && account.is_owed_a_stop && account.orders == 0 {
                self.check_stop_by_hand(account, &ledger);
            }
            let still_runs = account.lives && account.is_owed_a_restart == Some(account.starts);
            if job.phase == Phase::Running && still_runs && account.orders == 0 {
                self.check_restart_by_hand(account, &ledger);
            }
            let says_ready = account.says_ready && !account.says_stops && account.lives;
            let is_silent = account.spec.watchdog.is_some();
            if account.spec.ready.by == Some(ReadyBy::Notify)
                && says_ready
                && !is_silent
                && job.phase == Phase::Running
                && !job.ready
            {
                self.break_rule("a job is ready when it says so", &**name);
            }
            let is_free = !account.is_restarted_by_others() && !account.is_choosy();
            let is_endless = is_free
                && !account.waits_for_its_schedule()
                && account.spec.restarts == Limit::Unlimited
                && account.starts > 0
                && !account.is_told;
            if is_endless && matches!(job.phase, Phase::Complete | Phase::Halted) {
                self.break_rule("a job has all its runs", format!("{name} is over"));
            }
            let passes =
                |check: &str| account.checks.get(check) == Some(&true) && !account.checking.contains(check);
            let all_pass = account.spec.health.iter().all(|check| passes(&check.name));
            let longest = account.spec.health.iter().map(|check| check.interval.max(check.timeout)).max();
            let is_long = longest.is_some_and(|longest| {
                now.saturating_sub(account.doubtful)
                    > 2 * longest * self.journal.times_given(account.doubtful)
            });
            // What its watchdog ends is checked no more, though it may take its time to end.
            let is_aborted = account.spec.watchdog.is_some() && !job.ready;
            let serves = job.phase == Phase::Running && !is_aborted;
            let is_checked = is_long && all_pass && serves && !board.maintenance;
            if is_checked && job.health != Health::Healthy {
                self.break_rule("a job whose checks pass is healthy", &**name);
            }
            let is_advertised = account.spec.advertise.is_some() && ledger.program.has_consul;
            let is_healthy = job.health == Health::Healthy && is_long && job.phase == Phase::Running;
            let is_passing =
                self.consul.look(|all, _| all.values().any(|it| it.name == **name && it.status == "passing"));
            if is_advertised && is_healthy && !is_passing {
                self.break_rule("a healthy job is found in Consul", &**name);
            }
        }
        let found = |name: &str| board.watches.get(name).map(|watch| watch.instances.len());
        let (service, key) = self.consul.observed();
        // A coprocess that is never started, or never ready, keeps those watches waiting that begin after it.
        let is_open = |account: &Account| {
            let shown = board.jobs.get(&account.spec.name);
            let is_over = |job: &JobStatus| matches!(job.phase, Phase::Complete | Phase::Halted);
            let was_started = shown.is_none_or(|job| job.ready || is_over(job));
            account.spec.kind == JobKind::Coprocess && !was_started
        };
        let waits = ledger.program.watches.iter().any(|watch| watch.after_coprocesses)
            && ledger.jobs.values().any(is_open);
        if ledger.program.has_consul
            && !waits
            && (found("service"), found("key")) != (Some(service), Some(key))
        {
            self.break_rule("a watch finds what is there", format!("{:?}", board.watches));
        }
        let _ = kernel;
    }

    /// Looks at the end of the program.
    pub fn check_exit(&self, kernel: &SimulatedKernel) {
        let now = self.journal.awake();
        let ledger = self.ledger.borrow();
        let living = kernel.look(|all| all.iter().filter(|process| process.lives()).count());
        if living > 0 {
            self.break_rule("no process survives the program", format!("{living} processes live"));
        }
        self.check_hooks(&ledger);
        let Some(began) = ledger.shutdown else {
            return self.break_rule("the program ends by a shutdown", "there was none");
        };
        let mut latest = began + budget(ledger.program.budget) + AFTER_BUDGET;
        if let Some(killed) = ledger.killed {
            latest = latest.min(killed + AFTER_BUDGET);
        }
        if now > latest && !ledger.is_blurred {
            let took = now.saturating_sub(began).as_secs_f64();
            self.break_rule("a shutdown ends within its budget", format!("it took {took:.3} s"));
        }
        // If the machine slept, the time after which the program exits may be over before the Reaper's reports are handled.
        let lasted = ledger.shutdown_clock.map(|began| began.elapsed()).unwrap_or_default();
        let kills_at = match ledger.killed {
            Some(killed) => killed.saturating_sub(began),
            None => budget(ledger.program.budget),
        };
        let is_patient = lasted < kills_at + PATIENCE;
        if let Some(end) = ledger.ends.first().filter(|_| is_patient) {
            self.break_rule("no exit status is lost", format!("of a process of {}", end.job));
        }
    }
}
