//! Writes the shell completions and the manual page into a folder, from the definition of the command line:
//! `cargo run --example manual -- FOLDER`.

use std::io;
use std::path::PathBuf;
use std::{env, fs};

use clap_complete::{Shell, generate};
use clap_mangen::Man;
use containerpilot::cli::args::definition;

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::other("expected a folder to write to"))?;
    fs::create_dir_all(&folder)?;
    for (name, text) in files()? {
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// Every file, by its name.
pub fn files() -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    Ok(vec![
        ("containerpilot.bash", with_one_dash(&completion(Shell::Bash))),
        ("_containerpilot", completion(Shell::Zsh)),
        ("containerpilot.fish", completion(Shell::Fish)),
        ("containerpilot.1", page()?),
    ])
}

fn completion(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    generate(shell, &mut definition(), "containerpilot", &mut text);
    text
}

/// Clap's script for bash knows flags with two dashes only. We take one dash, too, so it gets a second one before it is matched.
fn with_one_dash(script: &[u8]) -> Vec<u8> {
    let beginning = "    prev=\"$3\"\n";
    let more = r#"    # One dash means the same as two.
    [[ "${cur}" == -[a-z]* ]] && cur="-${cur}"
    [[ "${prev}" == -[a-z][a-z]* ]] && prev="-${prev}"
"#;
    String::from_utf8_lossy(script).replacen(beginning, &format!("{beginning}{more}"), 1).into_bytes()
}

/// One page for the program and all of its commands.
fn page() -> io::Result<Vec<u8>> {
    let mut whole = definition().version(env!("CARGO_PKG_VERSION"));
    whole.build();
    let man = Man::new(whole.clone());
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    synopsis(&whole, &mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    for command in whole.get_subcommands().filter(|command| command.get_name() != "help") {
        command_section(command, &mut text)?;
    }
    man.render_extra_section(&mut text)?;
    Ok(text)
}

/// Clap's own would hide that a command may follow `--`, and that flags and commands exclude each other.
fn synopsis(whole: &clap::Command, text: &mut Vec<u8>) -> io::Result<()> {
    text.extend(b".SH SYNOPSIS\n.nf\n");
    let usage = whole.clone().render_usage().to_string();
    for line in usage.trim_start_matches("Usage:").lines() {
        text.extend(roff(line.trim()).bytes().chain(*b"\n"));
    }
    text.extend(b".fi\n");
    Ok(())
}

fn command_section(command: &clap::Command, text: &mut Vec<u8>) -> io::Result<()> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    text.extend(format!(".SH COMMAND {}\n", roff(&command.get_name().to_uppercase())).bytes());
    text.extend(format!("{}\n.PP\n{}.\n", roff(usage), roff(&about)).bytes());
    let mut options = Vec::new();
    Man::new(command.clone()).render_options_section(&mut options)?;
    // Its heading would look like the end of the command's section.
    let options = String::from_utf8_lossy(&options).replace(".SH OPTIONS\n", ".SS OPTIONS\n");
    text.extend(options.bytes());
    Ok(())
}

/// Text as roff wants it: a dash is a minus sign, a leading dot no request.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
