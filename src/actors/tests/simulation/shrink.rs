//! Makes a story that breaks a rule smaller: fewer jobs and steps, plainer programs, as long as it breaks the same rule.

use std::mem;

use super::story::{Manner, Operation, Program, Start, Story};
use crate::config::spec::{JobSpec, Limit, OnUnhealthy, ReadySpec, RestartRule, StopSpec, Trigger};
use crate::messages::event::{EventCode, EventKey, Source};

/// The most stories that are tried.
const TRIES: u32 = 1500;

/// A smaller story for which `fails` is still true.
pub fn shrink(story: Story, fails: impl Fn(&Story) -> bool) -> Story {
    let mut search = Search { story, tries: 0, fails };
    while search.pass() {}
    search.story
}

struct Search<F> {
    story: Story,
    tries: u32,
    fails: F,
}

impl<F: Fn(&Story) -> bool> Search<F> {
    /// Tries every change once; true if one of them helped.
    fn pass(&mut self) -> bool {
        let mut helped = self.remove_steps();
        helped |= self.remove_jobs();
        helped |= self.attempt(|story| {
            let had = !mem::take(&mut story.program.groups).is_empty();
            story.program.settle_groups();
            had
        });
        for index in 0..self.story.program.jobs.len() {
            for change in JOB_CHANGES {
                helped |= self.attempt(|story| story.program.jobs.get_mut(index).is_some_and(change));
            }
        }
        for name in self.story.manners.keys().cloned().collect::<Vec<_>>() {
            for change in MANNER_CHANGES {
                helped |= self.attempt(|story| story.manners.get_mut(&name).is_some_and(change));
            }
        }
        for index in 0..self.story.steps.len() {
            helped |= self.attempt(|story| {
                let Some(step) = story.steps.get_mut(index) else { return false };
                mem::take(&mut step.pause) > 0
            });
        }
        helped | self.attempt(|story| story.second_signal.take().is_some())
    }

    /// Keeps a change if the story still fails; a change that changes nothing returns false.
    fn attempt(&mut self, change: impl FnOnce(&mut Story) -> bool) -> bool {
        let mut smaller = self.story.clone();
        if self.tries >= TRIES || !change(&mut smaller) {
            return false;
        }
        self.tries += 1;
        let fails = (self.fails)(&smaller);
        if fails {
            self.story = smaller;
        }
        fails
    }

    /// Removes as many steps at once as it can.
    fn remove_steps(&mut self) -> bool {
        let mut helped = false;
        let mut length = self.story.steps.len();
        while length > 0 {
            let mut start = 0;
            while start < self.story.steps.len() {
                let removed = self.attempt(|story| {
                    let end = (start + length).min(story.steps.len());
                    story.steps.drain(start..end).count() > 0
                });
                helped |= removed;
                start += if removed { 0 } else { length };
            }
            length /= 2;
        }
        helped
    }

    fn remove_jobs(&mut self) -> bool {
        let names: Vec<String> = self.story.program.jobs.iter().map(|job| job.name.to_string()).collect();
        let mut helped = false;
        for name in names.iter().rev() {
            helped |= self.attempt(|story| {
                remove_job(&mut story.program, name);
                for step in &mut story.steps {
                    if let Operation::Reload { program, .. } | Operation::Edit(program) = &mut step.operation
                    {
                        remove_job(program, name);
                    }
                }
                story.manners.retain(|program, _| program != name && *program != format!("check-{name}"));
                story.steps.retain(|step| !names_job(&step.operation, name));
                !story.program.jobs.is_empty()
            });
        }
        helped
    }
}

fn names_job(operation: &Operation, name: &str) -> bool {
    matches!(operation, Operation::Order(job, _) | Operation::Kill(job, _) | Operation::Behave(job, _) if job == name)
}

/// Whoever waited for the job waits for startup.
fn remove_job(program: &mut Program, name: &str) {
    program.jobs.retain(|job| *job.name != *name);
    let startup = || EventKey { code: EventCode::Startup, source: Source::Global };
    for job in &mut program.jobs {
        let replace = |key: &mut EventKey| {
            if matches!(&key.source, Source::Job(job) | Source::Check(job) if **job == *name) {
                *key = startup();
            }
        };
        job.when.after.retain(|key| !matches!(&key.source, Source::Job(job) if **job == *name));
        match &mut job.when.trigger {
            Trigger::Once(key) | Trigger::Each(key) => replace(key),
            Trigger::All(keys) | Trigger::Any(keys) => keys.iter_mut().for_each(replace),
            Trigger::Interval(_) | Trigger::Cron(_) => {}
        }
    }
    program.settle_groups();
}

/// Plainer jobs.
const JOB_CHANGES: [fn(&mut JobSpec) -> bool; 13] = [
    |job| mem::take(&mut job.restart_rule) != RestartRule::default(),
    |job| mem::take(&mut job.on_unhealthy) != OnUnhealthy::Nothing,
    |job| job.success.len() > 1 && job.success.drain(1..).count() > 0,
    |job| mem::take(&mut job.ready) != ReadySpec::default(),
    |job| job.watchdog.take().is_some(),
    |job| !mem::take(&mut job.when.after).is_empty(),
    |job| job.when.timeout.take().is_some(),
    |job| !matches!(job.when.trigger, Trigger::Interval(_)) && job.timeout.take().is_some(),
    |job| mem::take(&mut job.stop) != StopSpec::default(),
    |job| job.exec.is_some() && job.advertise.take().is_some(),
    |job| job.advertise.is_none() && !mem::take(&mut job.health).is_empty(),
    |job| mem::take(&mut job.essential),
    |job| mem::replace(&mut job.restarts, Limit::Finite(0)) != Limit::Finite(0),
];

/// Plainer programs.
const MANNER_CHANGES: [fn(&mut Manner) -> bool; 9] = [
    |manner| mem::replace(manner, Manner::plain()) != Manner::plain(),
    |manner| !mem::take(&mut manner.offspring).is_empty(),
    |manner| manner.offspring.len() > 1 && manner.offspring.pop().is_some(),
    |manner| mem::take(&mut manner.lines) > 0,
    |manner| manner.stops_itself.take().is_some(),
    |manner| manner.notices.pop().is_some(),
    |manner| manner.signs.take().is_some(),
    |manner| manner.leaves_group.take().is_some(),
    |manner| mem::replace(&mut manner.start, Start::AtOnce) != Start::AtOnce,
];
