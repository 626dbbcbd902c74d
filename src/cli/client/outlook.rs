//! `why`, `when` and `graph` for people, and the choice of jobs in `status`.

use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

use super::exchange::{self, TimedRequest};
use super::{
    CommandError, TIMEOUT, get, list, output, printable, printable_lines, success, table, text, unreachable,
};
use crate::cli::{config_path, environment, print_report};
use crate::config::spec::CommandLine;
use crate::config::{self, Loaded, System};
use crate::graph::{Format, Graph};

/// Lines of a paragraph are not longer than this, even if the terminal is wider.
const WIDEST: usize = 100;

/// The status with only these jobs, and without groups and watches; the whole status if none are named.
pub fn only(mut status: Value, names: &[String]) -> Result<Value, CommandError> {
    if names.is_empty() {
        return Ok(status);
    }
    let find = |name: &String| {
        let found = list(&status, "jobs").iter().find(|job| job["name"] == **name).cloned();
        found.ok_or_else(|| CommandError::new(format!("there is no job \"{name}\"")))
    };
    let chosen = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    if let Some(object) = status.as_object_mut() {
        object.insert("jobs".to_owned(), chosen.into());
        for others in ["groups", "watches"] {
            object.insert(others.to_owned(), Value::Array(vec![]));
        }
    }
    Ok(status)
}

/// When jobs are started next. Without names, only those that are.
pub fn when(status: &Value, are_named: bool, width: Option<usize>) -> String {
    let rows: Vec<Vec<String>> = list(status, "jobs")
        .iter()
        .filter(|job| are_named || !job["nextTry"].is_null())
        .map(|job| {
            let reason = if job["reason"].is_null() { &job["state"] } else { &job["reason"] };
            vec![table::word(&job["name"]), table::second(&job["nextTry"]), table::word(reason)]
        })
        .collect();
    if rows.is_empty() {
        return "no job is scheduled or about to be restarted\n".to_owned();
    }
    table::table(&["JOB", "NEXT RUN", "REASON"], rows, width)
}

/// Why a job is where it is: the paragraph, and the chain of events behind it.
pub fn why(answer: &Value, width: Option<usize>) -> String {
    let width = width.unwrap_or(WIDEST).clamp(40, WIDEST);
    let summary = printable(answer["summary"].as_str().unwrap_or_default());
    let (what, to_do) = match summary.split_once(" What to do: ") {
        Some((what, to_do)) => (what, Some(format!("What to do: {to_do}"))),
        None => (summary.as_str(), None),
    };
    let mut text = wrapped(what, width);
    if let Some(to_do) = to_do {
        text.push_str(&wrapped(&to_do, width));
    }
    text.push_str(&last_failure(&answer["lastFailure"]));
    let chain = list(answer, "chain");
    if !chain.is_empty() {
        text.push_str("\nWhat happened before:\n");
    }
    for event in chain {
        let time = table::second(&event["time"]);
        let reason = event["reason"].as_str().map(|reason| format!(": {}", printable(reason)));
        let (source, code) = (table::word(&event["source"]), table::word(&event["code"]));
        text.push_str(&format!("  {time}  {source} {code}{}\n", reason.unwrap_or_default()));
    }
    text
}

/// The cause of the end of the run that failed, and its last output.
fn last_failure(failure: &Value) -> String {
    let mut text = String::new();
    let job = table::word(&failure["job"]);
    if let Some(by) = failure["killedBy"].as_str() {
        text.push_str(&format!("\nWho ended {job}: {}\n", printable(by)));
    }
    let lines = list(failure, "lines");
    if !lines.is_empty() {
        text.push_str(&format!("\nWhat {job} printed last:\n"));
    }
    for line in lines.iter().filter_map(Value::as_str) {
        // A line of a log in JSON has more around it than anybody wants to read.
        let record = serde_json::from_str::<Value>(line).ok();
        let message = record.as_ref().and_then(|record| record.get("msg")?.as_str());
        text.push_str(&format!("  {}\n", printable(message.unwrap_or(line))));
    }
    text
}

/// A paragraph in lines of at most that many characters, as far as words allow.
fn wrapped(text: &str, width: usize) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push_str(&format!("{line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push_str(&format!("{line}\n"));
    lines
}

/// Asks for the graph.
pub fn request(format: Format) -> TimedRequest {
    get(&format!("/v3/graph?format={}", format.name()), Some(TIMEOUT))
}

/// Prints the graph of the running program; if none runs, that of the configuration, with `main` as one more job.
pub async fn graph(
    config: Option<&Path>,
    main: Option<&CommandLine>,
    socket: &Path,
    format: Format,
) -> Result<(), CommandError> {
    let graph = match exchange::send(socket, &request(format)).await {
        Ok(response) => text(&mut success(socket, response).await?).await?,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            // Without a configuration there is nothing but the program to ask.
            let path = config_path(config).map_err(|_| unreachable(socket, &error))?;
            let loaded = config::load_beside(main.cloned(), &path, &environment(), &System::current());
            let Loaded { spec, .. } = loaded.map_err(|report| print_report(&path, &report))?;
            Graph::of(&spec).render(format)
        }
        Err(error) => return Err(unreachable(socket, &error)),
    };
    Ok(output::print(&shown(graph, format))?)
}

/// The graph as it may be printed. JSON stays as it is: our escapes are none of JSON's.
fn shown(graph: String, format: Format) -> String {
    match format {
        Format::Json => graph,
        Format::Text | Format::Dot | Format::Mermaid | Format::Svg => printable_lines(&graph),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_paragraph_is_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 7), "one two\nthree\n");
        assert_eq!(wrapped("longerthanwide a", 5), "longerthanwide\na\n");
    }

    #[test]
    fn an_explanation_has_its_advice_and_its_chain_apart() {
        let answer = json!({
            "summary": "app waits for db. What to do: see db.",
            "lastFailure": {"job": "db", "killedBy": "the kernel", "lines": ["plain", "{\"msg\":\"of JSON\",\"pid\":7}"]},
            "chain": [
                {"time": "2026-11-15T02:43:00.123456789Z", "source": "db", "code": "exitFailed", "reason": "exited with status 1"},
                {"time": "2026-11-15T02:43:01.123456789Z", "source": "db", "code": "stopped"},
            ],
        });
        assert_eq!(
            why(&answer, None),
            "\
app waits for db.
What to do: see db.

Who ended db: the kernel

What db printed last:
  plain
  of JSON

What happened before:
  2026-11-15T02:43:00Z  db exitFailed: exited with status 1
  2026-11-15T02:43:01Z  db stopped
"
        );
    }

    #[test]
    fn a_graph_in_json_stays_json_whatever_its_names_are() {
        for name in ["a\u{202e}b", "a\u{200f}b", "a\u{85}b"] {
            let graph = json!({ "nodes": [{ "name": name }] });
            let told = shown(graph.to_string(), Format::Json);
            assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), graph);
            assert!(!shown(name.to_owned(), Format::Text).contains(name), "a terminal would obey it");
        }
    }

    #[test]
    fn only_jobs_that_exist_can_be_chosen() {
        let status = || json!({ "jobs": [{"name": "a"}, {"name": "b"}], "groups": [{"name": "g"}], "watches": [{"name": "w"}] });
        assert_eq!(only(status(), &[]).unwrap(), status());
        let chosen = only(status(), &["b".to_owned()]).unwrap();
        assert_eq!(chosen, json!({ "jobs": [{"name": "b"}], "groups": [], "watches": [] }));
        assert_eq!(only(status(), &["c".to_owned()]).unwrap_err().to_string(), "there is no job \"c\"");
    }

    #[test]
    fn next_runs_are_shown_of_those_that_have_one_or_that_are_named() {
        let status = json!({ "jobs": [
            {"name": "a", "state": "running", "nextTry": null, "reason": null},
            {"name": "b", "state": "delayed", "nextTry": "2026-11-15T02:43:00.1Z", "reason": "restarts in 3 s"},
        ]});
        let text = when(&status, false, None);
        assert_eq!(text, "JOB  NEXT RUN              REASON\nb    2026-11-15T02:43:00Z  restarts in 3 s\n");
        assert!(when(&status, true, None).contains("a    -"), "{text}");
        assert!(when(&json!({ "jobs": [] }), false, None).starts_with("no job is scheduled"));
    }
}
