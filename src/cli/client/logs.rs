//! The last output of jobs, printed as it stands in the log; on a terminal without what a terminal would obey.

use std::io::{self, ErrorKind, IsTerminal};

use percent_encoding::utf8_percent_encode;

use super::exchange::TimedResponse;
use super::{RESERVED, unreadable};
use crate::cli::CommandError;
use crate::cli::output::{self, Reader};
use crate::printable::printable_lines;

/// Longer than any line of ours, so that another program on the socket cannot fill our memory.
const LONGEST_LINE: usize = 1 << 20;

/// The path and query that ask for it.
pub fn target(jobs: &[String], follow: bool, lines: usize, since: Option<&str>) -> String {
    let encoded = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
    let mut target = format!("/v3/logs?n={lines}");
    target.extend(jobs.iter().map(|job| format!("&job={}", encoded(job))));
    target.extend(since.map(|since| format!("&since={}", encoded(since))));
    target.extend(follow.then_some("&follow=1"));
    target
}

/// Prints the output as it comes, until the stream ends or nobody reads it any more.
pub async fn print(response: &mut TimedResponse) -> Result<(), CommandError> {
    let (reader, is_terminal) = (Reader::of_stdout(), io::stdout().is_terminal());
    // A chunk may end within a line, and within a character.
    let mut rest = Vec::new();
    loop {
        let Some(chunk) = reader.unless_gone(response.chunk()).await else { break };
        match chunk {
            Ok(Some(piece)) => rest.extend(piece),
            Ok(None) => break,
            // The program that we follow has ended, and the stream with it.
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                break;
            }
            Err(error) => return Err(unreadable(&error)),
        }
        let end = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let lines: Vec<u8> = rest.drain(..end).collect();
        let shown =
            if is_terminal { printable_lines(&String::from_utf8_lossy(&lines)).into_bytes() } else { lines };
        if rest.len() > LONGEST_LINE {
            return Err(unreadable(&format_args!("a line is longer than {LONGEST_LINE} bytes")));
        }
        if !output::print_bytes(&shown)? {
            break;
        }
    }
    Ok(())
}
