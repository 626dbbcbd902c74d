//! Responses that no Consul should send: each becomes a reply or an error, within the limit, and never a panic.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Instant;

use proptest::prelude::*;
use tokio::task::LocalSet;

use super::*;
use crate::config::spec::TlsSpec;

const LIMIT: Duration = Duration::from_millis(500);
const TOKEN: &str = "s3cr3t";
const BODY: &str = r#"[{"Node":{"Address":"10.0.0.1"},"Service":{"ID":"a","Port":80}}]"#;

/// A server that sends the same response to each connection, and then closes it or keeps it open.
fn server(answer: Vec<u8>, closes: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(&answer);
            if !closes {
                open.push(stream);
            }
        }
    });
    port
}

fn client(port: u16) -> Client {
    let tls = TlsSpec {
        ca_file: None,
        ca_path: None,
        client_cert: None,
        client_key: None,
        server_name: None,
        verify: true,
    };
    let address = ConsulAddress::Tcp { tls: false, host: "127.0.0.1".to_owned(), port };
    Client::new(&ConsulSpec { address, token: Some(Secret::new(TOKEN.to_owned())), tls }).unwrap()
}

fn query(target: QueryTarget) -> Query {
    Query {
        generation: 0,
        caller: "watch.a".into(),
        target,
        datacentre: None,
        newer_than: None,
        interval: Duration::from_secs(1),
    }
}

fn service() -> QueryTarget {
    QueryTarget::Service { name: "a".to_owned(), tag: None }
}

/// The result of a query with that response; asserts the rules for all responses.
async fn asked(answer: Vec<u8>, closes: bool, target: QueryTarget) -> Result<QueryReply, CallError> {
    let port = server(answer, closes);
    let began = Instant::now();
    let result = LocalSet::new().run_until(async { client(port).query(&query(target), LIMIT).await }).await;
    assert!(began.elapsed() < Duration::from_secs(20), "took {:?}", began.elapsed());
    if let Err(error) = &result {
        let text = error.to_string();
        assert!(!text.contains(char::is_control), "{text:?}");
        assert!(!text.contains(TOKEN), "{text:?}");
        assert!(text.len() < 1000, "{text:?}");
    }
    result
}

fn http(headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

#[tokio::test(flavor = "current_thread")]
async fn an_index_that_is_no_number_is_none() {
    for (index, expected) in [
        ("X-Consul-Index: 7\r\n", Some(7)),
        ("X-Consul-Index: 18446744073709551615\r\n", Some(u64::MAX)),
        ("X-Consul-Index: 18446744073709551616\r\n", None),
        ("X-Consul-Index: -1\r\n", None),
        ("X-Consul-Index: 1e3\r\n", None),
        ("X-Consul-Index: \r\n", None),
        ("X-Consul-Index: \u{fc}\r\n", None),
        ("", None),
    ] {
        let answer = asked(http(index, BODY), false, service()).await.unwrap();
        assert_eq!((answer.index, answer.found.len()), (expected, 1), "{index}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_body_that_makes_no_sense_is_an_error() {
    for body in [
        "",
        "null",
        "{}",
        "7",
        "[null]",
        "[[]]",
        "[{}]",
        r#"[{"Node":{"Address":"x"},"Service":null}]"#,
        r#"[{"Node":{"Address":"x"},"Service":{"ID":7}}]"#,
        r#"[{"Node":{"Address":"x"},"Service":{"ID":"a","Port":"80"}}]"#,
        r#"[{"Node":{"Address":"x"},"Service":{"ID":"a","Port":1e400}}]"#,
        r#"[{"Node":{"Address":"x"},"Service":{"ID":"a","Port":99999999999999999999}}]"#,
        "[{\"Node\":{\"Address\":\"\u{1b}[31mred\"},\"Service\":7}]",
        "[\"\\u001b[31mred\\r\\n\"]",
        "\u{1b}[2J",
        "[1",
    ] {
        for target in [service(), QueryTarget::Key("k".to_owned()), QueryTarget::Prefix("p/".to_owned())] {
            let result = asked(http("X-Consul-Index: 7\r\n", body), false, target).await;
            assert!(matches!(result, Err(CallError::Garbled(_))), "{body:?}: {result:?}");
        }
    }
    let deep = "[".repeat(1 << 20);
    assert!(matches!(asked(http("", &deep), false, service()).await, Err(CallError::Garbled(_))));
}

#[tokio::test(flavor = "current_thread")]
async fn a_404_of_consul_says_that_there_is_no_key_and_that_of_a_proxy_is_a_failure() {
    let not_found = |headers: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 404 Not Found\r\n{headers}Content-Length: {length}\r\n\r\n{body}").into_bytes()
    };
    for target in [QueryTarget::Key("k".to_owned()), QueryTarget::Prefix("p/".to_owned())] {
        let index = "X-Consul-Index: 7\r\n";
        for (headers, body, expected) in [(index, "", Some(7)), (index, "none", Some(7)), ("", "", None)] {
            let reply = asked(not_found(headers, body), false, target.clone()).await.unwrap();
            assert_eq!(reply, QueryReply { found: vec![], index: expected });
        }
        let failure = asked(not_found("", "404 page not found\n"), false, target).await.unwrap_err();
        let message = "404 page not found".to_owned();
        assert_eq!(failure, CallError::Answered { status: 404, message });
    }
}

#[tokio::test(flavor = "current_thread")]
async fn an_answer_that_is_no_http_or_never_whole_is_an_error_in_time() {
    let chunked =
        |rest: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{rest}").into_bytes();
    for answer in [
        b"".to_vec(),
        b"\0\0\0\0".to_vec(),
        b"\x16\x03\x01".to_vec(),
        b"HTTP/1.1".to_vec(),
        b"HTTP/1.1 200 OK\r\n".to_vec(),
        b"HTTP/1.1 999999 OK\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n[".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n[]".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n[]".to_vec(),
        b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(),
        chunked("zz\r\n[]\r\n"),
        chunked("ffffffffffffffffff\r\n[]"),
        // The client does not wait for the last chunk; the closing bracket shows that the array is complete.
        chunked("2\r\n[1\r\n"),
        [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; 1 << 20]].concat(),
        vec![b'\n'; 1 << 20],
    ] {
        for closes in [true, false] {
            let shown = String::from_utf8_lossy(answer.get(..60).unwrap_or(&answer)).into_owned();
            let result = asked(answer.clone(), closes, service()).await;
            assert!(result.is_err(), "{shown:?}: {result:?}");
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn the_message_of_a_failure_is_short_without_control_characters_and_without_the_token() {
    let body = format!("\u{1b}]0;title\u{7}{TOKEN}\r\nno\0 cluster leader\u{9b}31m {}", "x".repeat(100_000));
    let answer = format!("HTTP/1.1 500 \u{fffd}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let error = asked(answer.into_bytes(), false, service()).await.unwrap_err();
    let CallError::Answered { status: 500, message } = error else { panic!("{error:?}") };
    assert!(message.contains("[hidden]") && message.contains("cluster leader"), "{message:?}");
    assert!(message.chars().count() <= LONGEST_MESSAGE);
}

#[test]
fn one_instance_with_a_port_that_is_none_does_not_hide_the_others() {
    let body = r#"[{"Node":{"Address":"n"},"Service":{"ID":"a","Port":70000}},
        {"Node":{"Address":"n"},"Service":{"ID":"b","Port":-5}},
        {"Node":{"Address":"n"},"Service":{"ID":"c"}},
        {"Node":{"Address":"n"},"Service":{"ID":"d","Port":80,"Address":"s"}}]"#;
    let instance = |id: &str, address: &str, port| Found::Instance {
        id: id.to_owned(),
        address: address.to_owned(),
        port,
    };
    let expected =
        [instance("a", "n", 0), instance("b", "n", 0), instance("c", "n", 0), instance("d", "s", 80)];
    assert_eq!(instances(body.as_bytes()).unwrap(), expected);
}

/// JSON of any shape, often with the names that the client looks for.
fn json() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        prop::sample::select(vec!["Node", "Service", "Address", "ID", "Port", "Key", "Value", "Flags"])
            .prop_map(str::to_owned),
        any::<String>(),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_make_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (instances(&bytes), entries(&bytes));
    }

    #[test]
    fn no_json_makes_a_panic_and_no_error_shows_control_characters(value in json()) {
        let bytes = serde_json::to_vec(&value).unwrap();
        for error in [instances(&bytes).err(), entries(&bytes).err()].into_iter().flatten() {
            let text = error.to_string();
            prop_assert!(!text.contains(char::is_control), "{:?}", text);
        }
    }

    #[test]
    fn no_name_leads_to_another_path(name in any::<String>(), tag in any::<String>()) {
        let path = query_path(&query(QueryTarget::Service { name, tag: Some(tag) }));
        let (path, query) = path.split_once('?').unwrap();
        prop_assert_eq!(path.matches('/').count(), 4);
        prop_assert_eq!(query.matches('&').count(), 1);
        prop_assert!(path.bytes().chain(query.bytes()).all(|byte| byte.is_ascii_graphic()));
    }
}
