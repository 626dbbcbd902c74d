//! `migrate`: a configuration of ContainerPilot 2 becomes one of ours on stdout or in a file; what its reader must
//! look at goes to stderr.

use std::fs;
use std::path::Path;

use super::request::Destination;
use super::{CommandError, locate, output, print_report, render};
use crate::config::migrate::{Migration, Remark, migrate};
use crate::config::spec::CommandLine;
use crate::reason::reason;

/// Migrates a file; a file that needs no migration is handed on as it is.
pub fn run(old: &Path, destination: &Destination, main: Option<&CommandLine>) -> Result<(), CommandError> {
    let path = locate::without_scheme(old.as_os_str());
    let name = path.display().to_string();
    let text = fs::read_to_string(&path)
        .map_err(|error| CommandError::new(format!("cannot read {name}: {}", reason(&error))))?;
    match migrate(&name, &text, main).map_err(|report| print_report(&path, &report))? {
        Migration::Current => {
            render::deliver(&text, destination)?;
            output::print_error(&format!(
                "{name}: needs no migration: its keys are those of ContainerPilot 3, which are ours too; handed on \
                 as it is\n"
            ));
        }
        Migration::Migrated { text, remarks } => {
            render::deliver(&text, destination)?;
            output::print_error(&summary(&name, &remarks, destination));
        }
    }
    Ok(())
}

fn summary(name: &str, remarks: &[Remark], destination: &Destination) -> String {
    let mut summary = String::new();
    for Remark { line, message } in remarks {
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        summary.push_str(&format!("{name}{line}: {message}\n"));
    }
    let todo = match remarks.len() {
        0 => "nothing is left to decide".to_owned(),
        1 => "1 place to look at, marked DECIDE or UNKNOWN".to_owned(),
        places => format!("{places} places to look at, marked DECIDE or UNKNOWN"),
    };
    let file = match destination {
        Destination::File(file) => file.display().to_string(),
        Destination::Stdout => "NEW".to_owned(),
    };
    summary.push_str(&format!("{name}: migrated; {todo}. Then: containerpilot check -config {file}\n"));
    summary
}
