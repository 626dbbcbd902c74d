//! The decisions of a group: which members stop when the execution of one has ended, in which order they start again, and
//! when the group gives up. A member never starts by itself: it is *queued* until the group says that it is its turn.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::duration::GoDuration;
use crate::config::spec::{GroupSpec, Limit, OnExhausted, Strategy};
use crate::messages::event::EventCode;
use crate::messages::health::Health;
use crate::messages::job::{GroupOrder, JobChanged, JobCommand, Phase, StopOccasion};
use crate::messages::moment::Moment;
use crate::messages::status::GroupStatus;

mod facts;
#[cfg(test)]
mod tests;

use facts::Facts;

/// One group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Group {
    spec: Arc<GroupSpec>,
    /// Its members, in the order of the list.
    places: Vec<Place>,
    /// The ends that led to restarts, within the last `per`, oldest first.
    ends: VecDeque<End>,
    /// Restarts since the group was configured.
    restarts: u64,
    has_given_up: bool,
    /// The event that led to the last restart.
    cause: Option<u64>,
    /// The state of the group that was published last.
    facts: Facts,
}

/// What a group knows of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Its phase, or the one that our last order leads to.
    pub phase: Phase,
    /// Its current execution is ready.
    pub ready: bool,
    pub health: Health,
    /// It has health checks.
    pub is_checked: bool,
    /// Its last execution was a success.
    pub succeeded: bool,
    /// It waits for `startup` only, and so is about to start.
    pub starts_at_once: bool,
    /// The number of our last order to it.
    pub ordered: u64,
    /// It is still to be told this.
    pub due: Option<Order>,
    /// It was told this, and has not done it yet.
    pub told: Option<Order>,
}

/// An order to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    /// To stop, and to run again when it is its turn.
    Requeue,
    /// The same, because a user asked for it.
    Restart,
    /// To run when it is its turn, although nothing but the user asks for it.
    Start,
    /// To stay stopped until a user starts it.
    Halt,
    /// To complete.
    Stop,
}

/// An end that led to a restart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct End {
    /// When.
    pub at: Moment,
    /// The member that ended.
    pub job: Arc<str>,
    /// Its status.
    pub status: Option<u8>,
}

/// An action for the Pilot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Command a member.
    Tell(Arc<str>, JobCommand),
    /// Publish an event of the group.
    Publish(EventCode),
    /// Tell people.
    Note(String),
    /// The group gave up: this was one restart too many. Shut down if it is to, with that status.
    GiveUp {
        /// The member that ended.
        job: Arc<str>,
        /// Its status.
        status: Option<u8>,
        /// Whether the program is to shut down.
        shuts_down: bool,
        /// The chain of ends that led there.
        chain: String,
    },
}

impl Place {
    /// Its process is gone, and no new one begins before we say so.
    fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Waiting | Phase::Queued | Phase::Halted | Phase::Complete)
    }

    fn has_done(&self, order: Order) -> bool {
        match order {
            Order::Requeue => self.is_settled(),
            // It may have been stopped by hand just before: that is not the end of it.
            Order::Restart => self.phase == Phase::Queued,
            Order::Start => self.phase == Phase::Queued || !self.is_settled(),
            Order::Halt | Order::Stop => self.is_over(),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Halted | Phase::Complete)
    }

    /// Whether the members after it may start. They do not wait for one that waits for an event, which may never come,
    /// but for one that stops, which may be about to restart.
    fn lets_pass(&self) -> bool {
        (self.ready && !self.phase.is_stopping())
            || self.is_over()
            || (self.phase == Phase::Waiting && !self.starts_at_once)
    }

    /// It was told to run, and its report of that may be on its way.
    fn is_told_to_run(&self) -> bool {
        matches!(self.told, Some(Order::Start | Order::Restart))
    }

    /// It has yet to do what it was told, or will be.
    fn is_occupied(&self) -> bool {
        self.due.is_some() || self.told.is_some()
    }
}

impl Group {
    /// A group whose members are there.
    pub fn new(spec: Arc<GroupSpec>, places: Vec<Place>) -> Self {
        let facts = Facts::of(&places);
        Self { spec, places, ends: VecDeque::new(), restarts: 0, has_given_up: false, cause: None, facts }
    }

    /// A group in the place of another one. What holds of it and did not hold of that one is still to be published.
    pub fn after(old: &Self, spec: Arc<GroupSpec>, places: Vec<Place>) -> Self {
        let new = Self::new(spec, places);
        Self { facts: new.facts.and(old.facts), ..new }
    }

    pub const fn spec(&self) -> &Arc<GroupSpec> {
        &self.spec
    }

    /// The group as users see it.
    pub fn status(&self) -> GroupStatus {
        GroupStatus {
            name: Arc::clone(&self.spec.name),
            jobs: self.spec.jobs.clone(),
            ready: self.facts.codes().contains(&EventCode::Ready),
            restarts: self.restarts,
            has_given_up: self.has_given_up,
        }
    }

    /// The events of the group that hold now.
    pub fn holds(&self) -> Vec<EventCode> {
        self.facts.codes()
    }

    /// The same group of the same members, with another configuration.
    pub fn reconfigured(&self, spec: Arc<GroupSpec>) -> Self {
        Self { spec, ..self.clone() }
    }

    /// Whether members are still to do what they were told, or to be told it.
    pub fn is_occupied(&self) -> bool {
        self.places.iter().any(Place::is_occupied)
    }

    /// The state of the member with that name.
    pub fn place(&self, job: &str) -> Option<&Place> {
        self.places.get(self.index(job)?)
    }

    fn index(&self, job: &str) -> Option<usize> {
        self.spec.jobs.iter().position(|name| **name == *job)
    }

    /// Takes note of what a member reports.
    pub fn note(&mut self, now: Moment, change: &JobChanged) -> Vec<Action> {
        let Some((index, place)) = self.reporting(change) else { return vec![] };
        let (was_queued, was_occupied) = (place.phase == Phase::Queued, place.is_occupied());
        place.note(change);
        place.told = place.told.filter(|order| !place.has_done(*order));
        // The end of a member that was to stop anyway is not counted.
        let is_queued_now = place.phase == Phase::Queued && !was_queued;
        let is_new_end = is_queued_now && change.is_restart && !was_occupied;
        if is_new_end { self.ended(now, index, change) } else { vec![] }
    }

    /// The same while the program ends, which stops all members: nobody is started or restarted.
    pub fn note_at_the_end(&mut self, change: &JobChanged) -> Vec<Action> {
        let Some((_, place)) = self.reporting(change) else { return vec![] };
        place.note(change);
        self.news()
    }

    /// The place of the member that reports. `None` if it had not got our last order yet: it reports again when it has.
    fn reporting(&mut self, change: &JobChanged) -> Option<(usize, &mut Place)> {
        let index = self.index(&change.name)?;
        let place = self.places.get_mut(index)?;
        (change.group_order >= place.ordered).then_some((index, place))
    }

    /// A member has ended by itself and is to be restarted.
    fn ended(&mut self, now: Moment, index: usize, change: &JobChanged) -> Vec<Action> {
        let per = self.spec.per;
        while self.ends.front().is_some_and(|end| now.since(end.at) >= per) {
            self.ends.pop_front();
        }
        self.ends.push_back(End { at: now, job: change.name.clone(), status: change.last_status });
        if self.is_exhausted() {
            return self.give_up(now, change);
        }
        if self.spec.limit == Limit::Unlimited {
            // Nobody counts them.
            self.ends.clear();
        }
        self.restarts = self.restarts.saturating_add(1);
        self.cause = change.cause;
        let others = self.spec.restarted_with(index);
        let stopped = self.requeue(others.filter(|other| *other != index));
        let mut text = format!("restarts {}, which {}", change.name, how(change.last_status));
        if !stopped.is_empty() {
            text = format!("{text}, and with it {}", stopped.join(", "));
        }
        vec![Action::Note(text)]
    }

    fn is_exhausted(&self) -> bool {
        match self.spec.limit {
            Limit::Unlimited => false,
            Limit::Finite(limit) => self.ends.len() > usize::try_from(limit).unwrap_or(usize::MAX),
        }
    }

    /// One restart too many.
    fn give_up(&mut self, now: Moment, change: &JobChanged) -> Vec<Action> {
        self.has_given_up = true;
        let shuts_down = self.spec.on_exhausted == OnExhausted::Shutdown;
        let ends = self.ends.iter().map(|end| {
            let ago = GoDuration::from(now.since(end.at));
            format!("{} {} ({ago} ago)", end.job, how(end.status))
        });
        let chain = ends.collect::<Vec<_>>().join(", then ");
        if !shuts_down {
            for place in &mut self.places {
                // Also what a user has asked for in the meantime is over; who was told to start already is stopped again.
                let is_needed = place.phase != Phase::Complete || place.told.is_some();
                place.due = is_needed.then_some(Order::Stop);
            }
        }
        let (job, status) = (change.name.clone(), change.last_status);
        vec![Action::Publish(EventCode::ExitFailed), Action::GiveUp { job, status, shuts_down, chain }]
    }

    /// Has these members stopped, if they run, to run again; their names.
    fn requeue(&mut self, members: impl Iterator<Item = usize>) -> Vec<String> {
        let mut stopped = Vec::new();
        for index in members {
            let (Some(place), Some(name)) = (self.places.get_mut(index), self.spec.jobs.get(index)) else {
                continue;
            };
            if !place.is_settled() && !place.is_occupied() {
                place.due = Some(Order::Requeue);
                stopped.push(name.to_string());
            }
        }
        stopped
    }

    /// A user starts a member: those after it that run are restarted, since they know the former execution.
    pub fn start_by_hand(&mut self, job: &str) {
        let Some(index) = self.index(job) else { return };
        self.begin_anew();
        self.start_at(index);
    }

    /// A user restarts a member: as if it had ended, but that does not count.
    pub fn restart_by_hand(&mut self, job: &str) {
        let Some(index) = self.index(job) else { return };
        if self.places.get(index).is_some_and(Place::is_settled) {
            return self.start_by_hand(job);
        }
        self.begin_anew();
        let others = self.spec.restarted_with(index);
        self.requeue(others.filter(|other| *other != index));
        if let Some(place) = self.places.get_mut(index) {
            place.due = Some(Order::Restart);
        }
    }

    /// A user stops a member; whether the Pilot is to tell it so: then the others wait for that.
    pub fn stop_by_hand(&mut self, job: &str) -> bool {
        let Some(place) = self.index(job).and_then(|index| self.places.get_mut(index)) else { return false };
        place.due = None;
        let is_to_stop = !place.is_over() || place.is_told_to_run();
        if is_to_stop {
            place.told = Some(Order::Halt);
        }
        is_to_stop
    }

    /// Whether a member that runs is about to stop, or one that is over to run.
    pub fn is_about_to_change(&self, job: &str) -> bool {
        self.place(job).is_some_and(|place| {
            [place.due, place.told].into_iter().flatten().any(|order| match order {
                Order::Halt | Order::Stop => !place.is_over(),
                Order::Start | Order::Restart => place.is_over(),
                Order::Requeue => false,
            })
        })
    }

    /// A user starts all members that do not run.
    pub fn start_all(&mut self) {
        self.begin_anew();
        (0..self.places.len()).for_each(|index| self.start_at(index));
    }

    /// A user restarts all members.
    pub fn restart_all(&mut self) {
        for place in self.places.iter_mut().filter(|place| !place.is_settled()) {
            place.due = Some(Order::Restart);
        }
        self.start_all();
    }

    /// A user stops all members.
    pub fn stop_all(&mut self) {
        for place in &mut self.places {
            // A start that is due is taken back, too.
            place.due = (!place.is_over() || place.is_told_to_run()).then_some(Order::Halt);
        }
    }

    fn begin_anew(&mut self) {
        (self.has_given_up, self.cause) = (false, None);
        self.ends.clear();
    }

    /// Has a member queued that does not run, and those after it that know its former execution stopped.
    fn start_at(&mut self, index: usize) {
        let Some(place) = self.places.get_mut(index) else { return };
        place.due = match place.phase {
            // Its report that it stops may be on its way.
            _ if matches!(place.told, Some(Order::Halt | Order::Stop)) => Some(Order::Restart),
            Phase::Queued | Phase::Running | Phase::TimedOut => match place.due {
                // It was to stop when those after it have, and was not told yet.
                Some(Order::Halt | Order::Stop) if place.phase == Phase::Queued => None,
                Some(Order::Halt | Order::Stop) => Some(Order::Restart),
                Some(Order::Requeue | Order::Restart | Order::Start) | None => return,
            },
            Phase::Waiting | Phase::Halted | Phase::Complete => Some(Order::Start),
            // It runs again when it has stopped, or without the rest of its delay.
            Phase::Sweeping
            | Phase::Delayed
            | Phase::Holding
            | Phase::Deregistering
            | Phase::Draining
            | Phase::Terminating
            | Phase::Killing
            | Phase::Ending => Some(Order::Restart),
        };
        match self.spec.strategy {
            Strategy::OneForOne => {}
            Strategy::OneForAll | Strategy::RestForOne => {
                self.requeue(index.saturating_add(1)..self.places.len());
            }
        }
    }

    /// The orders to members that are due now, stops before starts, and the events of the group. The last member is
    /// stopped first.
    pub fn go_on(&mut self) -> Vec<Action> {
        let mut actions = self.stop_next();
        if !self.has_given_up && !self.is_occupied() {
            actions.extend(self.start_next());
        }
        actions.extend(self.news());
        actions
    }

    /// The events of what has become true of the group.
    fn news(&mut self) -> Vec<Action> {
        let facts = Facts::of(&self.places);
        self.facts.become_these(facts).into_iter().map(Action::Publish).collect()
    }

    /// Tells the last member that is to be told something, once those after it have done what they were told.
    fn stop_next(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (place, name) in self.places.iter_mut().zip(&self.spec.jobs).rev() {
            if place.told.is_some() {
                break;
            }
            let order = match place.due.take() {
                // It has stopped for another reason meanwhile.
                Some(Order::Restart) if place.is_settled() => Order::Start,
                Some(order) => order,
                None => continue,
            };
            if place.has_done(order) {
                continue;
            }
            actions.push(Action::Tell(name.clone(), place.tell(order, self.cause)));
            break;
        }
        actions
    }

    /// Starts the queued members whose turn it is.
    fn start_next(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (place, name) in self.places.iter_mut().zip(&self.spec.jobs) {
            if place.phase == Phase::Queued {
                actions.push(Action::Tell(name.clone(), place.proceed()));
            }
            if !place.lets_pass() {
                break;
            }
        }
        actions
    }
}

impl Place {
    fn note(&mut self, change: &JobChanged) {
        (self.phase, self.ready, self.health) = (change.phase, change.ready, change.health);
        self.succeeded = change.last_status == Some(0);
    }

    /// It is its turn.
    fn proceed(&mut self) -> JobCommand {
        self.ordered = self.ordered.saturating_add(1);
        (self.phase, self.ready) = (Phase::Running, false);
        JobCommand::Proceed(GroupOrder { number: self.ordered, cause: None })
    }

    fn tell(&mut self, order: Order, cause: Option<u64>) -> JobCommand {
        self.told = Some(order);
        match order {
            Order::Requeue => {
                self.ordered = self.ordered.saturating_add(1);
                JobCommand::Requeue(GroupOrder { number: self.ordered, cause })
            }
            Order::Restart => JobCommand::Restart,
            Order::Start => JobCommand::Start,
            Order::Halt => JobCommand::Halt,
            Order::Stop => JobCommand::Stop { cause: None, occasion: StopOccasion::Group },
        }
    }
}

fn how(status: Option<u8>) -> String {
    match status {
        Some(status) => format!("ended with status {status}"),
        None => "ended".to_owned(),
    }
}
