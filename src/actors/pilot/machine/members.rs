//! All jobs of the program, in the order of the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Action;
use super::member::Member;
use super::needs;
use crate::config::spec::JobSpec;
use crate::messages::job::{JobChanged, JobCommand, Phase};
use crate::messages::moment::Moment;

/// All jobs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Members {
    list: Vec<Member>,
    index: BTreeMap<Arc<str>, usize>,
    /// Counts changes: an answer from before the last one says nothing.
    news: u64,
    /// Counts ends of jobs, to know which was first.
    ends: u64,
}

impl Members {
    pub fn list(&self) -> &[Member] {
        &self.list
    }

    pub fn list_mut(&mut self) -> &mut [Member] {
        &mut self.list
    }

    pub fn get(&self, name: &str) -> Option<&Member> {
        self.index.get(name).and_then(|index| self.list.get(*index))
    }

    pub fn specs(&self) -> Vec<Arc<JobSpec>> {
        self.list.iter().map(|job| Arc::clone(&job.spec)).collect()
    }

    /// Removes the jobs that `keep` refuses and adds `new` ones, in the order of `order`.
    pub fn change(&mut self, keep: impl Fn(&str) -> bool, new: Vec<Member>, order: &[Arc<JobSpec>]) {
        self.list.retain(|job| keep(job.name()));
        self.list.extend(new);
        let place: BTreeMap<&str, usize> =
            order.iter().enumerate().map(|(place, job)| (&*job.name, place)).collect();
        self.list.sort_by_key(|job| place.get(&**job.name()).copied().unwrap_or(usize::MAX));
        self.index = self.list.iter().enumerate().map(|(index, job)| (job.name().clone(), index)).collect();
        for job in &mut self.list {
            (job.told, job.asked, job.answered) = (None, 0, 0);
        }
        self.news = self.news.saturating_add(1);
    }

    /// Before some of them are stopped: finds out which jobs each one needs, and which have begun to run.
    pub fn begin_to_stop(&mut self) {
        let needs = needs::resolve(self);
        for (job, needs) in self.list.iter_mut().zip(needs) {
            (job.needs, job.told, job.ran_before) = (needs, None, job.phase != Phase::Waiting);
        }
    }

    /// Tells jobs to stop, with that command.
    pub fn stop(&mut self, jobs: &[usize], now: Moment, command: JobCommand) -> Vec<Action> {
        let mut actions = Vec::new();
        for index in jobs {
            if let Some(job) = self.list.get_mut(*index) {
                job.told = Some(now);
                actions.push(Action::Tell(job.name().clone(), command));
            }
        }
        actions
    }

    /// Takes note of what a job reports. `None` if it is none of ours any more, else whether it has become complete, and
    /// the job.
    pub fn note(&mut self, change: &JobChanged) -> Option<(bool, &Member)> {
        let index = self.index.get(&change.name).copied()?;
        let job = self.list.get_mut(index).filter(|job| job.generation == change.generation)?;
        let completed = change.phase == Phase::Complete && !job.is_complete();
        let ended = may_have_process(job.phase) && !may_have_process(change.phase);
        let is_news = one_run(change.phase) != one_run(job.phase) || change.returns != job.returns;
        self.news = self.news.saturating_add(u64::from(is_news));
        job.note(change);
        // A job that was told to stop before it ran has no other end.
        if ended || completed && job.last_end == 0 {
            self.ends = self.ends.saturating_add(1);
            job.last_end = self.ends;
        }
        Some((completed, job))
    }

    /// Something has changed: an answer from before says nothing.
    pub fn note_news(&mut self) {
        self.news = self.news.saturating_add(1);
    }

    /// Whether a job has said where it is since anything changed.
    pub fn is_confirmed(&self, job: &Member) -> bool {
        job.answered == self.news
    }

    /// Ends the wait of jobs for what can no longer come. What we know of them may be older than events that are
    /// on their way to them, so each is asked first: its answer shows that it has handled every event published before.
    pub fn give_up(&mut self, lost: &[usize], in_shutdown: bool) -> Vec<Action> {
        if let Some(questions) = self.ask(lost) {
            return questions;
        }
        let lost = lost.iter().filter_map(|index| self.list.get(*index));
        lost.map(|job| Action::Tell(job.name().clone(), JobCommand::GiveUp { in_shutdown })).collect()
    }

    /// Asks jobs where they are; `None` if all have said it since anything changed, so that it is certain.
    pub fn ask(&mut self, jobs: &[usize]) -> Option<Vec<Action>> {
        self.ask_since(jobs, self.news)
    }

    /// The same, but answers count from that news on.
    pub fn ask_since(&mut self, jobs: &[usize], since: u64) -> Option<Vec<Action>> {
        let (news, mut questions, mut are_certain) = (self.news, Vec::new(), true);
        for index in jobs {
            let Some(job) = self.list.get_mut(*index).filter(|job| job.answered < since) else { continue };
            are_certain = false;
            if job.asked < since {
                job.asked = news;
                questions.push(Action::Tell(job.name().clone(), JobCommand::Answer(news)));
            }
        }
        (!are_certain).then_some(questions)
    }

    pub const fn news(&self) -> u64 {
        self.news
    }

    /// Commands every job that is not over.
    pub fn tell_all(&self, command: JobCommand) -> Vec<Action> {
        let living = self.list.iter().filter(|job| !job.is_complete());
        living.map(|job| Action::Tell(job.name().clone(), command)).collect()
    }

    /// The names of those that are not over.
    pub fn living(&self) -> String {
        let living: Vec<&str> =
            self.list.iter().filter(|job| !job.is_complete()).map(|job| &**job.name()).collect();
        living.join(" ")
    }

    /// The names of those stopped by hand.
    pub fn halted(&self) -> BTreeSet<Arc<str>> {
        self.list.iter().filter(|job| job.phase == Phase::Halted).map(|job| job.name().clone()).collect()
    }
}

/// Whether the main process of an execution may live in this phase.
pub(super) const fn may_have_process(phase: Phase) -> bool {
    match phase {
        Phase::Running
        | Phase::TimedOut
        | Phase::Holding
        | Phase::Deregistering
        | Phase::Draining
        | Phase::Terminating
        | Phase::Killing => true,
        Phase::Waiting
        | Phase::Sweeping
        | Phase::Queued
        | Phase::Delayed
        | Phase::Ending
        | Phase::Halted
        | Phase::Complete => false,
    }
}

/// Runs that follow each other count as one when we ask what has changed: otherwise a job that crashes again and again would
/// make every answer of the others too old.
const fn one_run(phase: Phase) -> Phase {
    match phase {
        Phase::Running | Phase::TimedOut | Phase::Sweeping | Phase::Queued | Phase::Delayed => Phase::Running,
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

#[cfg(test)]
mod tests {
    use super::super::tests::{changed, job};
    use super::*;

    fn members(names: &[&str], phase: Phase) -> Members {
        let jobs: Vec<Member> = names.iter().map(|name| job(name, phase)).collect();
        let order: Vec<Arc<JobSpec>> = jobs.iter().map(|job| Arc::clone(&job.spec)).collect();
        let mut members = Members::default();
        members.change(|_| true, jobs, &order);
        members
    }

    #[test]
    fn ends_are_numbered_and_each_counts_once() {
        let mut members = members(&["a", "b"], Phase::Running);
        let mut note = |name: &str, phase: Phase| {
            let (completed, job) = members.note(&changed(name, 0, phase)).unwrap();
            (completed, job.last_end)
        };
        assert_eq!(note("b", Phase::Complete), (true, 1));
        assert_eq!(note("b", Phase::Complete), (false, 1));
        assert_eq!(note("a", Phase::Terminating), (false, 0));
        assert_eq!(note("a", Phase::Complete), (true, 2));
    }

    #[test]
    fn what_counts_is_when_the_last_execution_ended_not_when_its_job_was_over() {
        let mut members = members(&["a", "b"], Phase::Running);
        let mut note = |name: &str, phase: Phase| members.note(&changed(name, 0, phase)).unwrap().1.last_end;
        assert_eq!(note("a", Phase::Sweeping), 1);
        assert_eq!(
            (note("b", Phase::Terminating), note("b", Phase::Ending), note("b", Phase::Complete)),
            (0, 2, 2)
        );
        assert_eq!((note("a", Phase::Queued), note("a", Phase::Complete)), (1, 1));
        let mut members = self::members(&["a"], Phase::Running);
        let mut note = |phase: Phase| members.note(&changed("a", 0, phase)).unwrap().1.last_end;
        assert_eq!((note(Phase::Delayed), note(Phase::Running), note(Phase::Complete)), (1, 1, 2));
    }

    #[test]
    fn jobs_are_asked_once_and_given_up_when_all_have_answered_since_the_last_change() {
        let mut members = members(&["a", "b"], Phase::Waiting);
        let told = |name: &str, command: JobCommand| Action::Tell(name.into(), command);
        let answer = |members: &mut Members, name: &str, number: u64| {
            members.note(&JobChanged { answers: Some(number), ..changed(name, 0, Phase::Waiting) });
            members.is_confirmed(members.get(name).unwrap())
        };
        let ask = JobCommand::Answer(1);
        assert_eq!(members.give_up(&[0, 1], false), [told("a", ask), told("b", ask)]);
        assert!(answer(&mut members, "a", 1));
        assert_eq!(members.give_up(&[0, 1], false), [], "b was asked already");
        members.note_news();
        assert!(!answer(&mut members, "b", 1), "it answers a question from before the news");
        let ask = JobCommand::Answer(2);
        assert_eq!(members.give_up(&[0, 1], false), [told("a", ask), told("b", ask)]);
        assert!(answer(&mut members, "a", 2) && answer(&mut members, "b", 2));
        let give_up = JobCommand::GiveUp { in_shutdown: true };
        assert_eq!(members.give_up(&[0, 1], true), [told("a", give_up), told("b", give_up)]);
    }
}
