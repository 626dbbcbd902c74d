//! The events that a `when` can name: of jobs, checks, groups, watches, signals, and the program itself.

use crate::config::diagnostic::Problem;
use crate::config::raw::{EventName, Field, Opt};
use crate::config::source::Span;
use crate::config::spec::MAIN;
use crate::config::suggest;
use crate::config::validate::context::Context;
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::signal::Signal;

const JOB_EVENTS: [EventCode; 7] = [
    EventCode::ExitSuccess,
    EventCode::ExitFailed,
    EventCode::Ready,
    EventCode::Healthy,
    EventCode::Unhealthy,
    EventCode::Stopping,
    EventCode::Stopped,
];

const CHECK_EVENTS: [EventCode; 2] = [EventCode::ExitSuccess, EventCode::ExitFailed];

const GROUP_EVENTS: [EventCode; 5] =
    [EventCode::Ready, EventCode::Healthy, EventCode::Unhealthy, EventCode::ExitFailed, EventCode::Stopped];

const WATCH_EVENTS: [EventCode; 3] = [EventCode::Healthy, EventCode::Unhealthy, EventCode::Changed];

/// Events without a source.
const GLOBAL_EVENTS: [EventCode; 4] =
    [EventCode::Startup, EventCode::Shutdown, EventCode::EnterMaintenance, EventCode::ExitMaintenance];

/// The source of an event without one, as ContainerPilot writes it.
const GLOBAL: &str = "global";

pub(super) fn event(
    context: &mut Context<'_>,
    name: &str,
    source_field: &Opt<String>,
    event: &Field<EventName>,
) -> Option<EventKey> {
    let text = &event.value.as_ref()?.0;
    let given = source_field.as_ref().and_then(|field| Some((field.span, field.value.as_deref()?)));
    if let Some((_, source)) = given
        && let Some(signal) = signal(source)
    {
        return signal_event(context, name, event.span, text, source, signal);
    }
    if let Some((span, text)) = given.filter(|(_, source)| is_other_signal(context, source)) {
        let _: Option<Source> = source(context, span, text);
        return None;
    }
    let Some(code) = code(context, name, event.span, text) else {
        if let Some((span, text)) = given.filter(|(_, source)| *source != GLOBAL) {
            let _: Option<Source> = source(context, span, text);
        }
        return None;
    };
    match given {
        None if source_field.is_some() => None,
        None | Some((_, GLOBAL)) if code.is_global() => Some(EventKey { code, source: Source::Global }),
        None => {
            let message = format!(".{name}: the event {text:?} needs a `source`");
            let problem = Problem::error("missing-source", event.span, message);
            context.reject(problem.help("add `source` with the name of a job, or `watch.NAME`"))
        }
        Some((span, source)) if code.is_global() => {
            let message = format!(".{name}: the event {text:?} has no `source`, found {source:?}");
            context.reject(Problem::error("unexpected-source", span, message).help("remove the `source`"))
        }
        Some((span, text)) => {
            let source = source(context, span, text)?;
            of_source(context, name, event.span, EventKey { code, source }, text)
        }
    }
}

/// Signals that never arrive as events, unless a job has such a name.
pub(super) fn is_other_signal(context: &Context<'_>, source: &str) -> bool {
    source.starts_with("SIG") && Signal::parse(source).is_some() && context.names.job(source).is_none()
}

/// The signal that a job can wait for whose name this is, written in another way. Jobs and watches come first.
pub(super) fn misspelt_signal(context: &Context<'_>, source: &str) -> Option<&'static str> {
    let names = &context.names;
    let is_name = source.starts_with(|first: char| first.is_ascii_alphabetic());
    if !is_name || signal(source).is_some() || names.job(source).is_some() || names.watch(source).is_some() {
        return None;
    }
    let meant = Signal::parse(source)?;
    ["SIGHUP", "SIGUSR2"].into_iter().find(|name| signal(name) == Some(meant))
}

/// The event, if its source has such events.
fn of_source(
    context: &mut Context<'_>,
    name: &str,
    span: Span,
    key: EventKey,
    source: &str,
) -> Option<EventKey> {
    let (events, noun): (&[EventCode], &str) = match &key.source {
        Source::Job(_) => (&JOB_EVENTS, "job"),
        Source::Watch(_) => (&WATCH_EVENTS, "watch"),
        Source::Check(_) => (&CHECK_EVENTS, "health check"),
        Source::Group(_) => (&GROUP_EVENTS, "group"),
        Source::Global | Source::Signal(_) => (&GLOBAL_EVENTS, "program"),
    };
    if events.contains(&key.code) {
        return Some(key);
    }
    let (event, events) = (key.code.config_name(), names_of(events));
    let place = if name.is_empty() { String::new() } else { format!(".{name}") };
    let message = format!("{place}: a {noun} has no event {event:?}; its events are {events}");
    let watch = context.names.watch(source).filter(|_| noun == "job");
    let help = watch.map(|_| format!("\"watch.{source}\" is the watch of that name"));
    context.reject(Problem::error("wrong-event", span, message).maybe_help(help))
}

pub(super) fn source(context: &mut Context<'_>, span: Span, text: &str) -> Option<Source> {
    source_of(context, ".source", span, text)
}

/// The event `ready` of what an entry of `after` names; the path of the context is that of the entry.
pub(in crate::config::validate) fn ready(
    context: &mut Context<'_>,
    span: Span,
    text: &str,
) -> Option<EventKey> {
    let source = source_of(context, "", span, text)?;
    of_source(context, "", span, EventKey { code: EventCode::Ready, source }, text)
}

fn source_of(context: &mut Context<'_>, place: &str, span: Span, text: &str) -> Option<Source> {
    let names = &context.names;
    let job = names.job(text).map(Source::Job);
    let watch = || names.watch(text.strip_prefix("watch.").unwrap_or(text)).map(Source::Watch);
    // ContainerPilot publishes the outcome of a health check as that of a command `check.JOB`.
    let check = || names.job(text.strip_prefix("check.")?).map(Source::Check);
    let group = || names.group(text.strip_prefix("group.")?).map(Source::Group);
    let source = job.or_else(watch).or_else(check).or_else(group);
    if source.is_some() || names.incomplete {
        return source;
    }
    let (message, help) = if is_other_signal(context, text) {
        let help = "the signals that a job can wait for are SIGHUP and SIGUSR2";
        (format!("{place}: a job cannot wait for {text}"), help.to_owned())
    } else {
        let help = if text == MAIN {
            let help = "the command after `--` has this name; there is none here. With a command: check -config F -- CMD";
            help.to_owned()
        } else if let Some(name) = misspelt_signal(context, text) {
            format!("did you mean {name:?}?")
        } else {
            context.names.advice(text)
        };
        (format!("{place}: nothing is named {text:?}"), help)
    };
    context.reject(Problem::error("unknown-source", span, message).help(help))
}

fn signal_event(
    context: &mut Context<'_>,
    name: &str,
    span: Span,
    text: &str,
    source: &str,
    signal: Signal,
) -> Option<EventKey> {
    if text == source || text == EventCode::Signal.config_name() {
        return Some(signal_key(signal));
    }
    let message = format!(".{name}: a signal has no event {text:?}");
    let help = format!("leave `{name}` out: `{{source: {source:?}}}` runs the job at each {source}");
    context.reject(Problem::error("wrong-event", span, message).help(help))
}

fn code(context: &mut Context<'_>, name: &str, span: Span, text: &str) -> Option<EventCode> {
    let events = [GLOBAL_EVENTS.as_slice(), &JOB_EVENTS, &[EventCode::Changed]].concat();
    if let Some(code) = events.iter().find(|code| code.config_name() == text) {
        return Some(*code);
    }
    let help = suggest::did_you_mean(text, events.iter().map(|code| code.config_name()))
        .unwrap_or_else(|| format!("the events are {}", names_of(&events)));
    let message = format!(".{name}: there is no event {text:?}");
    context.reject(Problem::error("unknown-event", span, message).help(help))
}

/// The signals that arrive as events.
pub(in crate::config) fn signal(source: &str) -> Option<Signal> {
    match source {
        "SIGHUP" => Some(Signal::HUP),
        "SIGUSR2" => Some(Signal::USR2),
        _ => None,
    }
}

pub(super) fn signal_key(signal: Signal) -> EventKey {
    EventKey { code: EventCode::Signal, source: Source::Signal(signal) }
}

fn names_of(events: &[EventCode]) -> String {
    events.iter().map(|code| code.config_name()).collect::<Vec<_>>().join(", ")
}
