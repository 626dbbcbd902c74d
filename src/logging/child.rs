//! Forwards what a child writes into the log: one task per stream on the program's own thread. A sink without
//! room stops the reading, so that the child waits, never the program.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::SystemTime;

use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd;
use tokio::net::unix::pipe::Receiver;
use tokio::task::{spawn_local, yield_now};

use super::lines::{Label, LineFormatter};
use super::sink::LogSink;
use super::time::TimeText;
use super::{Log, lines};

/// Bytes per read, the size of a pipe.
const CHUNK: usize = 64 * 1024;
/// Reads in a row before other tasks have their turn.
const READS_PER_TURN: u32 = 4;

thread_local! {
    /// Shared by all streams, so that an idle one costs no buffer.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch { chunk: vec![0; CHUNK], time: TimeText::default() });
}

struct Scratch {
    chunk: Vec<u8>,
    time: TimeText,
}

/// The stdout or stderr of a child, on its way into the log.
///
/// Dropping it does not stop the forwarding: that ends when the last process that holds the pipe is gone.
#[derive(Debug)]
pub struct ChildStream {
    stream: Rc<Stream>,
}

#[derive(Debug)]
struct Stream {
    pipe: Receiver,
    lines: RefCell<LineFormatter>,
    sink: LogSink,
    open: Cell<bool>,
}

/// What a read gave.
enum Outcome {
    Bytes(usize),
    Nothing,
    End,
}

impl ChildStream {
    /// Starts to forward from the read end of a pipe; to be called within a `LocalSet` or an actix system.
    pub fn start(pipe: OwnedFd, label: Label, log: &Log) -> io::Result<Self> {
        let sink = log.sink().clone();
        let stream = Rc::new(Stream {
            pipe: Receiver::from_owned_fd(pipe)?,
            lines: RefCell::new(LineFormatter::new(label, sink.settings().format())),
            sink,
            open: Cell::new(true),
        });
        spawn_local(forward(Rc::clone(&stream)));
        Ok(Self { stream })
    }

    /// Puts everything that a process wrote before it died into the log, a last line without newline included,
    /// even if the sink has no room: to be called when its exit is known.
    ///
    /// Other processes may hold the pipe and go on writing: no more is read than a pipe can hold.
    pub fn drain(&self) {
        let mut left = self.stream.pipe_size();
        while left > 0 && self.stream.open.get() {
            // Straight from the pipe: tokio has not necessarily noticed yet that there is something to read.
            match self.stream.read(left, |chunk| Ok(unistd::read(self.stream.pipe.as_fd(), chunk)?)) {
                Outcome::Bytes(length) => left -= length,
                Outcome::Nothing => return self.stream.finish_line(),
                Outcome::End => self.stream.close(),
            }
        }
    }

    /// Whether some process may still write to it.
    pub fn is_open(&self) -> bool {
        self.stream.open.get()
    }
}

/// Forwards until end-of-file.
async fn forward(stream: Rc<Stream>) {
    let mut reads = 0;
    while stream.open.get() {
        if stream.pipe.readable().await.is_err() {
            break;
        }
        stream.sink.room().await;
        match stream.read(CHUNK, |chunk| stream.pipe.try_read(chunk)) {
            Outcome::Bytes(_) | Outcome::Nothing => {}
            Outcome::End => break,
        }
        reads += 1;
        if reads == READS_PER_TURN {
            reads = 0;
            yield_now().await;
        }
    }
    stream.close();
}

impl Stream {
    /// Reads at most `limit` bytes once and logs them in one piece.
    fn read(&self, limit: usize, read: impl Fn(&mut [u8]) -> io::Result<usize>) -> Outcome {
        SCRATCH.with_borrow_mut(|Scratch { chunk, time }| {
            let chunk = chunk.get_mut(..limit.min(CHUNK)).unwrap_or_default();
            loop {
                match read(chunk) {
                    Ok(0) => return Outcome::End,
                    Ok(length) => {
                        time.set(SystemTime::now());
                        self.log(chunk.get(..length).unwrap_or_default(), time);
                        return Outcome::Bytes(length);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Outcome::Nothing,
                    // Nothing more can come from a pipe that cannot be read.
                    Err(_) => return Outcome::End,
                }
            }
        })
    }

    fn log(&self, bytes: &[u8], time: &TimeText) {
        let mut lines = self.lines.borrow_mut();
        if self.sink.settings().admits(lines::LEVEL) {
            lines.set_format(self.sink.settings().format());
            self.sink.append(|out| lines.feed(bytes, time, out));
        } else {
            lines.discard_partial();
        }
    }

    /// Logs a line that no newline ended.
    fn finish_line(&self) {
        let time = TimeText::new(SystemTime::now());
        self.sink.append(|out| self.lines.borrow_mut().finish(&time, out));
    }

    fn close(&self) {
        self.finish_line();
        self.open.set(false);
    }

    /// The most that the pipe can hold.
    fn pipe_size(&self) -> usize {
        let size = fcntl(&self.pipe, FcntlArg::F_GETPIPE_SZ).ok();
        size.and_then(|size| usize::try_from(size).ok()).unwrap_or(CHUNK)
    }
}

#[cfg(test)]
mod tests;
