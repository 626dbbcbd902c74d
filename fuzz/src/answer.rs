//! Makes what servers answer to us: responses that say how long they are in every way, wrong ones, and bytes that are none.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use arbitrary::{Result, Unstructured};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const HEADERS: [&str; 18] = [
    "Server: x",
    "Connection: close",
    "Connection: keep-alive",
    "Connection: upgrade",
    "Content-Type: application/json",
    "Content-Length: 5",
    "Content-Length: 18446744073709551615",
    "Content-Length: 18446744073709551616",
    "Content-Length: -1",
    "Content-Length: ",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked, gzip",
    "Content-Encoding: gzip",
    "Location: http://127.0.0.1:1/",
    "Blank : before the colon",
    " folded",
    "no colon",
    "X: \u{7f}\u{80}\u{1b}[31m",
];
const STATUSES: [u16; 18] = [200, 200, 200, 200, 404, 500, 100, 101, 103, 204, 206, 301, 304, 403, 429, 503, 999, 0];

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// All bytes of it.
    pub bytes: Vec<u8>,
    /// Its status and body, if nothing about it is wrong.
    pub meaning: Option<(u16, Vec<u8>)>,
    /// Whether its body ends only with the connection.
    pub must_close: bool,
}

impl Answer {
    /// An answer with this body and these headers of its own, or what should have been one.
    pub fn arbitrary(u: &mut Unstructured<'_>, body: Vec<u8>, headers: &[String]) -> Result<Self> {
        if u.ratio(1, 10)? {
            let length = u.int_in_range(0..=300)?;
            let bytes = u.bytes(length.min(u.len()))?.to_vec();
            return Ok(Self { bytes, meaning: None, must_close: true });
        }
        let mut bytes = Vec::new();
        if u.ratio(1, 8)? {
            bytes.extend(b"HTTP/1.1 100 Continue\r\n\r\n".repeat(u.int_in_range(1..=40)?));
        }
        let is_right = u.ratio(2, 3)?;
        let status = if is_right { 200 } else { *u.choose(&STATUSES)? };
        bytes.extend(format!("HTTP/1.1 {status} Some reason\r\n").bytes());
        for header in headers {
            bytes.extend(format!("{header}\r\n").bytes());
        }
        if !is_right {
            for _ in 0..u.int_in_range(0..=5)? {
                bytes.extend(u.choose(&HEADERS)?.bytes().chain(*b"\r\n"));
            }
        }
        let must_close = add_body(u, &mut bytes, &body, is_right)?;
        if !is_right && u.ratio(1, 4)? {
            let length = u.int_in_range(0..=bytes.len())?;
            bytes.truncate(length);
        }
        Ok(Self { bytes, meaning: is_right.then_some((status, body)), must_close })
    }
}

/// Adds the end of the head and the body; true if only the end of the connection ends it.
fn add_body(u: &mut Unstructured<'_>, bytes: &mut Vec<u8>, body: &[u8], is_right: bool) -> Result<bool> {
    match u.int_in_range(0..=3)? {
        0 => {
            bytes.extend(b"\r\n");
            bytes.extend(body);
            return Ok(true);
        }
        1 => {
            bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
            let length = u.int_in_range(1..=40)?;
            for chunk in body.chunks(length) {
                let size = if is_right || u.ratio(7, 8)? { chunk.len() } else { usize::MAX };
                let extension = *u.choose(&["", "", ";x=y"])?;
                bytes.extend(format!("{size:x}{extension}\r\n").bytes());
                bytes.extend(chunk);
                bytes.extend(b"\r\n");
            }
            let end: &[&str] = if is_right { &["0\r\n\r\n"] } else { &["0\r\n\r\n", "", "0", "z\r\n\r\n"] };
            bytes.extend(u.choose(end)?.bytes());
        }
        _ => {
            bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
            bytes.extend(body);
        }
    }
    Ok(false)
}

/// A connection on which a prepared answer arrives piece by piece.
#[derive(Debug)]
pub struct Script {
    pieces: VecDeque<Vec<u8>>,
    is_ready: bool,
}

impl Script {
    /// A connection on which these pieces arrive, and which then ends.
    pub fn new<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).map(<[u8]>::to_vec);
        Self { pieces: pieces.collect(), is_ready: false }
    }
}

impl AsyncRead for Script {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.is_ready = !self.is_ready;
        if self.is_ready {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(mut piece) = self.pieces.pop_front() {
            let rest = piece.split_off(piece.len().min(buffer.remaining()));
            buffer.put_slice(&piece);
            if !rest.is_empty() {
                self.pieces.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Script {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Runs a future that waits for nothing but scripts.
pub fn run<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}
