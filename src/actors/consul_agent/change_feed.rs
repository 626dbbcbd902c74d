//! Reports that something in Consul's catalogue has changed, without saying what: two connections for any number of
//! subscribers. It runs only while there are subscribers.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::machine::retry;
use super::query_pool::REPLY_LIMIT;
use crate::consul::blocking::{Cursor, Reply};
use crate::consul::{Client, Scope};
use crate::process::random_share;

/// How often to query a Consul that does not support blocking queries.
const INTERVAL: Duration = Duration::from_secs(10);
/// A feed without subscribers for this long ends. A subscriber is away only while its own query runs.
const LINGER: Duration = Duration::from_secs(10);
/// The pause after a change, for each subscriber that then sends a query: at most two thousand queries a second.
const PAUSE_PER_SUBSCRIBER: Duration = Duration::from_micros(500);

/// The changes of one Consul.
#[derive(Default)]
pub struct ChangeFeed {
    changes: Rc<watch::Sender<()>>,
    /// Whether a task follows each scope.
    is_followed: [Rc<Cell<bool>>; 2],
}

impl ChangeFeed {
    /// Reports every change from now on, and perhaps some where nothing changed.
    pub fn subscribe(&self, client: &Client) -> watch::Receiver<()> {
        let receiver = self.changes.subscribe();
        for (scope, is_followed) in [Scope::Checks, Scope::Services].into_iter().zip(&self.is_followed) {
            if !is_followed.replace(true) {
                let (client, changes) = (client.clone(), Rc::clone(&self.changes));
                let is_followed = Rc::clone(is_followed);
                actix_rt::spawn(async move {
                    follow(&client, scope, &changes).await;
                    is_followed.set(false);
                });
            }
        }
        receiver
    }
}

/// Reports changes until there are no subscribers.
async fn follow(client: &Client, scope: Scope, changes: &watch::Sender<()>) {
    tokio::select! {
        () = report(client, scope, changes) => {}
        () = abandoned(changes) => {}
    }
}

/// Ends when there were no subscribers for a while.
async fn abandoned(changes: &watch::Sender<()>) {
    loop {
        changes.closed().await;
        sleep(LINGER).await;
        if changes.receiver_count() == 0 {
            return;
        }
    }
}

/// Reports every change, and also the first reply, because the state before it is not known.
async fn report(client: &Client, scope: Scope, changes: &watch::Sender<()>) {
    let (mut cursor, mut failures) = (Cursor::new(), 0);
    loop {
        let (began, newer_than) = (Instant::now(), cursor.newer_than(INTERVAL));
        let pause = match client.newest(scope, newer_than, REPLY_LIMIT).await {
            Ok(index) => {
                failures = 0;
                let is_change = newer_than.map(|(index, _)| index) != index || index.is_none();
                if is_change {
                    changes.send_replace(());
                }
                let subscribers = u32::try_from(changes.receiver_count()).unwrap_or(u32::MAX);
                let interval = match index {
                    Some(_) if is_change => PAUSE_PER_SUBSCRIBER.saturating_mul(subscribers),
                    Some(_) | None => INTERVAL,
                };
                // Only the query of a watch can tell whether a change matters to it.
                let reply = Reply { index, took: began.elapsed(), is_news: false };
                let (next, pause) = cursor.after(reply, interval);
                cursor = next;
                pause
            }
            Err(_) => {
                failures += 1;
                cursor = cursor.anew();
                retry::delay(failures, INTERVAL, false, random_share())
            }
        };
        sleep(pause).await;
    }
}
