//! `report`: asks a running containerpilot for everything that helps to understand a problem, and writes it into one archive.

mod archive;

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use super::{TIMEOUT, exchange, get, job_path, list, unreachable, unreadable};
use crate::cli::{CommandError, output};
use crate::logging::TimeText;
use crate::printable::printable;
use crate::reason::reason;
use archive::Archive;

/// More than the longest answer of ours, so that another program on the socket cannot fill our memory.
const LONGEST_ANSWER: usize = 64 << 20;
/// The permissions of the archive: jobs may have printed anything.
const FOR_ITS_OWNER: u32 = 0o600;
/// The answers that become a file as they are.
const AS_THEY_ARE: [(&str, &str); 4] = [
    ("status.json", "/v3/status"),
    ("crashes.json", "/v3/crashes"),
    ("log.txt", "/v3/logs?n=1000000000"),
    ("graph.dot", "/v3/graph?format=dot"),
];

/// Writes the report into that file; `-` is stdout, and without a file its name has the time.
pub async fn run(socket: &Path, out: Option<&Path>) -> Result<(), CommandError> {
    let mut report = Report { socket, archive: Archive::new(SystemTime::now()), missing: String::new() };
    report.collect().await?;
    let content = report.archive.finish().map_err(|error| cannot_write("the archive", &error))?;
    if out.is_some_and(|out| out.as_os_str() == "-") {
        return output::print_bytes(&content).map(drop).map_err(|error| cannot_write("to stdout", &error));
    }
    let path = out.map_or_else(default_path, Path::to_path_buf);
    write(&path, &content).map_err(|error| cannot_write(&path.display().to_string(), &error))?;
    let size = content.len().div_ceil(1024);
    Ok(output::print(&format!("{} ({size} KiB)\n", path.display()))?)
}

fn cannot_write(what: &str, error: &io::Error) -> CommandError {
    CommandError::new(format!("cannot write {what}: {}", reason(error)))
}

/// A name in the current directory, such as `containerpilot-report-20261115T024300Z.tar.gz`.
fn default_path() -> PathBuf {
    let time = TimeText::new(SystemTime::now());
    let seconds = String::from_utf8_lossy(time.as_bytes()).chars().take(19).collect::<String>();
    PathBuf::from(format!("containerpilot-report-{}Z.tar.gz", seconds.replace(['-', ':'], "")))
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(FOR_ITS_OWNER).open(path)?;
    // A file that exists keeps its mode when it is opened.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(FOR_ITS_OWNER))?;
    }
    file.write_all(content)?;
    file.sync_all()
}

/// A report that is being made.
struct Report<'a> {
    socket: &'a Path,
    archive: Archive,
    /// What is not in it, and why.
    missing: String,
}

impl Report<'_> {
    async fn collect(&mut self) -> Result<(), CommandError> {
        self.add_own_report().await?;
        for (name, target) in AS_THEY_ARE {
            self.add_answer(name, target).await;
        }
        if let Some(events) = self.answer("events.jsonl", "/v3/events?wait=0&since=0").await {
            self.add("events.jsonl", events_of(&events).as_bytes());
        }
        for (index, job) in self.jobs().await.iter().enumerate() {
            self.add_answer(&format!("why/{index}.json"), &job_path(job, "why")).await;
        }
        if !self.missing.is_empty() {
            let missing = std::mem::take(&mut self.missing);
            self.add("missing.txt", missing.as_bytes());
        }
        Ok(())
    }

    /// The parts that only `/v3/report` tells. Without them there is nobody to ask, so this must work.
    async fn add_own_report(&mut self) -> Result<(), CommandError> {
        let (status, body) =
            ask(self.socket, "/v3/report").await.map_err(|error| unreachable(self.socket, &error))?;
        let text = String::from_utf8_lossy(&body);
        if status != 200 {
            let text = printable(text.trim());
            return Err(CommandError::new(format!(
                "cannot make a report: the program answered {status}: {text}"
            )));
        }
        let mut report: Value = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
        let mut take =
            |key: &str| report.as_object_mut().and_then(|report| report.remove(key)).unwrap_or_default();
        let (configuration, limits, metrics) = (take("configuration"), take("limits"), take("metrics"));
        self.add("configuration.json", format!("{configuration:#}\n").as_bytes());
        let limits = limits.as_object().cloned().unwrap_or_default();
        let limits =
            limits.iter().map(|(path, text)| format!("{path}\n{}\n", text.as_str().unwrap_or_default()));
        self.add("limits.txt", limits.collect::<String>().as_bytes());
        self.add("metrics.txt", metrics.as_str().unwrap_or_default().as_bytes());
        self.add("program.json", format!("{report:#}\n").as_bytes());
        Ok(())
    }

    async fn jobs(&self) -> Vec<String> {
        let Ok((200, body)) = ask(self.socket, "/v3/status").await else { return Vec::new() };
        let status: Value = serde_json::from_slice(&body).unwrap_or_default();
        list(&status, "jobs")
            .iter()
            .filter_map(|job| job.get("name")?.as_str().map(ToOwned::to_owned))
            .collect()
    }

    async fn add_answer(&mut self, name: &str, target: &str) {
        if let Some(body) = self.answer(name, target).await {
            self.add(name, &body);
        }
    }

    /// The answer to a request; if there is none, the report says so and goes on.
    async fn answer(&mut self, name: &str, target: &str) -> Option<Vec<u8>> {
        let why = match ask(self.socket, target).await {
            Ok((200, body)) => return Some(body),
            Ok((status, _)) => format!("the program answered {status}"),
            Err(error) => reason(&error),
        };
        self.missing.push_str(&format!("{name}: {why}\n"));
        None
    }

    fn add(&mut self, name: &str, content: &[u8]) {
        if let Err(error) = self.archive.add(name, content) {
            self.missing.push_str(&format!("{name}: {}\n", reason(&error)));
        }
    }
}

/// The events of a stream, one JSON object per line.
fn events_of(stream: &[u8]) -> String {
    let text = String::from_utf8_lossy(stream);
    text.lines().filter_map(|line| line.strip_prefix("data: ")).map(|event| format!("{event}\n")).collect()
}

/// Status and body of the answer to a GET.
async fn ask(socket: &Path, target: &str) -> io::Result<(u16, Vec<u8>)> {
    let mut response = exchange::send(socket, &get(target, Some(TIMEOUT))).await?;
    let (status, mut body) = (response.status(), Vec::new());
    while let Some(piece) = response.chunk().await? {
        body.extend(piece);
        if body.len() > LONGEST_ANSWER {
            return Err(io::Error::other(format!("the answer is longer than {LONGEST_ANSWER} bytes")));
        }
    }
    Ok((status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_events_becomes_one_object_per_line() {
        let stream = b": the events up to 5 are no longer known\n\nid: 6\ndata: {\"sequence\":6}\n\nid: 7\ndata: {}\n\n";
        assert_eq!(events_of(stream), "{\"sequence\":6}\n{}\n");
    }

    #[test]
    fn a_file_that_exists_is_for_its_owner_only_when_the_report_is_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, FOR_ITS_OWNER);
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn the_name_of_a_report_has_the_time() {
        let path = default_path().display().to_string();
        assert!(path.starts_with("containerpilot-report-2") && path.ends_with("Z.tar.gz"), "{path}");
        assert_eq!(path.len(), "containerpilot-report-20261115T024300Z.tar.gz".len());
    }
}
