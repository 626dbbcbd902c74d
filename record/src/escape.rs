//! Copies text and escapes what a format asks to be escaped: the part that `logfmt` and `json` share.

/// How a format escapes.
pub trait Escape {
    /// Whether a byte cannot simply be copied; so for every byte beyond ASCII.
    fn is_special(byte: u8) -> bool;

    /// Appends a character that has at least one special byte.
    fn write_character(character: char, out: &mut Vec<u8>);

    /// Appends a byte that is not UTF-8.
    fn write_invalid(byte: u8, out: &mut Vec<u8>);
}

/// Appends `text` as the format `E` escapes it.
pub fn write_escaped<E: Escape>(text: &[u8], out: &mut Vec<u8>) {
    // Most lines have nothing to escape. A fold without an early end becomes vector instructions.
    if text.iter().fold(false, |any, &byte| any | E::is_special(byte)) {
        write_mixed::<E>(text, out);
    } else {
        out.extend_from_slice(text);
    }
}

fn write_mixed<E: Escape>(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| E::is_special(byte)) {
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
