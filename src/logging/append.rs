//! Copies of the few bytes that parts of a record have.

/// Appends `bytes` in blocks, as instructions in place: to call memcpy(3) for so few costs more than the bytes
/// themselves, with musl's several times as much.
#[inline]
pub fn append(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len());
    let (blocks, rest) = bytes.as_chunks::<16>();
    for block in blocks {
        out.extend_from_slice(block);
    }
    let (blocks, rest) = rest.as_chunks::<4>();
    for block in blocks {
        out.extend_from_slice(block);
    }
    for &byte in rest {
        out.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_appended_whatever_their_number() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..bytes.len() {
            let mut out = b"before".to_vec();
            append(&bytes[..length], &mut out);
            assert_eq!(out, [b"before", &bytes[..length]].concat());
        }
    }
}
