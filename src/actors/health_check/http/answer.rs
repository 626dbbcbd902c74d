//! The answer to one request: its status, and its body as far as a text is looked for in it. It comes on a connection
//! of its own, so nothing is kept for a next one.

use std::io;
use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};
use memchr::memmem;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::reason::reason;

/// All that comes before the body may be this long.
const LONGEST_HEAD: usize = 64 << 10;
/// So much of a body is searched.
const LONGEST_BODY: usize = 4 << 20;
const MOST_HEADERS: usize = 128;
/// The least room for what a read brings: most answers to health checks fit.
const ROOM: usize = 1 << 10;

/// An answer whose head has come.
pub struct Answer<S> {
    /// Its status.
    pub status: u16,
    stream: S,
    /// What has come and was not looked at.
    input: Vec<u8>,
    body: Body,
}

/// What is still to come of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// So many bytes.
    Bytes(u64),
    /// Chunks, each with its size before it.
    Chunks(Chunk),
    /// All until the connection ends.
    UntilEnd,
}

/// Where in its chunks a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    BeforeSize,
    Inside(u64),
    BeforeLineEnd,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Answer<S> {
    /// Reads the head of the answer to a request with this method.
    pub async fn read(mut stream: S, method: &str) -> Result<Self, String> {
        let (mut input, mut length) = (Vec::new(), 0);
        loop {
            match fill(&mut stream, &mut input).await? {
                0 => return Err("the connection ended before an answer".to_owned()),
                more => length += more,
            }
            if let Some((status, body)) = take_head(&mut input, method)? {
                return Ok(Self { status, stream, input, body });
            }
            if length > LONGEST_HEAD {
                return Err(format!("the headers of the answer are longer than {LONGEST_HEAD} bytes"));
            }
        }
    }

    /// Whether the body contains a text. Reads no further than that.
    pub async fn contains(&mut self, wanted: &[u8]) -> Result<bool, String> {
        // The end of what was searched, in which the text may begin, and what came after it.
        let mut text = Vec::new();
        let mut searched = 0;
        loop {
            let before = text.len();
            let is_over = self.body.take(&mut self.input, &mut text)?;
            searched += text.len() - before;
            if memmem::find(&text, wanted).is_some() {
                return Ok(true);
            }
            if is_over {
                return Ok(false);
            }
            if searched > LONGEST_BODY {
                return Err(format!("the first {LONGEST_BODY} bytes of the answer do not contain the text"));
            }
            text.drain(..text.len().saturating_sub(wanted.len().saturating_sub(1)));
            if fill(&mut self.stream, &mut self.input).await? == 0 {
                return match self.body {
                    Body::UntilEnd => Ok(false),
                    Body::Bytes(_) | Body::Chunks(_) => {
                        Err("the connection ended within the answer".to_owned())
                    }
                };
            }
        }
    }

    /// Says goodbye, which servers expect with TLS.
    pub async fn close(mut self) {
        let _ = self.stream.shutdown().await; // one that is gone needs no goodbye
    }
}

/// Reads what there is; 0 at the end of the connection.
async fn fill(stream: &mut (impl AsyncRead + Unpin), input: &mut Vec<u8>) -> Result<usize, String> {
    input.reserve(ROOM);
    stream.read_buf(input).await.map_err(|error: io::Error| reason(&error))
}

/// Takes the head from the input once it is whole: the status, and what its body will be like.
fn take_head(input: &mut Vec<u8>, method: &str) -> Result<Option<(u16, Body)>, String> {
    loop {
        let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
        let mut response = Response::new(&mut []);
        let parsed = lenient().parse_response_with_uninit_headers(&mut response, input, &mut headers);
        let parsed = parsed.map_err(|error| format!("the answer is not HTTP: {error}"))?;
        let (Status::Complete(length), Some(status)) = (parsed, response.code) else { return Ok(None) };
        let body = body_of(method, status, response.headers)?;
        input.drain(..length);
        // What comes before the answer itself, such as `100 Continue`.
        let is_interim = (100..200).contains(&status) && status != 101;
        if !is_interim {
            return Ok(Some((status, body)));
        }
    }
}

/// A service is not ill because its headers have blanks where they should not.
fn lenient() -> ParserConfig {
    let mut config = ParserConfig::default();
    config
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .ignore_invalid_headers_in_responses(true);
    config
}

fn body_of(method: &str, status: u16, headers: &[Header<'_>]) -> Result<Body, String> {
    if method == "HEAD" || matches!(status, 100..200 | 204 | 304) {
        return Ok(Body::Bytes(0));
    }
    let named = |name: &'static str| {
        headers.iter().filter(move |header: &&Header<'_>| header.name.eq_ignore_ascii_case(name))
    };
    if let Some(encodings) = named("transfer-encoding").next_back() {
        let last = encodings.value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
        let is_chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
        return Ok(if is_chunked { Body::Chunks(Chunk::BeforeSize) } else { Body::UntilEnd });
    }
    let Some(length) = named("content-length").next() else { return Ok(Body::UntilEnd) };
    let digits = length.value.trim_ascii();
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let length = str::from_utf8(digits).ok().filter(|_| is_number).and_then(|digits| digits.parse().ok());
    length.map(Body::Bytes).ok_or_else(|| "the answer's content-length is not a number".to_owned())
}

impl Body {
    /// Moves what belongs to the body from the input to `text`; true at its end.
    fn take(&mut self, input: &mut Vec<u8>, text: &mut Vec<u8>) -> Result<bool, String> {
        match self {
            Self::UntilEnd => {
                text.append(input);
                Ok(false)
            }
            Self::Bytes(left) => {
                take_at_most(left, input, text);
                Ok(*left == 0)
            }
            Self::Chunks(chunk) => chunk.take(input, text),
        }
    }
}

impl Chunk {
    fn take(&mut self, input: &mut Vec<u8>, text: &mut Vec<u8>) -> Result<bool, String> {
        while !input.is_empty() {
            *self = match *self {
                Self::BeforeSize => match httparse::parse_chunk_size(input) {
                    Ok(Status::Complete((_, 0))) => return Ok(true), // what may follow are headers
                    Ok(Status::Complete((length, size))) => {
                        input.drain(..length);
                        Self::Inside(size)
                    }
                    Ok(Status::Partial) if input.len() <= LONGEST_HEAD => return Ok(false),
                    Ok(Status::Partial) | Err(_) => {
                        return Err("a chunk of the answer has no size".to_owned());
                    }
                },
                Self::Inside(mut left) => {
                    take_at_most(&mut left, input, text);
                    if left > 0 { Self::Inside(left) } else { Self::BeforeLineEnd }
                }
                Self::BeforeLineEnd if input.len() < 2 => return Ok(false),
                Self::BeforeLineEnd if input.starts_with(b"\r\n") => {
                    input.drain(..2);
                    Self::BeforeSize
                }
                Self::BeforeLineEnd => return Err("a chunk of the answer is longer than its size".to_owned()),
            };
        }
        Ok(false)
    }
}

fn take_at_most(left: &mut u64, input: &mut Vec<u8>, text: &mut Vec<u8>) {
    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    text.extend(input.drain(..length));
    *left -= length as u64;
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// The status of an answer and whether its body contains a text, when it comes in pieces of this size.
    async fn receive(answer: &str, piece: usize, method: &str, wanted: &str) -> Result<(u16, bool), String> {
        let (stream, mut server) = tokio::io::duplex(piece);
        let bytes = answer.to_owned();
        let send = async move {
            let _ = server.write_all(bytes.as_bytes()).await;
        };
        let receive = async {
            let mut answer = Answer::read(stream, method).await?;
            Ok((answer.status, answer.contains(wanted.as_bytes()).await?))
        };
        tokio::join!(send, receive).1
    }

    /// The same however the answer is cut into pieces.
    async fn read(answer: &str, method: &str, wanted: &str) -> Result<(u16, bool), String> {
        let first = receive(answer, 1, method, wanted).await;
        for piece in [2, 3, 7, answer.len().max(1)] {
            assert_eq!(receive(answer, piece, method, wanted).await, first, "in pieces of {piece}");
        }
        first
    }

    #[tokio::test]
    async fn a_body_may_have_a_length_or_chunks_or_end_with_the_connection() {
        for head in ["content-length: 12", "x: y", "Content-Length:12 \r\nx: y"] {
            let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\nall is well.");
            assert_eq!(read(&answer, "GET", "is well").await, Ok((200, true)));
            assert_eq!(read(&answer, "GET", "is ill").await, Ok((200, false)));
        }
        let chunks = "HTTP/1.1 503 No\r\ntransfer-encoding: Chunked\r\n\r\n4;x=y\r\nall \r\n8\r\nis well.\r\n0\r\na: b\r\n\r\n";
        assert_eq!(read(chunks, "GET", "all is well.").await, Ok((503, true)));
        assert_eq!(read(chunks, "GET", "\r\n").await, Ok((503, false)));
    }

    #[tokio::test]
    async fn nothing_is_read_beyond_the_end_of_a_body() {
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes and more";
        assert_eq!(read(answer, "GET", "more").await, Ok((200, false)));
        let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nyes\r\n0\r\n\r\nmore";
        assert_eq!(read(answer, "GET", "more").await, Ok((200, false)));
    }

    #[tokio::test]
    async fn some_answers_have_no_body_whatever_they_say() {
        for (method, status) in [("HEAD", 200), ("GET", 204), ("GET", 304)] {
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 3\r\n\r\n");
            assert_eq!(read(&answer, method, "yes").await, Ok((status, false)));
        }
    }

    #[tokio::test]
    async fn what_comes_before_the_answer_is_skipped() {
        let switched = "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\nwhatever";
        assert_eq!(read(switched, "GET", "whatever").await, Ok((101, false)), "that is the answer");
        let answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.0 200 OK\r\n\r\nyes";
        assert_eq!(read(answer, "GET", "yes").await, Ok((200, true)));
    }

    #[tokio::test]
    async fn headers_may_be_untidy() {
        let head = "HTTP/1.1 200\r\nServer : x\r\nfolded: a\r\n b\r\nnone\r\nContent-Length : 3\r\n\r\n";
        assert_eq!(read(&format!("{head}yes and more"), "GET", "more").await, Ok((200, false)));
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n";
        assert_eq!(read(&format!("{head}3\r\nyes\r\n0\r\n\r\n"), "GET", "yes").await, Ok((200, true)));
    }

    #[tokio::test]
    async fn an_answer_that_is_none_is_refused_with_the_reason() {
        for (answer, reason) in [
            ("", "the connection ended before an answer"),
            ("HTTP/1.1 200 OK\r\n", "the connection ended before an answer"),
            ("SSH-2.0-OpenSSH_9.2\r\n", "the answer is not HTTP: invalid HTTP version"),
            ("HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\n", "the answer's content-length is not a number"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nyes", "the connection ended within the answer"),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
                "a chunk of the answer has no size",
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nyes\r\n",
                "a chunk of the answer is longer than its size",
            ),
        ] {
            assert_eq!(read(answer, "GET", "none").await, Err(reason.to_owned()), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_without_end_is_given_up() {
        let refused = async |answer: &str| receive(answer, 1 << 20, "GET", "none").await.unwrap_err();
        let too_long = "the headers of the answer are longer than 65536 bytes";
        let many = format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(LONGEST_HEAD));
        assert_eq!(refused(&many).await, "the answer is not HTTP: too many headers");
        let long = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(2 * LONGEST_HEAD));
        assert_eq!(refused(&long).await, too_long);
        assert_eq!(refused(&"HTTP/1.1 100 Continue\r\n\r\n".repeat(LONGEST_HEAD)).await, too_long);
        let body = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(LONGEST_BODY + ROOM));
        assert_eq!(refused(&body).await, "the first 4194304 bytes of the answer do not contain the text");
    }
}
