//! The dossiers of crashes: what is known of the last failures of each job. Actors write them, the WebServer shows them. No
//! decision depends on them. Their number and their memory are bounded.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::health::Verdict;
use super::signal::Signal;

/// The number of dossiers that are kept of one job.
const MOST_OF_A_JOB: usize = 10;
/// About the bytes that all dossiers may occupy.
const MOST_BYTES: usize = 4 << 20;
/// About the size of an event. Dossiers share events, but each is counted as if it had them alone.
const EVENT_SIZE: usize = 256;

/// The end of an execution that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The process; `None` if there never was one.
    pub pid: Option<i32>,
    /// Its status as in a shell.
    pub status: u8,
    /// The signal that ended it.
    pub signal: Option<Signal>,
    /// Whether it left a core dump.
    pub core_dumped: bool,
    /// Who ended it, if it did not exit by itself.
    pub killed_by: Option<String>,
    /// How it ended, in words.
    pub reason: String,
    /// How long it ran.
    pub lasted: Duration,
}

/// What a process and the children that it waited for used (getrusage(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// The largest resident memory of one of these processes, in KiB.
    pub max_resident: u64,
    /// Page faults that needed the disk.
    pub major_faults: u64,
    /// Blocks of 512 bytes that were read from a disk.
    pub blocks_in: u64,
    /// Blocks of 512 bytes that were written to a disk.
    pub blocks_out: u64,
}

/// Everything that is known of one failure.
#[derive(Debug, Clone)]
pub struct Dossier {
    /// When it was.
    pub time: SystemTime,
    /// How the execution ended.
    pub failure: Failure,
    /// What its process used, if it had one.
    pub usage: Option<Usage>,
    /// The last lines that it printed, as they stand in the log.
    pub lines: Vec<u8>,
    /// The last results of the job's checks: name, verdict, and why the last try failed.
    pub checks: Vec<(Arc<str>, Verdict, Option<String>)>,
    /// The events before the failure, oldest first; `None` until they are added.
    pub events: Option<Vec<Arc<Event>>>,
    /// What the job's rules made of it.
    pub decision: String,
}

impl Dossier {
    fn size(&self) -> usize {
        let events = self.events.as_ref().map_or(0, Vec::len) * EVENT_SIZE;
        let checks: usize =
            self.checks.iter().map(|(_, _, reason)| 48 + reason.as_ref().map_or(0, String::len)).sum();
        checks
            + size_of::<Self>()
            + self.lines.len()
            + self.failure.reason.len()
            + self.decision.len()
            + events
    }
}

/// The dossiers of all jobs; clones share them, on the one thread of all actors.
#[derive(Debug, Clone, Default)]
pub struct Dossiers(Rc<RefCell<KeptDossiers>>);

#[derive(Debug, Default)]
struct KeptDossiers {
    /// Dossiers by job, oldest first.
    jobs: BTreeMap<Arc<str>, VecDeque<Rc<Dossier>>>,
    size: usize,
}

impl Dossiers {
    /// Adds a dossier; the oldest ones make room for it.
    pub fn push(&self, job: &Arc<str>, dossier: Dossier) {
        let mut shelf = self.0.borrow_mut();
        shelf.size += dossier.size();
        let of_job = shelf.jobs.entry(Arc::clone(job)).or_default();
        of_job.push_back(Rc::new(dossier));
        if of_job.len() > MOST_OF_A_JOB {
            let oldest = of_job.pop_front();
            shelf.size -= oldest.map_or(0, |oldest| oldest.size());
        }
        shelf.shrink();
    }

    /// Notes what the job's rules made of its last failure.
    pub fn decide(&self, job: &str, decision: String) {
        self.0.borrow_mut().change_last(job, |dossier| dossier.decision = decision);
    }

    /// Adds the events before the job's last failure, unless it has them already.
    pub fn add_events(&self, job: &str, events: impl FnOnce() -> Vec<Arc<Event>>) {
        self.0.borrow_mut().change_last(job, |dossier| {
            dossier.events.get_or_insert_with(events);
        });
    }

    /// The dossiers of a job, or of all, newest first, each with the name of its job.
    pub fn newest_first(&self, job: Option<&str>) -> Vec<(Arc<str>, Rc<Dossier>)> {
        let shelf = self.0.borrow();
        let chosen = shelf.jobs.iter().filter(|(name, _)| job.is_none_or(|job| *job == ***name));
        let named = chosen.flat_map(|(name, of_job)| {
            of_job.iter().rev().map(|dossier| (Arc::clone(name), Rc::clone(dossier)))
        });
        let mut all: Vec<_> = named.collect();
        all.sort_by_key(|(_, dossier)| std::cmp::Reverse(dossier.time));
        all
    }

    /// Forgets the dossiers of all other jobs.
    pub fn forget_all_but(&self, is_known: impl Fn(&str) -> bool) {
        let mut shelf = self.0.borrow_mut();
        shelf.jobs.retain(|name, _| is_known(name));
        shelf.size = shelf.jobs.values().flatten().map(|dossier| dossier.size()).sum();
    }
}

impl KeptDossiers {
    fn change_last(&mut self, job: &str, change: impl FnOnce(&mut Dossier)) {
        let Some(last) = self.jobs.get_mut(job).and_then(VecDeque::back_mut) else { return };
        let before = last.size();
        // One that is being sent to a client is copied.
        change(Rc::make_mut(last));
        self.size = self.size + last.size() - before;
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.size > MOST_BYTES {
            let oldest = self.jobs.values_mut().min_by_key(|of_job| of_job.front().map(|first| first.time));
            let Some(oldest) = oldest.and_then(VecDeque::pop_front) else { return };
            self.size -= oldest.size();
            self.jobs.retain(|_, of_job| !of_job.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::event::{Detail, EventCode, EventKey, Source};

    fn dossier(second: u64, lines: usize) -> Dossier {
        Dossier {
            time: SystemTime::UNIX_EPOCH + Duration::from_secs(second),
            failure: Failure {
                pid: Some(7),
                status: 1,
                signal: None,
                core_dumped: false,
                killed_by: None,
                reason: "exited with status 1".to_owned(),
                lasted: Duration::from_secs(1),
            },
            usage: None,
            lines: vec![b'x'; lines],
            checks: vec![],
            events: None,
            decision: String::new(),
        }
    }

    fn seconds(dossiers: &Dossiers, job: Option<&str>) -> Vec<u64> {
        let second = |(_, dossier): &(Arc<str>, Rc<Dossier>)| {
            dossier.time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
        };
        dossiers.newest_first(job).iter().map(second).collect()
    }

    #[test]
    fn the_last_ten_of_a_job_are_kept_and_the_newest_comes_first() {
        let dossiers = Dossiers::default();
        (1..=12).for_each(|second| dossiers.push(&"a".into(), dossier(second * 2, 0)));
        dossiers.push(&"b".into(), dossier(21, 0));
        assert_eq!(seconds(&dossiers, Some("a")), [24, 22, 20, 18, 16, 14, 12, 10, 8, 6]);
        assert_eq!(seconds(&dossiers, None)[..3], [24, 22, 21]);
        assert!(seconds(&dossiers, Some("c")).is_empty());
        dossiers.forget_all_but(|name| name == "b");
        assert_eq!(seconds(&dossiers, None), [21]);
    }

    #[test]
    fn all_together_are_bounded_and_the_oldest_goes_first() {
        let dossiers = Dossiers::default();
        for second in 0..1000 {
            dossiers.push(&format!("job{}", second % 200).into(), dossier(second, 16 << 10));
            let shelf = dossiers.0.borrow();
            assert!(shelf.size <= MOST_BYTES);
            assert_eq!(
                shelf.size,
                shelf.jobs.values().flatten().map(|dossier| dossier.size()).sum::<usize>()
            );
        }
        let kept = seconds(&dossiers, None);
        assert!(kept.len() > 200, "{}", kept.len());
        assert!(kept.windows(2).all(|pair| pair[0] == pair[1] + 1), "the newest ones without a gap");
    }

    #[test]
    fn a_dossier_is_completed_later_but_its_events_only_once() {
        let event = |sequence| {
            let key = EventKey { code: EventCode::Startup, source: Source::Global };
            let (time, detail) = (SystemTime::UNIX_EPOCH, Detail::default());
            vec![Arc::new(Event { sequence, time, cause: None, key, detail })]
        };
        let dossiers = Dossiers::default();
        dossiers.decide("a", "nothing to decide".to_owned());
        dossiers.push(&"a".into(), dossier(1, 0));
        dossiers.add_events("a", || event(5));
        dossiers.add_events("a", || event(6));
        dossiers.decide("a", "restarts in 1s".to_owned());
        let (_, last) = dossiers.newest_first(None).remove(0);
        assert_eq!(last.decision, "restarts in 1s");
        assert_eq!(last.events.as_ref().unwrap()[0].sequence, 5);
    }
}
