//! The slog drain for our own records: filters by level, sums up repeated records, formats, and passes on to the sink.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use slog::{Drain, KV, Key, Level, Never, OwnedKVList, Record, Serializer};

use super::OWN_NAME;
use super::format::{Field, Frame, Origin, Value};
use super::repeat::{Repeats, Summary};
use super::sink::LogSink;
use super::time::TimeText;
use crate::config::spec::LogLevel;

/// Writes slog records into a sink.
#[derive(Debug)]
pub struct LogDrain {
    sink: LogSink,
    repeats: Mutex<Repeats<OwnRecord>>,
    pid: u32,
}

/// A record that no longer borrows from its logger.
#[derive(Debug)]
struct OwnRecord {
    level: LogLevel,
    job: Option<String>,
    pid: Option<u32>,
    message: String,
    fields: Vec<Field>,
}

impl LogDrain {
    /// A drain into `sink`.
    pub fn new(sink: LogSink) -> Self {
        Self { sink, repeats: Mutex::default(), pid: std::process::id() }
    }

    /// The sink that records go to.
    pub fn sink(&self) -> &LogSink {
        &self.sink
    }

    /// Writes the summaries of repeated records now, although their second is not over.
    pub fn write_summaries(&self) {
        let summaries = self.repeats.lock().unwrap_or_else(PoisonError::into_inner).all();
        self.write_all(summaries);
    }

    fn write_all(&self, summaries: Vec<Summary<OwnRecord>>) {
        for Summary { mut record, times } in summaries {
            record.message.push_str(&format!(" (repeated {times} times)"));
            self.write(&record);
        }
    }

    fn write(&self, record: &OwnRecord) {
        let origin = Origin {
            level: record.level,
            job: record.job.as_deref().unwrap_or(OWN_NAME),
            pid: record.pid.unwrap_or(self.pid),
            fields: &record.fields,
        };
        let mut bytes = Vec::new();
        let time = TimeText::new(SystemTime::now());
        let mut frame = Frame::new(self.sink.settings().format(), &origin);
        frame.set_time(&time);
        frame.write(record.message.as_bytes(), &mut bytes);
        self.sink.push(&bytes);
    }
}

impl Drain for LogDrain {
    type Ok = ();
    type Err = Never;

    fn log(&self, record: &Record<'_>, values: &OwnedKVList) -> Result<(), Never> {
        if !self.is_enabled(record.level()) {
            return Ok(());
        }
        // Rendering a value may log, too: so not while the lock is held.
        let record = OwnRecord::new(record, values);
        let now = Instant::now();
        let mut repeats = self.repeats.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_all(repeats.ended(now));
        if let Some(record) = repeats.admit(now, record.key(), record) {
            self.write(&record);
        }
        Ok(())
    }

    fn is_enabled(&self, level: Level) -> bool {
        self.sink.settings().admits(level_of(level))
    }
}

fn level_of(level: Level) -> LogLevel {
    match level {
        Level::Critical => LogLevel::Fatal,
        Level::Error => LogLevel::Error,
        Level::Warning => LogLevel::Warn,
        Level::Info => LogLevel::Info,
        Level::Debug | Level::Trace => LogLevel::Debug,
    }
}

impl OwnRecord {
    fn new(record: &Record<'_>, values: &OwnedKVList) -> Self {
        let mut own = Self {
            level: level_of(record.level()),
            job: None,
            pid: None,
            message: record.msg().to_string(),
            fields: Vec::new(),
        };
        // The record's own values go first, since the first value of a key counts. `add` never fails.
        let _ = record.kv().serialize(record, &mut own);
        let _ = values.serialize(record, &mut own);
        own.fields.sort_by_key(|field| field.key);
        own
    }

    /// Equal for records that repeat each other. The process id is left out, since it differs at each restart.
    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.level, &self.job, &self.message, &self.fields).hash(&mut hasher);
        hasher.finish()
    }

    /// Adds a value unless its key has one already.
    fn add(&mut self, key: Key, value: Value) -> slog::Result {
        match (key, value) {
            ("job", Value::Text(text) | Value::Literal(text)) => {
                self.job.get_or_insert(text);
            }
            ("pid", Value::Text(text) | Value::Literal(text)) => self.pid = self.pid.or(text.parse().ok()),
            (key, value) => {
                if self.fields.iter().all(|field| field.key != key) {
                    self.fields.push(Field { key, value });
                }
            }
        }
        Ok(())
    }
}

/// Emitters of values that need no quotes in any format.
macro_rules! emit_literals {
    ($($emit:ident: $type:ty),* $(,)?) => {
        $(fn $emit(&mut self, key: Key, value: $type) -> slog::Result {
            self.add(key, Value::Literal(value.to_string()))
        })*
    };
}

impl Serializer for OwnRecord {
    emit_literals! {
        emit_u8: u8, emit_u16: u16, emit_u32: u32, emit_u64: u64, emit_u128: u128, emit_usize: usize,
        emit_i8: i8, emit_i16: i16, emit_i32: i32, emit_i64: i64, emit_i128: i128, emit_isize: isize,
        emit_bool: bool,
    }

    fn emit_f64(&mut self, key: Key, value: f64) -> slog::Result {
        // JSON has no infinity and no NaN.
        let text = value.to_string();
        self.add(key, if value.is_finite() { Value::Literal(text) } else { Value::Text(text) })
    }

    fn emit_f32(&mut self, key: Key, value: f32) -> slog::Result {
        self.emit_f64(key, value.into())
    }

    fn emit_none(&mut self, key: Key) -> slog::Result {
        self.add(key, Value::Literal("null".to_owned()))
    }

    fn emit_unit(&mut self, key: Key) -> slog::Result {
        self.emit_none(key)
    }

    fn emit_arguments(&mut self, key: Key, value: &fmt::Arguments<'_>) -> slog::Result {
        self.add(key, Value::Text(value.to_string()))
    }
}

#[cfg(test)]
mod tests;
