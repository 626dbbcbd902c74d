//! The last output of jobs, printed as it stands in the log; on a terminal without what a terminal would obey.

use std::io::{self, IsTerminal};
use std::path::Path;

use percent_encoding::utf8_percent_encode;

use super::{CommandError, RESERVED, TIMEOUT, ask, get, printable_lines, stream};

/// Prints the last lines of these jobs, or of all, and with `follow` also new ones as they come.
pub async fn run(
    socket: &Path,
    jobs: &[String],
    follow: bool,
    lines: usize,
    since: Option<&str>,
) -> Result<(), CommandError> {
    let timeout = if follow { None } else { Some(TIMEOUT) };
    let response = ask(socket, &get(&target(jobs, follow, lines, since), timeout)).await?;
    let is_terminal = io::stdout().is_terminal();
    stream::print(response, |lines| match is_terminal {
        true => printable_lines(&String::from_utf8_lossy(&lines)).into_bytes(),
        false => lines,
    })
    .await
}

/// The path and query that ask for it.
fn target(jobs: &[String], follow: bool, lines: usize, since: Option<&str>) -> String {
    let encoded = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
    let mut target = format!("/v3/logs?n={lines}");
    target.extend(jobs.iter().map(|job| format!("&job={}", encoded(job))));
    target.extend(since.map(|since| format!("&since={}", encoded(since))));
    target.extend(follow.then_some("&follow=1"));
    target
}
