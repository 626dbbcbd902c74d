//! A kernel without processes.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::{CStr, OsString};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::messages::crashes::Usage;
use crate::messages::process::{ExitStatus, Orphan, Pid};
use crate::messages::signal::Signal;
use crate::process::{
    Deaths, Delivery, Exited, Kernel, Launch, Progress, SpawnError, SpawnOutcome, Spawned, Spawning,
};

/// How a program behaves.
#[derive(Debug, Clone, Copy)]
pub enum Manner {
    /// Runs until a signal ends it.
    Serves,
    /// Ends by itself with a status after some milliseconds.
    Ends(u8, u64),
    /// Ends only by SIGKILL.
    Stubborn,
    /// Ends some milliseconds after SIGTERM, with status 0.
    Slow(u64),
    /// Is killed for memory after some milliseconds.
    Hungry(u64),
    /// Cannot be executed.
    Missing,
    /// Cannot be executed, which is known only when its process has ended.
    Broken,
    /// Ends at once and leaves a process behind that ends some milliseconds after SIGTERM.
    Litters(u64),
    /// Its start never ends: its file system hangs.
    Hangs,
}

/// A process that was started.
#[derive(Debug, Clone)]
pub struct Started {
    pub name: String,
    pub at: Instant,
    pub environment: BTreeMap<OsString, OsString>,
    /// The dead that were not reaped yet.
    pub dead: usize,
}

#[derive(Default)]
struct World {
    manners: HashMap<String, Manner>,
    next: i32,
    live: HashMap<Pid, Manner>,
    remains: HashMap<Pid, u64>,
    dead: VecDeque<Exited>,
    orphans: i32,
    waker: Option<Waker>,
    news: bool,
    started: Vec<Started>,
    signals: Vec<(Pid, Signal)>,
    most: usize,
    memory_kills: u64,
    /// Processes that were stopped, and that nobody was told of.
    stopped: HashSet<Pid>,
    continued: HashSet<Pid>,
    /// Starts that never end.
    hanging: Vec<oneshot::Sender<SpawnOutcome>>,
}

impl World {
    /// The living processes of that name, and those that ended and left others in their group.
    fn processes_of(&self, name: &str) -> impl Iterator<Item = &Started> {
        let started = |pid: &Pid| self.started.get(usize::try_from(pid.number() - 100).ok()?);
        self.live
            .keys()
            .chain(self.remains.keys())
            .filter_map(started)
            .filter(move |started| started.name == name)
    }

    /// As SIGCHLD does.
    fn tell(&mut self) {
        self.news = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Shared by the test and the program.
#[derive(Clone)]
pub struct Fake(Rc<RefCell<World>>);

impl Fake {
    pub fn new(manners: Vec<(String, Manner)>) -> Self {
        let world = World { manners: manners.into_iter().collect(), next: 100, ..World::default() };
        Self(Rc::new(RefCell::new(world)))
    }

    pub fn living(&self) -> usize {
        let world = self.0.borrow();
        world.live.len() + world.remains.len()
    }

    pub fn started(&self, name: &str) -> Vec<Started> {
        self.0.borrow().started.iter().filter(|started| started.name == name).cloned().collect()
    }

    pub fn runs(&self, name: &str) -> usize {
        self.started(name).len()
    }

    /// Whether a process of that name lives now.
    pub fn runs_now(&self, name: &str) -> bool {
        self.pid_of(name).is_some_and(|pid| self.0.borrow().live.contains_key(&pid))
    }

    /// Whether a process of that name, or what it left in its group, lives that was there before this very moment.
    pub fn lived_before(&self, name: &str) -> bool {
        self.0.borrow().processes_of(name).any(|started| started.at < Instant::now())
    }

    fn pid_of(&self, name: &str) -> Option<Pid> {
        let world = self.0.borrow();
        let index = world.started.iter().rposition(|started| started.name == name)?;
        Pid::new(100 + i32::try_from(index).ok()?)
    }

    pub fn signals_to(&self, name: &str) -> Vec<Signal> {
        let Some(pid) = self.pid_of(name) else { return vec![] };
        self.0.borrow().signals.iter().filter(|(to, _)| *to == pid).map(|(_, signal)| *signal).collect()
    }

    /// The most processes that lived at a time.
    pub fn most_at_once(&self) -> usize {
        self.0.borrow().most
    }

    /// Changes how a program behaves when it is started next.
    pub fn set(&self, name: &str, manner: Manner) {
        self.0.borrow_mut().manners.insert(name.into(), manner);
    }

    /// As somebody else would kill it.
    pub fn kill(&self, name: &str) {
        self.end(self.pid_of(name).unwrap(), killed(Signal::KILL));
    }

    /// The next process is stopped as soon as it is there.
    pub fn stop_next(&self) {
        let mut world = self.0.borrow_mut();
        let next = Pid::new(world.next);
        world.stopped.extend(next);
    }

    /// Whether a process of that name was continued.
    pub fn is_continued(&self, name: &str) -> bool {
        self.pid_of(name).is_some_and(|pid| self.0.borrow().continued.contains(&pid))
    }

    /// The dead that were not reaped yet.
    pub fn dead(&self) -> usize {
        self.0.borrow().dead.len()
    }

    /// So many processes die that others had left to us.
    pub fn orphans_die(&self, number: i32) {
        let mut world = self.0.borrow_mut();
        let first = 1_000_000 + world.orphans;
        world.orphans += number;
        let orphans = (first..first + number).filter_map(Pid::new);
        world.dead.extend(orphans.map(|pid| Exited { pid, status: ExitStatus::Code(0) }));
        world.tell();
    }

    fn end(&self, pid: Pid, status: ExitStatus) {
        let mut world = self.0.borrow_mut();
        let Some(manner) = world.live.remove(&pid) else { return };
        if let Manner::Litters(after) = manner {
            world.remains.insert(pid, after);
        }
        if let Manner::Hungry(_) = manner {
            world.memory_kills += 1;
        }
        world.dead.push_back(Exited { pid, status });
        world.tell();
    }

    fn end_later(&self, pid: Pid, status: ExitStatus, milliseconds: u64) {
        let fake = self.clone();
        actix_rt::spawn(async move {
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            fake.end(pid, status);
        });
    }
}

fn killed(signal: Signal) -> ExitStatus {
    ExitStatus::Signal { signal, core_dumped: false }
}

fn variable(text: &CStr) -> Option<(OsString, OsString)> {
    let text = text.to_str().ok()?;
    let (name, value) = text.split_once('=')?;
    Some((name.into(), value.into()))
}

fn not_found() -> SpawnError {
    SpawnError::new("execute it".into(), io::Error::from_raw_os_error(libc::ENOENT))
}

impl Kernel for Fake {
    fn spawn(&self, launch: Launch) -> Spawning {
        let name = launch.command.program.clone();
        let mut world = self.0.borrow_mut();
        let manner = world.manners.get(&name).copied().unwrap_or(Manner::Serves);
        let environment = launch.whole_environment().unwrap().iter().filter_map(variable).collect();
        let dead = world.dead.len();
        world.started.push(Started { name, at: Instant::now(), environment, dead });
        let pid = Pid::new(world.next).unwrap();
        world.next += 1;
        let (sender, outcome) = oneshot::channel();
        if let Manner::Missing = manner {
            sender.send(SpawnOutcome::Failed { error: not_found(), child: None }).unwrap();
            return Spawning { progress: Arc::default(), outcome };
        }
        if let Manner::Hangs = manner {
            let progress: Arc<Progress> = Arc::default();
            world.hanging.push(sender);
            return Spawning { progress, outcome };
        }
        world.live.insert(pid, manner);
        world.most = world.most.max(world.live.len());
        drop(world);
        match manner {
            Manner::Ends(code, after) => self.end_later(pid, ExitStatus::Code(code), after),
            Manner::Litters(_) => self.end_later(pid, ExitStatus::Code(0), 0),
            Manner::Broken => self.end_later(pid, ExitStatus::Code(127), 0),
            Manner::Hungry(after) => self.end_later(pid, killed(Signal::KILL), after),
            Manner::Serves | Manner::Stubborn | Manner::Slow(_) | Manner::Missing | Manner::Hangs => {}
        }
        let settled = if let Manner::Broken = manner {
            SpawnOutcome::Failed { error: not_found(), child: Some(pid) }
        } else {
            launch.note_started(pid);
            SpawnOutcome::Started(Spawned { pid, pipes: None })
        };
        sender.send(settled).unwrap();
        Spawning { progress: Arc::new(Progress::done(pid)), outcome }
    }

    fn help_slow_starts(&self) -> bool {
        true
    }

    fn peek_exited(&self) -> io::Result<Option<Exited>> {
        Ok(self.0.borrow().dead.front().copied())
    }

    fn peek_at(&self, child: Pid) -> io::Result<Option<Exited>> {
        let world = self.0.borrow();
        if world.live.contains_key(&child) {
            return Ok(None);
        }
        Ok(world.dead.iter().rev().find(|exited| exited.pid == child).copied())
    }

    fn deaths(&self) -> io::Result<Deaths> {
        let fake = self.clone();
        Ok(Box::new(move |context| {
            let mut world = fake.0.borrow_mut();
            if std::mem::take(&mut world.news) {
                return Poll::Ready(Some(()));
            }
            world.waker = Some(context.waker().clone());
            Poll::Pending
        }))
    }

    fn reap(&self, pid: Pid) -> io::Result<Option<Usage>> {
        let dead = &mut self.0.borrow_mut().dead;
        if let Some(place) = dead.iter().position(|exited| exited.pid == pid) {
            dead.remove(place);
        }
        Ok(None)
    }

    fn signal_group(&self, group: Pid, signal: Signal) -> io::Result<Delivery> {
        let mut world = self.0.borrow_mut();
        let manner = world.live.get(&group).copied();
        let remains = world.remains.get(&group).copied();
        if signal == Signal::CONT {
            world.continued.insert(group);
        } else if manner.is_some() || remains.is_some() {
            world.signals.push((group, signal));
        }
        drop(world);
        if let Some(after) = remains {
            let fake = self.clone();
            let after = if signal == Signal::KILL { 0 } else { after };
            actix_rt::spawn(async move {
                tokio::time::sleep(Duration::from_millis(after)).await;
                fake.0.borrow_mut().remains.remove(&group);
            });
        }
        match (manner, signal) {
            (None, _) if remains.is_none() => return Ok(Delivery::NoSuchGroup),
            (None, _) => {}
            (Some(_), Signal::CONT) => {}
            (Some(_), Signal::KILL) => self.end_later(group, killed(signal), 0),
            (Some(Manner::Stubborn), _) => {}
            (Some(Manner::Slow(after)), _) => self.end_later(group, ExitStatus::Code(0), after),
            (Some(_), _) => self.end_later(group, killed(signal), 0),
        }
        Ok(Delivery::Sent)
    }

    fn stopped_by(&self, child: Pid) -> Option<Signal> {
        self.0.borrow_mut().stopped.remove(&child).then_some(Signal::TSTP)
    }

    fn group_of(&self, process: Pid) -> Option<Pid> {
        Some(process)
    }

    fn orphans(&self) -> Vec<Pid> {
        vec![]
    }

    fn describe_orphan(&self, pid: Pid) -> Orphan {
        Orphan::unknown(pid)
    }

    fn signal_all_children(&self, _: Signal) -> bool {
        true
    }

    fn has_children(&self) -> bool {
        false
    }

    fn signal_process(&self, _: Pid, _: Signal) {}

    fn living_groups(&self, groups: &[Pid]) -> HashSet<Pid> {
        groups.iter().copied().filter(|group| !self.group_is_empty(*group)).collect()
    }

    fn group_is_empty(&self, group: Pid) -> bool {
        let world = self.0.borrow();
        !world.live.contains_key(&group) && !world.remains.contains_key(&group)
    }

    fn memory_kills(&self) -> Option<u64> {
        Some(self.0.borrow().memory_kills)
    }
}
