//! Follows the events of a running program, to look again only when something has happened.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::events::target;
use super::exchange::TimedResponse;
use super::stream::{LONGEST_LINE, complete_lines};
use super::{CommandError, ask, get, status};

/// How long the stream of events of a program that has ended may take to end.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// The pause before a program that has closed the stream, but has not ended, is followed again.
const FOLLOW_AGAIN: Duration = Duration::from_millis(500);

/// The events of a running program. Of their content only the last exit of each job is kept.
pub struct Changes {
    /// Changes with every event; several that nobody has waited for count as one. Closed when the program has ended.
    exits: watch::Receiver<BTreeMap<String, Exit>>,
}

/// The end of a job's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Whether the job counts it as a success.
    pub is_success: bool,
    /// How it ended, such as `exited with status 0`.
    pub reason: String,
    /// Its process, if it was started.
    pub pid: Option<i64>,
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
        let response = stream(socket, None).await?;
        let (sender, exits) = watch::channel(BTreeMap::new());
        let follower = Follower { socket: socket.to_owned(), exits: sender, last: None };
        // A task of its own: to give up a read halfway would lose its place in the stream.
        tokio::spawn(follower.run(response));
        Ok(Self { exits })
    }

    /// The last exit of a job since then.
    pub fn exit(&self, job: &str) -> Option<Exit> {
        self.exits.borrow().get(job).cloned()
    }

    /// The status of the program; an error that says so if it has ended.
    pub async fn status(&mut self, socket: &Path) -> Result<Value, CommandError> {
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

    async fn ends_soon(&mut self) -> bool {
        let deadline = Instant::now() + END_PATIENCE;
        while Instant::now() < deadline {
            if self.next(deadline.saturating_duration_since(Instant::now())).await == Woken::Ended {
                return true;
            }
        }
        false
    }

    /// Waits until something happens, but no longer than that.
    pub async fn next(&mut self, at_most: Duration) -> Woken {
        match tokio::time::timeout(at_most, self.exits.changed()).await {
            Ok(Ok(())) => Woken::News,
            Ok(Err(_)) => Woken::Ended,
            Err(_) => Woken::Elapsed,
        }
    }
}

/// The stream of the events after this one, or of those that come from now on.
async fn stream(socket: &Path, last: Option<u64>) -> Result<TimedResponse, CommandError> {
    ask(socket, &get(&target(last, true), None)).await
}

/// Reads the stream.
struct Follower {
    socket: PathBuf,
    exits: watch::Sender<BTreeMap<String, Exit>>,
    /// The number of the last event that was read.
    last: Option<u64>,
}

impl Follower {
    /// Reads until the program has ended.
    async fn run(mut self, mut response: TimedResponse) {
        loop {
            self.read(response).await;
            match self.again().await {
                Some(next) => response = next,
                None => return,
            }
        }
    }

    async fn read(&mut self, mut response: TimedResponse) {
        let mut text = Vec::new();
        while text.len() <= LONGEST_LINE
            && let Ok(Some(piece)) = response.chunk().await
        {
            text.extend(piece);
            for line in String::from_utf8_lossy(&complete_lines(&mut text)).lines() {
                self.note(line);
            }
            // An event that is no exit is news, too.
            self.exits.send_modify(|_| {});
        }
    }

    fn note(&mut self, line: &str) {
        let event = line.strip_prefix("data: ").and_then(|json| serde_json::from_str::<Value>(json).ok());
        let Some(event) = event else { return };
        let word = |key: &str| event.get(key).and_then(Value::as_str);
        self.last = event.get("sequence").and_then(Value::as_u64).or(self.last);
        let is_success = match word("code") {
            Some("exitSuccess") => true,
            Some("exitFailed") => false,
            Some(_) | None => return,
        };
        let Some(source) = word("source") else { return };
        let reason = word("reason").unwrap_or("ended").to_owned();
        let exit = Exit { is_success, reason, pid: event.get("pid").and_then(Value::as_i64) };
        self.exits.send_modify(|exits| drop(exits.insert(source.to_owned(), exit)));
    }

    /// The stream once more, if the program runs: it closes the oldest one when it has too many clients.
    async fn again(&self) -> Option<TimedResponse> {
        status(&self.socket).await.ok()?;
        tokio::time::sleep(FOLLOW_AGAIN).await;
        stream(&self.socket, self.last).await.ok()
    }
}
