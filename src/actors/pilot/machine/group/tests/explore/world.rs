//! A group of three, everything that can happen to it next, and what must hold. The jobs are the real lifecycle; commands and
//! reports take their time, in order for each job.

use std::sync::Arc;
use std::time::Duration;

use super::super::super::{Action, Group, Place};
use super::job::{Command, Job, Verb, changed};
use crate::actors::job::machine::lifecycle::{self, Cadence, Ended, Input, Policy, Process};
use crate::config::spec::{BackoffSpec, GroupSpec, Limit, OnExhausted, Strategy};
use crate::messages::health::Health;
use crate::messages::job::{JobCommand, Phase, StopOccasion};
use crate::messages::moment::Moment;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// How many ends of processes, orders of users, reloads and shutdowns are still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Budget {
    pub(super) ends: u8,
    pub(super) orders: u8,
    pub(super) reloads: u8,
    pub(super) shutdowns: u8,
}

/// The stage that the whole program is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Runs,
    /// It stops these members, and starts them anew when all are over.
    Reloads([bool; 3]),
    ShutsDown,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) group: Group,
    pub(super) jobs: [Job; 3],
    pub(super) budget: Budget,
    /// The members with a `when` or `after` of their own, whose event may come at any time or never.
    waiters: [bool; 3],
    stage: Stage,
    /// The rule that was broken.
    pub(super) broken: Option<String>,
}

/// Something that can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    Trigger(usize),
    Receive(usize),
    Report(usize),
    BecomeReady(usize),
    End(usize),
    Stop(usize),
    Delay(usize),
    Order(ClientCommand),
    /// A reload changes this member.
    Reload(usize),
    FinishReload,
    ShutDown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientCommand {
    Start(usize),
    Stop(usize),
    Restart(usize),
    StartAll,
    StopAll,
    RestartAll,
}

pub(super) fn policy(backoff: Duration) -> Policy {
    Policy {
        cadence: Cadence::Once,
        restarts: Limit::Unlimited,
        has_window: false,
        timeout: None,
        has_process: true,
        advertised: false,
        drain: Duration::ZERO,
        backoff: BackoffSpec { min: backoff, max: backoff, jitter: 0.0, ..BackoffSpec::default() },
        triggers_itself: false,
        in_group: true,
    }
}

pub(super) fn spec(strategy: Strategy, limit: Limit, on_exhausted: OnExhausted) -> GroupSpec {
    let jobs = NAMES.map(Arc::from).to_vec();
    GroupSpec { name: Arc::from("g"), jobs, strategy, limit, per: Duration::from_secs(30), on_exhausted }
}

impl World {
    pub(super) fn new(spec: GroupSpec, budget: Budget) -> Self {
        Self::with_waiters(spec, [false; 3], budget)
    }

    pub(super) fn with_waiters(spec: GroupSpec, waiters: [bool; 3], budget: Budget) -> Self {
        Self {
            group: Group::new(Arc::new(spec), waiters.map(place).to_vec()),
            jobs: [Job::new(0), Job::new(0), Job::new(0)],
            budget,
            waiters,
            stage: Stage::Runs,
            broken: None,
        }
    }

    pub(super) fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (index, job) in self.jobs.iter().enumerate() {
            let is_live = job.life.process == Process::Live;
            let serves = job.life.phase == Phase::Running && is_live;
            let can = [
                (job.life.phase == Phase::Waiting && !job.is_triggered, Move::Trigger(index)),
                (!job.inbox.is_empty(), Move::Receive(index)),
                (!job.outbox.is_empty(), Move::Report(index)),
                (serves && !job.ready, Move::BecomeReady(index)),
                (serves && self.budget.ends > 0, Move::End(index)),
                (job.life.phase.is_stopping(), Move::Stop(index)),
                (job.life.phase == Phase::Delayed, Move::Delay(index)),
            ];
            moves.extend(can.into_iter().filter_map(|(can, it)| can.then_some(it)));
        }
        let runs = self.stage == Stage::Runs;
        // Orders are refused while a reload or a shutdown is under way.
        if self.budget.orders > 0 && runs {
            let one = (0..3).flat_map(|index| {
                [ClientCommand::Start(index), ClientCommand::Stop(index), ClientCommand::Restart(index)]
            });
            let all = [ClientCommand::StartAll, ClientCommand::StopAll, ClientCommand::RestartAll];
            moves.extend(one.chain(all).map(Move::Order));
        }
        if self.budget.reloads > 0 && runs {
            moves.extend((0..3).map(Move::Reload));
        }
        if self.budget.shutdowns > 0 && self.stage != Stage::ShutsDown {
            moves.push(Move::ShutDown);
        }
        let is_over = |job: &Job| job.life.phase == Phase::Complete && job.outbox.is_empty();
        if let Stage::Reloads(stopped) = self.stage
            && self.jobs.iter().zip(stopped).all(|(job, stopped)| !stopped || is_over(job))
        {
            moves.push(Move::FinishReload);
        }
        moves
    }

    pub(super) fn after(&self, policy: &Policy, it: Move) -> Self {
        let mut world = self.clone();
        match it {
            Move::Trigger(index) => {
                world.jobs[index].is_triggered = true;
                world.input(policy, index, Input::Triggered);
            }
            Move::Receive(index) => {
                if let Some(command) = world.jobs[index].inbox.pop_front() {
                    world.receive(policy, index, command);
                }
            }
            Move::Report(index) => {
                let seen = world.jobs[index].outbox.pop_front();
                world.jobs[index].known = seen.map_or(world.jobs[index].known, |seen| seen.phase);
                if let Some(seen) = seen {
                    let actions = world.group.note(Moment::default(), &changed(NAMES[index], seen));
                    world.perform(actions);
                    world.go_on();
                }
            }
            Move::BecomeReady(index) => {
                world.jobs[index].ready = true;
                world.jobs[index].report(false);
            }
            Move::End(index) => {
                world.budget.ends -= 1;
                world.end(policy, index);
            }
            Move::Stop(index) => {
                world.input(policy, index, Input::HoldEnded);
                world.end(policy, index);
            }
            Move::Delay(index) => world.input(policy, index, Input::DelayElapsed),
            Move::Order(hand) => {
                world.budget.orders -= 1;
                match hand {
                    ClientCommand::Start(index) => world.group.start_by_hand(NAMES[index]),
                    ClientCommand::Stop(index) => {
                        world.group.stop_by_hand(NAMES[index]);
                        world.jobs[index].inbox.push_back(Command::from(JobCommand::Halt));
                    }
                    ClientCommand::Restart(index) => world.group.restart_by_hand(NAMES[index]),
                    ClientCommand::StartAll => world.group.start_all(),
                    ClientCommand::StopAll => world.group.stop_all(),
                    ClientCommand::RestartAll => world.group.restart_all(),
                }
                world.go_on();
            }
            Move::Reload(index) => {
                world.budget.reloads -= 1;
                let mut stopped = [false; 3];
                // Members that were stopped by hand begin anew, too.
                let is_halted = |index: &usize| world.jobs[*index].known == Phase::Halted;
                for anew in (0..3).filter(is_halted).chain([index]) {
                    for with in world.group.spec().restarted_with(anew) {
                        stopped[with] = true;
                    }
                }
                world.stage = Stage::Reloads(stopped);
                world.stop(stopped);
            }
            Move::FinishReload => world.finish_reload(),
            Move::ShutDown => {
                world.budget.shutdowns -= 1;
                world.stage = Stage::ShutsDown;
                world.stop([true; 3]);
            }
        }
        if world.stage == Stage::ShutsDown {
            // No group hears what they report.
            world.jobs.iter_mut().for_each(|job| job.outbox.clear());
        }
        world
    }

    /// The program tells members to stop.
    fn stop(&mut self, stopped: [bool; 3]) {
        let stop = JobCommand::Stop { cause: None, occasion: StopOccasion::Group };
        for (job, _) in self.jobs.iter_mut().zip(stopped).filter(|(_, stopped)| *stopped) {
            if job.life.phase != Phase::Complete {
                job.inbox.push_back(Command::from(stop));
            }
        }
    }

    /// Those that were stopped are new; the others go on as they are.
    fn finish_reload(&mut self) {
        let Stage::Reloads(stopped) = self.stage else { return };
        self.stage = Stage::Runs;
        let mut places = Vec::new();
        for (index, name) in NAMES.iter().enumerate() {
            let known = self.group.place(name).copied();
            let waits = self.waiters[index];
            places.push(known.filter(|_| !stopped[index]).unwrap_or_else(|| place(waits)));
            if stopped[index] {
                // Those after it do not wait for the first execution of one that waits for an event.
                let run = if waits { 0 } else { self.jobs[index].run };
                self.jobs[index] = Job::new(run);
            }
        }
        self.group = Group::new(Arc::clone(self.group.spec()), places);
        self.go_on();
    }

    /// While a reload stops jobs, a group tells nobody anything.
    fn go_on(&mut self) {
        if self.stage != Stage::Runs {
            return;
        }
        let actions = self.group.go_on();
        self.perform(actions);
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            if let Action::Tell(name, command) = action {
                let index = NAMES.iter().position(|it| **it == *name).unwrap();
                self.jobs[index].inbox.push_back(Command::from(command));
            }
        }
    }

    fn receive(&mut self, policy: &Policy, index: usize, Command(command, number): Command) {
        let input = match command {
            Verb::Queue => Input::QueueRequested,
            Verb::Proceed => Input::TurnCame,
            Verb::Start => Input::StartRequested,
            Verb::Restart => Input::RestartRequested,
            Verb::Halt => Input::HaltRequested,
            Verb::Stop => Input::StopRequested,
        };
        self.input(policy, index, input);
        if matches!(command, Verb::Queue | Verb::Proceed) {
            self.jobs[index].group_order = number;
            self.jobs[index].report(true);
        }
    }

    fn end(&mut self, policy: &Policy, index: usize) {
        let ended = Ended { success: false, lasted: Duration::ZERO };
        self.input(policy, index, Input::Exited(ended));
        self.input(policy, index, Input::GroupGone);
    }

    fn input(&mut self, policy: &Policy, index: usize, input: Input) {
        let (next, actions) = lifecycle::step(policy, self.jobs[index].life, input);
        self.jobs[index].life = next;
        if actions.contains(&lifecycle::Action::Spawn) {
            self.spawned(index);
        }
        let job = &mut self.jobs[index];
        job.ready &= job.life.process == Process::Live;
        job.report(false);
    }

    /// A member starts: nobody after it may still run with its former execution.
    fn spawned(&mut self, index: usize) {
        let is_ordered = self.group.spec().strategy != Strategy::OneForOne;
        if is_ordered && self.jobs[index].run > 0 {
            let alive = self.jobs[index + 1..].iter().any(|job| job.life.process != Process::None);
            if alive {
                self.broken = Some(format!("{} starts while another after it runs", NAMES[index]));
            }
        }
        let runs = [0, 1, 2].map(|other| self.jobs[other].run);
        let job = &mut self.jobs[index];
        (job.run, job.ready, job.knows) = (job.run + 1, false, runs);
    }

    /// The rule that a move has broken, or one that holds when no message is on its way and no job is starting or stopping.
    pub(super) fn broken_rule(&self) -> Option<String> {
        self.broken.clone().or_else(|| self.broken_at_rest())
    }

    fn broken_at_rest(&self) -> Option<String> {
        let is_busy = |job: &Job| {
            let is_starting = job.life.process == Process::Live && !job.ready;
            let is_moving = job.life.phase.is_stopping() || job.life.phase == Phase::Delayed;
            !job.inbox.is_empty() || !job.outbox.is_empty() || is_starting || is_moving
        };
        if self.jobs.iter().any(is_busy) {
            return None;
        }
        if self.stage == Stage::ShutsDown {
            let left = self.jobs.iter().position(|job| job.life.phase != Phase::Complete)?;
            return Some(format!("{} outlives the shutdown", NAMES[left]));
        }
        if self.stage != Stage::Runs {
            let ends = self.moves().contains(&Move::FinishReload);
            return (!ends).then(|| "the reload never ends".to_owned());
        }
        let is_untriggered = |job: &Job| job.life.phase == Phase::Waiting && !job.is_triggered;
        if self.jobs.iter().zip(self.waiters).any(|(job, waits)| !waits && is_untriggered(job)) {
            return None;
        }
        let queued = self.jobs.iter().any(|job| job.life.phase == Phase::Queued);
        let waits = || (queued && !self.group.has_given_up).then(|| "somebody waits forever".to_owned());
        self.older_execution().or_else(waits)
    }

    fn older_execution(&self) -> Option<String> {
        if self.group.spec().strategy == Strategy::OneForOne {
            return None;
        }
        let live = self.jobs.iter().enumerate().filter(|(_, job)| job.life.process != Process::None);
        let is_older =
            |job: &Job, before: usize| job.knows[before] > 0 && job.knows[before] != self.jobs[before].run;
        let mut found =
            live.filter_map(|(index, job)| Some((index, (0..index).find(|before| is_older(job, *before))?)));
        let (index, before) = found.next()?;
        Some(format!("{} has an older execution of {}", NAMES[index], NAMES[before]))
    }
}

/// The place of a member that has not begun.
fn place(waits: bool) -> Place {
    Place {
        phase: Phase::Waiting,
        ready: false,
        health: Health::Unknown,
        is_checked: false,
        succeeded: false,
        starts_at_once: !waits,
        ordered: 0,
        due: None,
        told: None,
    }
}
