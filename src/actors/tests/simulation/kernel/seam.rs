//! What the program asks of the simulated kernel.

use std::collections::HashSet;
use std::io;
use std::task::Poll;

use tokio::time::Instant;

use super::{Owner, Process, SimulatedKernel, State};
use crate::messages::crashes::Usage;
use crate::messages::process::{Orphan, Pid};
use crate::messages::signal::Signal;
use crate::process::{Deaths, Delivery, Exited, Kernel, Launch, Spawning};

impl Process {
    fn is_ours(&self) -> bool {
        self.parent.is_none()
    }

    fn exited(&self) -> Option<Exited> {
        match self.state {
            State::Zombie(status) if self.is_ours() => Some(Exited { pid: self.pid, status }),
            State::Zombie(_) | State::Runs | State::Stopped => None,
        }
    }
}

impl SimulatedKernel {
    /// Sends a signal of ours to these processes, and tells the rules of the main processes of jobs among them.
    fn send(&self, signal: Signal, chosen: impl Fn(&Process) -> bool) {
        let targets: Vec<(u64, Option<Owner>)> = self.look(|all| {
            let living = all.iter().filter(|process| process.lives() && chosen(process));
            living.map(|it| (it.birth, it.leads().then(|| it.owner.clone()))).collect()
        });
        let zombies: Vec<u64> = self.look(|all| {
            let ended = all.iter().filter(|process| !process.lives() && process.leads() && chosen(process));
            ended.map(|process| process.birth).collect()
        });
        if signal != Signal::TERM && signal != Signal::CONT {
            zombies.into_iter().for_each(|execution| self.observer.signalled_too_late(execution));
        }
        for (birth, owner) in targets {
            if let Some(Owner::Job(job)) = owner {
                self.observer.signalled(&job, signal);
            }
            if signal == Signal::TERM {
                self.ask_to_end(birth);
            }
            self.deliver(birth, signal);
        }
    }

    /// Whether an orphan comes to the end of its execve(2) between our look at its environment, which is empty, and at its
    /// arguments, which are there: every second one does so that is looked at in time.
    fn ends_execve_while_looked_at(&self, pid: Pid) -> bool {
        let mut world = self.world.borrow_mut();
        let is_it =
            |process: &&mut Process| process.pid == pid && process.lives() && process.birth.is_multiple_of(2);
        let Some(process) = world.processes.iter_mut().find(is_it) else { return false };
        process.becomes_at.take().is_some_and(|at| at > Instant::now())
    }

    /// A process that is stopped ends only after it was continued.
    fn ask_to_end(&self, birth: u64) {
        let now = self.journal.awake();
        let mut world = self.world.borrow_mut();
        if let Some(process) = world.get(birth).filter(|process| process.state == State::Stopped) {
            process.asked_in_vain.get_or_insert(now);
        }
    }
}

impl Kernel for SimulatedKernel {
    fn spawn(&self, launch: Launch) -> Spawning {
        self.begin(launch)
    }

    fn help_slow_starts(&self) -> bool {
        true
    }

    fn peek_exited(&self) -> io::Result<Option<Exited>> {
        // In the order of their births, as waitid(2) looks at children.
        Ok(self.look(|all| all.iter().find_map(Process::exited)))
    }

    fn peek_at(&self, child: Pid) -> io::Result<Option<Exited>> {
        Ok(self.look(|all| all.iter().find(|process| process.pid == child).and_then(Process::exited)))
    }

    fn deaths(&self) -> io::Result<Deaths> {
        let kernel = self.clone();
        Ok(Box::new(move |context| {
            let mut world = kernel.world.borrow_mut();
            if std::mem::take(&mut world.has_news) {
                return Poll::Ready(Some(()));
            }
            world.waker = Some(context.waker().clone());
            Poll::Pending
        }))
    }

    fn reap(&self, pid: Pid) -> io::Result<Option<Usage>> {
        let mut world = self.world.borrow_mut();
        let place =
            world.processes.iter().position(|process| process.pid == pid && process.exited().is_some());
        match place {
            Some(place) => {
                let process = world.processes.remove(place);
                self.journal.note(format!("reap {pid}"));
                if !process.is_settled {
                    self.journal.break_rule("a child is reaped after its start", format!("process {pid}"));
                }
            }
            None => self.journal.break_rule("only zombies are reaped", format!("process {pid}")),
        }
        Ok(None)
    }

    fn signal_group(&self, group: Pid, signal: Signal) -> io::Result<Delivery> {
        if !self.look(|all| all.iter().any(|process| process.group == group)) {
            return Ok(Delivery::NoSuchGroup);
        }
        self.journal.note(format!("{signal} to group {group}"));
        self.send(signal, |process| process.group == group);
        Ok(Delivery::Sent)
    }

    fn group_of(&self, process: Pid) -> Option<Pid> {
        let group = self.look(|all| all.iter().find(|it| it.pid == process).map(|it| it.group));
        group.or_else(|| self.speaker(process))
    }

    fn orphans(&self) -> Vec<Pid> {
        let is_orphan = |process: &&Process| process.is_ours() && process.is_adopted;
        self.look(|all| all.iter().filter(is_orphan).map(|process| process.pid).collect())
    }

    fn describe_orphan(&self, pid: Pid) -> Orphan {
        let is_torn = self.ends_execve_while_looked_at(pid);
        let describe = |process: &Process| {
            let is_becoming = process.becomes_at.is_some_and(|at| at > Instant::now()) && process.lives();
            let (program, job) = match &process.owner {
                Owner::Job(name) => (name.to_string(), Some(name.to_string())),
                Owner::Check(name) => (name.to_string(), None),
            };
            Orphan {
                pid,
                group: Some(process.group),
                program: if is_torn { String::new() } else { program },
                job: job.filter(|_| !is_becoming && !is_torn),
                has_environment: !is_becoming && !is_torn,
                is_becoming,
            }
        };
        self.look(|all| all.iter().find(|process| process.pid == pid).map(describe))
            .unwrap_or_else(|| Orphan::unknown(pid))
    }

    fn signal_all_children(&self, signal: Signal) -> bool {
        self.journal.note(format!("{signal} to all children"));
        self.send(signal, Process::is_ours);
        true
    }

    fn has_children(&self) -> bool {
        self.look(|all| all.iter().any(Process::is_ours))
    }

    fn signal_process(&self, pid: Pid, signal: Signal) {
        self.journal.note(format!("{signal} to process {pid}"));
        self.send(signal, |process| process.pid == pid);
    }

    fn living_groups(&self, groups: &[Pid]) -> HashSet<Pid> {
        let lives = |group: &Pid| self.look(|all| all.iter().any(|it| it.group == *group && it.lives()));
        groups.iter().copied().filter(lives).collect()
    }

    fn group_is_empty(&self, group: Pid) -> bool {
        !self.look(|all| all.iter().any(|process| process.group == group))
    }

    fn memory_kills(&self) -> Option<u64> {
        Some(self.world.borrow().memory_kills)
    }
}
