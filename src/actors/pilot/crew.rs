//! The jobs of the program: what is known of each, and where it takes commands.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use actix::prelude::Recipient;

use super::needs;
use super::view::JobView;
use crate::config::spec::JobSpec;
use crate::messages::bus::Notice;
use crate::messages::job::{JobChanged, JobCommand, Phase};

/// A job's actor, as the Pilot deals with it.
pub struct Hand {
    /// What was configured.
    pub spec: Arc<JobSpec>,
    /// Tells it from others that had this name before.
    pub generation: u64,
    /// What is known of it at first.
    pub view: JobView,
    /// Where it takes commands.
    pub commands: Recipient<JobCommand>,
    /// Where it takes events that only it is told.
    pub notices: Recipient<Notice>,
}

/// All jobs, in the order of the configuration.
#[derive(Default)]
pub struct Crew {
    hands: Vec<Hand>,
    views: Vec<JobView>,
    index: HashMap<Arc<str>, usize>,
    /// Counts changes: an answer from before the last one says nothing.
    news: u64,
    /// The news at which each was asked where it is.
    asked: Vec<u64>,
    /// The news at which each was asked, once it has answered.
    answered: Vec<u64>,
    /// Counts ends of jobs, to know which was first.
    ends: u64,
}

/// What a report of a job changed.
pub struct Noted {
    /// Which job.
    pub index: usize,
    /// It is over, and was not before.
    pub completed: bool,
}

impl Crew {
    /// A crew of these.
    pub fn new(hands: Vec<Hand>) -> Self {
        let mut crew = Self { news: 1, ..Self::default() };
        crew.replace(hands);
        crew
    }

    fn replace(&mut self, hands: Vec<Hand>) {
        self.views = hands.iter().map(|hand| hand.view.clone()).collect();
        self.index = hands.iter().enumerate().map(|(index, hand)| (hand.spec.name.clone(), index)).collect();
        self.asked = vec![0; hands.len()];
        self.answered = vec![0; hands.len()];
        self.hands = hands;
        self.news += 1;
    }

    /// Lets go those that `keep` refuses and takes in `new`; `order` is the new order of names.
    pub fn change(
        &mut self,
        keep: impl Fn(&Arc<str>) -> bool,
        new: Vec<Hand>,
        order: &[Arc<str>],
    ) -> Vec<Hand> {
        let mut hands = std::mem::take(&mut self.hands);
        for (hand, view) in hands.iter_mut().zip(std::mem::take(&mut self.views)) {
            hand.view = view;
        }
        let (mut kept, gone): (Vec<Hand>, Vec<Hand>) =
            hands.into_iter().partition(|hand| keep(&hand.spec.name));
        kept.extend(new);
        let place: HashMap<&str, usize> =
            order.iter().enumerate().map(|(place, name)| (&**name, place)).collect();
        kept.sort_by_key(|hand| place.get(&*hand.spec.name).copied().unwrap_or(usize::MAX));
        self.replace(kept);
        gone
    }

    /// Finds out which jobs each one needs, before some are stopped.
    pub fn resolve_needs(&mut self) {
        needs::resolve(&mut self.views);
    }

    /// What is known of each.
    pub fn views(&self) -> &[JobView] {
        &self.views
    }

    /// What was configured.
    pub fn specs(&self) -> Vec<Arc<JobSpec>> {
        self.hands.iter().map(|hand| Arc::clone(&hand.spec)).collect()
    }

    /// The place of a job.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// Where a job takes events that only it is told.
    pub fn notices(&self, index: usize) -> Option<&Recipient<Notice>> {
        self.hands.get(index).map(|hand| &hand.notices)
    }

    /// Sends a command to one job.
    pub fn tell(&self, index: usize, command: JobCommand) {
        if let Some(hand) = self.hands.get(index) {
            hand.commands.do_send(command);
        }
    }

    /// Sends a command to every job that is not over.
    pub fn tell_all(&self, command: JobCommand) {
        for (index, _) in self.views.iter().enumerate().filter(|(_, job)| !job.is_complete()) {
            self.tell(index, command);
        }
    }

    /// Takes note of what a job reports; `None` if it is none of ours any more.
    pub fn note(&mut self, change: &JobChanged) -> Option<Noted> {
        let index = self.find(&change.name)?;
        self.hands.get(index).filter(|hand| hand.generation == change.generation)?;
        let job = self.views.get_mut(index)?;
        let completed = change.phase == Phase::Complete && !job.is_complete();
        let is_news = one_run(change.phase) != one_run(job.phase) || change.returns != job.returns;
        self.news += u64::from(is_news);
        job.phase = change.phase;
        job.health = change.health;
        job.returns = change.returns;
        job.missing.clone_from(&change.missing);
        job.last_status = change.last_status;
        if completed {
            self.ends += 1;
            job.last_end = self.ends;
        }
        if let (Some(news), Some(answered)) = (change.answers, self.answered.get_mut(index)) {
            *answered = news;
        }
        Some(Noted { index, completed })
    }

    /// Who has said, since anybody changed, where it is.
    pub fn confirmed(&self) -> Vec<bool> {
        self.answered.iter().map(|answered| *answered == self.news).collect()
    }

    /// Ends the wait of jobs for what can no longer come. What we know of them may be older than events that are
    /// on their way to them, so each is asked first; who answers has seen all that those gone before have sent.
    pub fn give_up(&mut self, lost: &[usize], in_shutdown: bool) {
        let confirmed = self.confirmed();
        let doubtful = lost.iter().filter(|index| !confirmed.get(**index).copied().unwrap_or(false));
        let doubtful: Vec<usize> = doubtful.copied().collect();
        if doubtful.is_empty() {
            for index in lost {
                self.tell(*index, JobCommand::GiveUp { in_shutdown });
            }
        }
        for index in doubtful {
            if let Some(asked) = self.asked.get_mut(index).filter(|asked| **asked != self.news) {
                *asked = self.news;
                self.tell(index, JobCommand::Answer(self.news));
            }
        }
    }

    /// The names of those that are not over.
    pub fn living(&self) -> String {
        let living: Vec<&str> =
            self.views.iter().filter(|job| !job.is_complete()).map(|job| &*job.name).collect();
        living.join(" ")
    }

    /// The names of those stopped by hand.
    pub fn halted(&self) -> HashSet<Arc<str>> {
        self.views.iter().filter(|job| job.phase == Phase::Halted).map(|job| job.name.clone()).collect()
    }
}

/// Runs that follow each other are one run when it is asked what has changed: a job that crashes again and again must
/// not make every answer of the others too old.
const fn one_run(phase: Phase) -> Phase {
    match phase {
        Phase::Running | Phase::TimedOut | Phase::Sweeping | Phase::Delayed => Phase::Running,
        Phase::Waiting
        | Phase::Holding
        | Phase::Deregistering
        | Phase::Draining
        | Phase::Terminating
        | Phase::Killing
        | Phase::Ending
        | Phase::Halted
        | Phase::Complete => phase,
    }
}
