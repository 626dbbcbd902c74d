//! Describes orphans without waiting for one that hangs. Whose a process is stands in its memory, and the kernel lets a reader
//! of that wait while the process maps a file: on a file system that hangs, for ever. So it is read on a thread.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::group;
use crate::messages::process::{Orphan, Pid};
use crate::offload::start_thread;

/// How long the first look waits for what usually takes microseconds; those after it do not wait.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long it may take to tell whose a process is, before it is nobody's.
const GIVE_UP_AFTER: Duration = Duration::from_secs(1);
/// Threads that hang at the most.
const MOST_THREADS: usize = 16;

/// Describes orphans, and keeps the threads that have not done so yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Descriptions(Arc<Mutex<HashMap<Pid, UnderWay>>>);

#[derive(Debug)]
struct UnderWay {
    description: Receiver<Orphan>,
    since: Instant,
}

impl Descriptions {
    /// What `describe` tells of an orphan, or that nobody knows yet whose it is. If it hangs, the orphan is nobody's.
    pub(super) fn of(&self, pid: Pid, describe: fn(Pid) -> Orphan) -> Orphan {
        let mut under_way = self.lock();
        let (thread, patience) = match under_way.remove(&pid) {
            Some(thread) => (thread, Duration::ZERO),
            None if under_way.len() >= MOST_THREADS => return nobodys(pid),
            None => match start(pid, describe) {
                Some(thread) => (thread, PATIENCE),
                None => return describe(pid),
            },
        };
        match thread.description.recv_timeout(patience) {
            Ok(orphan) => Orphan { group: group::of(pid), ..orphan },
            Err(RecvTimeoutError::Disconnected) => nobodys(pid),
            Err(RecvTimeoutError::Timeout) => {
                let is_becoming = thread.since.elapsed() < GIVE_UP_AFTER;
                under_way.insert(pid, thread);
                Orphan { is_becoming, ..nobodys(pid) }
            }
        }
    }

    /// Forgets a process that is about to be reaped: its number may be given to another one.
    pub(super) fn forget(&self, pid: Pid) {
        self.lock().remove(&pid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Pid, UnderWay>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `None` if no thread can be started.
fn start(pid: Pid, describe: fn(Pid) -> Orphan) -> Option<UnderWay> {
    let (sender, description) = channel();
    start_thread("describe", move || drop(sender.send(describe(pid)))).ok()?;
    Some(UnderWay { description, since: Instant::now() })
}

/// An orphan that no job takes for its own: with variables, none of which names a job.
fn nobodys(pid: Pid) -> Orphan {
    Orphan { group: group::of(pid), has_environment: true, ..Orphan::unknown(pid) }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const SOMEBODY: Pid = Pid::new(i32::MAX).unwrap();

    fn of_app(pid: Pid) -> Orphan {
        Orphan { job: Some("app".to_owned()), program: "app".to_owned(), ..nobodys(pid) }
    }

    fn late(pid: Pid) -> Orphan {
        thread::sleep(PATIENCE * 3);
        of_app(pid)
    }

    fn never(_: Pid) -> Orphan {
        loop {
            thread::park();
        }
    }

    fn panics(_: Pid) -> Orphan {
        panic!("as a test asks for")
    }

    /// What is told in the end.
    fn in_the_end(descriptions: &Descriptions, describe: fn(Pid) -> Orphan) -> Orphan {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let orphan = descriptions.of(SOMEBODY, describe);
            if !orphan.is_becoming {
                return orphan;
            }
            assert!(Instant::now() < deadline);
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_is_told_late_is_known_then_and_until_then_nobody_knows_whose_it_is() {
        let descriptions = Descriptions::default();
        assert!(descriptions.of(SOMEBODY, late).is_becoming);
        assert_eq!(in_the_end(&descriptions, never), of_app(SOMEBODY));
        assert_eq!(in_the_end(&descriptions, of_app), of_app(SOMEBODY));
        assert!(descriptions.lock().is_empty());
    }

    #[test]
    fn what_is_never_told_is_waited_for_once_and_nobodys_in_the_end() {
        let descriptions = Descriptions::default();
        let start = Instant::now();
        assert!(!descriptions.of(SOMEBODY, never).belongs_to("app", "app"));
        assert_eq!(in_the_end(&descriptions, of_app), nobodys(SOMEBODY));
        assert!(start.elapsed() >= GIVE_UP_AFTER);
        assert!(!nobodys(SOMEBODY).belongs_to("app", ""));
        descriptions.forget(SOMEBODY);
        assert_eq!(in_the_end(&descriptions, of_app), of_app(SOMEBODY), "another one has its number");
    }

    #[test]
    fn so_many_threads_hang_and_no_more() {
        let descriptions = Descriptions::default();
        let hanging = (1..).filter_map(Pid::new);
        let count = hanging.take_while(|pid| descriptions.of(*pid, never).is_becoming).count();
        assert_eq!(count, MOST_THREADS);
    }

    #[test]
    fn one_whose_description_fails_is_nobodys() {
        assert_eq!(in_the_end(&Descriptions::default(), panics), nobodys(SOMEBODY));
    }
}
