//! Output that is kept until its level is known: the last 64 KiB of it. Pure.

/// The most that is kept of one stream of one process.
const LIMIT: usize = 64 * 1024;

/// The end of what a stream wrote.
#[derive(Debug, Default)]
pub struct Held {
    bytes: Vec<u8>,
    /// The number of bytes before those.
    left_out: usize,
}

impl Held {
    /// Adds bytes. If they are too many, the end is kept, since programs say there why they failed.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Shortening moves the rest to the front, so it is done once per LIMIT bytes and not for each piece.
        if self.bytes.len() > 2 * LIMIT {
            self.shorten();
        }
    }

    /// The output, after a line that says how many bytes are left out, if any are.
    pub fn into_text(mut self) -> Vec<u8> {
        self.shorten();
        if self.left_out == 0 {
            return self.bytes;
        }
        let mut text = format!("[{} bytes before this are left out]\n", self.left_out).into_bytes();
        text.append(&mut self.bytes);
        text
    }

    /// Removes the beginning, up to the end of a line.
    fn shorten(&mut self) {
        let excess = self.bytes.len().saturating_sub(LIMIT);
        if excess == 0 {
            return;
        }
        let rest = self.bytes.get(excess..).unwrap_or_default();
        let line = rest.iter().position(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        // If there is only one long line, its end is kept.
        let cut = if line < rest.len() { excess + line } else { excess };
        self.bytes.drain(..cut);
        self.left_out += cut;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(pieces: &[&[u8]]) -> String {
        let mut held = Held::default();
        pieces.iter().for_each(|piece| held.add(piece));
        String::from_utf8(held.into_text()).unwrap()
    }

    #[test]
    fn what_is_short_is_kept_as_it_is() {
        assert_eq!(held(&[]), "");
        assert_eq!(held(&[b"one\ntw", b"o"]), "one\ntwo");
    }

    #[test]
    fn of_too_much_the_last_whole_lines_are_kept_and_the_rest_is_counted() {
        let lines: Vec<String> = (0..100_000).map(|number| format!("line {number}\n")).collect();
        let pieces: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
        let text = held(&pieces);
        let (first, rest) = text.split_once('\n').unwrap();
        let all = lines.concat();
        assert!(all.ends_with(rest) && rest.starts_with("line "), "{}", &rest[..20]);
        assert!(rest.len() <= LIMIT && rest.len() > LIMIT - 20);
        assert_eq!(first, format!("[{} bytes before this are left out]", all.len() - rest.len()));
    }

    #[test]
    fn of_one_long_line_the_end_is_kept() {
        let text = held(&[&vec![b'x'; 5 * LIMIT], b"end\n"]);
        assert!(text.ends_with("xend\n"));
        assert_eq!(text.split_once('\n').unwrap().1.len(), LIMIT);
    }

    #[test]
    fn memory_is_bounded() {
        let mut held = Held::default();
        for _ in 0..100 {
            held.add(&vec![b'x'; LIMIT]);
            assert!(held.bytes.len() <= 2 * LIMIT);
        }
    }

    #[test]
    fn what_is_kept_is_shortened_only_when_it_has_twice_the_limit() {
        let mut held = Held::default();
        held.add(&vec![b'x'; 2 * LIMIT]);
        assert_eq!(held.bytes.len(), 2 * LIMIT);
        held.add(b"x");
        assert_eq!(held.bytes.len(), LIMIT);
    }
}
