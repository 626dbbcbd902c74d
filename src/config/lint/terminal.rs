//! A shell at the terminal that would not hear its stop signal.

use super::shell::is_interactive;
use crate::config::diagnostic::{Problem, Problems};
use crate::config::spec::JobSpec;
use crate::config::validate::JobSpans;
use crate::messages::signal::Signal;

/// Interactive shells ignore SIGTERM and SIGQUIT, and react to SIGINT by a new prompt.
pub(super) fn lint(job: &JobSpec, place: &JobSpans, problems: &mut Problems) {
    let is_deaf = matches!(job.stop.signal, Signal::TERM | Signal::QUIT | Signal::INT);
    let Some(exec) = job.exec.as_ref().filter(|_| job.tty && is_deaf) else { return };
    if !is_interactive(&exec.program, &exec.args) {
        return;
    }
    let message = format!(
        "job {:?}: an interactive shell does not end by {}, so it is killed when its time to stop is over",
        job.name, job.stop.signal
    );
    let help = "add `stopSignal: \"SIGHUP\"`: that is what a shell gets when its terminal goes away";
    problems.add(Problem::warning("deaf-shell", place.exec.unwrap_or(place.name), message).help(help));
}
