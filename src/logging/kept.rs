//! The last output of every job, in memory, for `logs` and for the dossiers of crashes. Each job has a ring of pieces
//! (`ring`), made when it first prints something. All rings together are bounded; when they exceed that, the largest ones
//! forget their oldest lines.
//!
//! It lives on the thread of the event loop, where the records of children are made, and never waits.

mod cursor;
mod ring;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

use super::lines::LEVEL;
use crate::config::spec::{JobSpec, LoggingSpec, MOST_KEPT, Spec};
pub use cursor::{Cursor, Wanted};
use ring::{Origin, Ring};

/// The most that all rings may occupy.
const MOST_BYTES: usize = MOST_KEPT as usize;

/// The output that is kept of all jobs; clones share it.
#[derive(Debug, Clone, Default)]
pub struct KeptOutput(Rc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    store: RefCell<Store>,
    /// Wakes those who follow the output.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Store {
    /// The settings in force.
    logging: LoggingSpec,
    /// The rings of the jobs that have printed something.
    rings: BTreeMap<Arc<str>, Ring>,
    /// The bytes that all rings occupy.
    size: usize,
    /// The number of the newest piece of output; pieces of all jobs are counted together, in the order of the log.
    newest: u64,
    /// Why nothing is kept of some jobs.
    unkept: HashMap<Arc<str>, &'static str>,
    closed: bool,
}

/// How much of a stream's output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing: it is not a job's.
    Nothing,
    /// As much as of every job.
    Default,
    /// So many bytes of the job.
    Bytes(u32),
}

impl KeptOutput {
    /// Takes over a configuration; the output of jobs that are not in it is forgotten. `has_terminal`: a job with `tty` gets
    /// the terminal.
    pub fn configure(&self, spec: &Spec, has_terminal: bool) {
        let mut store = self.0.store.borrow_mut();
        store.logging = spec.logging.clone();
        let why = |job: &Arc<JobSpec>| {
            let why = match job.keep.unwrap_or(spec.logging.keep) {
                _ if job.tty && has_terminal => "it goes to the terminal, since the job has `tty: true`",
                _ if job.raw_output => "with `logging.raw` it does not pass through containerpilot",
                0 => "`logging.keep` is 0",
                _ => return None,
            };
            Some((Arc::clone(&job.name), why))
        };
        store.unkept = spec.jobs.iter().filter_map(why).collect();
        let known: HashSet<&str> = spec.jobs.iter().map(|job| &*job.name).collect();
        let Store { rings, unkept, .. } = &mut *store;
        rings.retain(|name, _| known.contains(&**name) && !unkept.contains_key(name));
        store.size = store.rings.values().map(Ring::size).sum();
    }

    /// Why nothing is kept of a job, if that is so.
    pub fn why_unkept(&self, job: &str) -> Option<&'static str> {
        let store = self.0.store.borrow();
        // Something may have been kept while the level was another one.
        let is_below_level = store.logging.level > LEVEL && !store.rings.contains_key(job);
        let level = is_below_level.then_some("it has the level INFO, which `logging.level` leaves out");
        store.unkept.get(job).copied().or(level)
    }

    /// A cursor before the output that is wanted.
    pub fn find(&self, wanted: Wanted) -> Cursor {
        let store = self.0.store.borrow();
        cursor::find(&store.rings, store.newest, wanted)
    }

    /// The output after the cursor, about `limit` bytes of it, in the order of the log. Empty if there is none.
    pub fn read(&self, cursor: &mut Cursor, limit: usize) -> Vec<u8> {
        let store = self.0.store.borrow();
        cursor.read(&store.rings, store.newest, limit)
    }

    /// The last lines that a process of a job has printed: at most so many, and at most so many bytes.
    pub fn last_lines(&self, job: &str, pid: u32, lines: usize, bytes: usize) -> Vec<u8> {
        let store = self.0.store.borrow();
        store.rings.get(job).map(|ring| ring.last_lines(pid, lines, bytes)).unwrap_or_default()
    }

    /// Waits until there is more; false if there will be none.
    pub async fn more(&self) -> bool {
        let changed = self.0.changed.notified();
        if self.0.store.borrow().closed {
            return false;
        }
        changed.await;
        true
    }

    /// Keeps whole records of a process, as much of their end as there is room for.
    pub fn add(&self, job: &Arc<str>, pid: u32, keep: Keep, records: &[u8]) {
        let limit = match keep {
            Keep::Nothing => return,
            Keep::Default => self.0.store.borrow().logging.keep,
            Keep::Bytes(bytes) => bytes,
        };
        if limit == 0 || records.is_empty() {
            return;
        }
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
        self.0.store.borrow_mut().add(job, limit as usize, (time, pid), records);
        self.0.changed.notify_waiters();
    }

    /// There will be no more output: whoever follows it comes to an end.
    pub fn close(&self) {
        self.0.store.borrow_mut().closed = true;
        self.0.changed.notify_waiters();
    }
}

impl Store {
    fn add(&mut self, job: &Arc<str>, limit: usize, (time, pid): (u64, u32), records: &[u8]) {
        let ring = self.rings.entry(Arc::clone(job)).or_default();
        let before = ring.size();
        ring.push(&mut self.newest, Origin { time, pid }, records, limit);
        self.size = (self.size + ring.size()).saturating_sub(before);
        if self.size > MOST_BYTES {
            self.shrink();
        }
    }

    /// Shortens the largest rings to one size, so that an eighth becomes free: then this is seldom needed, however many
    /// jobs print.
    fn shrink(&mut self) {
        let mut sizes: Vec<usize> = self.rings.values().map(Ring::size).collect();
        let level = level(&mut sizes, MOST_BYTES / 8 * 7);
        for ring in self.rings.values_mut().filter(|ring| ring.size() > level) {
            ring.shrink(level);
        }
        self.size = self.rings.values().map(Ring::size).sum();
    }
}

/// The size to which the larger ones of these must be cut, so that their sum is at most `total`.
fn level(sizes: &mut [usize], total: usize) -> usize {
    sizes.sort_unstable();
    let mut rest = total;
    for (index, size) in sizes.iter().enumerate() {
        let share = rest / (sizes.len() - index);
        if *size > share {
            return share;
        }
        rest -= size;
    }
    usize::MAX
}

#[cfg(test)]
mod tests;
