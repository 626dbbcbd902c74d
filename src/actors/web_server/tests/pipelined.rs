//! Several requests at once on one connection, through actix-http.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::*;
use crate::actors::web_server::connection::serving;

const PING: &str = "GET /v3/ping HTTP/1.1\r\nHost: x\r\n\r\n";
const HEAD: &str = "HEAD /v3/ping HTTP/1.1\r\nHost: x\r\n\r\n";
const LAST: &str = "GET /v3/ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

fn change(body: &str) -> String {
    format!("PUT /v3/environ HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The status lines and bodies of all responses to a connection's bytes, sent in pieces of this size.
async fn answers(state: &Data<AppState>, bytes: &str, piece: usize) -> Vec<String> {
    let serve = serving(application(Api::Control, state.clone())).await.unwrap();
    let (mut client, server) = UnixStream::pair().unwrap();
    Connections::default().add(Box::new(server), &serve);
    for part in bytes.as_bytes().chunks(piece) {
        client.write_all(part).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut text = String::new();
    let end = tokio::time::timeout(Duration::from_secs(30), client.read_to_string(&mut text)).await;
    end.unwrap().unwrap();
    let is_told = |line: &&str| ["HTTP/1.1 ", "{", "ok"].iter().any(|start| line.starts_with(start));
    text.lines().filter(is_told).map(str::to_owned).collect()
}

#[::core::prelude::v1::test]
fn a_head_request_behind_another_takes_nothing_from_its_answer() {
    in_scene(|scene| async move {
        for bytes in [
            change("{}") + HEAD + &change("[]") + HEAD + PING + LAST,
            // Blank lines in a body, and one byte of it after the head.
            change("\n\n\r\n\r\n{}") + HEAD + &change("[\n\n]") + HEAD + PING + LAST,
        ] {
            for piece in [1, 7, 54, 67, bytes.len()] {
                let ok = "HTTP/1.1 200 OK";
                let refused = r#"{"error":"expected a JSON object such as {\"NAME\": \"value\", \"GONE\": null}, found an array"}"#;
                let expected =
                    [ok, "{}", ok, "HTTP/1.1 422 Unprocessable Entity", refused, ok, ok, "ok", ok, "ok"];
                assert_eq!(answers(&scene.state, &bytes, piece).await, expected, "in pieces of {piece}");
            }
        }
    });
}

#[::core::prelude::v1::test]
fn a_chunked_body_ends_before_the_next_request() {
    in_scene(|scene| async move {
        let chunked =
            "PUT /v3/environ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        let bytes = [chunked, HEAD, PING, LAST].concat();
        for piece in [1, 7, bytes.len()] {
            let ok = "HTTP/1.1 200 OK";
            assert_eq!(answers(&scene.state, &bytes, piece).await, [ok, "{}", ok, ok, "ok", ok, "ok"]);
        }
    });
}

#[::core::prelude::v1::test]
fn a_request_behind_a_long_answer_waits_until_that_is_sent() {
    in_scene(|scene| async move {
        for number in 0..200 {
            scene.show(&format!("job-{number}"), |_| {});
        }
        let status = "GET /v3/status HTTP/1.1\r\nHost: x\r\n\r\n";
        let answers = answers(&scene.state, &[status, PING, HEAD, LAST].concat(), usize::MAX).await;
        assert!(answers.iter().any(|line| line.len() > 32 << 10), "it is sent in pieces");
        let begins = answers.iter().map(|line| if line.starts_with('{') { "{" } else { line });
        let ok = "HTTP/1.1 200 OK";
        assert_eq!(begins.collect::<Vec<_>>(), [ok, "{", ok, "ok", ok, ok, "ok"]);
    });
}
