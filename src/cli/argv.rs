//! ContainerPilot's flags have one dash (`-config`), clap's have two. Rewrites the former into the latter;
//! everything that is a value or follows `--` stays as it is.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The arguments with a second dash before every flag that has one dash and several letters. `takes_value`
/// says whether the next argument belongs to the flag of that name.
pub fn normalise(
    arguments: impl IntoIterator<Item = OsString>,
    takes_value: impl Fn(&str) -> bool,
) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    let mut normalised: Vec<OsString> = arguments.by_ref().take(1).collect();
    let mut is_value = false;
    for argument in arguments.by_ref() {
        if argument == "--" {
            normalised.push(argument);
            break;
        }
        let argument = if is_value { argument } else { with_two_dashes(argument) };
        is_value = !is_value && long_name(&argument).is_some_and(&takes_value);
        normalised.push(argument);
    }
    normalised.extend(arguments);
    normalised
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

    fn normalised(line: &str) -> String {
        let arguments = line.split(' ').map(OsString::from);
        let takes_value = |name: &str| matches!(name, "config" | "putenv" | "out");
        let words = normalise(arguments, takes_value);
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
        assert_eq!(normalise([odd.clone(), odd.clone()], |_| true), [odd.clone(), odd]);
    }
}
