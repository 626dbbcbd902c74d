//! HTTP as tests speak it: whole requests, or bytes of the test's own choice.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::{DEADLINE, Pilot};

/// An answer to a request.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code; 0 if the connection ended without an answer.
    pub status: u16,
    /// The head, status line included.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The text of the metric's line that begins with this, without it.
    pub fn sample(&self, series: &str) -> Option<String> {
        let line = self
            .body
            .lines()
            .find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')))?;
        Some(line[series.len() + 1..].to_owned())
    }
}

/// Everything that the other side says until it closes the connection.
pub fn answer(mut stream: impl Read) -> Answer {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// One request on a connection of its own.
pub fn request(mut stream: impl Read + Write, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    answer(stream)
}

/// A connection to a unix socket on which nothing waits for ever.
pub fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Gets a path of a port of this machine.
pub fn get_port(port: u16, path: &str, headers: &str) -> Answer {
    match TcpStream::connect(("127.0.0.1", port)) {
        Ok(stream) => {
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            request(stream, "GET", path, headers, "")
        }
        Err(_) => Answer { status: 0, head: String::new(), body: String::new() },
    }
}

impl Pilot {
    /// Waits until the control socket is there, which is before the first event.
    fn await_socket(&self) {
        if self.unread.is_some() {
            self.eventually("the control socket is there", || UnixStream::connect(self.socket()).is_ok());
        } else {
            self.wait_for_event("global startup");
        }
    }

    /// A connection to the control socket.
    pub fn connect(&self) -> UnixStream {
        self.await_socket();
        connect(&self.socket())
    }

    /// Asks the control socket.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        request(self.connect(), method, path, "", body)
    }

    /// The status of one job.
    pub fn status_of(&self, job: &str) -> Value {
        let status = self.ask("GET", "/v3/status", "").json();
        let jobs = status["jobs"].as_array().unwrap();
        jobs.iter().find(|found| found["name"] == job).cloned().unwrap_or(Value::Null)
    }

    /// The process of a job that runs, or is about to.
    pub fn pid_of(&self, job: &str) -> i64 {
        self.eventually(&format!("{job} runs"), || self.status_of(job)["pid"].is_i64());
        self.status_of(job)["pid"].as_i64().unwrap_or_else(|| self.fail(&format!("{job} does not run")))
    }

    /// The configuration's file.
    pub fn config(&self) -> PathBuf {
        self.path("containerpilot.json5")
    }

    /// Replaces a text of the configuration's file.
    pub fn edit(&self, old: &str, new: &str) {
        let text = self.text("containerpilot.json5");
        assert!(text.contains(old), "{old} in {text}");
        std::fs::write(self.config(), text.replace(old, new)).unwrap();
    }

    /// Runs the program as a client of this one.
    pub fn client(&self, arguments: &[&str]) -> Output {
        self.await_socket();
        let mut command = Command::new(super::program());
        command.arg("-config").arg(self.config()).args(arguments).output().unwrap()
    }

    /// The same, and it must succeed; what it printed.
    pub fn tell(&self, arguments: &[&str]) -> String {
        let output = self.client(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() || !errors.is_empty() {
            self.fail(&format!("{arguments:?}: {} {errors}", output.status));
        }
        String::from_utf8(output.stdout).unwrap()
    }
}
