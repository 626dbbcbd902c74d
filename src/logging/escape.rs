//! Copies text and escapes what a format wants escaped: the part that `logfmt` and `json` share. serde_json cannot do
//! it: it knows neither Go's escapes nor text that is not UTF-8.

use std::fmt::Arguments;
use std::io::Write;

/// For each byte whether it is one of some; a look into a table is fast at every level of optimisation.
pub type ByteSet = [bool; 256];

/// The bytes that match a pattern.
macro_rules! byte_set {
    ($pattern:pat) => {{
        let mut set = [false; 256];
        let mut byte = 0u8;
        loop {
            // A byte is below 256, and this is done when the program is compiled.
            #[allow(clippy::indexing_slicing)]
            {
                set[byte as usize] = matches!(byte, $pattern);
            }
            match byte.checked_add(1) {
                Some(next) => byte = next,
                None => break set,
            }
        }
    }};
}
pub(super) use byte_set;

/// How a format escapes.
pub trait Escape {
    /// The bytes that cannot simply be copied; all beyond ASCII are among them.
    const SPECIAL: ByteSet;

    /// Appends a character that has at least one special byte.
    fn write_character(character: char, out: &mut Vec<u8>);

    /// Appends a byte that is not UTF-8.
    fn write_invalid(byte: u8, out: &mut Vec<u8>);
}

/// The first byte that is in the set. Bytes are looked at eight at a time, with one decision: most text has none.
pub fn find(text: &[u8], set: &ByteSet) -> Option<usize> {
    let (chunks, _) = text.as_chunks::<8>();
    let clean = chunks.iter().take_while(|chunk| !has_any(chunk, set)).count() * 8;
    let rest = text.get(clean..)?;
    rest.iter().position(|&byte| has(set, byte)).map(|at| clean + at)
}

fn has_any(&[a, b, c, d, e, f, g, h]: &[u8; 8], set: &ByteSet) -> bool {
    let has = |byte| has(set, byte);
    has(a) | has(b) | has(c) | has(d) | has(e) | has(f) | has(g) | has(h)
}

fn has(set: &ByteSet, byte: u8) -> bool {
    set.get(usize::from(byte)).copied().unwrap_or(true)
}

/// Appends `text` as the format `E` escapes it.
pub fn write_escaped<E: Escape>(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = find(rest, &E::SPECIAL) {
        let (clean, special) = rest.split_at(at);
        out.extend_from_slice(clean);
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
    out.extend_from_slice(rest);
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

/// Appends formatted text.
pub fn write_into(out: &mut Vec<u8>, text: Arguments<'_>) {
    // Writing into a vector cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_of_the_set_is_found_whichever_others_follow() {
        let set = byte_set!(b'!');
        let bytes_of =
            |pattern: u8| (0..8).map(move |bit| if pattern & (1 << bit) > 0 { b'!' } else { b'-' });
        for pattern in 0..=u8::MAX {
            let first = (pattern > 0).then(|| pattern.trailing_zeros() as usize);
            let text: Vec<u8> = bytes_of(0).chain(bytes_of(pattern)).collect();
            assert_eq!(find(&text, &set), first.map(|at| 8 + at), "{pattern:08b}");
            let text: Vec<u8> = text.into_iter().chain(*b"--!").collect();
            assert_eq!(find(&text, &set), Some(8 + first.unwrap_or(10)), "{pattern:08b}");
        }
    }
}
