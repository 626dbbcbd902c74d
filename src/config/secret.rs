//! Finds what no message may show: the values of keys named `token`. A plain search, so that it works in
//! files that are no JSON5 (yet) too; it would rather hide too much.

use std::ops::Range;

const KEY: &str = "token";

/// The ranges of all values of keys named `token`.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    let starts = text.match_indices(KEY).map(|(start, _)| start);
    starts.filter_map(|start| value_of_key_at(text, start)).collect()
}

fn value_of_key_at(text: &str, start: usize) -> Option<Range<usize>> {
    let is_word = |character: char| character.is_alphanumeric() || matches!(character, '_' | '$' | '-');
    if text.get(..start)?.ends_with(is_word) {
        return None;
    }
    let after_key = text.get(start + KEY.len()..)?;
    let after_quote = after_key.strip_prefix(['"', '\'']).unwrap_or(after_key);
    let value = after_quote.trim_start().strip_prefix(':')?.trim_start();
    let start = text.len() - value.len();
    Some(start..start + value_length(value))
}

fn value_length(value: &str) -> usize {
    let line = value.lines().next().unwrap_or_default();
    let Some(quote) = line.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        // A bare value ends at a delimiter; brackets are no value that a token can have.
        return match line.starts_with(['{', '[']) {
            true => line.len(),
            false => line.find([',', '}', ' ', '\t']).unwrap_or(line.len()),
        };
    };
    let mut escaped = false;
    for (index, character) in line.char_indices().skip(1) {
        if !escaped && character == quote {
            return index + 1;
        }
        escaped = !escaped && character == '\\';
    }
    line.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        secrets(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn the_value_of_a_token_is_found_however_it_is_written() {
        assert_eq!(found("{token: 'a\\'b', x: 1}"), ["'a\\'b'"]);
        assert_eq!(found("{\"token\" :\n \"ab\"}"), ["\"ab\""]);
        assert_eq!(found("{token: 123}"), ["123"]);
        assert_eq!(found("token: 'never closed\nnext"), ["'never closed"]);
    }

    #[test]
    fn other_keys_and_words_are_left_alone() {
        assert_eq!(found("{my_token: 'a', tokens: 'b', x: 'token'}"), Vec::<&str>::new());
    }
}
