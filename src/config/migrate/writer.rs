//! Writes JSON5 with comments, indented, which the crate json5 cannot. Knows nothing of what it writes.

/// Comments are broken at this column.
const WIDTH: usize = 100;

/// A text under construction.
#[derive(Debug, Default)]
pub struct Writer {
    text: String,
    depth: usize,
}

impl Writer {
    /// One line, or several that keep their own indentation.
    pub fn line(&mut self, line: &str) {
        self.text.push_str(&"  ".repeat(self.depth));
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A key with a value that is JSON5 already.
    pub fn entry(&mut self, key: &str, value: &str) {
        self.line(&format!("{key}: {value},"));
    }

    /// Begins an object or array: `opening` ends in its brace.
    pub fn open(&mut self, opening: &str) {
        self.line(opening);
        self.depth += 1;
    }

    /// Ends an object or array.
    pub fn close(&mut self, closing: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.line(closing);
    }

    /// A comment, in lines of our width. Template actions are taken apart, lest they print something.
    pub fn comment(&mut self, text: &str) {
        let text = text.replace("{{", "{ {");
        let room = WIDTH.saturating_sub(2 * self.depth + 3);
        let mut line = String::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                self.line(&format!("// {line}"));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(&format!("// {line}"));
    }

    /// A piece of another file as a comment, line by line.
    pub fn quotation(&mut self, text: &str) {
        for line in text.lines() {
            self.line(format!("// {}", line.trim_end().replace("{{", "{ {")).trim_end());
        }
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// A JSON5 string, in double quotes.
pub fn quoted(text: &str) -> String {
    // Anything that looks like a template action would be executed as one, wherever it stands.
    serde_json::Value::from(text).to_string().replace("{{", "{\\u007b")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_text_is_read_as_it_was() {
        for text in ["", "a b", "\"\\\n\r\t\u{1}", "é{{ .X }}{{{", "'"] {
            let quoted = quoted(text);
            assert_eq!(json5::from_str::<String>(&quoted).unwrap(), text);
            assert!(!quoted.contains("{{"));
        }
    }

    #[test]
    fn comments_are_broken_at_the_width() {
        let mut writer = Writer::default();
        writer.open("{");
        writer.comment(&"word ".repeat(60));
        writer.quotation("a {{ .X }}\n\nb");
        writer.close("}");
        let text = writer.finish();
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert!(text.ends_with("\n  // a { { .X }}\n  //\n  // b\n}\n"), "{text}");
    }

    #[test]
    fn a_comment_may_fill_the_width_at_every_depth() {
        for depth in 0..4 {
            let longest = WIDTH - 2 * depth - "// a ".len();
            for (length, lines) in [(longest, 1), (longest + 1, 2)] {
                let mut writer = Writer { text: String::new(), depth };
                writer.comment(&format!("a {}", "b".repeat(length)));
                assert_eq!(writer.finish().lines().count(), lines, "{length} at depth {depth}");
            }
        }
    }
}
