//! The connections of one listener. Their number is limited: an idle connection is closed for a new one, or one whose client
//! does not read; while all others are being answered, the new one waits. No client can delay a reload or a shutdown.
//!
//! Written by hand, since actix-web's `HttpServer` is not used (`listener` says why).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use actix_rt::task::JoinHandle;
use nix::sys::resource::{Resource, getrlimit};
use tokio::time::Instant;

use super::connection::{Connection, ConnectionState, ConnectionTracker, Serve};
use super::socket::{Socket, limit_buffers};

/// The limit on the connections of one listener.
const MOST_CONNECTIONS: usize = 128;
/// And on their share of the descriptors that we may have: jobs need some, too.
const SHARE_OF_DESCRIPTORS: u64 = 8;
/// How often it is looked whether one of them is done while a new client waits.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The connections of one listener, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Connections(Rc<RefCell<Vec<Client>>>);

/// A connection that is being served.
#[derive(Debug)]
struct Client {
    tracker: ConnectionTracker,
    task: JoinHandle<()>,
}

impl Connections {
    /// Waits until there is room for one more, or one that can be closed for it.
    pub async fn make_room(&self) {
        while self.is_full() {
            // Requests that have arrived are read first: if this program did not run for a while, a connection whose request waits in the
            // kernel looks as idle as the others.
            tokio::task::yield_now().await;
            if self.closable().is_some() {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn is_full(&self) -> bool {
        let mut list = self.0.borrow_mut();
        list.retain(|client| !client.task.is_finished());
        list.len() >= most_connections(getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft))
    }

    /// The connection to close for a new one: the one that has been idle for longest, else the one whose client has not read for
    /// longest, else the oldest stream of events.
    fn closable(&self) -> Option<usize> {
        self.earliest(ConnectionTracker::idle_since)
            .or_else(|| self.earliest(ConnectionTracker::unread_since))
            .or_else(|| self.earliest(ConnectionTracker::streaming_since))
    }

    /// The connection with the earliest of these times.
    fn earliest(&self, time: impl Fn(&ConnectionTracker) -> Option<Instant>) -> Option<usize> {
        let list = self.0.borrow();
        let times =
            list.iter().enumerate().filter_map(|(index, client)| Some((time(&client.tracker)?, index)));
        times.min().map(|(_, index)| index)
    }

    /// Serves a connection for which there is room. If there are too many, another one is closed for it.
    pub fn add(&self, socket: Box<dyn Socket>, serve: &Serve) {
        if self.is_full()
            && let Some(index) = self.closable()
        {
            self.0.borrow_mut().remove(index).task.abort();
        }
        let mut list = self.0.borrow_mut();
        limit_buffers(&*socket);
        let tracker = ConnectionTracker::default();
        let task = actix_rt::spawn(serve(Connection::new(socket, tracker.clone())));
        list.push(Client { tracker, task });
    }

    /// Closes the idle connections; true if others are left.
    pub fn end_idle(&self) -> bool {
        let mut list = self.0.borrow_mut();
        list.retain(|Client { tracker, task }| {
            let is_idle = tracker.state() == ConnectionState::Idle;
            if is_idle {
                task.abort();
            }
            !is_idle && !task.is_finished()
        });
        !list.is_empty()
    }
}

/// The limit on the connections of one listener, where so many descriptors may be open.
fn most_connections(descriptors: u64) -> usize {
    let share = usize::try_from(descriptors / SHARE_OF_DESCRIPTORS).unwrap_or(usize::MAX);
    share.clamp(1, MOST_CONNECTIONS)
}

#[cfg(test)]
mod tests {
    use std::{future, io};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// Says that it answers until it is told that it may end.
    fn answering(done: &Rc<tokio::sync::Notify>) -> Serve {
        let done = Rc::clone(done);
        Rc::new(move |connection: Connection| {
            let done = Rc::clone(&done);
            connection.tracker.set_state(ConnectionState::Answering);
            Box::pin(async move {
                done.notified().await;
                drop(connection);
            })
        })
    }

    fn is_served(connections: &Connections, serve: &Serve) -> (bool, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        connections.add(Box::new(ours), serve);
        let is_open =
            matches!(theirs.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        (is_open, theirs)
    }

    #[test]
    fn where_few_files_may_be_open_there_are_fewer_connections() {
        let limits = [1, 40, 128, 1000, 1024, u64::MAX].map(most_connections);
        assert_eq!(limits, [1, 5, 16, 125, 128, 128]);
    }

    #[actix::test]
    async fn a_new_client_waits_until_one_of_the_others_is_answered() {
        let (connections, done) = (Connections::default(), Rc::new(tokio::sync::Notify::new()));
        let serve = answering(&done);
        let all: Vec<_> = (0..MOST_CONNECTIONS).map(|_| is_served(&connections, &serve)).collect();
        assert!(connections.is_full() && connections.closable().is_none());
        let waiting = connections.clone();
        let room = actix_rt::spawn(async move { waiting.make_room().await });
        tokio::time::pause();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!room.is_finished(), "it is not turned away");
        let began = Instant::now();
        done.notify_one();
        room.await.expect("it ends");
        assert!(began.elapsed() < SOON);
        assert!(is_served(&connections, &serve).0, "there is room");
        drop(all);
    }

    #[actix::test]
    async fn a_new_client_has_time_to_send_its_request_before_it_is_closed_for_another_one() {
        let (connections, done) = (Connections::default(), Rc::new(tokio::sync::Notify::new()));
        let serve = answering(&done);
        let all: Vec<_> = (1..MOST_CONNECTIONS).map(|_| is_served(&connections, &serve)).collect();
        let silent: Serve = Rc::new(|connection| {
            Box::pin(async move {
                future::pending::<()>().await;
                drop(connection);
            })
        });
        let (is_open, new) = is_served(&connections, &silent);
        assert!(is_open && connections.is_full());
        assert_eq!(connections.closable(), None);
        connections.make_room().await;
        assert_eq!(connections.closable(), Some(MOST_CONNECTIONS - 1));
        drop((all, new));
    }

    #[actix::test]
    async fn the_client_that_has_been_idle_for_longest_is_closed_for_another_one() {
        let connections = Connections::default();
        let idle: Serve = Rc::new(|connection| {
            Box::pin(async move {
                future::pending::<()>().await;
                drop(connection);
            })
        });
        let first = is_served(&connections, &idle);
        let all: Vec<_> = (1..MOST_CONNECTIONS).map(|_| is_served(&connections, &idle)).collect();
        connections.make_room().await;
        assert_eq!(connections.closable(), Some(0));
        // It asks once more, so that all others have been idle for longer.
        for state in [ConnectionState::Answering, ConnectionState::Idle] {
            connections.0.borrow()[0].tracker.set_state(state);
        }
        assert_eq!(connections.closable(), Some(1));
        drop((first, all));
    }

    #[actix::test]
    async fn a_client_that_does_not_read_is_closed_for_another_one() {
        let connections = Connections::default();
        // Writes more than the kernel keeps for a client.
        let serve: Serve = Rc::new(move |mut connection: Connection| {
            connection.tracker.set_state(ConnectionState::Answering);
            Box::pin(async move {
                let _ = connection.write_all(&vec![b'x'; 1 << 20]).await;
            })
        });
        let mut all: Vec<_> = (0..MOST_CONNECTIONS).map(|_| is_served(&connections, &serve).1).collect();
        tokio::task::yield_now().await;
        assert_eq!(connections.closable(), None);
        let began = Instant::now();
        connections.make_room().await;
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        all.push(is_served(&connections, &serve).1);
        assert_eq!(connections.0.borrow().len(), MOST_CONNECTIONS);
        let mut first = vec![];
        let read = all.swap_remove(0).read_to_end(&mut first).await;
        assert!(
            read.is_ok() && first.len() < 1 << 20,
            "the oldest was closed: {read:?}, {} bytes",
            first.len()
        );
    }
}
