//! The event stream as lines for people: `TIME SEQUENCE SOURCE CODE: REASON [pid PID] (cause)`.

use std::io::ErrorKind;

use serde_json::Value;

use super::exchange::TimedResponse;
use super::unreadable;
use crate::cli::CommandError;
use crate::cli::output::{self, Reader};
use crate::printable::printable;

/// Longer than any line of ours, so that another program on the socket cannot fill our memory.
pub const LONGEST_LINE: usize = 1 << 20;

/// Prints events as they come, until the stream ends or nobody reads them any more.
pub async fn print(response: &mut TimedResponse) -> Result<(), CommandError> {
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
        for line in complete_lines(&mut text).lines().filter_map(event_line) {
            if !output::print_bytes(line.as_bytes())? {
                return Ok(());
            }
        }
        if text.len() > LONGEST_LINE {
            return Err(unreadable(&format_args!("a line is longer than {LONGEST_LINE} bytes")));
        }
    }
}

/// Removes all lines that have ended from the text.
pub(super) fn complete_lines(text: &mut Vec<u8>) -> String {
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let lines: Vec<u8> = text.drain(..end).collect();
    String::from_utf8_lossy(&lines).into_owned()
}

/// The line for people; `None` for a line of the stream that has no event and no comment.
fn event_line(line: &str) -> Option<String> {
    if let Some(comment) = line.strip_prefix(": ") {
        return Some(format!("{}\n", printable(comment)));
    }
    let event: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
    let word = |key: &str| printable(event.get(key).and_then(Value::as_str).unwrap_or("?"));
    let number = |key: &str| event.get(key).and_then(Value::as_u64);
    let cause = number("cause").map(|cause| format!(" (because of {cause})")).unwrap_or_default();
    let sequence = number("sequence").unwrap_or(0);
    let reason = event.get("reason").map(|_| format!(": {}", word("reason"))).unwrap_or_default();
    let pid = number("pid").map(|pid| format!(" [pid {pid}]")).unwrap_or_default();
    Some(format!("{} {sequence} {} {}{reason}{pid}{cause}\n", word("time"), word("source"), word("code")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_complete_when_its_newline_has_come() {
        let mut text = b"one\ntw".to_vec();
        assert_eq!(complete_lines(&mut text), "one\n");
        text.extend(b"o\n\nthree");
        assert_eq!(complete_lines(&mut text), "two\n\n");
        assert_eq!(complete_lines(&mut text), "");
        assert_eq!(text, b"three");
    }

    #[test]
    fn an_event_is_a_line_and_the_rest_is_not() {
        let line = r#"data: {"sequence":3,"time":"T","code":"healthy","source":"app","cause":2}"#;
        assert_eq!(event_line(line).unwrap(), "T 3 app healthy (because of 2)\n");
        let line = r#"data: {"sequence":4,"time":"T","code":"exitFailed","source":"app","cause":2,"pid":7,"status":3,"reason":"exited with status 3"}"#;
        assert_eq!(
            event_line(line).unwrap(),
            "T 4 app exitFailed: exited with status 3 [pid 7] (because of 2)\n"
        );
        let line = r#"data: {"sequence":1,"time":"T","code":"startup","source":"global","cause":null}"#;
        assert_eq!(event_line(line).unwrap(), "T 1 global startup\n");
        assert_eq!(
            event_line(": the events up to 5 are no longer known").unwrap(),
            "the events up to 5 are no longer known\n"
        );
        assert_eq!(event_line("id: 3"), None);
        assert_eq!(event_line(""), None);
    }
}
