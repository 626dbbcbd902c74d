//! The files a configuration was read from, as written and as rendered, and places in them.
//! Everything after the template works with [`Span`]s of the rendered text; only a report goes back
//! to what the user wrote.

use std::ops::Range;
use std::sync::OnceLock;

use super::secret;
use super::template::{Hole, Rendered};

/// A file of the configuration, by its position in the order of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileId(pub(crate) u32);

/// A range of bytes in a rendered file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// Which file.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// Byte after the last.
    pub end: u32,
}

impl Span {
    /// A span from a range; files are far smaller than 4 GiB, so the cut never happens.
    pub fn new(file: FileId, range: Range<usize>) -> Self {
        let cut = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self { file, start: cut(range.start), end: cut(range.end) }
    }

    /// The range of bytes within the file.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// One file: its name for messages, its text, and how the two texts correspond.
#[derive(Debug)]
pub struct SourceFile {
    /// The name to print.
    pub name: String,
    /// The text as the user wrote it, without a byte order mark.
    pub written: String,
    /// The text after the template was rendered; `None` until that succeeded.
    pub rendered: Option<Rendered>,
    /// Looked for when something is to be shown.
    secrets: OnceLock<Vec<Range<usize>>>,
    /// Made when something is to be shown.
    masked: OnceLock<String>,
}

/// A place in the text that the user wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Bytes of the unrendered text.
    pub range: Range<usize>,
    /// The output of the template at this place, where it differs from what was written.
    pub rendered: Option<Output>,
}

/// The output of an action of the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// This text, shortened.
    Text(String),
    /// Nothing at all.
    Nothing {
        /// The variable that would have been printed but is not set.
        unset: Option<String>,
    },
}

/// The longest rendered text that a note shows, in characters.
const SHOWN_RENDERED: usize = 80;

impl SourceFile {
    /// A file that has not been rendered yet.
    pub fn new(name: String, written: String) -> Self {
        Self { name, written, rendered: None, secrets: OnceLock::new(), masked: OnceLock::new() }
    }

    /// The place in the written text that a range of the rendered text came from.
    pub fn origin(&self, range: Range<usize>) -> Origin {
        let is_secret = self.is_secret(&range);
        let origin = self.origin_of(range);
        Origin { rendered: origin.rendered.filter(|_| !is_secret), ..origin }
    }

    /// As [`Self::origin`], without regard to secrets.
    fn origin_of(&self, range: Range<usize>) -> Origin {
        let Some(rendered) = &self.rendered else {
            return Origin { range: clamp(&self.written, range), rendered: None };
        };
        let range = clamp(&rendered.text, range);
        if let Some(Hole { span, unset }) = rendered.map.hole(&range) {
            let output = Output::Nothing { unset: unset.clone() };
            return Origin { range: clamp(&self.written, span.clone()), rendered: Some(output) };
        }
        let origin = rendered.map.locate(range.clone());
        let shown = (!origin.verbatim).then(|| shorten(rendered.text.get(range).unwrap_or_default()));
        Origin { range: clamp(&self.written, origin.span), rendered: shown.map(Output::Text) }
    }

    /// The written text with every secret replaced by asterisks, byte for byte.
    pub fn masked(&self) -> &str {
        self.masked.get_or_init(|| self.mask())
    }

    fn mask(&self) -> String {
        let mut bytes = self.written.clone().into_bytes();
        for secret in self.secrets() {
            let Origin { range, rendered } = self.origin_of(secret.clone());
            // `{{ .TOKEN }}` is no secret itself, a literal within an action may be.
            let is_literal = self.written.get(range.clone()).is_some_and(|text| text.contains(['"', '`']));
            if rendered.is_some() && !is_literal {
                continue;
            }
            for byte in bytes.get_mut(range).unwrap_or_default() {
                if *byte != b'\n' && *byte != b'\r' {
                    *byte = b'*';
                }
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Ranges that no message may show: of the rendered text, or of the written one if it could not be rendered.
    fn secrets(&self) -> &[Range<usize>] {
        self.secrets.get_or_init(|| {
            secret::secrets(self.rendered.as_ref().map_or(&self.written, |rendered| &rendered.text))
        })
    }

    fn is_secret(&self, range: &Range<usize>) -> bool {
        self.secrets().iter().any(|secret| secret.start < range.end && range.start < secret.end)
    }
}

/// Every file of a configuration, in the order of reading.
#[derive(Debug, Default)]
pub struct Sources {
    files: Vec<SourceFile>,
}

impl Sources {
    /// Adds a file.
    pub fn add(&mut self, file: SourceFile) -> FileId {
        let id = FileId(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        self.files.push(file);
        id
    }

    /// The file of an id.
    pub fn get(&self, id: FileId) -> Option<&SourceFile> {
        self.files.get(id.0 as usize)
    }

    /// The file of an id, to be completed.
    pub fn get_mut(&mut self, id: FileId) -> Option<&mut SourceFile> {
        self.files.get_mut(id.0 as usize)
    }

    /// The name of a file.
    pub fn name(&self, id: FileId) -> &str {
        self.get(id).map_or("", |file| &file.name)
    }
}

/// Line and column of a byte, both from 1, the column in characters.
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    (line, before.get(line_start..).unwrap_or_default().chars().count() + 1)
}

/// The nearest range that lies within the text and on character boundaries.
fn clamp(text: &str, range: Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(range.start);
    let end = text.ceil_char_boundary(range.end).max(start);
    start..end
}

/// One line of at most [`SHOWN_RENDERED`] characters.
fn shorten(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let mut shown: String = line.chars().take(SHOWN_RENDERED).collect();
    if shown.len() < text.trim().len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::template;
    use super::*;

    #[test]
    fn columns_count_characters_and_lines_start_at_one() {
        assert_eq!(position("a\nöä x", 0), (1, 1));
        assert_eq!(position("a\nöä x", "a\nöä ".len()), (2, 4));
    }

    #[test]
    fn a_range_beyond_the_text_is_cut_to_it() {
        let file = SourceFile::new("f".into(), "añ".into());
        assert_eq!(file.origin(2..99).range, 1..3);
    }

    #[test]
    fn secrets_are_masked_byte_for_byte() {
        let file = SourceFile::new("f".into(), "token: 'abc', x: 1".into());
        assert_eq!(file.masked(), "token: *****, x: 1");
        assert!(file.is_secret(&(11..20)) && file.is_secret(&(0..8)));
        assert!(!file.is_secret(&(12..20)) && !file.is_secret(&(0..7)));
    }

    #[test]
    fn a_secret_of_several_lines_keeps_its_line_ends() {
        let written = "token: {{ \"ab\"\r\n}}";
        let mut file = SourceFile::new("f".into(), written.into());
        file.rendered = template::render(written, &BTreeMap::new()).ok();
        assert_eq!(file.masked(), "token: *******\r\n**");
    }

    #[test]
    fn a_long_text_is_shortened_to_one_line() {
        assert_eq!(shorten(" one "), "one");
        assert_eq!(shorten("one\ntwo"), "one…");
        let long = "x".repeat(SHOWN_RENDERED + 1);
        assert_eq!(shorten(&long).chars().count(), SHOWN_RENDERED + 1);
        assert!(shorten(&long).ends_with('…'));
        assert_eq!(shorten(&long[1..]), long[1..]);
    }
}
