//! As much of HTTP/1.1 as a client of our own control socket needs: one request per connection, and a body that
//! ends by its length, in chunks, or with the connection.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The longest line that a server may send outside of a body.
const LONGEST_LINE: u64 = 64 << 10;

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// `GET` or `PUT`.
    pub method: &'static str,
    /// Path and query, encoded.
    pub target: String,
    /// JSON, or nothing.
    pub body: String,
    /// How long the answer may take to begin, and to go on; `None` for what lasts as long as it lasts.
    pub patience: Option<Duration>,
}

/// The head of an answer; the body is to be read.
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// What follows the head.
    pub body: Box<dyn BufRead>,
}

/// Sends a request and reads the head of its answer.
pub fn send(socket: &Path, call: &Call) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(call.patience)?;
    stream.set_write_timeout(call.patience)?;
    let head = format!(
        "{} {} HTTP/1.1\r\nHost: control\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        call.method,
        call.target,
        call.body.len()
    );
    // A server that refuses answers before it has read everything; what it says is worth more than our failure.
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(call.body.as_bytes()));
    match read_head(BufReader::new(stream)) {
        Ok(answer) => Ok(answer),
        Err(error) => Err(sent.err().unwrap_or(error)),
    }
}

fn read_head(mut reader: impl BufRead + 'static) -> io::Result<Answer> {
    let first = line(&mut reader)?;
    let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
    let status = status.ok_or_else(|| wrong(&format!("expected an HTTP status, found {first:?}")))?;
    let (mut length, mut chunked) = (None, false);
    loop {
        let header = line(&mut reader)?;
        if header.is_empty() {
            break;
        }
        let Some((name, value)) = header.split_once(':') else { continue };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse::<u64>().ok(),
            "transfer-encoding" => chunked = value.trim().eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    let body: Box<dyn BufRead> = match length {
        _ if chunked => Box::new(BufReader::new(Chunks { reader, left: 0, ended: false })),
        Some(length) => Box::new(reader.take(length)),
        None => Box::new(reader),
    };
    Ok(Answer { status, body })
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    reader.take(LONGEST_LINE).read_until(b'\n', &mut bytes)?;
    match bytes.strip_suffix(b"\n") {
        Some(line) => Ok(String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned()),
        None if bytes.is_empty() => Err(ErrorKind::UnexpectedEof.into()),
        None => Err(wrong("a line of the answer's head has no end")),
    }
}

fn wrong(message: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message)
}

/// A body in chunks.
struct Chunks<R> {
    reader: R,
    /// What is left of the current chunk.
    left: u64,
    ended: bool,
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.ended {
            let size = line(&mut self.reader)?;
            let size = size.split(';').next().unwrap_or_default().trim();
            self.left = u64::from_str_radix(size, 16)
                .map_err(|_| wrong(&format!("expected the size of a chunk, found {size:?}")))?;
            self.ended = self.left == 0;
        }
        if self.ended {
            return Ok(0);
        }
        let count = (&mut self.reader).take(self.left).read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        if self.left == 0 {
            line(&mut self.reader)?; // the end of the line after the chunk
        }
        Ok(count)
    }
}

/// A part of a path, so that nothing in it means anything.
pub fn encoded(part: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    part.bytes()
        .map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &'static str) -> io::Result<(u16, String)> {
        let mut answer = read_head(text.as_bytes())?;
        let mut body = String::new();
        answer.body.read_to_string(&mut body)?;
        Ok((answer.status, body))
    }

    #[test]
    fn a_body_ends_by_its_length_in_chunks_or_with_the_connection() {
        for text in [
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhellothere",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
            "HTTP/1.0 200 OK\n\nhello",
        ] {
            assert_eq!(answer(text).unwrap(), (200, "hello".to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for text in [
            "",
            "SSH-2.0-OpenSSH\r\n",
            "HTTP/1.1 2",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
        ] {
            assert!(answer(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_in_a_path_is_encoded() {
        assert_eq!(encoded("/bin/my app?"), "%2Fbin%2Fmy%20app%3F");
        assert_eq!(encoded("a-b_c.d"), "a-b_c.d");
    }
}
