//! A real Consul for one test: its own ports and folder, ended with the test.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::ports::free_port;
use super::{DEADLINE, LOOK_EVERY, comes_true};

/// How long an answer of the test's own Consul may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A Consul agent in development mode: a server of its own, that keeps nothing.
pub struct Consul {
    dir: TempDir,
    /// The ports of HTTP, the server and gossip.
    ports: [u16; 3],
    settings: Option<String>,
    token: Option<String>,
    agent: Option<Child>,
}

impl Consul {
    /// Starts one, and waits until it serves.
    pub fn start() -> Self {
        Self::with(None, None)
    }

    /// Starts one with settings in Consul's own language; `token` is what the test itself asks with.
    pub fn with(settings: Option<&str>, token: Option<&str>) -> Self {
        let mut consul = Self {
            dir: tempfile::tempdir().unwrap(),
            ports: [free_port(), free_port(), free_port()],
            settings: settings.map(str::to_owned),
            token: token.map(str::to_owned),
            agent: None,
        };
        consul.launch();
        consul
    }

    /// Starts one that other agents reach too; the settings say where.
    pub fn reachable(settings: &str) -> Self {
        Self::with(Some(settings), None)
    }

    /// The port of its gossip.
    pub fn gossip_port(&self) -> u16 {
        let [.., gossip] = self.ports;
        gossip
    }

    /// Where its HTTP API listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// The port of its HTTP API.
    pub fn port(&self) -> u16 {
        let [http, ..] = self.ports;
        http
    }

    /// A folder that lasts as long as it does.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts it again on the same ports; it has lost everything.
    pub fn launch(&mut self) {
        let [http, server, gossip] = self.ports;
        let mut command = Command::new(program());
        command.args(["agent", "-dev", "-dns-port=-1", "-grpc-port=-1", "-serf-wan-port=-1"]);
        command.arg(format!("-http-port={http}"));
        command.arg(format!("-server-port={server}")).arg(format!("-serf-lan-port={gossip}"));
        if !self.settings.as_ref().is_some_and(|settings| settings.contains("bind_addr")) {
            command.arg("-bind=127.0.0.1");
        }
        if let Some(settings) = &self.settings {
            let file = self.dir().join("settings.json");
            fs::write(&file, settings.replace("{dir}", &self.dir().to_string_lossy())).unwrap();
            command.arg(format!("-config-file={}", file.display()));
        }
        let output = fs::File::create(self.dir().join("consul.log")).unwrap();
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let began = Instant::now();
        while !self.serves() {
            // A connection of somebody else may have one of its ports for a moment: then it ends, and starts again.
            if self.agent.as_mut().is_none_or(|agent| agent.try_wait().unwrap().is_some()) {
                self.agent = Some(command.spawn().unwrap());
            }
            assert!(began.elapsed() < DEADLINE, "missed deadline: Consul serves\n--- consul\n{}", self.log());
            thread::sleep(LOOK_EVERY);
        }
    }

    fn serves(&self) -> bool {
        self.agent.is_some()
            && self
                .answer("GET", "/v1/health/service/consul", "")
                .is_some_and(|(status, body)| status == 200 && body.contains("serfHealth"))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir().join("consul.log")).unwrap_or_default()
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }

    /// One request; `None` without an answer.
    pub fn answer(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let stream = TcpStream::connect(self.address()).ok()?;
        exchange(stream, method, path, self.token.as_deref(), body)
    }

    /// Changes something, as another client would.
    pub fn put(&self, path: &str, body: &str) -> String {
        let (status, text) = self.answer("PUT", path, body).unwrap_or_else(|| panic!("no answer to {path}"));
        assert_eq!(status, 200, "PUT {path}: {text}");
        text
    }

    /// Deletes something, as another client would.
    pub fn delete(&self, path: &str) {
        let (status, text) = self.answer("DELETE", path, "").unwrap_or_else(|| panic!("no answer to {path}"));
        assert_eq!(status, 200, "DELETE {path}: {text}");
    }

    /// Asks for JSON; null if there is none.
    pub fn get(&self, path: &str) -> Value {
        let answer = self.answer("GET", path, "");
        answer.and_then(|(_, text)| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)
    }

    /// The statuses of a service's instances in the catalogue; its check's, not its node's.
    pub fn statuses(&self, service: &str) -> Vec<String> {
        let checks = self.get(&format!("/v1/health/checks/{service}"));
        let checks = checks.as_array().cloned().unwrap_or_default();
        checks.iter().map(|check| check["Status"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits until a service has one instance with that status.
    pub fn wait_for_status(&self, service: &str, status: &str) {
        self.eventually(&format!("{service} is {status}"), || self.statuses(service) == [status]);
    }

    /// Waits until a service is not registered.
    pub fn wait_for_absence(&self, service: &str) {
        self.eventually(&format!("{service} is gone"), || {
            self.get(&format!("/v1/catalog/service/{service}")) == Value::Array(vec![])
        });
    }

    /// Registers a healthy instance of a service, as another container would.
    pub fn register(&self, service: &str, id: &str, port: u16, tags: &[&str]) {
        let tags: Vec<String> = tags.iter().map(|tag| format!("{tag:?}")).collect();
        let tags = tags.join(",");
        let body = format!(
            r#"{{"ID":"{id}","Name":"{service}","Address":"10.0.0.1","Port":{port},"Tags":[{tags}],
                "Check":{{"CheckID":"service:{id}","TTL":"600s","Status":"passing"}}}}"#
        );
        self.put("/v1/agent/service/register", &body);
    }

    /// Waits for a fact.
    pub fn eventually(&self, what: &str, fact: impl Fn() -> bool) {
        assert!(comes_true(DEADLINE, fact), "missed deadline: {what}\n--- consul\n{}", self.log());
    }
}

impl Drop for Consul {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The consul that the build has found or fetched.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/fetch-consul.sh");
        let output = Command::new(script).stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "there is no Consul for the tests; see above");
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    })
}

/// One HTTP request on a stream; HTTP/1.0, so that the answer ends with the stream.
pub fn exchange(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: &str,
) -> Option<(u16, String)> {
    let began = Instant::now();
    let token = token.map(|token| format!("X-Consul-Token: {token}\r\n")).unwrap_or_default();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\n{token}Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    assert!(began.elapsed() < PATIENCE, "{method} {path} took {:?}", began.elapsed());
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}
