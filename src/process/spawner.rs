//! Threads that start processes. execve(2), the look-up of a program and `/etc/passwd` may wait for a file system that
//! hangs; here that holds up one start, never the event loop. One thread does the work; others are made only while a
//! start hangs. None ends before the program does: for the kernel the thread is the parent, and with it ends every process that
//! has asked for a signal at the death of its parent (PR_SET_PDEATHSIG). tokio's pool of threads was weighed: it panics where it cannot
//! start a thread, as at a container's limit of processes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use tokio::sync::oneshot;

use super::error::SpawnError;
use super::spawn::{Stack, spawn};
use super::{Launch, SpawnOutcome, Spawning};
use crate::messages::process::Pid;
use crate::offload::start_thread;

/// How far a start has come: one number, so that the kernel itself can write the process number into it.
#[derive(Debug, Default)]
pub struct Progress(AtomicI32);

const PREPARING: i32 = 0;
const CANCELLED: i32 = -1;
const CLONING: i32 = -2;

impl Progress {
    /// Cancels a start that has no process yet; false if it is too late for that.
    pub fn cancel(&self) -> bool {
        self.0.compare_exchange(PREPARING, CANCELLED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Says that the process is about to be made; false if the start was cancelled.
    pub(super) fn begin_clone(&self) -> bool {
        self.0.compare_exchange(PREPARING, CLONING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Says that clone(2) failed: there will be no process.
    pub(super) fn end_without_process(&self) {
        self.0.store(CANCELLED, Ordering::SeqCst);
    }

    /// Says that clone(2) made this process, where it did not write the number itself: qemu-user makes a fork of a vfork
    /// and then writes it into the memory of the child alone.
    pub(super) fn end_clone(&self, pid: Pid) {
        self.0.store(pid.number(), Ordering::SeqCst);
    }

    /// Where clone(2) writes the process number.
    pub(super) fn as_ptr(&self) -> *mut i32 {
        self.0.as_ptr()
    }

    /// The process, which may not have become its program yet.
    pub fn pid(&self) -> Option<Pid> {
        // clone(2) writes the number without waiting for anything: it takes microseconds.
        while self.0.load(Ordering::SeqCst) == CLONING {
            thread::yield_now();
        }
        Pid::new(self.0.load(Ordering::SeqCst))
    }

    /// Makes this process, unless the start was cancelled; for tests.
    #[cfg(test)]
    pub(crate) fn complete(&self, pid: Pid) -> bool {
        let begun = self.begin_clone();
        if begun {
            self.end_clone(pid);
        }
        begun
    }

    /// A start that is over, with this process; for tests.
    #[cfg(test)]
    pub(crate) fn done(pid: Pid) -> Self {
        Self(AtomicI32::new(pid.number()))
    }
}

/// Threads at the most: so many jobs and checks can hang at a time, each on one, before others have to wait.
const MOST_THREADS: usize = 64;

/// Starts processes on threads of its own, in the order of the requests.
#[derive(Debug, Clone, Default)]
pub struct Spawner(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// There is work.
    work: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Work>,
    threads: usize,
    /// Threads that wait for work.
    idle: usize,
}

#[derive(Debug)]
struct Work {
    launch: Launch,
    progress: Arc<Progress>,
    outcome: oneshot::Sender<SpawnOutcome>,
}

impl Spawner {
    /// Asks for a process to be started, and returns at once.
    pub fn start(&self, launch: Launch) -> Spawning {
        let (sender, outcome) = oneshot::channel();
        let progress = Arc::new(Progress::default());
        let work = Work { launch, progress: Arc::clone(&progress), outcome: sender };
        let mut queue = self.0.lock();
        queue.waiting.push_back(work);
        if queue.threads > 0 {
            // Unlock first: the thread that this wakes takes the lock.
            drop(queue);
            self.0.work.notify_one();
        } else if let Err(error) = self.add_thread(&mut queue)
            && let Some(work) = queue.waiting.pop_back()
        {
            let error = SpawnError::new("make a thread that starts it".to_owned(), error);
            let _ = work.outcome.send(SpawnOutcome::Failed { error, child: None });
        }
        Spawning { progress, outcome }
    }

    /// Makes another thread if starts wait and every thread is at work: one of them may hang. False if that cannot be:
    /// then what waits goes on waiting for the threads that there are.
    pub fn help(&self) -> bool {
        let mut queue = self.0.lock();
        if queue.idle > 0 || queue.waiting.is_empty() {
            return true;
        }
        queue.threads < MOST_THREADS && self.add_thread(&mut queue).is_ok()
    }

    fn add_thread(&self, queue: &mut Queue) -> io::Result<()> {
        let shared = Arc::clone(&self.0);
        start_thread("spawner", move || {
            let mut stack = Stack::default();
            loop {
                let Work { launch, progress, outcome } = shared.next();
                let _ = outcome.send(spawn(&launch, &progress, &mut stack));
            }
        })?;
        queue.threads += 1;
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next start.
    fn next(&self) -> Work {
        let mut queue = self.lock();
        loop {
            if let Some(work) = queue.waiting.pop_front() {
                return work;
            }
            queue.idle += 1;
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::{EnvironmentBlock, Output, Passed, RunningJobs};
    use super::*;
    use crate::config::spec::{CommandLine, ExecutionSpec};

    #[test]
    fn a_start_is_cancelled_or_has_a_process_never_both() {
        let cancelled = Progress::default();
        assert!(cancelled.cancel());
        assert!(!cancelled.begin_clone());
        assert_eq!(cancelled.pid(), None);
        let begun = Progress::default();
        assert!(begun.begin_clone());
        assert!(!begun.cancel());
        let pid = Pid::new(7).unwrap();
        begun.end_clone(pid);
        assert_eq!(begun.pid(), Some(pid));
        let failed = Progress::default();
        assert!(failed.begin_clone());
        failed.end_without_process();
        assert_eq!(failed.0.load(Ordering::SeqCst), CANCELLED);
        assert_eq!((failed.pid(), failed.cancel()), (None, false));
    }

    fn launch() -> Launch {
        Launch {
            command: CommandLine { program: "true".into(), args: vec![] },
            execution: ExecutionSpec::default(),
            environment: EnvironmentBlock::default(),
            variable_files: vec![],
            running: RunningJobs::default(),
            variable: None,
            output: Output::Inherited,
            passed: Passed::default(),
        }
    }

    /// A start that is cancelled already.
    fn work() -> Work {
        let progress = Arc::new(Progress::default());
        assert!(progress.cancel());
        Work { launch: launch(), progress, outcome: oneshot::channel().0 }
    }

    fn shared(starts: usize, threads: usize, idle: usize) -> Arc<Shared> {
        let waiting = (0..starts).map(|_| work()).collect();
        Arc::new(Shared { queue: Mutex::new(Queue { waiting, threads, idle }), work: Condvar::new() })
    }

    #[test]
    fn another_thread_is_made_only_if_starts_wait_and_no_thread_is_idle() {
        for (starts, threads, idle, expected) in [
            (1, 1, 0, (true, 2)),
            (0, 1, 0, (true, 1)),
            (1, 1, 1, (true, 1)),
            (1, MOST_THREADS - 1, 0, (true, MOST_THREADS)),
            (1, MOST_THREADS, 0, (false, MOST_THREADS)),
        ] {
            let spawner = Spawner(shared(starts, threads, idle));
            let found = (spawner.help(), spawner.0.lock().threads);
            assert_eq!(found, expected, "{starts} starts, {threads} threads, {idle} idle");
        }
    }

    #[test]
    fn a_start_waits_for_the_thread_that_there_is() {
        let spawner = Spawner(shared(0, 1, 0));
        spawner.start(launch());
        let queue = spawner.0.lock();
        assert_eq!((queue.threads, queue.waiting.len()), (1, 1));
    }

    #[test]
    fn a_thread_that_has_found_work_is_idle_no_more() {
        let shared = shared(0, 1, 0);
        let threads = Arc::clone(&shared);
        let waiting = thread::spawn(move || drop(threads.next()));
        let deadline = Instant::now() + Duration::from_secs(20);
        while shared.lock().idle == 0 {
            assert!(Instant::now() < deadline, "it does not wait");
            thread::yield_now();
        }
        shared.lock().waiting.push_back(work());
        shared.work.notify_one();
        waiting.join().unwrap();
        assert_eq!(shared.lock().idle, 0);
    }

    #[test]
    fn a_thread_that_has_nothing_left_to_do_waits_beside_others() {
        let shared = shared(1, 3, 1);
        let threads = Arc::clone(&shared);
        thread::spawn(move || while threads.next().progress.pid().is_none() {});
        let deadline = Instant::now() + Duration::from_secs(20);
        while shared.lock().idle < 2 {
            assert!(Instant::now() < deadline, "it does not wait");
            thread::yield_now();
        }
        assert_eq!(shared.lock().threads, 3);
    }
}
