//! Splits what a client has received into responses, and sees that each of them is well-formed.

use httparse::{EMPTY_HEADER, Status};
use serde_json::Value;

/// A response.
#[derive(Debug)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Its body, as far as it has arrived.
    pub body: Vec<u8>,
}

/// The responses in what a client has received. `is_head` tells of each whether its request was a HEAD; a panic says which
/// bytes are no response.
pub fn responses(mut bytes: &[u8], mut is_head: impl Iterator<Item = bool>) -> Vec<Response> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let mut headers = [EMPTY_HEADER; 32];
        let mut head = httparse::Response::new(&mut headers);
        let parsed = head.parse(bytes).unwrap_or_else(|error| panic!("{error}: {}", shown(bytes)));
        let (Status::Complete(length), Some(status)) = (parsed, head.code) else {
            panic!("half a head: {}", shown(bytes))
        };
        assert!((100..600).contains(&status), "{}", shown(bytes));
        let behind = &bytes[length..];
        if status == 100 {
            bytes = behind;
            continue;
        }
        let Some(is_head) = is_head.next() else { break };
        let (body, rest) = if is_head { (Vec::new(), behind) } else { body(head.headers, behind) };
        let content_type = header(head.headers, "content-type").unwrap_or_default();
        if content_type == "application/json" && !is_head {
            let json: Value = serde_json::from_slice(&body)
                .unwrap_or_else(|error| panic!("{error}: {}", shown(bytes)));
            let is_error = status >= 400 && status != 503;
            assert!(!is_error || json["error"].is_string(), "no reason: {}", shown(bytes));
        }
        found.push(Response { status, body });
        bytes = rest;
    }
    found
}

/// The body, and the bytes behind it.
fn body<'a>(headers: &[httparse::Header<'_>], bytes: &'a [u8]) -> (Vec<u8>, &'a [u8]) {
    let length = header(headers, "content-length");
    match (header(headers, "transfer-encoding"), length) {
        (Some(encoding), None) if encoding == "chunked" => chunks(bytes),
        (None, Some(length)) => {
            let length: usize = length.parse().expect("a length");
            let (body, rest) = bytes.split_at_checked(length).expect("a whole body");
            (body.to_vec(), rest)
        }
        // It ends with the connection: for HTTP/1.0, and for clients that offer another protocol.
        (None, None) => (bytes.to_vec(), &[]),
        (encoding, length) => panic!("a body of length {length:?} in {encoding:?}"),
    }
}

/// A stream of events may end anywhere.
fn chunks(mut bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut body = Vec::new();
    loop {
        match httparse::parse_chunk_size(bytes).expect("the size of a chunk") {
            Status::Partial => return (body, &[]),
            Status::Complete((start, 0)) => {
                let rest = bytes[start..].strip_prefix(b"\r\n").expect("no trailers");
                return (body, rest);
            }
            Status::Complete((start, size)) => {
                let end = start + usize::try_from(size).expect("a small chunk");
                let Some(chunk) = bytes.get(start..end) else { return (body, &[]) };
                body.extend(chunk);
                bytes = bytes[end..].strip_prefix(b"\r\n").unwrap_or_default();
            }
        }
    }
}

fn header(headers: &[httparse::Header<'_>], name: &str) -> Option<String> {
    let mut named = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    let value = named.next().map(|header| String::from_utf8_lossy(header.value).into_owned());
    assert!(named.next().is_none(), "{name} twice");
    value
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(500)]).into_owned()
}
