//! Refusals of what is no request: actix-http answers garbage, slow and huge heads itself, before any route, with an
//! empty body. On its way out such an answer is replaced by one that says why, and its reader is given time to see it.

use std::pin::Pin;
use std::time::Duration;

use serde_json::json;
use tokio::time::Sleep;

use super::connection::HEAD_TIME;

/// How long who was refused may go on sending before its connection ends. If it ended at once, the kernel would throw
/// the answer away together with what was not read.
const LINGER: Duration = Duration::from_secs(1);
/// How much of it is read and thrown away meanwhile.
const MOST_IGNORED: usize = 1 << 20;
/// Longer than any such answer.
const LONGEST: usize = 512;

/// Where in what is to be written an answer without a body begins that refuses; such an answer is always the last.
pub fn begins(bytes: &[u8]) -> Option<usize> {
    if !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    let tail = bytes.len().saturating_sub(LONGEST);
    let head = bytes.get(tail..)?;
    let start = head.windows(9).rposition(|window| window == b"HTTP/1.1 ")?;
    let head = head.get(start..)?.to_ascii_lowercase();
    let refuses = matches!(head.get(9), Some(b'4' | b'5'));
    let is_empty = head.windows(19).any(|window| window == b"\r\ncontent-length: 0");
    (refuses && is_empty).then_some(tail + start)
}

/// An answer that takes the place of an empty one.
#[derive(Debug)]
pub struct Refusal {
    /// What is left to write.
    pub left: Vec<u8>,
    /// Ends the connection.
    pub until: Pin<Box<Sleep>>,
    /// How much more may come before it ends.
    pub patience: usize,
}

impl Refusal {
    /// Instead of that answer.
    pub fn instead_of(head: &[u8]) -> Self {
        let until = Box::pin(tokio::time::sleep(LINGER));
        Self { left: answer(&String::from_utf8_lossy(head)).into_bytes(), until, patience: MOST_IGNORED }
    }
}

fn answer(head: &str) -> String {
    let first = head.lines().next().unwrap_or_default();
    let status = first.split(' ').nth(1).unwrap_or_default();
    let body = json!({ "error": message(status) });
    let length = body.to_string().len() + 1;
    format!(
        "{first}\r\ncontent-length: {length}\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n{body}\n"
    )
}

fn message(status: &str) -> String {
    match status {
        "400" => "this is not an HTTP/1.1 request: look at the request line, the headers, and how the length of the body \
                  is told"
            .to_owned(),
        "408" => format!("the head of the request did not arrive within {} seconds", HEAD_TIME.as_secs()),
        "431" => "the head of the request is too large: at most 96 headers and 128 KiB are read".to_owned(),
        other => format!("the request was refused with status {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str =
        "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

    #[test]
    fn only_an_empty_refusal_at_the_very_end_is_replaced() {
        let before = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n";
        assert_eq!(begins(EMPTY.as_bytes()), Some(0));
        assert_eq!(begins(format!("{before}{EMPTY}").as_bytes()), Some(before.len()));
        assert_eq!(begins(format!("{}{EMPTY}", before.repeat(100)).as_bytes()), Some(before.len() * 100));
        for other in [
            before,
            "",
            "\r\n\r\n",
            "0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 38\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
        ] {
            assert_eq!(begins(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn the_answer_keeps_its_status_and_says_why() {
        let text = answer(EMPTY);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"), "{head}");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert!(body["error"].as_str().unwrap().contains("at most 96 headers"), "{body}");
        assert_eq!(begins(text.as_bytes()), None);
    }
}
