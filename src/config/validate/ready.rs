//! `ready` and `watchdog`: how the process of a job tells that it can be used, and that it is alive.

use std::time::Duration;

use regex_lite::RegexBuilder;

use super::context::{Context, given, is_set, key, value};
use crate::config::diagnostic::Problem;
use crate::config::raw::{Opt, RawJob, RawReady};
use crate::config::spec::{ReadyBy, ReadySpec};

/// How large a compiled expression may become.
pub(super) const EXPRESSION_LIMIT: usize = 256 << 10;

pub(super) fn validate(context: &mut Context<'_>, job: &RawJob) -> ReadySpec {
    let Some((field, raw)) = job.ready.as_ref().zip(value(&job.ready)) else { return ReadySpec::default() };
    if job.exec.is_none() {
        let message = ".ready: expected an `exec` beside it: there is no process that could tell";
        context.error("ready-without-exec", field.key, message);
    }
    context.within(".ready", |context| {
        let timeout = context.at_least_1ms("timeout", &raw.timeout);
        let forms = given(&[("notify", key(&raw.notify)), ("fd", key(&raw.fd)), ("log", key(&raw.log))]);
        if let [(first, _), (second, span), ..] = forms.as_slice() {
            let message =
                format!(": expected one of `notify`, `fd` and `log`, found `{first}` and `{second}`");
            context.error("ready-conflict", *span, message);
            return ReadySpec::default();
        }
        let by = by(context, job, raw);
        let tells_nothing = !is_set(&raw.notify) && raw.fd.is_none() && raw.log.is_none();
        if tells_nothing && job.health.is_none() && !context.has_unknown_key(field.span) {
            context.add(
                Problem::error("ready-missing", field.span, ": expected one of `notify`, `fd` and `log`")
                    .note("without them a job is ready when it is first healthy, and it has no `health`"),
            );
        }
        ReadySpec { by, timeout }
    })
}

fn by(context: &mut Context<'_>, job: &RawJob, raw: &RawReady) -> Option<ReadyBy> {
    if is_set(&raw.notify) {
        return Some(ReadyBy::Notify);
    }
    if let Some(number) = value(&raw.fd) {
        return i32::try_from(number.0).ok().map(ReadyBy::Descriptor);
    }
    let expression = expression(context, &raw.log)?;
    let (setting, why) = if value(&job.logging).is_some_and(|logging| is_set(&logging.raw)) {
        ("logging.raw", "nobody reads its lines")
    } else if is_set(&job.tty) {
        ("tty", "its lines go to the terminal")
    } else {
        return Some(ReadyBy::Log(expression));
    };
    let message = format!(".log: expected a job whose output is logged; with `{setting}` {why}");
    let problem = Problem::error("ready-without-output", key(&raw.log)?, message);
    context.reject(problem.help(format!("remove `{setting}`, or use `notify` or `fd`")))
}

fn expression(context: &mut Context<'_>, field: &Opt<String>) -> Option<String> {
    let field = field.as_ref()?;
    let text = field.value.as_ref()?;
    match RegexBuilder::new(text).size_limit(EXPRESSION_LIMIT).build() {
        Ok(_) => Some(text.clone()),
        Err(error) => {
            let message = format!(".log: expected a regular expression, found {text:?}: {error}");
            context.refuse("bad-regex", field.span, message)
        }
    }
}

/// The longest silence of a process.
pub(super) fn watchdog(context: &mut Context<'_>, job: &RawJob) -> Option<Duration> {
    let watchdog = context.at_least_1ms("watchdog", &job.watchdog)?;
    if job.exec.is_none() {
        let message = ".watchdog: expected an `exec` beside it: there is no process to watch";
        return context.refuse("watchdog-without-exec", key(&job.watchdog)?, message);
    }
    Some(watchdog)
}
