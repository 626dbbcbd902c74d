//! Whatever clients of the control socket and of the telemetry port send, and whether they read or not: every answer is
//! well-formed, plain requests get theirs in order, memory stays bounded, and the next client is served.
#![no_main]

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

use arbitrary::{Arbitrary, Result, Unstructured};
use containerpilot::actors::web_server::Api;
use containerpilot::actors::web_server::connections::Connections;
use containerpilot_fuzz::memory;
use containerpilot_fuzz::request::{Client, Reads};
use containerpilot_fuzz::response::responses;
use containerpilot_fuzz::runtime::{Time, block_on, within};
use containerpilot_fuzz::server::Servers;
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::yield_now;

/// What all clients of an input may cost at a time: with three of them, a body of 128 KiB of JSON each.
const MOST_MEMORY: usize = 32 << 20;
/// When a client hears nothing while others have run so often, nothing follows. An answer takes less than ten turns.
const QUIET: u32 = 30;

thread_local! {
    static SERVERS: RefCell<Option<ManuallyDrop<Servers>>> = const { RefCell::new(None) };
}

/// The clients of one server at a time.
#[derive(Debug)]
struct Session {
    api: Api,
    clients: Vec<Client>,
}

impl<'a> Arbitrary<'a> for Session {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let api = if u.ratio(1, 4)? { Api::Telemetry } else { Api::Control };
        let count = *u.choose(&[1, 1, 1, 2, 3])?;
        let clients = (0..count).map(|_| Client::arbitrary(u, api)).collect::<Result<_>>()?;
        Ok(Self { api, clients })
    }
}

fuzz_target!(|session: Session| {
    block_on(Time::Real, async {
        let mut servers = match SERVERS.take() {
            Some(servers) => servers,
            None => ManuallyDrop::new(Servers::new().await),
        };
        let connections = Connections::default();
        let sockets = session.clients.iter().map(|_| servers.connect(session.api, &connections));
        let talks: Vec<_> = session.clients.iter().zip(sockets.collect::<Vec<_>>()).collect();
        match talks.into_iter().map(|(client, socket)| talk(client, socket)).collect::<Vec<_>>() {
            mut one if one.len() == 1 => one.remove(0).await,
            many => join_all(many).await,
        }
        assert_served(&servers, session.api).await;
        // A stream notices that its client is gone when it sends the next event.
        servers.publish();
        assert_ended(&connections).await;
        SERVERS.set(Some(servers));
    });
    drop(session);
    memory::assert_bounded(MOST_MEMORY);
});

async fn join_all(talks: Vec<impl Future<Output = ()>>) {
    let mut talks: Vec<_> = talks.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        talks.retain_mut(|talk| talk.as_mut().poll(context).is_pending());
        if talks.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

async fn talk(client: &Client, socket: UnixStream) {
    let (mut reader, mut writer) = socket.into_split();
    let (mut received, is_sent) = (Vec::new(), Cell::new(false));
    let sending = async {
        for (piece, pause) in client.cuts.pieces(&client.bytes) {
            match within(10 * QUIET, writer.write_all(piece)).await {
                Some(Ok(())) => pause.let_others_run().await,
                Some(Err(_)) | None => break,
            }
        }
        if client.half_closes {
            let _ = writer.shutdown().await;
        }
        is_sent.set(true);
    };
    let reading = async {
        loop {
            let was_sent = is_sent.get();
            match within(QUIET, reader.read_buf(&mut received)).await {
                Some(Ok(0) | Err(_)) => break,
                None if was_sent => break,
                Some(Ok(_)) | None => {}
            }
        }
    };
    match client.reads {
        Reads::Always => drop(tokio::join!(sending, reading)),
        Reads::AtTheEnd => {
            sending.await;
            reading.await;
        }
        Reads::Never => return sending.await,
    }
    assert_answered(client, &received);
}

fn assert_answered(client: &Client, received: &[u8]) {
    // Behind the plain requests only the server can tell which one is a HEAD.
    let has_other_head = memchr::memmem::find(&client.bytes, b"HEAD").is_some();
    let known = client.expected.iter().map(|expected| expected.is_head);
    let further = std::iter::repeat_n(false, if has_other_head { 0 } else { usize::MAX });
    let answers = responses(received, known.chain(further));
    // A client that reads late stops sending when nobody takes its bytes.
    if client.reads != Reads::Always {
        return;
    }
    assert!(answers.len() >= client.expected.len(), "{} answers to {client:?}", answers.len());
    for (expected, answer) in client.expected.iter().zip(&answers) {
        assert!(expected.status.is_none_or(|status| status == answer.status), "{answer:?} to {client:?}");
    }
}

async fn assert_served(servers: &Servers, api: Api) {
    let connections = Connections::default();
    let mut socket = servers.connect(api, &connections);
    let path = if api == Api::Control { "/v3/ping" } else { "/healthz" };
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.expect("a request that is taken");
    let mut received = Vec::new();
    let end = within(10 * QUIET, socket.read_to_end(&mut received)).await;
    assert!(matches!(end, Some(Ok(_))), "{end:?} after {:?}", String::from_utf8_lossy(&received));
    let answers = responses(&received, std::iter::repeat(false));
    assert!(matches!(&answers[..], [answer] if answer.status == 200 && answer.body == b"ok\n"), "{answers:?}");
    drop(socket);
    assert_ended(&connections).await;
}

/// No connection outlives its client for long.
async fn assert_ended(connections: &Connections) {
    for _ in 0..10 * QUIET {
        if !connections.end_idle() {
            return;
        }
        yield_now().await;
    }
    panic!("a connection outlives its client");
}
