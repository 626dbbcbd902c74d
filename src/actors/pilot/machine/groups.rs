//! The groups of the program: feeds each with what its members report, and carries out what it decides.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::group::{Action as GroupAction, Group, Place};
use super::member::Member;
use super::members::Members;
use super::review::Reason;
use super::{Action, Stage, State};
use crate::actors::machine::{LogLine, Severity};
use crate::config::spec::{GroupSpec, Trigger};
use crate::messages::control::{JobOrder, Refusal};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::job::JobChanged;
use crate::messages::moment::Moment;
use crate::messages::status::GroupStatus;

/// How commands name a group: `group.NAME`.
const PREFIX: &str = "group.";

impl Place {
    /// The place of a job in a new group.
    fn of(member: &Member) -> Self {
        let startup = |key: &EventKey| key.code == EventCode::Startup;
        Self {
            phase: member.phase,
            ready: member.ready,
            health: member.health,
            is_checked: !member.spec.health.is_empty(),
            succeeded: member.last_status == Some(0),
            starts_at_once: matches!(&member.spec.when.trigger, Trigger::Once(key) if startup(key)),
            ordered: member.group_order,
            due: None,
            told: None,
        }
    }
}

/// The places of a group that is new or has changed. A member that stays goes on with what it was told, and is still to be told
/// what is due.
fn places(spec: &GroupSpec, members: &Members, old: Option<&Group>, started: &BTreeSet<&str>) -> Vec<Place> {
    let stays = |name: &str| old.filter(|_| !started.contains(name)).and_then(|group| group.place(name));
    let place = |member: &Member| stays(member.name()).copied().unwrap_or_else(|| Place::of(member));
    spec.jobs.iter().filter_map(|name| members.get(name)).map(place).collect()
}

impl State {
    /// The groups as users see them.
    pub fn group_statuses(&self) -> Vec<GroupStatus> {
        self.groups.iter().map(Group::status).collect()
    }

    /// Takes over the groups of the configuration in force. One with the same members, none of which is in `started`, goes on as
    /// it was. Of another one, the members that stay do.
    pub(super) fn change_groups(&mut self, started: &BTreeSet<&str>) {
        let old = std::mem::take(&mut self.groups);
        let members = &self.members;
        let change = |spec: &Arc<GroupSpec>| {
            let is_new = spec.jobs.iter().any(|job| started.contains(&**job));
            let old = old.iter().find(|group| group.spec().name == spec.name);
            match old.filter(|group| !is_new && group.spec().jobs == spec.jobs) {
                Some(group) => group.reconfigured(Arc::clone(spec)),
                None => {
                    let places = places(spec, members, old, started);
                    match old {
                        Some(old) => Group::after(old, Arc::clone(spec), places),
                        None => Group::new(Arc::clone(spec), places),
                    }
                }
            }
        };
        self.groups = self.spec.groups.iter().map(change).collect();
    }

    /// Whether a group is in the middle of carrying out an order.
    pub(super) fn has_ordered_group(&self) -> bool {
        self.groups.iter().any(Group::is_occupied)
    }

    pub(super) fn group_of(&mut self, job: &str) -> Option<&mut Group> {
        let name = Arc::clone(&self.members.get(job)?.spec.group.as_ref()?.group);
        self.groups.iter_mut().find(|group| group.spec().name == name)
    }

    /// Tells the group of a job what the job reports.
    pub(super) fn note_in_group(&mut self, now: Moment, change: &JobChanged) -> Vec<Action> {
        let is_end = self.is_shutting_down();
        let Some(group) = self.group_of(&change.name) else { return vec![] };
        let name = Arc::clone(&group.spec().name);
        let actions = if is_end { group.note_at_the_end(change) } else { group.note(now, change) };
        let mut actions = self.carry_out(now, &name, actions);
        actions.extend(self.go_on_with_group(now, &name));
        actions
    }

    /// Has every group decide again: a reload is over, for which they waited.
    pub(super) fn go_on_with_groups(&mut self, now: Moment) -> Vec<Action> {
        let names: Vec<Arc<str>> = self.groups.iter().map(|group| Arc::clone(&group.spec().name)).collect();
        names.iter().flat_map(|name| self.go_on_with_group(now, name)).collect()
    }

    /// While a reload stops jobs, a group tells nobody anything: who is in it may change.
    fn go_on_with_group(&mut self, now: Moment, name: &Arc<str>) -> Vec<Action> {
        let Stage::Running = self.stage else { return vec![] };
        let group = self.groups.iter_mut().find(|group| group.spec().name == *name);
        let actions = group.map(Group::go_on).unwrap_or_default();
        self.carry_out(now, name, actions)
    }

    fn carry_out(&mut self, now: Moment, name: &Arc<str>, actions: Vec<GroupAction>) -> Vec<Action> {
        let mut list = Vec::new();
        for action in actions {
            match action {
                GroupAction::Tell(job, command) => list.push(Action::Tell(job, command)),
                GroupAction::Publish(code) => {
                    let event = EventKey { code, source: Source::Group(Arc::clone(name)) };
                    list.extend([Action::Publish(event), self.barrier()]);
                }
                GroupAction::Note(text) => {
                    let line = LogLine::new(Severity::Info, text);
                    list.push(Action::Log(line.about("group", &**name)));
                }
                GroupAction::GiveUp { job, status, shuts_down, chain } => {
                    let text = format!("gives up after too many restarts: {chain}");
                    list.push(Action::Log(LogLine::new(Severity::Error, text).about("group", &**name)));
                    if shuts_down {
                        list.extend(self.shut_down(now, Reason::Group(Arc::clone(name), job, status)));
                    }
                }
            }
        }
        list
    }

    /// What a user orders about a job in a group, if it concerns the group; `None` if the job decides it alone.
    pub(super) fn order_in_group(&mut self, now: Moment, job: &str, order: JobOrder) -> Option<Vec<Action>> {
        let group = self.group_of(job)?;
        let name = Arc::clone(&group.spec().name);
        match order {
            JobOrder::Start => group.start_by_hand(job),
            JobOrder::Restart => group.restart_by_hand(job),
            JobOrder::Stop if group.stop_by_hand(job) => return None,
            JobOrder::Stop => {}
            JobOrder::Signal(_) => return None,
        }
        Some(self.go_on_with_group(now, &name))
    }

    /// The group that commands mean by that name.
    pub(super) fn find_group(&mut self, target: &str) -> Option<&mut Group> {
        let name = target.strip_prefix(PREFIX)?;
        self.groups.iter_mut().find(|group| *group.spec().name == *name)
    }

    /// What a user orders about a whole group.
    pub(super) fn order_group(
        &mut self,
        now: Moment,
        target: &str,
        order: JobOrder,
    ) -> Result<Vec<Action>, Refusal> {
        let group = self.find_group(target).ok_or_else(|| Refusal::NoSuchJob(target.to_owned()))?;
        let name = Arc::clone(&group.spec().name);
        match order {
            JobOrder::Start => group.start_all(),
            JobOrder::Restart => group.restart_all(),
            JobOrder::Stop => group.stop_all(),
            JobOrder::Signal(_) => {
                let reason = format!("group \"{name}\" takes no signals: signal its jobs");
                return Err(Refusal::NotNow(reason));
            }
        }
        Ok(self.go_on_with_group(now, &name))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{event, job, with};
    use super::*;
    use crate::messages::job::Phase;

    #[test]
    fn a_place_knows_whether_the_last_execution_was_a_success() {
        let succeeded =
            |last_status| Place::of(&Member { last_status, ..job("app", Phase::Complete) }).succeeded;
        assert!(succeeded(Some(0)) && !succeeded(Some(1)) && !succeeded(None));
    }

    #[test]
    fn a_member_that_waits_only_for_the_start_of_the_program_starts_at_once() {
        let starts_at_once = |code: EventCode, source: Source| {
            let trigger = Trigger::Once(EventKey { code, source });
            Place::of(&with(job("app", Phase::Waiting), |spec| spec.when.trigger = trigger)).starts_at_once
        };
        assert!(starts_at_once(EventCode::Startup, Source::Global));
        assert!(!starts_at_once(EventCode::Shutdown, Source::Global));
        let ready = event("db", EventCode::Ready);
        assert!(!starts_at_once(ready.code, ready.source));
    }
}
