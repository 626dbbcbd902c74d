//! How processes start: found, made, executed, or not.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use nix::fcntl::OFlag;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Happening, Owner, Process, Search, SimulatedKernel, State, live};
use crate::actors::tests::simulation::story::{Manner, Says, Start};
use crate::messages::process::{ExitStatus, Pid};
use crate::process::{Launch, Output, Pipes, Progress, SpawnError, SpawnOutcome, Spawned, Spawning};
impl SimulatedKernel {
    pub(super) fn begin(&self, launch: Launch) -> Spawning {
        let program = launch.command.program.clone();
        let owner = match &launch.variable {
            Some(_) => Owner::Job(program.as_str().into()),
            None => Owner::Check(program.as_str().into()),
        };
        match &owner {
            Owner::Job(job) => {
                let living = self.look(|all| all.iter().filter(|it| it.is_of(job) && it.lives()).count());
                self.observer.started(job, living, &launch);
            }
            Owner::Check(_) => {
                let is_other = |it: &&Process| it.owner == owner && it.leads() && it.lives();
                let living = self.look(|all| all.iter().filter(is_other).count());
                self.observer.check_started(&program, living);
            }
        }
        let mut world = self.world.borrow_mut();
        let manner = world.manners.get(&program).cloned().unwrap_or_else(Manner::plain);
        let mut start = manner.start;
        if world.faults.1 > 0 {
            world.faults.1 -= 1;
            let errno = world.faults.0;
            start = if errno == libc::E2BIG { Start::FailsToExecute(errno) } else { Start::Fails(errno) };
        }
        let (sender, outcome) = oneshot::channel();
        let progress: Arc<Progress> = Arc::default();
        let spawning = Spawning { progress: Arc::clone(&progress), outcome };
        if let Start::Fails(errno) = start {
            drop(world);
            self.journal.note(format!("start {program}: fails, error {errno}"));
            let _ = sender.send(failed(errno, None));
            self.tell_of_failure(&owner, 0);
            return spawning;
        }
        if let Start::Searches(after) = start {
            self.journal.note(format!("start {program}: searches for {after} ms"));
            let search = Search { launch, progress, sender, manner, owner };
            world.later(after, Happening::Found(Box::new(search)));
            return spawning;
        }
        let Some(pid) = world.next_pid() else {
            let _ = sender.send(failed(libc::EAGAIN, None));
            return spawning;
        };
        drop(world);
        progress.complete(pid);
        self.journal.note(format!("start {program}: process {pid}, {start:?}"));
        let birth = self.make(pid, owner, manner, (launch, sender));
        match start {
            Start::AtOnce => self.executed(birth),
            Start::Executes(after) => self.world.borrow_mut().later(after, Happening::Executed(birth)),
            Start::FailsToExecute(errno) => self.fail_to_execute(birth, errno),
            Start::Hangs | Start::Searches(_) | Start::Fails(_) => {}
        }
        spawning
    }

    fn fail_to_execute(&self, birth: u64, errno: i32) {
        let mut world = self.world.borrow_mut();
        let Some(process) = world.get(birth) else { return };
        process.state = State::Zombie(ExitStatus::Code(127));
        process.ended = Some(self.journal.awake());
        process.is_settled = true;
        let (pid, owner) = (process.pid, process.owner.clone());
        if let Some((_, sender, _)) = process.start.take() {
            let _ = sender.send(failed(errno, Some(pid)));
        }
        world.tell();
        drop(world);
        self.tell_of_failure(&owner, birth);
    }

    fn tell_of_failure(&self, owner: &Owner, execution: u64) {
        match owner {
            Owner::Job(job) => self.observer.ended(job, execution, None, ExitStatus::Code(127)),
            Owner::Check(check) => self.observer.checked(check, false),
        }
    }

    pub(super) fn found(&self, search: Search) {
        let Search { launch, progress, sender, manner, owner } = search;
        let pid = self.world.borrow_mut().next_pid();
        match pid {
            Some(pid) if progress.complete(pid) => {
                let birth = self.make(pid, owner, manner, (launch, sender));
                self.executed(birth);
            }
            Some(_) => drop(sender.send(SpawnOutcome::Cancelled)),
            None => drop(sender.send(failed(libc::EAGAIN, None))),
        }
    }

    /// Makes a process that is about to execute its program.
    fn make(
        &self,
        pid: Pid,
        owner: Owner,
        manner: Manner,
        (launch, sender): (Launch, oneshot::Sender<SpawnOutcome>),
    ) -> u64 {
        let (pipes, output) = match launch.output {
            Output::Inherited | Output::Terminal => (None, None),
            Output::Piped => {
                let (stdout, stderr) = (pipe(), pipe());
                (Some(Pipes { stdout: stdout.0, stderr: stderr.0 }), Some(Rc::new([stdout.1, stderr.1])))
            }
        };
        let environment = launch.whole_environment().ok();
        let notify = environment.as_ref().and_then(|all| all.get("NOTIFY_SOCKET"));
        let notify = notify.map(|address| address.to_string_lossy().into_owned());
        let mut world = self.world.borrow_mut();
        world.births += 1;
        let birth = world.births;
        world.processes.push(Process {
            birth,
            pid,
            group: pid,
            owner,
            execution: birth,
            state: State::Runs,
            born: Instant::now(),
            ended: None,
            asked_in_vain: None,
            is_settled: false,
            parent: None,
            is_adopted: false,
            becomes_at: None,
            manner,
            postponed: vec![],
            output,
            start: Some((launch, sender, pipes)),
            notify,
            printed: 0,
        });
        birth
    }

    /// The process has become its program, or was killed before: the start is over.
    pub(super) fn executed(&self, birth: u64) {
        let mut world = self.world.borrow_mut();
        let Some(process) = world.get(birth) else { return };
        let Some((launch, sender, pipes)) = process.start.take() else { return };
        process.is_settled = true;
        let (pid, lives, manner) = (process.pid, process.lives(), process.manner.clone());
        if let Owner::Job(job) = &process.owner {
            self.observer.executed(job);
        }
        launch.note_started(pid);
        if sender.send(SpawnOutcome::Started(Spawned { pid, pipes })).is_err() {
            self.journal.break_rule("every start is waited for", format!("nobody waited for process {pid}"));
        }
        if !lives {
            return world.tell();
        }
        for (index, offspring) in manner.offspring.iter().enumerate() {
            world.later(offspring.after, Happening::Fork(birth, index));
        }
        for (after, says) in &manner.notices {
            world.later(*after, Happening::Notify(birth, *says, false));
        }
        if let Some(period) = manner.signs {
            world.later(period, Happening::Notify(birth, Says::Lives, true));
        }
        if let Some(after) = manner.leaves_group {
            world.later(after, Happening::Leave(birth));
        }
        if let Some(after) = manner.stops_itself {
            world.later(after, Happening::Stop(birth));
        }
        live(&mut world, birth, manner.life);
        drop(world);
        for _ in 0..manner.lines {
            self.print(birth, true);
        }
    }
}

fn failed(errno: i32, child: Option<Pid>) -> SpawnOutcome {
    let error = SpawnError::new("execute it".into(), io::Error::from_raw_os_error(errno));
    SpawnOutcome::Failed { error, child }
}

fn pipe() -> (OwnedFd, OwnedFd) {
    nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).expect("a pipe")
}
