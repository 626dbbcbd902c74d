//! Groups whose settings contradict those of their jobs.

use crate::config::diagnostic::{Problem, Problems};
use crate::config::source::Span;
use crate::config::spec::{GroupSpec, JobSpec, Limit, Spec};
use crate::config::validate::{JobPlaces, Places};
use crate::messages::event::{EventCode, Source};

/// Lints of all groups.
pub(super) fn lint(spec: &Spec, places: &Places, problems: &mut Problems) {
    for (group, span) in spec.groups.iter().zip(&places.groups) {
        let members: Vec<(&JobSpec, &JobPlaces)> = group
            .jobs
            .iter()
            .filter_map(|name| spec.jobs.iter().zip(&places.jobs).find(|(job, _)| job.name == *name))
            .map(|(job, place)| (&**job, place))
            .collect();
        without_restarts(group, &members, *span, problems);
        for (job, place) in &members {
            order(group, job, place, *span, problems);
        }
    }
}

/// A group decides about restarts; if no job is restarted, it has nothing to decide.
fn without_restarts(
    group: &GroupSpec,
    members: &[(&JobSpec, &JobPlaces)],
    span: Span,
    problems: &mut Problems,
) {
    if members.iter().any(|(job, _)| job.restarts != Limit::Finite(0)) {
        return;
    }
    let message = format!("group {:?} never restarts anything: none of its jobs has `restarts`", group.name);
    let help = "add `restarts: \"unlimited\"` to the jobs whose end is to restart the group";
    problems.add(Problem::warning("group-without-restarts", span, message).help(help));
}

/// A job that waits for one that is listed after it.
fn order(group: &GroupSpec, job: &JobSpec, place: &JobPlaces, list: Span, problems: &mut Problems) {
    let position = |name: &str| group.jobs.iter().position(|member| **member == *name);
    let waits_for_later = job.when.trigger.keys().iter().find_map(|key| match &key.source {
        Source::Job(name) | Source::Check(name) if position(name) > position(&job.name) => {
            Some((name, key.code))
        }
        Source::Job(_)
        | Source::Check(_)
        | Source::Global
        | Source::Watch(_)
        | Source::Group(_)
        | Source::Signal(_) => None,
    });
    let Some((other, code)) = waits_for_later.filter(|(_, code)| !is_end(*code)) else { return };
    let message = format!(
        "job {:?} waits for {:?} of job {other:?}, but group {:?} starts it before that job",
        job.name,
        code.config_name(),
        group.name
    );
    problems.add(
        Problem::warning("group-order", place.when, message)
            .related(list, "the group's order")
            .help(format!("list {other:?} before {:?}", job.name)),
    );
}

const fn is_end(code: EventCode) -> bool {
    matches!(code, EventCode::Stopping | EventCode::Stopped)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::config::{System, load_text};

    /// Whether there is a warning if `job`, the second of its group, waits for this one.
    fn warns(source: &str) -> bool {
        let text = format!(
            "{{jobs: [{{name: 'first', exec: 'a'}}, {{name: 'last', exec: 'a'}}, {{name: 'outside', exec: 'a'}},
                      {{name: 'job', exec: 'a', restarts: 1, when: {{source: '{source}', once: 'exitSuccess'}}}}],
              groups: [{{name: 'g', jobs: ['first', 'job', 'last']}}]}}"
        );
        let loaded = load_text("t", &text, &BTreeMap::new(), &System::default()).unwrap();
        loaded.warnings.problems().iter().any(|problem| problem.code == "group-order")
    }

    #[test]
    fn only_a_wait_for_a_job_that_the_group_starts_later_is_warned_of() {
        assert!(warns("last"));
        for source in ["first", "job", "outside"] {
            assert!(!warns(source), "{source}");
        }
    }
}
