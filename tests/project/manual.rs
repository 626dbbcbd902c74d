//! The completions and the manual page that `make dist` ships: nothing of the command line is missing in them.

#[allow(dead_code, reason = "its main is the example's")]
#[path = "../../scripts/manual.rs"]
mod generator;

use std::process::Command;

use containerpilot::cli::args::definition;

/// Every command, and every flag by its long name.
fn words() -> Vec<String> {
    let whole = definition();
    let flags = |command: &clap::Command| {
        command.get_arguments().filter_map(|flag| flag.get_long()).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut words = flags(&whole);
    for command in whole.get_subcommands() {
        words.push(command.get_name().to_owned());
        words.extend(flags(command));
    }
    words
}

#[test]
fn completions_and_the_manual_page_name_every_flag_and_command() {
    let words = words();
    for word in ["config", "putenv", "dry-run", "check", "strict", "signal", "follow"] {
        assert!(words.iter().any(|known| known == word), "{word} is not looked for");
    }
    for (name, text) in generator::files().unwrap() {
        let text = String::from_utf8(text).unwrap().replace("\\-", "-");
        for word in &words {
            assert!(text.contains(word.as_str()), "{name} does not name {word}\n{text}");
        }
    }
}

/// What bash offers for the last of these words.
fn offered_by_bash(words: &str) -> String {
    let (_, script) = generator::files().unwrap().remove(0);
    let script = String::from_utf8(script).unwrap();
    let question = format!(
        "{script}\nCOMP_WORDS=({words})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         _containerpilot containerpilot \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"\n\
         echo \"${{COMPREPLY[*]}}\""
    );
    let output = Command::new("bash").args(["-c", &question]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn bash_completes_flags_with_one_dash_as_those_with_two() {
    for (words, expected) in [
        ("containerpilot -rel", "--reload"),
        ("containerpilot --rel", "--reload"),
        ("containerpilot graph -fo", "--format"),
        ("containerpilot graph -format ''", "text dot mermaid svg json"),
        ("containerpilot graph --format m", "mermaid"),
        ("containerpilot sta", "status start"),
    ] {
        assert_eq!(offered_by_bash(words), expected, "{words}");
    }
}

#[test]
fn the_manual_page_shows_how_to_run_a_command_and_what_the_exit_status_means() {
    let (_, page) = generator::files().unwrap().pop().unwrap();
    let page = String::from_utf8(page).unwrap().replace("\\-", "-");
    assert!(page.contains("containerpilot [-config PATH] [-record FILE] [-- CMD [ARG]...]"), "{page}");
    assert!(page.contains("Exit status:"), "{page}");
    assert!(page.contains(".SH COMMAND CHECK\n"), "{page}");
}
