//! Rewrites flags in the style of Go, which ContainerPilot has, into the style of clap: `-config` becomes `--config`, and
//! `-version=true` becomes `--version`; clap itself cannot read them. What the arguments mean is clap's business alone.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The kind of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// The next argument is its value.
    TakesValue,
    /// The words after it are its values, if there are any.
    TakesWords,
    /// It is present or absent.
    Switch,
    /// Several flags of one letter, the last perhaps with a number: `-fn5`.
    Letters,
    /// There is no flag of that name.
    Unknown,
}

/// A command line in the style of clap.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Normalised {
    /// The arguments for clap, the program's name first.
    pub arguments: Vec<OsString>,
    /// The first word that is neither a flag, nor the value of one, nor a command, and all that follows it. Go's
    /// flags end there, and so do ours.
    pub rest: Vec<OsString>,
}

/// Adds a second dash to every flag that has one dash and a long name, and removes the `=true` of a switch; a
/// switch with `=false` is left out. Values, and everything after `--`, stay as they are.
pub fn normalise(
    arguments: impl IntoIterator<Item = OsString>,
    flag: impl Fn(&str) -> Flag,
    is_command: impl Fn(&str) -> bool,
) -> Normalised {
    let mut remaining = arguments.into_iter();
    let mut arguments: Vec<OsString> = remaining.by_ref().take(1).collect();
    let (mut is_value, mut after_command) = (false, false);
    while let Some(argument) = remaining.next() {
        if argument == "--" {
            arguments.push(argument);
            arguments.extend(remaining);
            break;
        }
        if is_value {
            is_value = false;
            arguments.push(argument);
            continue;
        }
        if is_word(&argument) {
            after_command |= argument.to_str().is_some_and(&is_command);
            if !after_command {
                return Normalised { arguments, rest: [argument].into_iter().chain(remaining).collect() };
            }
            arguments.push(argument); // a command, or one of its arguments
            continue;
        }
        let are_letters = |name: &str| flag(name) == Flag::Letters;
        if argument.to_str().and_then(|text| text.strip_prefix('-')).is_some_and(are_letters) {
            arguments.push(argument);
            continue;
        }
        let argument = with_two_dashes(argument);
        match switch(&argument).filter(|(name, _)| flag(name) == Flag::Switch) {
            Some((name, true)) => arguments.push(format!("--{name}").into()),
            Some((_, false)) => {}
            None => {
                let kind = long_name(&argument).map_or(Flag::Unknown, &flag);
                is_value = kind == Flag::TakesValue;
                after_command |= kind == Flag::TakesWords;
                arguments.push(argument);
            }
        }
    }
    Normalised { arguments, rest: Vec::new() }
}

fn is_word(argument: &OsStr) -> bool {
    !argument.is_empty() && !argument.as_bytes().starts_with(b"-")
}

/// A flag with `=` and one of Go's words for true and false.
fn switch(argument: &OsStr) -> Option<(&str, bool)> {
    let (name, value) = argument.to_str()?.strip_prefix("--")?.split_once('=')?;
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some((name, true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some((name, false)),
        _ => None,
    }
}

fn with_two_dashes(argument: OsString) -> OsString {
    match argument.as_bytes() {
        [b'-', first, second, ..] if first.is_ascii_alphabetic() && *second != b'=' => {
            let mut bytes = argument.into_vec();
            bytes.insert(0, b'-');
            OsString::from_vec(bytes)
        }
        _ => argument,
    }
}

/// The name of a flag whose value, if it takes one, is in the next argument.
fn long_name(argument: &OsStr) -> Option<&str> {
    argument.to_str()?.strip_prefix("--").filter(|name| !name.contains('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag(name: &str) -> Flag {
        match name {
            "config" | "putenv" | "out" => Flag::TakesValue,
            "template" | "version" => Flag::Switch,
            "fn5" => Flag::Letters,
            _ => Flag::Unknown,
        }
    }

    /// The arguments for clap, and the rest, each with blanks between.
    fn both(line: &str) -> (String, String) {
        let arguments = line.split(' ').map(OsString::from);
        let Normalised { arguments, rest } = normalise(arguments, flag, |word| word == "check");
        let text = |words: Vec<OsString>| words.join(OsStr::new(" ")).into_string().unwrap();
        (text(arguments), text(rest))
    }

    fn normalised(line: &str) -> String {
        let (arguments, rest) = both(line);
        assert_eq!(rest, "", "{line}");
        arguments
    }

    #[test]
    fn one_dash_becomes_two() {
        for (given, expected) in [
            ("cp -config F", "cp --config F"),
            ("cp -config=F", "cp --config=F"),
            ("cp --config F", "cp --config F"),
            ("cp -template -out F", "cp --template --out F"),
            ("cp check -config F -strict", "cp check --config F --strict"),
            ("cp -reload -dry-run", "cp --reload --dry-run"),
            ("cp -unknown", "cp --unknown"),
        ] {
            assert_eq!(normalised(given), expected);
        }
    }

    #[test]
    fn one_letter_flags_and_a_lone_dash_stay() {
        for line in ["cp -v", "cp -h", "cp -fn5", "cp -out -", "cp -", "cp -1", "cp -v=x", "cp", "-config"] {
            assert_eq!(normalised(line), line.replace("-out", "--out"));
        }
    }

    #[test]
    fn values_stay() {
        assert_eq!(normalised("cp -putenv K=-v -config -odd"), "cp --putenv K=-v --config -odd");
        assert_eq!(normalised("cp -putenv=K -config=-odd"), "cp --putenv=K --config=-odd");
        assert_eq!(normalised("cp -putenv -template -template"), "cp --putenv -template --template");
    }

    #[test]
    fn a_switch_may_be_set_to_true_or_false_as_in_go() {
        for (given, expected) in [
            ("cp -version=true", "cp --version"),
            ("cp --version=1 -template=T", "cp --version --template"),
            ("cp -version=false -template=True", "cp --template"),
            ("cp -version=0 -config F", "cp --config F"),
            ("cp -version=maybe", "cp --version=maybe"),
            ("cp -config=true -out=false", "cp --config=true --out=false"),
            ("cp -putenv -version=true", "cp --putenv -version=true"),
            ("cp -other=true", "cp --other=true"),
            ("cp -- -version=true", "cp -- -version=true"),
        ] {
            assert_eq!(normalised(given), expected);
        }
    }

    #[test]
    fn flags_end_at_the_first_word_that_is_no_command() {
        for (line, arguments, rest) in [
            ("cp -config F nginx -config x", "cp --config F", "nginx -config x"),
            ("cp --config=F nginx -- x", "cp --config=F", "nginx -- x"),
            ("cp -template nginx", "cp --template", "nginx"),
            ("cp -config F check nginx -out x", "cp --config F check nginx --out x", ""),
            ("cp nginx check", "cp", "nginx check"),
        ] {
            assert_eq!(both(line), (arguments.to_owned(), rest.to_owned()), "{line}");
        }
        for line in
            ["cp --config check", "cp --config F -- nginx", "cp --config -- nginx", "cp -", "cp", "cp "]
        {
            assert_eq!(normalised(line), line);
        }
    }

    #[test]
    fn everything_after_two_dashes_stays() {
        assert_eq!(normalised("cp -config F -- app -config G --"), "cp --config F -- app -config G --");
    }

    #[test]
    fn two_dashes_are_never_a_value() {
        assert_eq!(normalised("cp -config -- app -config"), "cp --config -- app -config");
    }

    #[test]
    fn an_argument_that_is_not_utf8_stays() {
        let odd = OsString::from_vec(vec![b'/', 0xff]);
        let arguments = ["cp".into(), "-config".into(), odd.clone()];
        assert_eq!(normalise(arguments, flag, |_| false).arguments[2], odd);
        let expected = Normalised { arguments: vec!["cp".into()], rest: vec![odd.clone()] };
        assert_eq!(normalise(["cp".into(), odd], flag, |_| true), expected);
    }
}
