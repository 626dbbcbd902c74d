//! Work that may block, on a thread of its own, so that a slow name server or disk holds up nobody. Not in tokio's
//! pool: that panics where it cannot start a thread, as at a container's limit of processes; here it is an error.

use std::io;

/// Does the work and waits for its result. Work that nobody waits for any more is done all the same.
#[cfg(not(test))]
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("offload".to_owned());
    let started = thread.spawn(move || {
        let _ = answer.send(work());
    });
    started.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot start a thread: {}", crate::reason::reason(&error)))
    })?;
    answered.await.map_err(|_| io::Error::other("its thread panicked"))
}

/// In unit tests the work is done at once: the same test takes the same course each time.
#[cfg(test)]
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::yield_now().await;
    Ok(work())
}
