//! How many processes are started before everybody else has their turn. A start takes a while, so a hundred jobs that
//! restart at once would keep clients and timers waiting.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{spawn_local, yield_now};

/// Processes started before sockets and timers are looked at again.
const STARTS_PER_TURN: usize = 2;

/// Who may start a process next, in the order in which they asked.
#[derive(Debug, Clone)]
pub struct Pace {
    permits: Arc<Semaphore>,
    /// Several are about to ask at once.
    expects_several: Rc<Cell<bool>>,
}

/// The right to start one process now.
#[derive(Debug)]
pub struct Turn(OwnedSemaphorePermit);

impl Pace {
    /// Nobody has asked yet.
    pub fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(STARTS_PER_TURN)), expects_several: Rc::default() }
    }

    /// Says that the next to ask is only the first of several.
    pub fn expect_several(&self) {
        self.expects_several.set(true);
    }

    /// A turn, if it is one's turn.
    pub fn try_turn(&self) -> Option<Turn> {
        Arc::clone(&self.permits).try_acquire_owned().ok().map(Turn)
    }

    /// Whether others start one in the same turn, or wait for the next.
    fn is_crowded(&self) -> bool {
        self.permits.available_permits() + 1 < STARTS_PER_TURN
    }

    /// Whether who starts one now is not alone. The first of several can know only from what was said before, and takes
    /// that along.
    pub(super) fn has_company(&self) -> bool {
        let is_first_of_several = self.expects_several.take();
        is_first_of_several || self.is_crowded()
    }

    /// Waits for one's turn; whoever stops waiting loses nobody's turn but its own.
    pub fn turn(&self) -> impl Future<Output = Option<Turn>> + use<> {
        let permits = Arc::clone(&self.permits);
        async move { permits.acquire_owned().await.ok().map(Turn) }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}

impl Turn {
    /// Passes the turn on, once sockets and timers have been looked at.
    pub(super) fn pass_on(self) {
        spawn_local(async move {
            // Returns after the next look at what is ready.
            yield_now().await;
            drop(self.0);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::task::LocalSet;

    use super::*;

    #[tokio::test]
    async fn starts_come_in_the_order_of_requests_a_few_per_turn() {
        let (pace, started) = (Pace::new(), Rc::new(RefCell::new(Vec::new())));
        LocalSet::new()
            .run_until(async {
                let tasks: Vec<_> = (0..7)
                    .map(|number| {
                        let (pace, started) = (pace.clone(), Rc::clone(&started));
                        spawn_local(async move {
                            let turn = pace.turn().await.unwrap();
                            started.borrow_mut().push(number);
                            turn.pass_on();
                        })
                    })
                    .collect();
                yield_now().await;
                assert_eq!(*started.borrow(), [0, 1], "one turn has passed");
                assert!(pace.try_turn().is_none() && pace.is_crowded());
                for task in tasks {
                    task.await.unwrap();
                }
            })
            .await;
        assert_eq!(*started.borrow(), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn who_starts_alone_has_the_turn_to_itself() {
        let pace = Pace::new();
        let first = pace.try_turn();
        assert!(first.is_some() && !pace.is_crowded());
        let second = pace.try_turn();
        assert!(second.is_some() && pace.is_crowded());
    }

    #[test]
    fn the_first_of_several_knows_of_them_and_who_starts_alone_later_does_not() {
        let pace = Pace::new();
        pace.expect_several();
        let others = pace.clone();
        let first = others.try_turn();
        assert!(first.is_some() && others.has_company());
        assert!(!pace.has_company());
    }
}
