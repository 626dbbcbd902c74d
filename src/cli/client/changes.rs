//! Follows the events of a running program, to look again only when something has happened.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{CommandError, ask, get, status};

/// How long the stream of events of a program that has ended may take to end.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// The events of a running program, without their content.
pub struct Changes {
    /// Holds one permit at most: several events make one look.
    news: Arc<Notify>,
    ended: Arc<AtomicBool>,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Something has happened.
    News,
    /// Nothing has, in that time.
    Elapsed,
    /// The program has ended.
    Ended,
}

impl Changes {
    /// Follows what happens from now on.
    pub async fn follow(socket: &Path) -> Result<Self, CommandError> {
        let mut response = ask(socket, &get("/v3/events?wait=1".to_owned(), None)).await?;
        let changes = Self { news: Arc::default(), ended: Arc::default() };
        let (news, ended) = (Arc::clone(&changes.news), Arc::clone(&changes.ended));
        // A task of its own: to give up a read halfway would lose its place in the stream.
        tokio::spawn(async move {
            while let Ok(Some(_)) = response.chunk().await {
                news.notify_one();
            }
            ended.store(true, Ordering::Relaxed);
            news.notify_one();
        });
        Ok(changes)
    }

    /// The status of the program; an error that says so if it has ended.
    pub async fn status(&self, socket: &Path) -> Result<Value, CommandError> {
        match status(socket).await {
            // The socket is gone before the last events are read.
            Err(error) => match self.ends_soon().await {
                true => Err(Self::ended()),
                false => Err(error),
            },
            ok => ok,
        }
    }

    /// The error of a client whose program has ended.
    pub fn ended() -> CommandError {
        CommandError::new("the program has ended")
    }

    async fn ends_soon(&self) -> bool {
        let deadline = Instant::now() + END_PATIENCE;
        while Instant::now() < deadline {
            if self.next(deadline.saturating_duration_since(Instant::now())).await == Woken::Ended {
                return true;
            }
        }
        false
    }

    /// Waits until something happens, but no longer than that.
    pub async fn next(&self, at_most: Duration) -> Woken {
        let woken = tokio::time::timeout(at_most, self.news.notified()).await;
        match woken {
            _ if self.ended.load(Ordering::Relaxed) => Woken::Ended,
            Ok(()) => Woken::News,
            Err(_) => Woken::Elapsed,
        }
    }
}
