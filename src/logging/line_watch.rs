//! Looks for a line in what a child writes, until it is found. Pure but for what is done then.
//!
//! `regex` would search faster, but is ten times as large; only the first lines of few jobs are looked at.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use memchr::memchr;
use regex_lite::{Regex, RegexBuilder};

/// What is looked at of a line.
const LONGEST: usize = 4096;
/// How large the compiled expression may become.
const EXPRESSION_LIMIT: usize = 256 << 10;

/// What is done when the line was found.
type Found = Rc<dyn Fn()>;

/// Looks for a line that matches an expression; those of stdout and stderr look together, and find it once.
#[derive(Clone)]
pub struct LineWatch {
    expression: Rc<Regex>,
    found: Found,
    is_found: Rc<Cell<bool>>,
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
}

impl fmt::Debug for LineWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineWatch").field("expression", &self.expression).finish_non_exhaustive()
    }
}

impl LineWatch {
    /// Calls `found` when there was a line that matches; `None` if it is no expression, which the configuration excludes.
    pub fn new(expression: &str, found: Found) -> Option<Self> {
        let expression = RegexBuilder::new(expression).size_limit(EXPRESSION_LIMIT).build().ok()?;
        Some(Self { expression: Rc::new(expression), found, is_found: Rc::default(), partial: Vec::new() })
    }

    /// Looks at the next bytes of a stream; true if there is nothing to look for any more.
    pub fn look(&mut self, mut bytes: &[u8]) -> bool {
        while !self.is_found.get() && !bytes.is_empty() {
            let end = memchr(b'\n', bytes);
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            let room = LONGEST.saturating_sub(self.partial.len());
            self.partial.extend_from_slice(line.get(..room).unwrap_or(line));
            bytes = rest.get(1..).unwrap_or_default();
            if end.is_some() {
                self.judge();
            }
        }
        self.is_found.get()
    }

    /// Looks at a last line without newline.
    pub fn finish(&mut self) {
        if !self.is_found.get() && !self.partial.is_empty() {
            self.judge();
        }
    }

    fn judge(&mut self) {
        let line = String::from_utf8_lossy(&self.partial);
        if self.expression.is_match(line.strip_suffix('\r').unwrap_or(&line)) {
            self.is_found.set(true);
            (self.found)();
        }
        self.partial.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(expression: &str) -> (LineWatch, Rc<Cell<u32>>) {
        let times = Rc::new(Cell::new(0));
        let counted = Rc::clone(&times);
        let found = Rc::new(move || counted.set(counted.get() + 1));
        (LineWatch::new(expression, found).unwrap(), times)
    }

    #[test]
    fn a_line_is_found_however_the_bytes_are_cut() {
        let text = b"starting\r\nlistening on 80\r\nlistening on 81\n";
        for cut in 0..text.len() {
            let (mut watch, times) = watch("^listening on [0-9]+$");
            watch.look(&text[..cut]);
            assert!(watch.look(&text[cut..]), "{cut}");
            assert_eq!(times.get(), 1);
        }
    }

    #[test]
    fn parts_of_two_lines_are_no_line() {
        let (mut watch, times) = watch("ab");
        assert!(!watch.look(b"a\nb\n"));
        watch.look(b"ab");
        assert_eq!(times.get(), 0, "the line is not complete");
        watch.finish();
        assert_eq!(times.get(), 1);
    }

    #[test]
    fn the_end_after_a_newline_is_no_empty_line() {
        let (mut watch, times) = watch("^$");
        watch.look(b"one\n");
        watch.finish();
        assert_eq!(times.get(), 0);
        assert!(watch.look(b"\n"));
        assert_eq!(times.get(), 1);
    }

    #[test]
    fn the_streams_of_a_process_look_together() {
        let (mut stdout, times) = watch("ready");
        let mut stderr = stdout.clone();
        assert!(!stdout.look(b"ready"));
        assert!(stderr.look(b"ready\n"));
        stdout.finish();
        assert!(stdout.look(b"\nready\n"));
        assert_eq!(times.get(), 1);
    }

    #[test]
    fn no_more_is_kept_of_a_line_than_is_looked_at() {
        let (mut watch, times) = watch("x$");
        for _ in 0..100 {
            watch.look(&[b'-'; 1000]);
        }
        assert!(watch.partial.len() <= LONGEST);
        watch.look(b"x\n");
        assert_eq!(times.get(), 0);
    }
}
