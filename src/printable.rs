//! Text from outside (Consul, jobs, files, clients) as it may be printed for people: a terminal would obey what it finds
//! in it.

use std::fmt::Write;

/// The text in one line: everything that a terminal would not print is written as an escape.
pub fn printable(text: &str) -> String {
    escaped(text, |_| false)
}

/// The same for a text of several lines, which keeps its lines and tabs.
pub fn printable_lines(text: &str) -> String {
    escaped(text, |character| matches!(character, '\n' | '\t'))
}

/// At most that many characters of a text; the last one shows that something was left out.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn escaped(text: &str, keeps: impl Fn(char) -> bool) -> String {
    let mut result = String::with_capacity(text.len());
    for character in text.chars() {
        if is_obeyed(character) && !keeps(character) {
            // Writing to a string does not fail.
            let _ = write!(result, "{}", character.escape_default());
        } else {
            result.push(character);
        }
    }
    result
}

/// Control characters, and those that make a terminal print the rest in another order.
fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(printable("\u{1b}[2J\u{7}ok\r\n"), r"\u{1b}[2J\u{7}ok\r\n");
        assert_eq!(printable("\u{9b}31m \u{202e}evil \u{7f}"), r"\u{9b}31m \u{202e}evil \u{7f}");
        assert_eq!(printable("größe 大 \\ \"x\""), "größe 大 \\ \"x\"");
    }

    #[test]
    fn a_text_of_several_lines_keeps_its_lines() {
        assert_eq!(printable_lines("a\n\tb\u{1b}[0m\r\n"), "a\n\tb\\u{1b}[0m\\r\n");
    }
}
