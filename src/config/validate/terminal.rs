//! Which job gets our terminal.

use super::context::{Context, is_set, key};
use super::jobs::{entries, label};
use crate::config::merge::Named;
use crate::config::raw::{RawConfig, RawJob};

/// Whether a job wants our terminal.
pub(super) fn validate(context: &mut Context<'_>, raw: &RawJob) -> bool {
    let wants = is_set(&raw.tty);
    if let (true, None, Some(place)) = (wants, &raw.exec, key(&raw.tty)) {
        context.error(
            "no-process",
            place,
            ".tty: a job without `exec` has no process that could use a terminal",
        );
    }
    wants
}

/// Refuses a second job that wants the terminal: only one process group can be in its foreground.
pub(super) fn check_one(context: &mut Context<'_>, config: &RawConfig) {
    let mut wanting = entries(&config.jobs).filter(|(_, job)| is_set(&job.tty)).map(|(field, job)| {
        let label = label("jobs", field.index, job.identity().as_deref());
        (label, key(&job.tty).unwrap_or(field.span))
    });
    let Some((first, _)) = wanting.next() else { return };
    for (label, place) in wanting {
        let message = format!("{label}.tty: only one job can have the terminal, and {first} has it");
        context.error("second-terminal", place, message);
    }
}
