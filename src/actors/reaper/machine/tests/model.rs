//! The machine over a model of the kernel whose process numbers are used again soon, with random events.

use std::collections::BTreeSet;

use super::*;

/// A start as its thread sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Preparing,
    Cancelled,
    Process(Pid),
}

/// A process that is not reaped.
struct Process {
    group: Pid,
    execution: ExecutionId,
    is_zombie: bool,
    /// It ends only by SIGKILL.
    is_stubborn: bool,
}

#[derive(Default)]
struct Told {
    started: u32,
    ended: u32,
    leftover: bool,
    gone: u32,
}

struct World {
    state: State,
    now: Moment,
    random: u64,
    processes: BTreeMap<Pid, Process>,
    starts: BTreeMap<ExecutionId, Progress>,
    /// Starts that were slow.
    slow: BTreeSet<ExecutionId>,
    names: BTreeMap<ExecutionId, Name>,
    told: BTreeMap<ExecutionId, Told>,
    /// Numbers that were freed since the last survey; the kernel does not come around so fast.
    freed: BTreeSet<Pid>,
    sweep_is_due: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            state: State::new(Some(0)),
            now: Moment::default(),
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            processes: BTreeMap::new(),
            starts: BTreeMap::new(),
            slow: BTreeSet::new(),
            names: BTreeMap::new(),
            told: BTreeMap::new(),
            freed: BTreeSet::new(),
            sweep_is_due: false,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % u64::try_from(bound).unwrap()).unwrap()
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        if all.is_empty() { None } else { Some(all[self.below(all.len())]) }
    }

    /// The lowest number that is neither a process nor a group.
    fn allocate(&self) -> Pid {
        let is_used = |pid: &Pid| {
            let is_group = self.processes.values().any(|process| process.group == *pid);
            self.processes.contains_key(pid) || is_group || self.freed.contains(pid)
        };
        (2..).map(pid).find(|pid| !is_used(pid)).unwrap()
    }

    fn members(&self, group: Pid) -> Vec<Pid> {
        let is_member = |process: &Process| process.group == group;
        self.processes.iter().filter(|(_, process)| is_member(process)).map(|(pid, _)| *pid).collect()
    }

    fn input(&mut self, input: &Input) {
        let text = serde_json::to_string(&(&self.state, input)).unwrap();
        let (read, input_read): (State, Input) = serde_json::from_str(&text).unwrap();
        assert_eq!((&read, &input_read), (&self.state, input));
        self.state = read;
        for action in self.state.step(self.now, input_read) {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Spawn(id) => {
                assert!(self.starts.insert(id, Progress::Preparing).is_none());
                let slow: Vec<&ExecutionId> =
                    self.slow.iter().filter(|id| self.starts.contains_key(id)).collect();
                assert!(self.starts.len() - slow.len() <= 8);
                assert!(!slow.iter().any(|slow| self.names[slow].label == self.names[&id].label));
            }
            Action::Signal { execution, group, signal, leader_lives } => {
                self.assert_group_is_of(group, execution);
                assert!(!leader_lives || self.processes.contains_key(&group), "the leader is reaped");
                let members = self.members(group);
                members.iter().for_each(|pid| self.deliver(*pid, signal));
                if members.is_empty() {
                    self.input(&Input::GroupIsEmpty(execution));
                }
            }
            Action::SignalGroup(group, signal) => {
                let leader_runs = self.processes.get(&group).is_some_and(|leader| !leader.is_zombie);
                assert!(!leader_runs, "group {group} belongs to another execution");
                self.members(group).into_iter().for_each(|pid| self.deliver(pid, signal));
            }
            Action::SignalProcess(pid, signal) => {
                assert!(self.processes.contains_key(&pid), "{pid} is reaped");
                self.deliver(pid, signal);
            }
            Action::DrainOutput(id, _) => assert_eq!(self.told[&id].ended, 0),
            Action::TellStarted(started) => {
                let told = self.told.get_mut(&started.execution).unwrap();
                told.started += 1;
                assert_eq!((told.started, told.ended), (1, 0));
            }
            Action::TellEnded(ended) => {
                let told = self.told.get_mut(&ended.execution).unwrap();
                told.ended += 1;
                told.leftover = ended.leftover;
                assert_eq!(told.ended, 1, "{ended:?}");
                assert!(ended.unstarted.is_none() || told.started == 0, "{ended:?}");
                if let Some(pid) = ended.pid {
                    assert!(!self.processes.contains_key(&pid), "told before it was reaped");
                    let is_left = !self.members(pid).is_empty();
                    assert!(ended.leftover || !is_left, "processes of its group are left");
                }
            }
            Action::TellGone(id) => {
                let told = self.told.get_mut(&id).unwrap();
                told.gone += 1;
                assert_eq!((told.ended, told.leftover, told.gone), (1, true, 1));
            }
            Action::SweepAfter(_) => assert!(!std::mem::replace(&mut self.sweep_is_due, true)),
            Action::HelpSlowStarts | Action::Log(..) => {}
            Action::SignalAll(_) | Action::LookForOrphansAfter(_) | Action::TellOrphansGone => {
                panic!("nobody asked for the end of orphans")
            }
        }
    }

    /// An empty group can be signalled in vain, but never that of another execution.
    fn assert_group_is_of(&self, group: Pid, execution: ExecutionId) {
        for pid in self.members(group) {
            assert_eq!(self.processes[&pid].execution, execution, "group {group} is another one now");
        }
    }

    fn deliver(&mut self, pid: Pid, signal: Signal) {
        let process = self.processes.get_mut(&pid).unwrap();
        process.is_zombie |= signal == Signal::KILL || (signal == Signal::TERM && !process.is_stubborn);
    }

    fn launch(&mut self) {
        let number = u64::try_from(self.names.len()).unwrap() + 1;
        let name = [job("a"), job("b"), job("c"), check("check.a")][self.below(4)].clone();
        self.names.insert(id(number), name.clone());
        self.told.insert(id(number), Told::default());
        self.input(&Input::LaunchAsked(id(number), name));
    }

    fn fork(&mut self, group: Option<Pid>, execution: ExecutionId) -> Pid {
        let pid = self.allocate();
        let (group, is_stubborn) = (group.unwrap_or(pid), self.below(2) == 0);
        self.processes.insert(pid, Process { group, execution, is_zombie: false, is_stubborn });
        pid
    }

    fn begin_process(&mut self) {
        let preparing =
            |(id, progress): (&ExecutionId, &Progress)| (*progress == Progress::Preparing).then_some(*id);
        let preparing: Vec<ExecutionId> = self.starts.iter().filter_map(preparing).collect();
        if let Some(id) = self.pick(&preparing) {
            let pid = self.fork(None, id);
            self.starts.insert(id, Progress::Process(pid));
        }
    }

    fn settle(&mut self) {
        let starts: Vec<ExecutionId> = self.starts.keys().copied().collect();
        let Some(id) = self.pick(&starts) else { return };
        let failure = Failure { reason: "cannot".to_owned(), status: 127 };
        let outcome = match self.starts.remove(&id).unwrap() {
            Progress::Preparing => StartOutcome::Failed { failure, child: None },
            Progress::Cancelled => StartOutcome::Cancelled,
            Progress::Process(pid) if self.below(4) == 0 => {
                self.processes.get_mut(&pid).unwrap().is_zombie = true;
                StartOutcome::Failed { failure, child: Some(pid) }
            }
            Progress::Process(pid) => StartOutcome::Started(pid),
        };
        self.input(&Input::SpawnSettled(id, outcome));
    }

    fn process_of_start(&self, id: ExecutionId) -> Option<Pid> {
        if let Some(Progress::Process(pid)) = self.starts.get(&id) { Some(*pid) } else { None }
    }

    fn note_slow(&mut self) {
        let starts: Vec<ExecutionId> = self.starts.keys().copied().collect();
        if let Some(id) = self.pick(&starts) {
            self.slow.insert(id);
            self.input(&Input::StartIsSlow(id, self.process_of_start(id)));
        }
    }

    fn end(&mut self, id: ExecutionId, signal: Signal) {
        let is_cancelled = self.starts.get(&id) == Some(&Progress::Preparing);
        if is_cancelled {
            self.starts.insert(id, Progress::Cancelled);
        }
        let pid = self.process_of_start(id);
        self.input(&Input::EndAsked { execution: id, signal, is_cancelled, pid });
    }

    fn end_one(&mut self) {
        let all: Vec<ExecutionId> = self.names.keys().copied().collect();
        if let Some(id) = self.pick(&all) {
            match self.below(4) {
                0 => self.end(id, Signal::TERM),
                1 => self.end(id, Signal::KILL),
                2 => self.input(&Input::ForwardAsked(id, None, Signal::USR1)),
                _ => self.input(&Input::SignalAsked(id, Signal::USR1)),
            }
        }
    }

    /// A process forks, in its group or outside, or ends.
    fn live(&mut self) {
        let living: Vec<Pid> =
            self.processes.iter().filter(|(_, process)| !process.is_zombie).map(|(pid, _)| *pid).collect();
        let Some(pid) = self.pick(&living) else { return };
        let Process { group, execution, .. } = self.processes[&pid];
        match self.below(4) {
            0 => drop(self.fork(Some(group), execution)),
            1 => drop(self.fork(None, execution)),
            _ => self.processes.get_mut(&pid).unwrap().is_zombie = true,
        }
    }

    fn reap(&mut self) {
        let is_starting = |pid: &Pid| self.starts.values().any(|start| *start == Progress::Process(*pid));
        let zombies = self.processes.iter().filter(|(_, process)| process.is_zombie).map(|(pid, _)| *pid);
        for pid in zombies.filter(|pid| !is_starting(pid)).collect::<Vec<Pid>>() {
            self.input(&Input::ChildExited(pid, ExitStatus::Code(0)));
            self.processes.remove(&pid);
            self.freed.insert(pid);
        }
        for is_due in [State::has_exited, State::has_leftovers] {
            if is_due(&self.state) {
                let survey = self.survey(|_| true);
                self.input(&Input::Looked(survey));
            }
        }
    }

    fn sweep(&mut self) {
        if std::mem::take(&mut self.sweep_is_due) {
            let survey = self.survey(|process| !process.is_zombie);
            self.input(&Input::Swept(survey));
        }
    }

    fn survey(&mut self, counts: impl Fn(&Process) -> bool) -> Survey {
        self.freed.clear();
        let has_member = |group: &Pid| self.members(*group).iter().any(|pid| counts(&self.processes[pid]));
        let is_orphan = |pid: &Pid| {
            let is_starting = self.starts.values().any(|start| *start == Progress::Process(*pid));
            !is_starting && !self.state.running().contains_key(pid)
        };
        let orphan = |(pid, process): (&Pid, &Process)| Orphan {
            pid: *pid,
            group: Some(process.group),
            program: "x".to_owned(),
            job: self.names[&process.execution].job.as_ref().map(|(job, _)| job.to_string()),
            has_environment: true,
            is_becoming: false,
        };
        Survey {
            groups: self.state.groups().into_iter().filter(has_member).collect(),
            orphans: self.processes.iter().filter(|(pid, _)| is_orphan(pid)).map(orphan).collect(),
            memory_kills: Some(0),
        }
    }

    fn step(&mut self) {
        match self.below(16) {
            0 | 1 => self.launch(),
            2 | 3 => self.begin_process(),
            4 | 5 => self.settle(),
            6 => self.note_slow(),
            7 | 8 => self.end_one(),
            9..=11 => self.live(),
            12 | 13 => self.reap(),
            14 => self.sweep(),
            _ => self.now = self.now.plus(Duration::from_millis(300)),
        }
        // What no survey can ask about any more may be given away.
        if !self.state.has_leftovers() {
            self.freed.clear();
        }
    }

    /// Everything is ended and nothing new begins.
    fn finish(&mut self) {
        for id in self.names.keys().copied().collect::<Vec<ExecutionId>>() {
            self.end(id, Signal::KILL);
        }
        for _ in 0..100 {
            while !self.starts.is_empty() {
                self.settle();
            }
            self.reap();
            self.sweep();
            self.now = self.now.plus(Duration::from_millis(100));
            if self.is_over() {
                return;
            }
        }
    }

    /// Whether nothing is left to do. Processes that checks put into the background still live; the machine may know them.
    fn is_over(&self) -> bool {
        let strangers = self.state.strangers.clone();
        let are_alive = strangers.iter().all(|pid| self.processes.contains_key(pid));
        are_alive && self.state == State { strangers, ..State::new(Some(0)) }
    }
}

#[test]
fn whatever_happens_every_execution_is_told_its_end_once_and_no_freed_group_is_signalled() {
    for seed in 0..100 {
        let mut world = World::new(seed);
        for _ in 0..150 {
            world.step();
        }
        world.finish();
        for (id, told) in &world.told {
            assert_eq!((told.ended, told.gone), (1, u32::from(told.leftover)), "seed {seed}: {id:?}");
        }
        let is_job = |process: &&Process| world.names[&process.execution].job.is_some();
        assert_eq!(world.processes.values().filter(is_job).count(), 0, "seed {seed}: processes are left");
        assert!(world.is_over(), "seed {seed}: {:?}", world.state);
    }
}
