//! A response that goes on, printed line by line: the events, or the output of jobs.

use std::io::ErrorKind;

use super::exchange::TimedResponse;
use super::unreadable;
use crate::cli::CommandError;
use crate::cli::output::{self, Reader};

/// Longer than any line of ours, so that another program on the socket cannot fill our memory.
pub const LONGEST_LINE: usize = 1 << 20;

/// Prints what `shown` makes of the lines, as they come, until the stream ends or nobody reads them any more.
pub async fn print(
    mut response: TimedResponse,
    shown: impl Fn(Vec<u8>) -> Vec<u8>,
) -> Result<(), CommandError> {
    let (reader, mut text) = (Reader::of_stdout(), Vec::new());
    loop {
        let Some(chunk) = reader.unless_gone(response.chunk()).await else { return Ok(()) };
        match chunk {
            Ok(Some(piece)) => text.extend(piece),
            Ok(None) => return Ok(()),
            // The program that we follow has ended, and the stream with it.
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                return Ok(());
            }
            Err(error) => return Err(unreadable(&error)),
        }
        if !output::print_bytes(&shown(complete_lines(&mut text)))? {
            return Ok(());
        }
        if text.len() > LONGEST_LINE {
            return Err(unreadable(&format_args!("a line is longer than {LONGEST_LINE} bytes")));
        }
    }
}

/// Removes all lines that have ended from the text: a piece of a response may end within a line, and within a character.
pub fn complete_lines(text: &mut Vec<u8>) -> Vec<u8> {
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    text.drain(..end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_complete_when_its_newline_has_come() {
        let mut text = b"one\ntw".to_vec();
        assert_eq!(complete_lines(&mut text), b"one\n");
        text.extend(b"o\n\nthree");
        assert_eq!(complete_lines(&mut text), b"two\n\n");
        assert_eq!(complete_lines(&mut text), b"");
        assert_eq!(text, b"three");
    }
}
