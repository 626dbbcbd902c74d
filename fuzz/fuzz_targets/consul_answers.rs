//! Whatever a Consul, or a proxy before it, answers: each call ends in time with a result or an error that is short,
//! printable and without the token. A watch goes on, and waits before it asks a server again that does not block.
#![no_main]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use containerpilot::actors::machine::{Clock, Driver};
use containerpilot::actors::watch::machine::{Action, Input as WatchInput, State};
use containerpilot::config::spec::{ConsulAddress, ConsulSpec, Secret, TlsSpec, WatchSpec, WatchTarget};
use containerpilot::consul::{CallError, Client, Scope};
use containerpilot::messages::discovery::{QueryFailure, QueryReply, Registration, ServiceStatus};
use containerpilot_fuzz::answer::Answer;
use containerpilot_fuzz::delivery::Cuts;
use containerpilot_fuzz::memory;
use containerpilot_fuzz::runtime::{Time, block_on};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, timeout};

const MOST_MEMORY: usize = 16 << 20;
const TOKEN: &str = "s3cr3t-t0k3n";
const LIMIT: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_secs(3);

const INDICES: [&str; 12] = [
    "X-Consul-Index: 1",
    "X-Consul-Index: 2",
    "X-Consul-Index: 3",
    "X-Consul-Index: 7",
    "X-Consul-Index: 0",
    "X-Consul-Index: 18446744073709551615",
    "X-Consul-Index: 18446744073709551616",
    "X-Consul-Index: -1",
    "X-Consul-Index: ",
    "X-Consul-Index: 7\r\nX-Consul-Index: 8",
    "X-Other: 1",
    "X-Consul-Index: \u{fc}",
];
const ODD_BODIES: [&str; 14] = [
    "",
    "null",
    "true",
    "[null]",
    "[[]]",
    "{}",
    r#"[{"Node":{"Address":"x"},"Service":null}]"#,
    r#"[{"Node":{"Address":"x"},"Service":{"ID":"a","Port":1e400}}]"#,
    r#"[{"Node":{"Address":"x"},"Service":{"ID":"a","Port":"80"}}]"#,
    r#"[{"Key":"k","Value":7}]"#,
    r#"[{"Key":"k","Key":"l"}]"#,
    "\u{1b}[2J no cluster leader s3cr3t-t0k3n",
    "Unknown check \"service:x\"",
    "rpc error: s3cr3t-t0k3n\r\n\u{9b}31m",
];

/// A call to Consul beside the queries of the watch.
#[derive(Debug, Clone, Copy)]
enum Call {
    Register,
    Update,
    Deregister,
    Newest,
}

#[derive(Debug)]
struct Input {
    target: u8,
    answers: Vec<(Answer, Cuts, bool)>,
    calls: Vec<Call>,
}

impl<'a> Arbitrary<'a> for Input {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let target = u.int_in_range(0..=2)?;
        let mut answers = Vec::new();
        for _ in 0..u.int_in_range(1..=6)? {
            let index = (*u.choose(&INDICES)?).to_owned();
            let body = body(u, target)?;
            let answer = Answer::arbitrary(u, body.into_bytes(), &[index])?;
            answers.push((answer, Cuts::arbitrary(u)?, u.arbitrary()?));
        }
        let calls = [Call::Register, Call::Update, Call::Deregister, Call::Newest];
        let calls = (0..u.int_in_range(0..=2)?).map(|_| u.choose(&calls).copied()).collect::<Result<_>>()?;
        Ok(Self { target, answers, calls })
    }
}

/// What Consul sends, often with the names that we look for.
fn body(u: &mut Unstructured<'_>, target: u8) -> Result<String> {
    if u.ratio(1, 4)? {
        return Ok((*u.choose(&ODD_BODIES)?).to_owned());
    }
    if u.ratio(1, 12)? {
        return Ok("[".repeat(u.int_in_range(1..=5000)?));
    }
    let mut entries = Vec::new();
    for _ in 0..u.int_in_range(0..=4)? {
        let id = *u.choose(&["a", "b", "c", "", "\\u0000", "\\ud800"])?;
        let number = *u.choose(&["0", "80", "65535", "65536", "-1", "9223372036854775808", "1.5", "null"])?;
        let address = *u.choose(&["", "10.0.0.1", "::1", "\\u001b[31m"])?;
        entries.push(match target {
            0 => format!(
                r#"{{"Node":{{"Address":"n"}},"Service":{{"ID":"{id}","Address":"{address}","Port":{number}}}}}"#
            ),
            _ => format!(r#"{{"Key":"{id}","Value":"{address}","Flags":{number}}}"#),
        });
    }
    Ok(format!("[{}]", entries.join(",")))
}

thread_local! {
    static SERVER: RefCell<Option<(TempDir, Rc<UnixListener>)>> = const { RefCell::new(None) };
}

fuzz_target!(|input: Input| {
    block_on(Time::Paused, async {
        let (directory, listener) = SERVER.take().unwrap_or_else(|| {
            let directory = tempfile::tempdir().expect("a directory");
            let listener = UnixListener::bind(directory.path().join("consul")).expect("a socket");
            (directory, Rc::new(listener))
        });
        let answers: VecDeque<_> = input.answers.into();
        let count = answers.len();
        let serving = actix_rt::spawn(serve(Rc::clone(&listener), Rc::new(RefCell::new(answers))));
        let client = client(&directory);
        for call in input.calls {
            assert_printable(call_consul(&client, call).await);
        }
        watch(&client, input.target, count + 1).await;
        drop(client);
        serving.abort();
        let _ = serving.await;
        // Connections that nobody has accepted are not for the next input.
        while let Ok(Ok(_)) = timeout(Duration::ZERO, listener.accept()).await {}
        SERVER.set(Some((directory, listener)));
    });
    memory::assert_bounded(MOST_MEMORY);
});

/// Sends the answers in turn, on whichever connection the next request comes.
async fn serve(listener: Rc<UnixListener>, answers: Rc<RefCell<VecDeque<(Answer, Cuts, bool)>>>) {
    let connections = tokio::task::LocalSet::new();
    let accepting = async {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::task::spawn_local(answer(socket, Rc::clone(&answers)));
        }
    };
    connections.run_until(accepting).await;
}

async fn answer(mut socket: UnixStream, answers: Rc<RefCell<VecDeque<(Answer, Cuts, bool)>>>) {
    let mut request = Vec::new();
    loop {
        match socket.read_buf(&mut request).await {
            Ok(0) | Err(_) => return,
            Ok(_) if memchr::memmem::find(&request, b"\r\n\r\n").is_none() => continue,
            Ok(_) => request.clear(),
        }
        // Without a further answer the connection ends.
        let Some((answer, cuts, closes)) = answers.borrow_mut().pop_front() else { return };
        for (piece, pause) in cuts.pieces(&answer.bytes) {
            if socket.write_all(piece).await.is_err() {
                return;
            }
            pause.pass().await;
        }
        if closes || answer.must_close {
            return;
        }
    }
}

fn client(directory: &TempDir) -> Client {
    let tls = TlsSpec {
        ca_file: None,
        ca_path: None,
        client_cert: None,
        client_key: None,
        server_name: None,
        verify: true,
    };
    let address = ConsulAddress::Unix(directory.path().join("consul"));
    let spec = ConsulSpec { address, token: Some(Secret::new(TOKEN.to_owned())), tls };
    Client::new(&spec).unwrap_or_else(|error| panic!("{error}"))
}

async fn call_consul(client: &Client, call: Call) -> std::result::Result<(), CallError> {
    let service = Registration {
        id: "a".into(),
        name: "a".to_owned(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 80,
        tags: Vec::new(),
        meta: Vec::new(),
        enable_tag_override: false,
        heartbeat: INTERVAL,
        ttl: INTERVAL,
        deregister_critical_after: None,
    };
    match call {
        Call::Register => client.register(&service, ServiceStatus::Passing, LIMIT).await,
        Call::Update => client.update("a", ServiceStatus::Critical, LIMIT).await,
        Call::Deregister => client.deregister("a", LIMIT).await,
        Call::Newest => client.newest(Scope::Services, Some((1, INTERVAL)), LIMIT).await.map(drop),
    }
}

fn assert_printable<T>(result: std::result::Result<T, CallError>) {
    if let Err(error) = result {
        let text = error.to_string();
        assert!(!text.contains(char::is_control), "{text:?}");
        assert!(!text.contains(TOKEN), "{text:?}");
        assert!(!text.is_empty() && text.len() < 1000, "{text:?}");
    }
}

/// Lets a watch ask so often.
async fn watch(client: &Client, target: u8, queries: usize) {
    let target = match target {
        0 => WatchTarget::Service { service: "a".to_owned(), tag: None },
        1 => WatchTarget::Key("k".to_owned()),
        _ => WatchTarget::Prefix("k/".to_owned()),
    };
    let spec = WatchSpec {
        name: "a".into(),
        target,
        interval: INTERVAL,
        datacentre: None,
        after_coprocesses: false,
    };
    let mut machine = Driver::new(State::new(spec, 0), &Clock::start(None));
    let (mut input, mut asked) = (WatchInput::Begun, 0);
    while asked < queries {
        let next = machine.step(input);
        input = match next.last() {
            Some(Action::Ask(query)) => {
                assert!(
                    query.newer_than.is_none_or(|(index, wait)| index > 0 && !wait.is_zero()),
                    "{query:?}"
                );
                asked += 1;
                let (began, patience) =
                    (Instant::now(), query.newer_than.map_or(Duration::ZERO, |(_, wait)| 2 * wait));
                let reply = client.query(query, LIMIT).await;
                assert!(began.elapsed() <= LIMIT + patience, "{:?} for {query:?}", began.elapsed());
                let result = reply.clone().map_err(|_| QueryFailure::Failed);
                assert_printable(reply);
                assert_sorted(&result);
                WatchInput::Replied(result)
            }
            Some(Action::Pause(pause)) => {
                assert!(!pause.is_zero() && *pause <= INTERVAL.max(Duration::from_secs(10)), "{pause:?}");
                tokio::time::sleep(*pause).await;
                WatchInput::PauseElapsed
            }
            other => panic!("a watch that does not go on: {other:?}"),
        };
    }
}

fn assert_sorted(result: &std::result::Result<QueryReply, QueryFailure>) {
    if let Ok(reply) = result {
        assert!(reply.found.is_sorted(), "{reply:?}");
    }
}
