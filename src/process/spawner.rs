//! Threads that start processes. execve(2), the look-up of a program and `/etc/passwd` may wait for a file system that
//! hangs; here that holds up one start, never the event loop. One idle thread is kept; another is made only while a
//! start hangs.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::sys::signal::SigSet;
use tokio::sync::oneshot;

use super::error::SpawnError;
use super::spawn::spawn;
use super::{Launch, SpawnOutcome, Spawning};
use crate::messages::process::Pid;

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

    /// A start that is over, with this process; for tests.
    #[cfg(test)]
    pub(crate) fn done(pid: Pid) -> Self {
        Self(AtomicI32::new(pid.number()))
    }
}

struct Work {
    launch: Launch,
    progress: Arc<Progress>,
    outcome: oneshot::Sender<SpawnOutcome>,
}

/// Starts processes on threads of its own.
#[derive(Debug, Clone, Default)]
pub struct Spawner {
    /// A thread that waits for work.
    idle: Arc<Mutex<Option<Sender<Work>>>>,
}

impl Spawner {
    /// Begins to start a process, and returns at once.
    pub fn start(&self, launch: Launch) -> Spawning {
        let (sender, outcome) = oneshot::channel();
        let progress = Arc::new(Progress::default());
        let work = Work { launch, progress: Arc::clone(&progress), outcome: sender };
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let refused = match idle {
            Some(thread) => thread.send(work).err().map(|refused| refused.0),
            None => Some(work),
        };
        if let Some(work) = refused {
            self.start_thread(work);
        }
        Spawning { progress, outcome }
    }

    fn start_thread(&self, work: Work) {
        let Work { launch, progress, outcome } = work;
        let idle = Arc::clone(&self.idle);
        let (report, reported) = channel();
        let started = thread::Builder::new().name("spawner".to_owned()).spawn(move || {
            // Handlers run on other threads, never on this one and thus never in a child.
            let _ = SigSet::all().thread_block();
            let Ok(first) = reported.recv() else { return };
            serve(first, &idle);
        });
        match started {
            Ok(_) => drop(report.send(Work { launch, progress, outcome })),
            Err(error) => {
                let error = thread_refused(error);
                let _ = outcome.send(SpawnOutcome::Failed { error, child: None });
            }
        }
    }
}

/// Does one piece of work after the other, for as long as this thread is the one to be kept.
fn serve(first: Work, idle: &Mutex<Option<Sender<Work>>>) {
    let (sender, works) = channel();
    let mut work = first;
    loop {
        let Work { launch, progress, outcome } = work;
        let spawned = spawn(launch, &progress);
        {
            // Idle before the outcome is known, so that whoever hears of it finds this thread.
            let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.is_some() {
                drop(idle);
                let _ = outcome.send(spawned);
                return;
            }
            *idle = Some(sender.clone());
        }
        let _ = outcome.send(spawned);
        match works.recv() {
            Ok(next) => work = next,
            Err(_) => return,
        }
    }
}

fn thread_refused(error: io::Error) -> SpawnError {
    SpawnError::new("make a thread that starts it".to_owned(), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_cancelled_or_has_a_process_never_both() {
        let cancelled = Progress::default();
        assert!(cancelled.cancel());
        assert!(!cancelled.begin_clone());
        assert_eq!(cancelled.pid(), None);
        let begun = Progress::default();
        assert!(begun.begin_clone());
        assert!(!begun.cancel());
    }
}
