//! Finds the empty line that ends the head of a request, so that actix-http gets requests one by one (see `connection`).
//! It knows nothing of bodies. httparse, which actix-http uses, was weighed: it would parse every head a second time, and
//! from its beginning after each read.

/// Looks for the empty line that ends a head, across reads.
#[derive(Debug, Default)]
pub struct HeadEnd {
    /// The last byte, carriage returns aside, was a newline.
    after_newline: bool,
}

impl HeadEnd {
    /// The number of bytes up to the end of the first head that ends within them; `None` if none does. The bytes after
    /// it are not searched.
    pub fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        for (index, byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' if self.after_newline => {
                    self.after_newline = false;
                    return Some(index + 1);
                }
                b'\n' => self.after_newline = true,
                // httparse accepts lines that end with "\n" as well as with "\r\n".
                b'\r' => {}
                _ => self.after_newline = false,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_with_an_empty_line() {
        for (text, end) in [
            ("GET / HTTP/1.1\r\n\r\n", Some(18)),
            ("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET", Some(27)),
            ("GET / HTTP/1.1\n\nGET", Some(16)),
            ("GET / HTTP/1.1\nHost: x\n\r\n", Some(25)),
            ("GET / HTTP/1.1\r\nHost: x\r\n", None),
            ("", None),
        ] {
            assert_eq!(HeadEnd::default().find(text.as_bytes()), end, "{text:?}");
        }
    }

    #[test]
    fn an_end_is_found_wherever_a_read_cuts_it() {
        let text = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        for cut in 0..text.len() {
            let mut search = HeadEnd::default();
            let (first, rest) = text.split_at(cut);
            assert_eq!(search.find(first), None, "{cut}");
            assert_eq!(search.find(rest), Some(rest.len()), "{cut}");
        }
    }

    #[test]
    fn every_pipelined_head_is_found() {
        let text = b"GET / HTTP/1.1\r\n\r\n".repeat(5);
        let (mut search, mut rest, mut found) = (HeadEnd::default(), &text[..], 0);
        while let Some(end) = search.find(rest) {
            (rest, found) = (&rest[end..], found + 1);
        }
        assert_eq!((found, rest.len()), (5, 0));
    }
}
