//! The event stream as lines for people: `TIME SEQUENCE SOURCE CODE: REASON [pid PID] (cause)`.

use std::path::Path;

use serde_json::Value;

use super::{CommandError, TIMEOUT, ask, get, printable, stream, word};

/// Prints the events after that sequence number, and with `follow` also new ones as they happen.
pub async fn run(socket: &Path, since: Option<u64>, follow: bool) -> Result<(), CommandError> {
    let timeout = if follow { None } else { Some(TIMEOUT) };
    let response = ask(socket, &get(&target(since, follow), timeout)).await?;
    stream::print(response, |lines| {
        String::from_utf8_lossy(&lines).lines().filter_map(event_line).collect::<String>().into_bytes()
    })
    .await
}

/// The path and query that ask for the events after that sequence number, and with `follow` for new ones.
pub fn target(since: Option<u64>, follow: bool) -> String {
    let since = since.map(|since| format!("&since={since}")).unwrap_or_default();
    format!("/v3/events?wait={}{since}", u8::from(follow))
}

/// The line for people; `None` for a line of the stream that has no event and no comment.
fn event_line(line: &str) -> Option<String> {
    if let Some(comment) = line.strip_prefix(": ") {
        return Some(format!("{}\n", printable(comment)));
    }
    let event: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
    let number = |key: &str| event.get(key).and_then(Value::as_u64);
    let cause = number("cause").map(|cause| format!(" (because of {cause})")).unwrap_or_default();
    let sequence = number("sequence").unwrap_or(0);
    let reason = event.get("reason").map(|_| format!(": {}", word(&event, "reason"))).unwrap_or_default();
    let pid = number("pid").map(|pid| format!(" [pid {pid}]")).unwrap_or_default();
    let (time, source, code) = (word(&event, "time"), word(&event, "source"), word(&event, "code"));
    Some(format!("{time} {sequence} {source} {code}{reason}{pid}{cause}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
