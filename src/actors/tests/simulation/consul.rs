//! The simulated Consul: the part of its HTTP API that the program uses, on a unix socket of this thread and the paused
//! clock. It answers late, wrong or never, and forgets, as the story says.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::time::Duration;

use nix::sys::socket::{Shutdown, shutdown};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::journal::Journal;
use super::story::{KEY, Mood, SERVICE};

/// A service that we registered.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The job's name.
    pub name: String,
    pub status: String,
    /// When its status was last told.
    pub told: Duration,
    pub ttl: Duration,
    body: Vec<u8>,
    /// Whether the last call about it was answered as it should be.
    is_known_to_us: bool,
}

#[derive(Clone)]
pub struct SimulatedConsul {
    catalogue: Rc<RefCell<Catalogue>>,
    journal: Journal,
}

struct Catalogue {
    mood: Mood,
    /// Since when it has been well.
    well_since: Duration,
    services: BTreeMap<String, Entry>,
    instances: u8,
    key: Option<u8>,
    index: u64,
    changed: Rc<Notify>,
    /// When the machine slept.
    suspended: Option<Duration>,
}

/// One request.
struct Request {
    method: String,
    path: String,
    body: Vec<u8>,
}

/// An answer: status, index and body.
struct Answer(u16, Option<u64>, String);

impl SimulatedConsul {
    pub fn new(journal: Journal) -> Self {
        let catalogue = Catalogue {
            mood: Mood::Well,
            well_since: Duration::ZERO,
            services: BTreeMap::new(),
            instances: 0,
            key: None,
            index: 1,
            changed: Rc::default(),
            suspended: None,
        };
        Self { catalogue: Rc::new(RefCell::new(catalogue)), journal }
    }

    /// Accepts connections until the run is over.
    pub async fn serve(self, listener: UnixListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let consul = self.clone();
            actix_rt::spawn(async move {
                let mut stream = stream;
                consul.converse(&mut stream).await;
                // A process that another test starts just now may have the socket, too, until it executes its program:
                // closed by us alone, it would stay open for that long.
                let _ = shutdown(stream.as_raw_fd(), Shutdown::Both);
            });
        }
    }

    pub fn set_mood(&self, mood: Mood) {
        let mut catalogue = self.catalogue.borrow_mut();
        if mood != catalogue.mood {
            catalogue.well_since = self.journal.awake();
        }
        catalogue.mood = mood;
        catalogue.changed.notify_waiters();
    }

    pub fn forget(&self) {
        let mut catalogue = self.catalogue.borrow_mut();
        catalogue.services.clear();
        catalogue.well_since = self.journal.awake();
        catalogue.index += 1;
        catalogue.changed.notify_waiters();
    }

    /// The machine slept: an answer may have come too late.
    pub fn suspended(&self) {
        let mut catalogue = self.catalogue.borrow_mut();
        catalogue.well_since = self.journal.awake();
        catalogue.suspended = Some(self.journal.awake());
        drop(catalogue);
        self.doubt();
    }

    /// What was called for may not be known to be done.
    fn doubt(&self) {
        self.catalogue.borrow_mut().services.values_mut().for_each(|entry| entry.is_known_to_us = false);
    }

    pub fn set_instances(&self, number: u8) {
        self.catalogue.borrow_mut().instances = number;
        self.change();
    }

    pub fn set_key(&self, value: Option<u8>) {
        self.catalogue.borrow_mut().key = value;
        self.change();
    }

    fn change(&self) {
        let mut catalogue = self.catalogue.borrow_mut();
        catalogue.index += 1;
        catalogue.changed.notify_waiters();
    }

    /// The services that are registered, and since when Consul has been well; `None` if it is not.
    pub fn look<T>(&self, look: impl FnOnce(&BTreeMap<String, Entry>, Option<Duration>) -> T) -> T {
        let catalogue = self.catalogue.borrow();
        let is_well = matches!(catalogue.mood, Mood::Well | Mood::Unindexed);
        look(&catalogue.services, is_well.then_some(catalogue.well_since))
    }

    /// What the watches should have found.
    pub fn observed(&self) -> (usize, usize) {
        let catalogue = self.catalogue.borrow();
        (catalogue.instances.into(), usize::from(catalogue.key.is_some()))
    }

    async fn converse(&self, stream: &mut UnixStream) {
        let mut buffer = Vec::new();
        while let Some(request) = read(stream, &mut buffer).await {
            let (mood, changed) = {
                let catalogue = self.catalogue.borrow();
                (catalogue.mood, Rc::clone(&catalogue.changed))
            };
            if !matches!(mood, Mood::Well | Mood::Unindexed) {
                self.doubt();
            }
            let answer = match mood {
                Mood::Well => self.answer(&request, true).await,
                Mood::Late(after) => {
                    sleep(Duration::from_millis(after)).await;
                    // Who gave up waiting is not served later.
                    match stream.try_read_buf(&mut buffer) {
                        Ok(0) => return,
                        Ok(_) | Err(_) => self.answer(&request, false).await,
                    }
                }
                Mood::Errs { does_it } => {
                    if does_it {
                        self.carry_out(&request, false);
                    }
                    Answer(500, None, "no leader".to_owned())
                }
                Mood::Rubbish => Answer(200, None, "<html>please log in</html>".to_owned()),
                Mood::Silent { does_it } => {
                    if does_it {
                        self.carry_out(&request, false);
                    }
                    // Until it is restarted, which closes its connections.
                    while self.catalogue.borrow().mood == mood {
                        changed.notified().await;
                    }
                    return;
                }
                Mood::Closes => return,
                Mood::Unindexed => {
                    let Answer(status, _, body) = self.carry_out(&request, true);
                    Answer(status, None, body)
                }
            };
            let Answer(status, index, body) = answer;
            let index = index.map(|index| format!("X-Consul-Index: {index}\r\n")).unwrap_or_default();
            let length = body.len();
            let text = format!("HTTP/1.1 {status} x\r\n{index}Content-Length: {length}\r\n\r\n{body}");
            if stream.write_all(text.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    async fn answer(&self, request: &Request, is_known: bool) -> Answer {
        if let Some((index, wait)) = blocks(&request.path) {
            let deadline = Instant::now() + wait;
            let changed = Rc::clone(&self.catalogue.borrow().changed);
            while self.catalogue.borrow().index <= index && Instant::now() < deadline {
                tokio::select! { biased; () = changed.notified() => {}, () = sleep_until(deadline) => {} }
                // Whoever is unwell lets those who wait go.
                if !matches!(self.catalogue.borrow().mood, Mood::Well | Mood::Late(_)) {
                    return Answer(500, None, "no leader".to_owned());
                }
            }
        }
        self.carry_out(request, is_known)
    }

    fn carry_out(&self, request: &Request, is_known: bool) -> Answer {
        let is_known = is_known && self.catalogue.borrow().suspended != Some(self.journal.awake());
        let path = request.path.split('?').next().unwrap_or_default();
        let segments: Vec<&str> = path.split('/').skip(2).collect();
        match (request.method.as_str(), segments.as_slice()) {
            ("PUT", ["agent", "service", "register"]) => self.register(&request.body, is_known),
            ("PUT", ["agent", "service", "deregister", id]) => self.deregister(id),
            ("PUT", ["agent", "check", "update", check]) => self.update(check, &request.body, is_known),
            ("GET", ["health", "service", SERVICE]) => self.instances(),
            ("GET", ["kv", key @ ..]) if key.join("/") == KEY => self.key(),
            _ => Answer(400, None, format!("no such endpoint: {} {path}", request.method)),
        }
    }

    fn register(&self, body: &[u8], is_known: bool) -> Answer {
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (id, name, status) = (text(&value["ID"]), text(&value["Name"]), text(&value["Check"]["Status"]));
        let ttl = text(&value["Check"]["TTL"]);
        let ttl = Duration::from_millis(ttl.trim_end_matches("ms").parse().unwrap_or_default());
        self.journal.note(format!("Consul: register {id} {status}"));
        let mut catalogue = self.catalogue.borrow_mut();
        let told = self.journal.awake();
        let entry = Entry { name, status, told, ttl, body: body.to_vec(), is_known_to_us: is_known };
        if let Some(former) = catalogue.services.get(&id)
            && former.is_known_to_us
            && is_known
            && value_without_status(&former.body) == value_without_status(body)
        {
            self.journal.break_rule("a service is registered once", format!("{id} was registered already"));
        }
        catalogue.services.insert(id, entry);
        Answer(200, None, String::new())
    }

    fn deregister(&self, id: &str) -> Answer {
        self.journal.note(format!("Consul: deregister {id}"));
        match self.catalogue.borrow_mut().services.remove(id) {
            Some(_) => Answer(200, None, String::new()),
            None => Answer(404, None, format!("Unknown service {id}")),
        }
    }

    fn update(&self, check: &str, body: &[u8], is_known: bool) -> Answer {
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        let status = value["Status"].as_str().unwrap_or_default();
        let id = check.trim_start_matches("service:");
        self.journal.note(format!("Consul: update {id} {status}"));
        let told = self.journal.awake();
        match self.catalogue.borrow_mut().services.get_mut(id) {
            Some(entry) => {
                (entry.status, entry.told, entry.is_known_to_us) = (status.to_owned(), told, is_known);
                Answer(200, None, String::new())
            }
            None => Answer(404, None, format!("Unknown check {check:?}")),
        }
    }

    fn instances(&self) -> Answer {
        let catalogue = self.catalogue.borrow();
        let mut body = String::from("[");
        for number in 0..catalogue.instances {
            let comma = if number > 0 { "," } else { "" };
            let _ = write!(
                body,
                r#"{comma}{{"Node":{{"Address":"10.0.0.1"}},"Service":{{"ID":"{number}","Address":"","Port":80}}}}"#
            );
        }
        body.push(']');
        Answer(200, Some(catalogue.index), body)
    }

    fn key(&self) -> Answer {
        let catalogue = self.catalogue.borrow();
        match catalogue.key {
            Some(value) => {
                let body = format!(r#"[{{"Key":"{KEY}","Value":"{value}","Flags":0}}]"#);
                Answer(200, Some(catalogue.index), body)
            }
            None => Answer(404, Some(catalogue.index), String::new()),
        }
    }
}

/// A registration that differs only in its status is the same.
fn value_without_status(body: &[u8]) -> Value {
    let mut value: Value = serde_json::from_slice(body).unwrap_or_default();
    value["Check"]["Status"] = Value::Null;
    value
}

/// The index and the wait of a blocking query.
fn blocks(path: &str) -> Option<(u64, Duration)> {
    let (_, query) = path.split_once('?')?;
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name));
    let (index, wait) = (value("index=")?.parse().ok()?, value("wait=")?.trim_end_matches("ms"));
    Some((index, Duration::from_millis(wait.parse().ok()?)))
}

/// Reads one request; `None` at the end of the connection.
async fn read(stream: &mut UnixStream, buffer: &mut Vec<u8>) -> Option<Request> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut headers);
        if let Ok(httparse::Status::Complete(start)) = request.parse(buffer) {
            let length =
                request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
            let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok());
            let end = start + length.unwrap_or(0);
            if buffer.len() >= end {
                let (method, path) = (request.method?.to_owned(), request.path?.to_owned());
                let body = buffer[start..end].to_vec();
                buffer.drain(..end);
                return Some(Request { method, path, body });
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}
