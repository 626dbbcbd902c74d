//! `status -watch`: the status, drawn again in place at every change.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use super::changes::{Changes, Woken};
use super::{CommandError, outlook, output, table};
use crate::cli::output::Reader;

/// How often it is drawn at most.
const FASTEST: Duration = Duration::from_millis(100);
/// How often at least: a countdown, the text of a process's status or the first failures of a check have no event.
const SLOWEST: Duration = Duration::from_secs(1);
/// Moves the cursor home and clears the screen (ECMA-48: CUP, ED).
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Draws the status until the program ends, or nobody reads it any more.
pub async fn run(socket: &Path, jobs: &[String]) -> Result<(), CommandError> {
    let mut changes = Changes::follow(socket).await?;
    let reader = Reader::of_stdout();
    let is_terminal = io::stdout().is_terminal();
    let mut last = String::new();
    loop {
        let status = outlook::only(changes.status(socket).await?, jobs)?;
        let text = table::render(&status, output::width());
        // The first line has the uptime, which is no change.
        let body = text.split_once('\n').map_or("", |(_, body)| body).to_owned();
        let is_read = if is_terminal {
            output::print_bytes(format!("{CLEAR}{}", cut(&text, output::height())).as_bytes())?
        } else if body != last {
            output::print_bytes(format!("{text}\n").as_bytes())?
        } else {
            true
        };
        last = body;
        let woken = reader.unless_gone(changes.next(SLOWEST)).await.filter(|_| is_read);
        match woken {
            None => return Ok(()),
            Some(Woken::Ended) => return Err(Changes::ended()),
            Some(Woken::News | Woken::Elapsed) => tokio::time::sleep(FASTEST).await,
        }
    }
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
    use super::*;

    #[test]
    fn a_screen_holds_as_many_lines_as_it_has() {
        assert_eq!(cut("a\nb\nc\n", Some(4)), "a\nb\nc\n");
        assert_eq!(cut("a\nb\nc\n", Some(3)), "a\n…\n");
        assert_eq!(cut("a\nb\nc\n", None), "a\nb\nc\n");
    }
}
