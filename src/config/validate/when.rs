//! When a job runs: from event names and sources to a [`Trigger`].

mod events;

use std::path::Path;
use std::sync::Arc;

use super::context::{Context, given, is_set, items, key, span, time, value};
use crate::config::diagnostic::Problem;
use crate::config::raw::{EventName, Field, OneOrMany, Opt, RawTerm, RawWhen, RawWhenRule};
use crate::config::schedule::CronSpec;
use crate::config::schedule::cron::{CronError, Pattern};
use crate::config::schedule::local::local;
use crate::config::schedule::zone::Zone;
use crate::config::source::Span;
use crate::config::spec::{Trigger, When};
use crate::config::suggest;
use crate::messages::event::{EventCode, EventKey, Source};
pub(super) use events::ready;
pub(in crate::config) use events::signal;
use events::{event, is_other_signal, misspelt_signal, signal_key, source};

/// The start of the program.
pub(in crate::config) fn startup() -> EventKey {
    EventKey { code: EventCode::Startup, source: Source::Global }
}

/// The rule of a `when`; `None` after a problem was reported.
pub(super) fn validate(context: &mut Context<'_>, field: &Field<RawWhen>) -> Option<When> {
    context.within(".when", |context| match field.value.as_ref()? {
        RawWhen::Rule(raw) => rule(context, field.span, raw),
        RawWhen::All(list) => Some(When::new(Trigger::All(terms(context, field.span, list)?))),
    })
}

fn rule(context: &mut Context<'_>, span: Span, rule: &RawWhenRule) -> Option<When> {
    let given = given(&[
        ("interval", key(&rule.interval)),
        ("cron", key(&rule.cron)),
        ("once", key(&rule.once)),
        ("each", key(&rule.each)),
        ("event", key(&rule.event)),
        ("all", key(&rule.all)),
        ("any", key(&rule.any)),
    ]);
    if let [_, (name, second), ..] = given.as_slice() {
        let names: Vec<String> = given.iter().map(|(name, _)| format!("`{name}`")).collect();
        let message = format!(
            ": expected exactly one of `interval`, `cron`, `once`, `each`, `event`, `all`, `any`, found {}",
            names.join(" and ")
        );
        let problem = Problem::error("when-conflict", *second, message);
        context.add(problem.label(format!("`{name}` cannot be combined")));
        judge_parts(context, rule);
        return None;
    }
    warn_of_lonely_keys(context, rule);
    let trigger = if rule.interval.is_some() {
        interval(context, rule)?
    } else if let Some(expression) = &rule.cron {
        cron(context, rule, expression)?
    } else if let Some(name) = &rule.event {
        plain_event(context, rule, name)?
    } else if let Some(name) = &rule.once {
        Trigger::Once(event(context, "once", &rule.source, name)?)
    } else if let Some(name) = &rule.each {
        Trigger::Each(event(context, "each", &rule.source, name)?)
    } else if rule.all.is_some() {
        refuse_source(context, rule, "all");
        Trigger::All(listed(context, "all", &rule.all)?)
    } else if rule.any.is_some() {
        refuse_source(context, rule, "any");
        Trigger::Any(listed(context, "any", &rule.any)?)
    } else {
        signal_only(context, span, rule)?
    };
    let timeout = time(&rule.timeout).filter(|timeout| !timeout.is_zero());
    let timeout = timeout.filter(|_| !trigger.is_periodic());
    let skips_startup = rule.interval.is_some() && value(&rule.startup).is_some_and(|startup| !startup.0);
    Some(When { trigger, timeout, skips_startup, after: Vec::new() })
}

fn refuse_source(context: &mut Context<'_>, rule: &RawWhenRule, list: &str) {
    if let Some(source) = &rule.source {
        let message = format!(".source: each entry of `{list}` has a `source` of its own");
        context.error("unexpected-source", source.key, message);
    }
}

/// Warns of keys that mean something only beside another one.
fn warn_of_lonely_keys(context: &mut Context<'_>, rule: &RawWhenRule) {
    if rule.cron.is_none() {
        let unused = [
            ("timezone", key(&rule.timezone)),
            ("jitter", key(&rule.jitter)),
            ("catchUp", key(&rule.catch_up)),
        ];
        context.no_effect(&unused, "without `cron`");
    }
    if rule.interval.is_none() {
        context.no_effect(&[("startup", key(&rule.startup))], "without `interval`");
    }
}

/// Reports what is wrong with the parts of a rule that contradicts itself.
fn judge_parts(context: &mut Context<'_>, rule: &RawWhenRule) {
    for (name, part) in [("once", &rule.once), ("each", &rule.each)] {
        let _: Option<EventKey> = part.as_ref().and_then(|part| event(context, name, &rule.source, part));
    }
    for (name, part) in [("all", &rule.all), ("any", &rule.any)] {
        let _: Option<Vec<EventKey>> = listed(context, name, part);
    }
}

fn interval(context: &mut Context<'_>, rule: &RawWhenRule) -> Option<Trigger> {
    let unused = [("source", key(&rule.source)), ("timeout", key(&rule.timeout))];
    context.no_effect(&unused, "together with `interval`");
    context.at_least_1ms("interval", &rule.interval).map(Trigger::Interval)
}

fn cron(context: &mut Context<'_>, rule: &RawWhenRule, field: &Field<String>) -> Option<Trigger> {
    let unused = [("source", key(&rule.source)), ("timeout", key(&rule.timeout))];
    context.no_effect(&unused, "together with `cron`");
    let zone = zone(context, &rule.timezone);
    let text = field.value.as_ref()?;
    let pattern = match Pattern::parse(text) {
        Ok(pattern) => pattern,
        Err(CronError { message, help }) => {
            let problem = Problem::error("bad-cron", field.span, format!(".cron: {message}"));
            return context.reject(problem.maybe_help(help));
        }
    };
    Some(Trigger::Cron(Arc::new(CronSpec {
        text: text.clone(),
        pattern,
        zone: zone?,
        jitter: time(&rule.jitter).unwrap_or_default(),
        catch_up: is_set(&rule.catch_up),
    })))
}

fn zone(context: &mut Context<'_>, field: &Opt<String>) -> Option<Zone> {
    let Some(field) = field else { return Some(Zone::utc()) };
    let name = field.value.as_ref()?;
    if name.eq_ignore_ascii_case("local") {
        let zone = local(context.env, Path::new("/etc/localtime"));
        return context.accept(
            "unknown-timezone",
            field.span,
            zone.map_err(|why| format!(".timezone: {why}")),
        );
    }
    if let Some(zone) = Zone::named(name) {
        return Some(zone);
    }
    let help = suggest::did_you_mean(name, Zone::names())
        .unwrap_or_else(|| "write a name such as \"Europe/Berlin\", \"UTC\" or \"local\"".to_owned());
    let message = format!(".timezone: there is no time zone {name:?}");
    context.reject(Problem::error("unknown-timezone", field.span, message).help(help))
}

/// Where the expression of a schedule is, and where its jitter is.
pub(super) fn schedule_spans(when: &Opt<RawWhen>) -> (Option<Span>, Option<Span>) {
    match value(when) {
        Some(RawWhen::Rule(rule)) => (span(&rule.cron), span(&rule.jitter)),
        Some(RawWhen::All(_)) | None => (None, None),
    }
}

fn plain_event(context: &mut Context<'_>, rule: &RawWhenRule, field: &Field<EventName>) -> Option<Trigger> {
    let name = &field.value.as_ref()?.0;
    if name != EventCode::Startup.config_name() {
        let message = format!(".event: expected \"startup\", found {name:?}");
        return context.reject(
            Problem::error("unknown-event", field.span, message)
                .help("write `once` to run at the first such event, `each` to run at every one"),
        );
    }
    event(context, "event", &rule.source, field).map(Trigger::Once)
}

fn listed(context: &mut Context<'_>, name: &str, list: &Opt<OneOrMany<RawTerm>>) -> Option<Vec<EventKey>> {
    let field = list.as_ref()?;
    let list = &field.value.as_ref()?.0;
    context.within(format_args!(".{name}"), |context| terms(context, field.span, list))
}

fn terms(context: &mut Context<'_>, span: Span, terms: &[Field<RawTerm>]) -> Option<Vec<EventKey>> {
    if terms.is_empty() {
        return context.refuse("when-missing", span, ": expected at least one event, found none");
    }
    let of = |field: &Field<RawTerm>| {
        context.within(format_args!("[{}]", field.index), |context| term(context, field))
    };
    each_once(terms.iter().map(of))
}

/// The events, each once; `None` if one of them is wrong. All are looked at, so that every problem is reported.
pub(super) fn each_once(events: impl Iterator<Item = Option<EventKey>>) -> Option<Vec<EventKey>> {
    let mut keys: Vec<EventKey> = Vec::new();
    let mut complete = true;
    for event in events {
        match event {
            Some(key) if !keys.contains(&key) => keys.push(key),
            Some(_) => {}
            None => complete = false,
        }
    }
    complete.then_some(keys)
}

fn term(context: &mut Context<'_>, field: &Field<RawTerm>) -> Option<EventKey> {
    let term = field.value.as_ref()?;
    if let Some(once) = &term.once {
        return event(context, "once", &term.source, once);
    }
    if let Some(signal) = value(&term.source).and_then(|source| signal(source)) {
        return Some(signal_key(signal));
    }
    if !is_lonely_signal(context, &term.source) && !context.has_unknown_key(field.span) {
        context.error("when-missing", field.span, ": expected `once` with the name of an event");
    }
    None
}

/// The source of a signal needs no event.
fn signal_only(context: &mut Context<'_>, span: Span, rule: &RawWhenRule) -> Option<Trigger> {
    if let Some(signal) = value(&rule.source).and_then(|source| signal(source)) {
        return Some(Trigger::Each(signal_key(signal)));
    }
    if !is_lonely_signal(context, &rule.source) && !context.has_unknown_key(span) {
        let message = ": expected one of `interval`, `cron`, `once`, `each`, `event`, `all`, `any`";
        let problem = Problem::error("when-missing", span, message);
        context.add(problem.help("leave `when` out to run the job at startup"));
    }
    None
}

/// Judges a source that stands without an event; whether it is a signal that never arrives as one, or is misspelt.
fn is_lonely_signal(context: &mut Context<'_>, field: &Opt<String>) -> bool {
    let Some((field, text)) = field.as_ref().zip(value(field)) else { return false };
    let _: Option<Source> = source(context, field.span, text);
    is_other_signal(context, text) || misspelt_signal(context, text).is_some()
}

/// Whose events a `when` names.
pub(super) fn sources(when: &RawWhen) -> Vec<&str> {
    fn of(terms: &[Field<RawTerm>]) -> impl Iterator<Item = &str> {
        terms.iter().filter_map(|term| value(&term.value.as_ref()?.source)).map(String::as_str)
    }
    match when {
        RawWhen::All(terms) => of(terms).collect(),
        RawWhen::Rule(rule) => {
            let listed = [&rule.all, &rule.any].into_iter().flat_map(|terms| of(items(terms)));
            value(&rule.source).map(String::as_str).into_iter().chain(listed).collect()
        }
    }
}

/// The end of the job `preStart`, however it comes about.
pub(in crate::config) fn after(name: &Arc<str>) -> Trigger {
    let codes = [EventCode::ExitSuccess, EventCode::ExitFailed, EventCode::Stopped];
    let key = |code| EventKey { code, source: Source::Job(Arc::clone(name)) };
    Trigger::Any(codes.map(key).to_vec())
}
