//! Clients that send pipelined requests for as long as anybody takes them, and read no answer.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// How much each client sends.
const SENT: usize = 128 << 10;
/// A server that has taken nothing from any client for this long has stopped reading.
const QUIET: Duration = Duration::from_millis(500);

/// A stream that need not wait.
pub trait Impatient: Write {
    /// Makes writes return at once.
    fn never_wait(&self);
}

impl Impatient for TcpStream {
    fn never_wait(&self) {
        self.set_nonblocking(true).unwrap();
    }
}

impl Impatient for UnixStream {
    fn never_wait(&self) {
        self.set_nonblocking(true).unwrap();
    }
}

/// Connects that many clients; each sends its requests, or as many as are taken. They stay connected until dropped.
pub fn flood<S: Impatient>(count: usize, connect: impl Fn() -> S) -> Vec<S> {
    let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    let text = request.repeat(SENT / request.len());
    let mut clients: Vec<(S, usize)> = (0..count).map(|_| (connect(), 0)).collect();
    clients.iter().for_each(|(stream, _)| stream.never_wait());
    let mut last_progress = Instant::now();
    while clients.iter().any(|(_, sent)| *sent < text.len()) && last_progress.elapsed() < QUIET {
        for (stream, sent) in &mut clients {
            match stream.write(&text[*sent..]) {
                Ok(count) if count > 0 => {
                    *sent += count;
                    last_progress = Instant::now();
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The server has ended this connection.
                Err(_) => *sent = text.len(),
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    clients.into_iter().map(|(stream, _)| stream).collect()
}
