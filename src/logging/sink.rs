//! The bounded buffer between the program and the thread that writes the log (`writer`). Only `flush` waits for the
//! output.
//!
//! Written by hand: a channel (`crossbeam-channel`, tokio's `mpsc`) carries one record per message, this buffer what a
//! whole read of 64 KiB became; slog-async drops records when it is full, or blocks the program.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Notify;

use super::format::{Frame, Origin};
use super::output::Output;
use super::settings::Settings;
use super::time::TimeText;
use super::writer;
use crate::config::spec::{LogLevel, LogOutput};
use crate::messages::status::LogUsage;

/// No process is started while this many bytes more than the bound wait. One read of short lines becomes several MiB of
/// records; that alone must not delay a start.
const FLOOD_MARGIN: usize = 12 << 20;
/// The number of bytes that may wait for the writer, besides those that it is writing.
pub const DEFAULT_BOUND: usize = 1024 * 1024;
/// Buffers are shrunk to this size when the log is idle.
const KEPT_CAPACITY: usize = 256 * 1024;
/// A flush lasts at most this many times its `patience`.
const LONGEST_FLUSH: u32 = 10;
/// So often a flush looks within its `patience`. If the whole machine stands still for a while, that counts as one look, and
/// the reader of the log still has the others.
const PARTS: u32 = 10;

/// A queue of records that a thread named `log` writes in order; clones share it.
///
/// When the last clone is dropped, the thread writes what is queued and ends. It does not keep the process alive.
#[derive(Debug, Clone)]
pub struct LogSink {
    shared: Arc<Shared>,
    _closer: Arc<Closer>,
}

/// Tells the writer that the last sink is dropped; the writer itself holds only `Shared`.
#[derive(Debug)]
struct Closer(Arc<Shared>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work.notify_one();
    }
}

/// The state that the program and the writer share.
#[derive(Debug)]
pub(super) struct Shared {
    queue: Mutex<Queue>,
    /// The output after all changes in the queue.
    target: Mutex<LogOutput>,
    /// The writer waits here.
    work: Condvar,
    /// `flush` waits here.
    progress: Condvar,
    /// The task that reads from children waits here.
    room: Notify,
    /// The number of bytes written so far: shows whether a slow output still accepts some.
    written: AtomicU64,
    /// A `flush` waits.
    flushing: AtomicBool,
    /// How often children had to wait for room.
    stalls: AtomicU64,
    bound: usize,
    /// See [`FLOOD_MARGIN`].
    margin: usize,
    settings: Settings,
}

#[derive(Debug, Default)]
struct Queue {
    /// Whole records.
    pending: Vec<u8>,
    /// Changes of the output, in the order of their places in `pending`.
    changes: VecDeque<Change>,
    /// The number of bytes of our own records in `pending`.
    own: usize,
    /// The number of our own records that were dropped for lack of room and are not reported yet.
    lost: u64,
    /// The writer is writing.
    busy: bool,
    /// The last write failed.
    broken: bool,
    /// The writer must try again without a pause.
    retry_now: bool,
    /// The last sink is dropped.
    closed: bool,
}

/// A change of the output, to be made when the bytes before `at` are written.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) at: usize,
    pub(super) action: Action,
}

#[derive(Debug)]
pub(super) enum Action {
    Reopen,
    Use(Output),
}

/// The next step of the writer after a failed write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AfterFailure {
    Retry,
    Discard,
}

impl LogSink {
    /// Opens the output and starts the writer; an error names the file.
    pub fn open(output: &LogOutput, settings: Settings) -> io::Result<Self> {
        Self::start(Output::open(output)?, settings, DEFAULT_BOUND)
    }

    /// Starts a writer to an open output, with room for about `bound` bytes.
    pub(super) fn start(output: Output, settings: Settings, bound: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(output.target().clone(), settings, (bound, FLOOD_MARGIN)));
        writer::start(Arc::clone(&shared), output)?;
        Ok(Self { _closer: Arc::new(Closer(Arc::clone(&shared))), shared })
    }

    /// Level and format of records.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Queues one of our own records, or counts it as lost if there is no room. Our own records may use a quarter of the
    /// bound, however much output of children is queued.
    pub fn push(&self, record: &[u8]) {
        let mut queue = self.shared.lock();
        if queue.own == 0 || queue.own + record.len() <= self.shared.bound / 4 {
            queue.own += record.len();
            queue.pending.extend_from_slice(record);
            self.shared.tell_writer(&queue);
        } else {
            queue.lost += 1;
        }
    }

    /// Counts a record as lost.
    pub fn count_lost(&self) {
        self.shared.lock().lost += 1;
    }

    /// Queues what `write` appends, even without room: for output of children that is read already. `write` must append
    /// whole records and must not log.
    pub fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut queue = self.shared.lock();
        let before = queue.pending.len();
        let had_room = !self.shared.is_nearly_full(&queue);
        write(&mut queue.pending);
        if had_room && self.shared.is_nearly_full(&queue) {
            self.shared.stalls.fetch_add(1, Ordering::Relaxed);
        }
        if queue.pending.len() > before {
            self.shared.tell_writer(&queue);
        }
    }

    /// Whether more output of children should be read.
    pub fn has_room(&self) -> bool {
        !self.shared.is_nearly_full(&self.shared.lock())
    }

    /// Whether so much is queued that no process should be started.
    pub fn is_flooded(&self) -> bool {
        self.shared.lock().pending.len() >= self.shared.bound + self.shared.margin
    }

    /// How the log does.
    pub fn usage(&self) -> LogUsage {
        let queue = self.shared.lock();
        LogUsage {
            bytes: self.shared.written(),
            stalls: self.shared.stalls.load(Ordering::Relaxed),
            is_stalled: queue.broken || self.shared.is_nearly_full(&queue),
        }
    }

    /// Waits until there is room.
    pub async fn room(&self) {
        loop {
            // Created before the check, so that a notification in between is not missed.
            let notified = self.shared.room.notified();
            if self.has_room() {
                return;
            }
            notified.await;
        }
    }

    /// Reopens the file when everything queued so far is written to the old one, as logrotate expects.
    pub fn reopen(&self) {
        self.shared.change(Action::Reopen);
    }

    /// Opens an output; `None` if it is the one in use. An error names the file.
    pub(super) fn prepare_output(&self, target: &LogOutput) -> io::Result<Option<Output>> {
        if *self.shared.target() == *target {
            return Ok(None);
        }
        Output::open(target).map(Some)
    }

    /// Sends later records to another output.
    pub(super) fn use_output(&self, output: Output) {
        *self.shared.target() = output.target().clone();
        self.shared.change(Action::Use(output));
    }

    /// Blocks until everything queued is written. Gives up, and returns false, if the output accepts nothing for
    /// `patience`, or is not done after ten times that.
    pub fn flush(&self, patience: Duration) -> bool {
        self.shared.flushing.store(true, Ordering::Relaxed);
        let is_done = self.wait_for_writer(patience);
        self.shared.flushing.store(false, Ordering::Relaxed);
        is_done
    }

    fn wait_for_writer(&self, patience: Duration) -> bool {
        let (mut waits, mut waits_in_vain) = (0, 0);
        let mut written = self.shared.written();
        let mut queue = self.shared.lock();
        if queue.broken {
            queue.retry_now = true;
            self.shared.work.notify_one();
        }
        loop {
            if queue.pending.is_empty() && queue.changes.is_empty() && !queue.busy {
                return !queue.broken;
            }
            if written != self.shared.written() {
                written = self.shared.written();
                waits_in_vain = 0;
            }
            let is_over = waits_in_vain >= PARTS || waits >= PARTS * LONGEST_FLUSH;
            if is_over || (queue.broken && !queue.retry_now) {
                return false;
            }
            let woken = self.shared.progress.wait_timeout(queue, patience / PARTS);
            let (locked, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            queue = locked;
            if timeout.timed_out() {
                waits += 1;
                waits_in_vain += 1;
            }
        }
    }
}

impl Shared {
    fn new(target: LogOutput, settings: Settings, (bound, margin): (usize, usize)) -> Self {
        Self {
            queue: Mutex::default(),
            target: Mutex::new(target),
            work: Condvar::new(),
            progress: Condvar::new(),
            room: Notify::new(),
            written: AtomicU64::new(0),
            flushing: AtomicBool::new(false),
            stalls: AtomicU64::new(0),
            bound,
            margin,
            settings,
        }
    }

    /// Ignores poisoning: after a panic, the queue still holds whole records.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn target(&self) -> MutexGuard<'_, LogOutput> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// For the writer: counts bytes that are written.
    pub(super) fn note_written(&self, length: usize) {
        self.written.fetch_add(u64::try_from(length).unwrap_or(0), Ordering::Relaxed);
    }

    /// For the writer: whether somebody looks at its progress.
    pub(super) fn is_flushing(&self) -> bool {
        self.flushing.load(Ordering::Relaxed)
    }

    fn is_nearly_full(&self, queue: &Queue) -> bool {
        queue.pending.len() >= self.bound / 4 * 3
    }

    /// Wakes the writer if it sleeps; a wake-up is a system call.
    fn tell_writer(&self, queue: &Queue) {
        if !queue.busy || (queue.broken && self.is_nearly_full(queue)) {
            self.work.notify_one();
        }
    }

    fn change(&self, action: Action) {
        let mut queue = self.lock();
        let at = queue.pending.len();
        queue.changes.push_back(Change { at, action });
        self.work.notify_one();
    }

    /// For the writer: waits for work and swaps its empty buffer with the queued bytes. False when the sink is closed.
    pub(super) fn take(&self, batch: &mut Vec<u8>, due: &mut VecDeque<Change>) -> bool {
        let mut queue = self.lock();
        queue.busy = false;
        while queue.pending.is_empty() && queue.changes.is_empty() {
            self.progress.notify_all();
            if queue.closed {
                return false;
            }
            batch.shrink_to(KEPT_CAPACITY);
            queue.pending.shrink_to(KEPT_CAPACITY);
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.busy = true;
        queue.own = 0;
        mem::swap(&mut queue.pending, batch);
        mem::swap(&mut queue.changes, due);
        let lost = mem::take(&mut queue.lost);
        if lost > 0 {
            self.write_report(LogLevel::Warn, &lost_text(lost), &mut queue.pending);
        }
        drop(queue);
        self.room.notify_waiters();
        true
    }

    /// For the writer, after a failure that may pass: waits before the next try. Returns earlier if children have to
    /// wait for room, or if the output is changed; such changes are moved to `due`.
    pub(super) fn wait_to_retry(&self, delay: Duration, due: &mut VecDeque<Change>) -> AfterFailure {
        let deadline = Instant::now() + delay;
        let mut queue = self.lock();
        queue.retry_now = false;
        self.progress.notify_all();
        loop {
            if !queue.changes.is_empty() {
                due.append(&mut queue.changes);
                return AfterFailure::Retry;
            }
            if queue.closed || self.is_nearly_full(&queue) {
                return AfterFailure::Discard;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if queue.retry_now || left.is_zero() {
                return AfterFailure::Retry;
            }
            queue = self.work.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// For the writer: sets whether the last write failed.
    pub(super) fn set_broken(&self, broken: bool) {
        self.lock().broken = broken;
    }

    /// For the writer: queues a record about the log itself, whatever the level and even without room.
    pub(super) fn report(&self, level: LogLevel, message: &str) {
        self.write_report(level, message, &mut self.lock().pending);
    }

    fn write_report(&self, level: LogLevel, message: &str, out: &mut Vec<u8>) {
        let origin = Origin { level, job: super::OWN_NAME, pid: std::process::id(), fields: &[] };
        let mut frame = Frame::new(self.settings.format(), &origin);
        frame.set_time(&TimeText::new(SystemTime::now()));
        frame.write(message.as_bytes(), out);
    }
}

fn lost_text(lost: u64) -> String {
    let records = if lost == 1 { "record was" } else { "records were" };
    format!("{lost} log {records} lost because the log could not be written fast enough")
}

#[cfg(test)]
pub mod simulated;
#[cfg(test)]
mod tests;
