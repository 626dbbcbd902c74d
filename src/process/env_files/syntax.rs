//! The text of an `envFile`: lines of `NAME=VALUE`, with comments and quotes. Pure; errors name a line and never show a value.
//!
//! Why not a crate: those that parse `.env` files (dotenvy) expand `$NAME` and take only UTF-8, and their errors quote the line.

use super::{Entry, NUL};

/// The error in a line.
type Problem = &'static str;

const NO_VARIABLE: Problem = "expected NAME=VALUE";
const BAD_NAME: Problem = "the name of a variable has only letters, digits and `_`, and starts with no digit";
const OPEN_QUOTE: Problem = "a quote is not closed";
const AFTER_QUOTE: Problem = "expected the end of the line after a closing quote";

/// The variables of a file, in its order; a name may come twice, and then the last counts. An error names the line.
pub fn parse(text: &[u8]) -> Result<Vec<Entry>, String> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut rest = Rest { text, line: 1 };
    let mut entries = Vec::new();
    while !rest.text.is_empty() {
        let line = rest.line;
        let found = rest.entry();
        entries.extend(found.map_err(|problem| format!("line {line}: {problem}"))?);
    }
    Ok(entries)
}

/// What is still to be read.
struct Rest<'a> {
    text: &'a [u8],
    line: usize,
}

impl<'a> Rest<'a> {
    /// The variable that begins in this line, if there is one. A value in quotes may go on in other lines.
    fn entry(&mut self) -> Result<Option<Entry>, Problem> {
        self.skip_blanks();
        if matches!(self.text.first(), None | Some(b'\n' | b'\r' | b'#' | b';')) {
            self.skip_line();
            return Ok(None);
        }
        let line = self.text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let length = line.iter().position(|byte| *byte == b'=').ok_or(NO_VARIABLE)?;
        let name = line.get(..length).unwrap_or_default().trim_ascii();
        let exported =
            name.strip_prefix(b"export").filter(|rest| rest.starts_with(b" ") || rest.starts_with(b"\t"));
        let name = exported.map_or(name, <[u8]>::trim_ascii_start);
        if !is_name(name) {
            return Err(BAD_NAME);
        }
        self.advance(length + 1);
        self.skip_blanks();
        let value = match self.text.first() {
            Some(quote @ (b'"' | b'\'')) => self.quoted(*quote)?,
            Some(_) | None => self.skip_line().trim_ascii_end().to_vec(),
        };
        if value.contains(&0) {
            return Err(NUL);
        }
        Ok(Some((name.to_vec(), value)))
    }

    /// A value in quotes, which stand at its beginning. A backslash means something in double quotes only.
    fn quoted(&mut self, quote: u8) -> Result<Vec<u8>, Problem> {
        let mut value = Vec::new();
        let mut bytes = self.text.iter().enumerate().skip(1);
        let end = loop {
            match bytes.next() {
                None => return Err(OPEN_QUOTE),
                Some((at, byte)) if *byte == quote => break at + 1,
                Some((_, b'\\')) if quote == b'"' => match bytes.next() {
                    None => return Err(OPEN_QUOTE),
                    Some((_, b'n')) => value.push(b'\n'),
                    Some((_, b't')) => value.push(b'\t'),
                    Some((_, b'r')) => value.push(b'\r'),
                    Some((_, byte @ (b'"' | b'\\' | b'$' | b'`'))) => value.push(*byte),
                    Some((_, other)) => value.extend([b'\\', *other]),
                },
                Some((_, byte)) => value.push(*byte),
            }
        };
        self.advance(end);
        let after = self.skip_line().trim_ascii();
        if !matches!(after.first(), None | Some(b'#')) {
            return Err(AFTER_QUOTE);
        }
        Ok(value)
    }

    fn skip_blanks(&mut self) {
        let blanks = self.text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        self.advance(blanks);
    }

    /// Goes to the next line, and returns what was left of this one.
    fn skip_line(&mut self) -> &'a [u8] {
        let length = self.text.iter().position(|byte| *byte == b'\n').unwrap_or(self.text.len());
        let line = self.text.get(..length).unwrap_or_default();
        self.advance(length + 1);
        line
    }

    fn advance(&mut self, length: usize) {
        let (before, after) = self.text.split_at_checked(length).unwrap_or((self.text, &[]));
        self.line += before.iter().filter(|byte| **byte == b'\n').count();
        self.text = after;
    }
}

fn is_name(name: &[u8]) -> bool {
    name.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_')
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Vec<(String, String)> {
        let text_of = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        parse(text.as_bytes())
            .unwrap()
            .into_iter()
            .map(|(name, value)| (text_of(name), text_of(value)))
            .collect()
    }

    fn value(text: &str) -> String {
        parsed(text).remove(0).1
    }

    fn error(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn each_line_is_a_variable_and_comments_and_blank_lines_are_none() {
        let text =
            "\u{feff}# comment\n\n  ; another\r\nA=1\n  B = two words \r\nexport C=3\nA=4\nexport\tD=5";
        let expected = [("A", "1"), ("B", "two words"), ("C", "3"), ("A", "4"), ("D", "5")];
        assert_eq!(parsed(text), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_bare_value_is_taken_as_it_is() {
        for (text, expected) in [
            ("A=", ""),
            ("A=b=c", "b=c"),
            ("A=x # y", "x # y"),
            ("A=$HOME\\n`x`", "$HOME\\n`x`"),
            ("A=it's \"so\"", "it's \"so\""),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn quotes_keep_blanks_and_lines() {
        for (text, expected) in [
            ("A='  x  '", "  x  "),
            ("A='a\\n$B\"'  # comment", "a\\n$B\""),
            ("A=\"a\\n\\t\\r\\\"\\\\\\$\\`\\x'\"", "a\n\t\r\"\\$`\\x'"),
            ("A=\"-----BEGIN\n-----END\"\nB=1", "-----BEGIN\n-----END"),
            ("A=''", ""),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
        assert_eq!(parsed("A=\"x\ny\"\nB=1").len(), 2);
    }

    #[test]
    fn an_error_names_the_line_and_never_the_value() {
        assert_eq!(error("A=1\nhunter2"), "line 2: expected NAME=VALUE");
        assert_eq!(error("A='x\ny'\n\nB='hunter2\n"), "line 4: a quote is not closed");
        assert_eq!(error("A=\"hunter2\\"), "line 1: a quote is not closed");
        assert_eq!(error("A='x' hunter2"), "line 1: expected the end of the line after a closing quote");
        assert_eq!(error("A=\0"), "line 1: a NUL character cannot be passed to a process");
        for name in ["", "1A", "A B", "A-B", "export"] {
            let expected =
                "line 1: the name of a variable has only letters, digits and `_`, and starts with no digit";
            if name == "export" {
                assert_eq!(value("export=1"), "1");
            } else {
                assert_eq!(error(&format!("{name}=hunter2")), expected, "{name:?}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_passed_on() {
        assert_eq!(parse(b"A=\xff\xfe").unwrap(), [(b"A".to_vec(), b"\xff\xfe".to_vec())]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic_and_never_give_a_bad_variable(text: Vec<u8>) {
            for (name, value) in parse(&text).unwrap_or_default() {
                prop_assert!(is_name(&name) && !value.contains(&0));
            }
        }

        #[test]
        fn what_is_quoted_comes_back(value in "[^\0]*") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let text = format!("X=1\nA=\"{quoted}\" # c\nB=2");
            let found = parse(text.as_bytes()).unwrap();
            prop_assert_eq!(&found[1], &(b"A".to_vec(), value.into_bytes()));
            prop_assert_eq!(found.len(), 3);
        }
    }
}
