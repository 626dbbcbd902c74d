//! What a run wrote, collected line by line; whoever waits for something in it is woken by each line.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// One line of the log, taken apart if it is JSON.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// The job that it is about; empty if the line is not JSON.
    pub job: String,
    /// Its level, lower case; empty if the line is not JSON.
    pub level: String,
    /// Its message: the whole line if it is not JSON.
    pub message: String,
    /// The process that it is about; 0 if the line is not JSON.
    pub pid: i64,
    /// When it was written.
    pub time: String,
    /// The line as it is.
    pub line: String,
}

impl Record {
    fn new(line: String) -> Self {
        let Ok(Value::Object(fields)) = serde_json::from_str(&line) else {
            return Self { message: line.clone(), line, ..Self::default() };
        };
        let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            job: text("job"),
            level: text("level"),
            message: text("msg"),
            pid: fields.get("pid").and_then(Value::as_i64).unwrap_or(0),
            time: text("time"),
            line,
        }
    }

    /// The event that it tells of, as `SOURCE CODE`.
    pub fn event(&self) -> Option<&str> {
        if self.job != "containerpilot" {
            return None;
        }
        let (_, event) = self.message.strip_prefix("event ")?.split_once(": ")?;
        Some(event)
    }

    /// The seconds from an earlier record to this one, less than a day.
    pub fn seconds_after(&self, earlier: &Self) -> f64 {
        (self.seconds_of_day() - earlier.seconds_of_day()).rem_euclid(86_400.0)
    }

    fn seconds_of_day(&self) -> f64 {
        let parts: Vec<f64> =
            self.time[11..].trim_end_matches('Z').split(':').map(|part| part.parse().unwrap()).collect();
        parts[0] * 3600.0 + parts[1] * 60.0 + parts[2]
    }
}

/// All that a run wrote so far, and how it ended.
#[derive(Default)]
pub struct Log {
    state: Mutex<State>,
    changed: Condvar,
}

/// What came of waiting for something in the log.
pub enum Waited<T> {
    /// It came.
    Found(T),
    /// The log ended without it.
    Ended,
    /// It did not come in time.
    Late,
}

#[derive(Default)]
struct State {
    records: Vec<Record>,
    open: usize,
    exit: Option<ExitStatus>,
}

impl Log {
    /// Collects what a process writes, and waits for its end.
    pub fn follow(mut child: Child) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        for pipe in [stdout, stderr].into_iter().flatten() {
            log.lock().open += 1;
            let log = Arc::clone(&log);
            thread::spawn(move || log.read(pipe));
        }
        let waiter = Arc::clone(&log);
        thread::spawn(move || {
            let status = child.wait().unwrap();
            waiter.lock().exit = Some(status);
            waiter.changed.notify_all();
        });
        log
    }

    fn read(&self, pipe: Box<dyn Read + Send>) {
        let mut reader = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
            bytes.clear();
            let record = Record::new(line);
            self.lock().records.push(record);
            self.changed.notify_all();
        }
        self.lock().open -= 1;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn wait_until<T>(&self, deadline: Duration, mut look: impl FnMut(&State) -> Option<T>) -> Option<T> {
        let mut found = None;
        let waiting = |state: &mut State| {
            found = look(state);
            found.is_none()
        };
        let guard = self.changed.wait_timeout_while(self.lock(), deadline, waiting).unwrap();
        drop(guard);
        found
    }

    /// Waits for something in the log: `look` is shown each record once, in order, and its first answer is ours.
    pub fn wait<T>(&self, deadline: Duration, mut look: impl FnMut(&Record) -> Option<T>) -> Waited<T> {
        let mut seen = 0;
        let found = self.wait_until(deadline, |state| {
            let found = state.records.iter().skip(seen).find_map(&mut look);
            seen = state.records.len();
            match found {
                Some(found) => Some(Waited::Found(found)),
                None => (state.exit.is_some() && state.open == 0).then_some(Waited::Ended),
            }
        });
        found.unwrap_or(Waited::Late)
    }

    /// Waits for the end of the process.
    pub fn wait_ended(&self, deadline: Duration) -> Option<ExitStatus> {
        self.wait_until(deadline, |state| state.exit)
    }

    /// Waits until everything that can be written is.
    pub fn wait_closed(&self, deadline: Duration) -> bool {
        self.wait_until(deadline, |state| (state.open == 0).then_some(())).is_some()
    }

    /// How the process ended, if it has.
    pub fn exit(&self) -> Option<ExitStatus> {
        self.lock().exit
    }

    /// Looks at all records so far without copying them.
    pub fn with_records<T>(&self, look: impl FnOnce(&[Record]) -> T) -> T {
        look(&self.lock().records)
    }

    /// All records so far.
    pub fn records(&self) -> Vec<Record> {
        self.lock().records.clone()
    }

    /// All lines so far.
    pub fn text(&self) -> String {
        let lines: Vec<String> = self.lock().records.iter().map(|record| record.line.clone()).collect();
        lines.join("\n")
    }
}
