//! A client's connection, unix or TCP. Each has a task of its own on the program's one thread.
//!
//! actix-http speaks HTTP. The limits on what it reads, and how long it waits for the first head, are written by hand
//! ([`Connection`]): actix-http has a time limit for a head, but looks at it before it reads, and so refuses clients that
//! were in time while the machine stood still.

use std::cell::Cell;
use std::future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_http::HttpService;
use actix_service::{IntoServiceFactory, Service, ServiceFactory, fn_factory, map_config};
use actix_web::body::MessageBody;
use actix_web::dev::{AppConfig, Extensions, ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap};
use actix_web::{App, Error, HttpRequest};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::head_end::HeadEnd;
use super::socket::{Socket, has_more};

/// How long the first head may take to arrive.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// The response to a client whose head takes longer.
const TOO_SLOW: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
/// How long a connection may be idle between two requests.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How many bytes one request may bring. The rest of a refused body is read up to this limit, so that its sender sees
/// the response.
const MOST_RECEIVED: usize = 16 << 20;
/// A connection that has been idle for so long may be closed for another one: a new client's request may be on its way, and
/// on a busy machine that takes its time.
const IDLE_TIME: Duration = Duration::from_secs(1);
/// A client that has read nothing for so long may be closed for another one.
const UNREAD_TIME: Duration = Duration::from_secs(2);
/// How long a client may go on sending after the last response before its connection is closed.
const DISCONNECT_TIME: Duration = Duration::from_secs(1);
/// How many bytes actix-http may read before it looks at them. Without this limit it reads up to 128 KiB into a buffer
/// that doubles: 120 clients that send 100 KB each took 15 MB, and take 5 MB with it.
const MOST_AT_ONCE: usize = 16 << 10;

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConnectionState {
    /// It waits for a request, or for the rest of one.
    #[default]
    Idle,
    /// A request is being answered.
    Answering,
    /// It carries the stream of events.
    Streaming,
}

/// The state of one connection, shared by the connection, the routes that answer it, and the list of connections.
#[derive(Debug, Clone)]
pub struct ConnectionTracker {
    state: Rc<Cell<ConnectionState>>,
    /// When it got into this state.
    since: Rc<Cell<Instant>>,
    /// Bytes received since the last request began.
    received: Rc<Cell<usize>>,
    /// Bytes of its body that actix-http has not got yet.
    body_left: Rc<Cell<usize>>,
    /// Since when the client has read nothing of what waits for it.
    unread_since: Rc<Cell<Option<Instant>>>,
}

impl Default for ConnectionTracker {
    fn default() -> Self {
        Self {
            state: Rc::default(),
            since: Rc::new(Cell::new(Instant::now())),
            received: Rc::default(),
            body_left: Rc::default(),
            unread_since: Rc::default(),
        }
    }
}

impl ConnectionTracker {
    /// The head of a request has arrived, and the request is being answered.
    pub fn begin_request(&self, headers: &HeaderMap) {
        self.received.set(0);
        self.body_left.set(announced_length(headers));
        self.set_state(ConnectionState::Answering);
    }

    /// The response to this request is a stream: its connection counts as streaming until the response ends.
    pub fn begin_stream(request: &HttpRequest) {
        if let Some(tracker) = request.conn_data::<Self>() {
            tracker.set_state(ConnectionState::Streaming);
        }
    }

    /// Sets the state.
    pub fn set_state(&self, state: ConnectionState) {
        if self.state.replace(state) != state {
            self.since.set(Instant::now());
        }
    }

    /// The state.
    pub fn state(&self) -> ConnectionState {
        self.state.get()
    }

    /// Notes whether the kernel has taken something for the client.
    fn note_written(&self, is_taken: bool) {
        let since = self.unread_since.get().unwrap_or_else(Instant::now);
        self.unread_since.set((!is_taken).then_some(since));
    }

    /// Since when it has waited for a request, if that is a while ago.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let is_idle = self.state() == ConnectionState::Idle;
        Some(self.since.get()).filter(|since| is_idle && since.elapsed() >= IDLE_TIME)
    }

    /// Since when the client has read nothing, if that is a while ago.
    pub(super) fn unread_since(&self) -> Option<Instant> {
        self.unread_since.get().filter(|since| since.elapsed() >= UNREAD_TIME)
    }

    /// Since when it carries the stream of events.
    pub(super) fn streaming_since(&self) -> Option<Instant> {
        Some(self.since.get()).filter(|_| self.state() == ConnectionState::Streaming)
    }

    /// Counts bytes that were received; false if a request has brought more than [`MOST_RECEIVED`].
    fn count_received(&self, count: usize) -> bool {
        let received = self.received.get().saturating_add(count);
        self.received.set(received);
        received <= MOST_RECEIVED
    }
}

/// The length of the body that follows a head. A chunked body has none; its end is an empty line, as that of a head is.
fn announced_length(headers: &HeaderMap) -> usize {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return 0;
    }
    let length = headers.get(header::CONTENT_LENGTH);
    length.and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or(0)
}

/// A client's connection.
///
/// actix-http has no limit on pipelined requests: it decodes all that it can read, up to 128 KiB, before it answers the
/// first; that is thousands of requests, and each takes some KiB. It also answers a request as the last one that it has
/// decoded asks for: without a body if that one is a HEAD. So we let it read up to the end of a head, then the body if
/// the request waits for it, and nothing more until that request is answered and the kernel has taken the whole response.
///
/// actix-http also looks whether the head is late before it reads. If this program did not run for a while, a head that came in time
/// would be refused. So the time limit is here, and counts only if there is nothing to read.
#[derive(Debug)]
pub struct Connection {
    socket: Box<dyn Socket>,
    pub(super) tracker: ConnectionTracker,
    search: HeadEnd,
    /// Bytes that were read from the socket after the end of a head; actix-http gets them after the response.
    unread: Vec<u8>,
    /// actix-http has read a whole head or a whole body, and the response is not sent yet.
    is_paused: bool,
    /// Bytes that actix-http has read without a pause.
    given: usize,
    /// The time limit for the first head, until that has arrived.
    head_timer: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    /// A connection that was accepted.
    pub fn new(socket: Box<dyn Socket>, tracker: ConnectionTracker) -> Self {
        Self {
            socket,
            tracker,
            search: HeadEnd::default(),
            unread: Vec::new(),
            is_paused: false,
            given: 0,
            head_timer: Some(Box::pin(tokio::time::sleep(HEAD_TIME))),
        }
    }

    /// Reads from the socket, unless something is left over from the last read.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            let mut bytes = [0; 4096];
            let mut buffer = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut *self.socket).poll_read(cx, &mut buffer))?;
            self.unread.extend_from_slice(buffer.filled());
        }
        Poll::Ready(Ok(()))
    }

    /// Refuses a client that has sent all that we have read, and whose head is late.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(timer) = &mut self.head_timer else { return Poll::Pending };
        ready!(timer.as_mut().poll(cx));
        // After a pause of the program tokio tells first that the time is over, and then that bytes have arrived.
        if has_more(&*self.socket) {
            return Poll::Pending;
        }
        self.head_timer = None;
        // There is room in the kernel's buffer, since nothing was sent before. If it fails, the client only sees the end.
        let _ = Pin::new(&mut *self.socket).poll_write(cx, TOO_SLOW);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Ends a stream whose client is gone. Otherwise that would be noticed only by the next write, which a quiet program
    /// may never come to.
    fn poll_abandoned(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_gone = self.socket.poll_hang_up(cx).is_ready();
        if is_gone && self.tracker.state() == ConnectionState::Streaming {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Poll::Pending
    }

    /// Gives actix-http the bytes up to the end of a head or of a body. Returns whether it ended, and the number of bytes.
    fn give(&mut self, buffer: &mut ReadBuf<'_>) -> (bool, usize) {
        let fitting = self.unread.len().min(buffer.remaining());
        let bytes = self.unread.get(..fitting).unwrap_or_default();
        let end = match self.tracker.body_left.get() {
            0 => self.search.find(bytes),
            left => {
                self.tracker.body_left.set(left.saturating_sub(fitting));
                (left <= fitting).then_some(left)
            }
        };
        let count = end.unwrap_or(fitting);
        buffer.put_slice(bytes.get(..count).unwrap_or_default());
        self.unread.drain(..count);
        (end.is_some(), count)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // `poll_flush` wakes the task when it may read again.
        if self.is_paused {
            return self.poll_abandoned(cx);
        }
        if self.given >= MOST_AT_ONCE {
            self.given = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match self.poll_fill(cx) {
            Poll::Ready(filled) => filled?,
            Poll::Pending => return self.poll_late(cx),
        }
        let (is_end, count) = self.give(buffer);
        self.given += count;
        if is_end {
            self.head_timer = None;
            self.is_paused = true;
            // While actix-http discards a refused body it flushes only if the task runs once more.
            cx.waker().wake_by_ref();
        }
        if self.tracker.count_received(count) {
            Poll::Ready(Ok(()))
        } else {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut *self.socket).poll_write(cx, bytes);
        self.tracker.note_written(written.is_ready());
        written
    }

    /// actix-http flushes when the kernel has taken everything that it had to write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A connection whose request waits for its body is idle: the body must be read.
        if self.is_paused && self.tracker.state() == ConnectionState::Idle {
            self.is_paused = false;
            // Through the scheduler, so that other tasks run before the next request.
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(())) // a socket has no buffer in this process
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.socket).poll_shutdown(cx)
    }
}

/// Serves a connection until its end.
pub type Serve = Rc<dyn Fn(Connection) -> Pin<Box<dyn Future<Output = ()>>>>;

/// Makes the function that serves connections with this application.
pub async fn serving<F, B>(application: App<F>) -> Option<Serve>
where
    F: ServiceFactory<
            ServiceRequest,
            Config = (),
            Response = ServiceResponse<B>,
            Error = Error,
            InitError = (),
        > + 'static,
    F::Future: 'static,
    F::Service: 'static,
    B: MessageBody + 'static,
{
    let application = map_config(application.into_factory(), |()| AppConfig::default());
    let application = Rc::new(application.new_service(()).await.ok()?);
    Some(Rc::new(move |connection| {
        let application = Rc::clone(&application);
        Box::pin(async move {
            // One service for each connection: a service has a timer that runs twice a second, which must not run
            // while there is no client.
            let service = HttpService::build()
                .client_request_timeout(Duration::ZERO) // none: see `Connection`
                .client_disconnect_timeout(DISCONNECT_TIME)
                .keep_alive(KEEP_ALIVE)
                .on_connect_ext(|connection: &Connection, extensions: &mut Extensions| {
                    extensions.insert(connection.tracker.clone());
                })
                .h1(fn_factory(move || future::ready(Ok::<_, ()>(Rc::clone(&application)))))
                .new_service(())
                .await;
            // An error concerns only the client, who sees that the connection ends.
            if let Ok(service) = service {
                let _ = service.call((connection, None)).await;
            }
        })
    }))
}
