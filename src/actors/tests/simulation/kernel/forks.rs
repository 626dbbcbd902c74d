//! How processes fork, and leave their groups.

use std::time::Duration;

use tokio::time::Instant;

use super::{Process, SimulatedKernel, State, live};
use crate::actors::tests::simulation::story::{Manner, Place};

impl SimulatedKernel {
    pub(super) fn fork(&self, parent: u64, index: usize) {
        let mut world = self.world.borrow_mut();
        let Some(pid) = world.next_pid() else { return };
        world.births += 1;
        let birth = world.births;
        let Some(process) = world.get(parent) else { return };
        let Some(offspring) = process.manner.offspring.get(index).copied() else { return };
        let is_daemon = matches!(offspring.place, Place::Daemon | Place::Becoming(_));
        let becomes_at = match offspring.place {
            Place::Becoming(after) => Some(Instant::now() + Duration::from_millis(after.into())),
            Place::Group | Place::Apart | Place::Daemon => None,
        };
        let child = Process {
            birth,
            pid,
            group: if offspring.place == Place::Group { process.group } else { pid },
            owner: process.owner.clone(),
            execution: process.execution,
            state: State::Runs,
            born: Instant::now(),
            ended: None,
            asked_in_vain: None,
            is_settled: true,
            parent: (!is_daemon).then_some(parent),
            is_adopted: is_daemon,
            becomes_at,
            manner: Manner { life: offspring.life, at_term: offspring.at_term, ..Manner::plain() },
            postponed: vec![],
            output: process.output.clone(),
            start: None,
            notify: None,
            printed: 0,
        };
        self.journal.note(format!("process {} forks {pid} {:?}", process.pid, offspring.place));
        world.processes.push(child);
        live(&mut world, birth, offspring.life);
    }

    /// setpgid(2): a process may join another group of its session.
    pub(super) fn leave(&self, birth: u64) {
        let mut world = self.world.borrow_mut();
        let leads = |it: &&Process| it.parent == Some(birth) && it.pid == it.group && it.lives();
        let Some(group) = world.processes.iter().find(leads).map(|child| child.group) else { return };
        let Some(process) = world.get(birth) else { return };
        process.group = group;
        self.journal.note(format!("process {} joins the group {group}", process.pid));
    }
}
