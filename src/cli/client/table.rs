//! The status of a running containerpilot as a table for people. Pure: from the server's JSON to text. comfy-table was
//! weighed: it folds what is too wide, where a row here stays a line.

use std::time::Duration;

use serde_json::Value;

use crate::messages::status::NEVER_RAN;
use crate::printable::{cut, printable};

/// A column is not made narrower than this.
const NARROWEST: usize = 8;
/// Columns whose words are short and not chosen by users.
const NEVER_CUT: [&str; 5] = ["STATE", "PID", "RESTARTS", "SINCE", "NEXT RUN"];
/// The number of spaces between two columns.
const GAP: usize = 2;

/// The whole status, in lines of at most `width` characters; `None`: as long as they are.
pub fn render(status: &Value, width: Option<usize>) -> String {
    let line = width.unwrap_or(usize::MAX);
    let mut text: String = summary(status).lines().map(|text| format!("{}\n", cut(text, line))).collect();
    text.push('\n');
    let head = ["JOB", "STATE", "HEALTH", "PID", "RESTARTS", "LAST EXIT", "SINCE", "REASON"];
    let jobs = rows(&status["jobs"], job);
    text.push_str(&table(&head, jobs, width));
    let groups = rows(&status["groups"], group);
    if !groups.is_empty() {
        text.push('\n');
        text.push_str(&table(&["GROUP", "STATE", "RESTARTS", "JOBS"], groups, width));
    }
    let watches = rows(&status["watches"], watch);
    if !watches.is_empty() {
        text.push('\n');
        text.push_str(&table(&["WATCH", "INSTANCES"], watches, width));
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
    if let Some(trouble) = status.pointer("/consul/trouble").filter(|trouble| !trouble.is_null()) {
        text.push_str(&format!("Consul is in trouble: {}\n", word(trouble)));
    }
    text
}

fn rows(list: &Value, row: impl Fn(&Value) -> Vec<String>) -> Vec<Vec<String>> {
    list.as_array().map(|list| list.iter().map(row).collect()).unwrap_or_default()
}

fn job(job: &Value) -> Vec<String> {
    let checks = job["checks"].as_array().into_iter().flatten();
    let failing = checks.filter(|check| check["status"] == "failing").map(|check| word(&check["name"]));
    let failing = failing.collect::<Vec<_>>().join(", ");
    let health = word(&job["health"]);
    let health = if failing.is_empty() { health } else { format!("{health} ({failing})") };
    let since = second(&job["since"]);
    // A complete job has done its work; one that never ran has not.
    let state = if has_never_run(job) { NEVER_RAN.to_owned() } else { word(&job["state"]) };
    let last_exit = job.pointer("/lastExit/reason").map_or("-".to_owned(), word);
    let reason = job["reason"].as_str().map(printable).unwrap_or_default();
    vec![
        word(&job["name"]),
        state,
        health,
        word(&job["pid"]),
        word(&job["restarts"]),
        last_exit,
        since,
        reason,
    ]
}

/// A containerpilot before this one does not tell `hasRun`.
fn has_never_run(job: &Value) -> bool {
    job["state"] == "complete" && job["hasRun"] == false || job["neverRan"].is_string()
}

/// A time without the fraction of its second.
pub fn second(time: &Value) -> String {
    let text = word(time);
    text.split_once('.').map_or(text.clone(), |(second, _)| format!("{second}Z"))
}

fn group(group: &Value) -> Vec<String> {
    let state = match (group["gaveUp"] == true, group["ready"] == true) {
        (true, _) => "gave up",
        (false, true) => "ready",
        (false, false) => "not ready",
    };
    let jobs: Vec<String> = group["jobs"].as_array().into_iter().flatten().map(word).collect();
    vec![word(&group["name"]), state.to_owned(), word(&group["restarts"]), jobs.join(" ")]
}

fn watch(watch: &Value) -> Vec<String> {
    let instance = |instance: &Value| {
        // A key has no address.
        let is_key = instance["address"] == "";
        let address = || format!("{}:{}", word(&instance["address"]), word(&instance["port"]));
        vec![if is_key { word(&instance["id"]) } else { address() }]
    };
    let instances = rows(&watch["instances"], instance).concat().join(" ");
    let instances = match (watch["known"] == true, instances.is_empty()) {
        (true, false) => instances,
        (true, true) => "none".to_owned(),
        (false, _) => "unknown".to_owned(),
    };
    vec![word(&watch["name"]), instances]
}

/// A value in a cell.
pub fn word(value: &Value) -> String {
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

/// Columns as wide as their widest word, two spaces apart. If a line would be too long, words of users are cut; if that is
/// not enough, the line itself.
pub fn table(head: &[&str], rows: Vec<Vec<String>>, width: Option<usize>) -> String {
    let titles = head.iter().map(|word| (*word).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(titles).chain(rows).collect();
    let column = |(index, title): (usize, &&str)| {
        let words = rows.iter().filter_map(|row| row.get(index));
        let width = words.map(|word| word.chars().count()).max().unwrap_or(0);
        (width, !NEVER_CUT.contains(title))
    };
    let columns: Vec<(usize, bool)> = head.iter().enumerate().map(column).collect();
    let line = width.unwrap_or(usize::MAX);
    let widths = fitting(&columns, line);
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(word, width)| format!("{:<width$}", cut(word, *width))).collect();
        text.push_str(&cut(cells.join(&" ".repeat(GAP)).trim_end(), line));
        text.push('\n');
    }
    text
}

/// The widths of columns that fit into a line, given their widths and whether they may be cut: the widest give way.
fn fitting(columns: &[(usize, bool)], line: usize) -> Vec<usize> {
    let cut = |most: usize| {
        columns.iter().map(move |(width, may_be_cut)| if *may_be_cut { (*width).min(most) } else { *width })
    };
    let gaps = GAP * columns.len().saturating_sub(1);
    let widest = columns.iter().map(|(width, _)| *width).max().unwrap_or(0);
    let most = (NARROWEST..=widest.min(line)).rev().find(|most| cut(*most).sum::<usize>() + gaps <= line);
    cut(most.unwrap_or(NARROWEST)).collect()
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
                 "lastExit": {"status": 1, "reason": "exited with 1"}, "since": "2026-11-15T02:43:00.123456789Z",
                 "reason": "http: answered 500"},
                {"name": "setup", "state": "complete", "health": "unknown", "pid": null, "restarts": 0,
                 "checks": [], "lastExit": null, "since": "2026-11-15T02:43:00.123456789Z"},
            ],
            "watches": [
                {"name": "db", "known": true, "instances": [{"id": "a", "address": "10.0.0.1", "port": 5432}]},
                {"name": "mq", "known": false, "instances": []},
                {"name": "motd", "known": true, "instances": [{"id": "app/motd", "address": "", "port": 0}]},
            ],
        });
        assert_eq!(
            render(&status, None),
            "\
containerpilot 1.0.0, up 1h2m, in maintenance

JOB    STATE     HEALTH            PID  RESTARTS  LAST EXIT      SINCE                 REASON
app    running   unhealthy (http)  7    2         exited with 1  2026-11-15T02:43:00Z  http: answered 500
setup  complete  unknown           -    0         -              2026-11-15T02:43:00Z

WATCH  INSTANCES
db     10.0.0.1:5432
mq     unknown
motd   app/motd
"
        );
    }

    #[test]
    fn groups_are_shown_with_their_jobs() {
        let group = |name: &str, ready: bool, gave_up: bool| json!({"name": name, "jobs": ["db", "app"], "ready": ready, "restarts": 2, "gaveUp": gave_up});
        let groups = [group("web", true, false), group("back", false, false), group("old", false, true)];
        let text = render(&json!({"version": "1", "uptime": 1.0, "jobs": [], "groups": groups}), None);
        assert!(
            text.ends_with(
                "
GROUP  STATE      RESTARTS  JOBS
web    ready      2         db app
back   not ready  2         db app
old    gave up    2         db app
"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_job_that_never_ran_says_why_and_consuls_trouble_is_shown() {
        let status = json!({
            "version": "1", "uptime": 1.0, "consul": {"trouble": "it cannot be reached: Connection refused"},
            "jobs": [{"name": "app", "state": "complete", "health": "unknown", "pid": null, "restarts": 0, "checks": [],
                      "lastExit": null, "neverRan": "\"migrate exitSuccess\" can no longer come", "hasRun": false,
                      "reason": "never ran: migrate failed", "since": "2026-11-15T02:43:00.1Z"},
                     {"name": "web", "state": "complete", "health": "unknown", "pid": null, "restarts": 0, "checks": [],
                      "lastExit": null, "neverRan": null, "hasRun": false,
                      "reason": "never ran: the program shuts down", "since": "2026-11-15T02:43:00.1Z"}],
        });
        assert_eq!(
            render(&status, None),
            "\
containerpilot 1, up 1s
Consul is in trouble: it cannot be reached: Connection refused

JOB  STATE      HEALTH   PID  RESTARTS  LAST EXIT  SINCE                 REASON
app  never ran  unknown  -    0         -          2026-11-15T02:43:00Z  never ran: migrate failed
web  never ran  unknown  -    0         -          2026-11-15T02:43:00Z  never ran: the program shuts down
"
        );
    }

    #[test]
    fn long_words_are_cut_to_the_width_of_the_terminal() {
        let rows = || vec![vec!["x".repeat(500), "y".repeat(30), "short".to_owned()]];
        for width in [60, 80, 200, 1000] {
            let text = table(&["ONE", "TWO", "THREE"], rows(), Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            assert_eq!(text.contains('…'), width < 600, "{text}");
            assert!(text.contains("short"), "{text}");
        }
        assert!(table(&["ONE", "TWO", "THREE"], rows(), None).contains(&"x".repeat(500)));
        assert_eq!(fitting(&[(100, true), (100, true), (5, true)], 60), [25, 25, 5]);
        assert_eq!(fitting(&[(100, true), (20, false)], 50), [28, 20]);
        assert_eq!(fitting(&[(9, true), (9, true)], 1), [8, 8], "not narrower than can be read");
        assert_eq!(fitting(&[], 1), [0; 0]);
    }

    #[test]
    fn no_line_of_the_status_is_longer_than_the_terminal_is_wide() {
        let job = |name: &str| {
            json!({"name": name, "state": "terminating", "health": "unhealthy", "pid": 4_194_303, "restarts": 12,
                   "checks": [{"name": "http", "status": "failing"}], "since": "2026-11-15T02:43:00.1Z",
                   "lastExit": {"reason": "killed by SIGKILL after killTimeout"}, "reason": "it is stopped by hand"})
        };
        let status = json!({
            "version": "1", "uptime": 1.0, "jobs": [job("application"), job("b")],
            "consul": {"trouble": "it cannot be reached: Connection refused by the agent at 127.0.0.1:8500"},
            "groups": [{"name": "g".repeat(30), "jobs": ["application", "b"], "restarts": 2}],
            "watches": [{"name": "w".repeat(30), "known": false}],
        });
        for width in [1, 20, 60, 80] {
            let text = render(&status, Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            assert_eq!(text.lines().count(), render(&status, None).lines().count(), "{width}: {text}");
        }
    }

    #[test]
    fn times_are_told_in_two_units() {
        for (seconds, expected) in [(5, "5s"), (65, "1m5s"), (3600, "1h0m"), (90_000, "1d1h")] {
            assert_eq!(span(Duration::from_secs(seconds)), expected);
        }
    }
}
