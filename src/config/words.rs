//! Splits an `exec` string into words as a POSIX shell does: quotes and backslashes count, nothing is
//! expanded, `#` starts no comment, and operators such as `|` are ordinary characters. For shlex and shell-words,
//! which were weighed, `#` starts a comment.

/// Why a text cannot be split, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordsError {
    /// Byte offset of the character to blame: an opening quote, or a backslash at the end.
    pub offset: usize,
    /// What is wrong with it.
    pub message: String,
}

/// The words of a command line, unquoted. A text of nothing but blanks has none.
pub fn split(text: &str) -> Result<Vec<String>, WordsError> {
    let mut words = Vec::new();
    // `Some("")` differs from `None`: a pair of quotes with nothing inside is a word too.
    let mut word: Option<String> = None;
    let mut chars = text.char_indices();
    while let Some((offset, c)) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => single_quoted(&mut chars, offset, word.get_or_insert_default())?,
            '"' => double_quoted(&mut chars, offset, word.get_or_insert_default())?,
            '\\' => match chars.next() {
                // An escaped newline continues the line: it is removed and separates nothing.
                Some((_, '\n')) => {}
                Some((_, escaped)) => word.get_or_insert_default().push(escaped),
                None => {
                    let message = "this backslash at the end has nothing to escape".to_owned();
                    return Err(WordsError { offset, message });
                }
            },
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

fn single_quoted(
    chars: &mut std::str::CharIndices<'_>,
    opened_at: usize,
    word: &mut String,
) -> Result<(), WordsError> {
    for (_, c) in chars.by_ref() {
        if c == '\'' {
            return Ok(());
        }
        word.push(c);
    }
    Err(unclosed("single", opened_at))
}

fn double_quoted(
    chars: &mut std::str::CharIndices<'_>,
    opened_at: usize,
    word: &mut String,
) -> Result<(), WordsError> {
    while let Some((_, c)) = chars.next() {
        match c {
            '"' => return Ok(()),
            '\\' => match chars.next() {
                Some((_, '\n')) => {}
                Some((_, escaped @ ('$' | '`' | '"' | '\\'))) => word.push(escaped),
                // Before any other character a backslash inside double quotes stands for itself.
                Some((_, other)) => word.extend(['\\', other]),
                None => break,
            },
            other => word.push(other),
        }
    }
    Err(unclosed("double", opened_at))
}

fn unclosed(kind: &str, offset: usize) -> WordsError {
    WordsError { offset, message: format!("this {kind} quote is never closed") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        split(text).unwrap()
    }

    #[test]
    fn blanks_and_newlines_separate_words() {
        assert_eq!(words("  /bin/app\t-x \n --y  "), ["/bin/app", "-x", "--y"]);
        assert!(words("").is_empty());
        assert!(words(" \t\n").is_empty());
    }

    #[test]
    fn quotes_keep_a_word_together_and_vanish() {
        assert_eq!(words(r#"sh -c 'echo "a  b"'"#), ["sh", "-c", r#"echo "a  b""#]);
        assert_eq!(words(r#"a"b c"'d e'f"#), ["ab cd ef"]);
        assert_eq!(words(r#"x '' """#), ["x", "", ""]);
    }

    #[test]
    fn a_backslash_takes_the_next_character_literally() {
        assert_eq!(words(r"a\ b \' \\ \n"), ["a b", "'", r"\", "n"]);
        assert_eq!(words("one\\\ntwo \\\n three"), ["onetwo", "three"]);
    }

    #[test]
    fn inside_double_quotes_a_backslash_escapes_only_what_the_shell_says() {
        assert_eq!(words(r#""\$x \"q\" \\ \` \n \'""#), [r#"$x "q" \ ` \n \'"#]);
        assert_eq!(words("\"a\\\nb\""), ["ab"]);
    }

    #[test]
    fn inside_single_quotes_nothing_is_special() {
        assert_eq!(words(r"'a\b$c`d'"), [r"a\b$c`d"]);
    }

    #[test]
    fn nothing_is_expanded_and_a_hash_is_no_comment() {
        assert_eq!(
            words("echo $HOME *.txt ~ # | && >x"),
            ["echo", "$HOME", "*.txt", "~", "#", "|", "&&", ">x"]
        );
    }

    #[test]
    fn an_unclosed_quote_is_reported_where_it_opens() {
        let error = split("sh -c 'echo").unwrap_err();
        assert_eq!((error.offset, error.message.as_str()), (6, "this single quote is never closed"));
        let error = split(r#"é "a\"#).unwrap_err();
        assert_eq!((error.offset, error.message.as_str()), (3, "this double quote is never closed"));
    }

    #[test]
    fn a_backslash_at_the_end_is_an_error() {
        let error = split(r"ls \").unwrap_err();
        assert_eq!(error.offset, 3);
        assert_eq!(error.message, "this backslash at the end has nothing to escape");
    }

    proptest! {
        #[test]
        fn quoted_words_are_split_as_they_were(expected in prop::collection::vec(".{0,8}|[ '\"\\\\$\n]{0,8}", 0..6)) {
            let single: Vec<_> =
                expected.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
            prop_assert_eq!(&split(&single.join(" ")).unwrap(), &expected);
            let double: Vec<_> = expected
                .iter()
                .map(|word| format!("\"{}\"", word.replace('\\', r"\\").replace('"', "\\\"")))
                .collect();
            prop_assert_eq!(split(&double.join("\n")).unwrap(), expected);
        }

        #[test]
        fn an_error_points_into_the_text(text in "[a'\"\\\\ \n\u{e9}]{0,20}") {
            if let Err(error) = split(&text) {
                prop_assert!(text[error.offset..].starts_with(['\'', '"', '\\']));
            }
        }
    }
}
