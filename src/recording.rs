//! Writes down every input of every machine and the actions that followed, for `containerpilot replay`.
//!
//! A record is text: one JSON object per line ([`Line`]). The event loop makes the lines and a thread writes them, so a slow
//! disk delays nobody. When FILE is full it becomes FILE.1, and another one begins. In each file a machine's state comes
//! before its first input, so each can be replayed by itself.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use slog::{Logger, warn};

use crate::masking::masked;
use crate::messages::moment::Moment;
use crate::offload::start_thread;
use crate::reason::reason;

/// The version of the format.
pub const FORMAT: u32 = 1;
/// The version of the program, which decides what states and inputs look like.
pub const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// How every record begins.
const BEGINNING: &[u8] = br#"{"record":"#;
/// A file of this size is full; the step that fills it is still written whole.
const FILE_LIMIT: usize = 32 << 20;
/// How much may wait for the disk.
const QUEUE_LIMIT: usize = 16 << 20;
/// The thread writes about this much at once.
const BATCH: usize = 64 << 10;

/// One line of a record; `T` is what a machine defines.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Line<'a, T> {
    /// The first line of a file.
    Record {
        /// The version of the format.
        format: u32,
        /// The version of the program.
        program: Cow<'a, str>,
    },
    /// A machine and its state.
    Machine {
        /// Its number, unique among the machines of a record.
        number: u64,
        /// Its kind.
        kind: Kind,
        /// The job, check or watch that it decides for.
        name: Cow<'a, str>,
        /// Its state now.
        state: T,
    },
    /// An input of a machine.
    Input {
        /// The number of the machine.
        number: u64,
        /// The time since the program began, in nanoseconds.
        at: u64,
        /// The input.
        input: T,
    },
    /// The actions that the input in the line before led to.
    Actions(T),
    /// The machine of this number is gone.
    Gone(u64),
    /// The record ends here, for this reason.
    End(Cow<'a, str>),
}

/// All kinds of machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Kind {
    Pilot,
    Job,
    HealthCheck,
    Watch,
    ConsulAgent,
    Reaper,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pilot => "pilot",
            Self::Job => "job",
            Self::HealthCheck => "health check",
            Self::Watch => "watch",
            Self::ConsulAgent => "Consul agent",
            Self::Reaper => "reaper",
        })
    }
}

/// A record that is being written; clones share it. It lives on the thread of the event loop.
#[derive(Debug, Clone)]
pub struct Recording(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    /// `None` once the record has ended.
    queue: RefCell<Option<Sender<Entry>>>,
    /// How many bytes are in the queue.
    queued: Arc<AtomicUsize>,
    /// Is disconnected when the thread has ended.
    written: Receiver<()>,
    limits: Limits,
    /// The number of the file that is being written, from 1 on.
    file: Cell<u64>,
    /// The bytes in it so far, those in the queue included.
    size: Cell<usize>,
    /// How many machines there have been.
    machines: Cell<u64>,
    log: Logger,
}

/// How much is kept, in bytes.
#[derive(Debug, Clone, Copy)]
struct Limits {
    file: usize,
    queue: usize,
}

/// Something for the thread to do.
#[derive(Debug)]
enum Entry {
    /// Append this line.
    Line(Vec<u8>),
    /// Begin the next file.
    NextFile,
}

impl Recording {
    /// Begins a record in a new file. A record that is there already becomes `PATH.1`; any other file is refused, so that
    /// nothing is lost by a mistake.
    pub fn create(path: &Path, log: &Logger) -> io::Result<Self> {
        for path in [path, &former(path)] {
            check_replaceable(path)?;
        }
        let file = next_file(path)?;
        Self::start(file, path, Limits { file: FILE_LIMIT, queue: QUEUE_LIMIT }, log)
    }

    fn start(file: File, path: &Path, limits: Limits, log: &Logger) -> io::Result<Self> {
        let (queue, entries) = channel();
        let (is_written, written) = channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let writer = Writer {
            entries,
            queued: Arc::clone(&queued),
            path: path.to_owned(),
            file,
            length: 0,
            log: log.clone(),
            _is_written: is_written,
        };
        start_thread("record", move || writer.run())?;
        let shared = Shared {
            queue: RefCell::new(Some(queue)),
            queued,
            written,
            limits,
            file: Cell::new(1),
            size: Cell::new(0),
            machines: Cell::new(0),
            log: log.clone(),
        };
        let recording = Self(Rc::new(shared));
        recording.write_header();
        Ok(recording)
    }

    /// For the driver of a new machine, to note its steps.
    pub fn track(&self) -> Track {
        let number = self.0.machines.get() + 1;
        self.0.machines.set(number);
        Track { recording: self.clone(), number, file: 0 }
    }

    /// Ends the record, and waits for this long until it is written.
    pub fn close(&self, patience: Duration) {
        self.end("the program ended");
        let _ = self.0.written.recv_timeout(patience);
    }

    fn write_header(&self) {
        let header: Line<'_, ()> = Line::Record { format: FORMAT, program: PROGRAM.into() };
        self.write(&header);
    }

    fn write(&self, line: &Line<'_, impl Serialize>) {
        if self.0.queue.borrow().is_none() {
            return;
        }
        let mut text = match masked(|| serde_json::to_vec(line)) {
            Ok(text) => text,
            Err(error) => return self.give_up(&format!("a line cannot be written: {error}")),
        };
        text.push(b'\n');
        let queued = self.0.queued.load(Ordering::Relaxed);
        if queued > 0 && queued.saturating_add(text.len()) > self.0.limits.queue {
            return self.give_up("the disk does not keep up");
        }
        self.0.size.set(self.0.size.get().saturating_add(text.len()));
        self.send(text);
    }

    fn send(&self, line: Vec<u8>) {
        self.0.queued.fetch_add(line.len(), Ordering::Relaxed);
        self.push(Entry::Line(line));
    }

    fn push(&self, entry: Entry) {
        let sent = self.0.queue.borrow().as_ref().is_some_and(|queue| queue.send(entry).is_ok());
        if !sent {
            // The thread has ended, and has said why.
            self.0.queue.take();
        }
    }

    fn begin_next_file(&self) {
        self.push(Entry::NextFile);
        self.0.file.set(self.0.file.get() + 1);
        self.0.size.set(0);
        self.write_header();
    }

    fn give_up(&self, why: &str) {
        warn!(self.0.log, "the record ends: {why}");
        self.end(why);
    }

    fn end(&self, why: &str) {
        if self.0.queue.borrow().is_some() {
            self.send(last_line(why));
            self.0.queue.take();
        }
    }
}

/// One machine in a record.
#[derive(Debug)]
pub struct Track {
    recording: Recording,
    number: u64,
    /// The number of the file that has its state; 0 at first.
    file: u64,
}

impl Track {
    /// Notes an input that the machine is about to get. `machine` tells its kind, name and state; it is called where that is
    /// not in the file yet.
    pub fn note_input<'a, M: Serialize + 'a>(
        &mut self,
        machine: impl FnOnce() -> (Kind, &'a str, &'a M),
        now: Moment,
        input: &impl Serialize,
    ) {
        let (recording, number) = (&self.recording, self.number);
        if recording.0.size.get() >= recording.0.limits.file {
            recording.begin_next_file();
        }
        let file = recording.0.file.get();
        if self.file != file {
            let (kind, name, state) = machine();
            recording.write(&Line::Machine { number, kind, name: name.into(), state });
            self.file = file;
        }
        let at = u64::try_from(now.since_beginning().as_nanos()).unwrap_or(u64::MAX);
        recording.write(&Line::Input { number, at, input });
    }

    /// Notes the actions that the last input led to.
    pub fn note_actions(&self, actions: &impl Serialize) {
        self.recording.write(&Line::Actions(actions));
    }
}

impl Drop for Track {
    fn drop(&mut self) {
        if self.file == self.recording.0.file.get() {
            self.recording.write(&Line::<'_, ()>::Gone(self.number));
        }
    }
}

/// The thread that writes.
struct Writer {
    entries: Receiver<Entry>,
    queued: Arc<AtomicUsize>,
    path: PathBuf,
    file: File,
    /// The bytes of whole lines in the file.
    length: u64,
    log: Logger,
    /// Dropped at the end of the thread.
    _is_written: Sender<()>,
}

impl Writer {
    fn run(mut self) {
        if let Err(error) = self.write_all() {
            let why = format!("cannot write {}: {}", self.path.display(), reason(&error));
            warn!(self.log, "the record ends: {why}");
            // A part of a line may have been written. Without it there may be room for the last one.
            let _ = self.file.set_len(self.length);
            let _ = self.file.write_all(&last_line(&why));
        }
    }

    fn write_all(&mut self) -> io::Result<()> {
        let mut batch = Vec::new();
        while let Ok(entry) = self.entries.recv() {
            let mut next = Some(entry);
            while let Some(Entry::Line(line)) = &next {
                batch.extend_from_slice(line);
                next = if batch.len() < BATCH { self.entries.try_recv().ok() } else { None };
            }
            self.file.write_all(&batch)?;
            self.length += batch.len() as u64;
            self.queued.fetch_sub(batch.len(), Ordering::Relaxed);
            batch.clear();
            if matches!(next, Some(Entry::NextFile)) {
                self.file = next_file(&self.path)?;
                self.length = 0;
            }
        }
        Ok(())
    }
}

fn last_line(why: &str) -> Vec<u8> {
    let mut line = serde_json::to_vec(&Line::<'_, ()>::End(why.into())).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Where a full file goes.
fn former(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    name.into()
}

/// Moves the file that is there away, if there is one, and creates another that only we can read. Neither follows a
/// symbolic link.
fn next_file(path: &Path) -> io::Result<File> {
    match fs::rename(path, former(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
}

/// Refuses what is neither absent, nor empty, nor a record.
fn check_replaceable(path: &Path) -> io::Result<()> {
    let refuse = || io::Error::other(format!("{} is there already, and is no record", path.display()));
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.is_file() => return Err(refuse()),
        Ok(_) => {}
    }
    let mut beginning = Vec::new();
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?
        .take(BEGINNING.len() as u64)
        .read_to_end(&mut beginning)?;
    if beginning.is_empty() || beginning == BEGINNING { Ok(()) } else { Err(refuse()) }
}

#[cfg(test)]
mod tests;
