//! Forwards the output of children into the log. When the log has no room, nothing is read: children block, the program
//! does not. Output that is held back is read all the same: it is bounded, and needs no room before its release.
//!
//! One task reads from one epoll(7) with the pipes of all children, and one from another epoll with those whose output is
//! held back. With tokio's `pipe::Receiver`, each pipe would need a task and a buffer of its own, and a thousand jobs have two
//! thousand pipes, most of them silent.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::SystemTime;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::unistd;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::task::{spawn_local, yield_now};

use super::held::Held;
use super::kept::{Keep, KeptOutput};
use super::line_watch::LineWatch;
use super::lines::{Label, LineFormatter};
use super::sink::LogSink;
use super::time::TimeText;
use super::{Log, lines};
use crate::config::spec::LogLevel;

/// Bytes per read, the size of a pipe.
const CHUNK: usize = 64 * 1024;
/// The number of reads of one stream before the next stream is read.
const READS_PER_TURN: u32 = 4;
/// The number of streams that are read before other tasks run.
const STREAMS_PER_TURN: usize = 4;

/// Forwards the output of all children; clones share it.
#[derive(Debug, Clone)]
pub struct ChildOutput {
    forwarder: Rc<Forwarder>,
}

/// The stdout or stderr of a child.
///
/// Dropping it does not stop the forwarding, which ends when no process has the pipe open for writing.
#[derive(Debug)]
pub struct ChildStream {
    stream: Rc<Stream>,
    forwarder: Rc<Forwarder>,
}

#[derive(Debug)]
struct Forwarder {
    ready: AsyncFd<Descriptor>,
    /// The same for the streams whose output is held back.
    ready_held: AsyncFd<Descriptor>,
    sink: LogSink,
    kept: KeptOutput,
    /// The open streams by the number that their events in epoll carry.
    streams: RefCell<HashMap<u64, Rc<Stream>>>,
    /// The buffer for one read, shared by all streams.
    chunk: RefCell<Vec<u8>>,
}

/// An epoll with the trait that tokio's `AsyncFd` needs.
#[derive(Debug)]
struct Descriptor(Epoll);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

#[derive(Debug)]
struct Stream {
    pipe: OwnedFd,
    lines: RefCell<LineFormatter>,
    open: Cell<bool>,
    /// Looks for a line in it. Few streams have one.
    watch: RefCell<Option<Box<LineWatch>>>,
    /// Its output so far, while it is held back because the level is not known.
    held: RefCell<Option<Held>>,
    /// How much of it is kept in memory, too.
    keep: Keep,
}

/// The result of a read.
enum Outcome {
    Bytes(usize),
    Nothing,
    End,
}

impl ChildOutput {
    /// Starts the task; must be called within a `LocalSet` or an actix system.
    pub fn start(log: &Log, kept: KeptOutput) -> io::Result<Self> {
        let forwarder = Rc::new(Forwarder {
            ready: new_epoll()?,
            ready_held: new_epoll()?,
            sink: log.sink().clone(),
            kept,
            streams: RefCell::default(),
            chunk: RefCell::new(vec![0; CHUNK]),
        });
        spawn_local(forward(Rc::clone(&forwarder)));
        spawn_local(forward_held(Rc::clone(&forwarder)));
        Ok(Self { forwarder })
    }

    /// Adds the read end of a pipe, which must be non-blocking.
    pub fn add(&self, pipe: OwnedFd, label: Label, keep: Keep) -> io::Result<ChildStream> {
        self.enter(pipe, label, keep, None)
    }

    /// Adds the read end of a pipe whose output is held back, up to a limit, until [`release`](ChildStream::release).
    pub fn add_held(&self, pipe: OwnedFd, label: Label, keep: Keep) -> io::Result<ChildStream> {
        self.enter(pipe, label, keep, Some(Held::default()))
    }

    fn enter(&self, pipe: OwnedFd, label: Label, keep: Keep, held: Option<Held>) -> io::Result<ChildStream> {
        let stream = Rc::new(Stream {
            pipe,
            lines: RefCell::new(LineFormatter::new(label)),
            open: Cell::new(true),
            watch: RefCell::default(),
            held: RefCell::new(held),
            keep,
        });
        self.forwarder.enter(&stream)?;
        Ok(ChildStream { stream, forwarder: Rc::clone(&self.forwarder) })
    }
}

impl ChildStream {
    /// Looks for a line from now on.
    pub fn watch(&self, watch: LineWatch) {
        self.stream.watch.replace(Some(Box::new(watch)));
    }

    /// Logs what was held back, and what comes after it: at DEBUG if the process succeeded, else at INFO. While the log is
    /// flooded, what was held back counts as a lost record. Does nothing unless it was added by [`add_held`](ChildOutput::add_held).
    pub fn release(&self, succeeded: bool) {
        let Some(held) = self.stream.held.take() else { return };
        let level = if succeeded { LogLevel::Debug } else { lines::LEVEL };
        self.stream.lines.borrow_mut().set_level(level);
        let text = held.into_text();
        if !text.is_empty() && self.forwarder.sink.is_flooded() {
            self.forwarder.sink.count_lost();
        } else {
            self.forwarder.log(&self.stream, &text);
        }
        self.forwarder.finish_line(&self.stream);
        self.forwarder.stop_holding(&self.stream);
    }

    /// Logs everything that a process wrote before it ended, a last line without newline included, even if the sink
    /// has no room. To be called when its exit is known.
    ///
    /// Other processes may still write to the pipe, so no more is read than a pipe can hold.
    pub fn drain(&self) {
        let Self { stream, forwarder } = self;
        let mut left = None;
        while stream.open.get() {
            match forwarder.read(stream, left.unwrap_or(CHUNK)) {
                Outcome::Bytes(length) => {
                    let limit = left.unwrap_or_else(|| stream.pipe_size());
                    left = Some(limit.saturating_sub(length));
                    if left == Some(0) {
                        return forwarder.finish_line(stream);
                    }
                }
                Outcome::Nothing => return forwarder.finish_line(stream),
                Outcome::End => forwarder.close(stream),
            }
        }
    }

    /// Whether a process may still write to it.
    pub fn is_open(&self) -> bool {
        self.stream.open.get()
    }
}

#[allow(unsafe_code)]
fn new_epoll() -> io::Result<AsyncFd<Descriptor>> {
    let epoll = Descriptor(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
    // SAFETY: the epoll owns its descriptor and keeps it open until it is dropped. tokio has deprecated the safe call.
    Ok(unsafe { AsyncFd::register_with_interest(epoll, Interest::READABLE) }?)
}

/// Forwards until the program ends.
async fn forward(forwarder: Rc<Forwarder>) {
    while let Ok(ready) = forwarder.ready.readable().await {
        forwarder.sink.room().await;
        forwarder.take_turn(ready).await;
    }
}

/// Reads output that is held back until the program ends, whether the log has room or not.
async fn forward_held(forwarder: Rc<Forwarder>) {
    while let Ok(ready) = forwarder.ready_held.readable().await {
        forwarder.take_turn(ready).await;
    }
}

impl Forwarder {
    /// The epoll that a stream is in.
    fn epoll_of(&self, stream: &Stream) -> &Epoll {
        let is_held = stream.held.borrow().is_some();
        let ready = if is_held { &self.ready_held } else { &self.ready };
        &ready.get_ref().0
    }

    fn enter(&self, stream: &Rc<Stream>) -> io::Result<()> {
        self.epoll_of(stream).add(&stream.pipe, stream.event())?;
        self.streams.borrow_mut().insert(stream.number(), Rc::clone(stream));
        Ok(())
    }

    /// Moves a stream that is no longer held back to the others, if a process may still write to it.
    fn stop_holding(&self, stream: &Stream) {
        if !stream.open.get() {
            return;
        }
        let _ = self.ready_held.get_ref().0.delete(&stream.pipe);
        if self.epoll_of(stream).add(&stream.pipe, stream.event()).is_err() {
            // The kernel has no memory for it, so that nobody would read it.
            self.close(stream);
        }
    }

    /// Reads from some streams that are readable, then lets other tasks run.
    async fn take_turn(&self, mut ready: AsyncFdReadyGuard<'_, Descriptor>) {
        if self.read_ready(&ready.get_inner().0) == 0 {
            ready.clear_ready();
        } else {
            drop(ready);
            yield_now().await;
        }
    }

    /// Reads from the streams that are readable or at their end; returns how many there were.
    fn read_ready(&self, epoll: &Epoll) -> usize {
        let mut events = [EpollEvent::empty(); STREAMS_PER_TURN];
        // Without waiting, epoll_wait(2) fails at most with EINTR; the next turn asks again.
        let count = epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        for event in events.iter().take(count) {
            // Cloned, so that `streams` is not borrowed while we read. If reading an earlier stream closed this one, its
            // descriptor may be that of a new stream: then the read finds nothing.
            let stream = self.streams.borrow().get(&event.data()).cloned();
            if let Some(stream) = stream {
                self.read_some(&stream);
            }
        }
        count
    }

    /// Reads until a read returns less than a whole chunk, at most `READS_PER_TURN` times.
    fn read_some(&self, stream: &Rc<Stream>) {
        for _ in 0..READS_PER_TURN {
            match self.read(stream, CHUNK) {
                Outcome::Bytes(CHUNK) if self.sink.has_room() => {}
                Outcome::Bytes(_) | Outcome::Nothing => return,
                Outcome::End => return self.close(stream),
            }
        }
    }

    /// Reads at most `limit` bytes once and logs them in one piece.
    fn read(&self, stream: &Stream, limit: usize) -> Outcome {
        let mut chunk = self.chunk.borrow_mut();
        let chunk = chunk.get_mut(..limit.min(CHUNK)).unwrap_or_default();
        loop {
            match unistd::read(stream.pipe.as_fd(), chunk) {
                Ok(0) => return Outcome::End,
                Ok(length) => {
                    self.log(stream, chunk.get(..length).unwrap_or_default());
                    return Outcome::Bytes(length);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Outcome::Nothing,
                // A pipe that cannot be read is at its end.
                Err(_) => return Outcome::End,
            }
        }
    }

    fn log(&self, stream: &Stream, bytes: &[u8]) {
        stream.look(bytes);
        if let Some(held) = &mut *stream.held.borrow_mut() {
            return held.add(bytes);
        }
        let settings = self.sink.settings();
        let level = stream.lines.borrow().level();
        if settings.admits(level) {
            let time = TimeText::new(SystemTime::now());
            self.append(stream, |lines, out| lines.feed(bytes, settings.format(), &time, out));
        } else {
            stream.lines.borrow_mut().discard_partial();
        }
    }

    /// Logs a line that no newline ended.
    fn finish_line(&self, stream: &Stream) {
        if let Some(watch) = &mut *stream.watch.borrow_mut() {
            watch.finish();
        }
        let has_partial = stream.lines.borrow().has_partial();
        if has_partial {
            let time = TimeText::new(SystemTime::now());
            let format = self.sink.settings().format();
            self.append(stream, |lines, out| lines.finish(format, &time, out));
        }
    }

    /// Queues what `write` makes of the lines, and keeps it.
    fn append(&self, stream: &Stream, write: impl FnOnce(&mut LineFormatter, &mut Vec<u8>)) {
        let lines = &mut *stream.lines.borrow_mut();
        self.sink.append(|out| {
            let before = out.len();
            write(lines, out);
            let Label { job, pid, .. } = lines.label();
            self.kept.add(job, *pid, stream.keep, out.get(before..).unwrap_or_default());
        });
    }

    /// Ends the forwarding. The descriptor stays open while a [`ChildStream`] exists, so epoll must forget it here.
    fn close(&self, stream: &Stream) {
        self.finish_line(stream);
        stream.open.set(false);
        // Fails only if it is in none.
        let _ = self.epoll_of(stream).delete(&stream.pipe);
        self.streams.borrow_mut().remove(&stream.number());
    }
}

impl Stream {
    /// Looks for the line in what was read, unless it was found.
    fn look(&self, bytes: &[u8]) {
        let mut watch = self.watch.borrow_mut();
        if watch.as_mut().is_some_and(|watch| watch.look(bytes)) {
            *watch = None;
        }
    }

    /// What epoll tells when it is readable.
    fn event(&self) -> EpollEvent {
        EpollEvent::new(EpollFlags::EPOLLIN, self.number())
    }

    /// The number of its file descriptor.
    fn number(&self) -> u64 {
        self.pipe.as_raw_fd().unsigned_abs().into()
    }

    /// The most that the pipe can hold.
    fn pipe_size(&self) -> usize {
        let size = fcntl(&self.pipe, FcntlArg::F_GETPIPE_SZ).ok();
        size.and_then(|size| usize::try_from(size).ok()).unwrap_or(CHUNK)
    }
}

#[cfg(test)]
mod tests;
