//! One request to a control socket and its response, each step within a time limit.

use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::time::Duration;

use tokio::net::UnixStream;

use crate::http_client::{self, Request, Response};

/// More than the longest response of ours, so that another program on the socket cannot fill our memory.
const LONGEST_BODY: usize = 64 << 20;

/// A request, and how long its response may take to begin and then to go on. `None` waits without limit.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedRequest {
    /// The request.
    pub request: Request,
    /// The limit for each step.
    pub timeout: Option<Duration>,
}

/// A response whose body is still to be read.
pub struct TimedResponse {
    response: Response<UnixStream>,
    timeout: Option<Duration>,
}

/// Sends a request and reads the head of its response.
pub async fn send(socket: &Path, request: &TimedRequest) -> io::Result<TimedResponse> {
    // A blocking connect waits while the listener's queue is full; a non-blocking one fails with EAGAIN.
    let stream = StdStream::connect(socket)?;
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    let response = within(request.timeout, http_client::send(stream, &request.request)).await?;
    Ok(TimedResponse { response, timeout: request.timeout })
}

impl TimedResponse {
    /// The status code.
    pub fn status(&self) -> u16 {
        self.response.status
    }

    /// The next piece of the body; `None` at its end.
    pub async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        within(self.timeout, self.response.chunk()).await
    }

    /// The whole body.
    pub async fn text(&mut self) -> io::Result<String> {
        let mut body = Vec::new();
        while let Some(piece) = self.chunk().await? {
            body.extend(piece);
            if body.len() > LONGEST_BODY {
                return Err(invalid(format!("it is longer than {LONGEST_BODY} bytes")));
            }
        }
        String::from_utf8(body).map_err(|_| invalid("it is not UTF-8".to_owned()))
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

async fn within<T>(timeout: Option<Duration>, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let Some(timeout) = timeout else { return step.await };
    let elapsed = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
    tokio::time::timeout(timeout, step).await.unwrap_or_else(elapsed)
}
