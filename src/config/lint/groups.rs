//! Groups whose settings contradict those of their jobs.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use crate::config::diagnostic::{Problem, Problems};
use crate::config::source::Span;
use crate::config::spec::{GroupSpec, JobSpec, Limit, Spec, Trigger};
use crate::config::validate::{JobSpans, SpecSpans};
use crate::messages::event::{EventCode, EventKey, Source};

pub(super) fn lint(spec: &Spec, places: &SpecSpans, problems: &mut Problems) {
    for (group, span) in spec.groups.iter().zip(&places.groups) {
        let members: Vec<(&JobSpec, &JobSpans)> = group
            .jobs
            .iter()
            .filter_map(|name| spec.jobs.iter().zip(&places.jobs).find(|(job, _)| job.name == *name))
            .map(|(job, place)| (&**job, place))
            .collect();
        without_restarts(group, &members, *span, problems);
        for (job, place) in &members {
            order(group, job, place, *span, &spec.jobs, problems);
        }
    }
}

/// A group decides about restarts; if no job is restarted, it has nothing to decide.
fn without_restarts(
    group: &GroupSpec,
    members: &[(&JobSpec, &JobSpans)],
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

/// A job that waits for one that is listed after it, directly or through other jobs.
fn order(
    group: &GroupSpec,
    job: &JobSpec,
    place: &JobSpans,
    list: Span,
    jobs: &[Arc<JobSpec>],
    problems: &mut Problems,
) {
    let position = |name: &str| group.jobs.iter().position(|member| **member == *name);
    let is_later = |name: &str| position(name) > position(&job.name);
    let find =
        |(key, other): (&EventKey, &str)| Some((key.code, other.to_owned(), later(other, jobs, is_later)?));
    let Some((code, other, later)) = awaited(job).find_map(find) else { return };
    let through =
        if other == later { String::new() } else { format!(", which cannot come before job {later:?}") };
    let message = format!(
        "job {:?} waits for {:?} of job {other:?}{through}, but group {:?} starts it before that job",
        job.name,
        code.config_name(),
        group.name
    );
    problems.add(
        Problem::warning("group-order", place.when, message)
            .related(list, "the group's order")
            .help(format!("list {later:?} before {:?}", job.name)),
    );
}

/// The first job that `is_later`, of this one and those that it has to wait for.
fn later(job: &str, jobs: &[Arc<JobSpec>], is_later: impl Fn(&str) -> bool) -> Option<String> {
    let (mut seen, mut open) = (HashSet::from([job]), VecDeque::from([job]));
    while let Some(name) = open.pop_front() {
        if is_later(name) {
            return Some(name.to_owned());
        }
        let Some(spec) = jobs.iter().find(|spec| *spec.name == *name) else { continue };
        // Any of several events is enough for it: it may be another one.
        if !matches!(spec.when.trigger, Trigger::Any(_)) {
            open.extend(awaited(spec).map(|(_, other)| other).filter(|other| seen.insert(other)));
        }
    }
    None
}

/// The jobs for which a job waits before it starts, with the event; not those whose end it waits for.
fn awaited(job: &JobSpec) -> impl Iterator<Item = (&EventKey, &str)> {
    job.when.keys().iter().filter_map(|key| match &key.source {
        Source::Job(name) | Source::Check(name) if !is_end(key.code) => Some((key, &**name)),
        Source::Job(_)
        | Source::Check(_)
        | Source::Global
        | Source::Watch(_)
        | Source::Group(_)
        | Source::Signal(_) => None,
    })
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
                      {{name: 'behind', exec: 'a', when: {{source: 'last', once: 'exitSuccess'}}}},
                      {{name: 'far', exec: 'a', when: {{source: 'behind', once: 'exitSuccess'}}}},
                      {{name: 'clocked', exec: 'a', when: {{interval: '1h'}}, after: ['last']}},
                      {{name: 'at-the-end', exec: 'a', when: {{source: 'last', once: 'stopped'}}}},
                      {{name: 'either', exec: 'a', when: {{any: [{{source: 'last', once: 'exitSuccess'}}, {{once: 'startup'}}]}}}},
                      {{name: 'job', exec: 'a', restarts: 1, when: {{source: '{source}', once: 'exitSuccess'}}}}],
              groups: [{{name: 'g', jobs: ['first', 'job', 'last']}}]}}"
        );
        let loaded = load_text("t", &text, &BTreeMap::new(), &System::default()).unwrap();
        loaded.warnings.problems().iter().any(|problem| problem.code == "group-order")
    }

    #[test]
    fn only_a_wait_for_a_job_that_the_group_starts_later_is_warned_of() {
        for source in ["last", "behind", "far", "clocked"] {
            assert!(warns(source), "{source}");
        }
        for source in ["first", "job", "outside", "at-the-end", "either"] {
            assert!(!warns(source), "{source}");
        }
    }
}
