//! One request to a control socket and its response, each step within a time limit.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::net::UnixStream;

use super::TIMEOUT;
use crate::http_client::{self, Request, Response};

/// More than the longest response of ours, so that another program on the socket cannot fill our memory.
const LONGEST_BODY: usize = 64 << 20;
/// How soon a connection is tried again while the listener's queue is full.
const CONNECT_AGAIN: Duration = Duration::from_millis(20);

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
    // The program takes a connection at once, also if its answer may take as long as it likes.
    let stream = within(Some(request.timeout.unwrap_or(TIMEOUT)), connect(socket)).await?;
    let response = within(request.timeout, http_client::send(stream, &request.request)).await?;
    Ok(TimedResponse { response, timeout: request.timeout })
}

async fn connect(socket: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket).await {
            // EAGAIN: the listener's queue is full, and nothing tells when there is room in it.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(CONNECT_AGAIN).await;
            }
            result => return result,
        }
    }
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};

    use super::*;

    /// As short as the kernel makes it: one more than this.
    const SHORTEST_QUEUE: i32 = 1;

    #[test]
    fn a_listener_whose_queue_is_full_is_asked_no_longer_than_the_time_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&listener, Backlog::new(SHORTEST_QUEUE).unwrap()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut waiting = Vec::new();
            while let Ok(stream) = UnixStream::connect(&path).await {
                waiting.push(stream);
            }
            let timeout = Some(Duration::from_millis(100));
            let result = send(&path, &super::super::get("/v3/ping", timeout)).await.map(|_| ());
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        });
    }
}
