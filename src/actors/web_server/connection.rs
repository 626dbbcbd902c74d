//! Connections: unix or TCP, each on the one thread in a task of its own, and never more than a fixed number. A
//! client that does nothing makes room for one that comes; none of them can hold a reload or a shutdown. Requests are
//! read one by one: the next one once the answer to the last one has been taken from us.

use std::cell::{Cell, RefCell};
use std::future;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_http::HttpService;
use actix_rt::task::JoinHandle;
use actix_service::{IntoServiceFactory, Service, ServiceFactory, fn_factory, map_config};
use actix_web::body::MessageBody;
use actix_web::dev::{AppConfig, Extensions, ServiceRequest, ServiceResponse};
use actix_web::{App, Error};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBuf, SndBuf};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::head_end::HeadEnd;

/// Connections of one listener at a time.
const MOST_CONNECTIONS: usize = 128;
/// How long the head of a request may take.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// How long a client may think between two requests.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// What one request may bring. A refused body is read on, so that its sender sees the answer, but not for ever.
const MOST_RECEIVED: usize = 16 << 20;
/// How long a client may go on sending what nobody reads after it got its answer.
const DISCONNECT_TIME: Duration = Duration::from_secs(1);

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupation {
    /// Waits for a request, or for the rest of one.
    Idle,
    /// A request is being answered.
    Answering,
    /// Follows the events.
    Streaming,
}

/// What a connection does, shared between the connection and who decides about it.
#[derive(Debug, Clone)]
pub struct Activity(Rc<Conduct>);

#[derive(Debug)]
struct Conduct {
    occupation: Cell<Occupation>,
    /// Bytes that came since the last request began.
    received: Cell<usize>,
}

impl Activity {
    /// A connection that waits for its first request.
    pub fn idle() -> Self {
        Self(Rc::new(Conduct { occupation: Cell::new(Occupation::Idle), received: Cell::new(0) }))
    }

    /// Notes that a request is there, to be answered.
    pub fn begin(&self) {
        self.0.received.set(0);
        self.set(Occupation::Answering);
    }

    /// Notes what it does from now on.
    pub fn set(&self, occupation: Occupation) {
        self.0.occupation.set(occupation);
    }

    /// What it does.
    pub fn get(&self) -> Occupation {
        self.0.occupation.get()
    }

    /// Notes what came; false if it is more than any request of ours can be.
    fn receive(&self, count: usize) -> bool {
        let received = self.0.received.get().saturating_add(count);
        self.0.received.set(received);
        received <= MOST_RECEIVED
    }
}

/// What the kernel may keep of a connection, in each direction; it doubles the figure. Without a limit TCP takes up to
/// 4 MiB of answers that nobody reads, and a container pays for them with its memory.
const KERNEL_BUFFER: usize = 64 << 10;

/// A byte stream of either kind: one HTTP implementation serves both.
#[derive(Debug)]
pub enum Socket {
    /// From the control socket.
    Unix(UnixStream),
    /// From the telemetry port.
    Tcp(TcpStream),
}

impl Socket {
    /// Limits what the kernel keeps for this connection.
    fn limit_buffers(&self) {
        let socket = match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        };
        // A kernel that refuses only keeps more.
        let _ = setsockopt(&socket, SndBuf, &KERNEL_BUFFER);
        let _ = setsockopt(&socket, RcvBuf, &KERNEL_BUFFER);
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// Tells the other side that nothing more will be said.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// A client's connection.
///
/// actix-http decodes every request that it can read, up to 128 KiB of them, before it answers the first: thousands of
/// requests of a few KiB each. So it gets to read no further than the end of a head, and then nothing more until that
/// request is answered and the kernel has taken the whole answer.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    activity: Activity,
    search: HeadEnd,
    /// Was read from the socket together with the end of a head, and is handed on after its answer.
    unread: Vec<u8>,
    /// A head was handed on, and its answer is not sent yet.
    holds_back: bool,
}

impl Connection {
    /// A connection that was accepted.
    pub fn new(socket: Socket, activity: Activity) -> Self {
        Self { socket, activity, search: HeadEnd::default(), unread: Vec::new(), holds_back: false }
    }

    /// Reads from the socket, unless something is left over from the last read.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            let mut bytes = [0; 4096];
            let mut buffer = ReadBuf::new(&mut bytes);
            ready!(self.socket.poll_read(cx, &mut buffer))?;
            self.unread.extend_from_slice(buffer.filled());
        }
        Poll::Ready(Ok(()))
    }

    /// Hands on what was read, up to the end of a head; says whether a head ended, and how much was handed on.
    fn hand_on(&mut self, buffer: &mut ReadBuf<'_>) -> (bool, usize) {
        let fitting = self.unread.len().min(buffer.remaining());
        let bytes = self.unread.get(..fitting).unwrap_or_default();
        let end = self.search.find(bytes);
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
        // `poll_flush` wakes the task when there is something to read again.
        if self.holds_back {
            return Poll::Pending;
        }
        ready!(self.poll_fill(cx))?;
        let (is_head, count) = self.hand_on(buffer);
        if is_head {
            self.holds_back = true;
            // While a refused body is thrown away nobody flushes unless the task runs once more.
            cx.waker().wake_by_ref();
        }
        if self.activity.receive(count) {
            Poll::Ready(Ok(()))
        } else {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.socket.poll_write(cx, bytes)
    }

    /// actix-http flushes when the kernel has taken everything that it had to write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A request whose body is awaited counts as idle: its body must be read.
        if self.holds_back && self.activity.get() == Occupation::Idle {
            self.holds_back = false;
            // Through the scheduler: other tasks have their turn before the next request.
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(())) // sockets have no buffer of ours
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_finish(cx)
    }
}

/// What becomes of a connection: served until its end.
pub type Serve = Rc<dyn Fn(Connection) -> Pin<Box<dyn Future<Output = ()>>>>;

/// Makes an application serve connections.
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
            // One for each connection, since each keeps a clock that wakes us twice a second: no client, no clock.
            let service = HttpService::build()
                .client_request_timeout(HEAD_TIME)
                .client_disconnect_timeout(DISCONNECT_TIME)
                .keep_alive(KEEP_ALIVE)
                .on_connect_ext(|connection: &Connection, extensions: &mut Extensions| {
                    extensions.insert(connection.activity.clone());
                })
                .h1(fn_factory(move || future::ready(Ok::<_, ()>(Rc::clone(&application)))))
                .new_service(())
                .await;
            // What is wrong with a connection concerns its client, who sees it end.
            if let Ok(service) = service {
                let _ = service.call((connection, None)).await;
            }
        })
    }))
}

/// The connections of one listener, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Connections(Rc<RefCell<Vec<Client>>>);

/// One that is being served.
#[derive(Debug)]
struct Client {
    activity: Activity,
    task: JoinHandle<()>,
}

impl Connections {
    /// Serves a connection, and ends another one if there are too many; the new one if all the others work.
    pub fn add(&self, socket: Socket, serve: &Serve) {
        let mut list = self.0.borrow_mut();
        list.retain(|client| !client.task.is_finished());
        if list.len() >= MOST_CONNECTIONS {
            let oldest = |wanted: Occupation| list.iter().position(|client| client.activity.get() == wanted);
            match oldest(Occupation::Idle).or_else(|| oldest(Occupation::Streaming)) {
                Some(index) => list.remove(index).task.abort(),
                None => return,
            }
        }
        socket.limit_buffers();
        let activity = Activity::idle();
        let task = actix_rt::spawn(serve(Connection::new(socket, activity.clone())));
        list.push(Client { activity, task });
    }

    /// Ends those that do nothing; says whether others are left.
    pub fn end_idle(&self) -> bool {
        let mut list = self.0.borrow_mut();
        list.retain(|Client { activity, task }| {
            let is_idle = activity.get() == Occupation::Idle;
            if is_idle {
                task.abort();
            }
            !is_idle && !task.is_finished()
        });
        !list.is_empty()
    }
}
