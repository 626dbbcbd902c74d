//! A real Chromium, driven through chromedriver by the WebDriver protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::ports::free_port;
use super::{DEADLINE, comes_true};

/// A browser without a window.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts one with a profile of its own.
    pub fn start() -> Self {
        let (port, profile) = (free_port(), tempfile::tempdir().unwrap());
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        let folder = browser._profile.path().display().to_string();
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "goog:chromeOptions": { "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                format!("--user-data-dir={folder}"),
            ] },
        } } });
        let listens = comes_true(DEADLINE, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        assert!(listens, "chromedriver does not listen");
        let answer = browser.call("POST", "/session", &wanted);
        browser.session = answer["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        browser
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE * 2)).unwrap();
        let text = if method == "POST" { body.to_string() } else { String::new() };
        let length = text.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{text}").as_bytes()).unwrap();
        // chromedriver leaves the connection open: the answer ends where its length says.
        let mut reader = BufReader::new(stream);
        let (mut status, mut length) = (String::new(), 0);
        reader.read_line(&mut status).unwrap();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let line = line.trim().to_ascii_lowercase();
            if let Some(number) = line.strip_prefix("content-length:") {
                length = number.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).unwrap();
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        assert!(status.contains(" 200 "), "{method} {path} {body}: {answer}");
        answer["value"].clone()
    }

    fn command(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}{path}", self.session), body)
    }

    /// Opens a page.
    pub fn open(&self, url: &str) {
        self.command("/url", &json!({ "url": url }));
    }

    /// What a function body returns that runs in the page.
    pub fn run(&self, script: &str) -> Value {
        self.command("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression is true in the page.
    pub fn wait_for(&self, expression: &str) {
        let script = format!("return Boolean({expression});");
        if !comes_true(DEADLINE, || self.run(&script) == Value::Bool(true)) {
            let text = self.run("return document.body.innerText;");
            panic!("never true: {expression}\n{}", text.as_str().unwrap());
        }
    }

    /// Presses a key.
    pub fn press(&self, key: &str) {
        let actions = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        self.command(
            "/actions",
            &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }),
        );
    }

    /// A command of the DevTools protocol.
    pub fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.command("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// What was logged since the last call: by the page ("browser"), or by the network ("performance").
    pub fn log(&self, kind: &str) -> Vec<Value> {
        self.command("/se/log", &json!({ "type": kind })).as_array().cloned().unwrap_or_default()
    }

    /// The window as a PNG, in base64.
    pub fn screenshot(&self) -> String {
        let path = format!("/session/{}/screenshot", self.session);
        self.call("GET", &path, &Value::Null).as_str().unwrap().to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !thread::panicking() {
            self.call("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
