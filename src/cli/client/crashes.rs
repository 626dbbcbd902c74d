//! Dossiers of crashes for people: a line for each, and with the name of a job all that is known of each.

use std::fmt::Write;

use serde_json::Value;

use super::{list, word};
use crate::printable::printable;

/// All dossiers in the response, newest first.
pub fn render(response: &Value, in_full: bool) -> String {
    let crashes = list(response, "crashes");
    if crashes.is_empty() {
        return "no crashes\n".to_owned();
    }
    let texts: Vec<String> =
        crashes.iter().map(|crash| if in_full { dossier(crash) } else { summary(crash) }).collect();
    texts.join(if in_full { "\n" } else { "" })
}

/// `TIME JOB: REASON after SECONDS; DECISION`
fn summary(crash: &Value) -> String {
    let seconds = crash.get("seconds").and_then(Value::as_f64).unwrap_or_default();
    let (time, job) = (word(crash, "time"), word(crash, "job"));
    let (reason, decision) = (word(crash, "reason"), word(crash, "decision"));
    let pid = crash.get("pid").and_then(Value::as_i64).map(|pid| format!(" [pid {pid}]")).unwrap_or_default();
    format!("{time} {job}{pid}: {reason} after {seconds:.1}s; {decision}\n")
}

fn dossier(crash: &Value) -> String {
    let mut text = summary(crash);
    if crash.get("killedBy").is_some_and(Value::is_string) {
        let _ = writeln!(text, "  killed by: {}", word(crash, "killedBy"));
    }
    if let Some(usage) = crash.get("rusage").filter(|usage| usage.is_object()) {
        let number = |key: &str| usage.get(key).and_then(Value::as_f64).unwrap_or_default();
        let cpu = number("userSeconds") + number("systemSeconds");
        let _ =
            writeln!(text, "  used: {cpu:.2}s of CPU, at most {:.0} KiB of memory", number("maxResidentKiB"));
    }
    for check in list(crash, "checks") {
        let reason = check.get("reason").filter(|reason| reason.is_string());
        let reason = reason.map(|_| format!(": {}", word(check, "reason"))).unwrap_or_default();
        let _ = writeln!(text, "  check {} was {}{reason}", word(check, "name"), word(check, "status"));
    }
    section(&mut text, "the events before", list(crash, "events").iter().map(event));
    section(
        &mut text,
        "its last lines",
        list(crash, "lines").iter().filter_map(Value::as_str).map(printable),
    );
    text
}

fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        let _ = writeln!(text, "  {title}:");
    }
    for line in lines {
        let _ = writeln!(text, "    {line}");
    }
}

fn event(event: &Value) -> String {
    let reason = event.get("reason").map(|_| format!(": {}", word(event, "reason"))).unwrap_or_default();
    format!("{} {} {}{reason}", word(event, "time"), word(event, "source"), word(event, "code"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn crashes() -> Value {
        json!({ "crashes": [{
            "job": "app", "time": "T", "status": 137, "signal": "SIGKILL", "killedBy": "containerpilot: its time was over",
            "reason": "ran longer than its timeout: killed by SIGKILL", "pid": 7, "seconds": 1.25,
            "decision": "restarts in 2.0s (restart 1 of 5)",
            "rusage": { "userSeconds": 0.5, "systemSeconds": 0.25, "maxResidentKiB": 1024 },
            "checks": [{ "name": "http", "status": "failing", "reason": "refused" }],
            "lines": ["T app 7 evil \u{1b}[2J"],
            "events": [{ "time": "T", "source": "app", "code": "healthy" }],
        }] })
    }

    #[test]
    fn a_crash_is_one_line_and_in_full_everything() {
        let line = "T app [pid 7]: ran longer than its timeout: killed by SIGKILL after 1.2s; restarts in 2.0s (restart 1 of 5)\n";
        assert_eq!(render(&crashes(), false), line);
        let full = "  killed by: containerpilot: its time was over\n  \
                    used: 0.75s of CPU, at most 1024 KiB of memory\n  check http was failing: refused\n  \
                    the events before:\n    T app healthy\n  its last lines:\n    T app 7 evil \\u{1b}[2J\n";
        assert_eq!(render(&crashes(), true), format!("{line}{full}"));
        assert_eq!(render(&json!({ "crashes": [] }), true), "no crashes\n");
    }
}
