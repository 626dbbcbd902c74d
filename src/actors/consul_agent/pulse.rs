//! Tells when something in Consul's catalogue has changed, whatever it was: two connections for any number of those
//! who want to know. It lives only while somebody listens.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::{queries, retry};
use crate::consul::{Client, Cursor, Scope};
use crate::process::random_share;

/// How long Consul may hold one question back; a pulse that nobody listens to any more ends after it.
const WAIT: Duration = Duration::from_secs(10);

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

/// Passes on every change, and that nothing is known of what was before the first answer.
async fn follow(client: &Client, scope: Scope, beat: &watch::Sender<()>) {
    let (mut cursor, mut failures) = (Cursor::new(), 0);
    while beat.receiver_count() > 0 {
        let asked = Instant::now();
        let newer_than = cursor.index.map(|index| (index, WAIT));
        let pause = match client.newest(scope, newer_than, queries::LIMIT).await {
            Ok(index) => {
                failures = 0;
                let is_news = cursor.index.is_none() || cursor.index != index;
                if is_news {
                    beat.send_replace(());
                }
                cursor = cursor.after(index, asked.elapsed(), false);
                let listeners = u32::try_from(beat.receiver_count()).unwrap_or(u32::MAX);
                let blocks = is_news && index.is_some();
                cursor.pause(index, if blocks { PER_LISTENER.saturating_mul(listeners) } else { WAIT })
            }
            Err(_) => {
                failures += 1;
                cursor = cursor.anew();
                retry::delay(failures, WAIT, random_share())
            }
        };
        sleep(pause).await;
    }
}
