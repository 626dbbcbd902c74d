//! `after`: the jobs that must be ready before a job runs, or before its clock starts.

use super::context::{Context, items, key};
use super::when;
use crate::config::diagnostic::Problem;
use crate::config::raw::{Field, RawJob};
use crate::config::spec::{Trigger, When};
use crate::messages::event::EventKey;

/// The rule of a job, with what its `after` adds to it; `None` after a problem was reported.
pub(super) fn validate(context: &mut Context<'_>, raw: &RawJob, when: Option<When>) -> Option<When> {
    let Some(field) = &raw.after else { return when };
    let entries = &field.value.as_ref()?.0;
    if entries.is_empty() {
        return context.refuse("when-missing", field.span, ".after: expected at least one job, found none");
    }
    let keys = keys(context, entries);
    let when = when?;
    let Some(rule) = key(&raw.when) else { return Some(When::new(Trigger::All(keys?))) };
    if when.trigger.is_periodic() {
        return Some(When { after: keys?, ..when });
    }
    let message = ".after: expected no `when` beside it but one with `interval` or `cron`";
    context.reject(
        Problem::error("after-with-when", field.key, message)
            .related(rule, "this `when` waits for other events")
            .help("add `{source: \"JOB\", once: \"ready\"}` to `when.all` instead"),
    )
}

fn keys(context: &mut Context<'_>, entries: &[Field<String>]) -> Option<Vec<EventKey>> {
    let ready = |entry: &Field<String>| {
        let ready = |context: &mut Context<'_>| when::ready(context, entry.span, entry.value.as_ref()?);
        context.within(format_args!(".after[{}]", entry.index), ready)
    };
    when::each_once(entries.iter().map(ready))
}

/// The names that the `after` of a job has.
pub(super) fn names(job: &RawJob) -> impl Iterator<Item = &str> {
    items(&job.after).iter().filter_map(|entry| entry.value.as_deref())
}
