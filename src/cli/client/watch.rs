//! `status -watch`: the status, drawn again in place at every change.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use super::changes::{Changes, Woken};
use super::{CommandError, outlook, output, table};

/// How often it is drawn at most.
const FASTEST: Duration = Duration::from_millis(100);
/// How often while something is on its way that has no event of its own: a countdown, a process that is being started.
const WHILE_MOVING: Duration = Duration::from_secs(1);
/// How often while nothing happens.
const AT_REST: Duration = Duration::from_secs(30);
/// Moves the cursor home and clears the screen (ECMA-48: CUP, ED).
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Draws the status until the program ends.
pub async fn run(socket: &Path, jobs: &[String]) -> Result<ExitCode, CommandError> {
    let changes = Changes::follow(socket).await?;
    let is_terminal = io::stdout().is_terminal();
    let mut last = String::new();
    loop {
        let status = outlook::only(changes.status(socket).await?, jobs)?;
        let text = table::render(&status, output::width());
        // The first line has the uptime, which is no change.
        let body = text.split_once('\n').map_or("", |(_, body)| body).to_owned();
        if is_terminal {
            output::print(&format!("{CLEAR}{}", cut(&text, output::height())))?;
        } else if body != last {
            output::print(&format!("{text}\n"))?;
        }
        last = body;
        let pause = if is_moving(&status) { WHILE_MOVING } else { AT_REST };
        if changes.next(pause).await == Woken::Ended {
            return Err(Changes::ended());
        }
        tokio::time::sleep(FASTEST).await;
    }
}

/// Whether some job is about to change without an event, or has a countdown.
fn is_moving(status: &Value) -> bool {
    let at_rest = ["waiting", "running", "halted", "complete"];
    let jobs = status["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    jobs.iter().any(|job| {
        let counts_down = job["reason"].as_str().is_some_and(|reason| reason.contains(" in "));
        counts_down || !at_rest.iter().any(|state| job["state"] == *state)
    })
}

/// As many lines as the terminal has.
fn cut(text: &str, height: Option<usize>) -> String {
    let Some(height) = height.filter(|height| text.lines().count() >= *height) else {
        return text.to_owned();
    };
    let lines = text.lines().take(height.saturating_sub(2));
    lines.map(|line| format!("{line}\n")).chain(["…\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_screen_holds_as_many_lines_as_it_has() {
        assert_eq!(cut("a\nb\nc\n", Some(4)), "a\nb\nc\n");
        assert_eq!(cut("a\nb\nc\n", Some(3)), "a\n…\n");
        assert_eq!(cut("a\nb\nc\n", None), "a\nb\nc\n");
    }

    #[test]
    fn only_what_moves_is_looked_at_without_an_event() {
        let job = |state: &str, reason: Value| json!({ "jobs": [{ "state": state, "reason": reason }] });
        assert!(!is_moving(&job("running", Value::Null)));
        assert!(!is_moving(&job("waiting", json!("waits for db healthy"))));
        assert!(is_moving(&job("starting", Value::Null)));
        assert!(is_moving(&job("delayed", json!("restarts in 3 s"))));
        assert!(is_moving(&job("waiting", json!("next in 30 s"))));
    }
}
