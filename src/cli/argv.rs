//! ContainerPilot's flags are those of Go: one dash (`-config`), and `-version=true` for a switch. Clap's have two dashes,
//! and a switch is there or not. Rewrites the former into the latter; everything that is a value or follows `--` stays
//! as it is.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What a flag of some name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// The next argument belongs to it.
    TakesValue,
    /// It is there or not.
    Switch,
    /// There is no such flag.
    Unknown,
}

/// The arguments with a second dash before every flag that has one dash and several letters, and without the `=true`
/// of a switch; one with `=false` is left out.
pub fn normalise(
    arguments: impl IntoIterator<Item = OsString>,
    flag: impl Fn(&str) -> Flag,
) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    let mut normalised: Vec<OsString> = arguments.by_ref().take(1).collect();
    let mut is_value = false;
    for argument in arguments.by_ref() {
        if argument == "--" {
            normalised.push(argument);
            break;
        }
        if is_value {
            is_value = false;
            normalised.push(argument);
            continue;
        }
        let argument = with_two_dashes(argument);
        match switch(&argument).filter(|(name, _)| flag(name) == Flag::Switch) {
            Some((name, true)) => normalised.push(format!("--{name}").into()),
            Some((_, false)) => {}
            None => {
                is_value = long_name(&argument).is_some_and(|name| flag(name) == Flag::TakesValue);
                normalised.push(argument);
            }
        }
    }
    normalised.extend(arguments);
    normalised
}

/// The first argument that is neither a flag nor a value of one, and stands before any `--`: Go's flags end there.
pub fn first_word(arguments: &[OsString], flag: impl Fn(&str) -> Flag) -> Option<usize> {
    let mut is_value = false;
    for (index, argument) in arguments.iter().enumerate().skip(1) {
        if argument == "--" {
            return None;
        }
        let is_word = !argument.as_bytes().starts_with(b"-") && !argument.is_empty();
        if is_word && !is_value {
            return Some(index);
        }
        let name = with_two_dashes(argument.clone());
        is_value = !is_value && long_name(&name).is_some_and(|name| flag(name) == Flag::TakesValue);
    }
    None
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
            _ => Flag::Unknown,
        }
    }

    fn normalised(line: &str) -> String {
        let arguments = line.split(' ').map(OsString::from);
        let words = normalise(arguments, flag);
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
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
        for line in ["cp -v", "cp -h", "cp -out -", "cp -", "cp -1", "cp -v=x", "cp", "-config"] {
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
    fn the_first_word_is_neither_a_flag_nor_a_value() {
        for (line, expected) in [
            ("cp -config F nginx -g x", Some(3)),
            ("cp --config=F nginx", Some(2)),
            ("cp --template nginx", Some(2)),
            ("cp --config F", None),
            ("cp --config F -- nginx", None),
            ("cp --config -- nginx", None),
            ("cp -", None),
            ("cp", None),
        ] {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(first_word(&arguments, flag), expected, "{line}");
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
        assert_eq!(normalise([odd.clone(), odd.clone()], |_| Flag::TakesValue), [odd.clone(), odd]);
    }
}
