//! The seam between deciding and acting. An actor is an engine: it turns messages into inputs of its machine, and the
//! actions that come back into effects. The machine decides, and is plain data: it can be written down, read back and run
//! again.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use slog::{Logger, debug, error, info, warn};
use tokio::time::Instant;

use crate::messages::moment::Moment;
pub use crate::recording::Kind;
use crate::recording::{Recording, Track};

/// A decision maker over plain data: no clock, no I/O, no address, no timer.
pub trait Machine: Serialize + DeserializeOwned {
    /// Something that happened.
    type Input: Serialize + DeserializeOwned;
    /// Something to be done, in the order of the list.
    type Action: Serialize;
    /// Tells a record whose state this is.
    const KIND: Kind;

    /// The job, check or watch that it decides for; empty if there is only one machine of this kind.
    fn name(&self) -> &str {
        ""
    }

    /// Takes note of an input and says what is to be done.
    fn step(&mut self, now: Moment, input: Self::Input) -> Vec<Self::Action>;
}

/// A time limit that elapses so much too late finds that we did not run ourselves: the machine was asleep, the container paused,
/// or both are very busy. So the process that it is for may not have run either, and has its time once more.
const LATE: Duration = Duration::from_millis(100);

/// Whether a time limit that was due then elapses late.
pub fn is_late(now: Moment, due: Moment) -> bool {
    now.since(due) >= LATE
}

/// The level of a line that a machine has written into the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub enum Severity {
    Debug,
    Info,
    Warning,
    Error,
}

impl Severity {
    /// Writes a line of this level, with these values.
    pub fn log(self, log: &Logger, text: &str, values: impl slog::KV) {
        match self {
            Self::Debug => debug!(log, "{text}"; values),
            Self::Info => info!(log, "{text}"; values),
            Self::Warning => warn!(log, "{text}"; values),
            Self::Error => error!(log, "{text}"; values),
        }
    }
}

/// The clock of the whole program, and the record of what happens when, if one is written.
#[derive(Debug, Clone)]
pub struct Clock {
    beginning: Instant,
    recording: Option<Recording>,
}

impl Clock {
    /// A clock that begins now.
    pub fn start(recording: Option<Recording>) -> Self {
        Self { beginning: Instant::now(), recording }
    }

    /// The time now.
    pub fn now(&self) -> Moment {
        Moment::after(self.beginning.elapsed())
    }
}

/// Hands an input to a machine: the only place that calls [`Machine::step`]. Not inlined, since a driver and a replay call it,
/// and one copy of each machine is enough.
#[inline(never)]
pub fn step<M: Machine>(machine: &mut M, now: Moment, input: M::Input) -> Vec<M::Action> {
    machine.step(now, input)
}

/// A machine and its clock.
#[derive(Debug)]
pub struct Driver<M> {
    machine: M,
    clock: Clock,
    track: Option<Track>,
}

impl<M: Machine> Driver<M> {
    /// A driver of that machine.
    pub fn new(machine: M, clock: &Clock) -> Self {
        let track = clock.recording.as_ref().map(Recording::track);
        Self { machine, clock: clock.clone(), track }
    }

    /// Hands an input to the machine.
    pub fn step(&mut self, input: M::Input) -> Vec<M::Action> {
        let now = self.clock.now();
        if let Some(track) = &mut self.track {
            track.note_input(|| (M::KIND, self.machine.name(), &self.machine), now, &input);
        }
        let actions = step(&mut self.machine, now, input);
        if let Some(track) = &self.track {
            track.note_actions(&actions);
        }
        actions
    }

    /// The machine, to be looked at.
    pub const fn machine(&self) -> &M {
        &self.machine
    }
}

/// A line that a machine wants to have logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogLine {
    severity: Severity,
    text: String,
    pairs: Vec<(&'static str, String)>,
}

impl LogLine {
    /// A line with nothing but its text.
    pub fn new(severity: Severity, text: impl Into<String>) -> Self {
        Self { severity, text: text.into(), pairs: vec![] }
    }

    /// The same line with one more value.
    #[must_use]
    pub fn about(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.pairs.push((key, value.into()));
        self
    }

    /// Writes it.
    pub fn write(&self, log: &Logger) {
        self.severity.log(log, &self.text, self);
    }
}

impl slog::KV for LogLine {
    fn serialize(&self, _: &slog::Record<'_>, serializer: &mut dyn slog::Serializer) -> slog::Result {
        self.pairs.iter().try_for_each(|(key, value)| serializer.emit_str(key, value))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use slog::{Drain, KV};

    use super::*;

    /// Keeps the level, text and values of each line.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    struct Values(String);

    impl slog::Serializer for Values {
        fn emit_arguments(&mut self, key: slog::Key, value: &std::fmt::Arguments<'_>) -> slog::Result {
            self.0.push_str(&format!(" {key}={value}"));
            Ok(())
        }
    }

    impl Drain for Lines {
        type Ok = ();
        type Err = slog::Never;

        fn log(&self, record: &slog::Record<'_>, _: &slog::OwnedKVList) -> Result<(), slog::Never> {
            let mut values = Values(String::new());
            record.kv().serialize(record, &mut values).unwrap();
            let line = format!("{} {}{}", record.level().as_str(), record.msg(), values.0);
            self.0.lock().unwrap().push(line);
            Ok(())
        }
    }

    #[test]
    fn a_line_is_logged_with_its_level_and_values() {
        let lines = Lines::default();
        let log = Logger::root(lines.clone(), slog::o!());
        for severity in [Severity::Debug, Severity::Info, Severity::Warning, Severity::Error] {
            LogLine::new(severity, "text").about("one", "1").about("two", "2").write(&log);
        }
        let expected = ["DEBUG", "INFO", "WARNING", "ERROR"].map(|level| format!("{level} text one=1 two=2"));
        assert_eq!(*lines.0.lock().unwrap(), expected);
    }
}
