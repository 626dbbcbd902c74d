//! Finds where the body of a response ends (RFC 9112, section 6): after its length, after its last chunk, or with the
//! connection. Reads from no connection itself.

use std::io;

use httparse::{Header, Status};

use super::{LONGEST_HEAD, malformed};

/// The part of a body that is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// This many bytes.
    Length(u64),
    /// Chunks, each after its size.
    Chunked(Chunk),
    /// All bytes until the server closes the connection.
    UntilClose,
}

/// The position within a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk {
    /// The size of a chunk comes next.
    BeforeSize,
    /// This many bytes of a chunk are left.
    Inside(u64),
    /// The line end after a chunk comes next.
    BeforeLineEnd,
}

impl Body {
    /// The body of a response with this status and these headers to a request with this method.
    pub fn new(method: &str, status: u16, headers: &[Header<'_>]) -> io::Result<Self> {
        if method == "HEAD" || matches!(status, 100..200 | 204 | 304) {
            return Ok(Self::Length(0));
        }
        let named = |name: &'static str| {
            headers.iter().filter(move |header: &&Header<'_>| header.name.eq_ignore_ascii_case(name))
        };
        if let Some(encodings) = named("transfer-encoding").next_back() {
            let last = encodings.value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
            let is_chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
            return Ok(if is_chunked { Self::Chunked(Chunk::BeforeSize) } else { Self::UntilClose });
        }
        let Some(length) = named("content-length").next() else { return Ok(Self::UntilClose) };
        let digits = length.value.trim_ascii();
        let is_number = digits.iter().all(u8::is_ascii_digit);
        let length = str::from_utf8(digits).ok().filter(|_| is_number).and_then(|digits| digits.parse().ok());
        length.map(Self::Length).ok_or_else(|| malformed("the answer's content-length is not a number"))
    }

    /// Moves the bytes of the body from `input` to `output`; true at the end of the body.
    pub fn take(&mut self, input: &mut Vec<u8>, output: &mut Vec<u8>) -> io::Result<bool> {
        match self {
            Self::UntilClose => {
                output.append(input);
                Ok(false)
            }
            Self::Length(left) => {
                take_at_most(left, input, output);
                Ok(*left == 0)
            }
            Self::Chunked(chunk) => chunk.take(input, output),
        }
    }
}

impl Chunk {
    fn take(&mut self, input: &mut Vec<u8>, output: &mut Vec<u8>) -> io::Result<bool> {
        while !input.is_empty() {
            *self = match *self {
                Self::BeforeSize => match httparse::parse_chunk_size(input) {
                    Ok(Status::Complete((_, 0))) => return Ok(true), // only trailers may follow
                    Ok(Status::Complete((length, size))) => {
                        input.drain(..length);
                        Self::Inside(size)
                    }
                    Ok(Status::Partial) if input.len() <= LONGEST_HEAD => return Ok(false),
                    Ok(Status::Partial) | Err(_) => {
                        return Err(malformed("a chunk of the answer has no size"));
                    }
                },
                Self::Inside(mut left) => {
                    take_at_most(&mut left, input, output);
                    if left > 0 { Self::Inside(left) } else { Self::BeforeLineEnd }
                }
                Self::BeforeLineEnd if input.len() < 2 => return Ok(false),
                Self::BeforeLineEnd if input.starts_with(b"\r\n") => {
                    input.drain(..2);
                    Self::BeforeSize
                }
                Self::BeforeLineEnd => {
                    return Err(malformed("a chunk of the answer is longer than its size"));
                }
            };
        }
        Ok(false)
    }
}

fn take_at_most(left: &mut u64, input: &mut Vec<u8>, output: &mut Vec<u8>) {
    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    output.extend(input.drain(..length));
    *left -= length as u64;
}
