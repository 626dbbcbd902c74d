//! Clients that mean no good, or are merely broken: jobs, other clients and memory do not notice them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr};

use crate::support::container::Container;
use crate::support::flood::flood;

use crate::support::http::{Answer, answer, connect, get_port};
use crate::support::ports::free_port;
use crate::support::{DEADLINE, Exit, Pilot, alone, open_files, proc_status, resident_kib, state};

/// More than the program ever needs, less than any of these clients sends.
const MOST_MEMORY: u64 = 64 << 10;

/// More than a busy machine needs to answer or to stop. A program that waits for its clients is far slower: it would use up
/// its stopTimeout of a minute.
const SOON: Duration = Duration::from_secs(15);

/// A job that works all the time, so that a disturbance shows.
fn start() -> (Pilot, u16) {
    let port = free_port();
    let pilot = Pilot::start(&format!(
        r#"{{ stopTimeout: "60s", telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"] }}, jobs: [
            {{ name: "app", exec: ["sh", "-c", "while :; do echo tick >> {{dir}}/ticks; sleep 0.02; done"] }} ] }}"#
    ));
    pilot.wait_for_event("global startup");
    (pilot, port)
}

/// That the job goes on, another client is served at once, and we are still small.
fn assert_undisturbed(pilot: &Pilot) {
    let before = pilot.lines("ticks").len();
    pilot.wait_for_lines("ticks", before + 3);
    let began = Instant::now();
    assert_eq!(pilot.ask("GET", "/v3/ping", "").status, 200);
    assert!(began.elapsed() < SOON, "a ping took {:?}", began.elapsed());
    assert_eq!(pilot.status_of("app")["restarts"], 0);
    let peak = proc_status(pilot.pid(), "VmHWM");
    assert!(peak < MOST_MEMORY, "{peak} KiB");
}

#[test]
fn half_a_request_holds_neither_reload_nor_shutdown() {
    let (pilot, port) = start();
    let mut held = Vec::new();
    for bytes in [
        "",
        "PUT /v3/rel",
        "PUT /v3/reload HTTP/1.1\r\nHost: x\r\n",
        "PUT /v3/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
        "PUT /v3/env HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"A",
    ] {
        let mut control = pilot.connect();
        control.write_all(bytes.as_bytes()).unwrap();
        let mut telemetry = TcpStream::connect(("127.0.0.1", port)).unwrap();
        telemetry.write_all(bytes.as_bytes()).unwrap();
        held.push((control, telemetry));
    }
    assert_undisturbed(&pilot);
    let began = Instant::now();
    assert_eq!(pilot.ask("PUT", "/v3/reload", "").status, 200);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let began = Instant::now();
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(held);
}

/// No route was reached, so the response is a status and an empty body, and the connection ends.
fn assert_refused(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(answer.head.contains("content-length: 0"), "{answer:?}");
    assert!(answer.head.contains("connection: close"), "{answer:?}");
    assert_eq!(answer.body, "");
}

#[test]
fn a_request_head_that_takes_too_long_is_answered_with_408() {
    let (pilot, port) = start();
    let (mut slow, mut silent) = (pilot.connect(), TcpStream::connect(("127.0.0.1", port)).unwrap());
    slow.write_all(b"GET /v3/ping HTTP/1.1\r\nHost:").unwrap();
    silent.write_all(b"G").unwrap();
    let began = Instant::now();
    assert_refused(&answer(slow), 408);
    assert_refused(&answer(silent), 408);
    assert!((3..15).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_undisturbed(&pilot);
}

#[test]
fn a_body_of_one_gibibyte_is_refused_and_kept_nowhere() {
    let (pilot, _) = start();
    let mut stream = pilot.connect();
    write!(stream, "PUT /v3/environ HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", 1 << 30).unwrap();
    let mut sent = 0;
    while sent < 1 << 30 && stream.write_all(&[b'x'; 0x10000]).is_ok() {
        sent += 0x10000;
    }
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    let answer = answer(stream);
    assert!(answer.status == 413 || answer.status == 0, "{answer:?}");
    assert_undisturbed(&pilot);
}

#[test]
fn a_body_without_an_end_is_cut_off() {
    let (pilot, _) = start();
    let mut stream = pilot.connect();
    stream.write_all(b"PUT /v3/environ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let began = Instant::now();
    while stream.write_all(chunk.as_bytes()).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(15), "it is still being read");
    }
    assert_undisturbed(&pilot);
}

#[test]
fn clients_of_a_busy_program_can_connect_without_waiting() {
    let (pilot, _) = start();
    pilot.signal(Signal::SIGSTOP);
    let address = UnixAddr::new(&pilot.socket()).unwrap();
    let connect = |_| {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let client = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
        let connected = socket::connect(client.as_raw_fd(), &address);
        (client, connected)
    };
    let crowd: Vec<_> = (0..300).map(connect).collect();
    pilot.signal(Signal::SIGCONT);
    assert_eq!(
        crowd.iter().position(|(_, connected)| connected.is_err()),
        None,
        "one of them was turned away"
    );
    drop(crowd);
    assert_undisturbed(&pilot);
}

#[test]
fn ten_thousand_headers_are_refused() {
    let (pilot, port) = start();
    let mut head = "GET /v3/ping HTTP/1.1\r\nHost: x\r\n".to_owned();
    (0..10_000).for_each(|number| head.push_str(&format!("X-{number}: {number}\r\n")));
    head.push_str("\r\n");
    for mut stream in [Box::new(pilot.connect()) as Box<dyn Conversation>, Box::new(tcp(port))] {
        stream.write_all(head.as_bytes()).unwrap();
        assert_refused(&answer(stream), 431);
    }
    let mut endless = pilot.connect();
    endless.write_all(b"GET /").unwrap();
    let mut sent = 0;
    while sent < 64 << 20 && endless.write_all(&[b'a'; 0x1000]).is_ok() {
        sent += 0x1000;
    }
    assert!(sent < 8 << 20, "a path of {sent} bytes was taken");
    assert_undisturbed(&pilot);
}

#[test]
fn a_malformed_request_is_answered_with_400_after_the_requests_before_it() {
    let (pilot, port) = start();
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"hello there\r\n\r\n",
        b"GET /v3/ping HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"PUT /v3/env HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\nzzzz\r\n",
    ] {
        for mut stream in [Box::new(pilot.connect()) as Box<dyn Conversation>, Box::new(tcp(port))] {
            stream.write_all(garbage).unwrap();
            assert_refused(&answer(stream), 400);
        }
    }
    let mut stream = pilot.connect();
    stream
        .write_all(b"GET /v3/ping HTTP/1.1\r\nHost: x\r\n\r\nGET /v3/nope HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    stream.write_all(&[0xff; 5000]).unwrap();
    let Answer { status, body, .. } = answer(stream);
    assert_eq!((status, body.starts_with("ok\n")), (200, true), "{body}");
    let (_, rest) = body.split_once("HTTP/1.1 404 Not Found\r\n").unwrap_or_else(|| panic!("{body}"));
    let (_, rest) = rest.split_once("HTTP/1.1 400 Bad Request\r\n").unwrap_or_else(|| panic!("{body}"));
    assert!(rest.ends_with("\r\n\r\n"), "{body}");
    assert_undisturbed(&pilot);
}

#[test]
fn garbage_costs_a_client_its_connection_and_nothing_else() {
    let (pilot, port) = start();
    let mut garbage: Vec<Vec<u8>> = vec![
        b"\0\0\0\0\0\0\0\0".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"GET /v3/ping HTTP/9.9\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"GET /v3/ping HTTP/1.1\r\nContent-Length: -5\r\n\r\n".to_vec(),
        b"PUT /v3/env HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\nzzzz\r\n".to_vec(),
        b"GET /v3/ping HTTP/1.1\r\nHost: x\r\n\r\n".repeat(500),
    ];
    garbage.push([b"GET /v3/ping HTTP/1.1\r\nHost: x\r\n\r\n".as_slice(), &[0xff; 5000]].concat());
    for bytes in &garbage {
        for mut stream in [Box::new(pilot.connect()) as Box<dyn Conversation>, Box::new(tcp(port))] {
            let _ = stream.write_all(bytes);
            let mut some = [0; 4096];
            let _ = stream.read(&mut some);
        }
    }
    assert_undisturbed(&pilot);
    assert_eq!(get_port(port, "/healthz", "").status, 200);
}

trait Conversation: Read + Write {}
impl<T: Read + Write> Conversation for T {}

fn tcp(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    stream
}

#[test]
fn a_thousand_idle_connections_make_room_for_a_client_that_asks() {
    let (pilot, port) = start();
    let idle: Vec<_> = (0..1000).map(|_| (pilot.connect(), tcp(port))).collect();
    assert_undisturbed(&pilot);
    assert_eq!(get_port(port, "/metrics", "").status, 200);
    pilot.eventually("files are closed", || open_files(pilot.pid()) < 320);
    let began = Instant::now();
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(idle);
}

#[test]
fn a_request_that_came_while_the_program_did_not_run_is_answered_even_if_there_are_too_many_clients() {
    let (pilot, _) = start();
    let ask = b"GET /v3/ping HTTP/1.1\r\nHost: x\r\n\r\n";
    let served = |_| {
        let mut client = pilot.connect();
        client.write_all(ask).unwrap();
        assert_ne!(client.read(&mut [0; 4096]).unwrap(), 0);
        client
    };
    let mut crowd: Vec<_> = (0..128).map(served).collect();
    pilot.signal(Signal::SIGSTOP);
    pilot.eventually("it is stopped", || state(pilot.pid()) == Some('T'));
    // Then all of them will have been idle for so long that they may be closed for another one.
    thread::sleep(Duration::from_millis(1100));
    let late = pilot.connect();
    crowd[0].write_all(ask).unwrap();
    pilot.signal(Signal::SIGCONT);
    let mut answer = [0; 15];
    crowd[0].read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    drop((crowd, late));
}

#[test]
fn a_head_that_came_while_the_program_did_not_run_is_in_time() {
    let (pilot, port) = start();
    let half = b"GET /v3/ping HTTP/1.1\r\nHost:";
    let (mut unix, mut tcp) = (pilot.connect(), tcp(port));
    unix.write_all(half).unwrap();
    tcp.write_all(half).unwrap();
    // Both have been accepted when another client has an answer.
    assert_undisturbed(&pilot);
    assert_eq!(get_port(port, "/metrics", "").status, 200);
    pilot.signal(Signal::SIGSTOP);
    pilot.eventually("it is stopped", || state(pilot.pid()) == Some('T'));
    unix.write_all(b" x\r\n\r\n").unwrap();
    tcp.write_all(b" x\r\n\r\n").unwrap();
    // Longer than a head may take.
    thread::sleep(Duration::from_millis(5500));
    pilot.signal(Signal::SIGCONT);
    let mut status = [0; 12];
    unix.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    tcp.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 404", "there is no such path on that port");
}

#[test]
fn hundreds_of_half_sent_bodies_make_room_too() {
    let (pilot, _) = start();
    let half = || {
        let mut stream = pilot.connect();
        let _ = stream.write_all(b"PUT /v3/env HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{");
        stream
    };
    let held: Vec<_> = (0..300).map(|_| half()).collect();
    assert_undisturbed(&pilot);
    let began = Instant::now();
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(held);
}

#[test]
fn a_follower_that_never_reads_takes_no_memory() {
    let _alone = alone();
    let port = free_port();
    let pilot = Pilot::start(&format!(
        r#"{{ stopTimeout: "60s", telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"] }}, jobs: [
            {{ name: "app", exec: ["sh", "-c", "while :; do echo tick >> {{dir}}/ticks; sleep 0.02; done"] }},
            {{ name: "busy", exec: "true", restarts: "unlimited", backoff: {{ max: "0s" }} }} ] }}"#
    ));
    pilot.wait_for_event("global startup");
    let mut deaf: Vec<_> = (0..20).map(|_| pilot.connect()).collect();
    for stream in &mut deaf {
        stream.write_all(b"GET /v3/events?since=0 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    }
    pilot.within(4 * DEADLINE, "thousands of events", || {
        pilot.ask("GET", "/v3/events?wait=0&since=2999", "").body.contains("\"sequence\":3000,")
    });
    assert_undisturbed(&pilot);
}

/// Clients on both listeners that pipeline requests and read no answer change nothing for anybody else.
fn assert_withstands_clients_that_read_nothing(count: usize) {
    let (pilot, port) = start();
    let held = (flood(count, || pilot.connect()), flood(count, || tcp(port)));
    assert_undisturbed(&pilot);
    assert_eq!(get_port(port, "/metrics", "").status, 200);
    let began = Instant::now();
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(held);
}

#[test]
fn six_clients_that_pipeline_requests_and_read_nothing_take_no_memory() {
    assert_withstands_clients_that_read_nothing(6);
}

#[test]
fn as_many_of_them_as_are_served_take_no_memory_either() {
    let _alone = alone();
    assert_withstands_clients_that_read_nothing(128);
}

#[test]
fn a_container_of_128_mb_survives_clients_that_pipeline_requests_and_read_nothing() {
    let _alone = alone();
    let options = ["--memory", "128m", "--memory-swap", "128m", "--network", "host"];
    let port = free_port();
    let config = format!(
        r#"{{ stopTimeout: "60s", telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"] }}, jobs: [
            {{ name: "app", exec: ["sh", "-c", "while :; do echo tick >> {{dir}}/ticks; sleep 0.02; done"] }} ] }}"#
    );
    let Some(container) = Container::start(&options, &config) else { return };
    container.wait_for_event("global startup");
    let held = (flood(128, || container.connect()), flood(128, || tcp(port)));
    let before = container.lines("ticks").len();
    container.wait_for_lines("ticks", before + 3);
    let began = Instant::now();
    assert_eq!(container.pilot().ask("GET", "/v3/ping", "").status, 200);
    assert!(began.elapsed() < SOON, "a ping took {:?}", began.elapsed());
    let (exit, took) = container.stop();
    assert_eq!(exit, Exit::Code(0));
    assert!(took < SOON, "{took:?}");
    assert_eq!(container.state()["OOMKilled"], false);
    drop(held);
}

#[test]
fn a_crowd_that_asks_for_long_answers_gets_them_and_makes_few_threads() {
    let jobs: Vec<String> =
        (0..60).map(|number| format!(r#"{{ name: "job{number}", exec: "sleep 1000" }}"#)).collect();
    let pilot = Pilot::start(&format!("{{ jobs: [{}] }}", jobs.join(", ")));
    pilot.wait_for_event("global startup");
    let ask = "GET /v3/status HTTP/1.1\r\nHost: x\r\n\r\n".repeat(5);
    let last = "GET /v3/report HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let clients: Vec<_> = (0..120)
        .map(|_| {
            let mut client = connect(&pilot.socket());
            thread::spawn({
                let requests = format!("{ask}{last}");
                move || {
                    client.write_all(requests.as_bytes()).unwrap();
                    let mut answers = String::new();
                    client.read_to_string(&mut answers).unwrap();
                    answers.matches("HTTP/1.1 200 OK").count()
                }
            })
        })
        .collect();
    let mut most = 0;
    while clients.iter().any(|client| !client.is_finished()) {
        most = most.max(proc_status(pilot.pid(), "Threads"));
    }
    assert!(clients.into_iter().all(|client| client.join().unwrap() == 6));
    // The loop, the log, the one that starts processes; sixteen that make answers, and those that are just ending.
    assert!(most <= 60, "{most} threads");
}

#[test]
fn what_a_crowd_did_not_read_is_given_back_when_it_is_gone() {
    let _alone = alone();
    let name = "a-name-that-makes-the-answer-long".repeat(4);
    let waits = r#"exec: "true", when: { source: "never", once: "healthy" }"#;
    let jobs = (0..500).map(|number| format!(r#"{{ name: "{name}{number}", {waits} }}"#));
    let never = r#"{ name: "never", exec: "sleep 1000", health: { exec: "false", interval: 1000 } }"#;
    let jobs: Vec<String> = jobs.chain([never.to_owned()]).collect();
    let pilot = Pilot::start(&format!("{{ jobs: [{}] }}", jobs.join(", ")));
    pilot.wait_for_event("global startup");
    let length = pilot.ask("GET", "/v3/status", "").body.len() as u64 >> 10;
    let ask = |_| {
        let mut client = pilot.connect();
        client.write_all(b"GET /v3/status HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        client
    };
    let mut crowd: Vec<_> = (0..60).map(ask).collect();
    // A client that can read the first byte has its answer. The rest does not fit into the buffer of the socket.
    assert!(length > 220, "{length} KiB");
    crowd.iter_mut().for_each(|client| client.read_exact(&mut [0]).unwrap());
    let held = resident_kib(pilot.pid());
    drop(crowd);
    pilot.eventually("most of it is given back", || resident_kib(pilot.pid()) + 35 * length < held);
}

#[test]
fn pipelined_requests_are_all_answered_in_order() {
    let (pilot, port) = start();
    let last = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let mut stream = tcp(port);
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let requests = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".repeat(300);
    stream.write_all((requests + last).as_bytes()).unwrap();
    let answers = answer(stream).body;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 300, "the first one is not in the body");
    assert!(answers.contains("containerpilot_events"));
    let body = "{\n\n\"A\":\r\n\r\n\"blank lines end a head, but not a body\"\n\n}";
    let set = format!("PUT /v3/env HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut stream = pilot.connect();
    let end = "GET /v3/ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all((set.repeat(50) + end).as_bytes()).unwrap();
    let answers = answer(stream);
    assert_eq!((answers.status, answers.body.matches("HTTP/1.1 200 OK").count()), (200, 50), "{answers:?}");
    assert!(answers.body.ends_with("ok\n"), "{answers:?}");
}
