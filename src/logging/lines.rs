//! Turns the bytes that a child writes into records, one per line. Pure: no descriptors, no clock.

use std::mem;
use std::sync::Arc;

use memchr::{memchr, memchr_iter};

use super::format::{Field, Frame, Origin, Records, Value};
use super::time::TimeText;
use crate::config::spec::{LogFormat, LogLevel};

/// The level of the records of children, unless another one is set.
pub const LEVEL: LogLevel = LogLevel::Info;
/// The most bytes of a line in one record.
pub const LONGEST: usize = 64 * 1024;
/// Ends the message of a record whose line goes on in the next record of the same process.
pub const CONTINUED: &[u8] = b" [continued]";
/// A larger buffer is shrunk to this when its line is complete.
const KEPT_CAPACITY: usize = 1024;

/// The job and process that wrote something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The job.
    pub job: Arc<str>,
    /// The process of this execution.
    pub pid: u32,
    /// Where the process wrote it.
    pub stream: OutputStream,
}

/// The two streams that a process writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

impl OutputStream {
    /// The name in records.
    const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Makes one record of each line of one stream.
///
/// A line end is `\n` or `\r\n`. Lines of more than 64 KiB are split into records of 64 KiB (up to three bytes
/// less where a UTF-8 sequence would be cut), each but the last ending with ` [continued]`: without that
/// marker and joined, they are the line. How the bytes are cut into chunks does not change the records.
#[derive(Debug)]
pub struct LineFormatter {
    label: Label,
    level: LogLevel,
    /// Made with the first record, since most streams stay silent.
    frame: Option<Box<Frame>>,
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
}

impl LineFormatter {
    /// A formatter for a new stream.
    pub fn new(label: Label) -> Self {
        Self { label, level: LEVEL, frame: None, partial: Vec::new() }
    }

    /// Whose lines they are.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// The level of its records.
    pub fn level(&self) -> LogLevel {
        self.level
    }

    /// Sets the level of later records.
    pub fn set_level(&mut self, level: LogLevel) {
        self.level = level;
        self.frame = None;
    }

    /// Appends the records of all lines that `chunk` completes, and keeps the rest.
    pub fn feed(&mut self, chunk: &[u8], format: LogFormat, time: &TimeText, out: &mut Vec<u8>) {
        let frame = framed(&mut self.frame, (&self.label, self.level), format, time);
        let mut records = frame.records(out);
        let partial = &mut self.partial;
        let rest = if partial.is_empty() { chunk } else { complete(partial, chunk, &mut records) };
        let mut start = 0;
        for newline in memchr_iter(b'\n', rest) {
            let line = rest.get(start..newline).unwrap_or_default();
            write_line(line, &mut records);
            start = newline + 1;
        }
        let rest = rest.get(start..).unwrap_or_default();
        if !rest.is_empty() {
            let cut = write_pieces(rest, &mut records);
            partial.extend_from_slice(rest.get(cut..).unwrap_or_default());
        }
        records.end();
    }

    /// Appends the record of a last line without a line end.
    pub fn finish(&mut self, format: LogFormat, time: &TimeText, out: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            let line = mem::take(&mut self.partial);
            let frame = framed(&mut self.frame, (&self.label, self.level), format, time);
            let mut records = frame.records(out);
            write_line(&line, &mut records);
            records.end();
        }
    }

    /// Whether there is an incomplete line.
    pub fn has_partial(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Drops an incomplete line.
    pub fn discard_partial(&mut self) {
        self.partial = Vec::new();
    }
}

/// The frame of records in that format at that time.
fn framed<'a>(
    frame: &'a mut Option<Box<Frame>>,
    (label, level): (&Label, LogLevel),
    format: LogFormat,
    time: &TimeText,
) -> &'a Frame {
    let new = || {
        let stream = [Field { key: "stream", value: Value::Text(label.stream.name().to_owned()) }];
        // The other formats are those of ContainerPilot, to the byte.
        let fields = if format == LogFormat::Json { stream.as_slice() } else { &[] };
        let origin = Origin { level, job: &label.job, pid: label.pid, fields };
        Box::new(Frame::new(format, &origin))
    };
    let frame = frame.get_or_insert_with(new);
    if frame.format() != format {
        *frame = new();
    }
    frame.set_time(time);
    frame
}

/// Completes the kept line with the beginning of `chunk`; returns the rest of the chunk.
fn complete<'a>(partial: &mut Vec<u8>, chunk: &'a [u8], records: &mut Records<'_>) -> &'a [u8] {
    let end = memchr(b'\n', chunk).unwrap_or(chunk.len());
    let (line, rest) = chunk.split_at(end);
    partial.extend_from_slice(line);
    match rest.split_first() {
        Some((_newline, rest)) => {
            write_line(partial, records);
            partial.clear();
            partial.shrink_to(KEPT_CAPACITY);
            rest
        }
        None => {
            let cut = write_pieces(partial, records);
            partial.drain(..cut);
            rest
        }
    }
}

/// Writes a whole line, without its newline.
fn write_line(line: &[u8], records: &mut Records<'_>) {
    let cut = write_pieces(line, records);
    let last = line.get(cut..).unwrap_or_default();
    records.write(last.strip_suffix(b"\r").unwrap_or(last));
}

/// Writes all but the last part of a line of more than `LONGEST` bytes, each with ` [continued]`; returns the number of bytes
/// written, 0 for a shorter line.
fn write_pieces(line: &[u8], records: &mut Records<'_>) -> usize {
    // A carriage return at the end may belong to the line end, so it does not count.
    let length = line.strip_suffix(b"\r").unwrap_or(line).len();
    let mut done = 0;
    while length - done > LONGEST {
        let rest = line.get(done..).unwrap_or_default();
        let cut = cut_of(rest);
        let piece = rest.get(..cut).unwrap_or_default();
        records.write(&[piece, CONTINUED].concat());
        done += cut;
    }
    done
}

/// Where to cut a line of more than `LONGEST` bytes: not within a UTF-8 sequence, if it is UTF-8.
fn cut_of(line: &[u8]) -> usize {
    let starts_character = |at: &usize| line.get(*at).is_some_and(|byte| byte & 0b1100_0000 != 0b1000_0000);
    (LONGEST - 3..=LONGEST).rev().find(starts_character).unwrap_or(LONGEST)
}

#[cfg(test)]
mod tests;
