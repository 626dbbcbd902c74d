//! Tells when something in Consul's catalogue has changed, whatever it was: two connections for any number of those
//! who want to know. It lives only while somebody listens.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::{queries, retry};
use crate::consul::blocking::{Cursor, Reply};
use crate::consul::{Client, Scope};
use crate::process::random_share;

/// How often to ask a Consul that does not block.
const INTERVAL: Duration = Duration::from_secs(10);

/// A pulse without listeners for this long ends. Listeners come back as soon as they have asked.
const LINGER: Duration = Duration::from_secs(10);

/// Where changes never end, a pause of this much for each who then asks: two thousand questions a second at most.
const PER_LISTENER: Duration = Duration::from_micros(500);

/// The pulse of one Consul.
#[derive(Default)]
pub struct Pulse {
    beat: Rc<watch::Sender<()>>,
    /// Whether each scope is followed.
    followed: [Rc<Cell<bool>>; 2],
}

impl Pulse {
    /// Listens: told of every change from now on, and perhaps of more.
    pub fn feel(&self, client: &Client) -> watch::Receiver<()> {
        let receiver = self.beat.subscribe();
        for (scope, followed) in [Scope::Checks, Scope::Services].into_iter().zip(&self.followed) {
            if !followed.replace(true) {
                let (client, beat, followed) = (client.clone(), Rc::clone(&self.beat), Rc::clone(followed));
                actix_rt::spawn(async move {
                    follow(&client, scope, &beat).await;
                    followed.set(false);
                });
            }
        }
        receiver
    }
}

/// Passes on every change, and that nothing is known of what was before the first answer; ends when nobody listens.
async fn follow(client: &Client, scope: Scope, beat: &watch::Sender<()>) {
    tokio::select! {
        () = pass_on(client, scope, beat) => {}
        () = abandoned(beat) => {}
    }
}

/// Ends when nobody has listened for a while.
async fn abandoned(beat: &watch::Sender<()>) {
    loop {
        beat.closed().await;
        sleep(LINGER).await;
        if beat.receiver_count() == 0 {
            return;
        }
    }
}

/// Passes on every change for as long as it runs.
async fn pass_on(client: &Client, scope: Scope, beat: &watch::Sender<()>) {
    let (mut cursor, mut failures) = (Cursor::new(), 0);
    loop {
        let (asked, newer_than) = (Instant::now(), cursor.newer_than(INTERVAL));
        let pause = match client.newest(scope, newer_than, queries::LIMIT).await {
            Ok(index) => {
                failures = 0;
                let is_change = newer_than.map(|(index, _)| index) != index || index.is_none();
                if is_change {
                    beat.send_replace(());
                }
                let listeners = u32::try_from(beat.receiver_count()).unwrap_or(u32::MAX);
                let pace = match index {
                    Some(_) if is_change => PER_LISTENER.saturating_mul(listeners),
                    Some(_) | None => INTERVAL,
                };
                // Whether a change is news for a watch shows when the watch asks.
                let reply = Reply { index, took: asked.elapsed(), is_news: false };
                let (next, pause) = cursor.after(reply, pace);
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
