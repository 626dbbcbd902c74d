//! Copies text and escapes what a format asks to be escaped: the part that `logfmt` and `json` share.

use super::append::append;

/// How a format escapes.
pub trait Escape {
    /// The bytes that cannot simply be copied; all beyond ASCII are among them.
    fn special() -> &'static Bytes;

    /// Appends a character that has at least one special byte.
    fn write_character(character: char, out: &mut Vec<u8>);

    /// Appends a byte that is not UTF-8.
    fn write_invalid(byte: u8, out: &mut Vec<u8>);
}

/// A set of bytes: a table, since loops become vector instructions only in a program that is compiled for speed as a
/// whole.
pub struct Bytes([bool; 256]);

#[allow(clippy::indexing_slicing, reason = "a table of all bytes, and loops that end with their slice")]
impl Bytes {
    /// These bytes.
    pub const fn of(bytes: &[u8]) -> Self {
        Self([false; 256]).and(bytes)
    }

    /// These too.
    pub const fn and(mut self, bytes: &[u8]) -> Self {
        let mut index = 0;
        while index < bytes.len() {
            self.0[bytes[index] as usize] = true;
            index += 1;
        }
        self
    }

    /// And all from `first` to `last`.
    pub const fn and_range(mut self, first: u8, last: u8) -> Self {
        let mut byte = first as usize;
        while byte <= last as usize {
            self.0[byte] = true;
            byte += 1;
        }
        self
    }

    /// Whether `byte` is one of them.
    pub const fn has(&self, byte: u8) -> bool {
        self.0[byte as usize]
    }

    /// Whether `text` has any of them.
    pub fn meet(&self, text: &[u8]) -> bool {
        let (blocks, rest) = text.as_chunks::<8>();
        let in_block = |block: &[u8; 8]| block.iter().fold(false, |any, &byte| any | self.has(byte));
        blocks.iter().any(in_block) || rest.iter().any(|&byte| self.has(byte))
    }
}

/// Appends `text` as the format `E` escapes it.
pub fn write_escaped<E: Escape>(text: &[u8], out: &mut Vec<u8>) {
    // Most lines have nothing to escape.
    if E::special().meet(text) {
        write_mixed::<E>(text, out);
    } else {
        append(text, out);
    }
}

fn write_mixed<E: Escape>(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| E::special().has(byte)) {
        let (clean, special) = rest.split_at(at);
        append(clean, out);
        rest = match special.split_first() {
            Some((byte, rest)) if byte.is_ascii() => {
                E::write_character(char::from(*byte), out);
                rest
            }
            _ => {
                let end = special.iter().position(u8::is_ascii).unwrap_or(special.len());
                let (beyond_ascii, rest) = special.split_at(end);
                write_beyond_ascii::<E>(beyond_ascii, out);
                rest
            }
        };
    }
    append(rest, out);
}

fn write_beyond_ascii<E: Escape>(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            E::write_character(character, out);
        }
        for &byte in chunk.invalid() {
            E::write_invalid(byte, out);
        }
    }
}
