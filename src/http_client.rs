//! A small HTTP/1.1 client for http checks and for the commands that ask the control socket: it sends one request on
//! a connection that the caller opened, and reads its response. It bounds what it reads; the caller bounds the time.
//!
//! awc, the client for Consul, was weighed. It keeps connections for later requests, adds headers of its own, and
//! needs a connector for each kind of connection. A check needs a new connection each time and the headers as the user
//! wrote them. So only the end of a body is found by hand here (`body`); httparse reads the head.

mod body;

use std::fmt::Write as _;
use std::io;
use std::mem::MaybeUninit;

use body::Body;
use httparse::{ParserConfig, Status};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The status line and the headers may be this long, interim responses included.
const LONGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 128;
/// The least room for one read. Most responses to health checks fit.
const READ_SIZE: usize = 4 << 10;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method, in capitals.
    pub method: String,
    /// Path and query, percent-encoded.
    pub target: String,
    /// The headers, without those that tell how long the body is.
    pub headers: Vec<(String, String)>,
    /// The body; may be empty.
    pub body: String,
}

impl Request {
    /// The request as it is sent.
    fn encode(&self) -> String {
        let Self { method, target, headers, body } = self;
        let mut text = format!("{method} {target} HTTP/1.1\r\n");
        for (name, value) in headers {
            let _ = write!(text, "{name}: {value}\r\n"); // writing to a string cannot fail
        }
        // RFC 9110, section 8.6: a method that may have a body says also that it has none.
        if !body.is_empty() || !matches!(method.as_str(), "GET" | "HEAD") {
            let _ = write!(text, "content-length: {}\r\n", body.len());
        }
        text + "\r\n" + body
    }
}

/// A response whose head has been read. Its body is read piece by piece with [`Response::chunk`].
#[derive(Debug)]
pub struct Response<S> {
    /// The status code.
    pub status: u16,
    stream: S,
    /// Bytes that were read and belong to no piece yet.
    input: Vec<u8>,
    body: Body,
}

/// Sends a request and reads the head of its response.
pub async fn send<S>(mut stream: S, request: &Request) -> io::Result<Response<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // A server may refuse a request and close before it has read all of it: its response says more than our error.
    let sent = write(&mut stream, request.encode().as_bytes()).await;
    match read_head(stream, &request.method).await {
        Ok(response) => Ok(response),
        Err(error) => Err(sent.err().unwrap_or(error)),
    }
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

async fn read_head<S: AsyncRead + Unpin>(mut stream: S, method: &str) -> io::Result<Response<S>> {
    let (mut input, mut length) = (Vec::new(), 0);
    loop {
        match read(&mut stream, &mut input).await? {
            0 => return Err(ended("the connection ended before an answer")),
            count => length += count,
        }
        if let Some((status, body)) = take_head(&mut input, method)? {
            return Ok(Response { status, stream, input, body });
        }
        if length > LONGEST_HEAD {
            return Err(malformed(format!("the headers of the answer are longer than {LONGEST_HEAD} bytes")));
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Response<S> {
    /// The next piece of the body, as long as the last read brought; `None` at its end.
    pub async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let mut piece = Vec::new();
            let taken = self.body.take(&mut self.input, &mut piece);
            // Also before an error: whether it was in the same read must make no difference. The next call meets it again.
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
            if taken? {
                return Ok(None);
            }
            if read(&mut self.stream, &mut self.input).await? == 0 {
                return match self.body {
                    Body::UntilClose => Ok(None),
                    Body::Length(_) | Body::Chunked(_) => {
                        Err(ended("the connection ended within the answer"))
                    }
                };
            }
        }
    }

    /// Closes the connection in an orderly way; TLS servers expect a close_notify.
    pub async fn close(mut self) {
        let _ = self.stream.shutdown().await; // a connection that is gone needs none
    }
}

/// Reads the bytes that are there; 0 at the end of the connection.
async fn read(stream: &mut (impl AsyncRead + Unpin), input: &mut Vec<u8>) -> io::Result<usize> {
    input.reserve(READ_SIZE);
    stream.read_buf(input).await
}

/// Removes a complete head from the input. Gives its status and how its body ends.
fn take_head(input: &mut Vec<u8>, method: &str) -> io::Result<Option<(u16, Body)>> {
    loop {
        let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
        let mut response = httparse::Response::new(&mut []);
        let parsed = lenient().parse_response_with_uninit_headers(&mut response, input, &mut headers);
        let parsed = parsed.map_err(|error| malformed(format!("the answer is not HTTP: {error}")))?;
        let (Status::Complete(length), Some(status)) = (parsed, response.code) else { return Ok(None) };
        let body = Body::new(method, status, response.headers)?;
        input.drain(..length);
        // An interim response such as `100 Continue` is followed by the real one; 101 is the last.
        let is_interim = (100..200).contains(&status) && status != 101;
        if !is_interim {
            return Ok(Some((status, body)));
        }
    }
}

/// Accepts headers with blanks in the wrong place: a service that sends them is not unhealthy.
fn lenient() -> ParserConfig {
    let mut config = ParserConfig::default();
    config
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .ignore_invalid_headers_in_responses(true);
    config
}

fn malformed(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

fn ended(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}

#[cfg(test)]
mod tests;
