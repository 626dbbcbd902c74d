//! Commands that look as if a shell should run them.

const SHELLS: [&str; 9] = ["ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "sh", "zsh"];

/// An operator of the shell in a command that no shell will see, because none of its words is one.
pub(in crate::config) fn stray_operator(line: &str, words: &[String]) -> Option<&'static str> {
    let is_shell = |word: &String| SHELLS.contains(&base_name(word));
    if words.iter().any(is_shell) { None } else { operator(line) }
}

/// The script of a `sh -c echo hi`: a single word, whose followers the shell takes for `$0`, `$1` and so
/// on, while the script uses none of them.
pub(in crate::config) fn lonely_script(words: &[String]) -> Option<&str> {
    let words = match words {
        [first, rest @ ..] if base_name(first) == "busybox" => rest,
        _ => words,
    };
    let [shell, rest @ ..] = words else { return None };
    if !SHELLS.contains(&base_name(shell)) {
        return None;
    }
    match after_command_option(rest)? {
        [script, _, ..] if !script.contains(|c: char| c.is_whitespace() || "$;|&<>`".contains(c)) => {
            Some(script)
        }
        _ => None,
    }
}

/// The words after the option `-c` of a shell; `None` if it has no such option. The first word that is no option ends them.
fn after_command_option(mut words: &[String]) -> Option<&[String]> {
    while let [word, rest @ ..] = words {
        if is_command_option(word) {
            return Some(rest);
        }
        if !word.starts_with(['-', '+']) || word == "--" {
            return None;
        }
        // `-o pipefail`, `-eo pipefail`, `--rcfile FILE`.
        words = if takes_argument(word) { rest.get(1..)? } else { rest };
    }
    None
}

fn takes_argument(option: &str) -> bool {
    let is_long = option.starts_with("--");
    (!is_long && option.ends_with(['o', 'O'])) || matches!(option, "--rcfile" | "--init-file")
}

/// Whether a command is a shell that reads commands from its terminal: it has no script.
pub(super) fn is_interactive(program: &str, args: &[String]) -> bool {
    SHELLS.contains(&base_name(program))
        && args
            .iter()
            .all(|word| word.starts_with('-') && (!is_command_option(word) || word.starts_with("--")))
}

/// `-c`, alone or after other options as in `-ec`.
fn is_command_option(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    letters.ends_with('c') && letters.bytes().all(|letter| letter.is_ascii_alphabetic())
}

pub(super) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
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
        assert_eq!(stray("app 'a b' \"c\" | tee log"), Some("|"));
    }

    #[test]
    fn quoted_operators_and_shells_are_left_alone() {
        assert_eq!(stray("/bin/sh -c 'a | b'"), None);
        assert_eq!(stray("env A=b bash -c 'a && b'"), None);
        assert_eq!(stray("curl 'http://x/?a=1;b=2&c'"), None);
        assert_eq!(stray("curl http://x/?a=1&b=2"), None);
        assert_eq!(stray("grep a\\|b"), None);
        assert_eq!(stray("app $HOME \"$USER\""), None);
    }

    fn lonely(line: &str) -> Option<String> {
        lonely_script(&words::split(line).unwrap()).map(str::to_owned)
    }

    #[test]
    fn a_script_of_one_word_before_others_is_found() {
        for line in [
            "sh -c echo hi",
            "/bin/bash -ec echo hi",
            "busybox sh -c echo hi",
            "ash -e -c echo hi",
            "bash -eo pipefail -c echo hi",
            "bash --norc +o history -c echo hi",
        ] {
            assert_eq!(lonely(line).as_deref(), Some("echo"), "{line}");
        }
    }

    #[test]
    fn a_shell_without_a_script_is_interactive() {
        let is_so = |line: &str| {
            let words = words::split(line).unwrap();
            is_interactive(&words[0], &words[1..])
        };
        for line in ["bash", "/bin/sh -i", "bash --norc -l", "zsh"] {
            assert!(is_so(line), "{line}");
        }
        for line in ["sh -c date", "bash -ic date", "bash script.sh", "python3", "vim -c x"] {
            assert!(!is_so(line), "{line}");
        }
    }

    #[test]
    fn a_script_that_is_all_or_uses_its_arguments_is_left_alone() {
        for line in [
            "sh -c date",
            "sh -c 'echo hi' sh",
            "sh -c '$0' date",
            "sh script.sh -x hi",
            "bash /entry.sh -c x --verbose",
            "bash -e /entry.sh -c x --verbose",
            "bash -o pipefail /entry.sh -c x --verbose",
            "bash -- /entry.sh -c x --verbose",
            "grep -c a b",
            "busybox",
            "busybox grep -c a b",
        ] {
            assert_eq!(lonely(line), None, "{line}");
        }
    }
}
