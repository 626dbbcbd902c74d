//! Reports that something in Consul's catalogue has changed, without saying what: two connections for any number of
//! subscribers. It runs only while there are subscribers. [`Feed`] decides.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::machine::feed::Feed;
use super::query_pool::REPLY_LIMIT;
use crate::consul::{Client, Scope};
use crate::process::random_share;

/// A feed without subscribers for this long ends. A subscriber is away only while its own query runs.
const LINGER: Duration = Duration::from_secs(10);

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

/// Reports every change, as [`Feed`] decides.
async fn report(client: &Client, scope: Scope, changes: &watch::Sender<()>) {
    let mut feed = Feed::default();
    loop {
        let began = Instant::now();
        let pause = match client.newest(scope, feed.newer_than(), REPLY_LIMIT).await {
            Ok(index) => {
                let outcome = feed.replied(index, began.elapsed(), changes.receiver_count());
                if outcome.is_change {
                    changes.send_replace(());
                }
                outcome.pause
            }
            Err(_) => feed.failed(random_share()),
        };
        sleep(pause).await;
    }
}
