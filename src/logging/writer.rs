//! The thread that writes the log. Only it may block on the output. When writes fail, records are dropped, counted, and
//! reported when writes succeed again.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memchr::{memchr_iter, memrchr};
use nix::errno::Errno;

use super::output::Output;
use super::sink::{Action, AfterFailure, Change, Shared};
use crate::config::spec::LogLevel;
use crate::offload::start_thread;
use crate::reason::reason;

const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// Bytes per write, the size of a pipe.
const PIECE: usize = 64 * 1024;
/// Bytes per write while a flush waits, or if the reader is slow: a write that blocks returns only when all of it is taken,
/// so with larger ones a slow reader would look like one that reads nothing.
const SMALL_PIECE: usize = 4 * 1024;
/// A write that takes longer is slow. A reader that is not slow takes a whole piece within the second for which a flush
/// waits.
const SLOW: Duration = Duration::from_millis(50);

/// Starts the thread.
pub(super) fn start(shared: Arc<Shared>, output: Output) -> io::Result<()> {
    let writer = Writer {
        shared,
        output,
        due: VecDeque::new(),
        is_new: false,
        ends_within_record: false,
        outage: None,
        pace: Pace::default(),
    };
    start_thread("log", move || writer.run()).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot start the thread that writes the log: {}", reason(&error)),
        )
    })
}

struct Writer {
    shared: Arc<Shared>,
    output: Output,
    /// Changes of the output within the batch that is being written.
    due: VecDeque<Change>,
    /// The output was replaced, and nothing was written to it yet.
    is_new: bool,
    /// The output ends within a record: the rest of it was discarded.
    ends_within_record: bool,
    outage: Option<Outage>,
    pace: Pace,
}

/// How fast the output is read.
#[derive(Debug, Default)]
struct Pace {
    /// After a slow write, so many bytes are written in small pieces.
    small: usize,
}

/// A time during which writes fail.
struct Outage {
    since: Instant,
    text: String,
    next_delay: Duration,
    lost_records: usize,
    lost_bytes: usize,
}

impl Writer {
    fn run(mut self) {
        let mut batch = Vec::new();
        while self.shared.take(&mut batch, &mut self.due) {
            self.write(&batch);
            batch.clear();
        }
    }

    fn write(&mut self, batch: &[u8]) {
        let mut written = 0;
        loop {
            if mem::take(&mut self.is_new) {
                // A record is never in two files: the rest of one would be the first line of the new file.
                written = record_begin(batch, written);
            }
            let end = self.due.front().map_or(batch.len(), |change| change.at);
            let now = batch.get(written..end).unwrap_or_default();
            if now.is_empty() {
                match self.due.pop_front() {
                    Some(change) => self.carry_out(change.action),
                    None => return,
                }
                continue;
            }
            let piece = self.pace.piece(self.shared.is_flushing());
            let next: &[u8] = if self.ends_within_record { b"\n" } else { now.get(..piece).unwrap_or(now) };
            let begin = Instant::now();
            match self.output.write(next) {
                Ok(_) if self.ends_within_record => self.ends_within_record = false,
                Ok(length) => {
                    self.recover();
                    self.pace.note(length, begin.elapsed());
                    self.shared.note_written(length);
                    written += length;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.output.wait_writable(),
                Err(error) => match self.after_failure(&error) {
                    AfterFailure::Retry => {}
                    AfterFailure::Discard => {
                        self.ends_within_record |= is_within_record(batch, written);
                        self.count_lost(now);
                        written = end;
                    }
                },
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Use(output) => self.replace(output),
            Action::Reopen => match self.output.reopen() {
                Ok(Some(output)) => self.replace(output),
                Ok(None) => {}
                Err(error) => {
                    self.shared.report(LogLevel::Error, &format!("{error}; the old one stays in use"));
                }
            },
        }
    }

    fn replace(&mut self, output: Output) {
        // If it is the same file, what is written next continues what it ends with.
        if !output.is_same_file(&self.output) {
            self.is_new = true;
            self.ends_within_record = false;
        }
        self.output = output;
    }

    /// Records a failed write and decides what to do with the bytes. A full disk may get space again, so those writes are
    /// repeated until children would have to wait; any other failure will not pass.
    fn after_failure(&mut self, error: &io::Error) -> AfterFailure {
        let outage = match &mut self.outage {
            Some(outage) => outage,
            None => {
                self.shared.set_broken(true);
                let text = format!("cannot write the log to {}: {}", self.output.name(), reason(error));
                self.output.announce(&format!("{text}; its records are lost until this works again"));
                self.outage.insert(Outage::begin(text))
            }
        };
        if !may_pass(error) {
            return AfterFailure::Discard;
        }
        if self.due.is_empty() {
            let next = self.shared.wait_to_retry(outage.delay(), &mut self.due);
            if next == AfterFailure::Discard {
                return next;
            }
        }
        while let Some(change) = self.due.pop_front() {
            self.carry_out(change.action);
        }
        AfterFailure::Retry
    }

    fn count_lost(&mut self, bytes: &[u8]) {
        if let Some(outage) = &mut self.outage {
            outage.lost_records += memchr_iter(b'\n', bytes).count();
            outage.lost_bytes += bytes.len();
        }
    }

    fn recover(&mut self) {
        if let Some(outage) = self.outage.take() {
            self.shared.set_broken(false);
            self.shared.report(LogLevel::Error, &outage.report());
        }
    }
}

impl Pace {
    /// The most bytes for the next write.
    fn piece(&self, is_flushing: bool) -> usize {
        if is_flushing || self.small > 0 { SMALL_PIECE } else { PIECE }
    }

    /// So many bytes were written in that time.
    fn note(&mut self, length: usize, time: Duration) {
        self.small = if time > SLOW { PIECE } else { self.small.saturating_sub(length) };
    }
}

impl Outage {
    fn begin(text: String) -> Self {
        Self { since: Instant::now(), text, next_delay: FIRST_DELAY, lost_records: 0, lost_bytes: 0 }
    }

    fn delay(&mut self) -> Duration {
        let delay = self.next_delay;
        self.next_delay = (delay * 2).min(LONGEST_DELAY);
        delay
    }

    fn report(&self) -> String {
        let Self { since, text, lost_records, lost_bytes, .. } = self;
        let seconds = since.elapsed().as_secs_f64();
        format!(
            "{text}; works again after {seconds:.1}s, records lost: {lost_records}, bytes lost: {lost_bytes}"
        )
    }
}

/// Whether the byte at `at` is not the first of its record.
fn is_within_record(batch: &[u8], at: usize) -> bool {
    at.checked_sub(1).and_then(|before| batch.get(before)).is_some_and(|&byte| byte != b'\n')
}

/// Where the record begins in which the byte at `at` stands.
fn record_begin(batch: &[u8], at: usize) -> usize {
    batch.get(..at).and_then(|before| memrchr(b'\n', before)).map_or(0, |newline| newline + 1)
}

/// Whether a failure may pass: the disk or the quota is full.
fn may_pass(error: &io::Error) -> bool {
    let full = [Errno::ENOSPC, Errno::EDQUOT];
    error.raw_os_error().is_some_and(|code| full.contains(&Errno::from_raw(code)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_before_the_next_try_doubles_up_to_five_seconds() {
        let mut outage = Outage::begin(String::new());
        let expected = [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000].map(Duration::from_millis);
        assert_eq!(expected.map(|_| outage.delay()), expected);
    }

    #[test]
    fn a_byte_is_within_its_record_unless_it_is_the_first() {
        let is_within = |at| is_within_record(b"ab\nc\n", at);
        assert_eq!([0, 1, 2, 3, 4, 5].map(is_within), [false, true, true, false, true, false]);
        let begin = |at| record_begin(b"ab\nc\n", at);
        assert_eq!([0, 1, 2, 3, 4, 5].map(begin), [0, 0, 0, 3, 3, 5]);
    }

    #[test]
    fn pieces_are_small_during_a_flush_and_after_a_slow_write_until_a_whole_piece_went_fast() {
        let mut pace = Pace::default();
        assert_eq!((pace.piece(false), pace.piece(true)), (PIECE, SMALL_PIECE));
        pace.note(PIECE, SLOW);
        assert_eq!(pace.piece(false), PIECE);
        pace.note(PIECE, 2 * SLOW);
        for _ in 0..PIECE / SMALL_PIECE {
            assert_eq!(pace.piece(false), SMALL_PIECE);
            pace.note(SMALL_PIECE, SLOW);
        }
        assert_eq!(pace.piece(false), PIECE);
    }
}
