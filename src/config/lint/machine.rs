//! Lints that look at this machine: programs and files that are not there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::config::diagnostic::{Place, Problem, Problems};
use crate::config::source::Span;
use crate::config::spec::{CommandLine, ControlSpec, Environment, JobSpec, Probe, Spec};
use crate::config::validate::{ControlSpans, SpecSpans};

/// Where execvp(3) looks when PATH is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Reports programs and other files that do not exist here.
pub fn lint(spec: &Spec, places: &SpecSpans, env: &BTreeMap<String, String>, problems: &mut Problems) {
    for (job, place) in spec.jobs.iter().zip(&places.jobs) {
        let search = search_path(spec, job, env);
        let mut report = |command: &CommandLine, span: Option<Span>| {
            if let (Some(span), Some(reason)) = (span, missing(&command.program, job, search.as_deref())) {
                let message = format!("job {:?}: {:?} {reason}", job.name, command.program);
                problems.add(Problem::warning("program-not-found", span, message));
            }
        };
        if let Some(command) = &job.exec {
            report(command, place.exec);
        }
        for (check, span) in job.health.iter().zip(&place.checks) {
            if let Probe::Exec(command) = &check.probe {
                report(command, *span);
            }
        }
    }
    control_socket(&spec.control, &places.control, problems);
    for file in places.files.iter().filter(|file| !file.path.exists()) {
        let message = format!("{}: {:?} does not exist on this machine", file.of, file.path);
        problems.add(Problem::warning("file-not-found", file.place, message));
    }
}

/// Whoever may write to the control socket can run anything, and whoever may write to its directory can put a socket
/// of their own in its place.
fn control_socket(spec: &ControlSpec, places: &ControlSpans, problems: &mut Problems) {
    if let Some(span) = places.mode.filter(|_| spec.mode & 0o002 != 0) {
        let message = format!("control.mode: with {:04o} every user may control containerpilot", spec.mode);
        problems.add(
            Problem::warning("open-control-socket", span, message)
                .help("0600 lets its owner control it, 0660 its group too"),
        );
    }
    let Some(directory) = spec.socket.parent() else { return };
    let mode = fs::metadata(directory).map_or(0, |found| found.permissions().mode());
    // In a directory with the sticky bit, such as /tmp, only the owner of a file may replace it.
    if mode & 0o1002 == 0o0002 {
        let message = format!(
            "control.socket: every user may write to {directory:?} and put another socket in the place of ours"
        );
        let place = places.socket.map_or(Place::Nowhere, Place::At);
        problems.add(
            Problem::warning("open-control-socket", place, message)
                .help("use a directory that only its owner may write to"),
        );
    }
}

/// The PATH that a job's process is looked up in.
fn search_path(spec: &Spec, job: &JobSpec, env: &BTreeMap<String, String>) -> Option<String> {
    let last = |changes: &Environment| {
        changes.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone())
    };
    last(&job.execution.env).or_else(|| last(&spec.env)).unwrap_or_else(|| env.get("PATH").cloned())
}

/// Why a program cannot be executed, if so.
fn missing(program: &str, job: &JobSpec, search: Option<&str>) -> Option<&'static str> {
    if program.contains('/') {
        let path = match &job.execution.cwd {
            Some(directory) => directory.join(program),
            None => program.into(),
        };
        return refused(&path);
    }
    let directories = search.unwrap_or(DEFAULT_PATH).split(':');
    let found = directories
        .filter(|directory| !directory.is_empty())
        .any(|directory| refused(&Path::new(directory).join(program)).is_none());
    (!found).then_some("is not found in PATH on this machine")
}

fn refused(path: &Path) -> Option<&'static str> {
    match path.metadata() {
        Err(_) => Some("does not exist on this machine"),
        Ok(metadata) if metadata.is_dir() => Some("is a directory"),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => Some("is not executable"),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mode_with_which_every_user_may_write_is_warned_of() {
        for (mode, warns) in [(0o600, false), (0o660, false), (0o604, false), (0o602, true), (0o666, true)] {
            let spec = ControlSpec { socket: "/no/such/socket".into(), mode };
            let places = ControlSpans { socket: None, mode: Some(Span::default()) };
            let mut problems = Problems::default();
            control_socket(&spec, &places, &mut problems);
            assert_eq!(!problems.found().is_empty(), warns, "{mode:o}");
        }
    }
}
