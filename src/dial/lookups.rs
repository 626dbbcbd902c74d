//! Looks up the addresses of names: one look-up of each name at a time, shared by all who ask for it.
//!
//! A look-up blocks a thread, and goes on when its check has given up. While a name server is silent, checks that begin again
//! and again must neither use up what a container allows of processes nor keep other names waiting.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::offload;

/// So many names are looked up at a time; the next ones wait.
const MOST: usize = 64;

/// What a look-up has found; `None`: nothing yet.
type Answer = Option<Result<Vec<SocketAddr>, Arc<io::Error>>>;

/// Finds the addresses of a name, with any port. It may block.
type Resolver = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// The look-ups under way, by name.
pub struct Lookups {
    permits: Semaphore,
    under_way: Mutex<BTreeMap<String, watch::Receiver<Answer>>>,
}

/// One look-up. It is over when it is dropped, as when no thread could be started for it.
struct Lookup {
    all: &'static Lookups,
    name: String,
    answer: watch::Sender<Answer>,
    _permit: SemaphorePermit<'static>,
}

impl Lookups {
    /// None yet.
    pub const fn new() -> Self {
        Self { permits: Semaphore::const_new(MOST), under_way: Mutex::new(BTreeMap::new()) }
    }

    /// The addresses of a name, from the look-up of it that is under way or from a new one.
    pub async fn find(&'static self, name: &str, resolve: Resolver) -> io::Result<Vec<SocketAddr>> {
        let under_way = self.lock().get(name).cloned();
        let mut answer = match under_way {
            Some(answer) => answer,
            None => {
                let permit = self.permits.acquire().await.map_err(io::Error::other)?;
                match self.claim(name, permit) {
                    Ok(lookup) => {
                        let answer = lookup.answer.subscribe();
                        offload::run(move || lookup.run(resolve)).await?;
                        answer
                    }
                    // It began while this one waited for its permit.
                    Err(under_way) => under_way,
                }
            }
        };
        match answer.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone()) {
            Some(Ok(addresses)) => Ok(addresses),
            Some(Err(error)) => Err(io::Error::new(error.kind(), error)),
            None => Err(io::Error::other("the look-up of its name ended without a result")),
        }
    }

    /// Enters a look-up of this name, unless there is one.
    fn claim(
        &'static self,
        name: &str,
        permit: SemaphorePermit<'static>,
    ) -> Result<Lookup, watch::Receiver<Answer>> {
        match self.lock().entry(name.to_owned()) {
            Entry::Occupied(under_way) => Err(under_way.get().clone()),
            Entry::Vacant(entry) => {
                let (answer, receiver) = watch::channel(None);
                entry.insert(receiver);
                Ok(Lookup { all: self, name: name.to_owned(), answer, _permit: permit })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, watch::Receiver<Answer>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lookup {
    fn run(self, resolve: Resolver) {
        let found = resolve(&self.name).map_err(Arc::new);
        self.answer.send_replace(Some(found));
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        self.all.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;

    use super::*;

    fn lookups() -> &'static Lookups {
        Box::leak(Box::new(Lookups::new()))
    }

    fn resolve(name: &str) -> io::Result<Vec<SocketAddr>> {
        if name == "wrong" {
            return Err(io::Error::other("no such name"));
        }
        Ok(vec![([127, 0, 0, 1], 0).into()])
    }

    #[tokio::test]
    async fn a_name_whose_look_up_hangs_keeps_no_other_waiting_however_often_it_is_asked_for() {
        let lookups = lookups();
        let permit = lookups.permits.acquire().await.unwrap();
        let hanging = lookups.claim("dead", permit).ok().unwrap();
        for _ in 0..2 * MOST {
            assert!(lookups.find("dead", resolve).now_or_never().is_none());
        }
        assert_eq!(lookups.permits.available_permits(), MOST - 1);
        assert!(lookups.find("localhost", resolve).await.is_ok());
        hanging.run(resolve);
        assert_eq!((lookups.permits.available_permits(), lookups.lock().len()), (MOST, 0));
        assert!(lookups.find("dead", resolve).await.is_ok(), "the next one begins anew");
    }

    #[tokio::test]
    async fn all_who_ask_for_a_name_at_a_time_share_one_look_up() {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        fn counting(name: &str) -> io::Result<Vec<SocketAddr>> {
            RUNS.fetch_add(1, Ordering::Relaxed);
            resolve(name)
        }
        let lookups = lookups();
        let (one, other) = tokio::join!(lookups.find("a", counting), lookups.find("a", counting));
        assert_eq!((one.unwrap(), RUNS.load(Ordering::Relaxed)), (other.unwrap(), 1));
        let (one, other) = tokio::join!(lookups.find("wrong", resolve), lookups.find("wrong", resolve));
        assert_eq!([one, other].map(|failed| failed.unwrap_err().to_string()), ["no such name"; 2]);
    }

    #[tokio::test]
    async fn at_most_so_many_names_are_looked_up_at_a_time() {
        let lookups = lookups();
        let mut hanging = Vec::new();
        for number in 0..MOST {
            let permit = lookups.permits.acquire().await.unwrap();
            hanging.push(lookups.claim(&number.to_string(), permit).ok().unwrap());
        }
        assert!(lookups.find("a", resolve).now_or_never().is_none());
        hanging.pop();
        assert!(lookups.find("a", resolve).await.is_ok());
    }
}
