//! The event stream as lines for people: `TIME SEQUENCE SOURCE CODE: REASON [pid PID] (cause)`.

use std::io::{self, BufRead};

use serde_json::Value;

use crate::cli::output;
use crate::printable::printable;

/// Prints events as they come, until the stream ends.
pub fn print(body: impl BufRead) -> io::Result<()> {
    for line in body.lines() {
        match line {
            Ok(line) => {
                if let Some(text) = told(&line) {
                    output::print(&text)?;
                }
            }
            // The program that we follow has ended: so does the stream.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What a line of the stream says; `None` if it says nothing to people.
fn told(line: &str) -> Option<String> {
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
    fn an_event_is_a_line_and_the_rest_is_not() {
        let line = r#"data: {"sequence":3,"time":"T","code":"healthy","source":"app","cause":2}"#;
        assert_eq!(told(line).unwrap(), "T 3 app healthy (because of 2)\n");
        let line = r#"data: {"sequence":4,"time":"T","code":"exitFailed","source":"app","cause":2,"pid":7,"status":3,"reason":"exited with status 3"}"#;
        assert_eq!(told(line).unwrap(), "T 4 app exitFailed: exited with status 3 [pid 7] (because of 2)\n");
        let line = r#"data: {"sequence":1,"time":"T","code":"startup","source":"global","cause":null}"#;
        assert_eq!(told(line).unwrap(), "T 1 global startup\n");
        assert_eq!(
            told(": the events up to 5 are no longer known").unwrap(),
            "the events up to 5 are no longer known\n"
        );
        assert_eq!(told("id: 3"), None);
        assert_eq!(told(""), None);
    }
}
