//! A proxy in front of a real server that can misbehave in every way a network or a server does.

use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// How often a thread looks whether the fault has changed.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What it does to whoever connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it passes everything on.
    None,
    /// Nobody listens.
    Refused,
    /// Connections are accepted, and nothing is ever answered.
    Hang,
    /// Connections are closed as soon as something is asked.
    Reset,
    /// The answer is no HTTP.
    Garbage,
    /// The answer is HTTP, and no JSON.
    WrongBody,
    /// The answer is a failure.
    Status500,
    /// The answer never ends.
    Flood,
    /// Every answer comes this much later.
    Slow(Duration),
    /// Every request arrives this much later.
    Late(Duration),
    /// The header that blocking queries need is lost.
    NoIndex,
    /// Every question is answered at once with nothing, under the same index.
    SameIndex,
    /// Connections that were silent for this long are closed.
    CutAfter(Duration),
}

/// The proxy; it ends with the test.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: u16,
    state: Mutex<State>,
    connections: AtomicUsize,
    heard: Mutex<Vec<u8>>,
}

struct State {
    fault: Fault,
    /// Counts changes: a connection ends when the fault that it began with does.
    turn: u64,
    ended: bool,
}

impl Proxy {
    /// In front of a port of this machine.
    pub fn new(upstream: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Mutex::new(State { fault: Fault::None, turn: 0, ended: false });
        let shared = Shared { upstream, state, connections: AtomicUsize::new(0), heard: Mutex::default() };
        let shared = Arc::new(shared);
        let acceptor = Arc::clone(&shared);
        thread::spawn(move || accept(&acceptor, listener, port));
        Self { port, shared }
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Misbehaves like that from now on; connections of before end, unless they hang.
    pub fn set(&self, fault: Fault) {
        let mut state = self.shared.state();
        state.fault = fault;
        state.turn += 1;
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let server = format!("0100007F:{:04X}", self.port);
        let client = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            (fields[2] == server && fields[3] == "01").then(|| fields[1].to_owned())
        };
        // While connections come and go, the kernel can list one twice.
        table.lines().skip(1).filter_map(client).collect::<HashSet<String>>().len()
    }

    /// How often something is in what it has heard.
    pub fn heard_times(&self, text: &str) -> usize {
        self.heard().matches(text).count()
    }

    /// Everything that it has passed on to the server, or answered itself.
    pub fn heard(&self) -> String {
        String::from_utf8_lossy(&self.shared.heard.lock().unwrap()).into_owned()
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.ended = true;
        state.turn += 1;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The fault now, and the number of its turn; `None` when all is over.
    fn now(&self) -> Option<(Fault, u64)> {
        let state = self.state();
        (!state.ended).then_some((state.fault, state.turn))
    }
}

fn accept(shared: &Arc<Shared>, listener: TcpListener, port: u16) {
    listener.set_nonblocking(true).unwrap();
    let mut listener = Some(listener);
    while let Some((fault, _)) = shared.now() {
        if fault == Fault::Refused {
            listener = None;
        } else if listener.is_none() {
            listener = TcpListener::bind(("127.0.0.1", port)).ok();
            listener.iter().for_each(|listener| listener.set_nonblocking(true).unwrap());
        }
        match listener.as_ref().map(TcpListener::accept) {
            Some(Ok((stream, _))) => {
                stream.set_nonblocking(false).unwrap();
                let shared = Arc::clone(shared);
                shared.connections.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || serve(&shared, stream));
            }
            Some(Err(_)) | None => thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn serve(shared: &Arc<Shared>, mut client: TcpStream) {
    if let Some((fault, turn)) = shared.now() {
        let answer = match fault {
            Fault::None | Fault::Slow(_) | Fault::Late(_) | Fault::NoIndex | Fault::CutAfter(_) => None,
            Fault::SameIndex => Some(http("200 OK", "[]")),
            Fault::Hang | Fault::Refused | Fault::Reset => Some(String::new()),
            Fault::Garbage => Some("220 this is another protocol\r\n\r\n".to_owned()),
            Fault::WrongBody => Some(http("200 OK", "<html>an error page</html>")),
            Fault::Status500 => Some(http("500 Internal Server Error", "No cluster leader")),
            Fault::Flood => Some("HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n".to_owned()),
        };
        match answer {
            None => pass_on(shared, &client, turn, fault),
            Some(answer) => answer_with(shared, &mut client, turn, fault, &answer),
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}

fn http(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nX-Consul-Index: 5\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Answers each request alike, or not at all.
fn answer_with(shared: &Shared, client: &mut TcpStream, turn: u64, fault: Fault, answer: &str) {
    client.set_read_timeout(Some(LOOK_EVERY)).unwrap();
    let mut buffer = [0; 4096];
    while shared.now().is_some_and(|(_, now)| now == turn) {
        match client.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) if matches!(fault, Fault::Reset | Fault::Refused) => return,
            Ok(count) => {
                shared.heard.lock().unwrap().extend_from_slice(&buffer[..count]);
                if client.write_all(answer.as_bytes()).is_err() {
                    return;
                }
                while fault == Fault::Flood && shared.now().is_some_and(|(_, now)| now == turn) {
                    if client.write_all(&[b' '; 65536]).is_err() {
                        return;
                    }
                }
            }
            Err(error) if is_timeout(&error) => {}
            Err(_) => return,
        }
    }
}

fn pass_on(shared: &Arc<Shared>, client: &TcpStream, turn: u64, fault: Fault) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", shared.upstream)) else { return };
    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let other = Arc::clone(shared);
    let upwards_fault = if matches!(fault, Fault::Late(_)) { fault } else { Fault::None };
    let downwards_fault = if matches!(fault, Fault::Late(_)) { Fault::None } else { fault };
    let upwards = thread::spawn(move || pump(&other, (from, to), turn, upwards_fault, true));
    pump(shared, (server, client.try_clone().unwrap()), turn, downwards_fault, false);
    let _ = upwards.join();
}

/// Copies until the fault changes; a hang keeps the connection and swallows what comes.
fn pump(
    shared: &Shared,
    (mut from, mut to): (TcpStream, TcpStream),
    turn: u64,
    fault: Fault,
    is_heard: bool,
) {
    from.set_read_timeout(Some(LOOK_EVERY)).unwrap();
    let mut buffer = [0; 65536];
    let mut last = Instant::now();
    loop {
        if matches!(fault, Fault::CutAfter(silence) if last.elapsed() >= silence) {
            break;
        }
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if is_timeout(&error) => 0,
            Err(_) => break,
        };
        if count > 0 {
            last = Instant::now();
        }
        match shared.now() {
            Some((_, now)) if now == turn => {}
            Some((Fault::Hang, _)) => continue,
            Some(_) | None => break,
        }
        if let (Fault::Slow(delay) | Fault::Late(delay), true) = (fault, count > 0) {
            thread::sleep(delay);
        }
        let mut bytes = buffer.get(..count).unwrap_or_default().to_vec();
        if is_heard {
            shared.heard.lock().unwrap().extend_from_slice(&bytes);
        }
        if fault == Fault::NoIndex {
            let text = String::from_utf8_lossy(&bytes).replace("X-Consul-Index", "X-Lost-Header0");
            bytes = text.into_bytes();
        }
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
