//! The simulated kernel: processes that behave as the story says, on the paused clock. What the program asks of it is in
//! [`seam`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use super::journal::Journal;
use super::story::{AtTerm, Life, Manner, Says};
use crate::messages::process::{ExitStatus, Pid};
use crate::messages::signal::Signal;
use crate::process::{Launch, Progress, SpawnOutcome};

mod forks;
mod notices;
mod process;
mod seam;
mod starts;

pub use process::{Owner, Process, State};

const FIRST_PID: i32 = 100;

/// What processes do at a time.
pub(super) enum Happening {
    /// The search for a program is over.
    Found(Box<Search>),
    /// A process becomes its program, or has died before.
    Executed(u64),
    Fork(u64, usize),
    Stop(u64),
    /// A process joins the group of a child of its own.
    Leave(u64),
    End(u64, ExitStatus),
    /// A process tells something, again and again if the flag is set.
    Notify(u64, Says, bool),
}

pub(super) struct Search {
    launch: Launch,
    progress: Arc<Progress>,
    sender: oneshot::Sender<SpawnOutcome>,
    manner: Manner,
    owner: Owner,
}

/// What the rules want to know of the kernel as it happens.
pub trait Observer {
    /// A process of a job is asked for, while these of it live.
    fn started(&self, job: &str, living: usize, launch: &Launch);
    /// The main process of a job is its program now.
    fn executed(&self, job: &str);
    /// The main process of a job has ended; `pid` is `None` if it was killed before it was its program.
    fn ended(&self, job: &str, execution: u64, pid: Option<Pid>, status: ExitStatus);
    /// A process of a check is asked for, while so many of it live.
    fn check_started(&self, check: &str, living: usize);
    /// The main process of a check has ended.
    fn checked(&self, check: &str, passed: bool);
    /// We sent a signal to the main process of a job, which lives.
    fn signalled(&self, job: &str, signal: Signal);
    /// We sent a signal to the main process of a job, which has just ended.
    fn signalled_too_late(&self, execution: u64);
    /// The main process of a job tells something by systemd's protocol.
    fn notified(&self, job: &str, says: Says);
    /// A process has written a line.
    fn printed(&self, execution: u64, line: &str);
}

/// Shared by the story and the program.
#[derive(Clone)]
pub struct SimulatedKernel {
    world: Rc<RefCell<World>>,
    observer: Rc<dyn Observer>,
    journal: Journal,
}

struct World {
    manners: BTreeMap<String, Manner>,
    /// In the order of their births.
    processes: Vec<Process>,
    births: u64,
    last_pid: i32,
    pids: i32,
    /// The next starts fail with this error number.
    faults: (i32, u32),
    agenda: BTreeMap<(Instant, u64), Happening>,
    turns: u64,
    wake: Rc<Notify>,
    waker: Option<Waker>,
    has_news: bool,
    memory_kills: u64,
    /// The group of the process that was the last to tell something, and when.
    speaker: Option<(Pid, Instant)>,
}

impl World {
    fn later(&mut self, milliseconds: u64, happening: Happening) {
        self.turns += 1;
        let at = Instant::now() + Duration::from_millis(milliseconds);
        self.agenda.insert((at, self.turns), happening);
        self.wake.notify_one();
    }

    /// As SIGCHLD does: several that come together are one.
    fn tell(&mut self) {
        self.has_news = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn get(&mut self, birth: u64) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.birth == birth)
    }

    /// The next free number: one that names a group is not free.
    fn next_pid(&mut self) -> Option<Pid> {
        for _ in 0..self.pids {
            self.last_pid = FIRST_PID + (self.last_pid + 1 - FIRST_PID) % self.pids;
            let pid = Pid::new(self.last_pid)?;
            if !self.processes.iter().any(|process| process.pid == pid || process.group == pid) {
                return Some(pid);
            }
        }
        None
    }
}

impl SimulatedKernel {
    pub fn new(
        manners: BTreeMap<String, Manner>,
        pids: i32,
        observer: Rc<dyn Observer>,
        journal: Journal,
    ) -> Self {
        let world = World {
            manners,
            processes: vec![],
            births: 0,
            last_pid: FIRST_PID,
            pids,
            faults: (0, 0),
            agenda: BTreeMap::new(),
            turns: 0,
            wake: Rc::default(),
            waker: None,
            has_news: false,
            memory_kills: 0,
            speaker: None,
        };
        Self { world: Rc::new(RefCell::new(world)), observer, journal }
    }

    /// Lets processes do what they do, until the run is over; `after` is called after each step.
    pub async fn run(self, after: impl Fn()) {
        let wake = Rc::clone(&self.world.borrow().wake);
        loop {
            let next = self.world.borrow().agenda.first_key_value().map(|((at, _), _)| *at);
            match next {
                None => wake.notified().await,
                Some(at) if at > Instant::now() => {
                    tokio::select! { biased; () = wake.notified() => {}, () = sleep_until(at) => {} }
                }
                Some(_) => {
                    let happening = self.world.borrow_mut().agenda.pop_first();
                    if let Some(((_, turn), happening)) = happening {
                        self.perform(happening);
                        after();
                        // Of two things that happen together, the program sees the first alone or both at once.
                        if turn % 2 == 0 {
                            tokio::task::yield_now().await;
                        }
                    }
                }
            }
        }
    }

    pub fn behave(&self, program: &str, manner: Manner) {
        self.world.borrow_mut().manners.insert(program.to_owned(), manner);
    }

    pub fn fail_starts(&self, errno: i32, times: u32) {
        self.world.borrow_mut().faults = (errno, times);
    }

    /// Somebody else sends a signal to the main process of a job.
    pub fn kill(&self, job: &str, signal: Signal) {
        let world = self.world.borrow();
        let main =
            world.processes.iter().find(|it| it.is_of(job) && it.leads() && it.lives() && it.is_settled);
        let Some(birth) = main.map(|main| main.birth) else { return };
        drop(world);
        self.deliver(birth, signal);
    }

    /// Looks at all processes, zombies included.
    pub fn look<T>(&self, look: impl FnOnce(&[Process]) -> T) -> T {
        look(&self.world.borrow().processes)
    }

    /// Whether a start has been asked for whose process is not there yet.
    pub fn is_searched(&self, job: &str) -> bool {
        let is_it = |happening: &Happening| match happening {
            Happening::Found(search) => matches!(&search.owner, Owner::Job(name) if **name == *job),
            Happening::Executed(_)
            | Happening::Fork(..)
            | Happening::Stop(_)
            | Happening::Leave(_)
            | Happening::End(..)
            | Happening::Notify(..) => false,
        };
        self.world.borrow().agenda.values().any(is_it)
    }

    fn perform(&self, happening: Happening) {
        match happening {
            Happening::Found(search) => self.found(*search),
            Happening::Executed(birth) => self.executed(birth),
            Happening::Fork(birth, _)
            | Happening::Stop(birth)
            | Happening::Leave(birth)
            | Happening::End(birth, _)
            | Happening::Notify(birth, ..) => {
                let mut world = self.world.borrow_mut();
                let Some(process) = world.get(birth).filter(|process| process.lives()) else { return };
                if process.state == State::Stopped {
                    return process.postponed.push(happening);
                }
                drop(world);
                match happening {
                    Happening::Fork(_, index) => self.fork(birth, index),
                    Happening::Stop(_) => self.stop(birth),
                    Happening::Leave(_) => self.leave(birth),
                    Happening::End(_, status) => self.end(birth, status),
                    Happening::Notify(_, says, repeats) => self.notify(birth, says, repeats),
                    Happening::Found(_) | Happening::Executed(_) => {}
                }
            }
        }
    }

    fn stop(&self, birth: u64) {
        let mut world = self.world.borrow_mut();
        let Some(process) = world.get(birth) else { return };
        process.state = State::Stopped;
        self.journal.note(format!("process {} stops", process.pid));
        // A child that stops is news as well.
        world.tell();
    }

    /// A signal takes effect.
    fn deliver(&self, birth: u64, signal: Signal) {
        let mut world = self.world.borrow_mut();
        let Some(process) = world.get(birth).filter(|process| process.lives()) else { return };
        // Before it is its program, it handles no signal.
        let at_term = if process.start.is_some() { AtTerm::Dies } else { process.manner.at_term };
        let state = process.state;
        let killed = ExitStatus::Signal { signal, core_dumped: false };
        if signal == Signal::KILL {
            drop(world);
            return self.end(birth, killed);
        }
        if signal == Signal::CONT && state == State::Stopped {
            process.state = State::Runs;
            process.asked_in_vain = None;
            let postponed = std::mem::take(&mut process.postponed);
            return postponed.into_iter().for_each(|happening| world.later(0, happening));
        }
        if ![Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP, Signal::ABRT].contains(&signal) {
            return;
        }
        let (end, after) = match at_term {
            AtTerm::Dies => (killed, None),
            AtTerm::Exits(code, after) => (ExitStatus::Code(code), Some(after)),
            AtTerm::Ignores => return,
        };
        match (state, after) {
            (State::Stopped, _) => process.postponed.push(Happening::End(birth, end)),
            (State::Runs | State::Zombie(_), Some(after)) => world.later(after, Happening::End(birth, end)),
            (State::Runs | State::Zombie(_), None) => {
                drop(world);
                self.end(birth, end);
            }
        }
    }

    fn end(&self, birth: u64, status: ExitStatus) {
        if matches!(status, ExitStatus::Code(_)) {
            self.print(birth, false);
        }
        let mut world = self.world.borrow_mut();
        let starved = |process: &Process| {
            matches!(process.manner.life, Life::Starves(_))
                && status == ExitStatus::Signal { signal: Signal::KILL, core_dumped: false }
        };
        let Some(process) = world.get(birth).filter(|process| process.lives()) else { return };
        let (pid, owner, leads, is_ours) =
            (process.pid, process.owner.clone(), process.leads(), process.parent.is_none());
        let is_starved = starved(process);
        process.state = State::Zombie(status);
        process.ended = Some(self.journal.awake());
        process.output = None;
        let in_execve = process.start.is_some();
        self.journal.note(format!("process {pid} {status}"));
        world.memory_kills += u64::from(is_starved);
        if in_execve {
            world.later(0, Happening::Executed(birth));
        }
        for child in world.processes.iter_mut().filter(|child| child.parent == Some(birth)) {
            (child.parent, child.is_adopted) = (None, true);
        }
        if is_ours {
            world.tell();
        } else {
            // Its parent waits for it at once.
            world.processes.retain(|process| process.birth != birth);
        }
        drop(world);
        match owner {
            Owner::Job(job) if leads => {
                self.observer.ended(&job, birth, (!in_execve).then_some(pid), status);
            }
            Owner::Check(check) if leads => self.observer.checked(&check, status.is_success()),
            Owner::Job(_) | Owner::Check(_) => {}
        }
    }

    /// Writes a line, or the beginning of one.
    fn print(&self, birth: u64, is_whole: bool) {
        let mut world = self.world.borrow_mut();
        let Some(process) = world.get(birth).filter(|process| process.manner.lines > 0) else { return };
        let (Some(output), Owner::Job(_)) = (process.output.clone(), &process.owner) else { return };
        process.printed += 1;
        // Every second line goes to stderr.
        let stream = usize::from(process.printed % 2 == 0);
        let line = format!("~{birth}.{}~", process.printed);
        drop(world);
        let text = if is_whole { format!("{line}\n") } else { line.clone() };
        // A pipe that nobody reads is full some time, and nobody reads what is written then.
        if nix::unistd::write(&output[stream], text.as_bytes()).is_ok() {
            self.observer.printed(birth, &line);
        }
    }
}

/// Ends a process at its time.
fn live(world: &mut World, birth: u64, life: Life) {
    let killed = ExitStatus::Signal { signal: Signal::KILL, core_dumped: false };
    match life {
        Life::Serves => {}
        Life::Ends(status, after) => world.later(after, Happening::End(birth, status)),
        Life::Starves(after) => world.later(after, Happening::End(birth, killed)),
    }
}
