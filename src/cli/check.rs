//! `check` reports every problem of a configuration.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use super::request::{CheckOptions, Color, Format};
use super::{CommandError, environment, output};
use crate::config::diagnostic::{Report, Severity};
use crate::config::spec::CommandLine;
use crate::config::{self, System};

/// Prints every problem, also of what a command after `--` changes; the status is 1 if there are errors, or with `strict` warnings.
pub fn run(path: &Path, main: Option<CommandLine>, options: CheckOptions) -> Result<ExitCode, CommandError> {
    let report = config::check(main, path, &environment(), &System::current());
    let text = match options.format {
        Format::Human => for_people(path, &report, is_coloured(options.color, &io::stdout())),
        Format::Json => format!("{:#}\n", report.to_json()),
    };
    output::print(&text)?;
    Ok(if passes(&report, options.strict) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether to colour what is written to this stream.
pub fn is_coloured(color: Color, stream: &impl IsTerminal) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        // https://no-color.org: set to anything but nothing.
        Color::Auto => {
            stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    }
}

fn for_people(path: &Path, report: &Report, coloured: bool) -> String {
    let summary = format!("{}: {}\n", path.display(), report.summary());
    if report.is_empty() { summary } else { format!("{}\n{summary}", report.render(coloured)) }
}

fn passes(report: &Report, strict: bool) -> bool {
    report.count(Severity::Error) == 0 && (!strict || report.is_empty())
}
