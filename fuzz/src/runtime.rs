//! Runtimes for targets with connections. The sockets are real, and this one thread serves both ends of each: when the
//! runtime has nothing to do, nothing is on its way.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use actix::{System, SystemRunner};
use tokio::runtime::Builder;
use tokio::task::yield_now;

thread_local! {
    /// Not dropped: at the end of the thread, others that it would need are gone.
    static SYSTEM: RefCell<Option<ManuallyDrop<SystemRunner>>> = const { RefCell::new(None) };
}

/// The time of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// The real one. To wait costs time, so targets only yield.
    Real,
    /// Stands still while there is something to do, and jumps to the next timer when there is not. An input with pauses of
    /// minutes takes no longer than another one. actix-http's servers take some of their times from the real clock, so
    /// they cannot run in it.
    Paused,
}

/// Runs until the future is done; all futures of a target run in the same runtime.
pub fn block_on<F: Future>(time: Time, future: F) -> F::Output {
    let make = || {
        ManuallyDrop::new(System::with_tokio_rt(|| {
            let mut builder = Builder::new_current_thread();
            builder.enable_all().start_paused(time == Time::Paused).build().expect("a runtime")
        }))
    };
    super::with_shared(&SYSTEM, make, |system| system.block_on(future))
}

/// The output of a future, unless others have run so often and it has not come.
pub async fn within<F: Future>(yields: u32, future: F) -> Option<F::Output> {
    let others = async {
        for _ in 0..yields {
            yield_now().await;
        }
    };
    tokio::select! {
        biased;
        output = future => Some(output),
        () = others => None,
    }
}
