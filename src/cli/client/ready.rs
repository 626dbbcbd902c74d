//! `-ready`: exits 0 if the container is ready, or the named jobs are; else 1 with the reasons.

use std::path::Path;
use std::time::Duration;

use percent_encoding::utf8_percent_encode;
use serde_json::Value;
use tokio::time::{self, Instant};

use super::changes::{Changes, Woken};
use super::exchange::{self, TimedRequest};
use super::{
    CommandError, RESERVED, TIMEOUT, answered, get, list, output, printable, text, unreachable, word,
};

/// How long to wait for a program that does not run yet, or for a change that has no event.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Asks whether these jobs are ready; without any, whether the container is.
pub fn request(jobs: &[String], timeout: Duration) -> TimedRequest {
    let name = |job: &String| format!("job={}", utf8_percent_encode(job, RESERVED));
    let query = jobs.iter().map(name).collect::<Vec<_>>().join("&");
    let question = if query.is_empty() { "" } else { "?" };
    get(&format!("/v3/ready{question}{query}"), Some(timeout))
}

/// Asks, and with `wait` asks again until it is ready or the time is over.
pub async fn run(socket: &Path, jobs: &[String], wait: Option<Duration>) -> Result<(), CommandError> {
    let deadline = wait.map(|wait| Instant::now() + wait);
    let mut changes: Option<Changes> = None;
    loop {
        // Also a program that answers nothing is not waited for any longer.
        let timeout = deadline.map_or(TIMEOUT, |deadline| {
            deadline.saturating_duration_since(Instant::now()).clamp(LOOK_AGAIN, TIMEOUT)
        });
        let error = match look(socket, jobs, timeout).await {
            Ok(()) => {
                return Ok(output::print("ready\n")?);
            }
            Err(Obstacle::Final(error)) => return Err(error),
            Err(Obstacle::ForNow(error)) => error,
        };
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let Some(left) = left.filter(|left| !left.is_zero()) else { return Err(error) };
        if changes.is_none() {
            let following = time::timeout(LOOK_AGAIN.min(left), Changes::follow(socket)).await;
            changes = following.ok().and_then(Result::ok);
        }
        match &mut changes {
            Some(following) => {
                if following.next(LOOK_AGAIN.min(left)).await == Woken::Ended {
                    changes = None;
                }
            }
            None => time::sleep(LOOK_AGAIN.min(left)).await,
        }
    }
}

/// Why it is not ready.
enum Obstacle {
    /// It may be soon.
    ForNow(CommandError),
    /// It will never be.
    Final(CommandError),
}

async fn look(socket: &Path, jobs: &[String], timeout: Duration) -> Result<(), Obstacle> {
    let sent = exchange::send(socket, &request(jobs, timeout)).await;
    let mut response = sent.map_err(|error| Obstacle::ForNow(unreachable(socket, &error)))?;
    let status = response.status();
    if status == 200 {
        return Ok(());
    }
    let body = text(&mut response).await.map_err(Obstacle::ForNow)?;
    let answer: Value = serde_json::from_str(&body).unwrap_or_default();
    match (status, answer.get("error").and_then(Value::as_str)) {
        (503, None) => Err(Obstacle::ForNow(CommandError::new(reasons(&answer)))),
        (_, Some(error)) => Err(Obstacle::Final(CommandError::new(printable(error)))),
        (_, None) => Err(Obstacle::Final(answered(socket, status, &body))),
    }
}

/// The reasons why it is not ready, for people.
fn reasons(answer: &Value) -> String {
    let jobs =
        list(answer, "notReady").iter().map(|job| format!("{} {}", word(job, "name"), word(job, "reason")));
    let shutdown = (answer["shuttingDown"] == true).then(|| "the program is shutting down".to_owned());
    format!("not ready: {}", shutdown.into_iter().chain(jobs).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn the_time_to_wait_ends_also_if_the_program_does_not_answer_any_more() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        tokio::spawn(async move {
            let (mut first, _) = listener.accept().await.unwrap();
            assert_ne!(first.read(&mut [0; 4096]).await.unwrap(), 0);
            first
                .write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}")
                .await
                .unwrap();
            let mut silent = Vec::new();
            loop {
                silent.push(listener.accept().await.unwrap());
            }
        });
        let waiting = run(&socket, &[], Some(Duration::from_millis(100)));
        let ended = time::timeout(Duration::from_secs(30), waiting).await;
        assert!(ended.is_ok_and(|outcome| outcome.is_err()));
    }

    #[test]
    fn every_reason_is_told() {
        let answer = json!({
            "ready": false, "shuttingDown": false,
            "notReady": [{"name": "app", "reason": "is being started"}, {"name": "db", "reason": "is unhealthy"}],
        });
        assert_eq!(reasons(&answer), "not ready: app is being started; db is unhealthy");
        assert_eq!(
            reasons(&json!({ "notReady": [], "shuttingDown": true })),
            "not ready: the program is shutting down"
        );
    }

    #[test]
    fn names_are_encoded() {
        assert_eq!(request(&[], TIMEOUT).request.target, "/v3/ready");
        let names = ["/bin/my app".to_owned(), "b".to_owned()];
        assert_eq!(request(&names, TIMEOUT).request.target, "/v3/ready?job=%2Fbin%2Fmy%20app&job=b");
    }
}
