//! Forwards what children write into the log: one task on the program's own thread, over one epoll(7) for the streams
//! of all children, so that a silent one costs next to nothing. A sink without room stops the reading, so that
//! children wait, never the program.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::SystemTime;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::unistd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::{spawn_local, yield_now};

use super::held::Held;
use super::lines::{Label, LineFormatter};
use super::sink::LogSink;
use super::time::TimeText;
use super::{Log, lines};
use crate::config::spec::LogLevel;

/// Bytes per read, the size of a pipe.
const CHUNK: usize = 64 * 1024;
/// Reads of one stream before the others have their turn.
const READS_PER_TURN: u32 = 4;
/// Streams that are read before other tasks have their turn.
const STREAMS_PER_TURN: usize = 4;

/// The output of all children on its way into a log; clones share it.
#[derive(Debug, Clone)]
pub struct ChildOutput {
    forwarder: Rc<Forwarder>,
}

/// The stdout or stderr of a child, on its way into the log.
///
/// Dropping it does not stop the forwarding: that ends when the last process that holds the pipe is gone.
#[derive(Debug)]
pub struct ChildStream {
    stream: Rc<Stream>,
    forwarder: Rc<Forwarder>,
}

#[derive(Debug)]
struct Forwarder {
    ready: AsyncFd<Descriptor>,
    sink: LogSink,
    /// The open streams, each at the number of its descriptor.
    streams: RefCell<Vec<Option<Rc<Stream>>>>,
    scratch: RefCell<Scratch>,
}

/// An epoll, as tokio wants to have it.
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
    /// Its output so far, while it is not known at which level it is to be logged.
    held: RefCell<Option<Held>>,
}

/// Shared by all streams, so that an idle one costs no buffer.
#[derive(Debug)]
struct Scratch {
    chunk: Vec<u8>,
    time: TimeText,
}

/// What a read gave.
enum Outcome {
    Bytes(usize),
    Nothing,
    End,
}

impl ChildOutput {
    /// Begins to forward into a log; to be called within a `LocalSet` or an actix system.
    pub fn start(log: &Log) -> io::Result<Self> {
        let forwarder = Rc::new(Forwarder {
            ready: readiness_of(Descriptor(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?))?,
            sink: log.sink().clone(),
            streams: RefCell::default(),
            scratch: RefCell::new(Scratch { chunk: vec![0; CHUNK], time: TimeText::default() }),
        });
        spawn_local(forward(Rc::clone(&forwarder)));
        Ok(Self { forwarder })
    }

    /// Adds the read end of a pipe, which must not block.
    pub fn add(&self, pipe: OwnedFd, label: Label) -> io::Result<ChildStream> {
        let stream = Rc::new(Stream {
            pipe,
            lines: RefCell::new(LineFormatter::new(label)),
            open: Cell::new(true),
            held: RefCell::default(),
        });
        self.forwarder.enter(&stream)?;
        Ok(ChildStream { stream, forwarder: Rc::clone(&self.forwarder) })
    }
}

impl ChildStream {
    /// Keeps the output, up to a limit, until it is released.
    pub fn hold(&self) {
        self.stream.held.replace(Some(Held::default()));
    }

    /// Logs what was held: at DEBUG if its process did what it should, else at INFO, and so what comes after it. Does
    /// nothing if nothing is held.
    pub fn release(&self, succeeded: bool) {
        let Some(held) = self.stream.held.take() else { return };
        let level = if succeeded { LogLevel::Debug } else { lines::LEVEL };
        self.stream.lines.borrow_mut().set_level(level);
        let time = TimeText::new(SystemTime::now());
        self.forwarder.log(&self.stream, &held.into_text(), &time);
        self.forwarder.finish_line(&self.stream);
    }

    /// Puts everything that a process wrote before it died into the log, a last line without newline included,
    /// even if the sink has no room: to be called when its exit is known.
    ///
    /// Other processes may hold the pipe and go on writing: no more is read than a pipe can hold.
    pub fn drain(&self) {
        let Self { stream, forwarder } = self;
        let mut left = None;
        while stream.open.get() {
            match forwarder.read(stream, left.unwrap_or(CHUNK)) {
                Outcome::Bytes(length) => {
                    let limit = left.unwrap_or_else(|| stream.pipe_size());
                    left = Some(limit.saturating_sub(length));
                    if left == Some(0) {
                        return;
                    }
                }
                Outcome::Nothing => return forwarder.finish_line(stream),
                Outcome::End => forwarder.close(stream),
            }
        }
    }

    /// Whether some process may still write to it.
    pub fn is_open(&self) -> bool {
        self.stream.open.get()
    }
}

#[allow(unsafe_code)]
fn readiness_of(epoll: Descriptor) -> io::Result<AsyncFd<Descriptor>> {
    // SAFETY: the epoll owns its descriptor, which is the same until the epoll is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(epoll, Interest::READABLE) }?)
}

/// Forwards for as long as there can be children.
async fn forward(forwarder: Rc<Forwarder>) {
    while let Ok(mut ready) = forwarder.ready.readable().await {
        forwarder.sink.room().await;
        if forwarder.read_ready() == 0 {
            ready.clear_ready();
        } else {
            drop(ready);
            yield_now().await;
        }
    }
}

impl Forwarder {
    fn epoll(&self) -> &Epoll {
        &self.ready.get_ref().0
    }

    fn enter(&self, stream: &Rc<Stream>) -> io::Result<()> {
        let number = stream.pipe.as_raw_fd();
        let index = usize::try_from(number).map_err(io::Error::other)?;
        self.epoll().add(&stream.pipe, EpollEvent::new(EpollFlags::EPOLLIN, index as u64))?;
        let mut streams = self.streams.borrow_mut();
        if streams.len() <= index {
            streams.resize(index + 1, None);
        }
        if let Some(place) = streams.get_mut(index) {
            *place = Some(Rc::clone(stream));
        }
        Ok(())
    }

    /// Reads from streams that have something, or are over; how many there were.
    fn read_ready(&self) -> usize {
        let mut events = [EpollEvent::empty(); STREAMS_PER_TURN];
        // Asked without waiting, this can only fail for reasons that the next turn will not have.
        let count = self.epoll().wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        for event in events.iter().take(count) {
            let index = usize::try_from(event.data()).unwrap_or(usize::MAX);
            // Not borrowed while we read. It may be another stream than the event is of, if one before it closed
            // this one: then there is nothing to read.
            let stream = self.streams.borrow().get(index).cloned().flatten();
            if let Some(stream) = stream {
                self.read_some(&stream);
            }
        }
        count
    }

    /// Reads until there was less than a whole chunk, but not forever.
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
        let Scratch { chunk, time } = &mut *self.scratch.borrow_mut();
        let chunk = chunk.get_mut(..limit.min(CHUNK)).unwrap_or_default();
        loop {
            match unistd::read(stream.pipe.as_fd(), chunk) {
                Ok(0) => return Outcome::End,
                Ok(length) => {
                    time.set(SystemTime::now());
                    self.log(stream, chunk.get(..length).unwrap_or_default(), time);
                    return Outcome::Bytes(length);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Outcome::Nothing,
                // Nothing more can come from a pipe that cannot be read.
                Err(_) => return Outcome::End,
            }
        }
    }

    fn log(&self, stream: &Stream, bytes: &[u8], time: &TimeText) {
        if let Some(held) = &mut *stream.held.borrow_mut() {
            return held.add(bytes);
        }
        let mut lines = stream.lines.borrow_mut();
        let settings = self.sink.settings();
        if settings.admits(lines.level()) {
            self.sink.append(|out| lines.feed(bytes, settings.format(), time, out));
        } else {
            lines.discard_partial();
        }
    }

    /// Logs a line that no newline ended.
    fn finish_line(&self, stream: &Stream) {
        let mut lines = stream.lines.borrow_mut();
        if lines.has_partial() {
            let time = TimeText::new(SystemTime::now());
            let format = self.sink.settings().format();
            self.sink.append(|out| lines.finish(format, &time, out));
        }
    }

    /// Its descriptor is closed with the last who holds the stream; until then the kernel must not tell of it.
    fn close(&self, stream: &Stream) {
        self.finish_line(stream);
        stream.open.set(false);
        // Fails only if it is not there, which is what is wanted.
        let _ = self.epoll().delete(&stream.pipe);
        let index = usize::try_from(stream.pipe.as_raw_fd()).unwrap_or(usize::MAX);
        if let Some(place) = self.streams.borrow_mut().get_mut(index) {
            *place = None;
        }
    }
}

impl Stream {
    /// The most that the pipe can hold.
    fn pipe_size(&self) -> usize {
        let size = fcntl(&self.pipe, FcntlArg::F_GETPIPE_SZ).ok();
        size.and_then(|size| usize::try_from(size).ok()).unwrap_or(CHUNK)
    }
}

#[cfg(test)]
mod tests;
