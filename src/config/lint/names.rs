//! Names that mean two things: as the source of events, or in the environment of processes.

use std::collections::{HashMap, HashSet};

use crate::config::diagnostic::{Problem, Problems};
use crate::config::pid_variable::pid_variable;
use crate::config::source::Span;
use crate::config::spec::Spec;
use crate::config::validate::{SpecSpans, signal};

pub(super) fn lint(spec: &Spec, places: &SpecSpans, problems: &mut Problems) {
    let jobs: HashSet<&str> = spec.jobs.iter().map(|job| &*job.name).collect();
    job_and_watch(spec, places, &jobs, problems);
    for (job, place) in spec.jobs.iter().zip(&places.jobs) {
        signal_or_check(&job.name, place.name, &jobs, problems);
    }
    shared_variables(spec, places, problems);
}

fn job_and_watch(spec: &Spec, places: &SpecSpans, jobs: &HashSet<&str>, problems: &mut Problems) {
    for (watch, span) in spec.watches.iter().zip(&places.watches) {
        if jobs.contains(&*watch.name) {
            let name = &watch.name;
            let message = format!("a job and a watch are both named {name:?}");
            problems.add(
                Problem::warning("shared-name", *span, message)
                    .note(format!("`source: {name:?}` means the job, \"watch.{name}\" the watch")),
            );
        }
    }
}

/// A job whose name is also that of a signal, or of the checks of another job.
fn signal_or_check(name: &str, span: Span, jobs: &HashSet<&str>, problems: &mut Problems) {
    let checked = name.strip_prefix("check.").filter(|job| jobs.contains(job));
    let (other, means) = match checked {
        _ if signal(name).is_some() => {
            ("a signal".to_owned(), format!("the signal, so nothing can wait for job {name:?}"))
        }
        Some(job) => (
            format!("the health checks of job {job:?}"),
            "this job, so nothing can wait for those checks".to_owned(),
        ),
        None => return,
    };
    let message = format!("job {name:?} is named like {other}");
    problems.add(
        Problem::warning("shared-name", span, message).note(format!("`source: {name:?}` means {means}")),
    );
}

/// Jobs of which a process that looks for one of them finds another. Told once for each variable.
fn shared_variables(spec: &Spec, places: &SpecSpans, problems: &mut Problems) {
    let mut takers: HashMap<String, (&str, Span)> = HashMap::new();
    let mut told: HashSet<String> = HashSet::new();
    for (job, place) in spec.jobs.iter().zip(&places.jobs) {
        let variable = pid_variable(&job.name);
        let (first, first_place) = *takers.entry(variable.clone()).or_insert((&*job.name, place.name));
        if first == &*job.name || !told.insert(variable.clone()) {
            continue;
        }
        let message =
            format!("jobs {first:?} and {:?} share the variable {variable} for their process ids", job.name);
        problems.add(
            Problem::warning("shared-variable", place.name, message)
                .related(first_place, "the other job")
                .note("it has the process id of the one that was started last"),
        );
    }
}
