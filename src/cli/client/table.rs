//! The status of a running containerpilot as a table for people. Pure: from the server's JSON to text.

use std::time::Duration;

use serde_json::Value;

use crate::printable::printable;

/// The whole status.
pub fn render(status: &Value) -> String {
    let mut text = summary(status);
    text.push('\n');
    let head = ["JOB", "STATE", "HEALTH", "PID", "RESTARTS", "LAST EXIT", "SINCE"];
    text.push_str(&table(&head, rows(&status["jobs"], job)));
    let watches = rows(&status["watches"], watch);
    if !watches.is_empty() {
        text.push('\n');
        text.push_str(&table(&["WATCH", "INSTANCES"], watches));
    }
    text
}

fn summary(status: &Value) -> String {
    let uptime = Duration::try_from_secs_f64(status["uptime"].as_f64().unwrap_or(0.0)).unwrap_or_default();
    let mut text = format!("containerpilot {}, up {}", word(&status["version"]), span(uptime));
    for (key, words) in [("maintenance", "in maintenance"), ("shuttingDown", "shutting down")] {
        if status[key] == true {
            text.push_str(", ");
            text.push_str(words);
        }
    }
    text.push('\n');
    text
}

fn rows(list: &Value, row: impl Fn(&Value) -> Vec<String>) -> Vec<Vec<String>> {
    list.as_array().map(|list| list.iter().map(row).collect()).unwrap_or_default()
}

fn job(job: &Value) -> Vec<String> {
    let failing = rows(&job["checks"], |check| vec![word(&check["name"]), word(&check["status"])]);
    let failing: Vec<&str> = failing
        .iter()
        .filter_map(|check| match check.as_slice() {
            [name, status] if status == "failing" => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let health = word(&job["health"]);
    let health = if failing.is_empty() { health } else { format!("{health} ({})", failing.join(", ")) };
    // To the second: nobody reads nanoseconds in a table.
    let since = word(&job["since"]);
    let since = since.split('.').next().map_or_else(String::new, |second| format!("{second}Z"));
    vec![
        word(&job["name"]),
        word(&job["state"]),
        health,
        word(&job["pid"]),
        word(&job["restarts"]),
        job.pointer("/lastExit/reason").map_or("-".to_owned(), word),
        since,
    ]
}

fn watch(watch: &Value) -> Vec<String> {
    let instance =
        |instance: &Value| vec![format!("{}:{}", word(&instance["address"]), word(&instance["port"]))];
    let instances = rows(&watch["instances"], instance).concat().join(" ");
    let instances = match (watch["known"] == true, instances.is_empty()) {
        (true, false) => instances,
        (true, true) => "none".to_owned(),
        (false, _) => "unknown".to_owned(),
    };
    vec![word(&watch["name"]), instances]
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => printable(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{}s", seconds % 60),
        (0, _, _) => format!("{hours}h{minutes}m"),
        (_, _, _) => format!("{days}d{hours}h"),
    }
}

/// Columns as wide as their widest word, two spaces apart.
fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let head = head.iter().map(|word| (*word).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|word| word.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(word, width)| format!("{word:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_shows_jobs_and_watches_in_columns() {
        let status = json!({
            "version": "1.0.0", "uptime": 3725.0, "maintenance": true, "shuttingDown": false,
            "jobs": [
                {"name": "app", "state": "running", "health": "unhealthy", "pid": 7, "restarts": 2,
                 "checks": [{"name": "http", "status": "failing"}, {"name": "tcp", "status": "passing"}],
                 "lastExit": {"status": 1, "reason": "exited with 1"}, "since": "2026-11-15T02:43:00.123456789Z"},
                {"name": "setup", "state": "complete", "health": "unknown", "pid": null, "restarts": 0,
                 "checks": [], "lastExit": null, "since": "2026-11-15T02:43:00.123456789Z"},
            ],
            "watches": [
                {"name": "db", "known": true, "instances": [{"id": "a", "address": "10.0.0.1", "port": 5432}]},
                {"name": "mq", "known": false, "instances": []},
            ],
        });
        assert_eq!(
            render(&status),
            "\
containerpilot 1.0.0, up 1h2m, in maintenance

JOB    STATE     HEALTH            PID  RESTARTS  LAST EXIT      SINCE
app    running   unhealthy (http)  7    2         exited with 1  2026-11-15T02:43:00Z
setup  complete  unknown           -    0         -              2026-11-15T02:43:00Z

WATCH  INSTANCES
db     10.0.0.1:5432
mq     unknown
"
        );
    }

    #[test]
    fn times_are_told_in_two_units() {
        for (seconds, expected) in [(5, "5s"), (65, "1m5s"), (3600, "1h0m"), (90_000, "1d1h")] {
            assert_eq!(span(Duration::from_secs(seconds)), expected);
        }
    }
}
