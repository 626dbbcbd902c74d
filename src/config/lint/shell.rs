//! Commands that look as if a shell should run them.

const SHELLS: [&str; 9] = ["ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "sh", "zsh"];

/// An operator of the shell in a command that no shell will see, because none of its words is one.
pub(in crate::config) fn stray_operator(line: &str, words: &[String]) -> Option<&'static str> {
    let is_shell = |word: &String| {
        let name = word.rsplit('/').next().unwrap_or_default();
        SHELLS.contains(&name)
    };
    if words.iter().any(is_shell) { None } else { operator(line) }
}

/// The first operator outside of quotes; `$(` counts in double quotes too, as a shell expands it there.
fn operator(line: &str) -> Option<&'static str> {
    let mut quote: Option<char> = None;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None | Some('"'), '\\') => {
                characters.next();
            }
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None | Some('"'), '$') if characters.peek() == Some(&'(') => return Some("$("),
            (None, '|') => return Some("|"),
            (None, ';') => return Some(";"),
            (None, '>') => return Some(">"),
            (None, '&') if characters.peek() == Some(&'&') => return Some("&&"),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::words;

    fn stray(line: &str) -> Option<&'static str> {
        stray_operator(line, &words::split(line).unwrap())
    }

    #[test]
    fn operators_without_a_shell_are_found() {
        assert_eq!(stray("app | tee log"), Some("|"));
        assert_eq!(stray("a && b"), Some("&&"));
        assert_eq!(stray("a; b"), Some(";"));
        assert_eq!(stray("app >log"), Some(">"));
        assert_eq!(stray("app \"$(hostname)\""), Some("$("));
    }

    #[test]
    fn quoted_operators_and_shells_are_left_alone() {
        assert_eq!(stray("/bin/sh -c 'a | b'"), None);
        assert_eq!(stray("env A=b bash -c 'a && b'"), None);
        assert_eq!(stray("curl 'http://x/?a=1;b=2&c'"), None);
        assert_eq!(stray("curl http://x/?a=1&b=2"), None);
        assert_eq!(stray("grep a\\|b"), None);
    }
}
