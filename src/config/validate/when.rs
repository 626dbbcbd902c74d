//! When a job runs: from event names and sources to a [`Trigger`].

use std::fmt::Display;
use std::sync::Arc;

use super::context::{Context, time, value};
use super::names::Names;
use crate::config::diagnostic::Problem;
use crate::config::raw::{EventName, Field, Opt, RawTerm, RawWhen, RawWhenRule};
use crate::config::source::Span;
use crate::config::spec::{MAIN, Trigger, When};
use crate::config::suggest;
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::signal::Signal;

/// Events of a job.
const JOB_EVENTS: [EventCode; 6] = [
    EventCode::ExitSuccess,
    EventCode::ExitFailed,
    EventCode::Healthy,
    EventCode::Unhealthy,
    EventCode::Stopping,
    EventCode::Stopped,
];

/// Events of a job's health checks.
const CHECK_EVENTS: [EventCode; 2] = [EventCode::ExitSuccess, EventCode::ExitFailed];

/// Events of a watch.
const WATCH_EVENTS: [EventCode; 3] = [EventCode::Healthy, EventCode::Unhealthy, EventCode::Changed];

/// Events without a source.
const GLOBAL_EVENTS: [EventCode; 4] =
    [EventCode::Startup, EventCode::Shutdown, EventCode::EnterMaintenance, EventCode::ExitMaintenance];

/// The source of an event without one, as ContainerPilot writes it.
const GLOBAL: &str = "global";

/// The start of the program.
pub(in crate::config) fn startup() -> EventKey {
    EventKey { code: EventCode::Startup, source: Source::Global }
}

/// Resolves the sources of events.
pub(super) struct Resolver<'a, 'b> {
    pub(super) context: &'a mut Context<'b>,
    pub(super) names: &'a Names<'a>,
    pub(super) incomplete: bool,
}

impl Resolver<'_, '_> {
    /// The rule of a `when`; `None` after a problem was reported.
    pub(super) fn when(&mut self, path: &dyn Display, field: &Field<RawWhen>) -> Option<When> {
        let path = format!("{path}.when");
        match field.value.as_ref()? {
            RawWhen::Rule(rule) => self.rule(&path, field.span, rule),
            RawWhen::All(terms) => {
                let all = self.terms(&path, field.span, &terms.0)?;
                Some(When { trigger: Trigger::All(all), timeout: None })
            }
        }
    }

    fn rule(&mut self, path: &str, span: Span, rule: &RawWhenRule) -> Option<When> {
        let timeout = time(&rule.timeout).filter(|timeout| !timeout.is_zero());
        let choices = choices(rule);
        if let [_, (name, second), ..] = choices.as_slice() {
            let given: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let message = format!(
                "{path}: expected exactly one of `interval`, `once`, `each`, `event`, `all`, `any`, found {}",
                given.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ")
            );
            let problem = Problem::error("when-conflict", *second, message);
            self.context.add(problem.label(format!("`{name}` cannot be combined")));
            self.judge_parts(path, rule);
            return None;
        }
        let trigger = match choices.first().map(|(name, _)| *name) {
            Some("interval") => self.interval(path, rule)?,
            Some("event") => self.plain_event(path, rule)?,
            Some("all") => Trigger::All(self.listed(path, "all", rule, &rule.all)?),
            Some("any") => Trigger::Any(self.listed(path, "any", rule, &rule.any)?),
            Some("once") => Trigger::Once(self.event(path, "once", &rule.source, rule.once.as_ref()?)?),
            Some("each") => Trigger::Each(self.event(path, "each", &rule.source, rule.each.as_ref()?)?),
            Some(_) | None => self.signal_only(path, span, rule)?,
        };
        let timeout = timeout.filter(|_| !matches!(trigger, Trigger::Interval(_)));
        Some(When { trigger, timeout })
    }

    /// Reports what is wrong with the parts of a rule that contradicts itself.
    fn judge_parts(&mut self, path: &str, rule: &RawWhenRule) {
        for (name, event) in [("once", &rule.once), ("each", &rule.each)] {
            if let Some(event) = event {
                let _: Option<EventKey> = self.event(path, name, &rule.source, event);
            }
        }
        for (name, terms) in [("all", &rule.all), ("any", &rule.any)] {
            if let Some(terms) = terms
                && let Some(list) = &terms.value
            {
                let _: Option<Vec<EventKey>> = self.terms(&format!("{path}.{name}"), terms.span, &list.0);
            }
        }
    }

    fn interval(&mut self, path: &str, rule: &RawWhenRule) -> Option<Trigger> {
        for (name, span) in [
            ("source", rule.source.as_ref().map(|source| source.key)),
            ("timeout", rule.timeout.as_ref().map(|timeout| timeout.key)),
        ] {
            if let Some(span) = span {
                let message = format!("{path}.{name} has no effect together with `interval`");
                self.context.add(Problem::warning("no-effect", span, message));
            }
        }
        let interval =
            self.context.at_least_1ms(format_args!("{path}.interval"), rule.interval.as_deref())?;
        Some(Trigger::Interval(interval))
    }

    fn plain_event(&mut self, path: &str, rule: &RawWhenRule) -> Option<Trigger> {
        let event = rule.event.as_ref()?;
        let name = &event.value.as_ref()?.0;
        if name != EventCode::Startup.config_name() {
            let message = format!("{path}.event: expected \"startup\", found {name:?}");
            self.context.add(
                Problem::error("unknown-event", event.span, message)
                    .help("write `once` to run at the first such event, `each` to run at every one"),
            );
            return None;
        }
        Some(Trigger::Once(self.event(path, "event", &rule.source, event)?))
    }

    fn listed(
        &mut self,
        path: &str,
        name: &str,
        rule: &RawWhenRule,
        terms: &Opt<crate::config::raw::OneOrMany<RawTerm>>,
    ) -> Option<Vec<EventKey>> {
        if let Some(source) = &rule.source {
            let message = format!("{path}.source: each entry of `{name}` has a `source` of its own");
            self.context.error("unexpected-source", source.key, message);
        }
        let field = terms.as_ref()?;
        self.terms(&format!("{path}.{name}"), field.span, &field.value.as_ref()?.0)
    }

    fn terms(&mut self, path: &str, span: Span, terms: &[Field<RawTerm>]) -> Option<Vec<EventKey>> {
        if terms.is_empty() {
            let message = format!("{path}: expected at least one event, found none");
            self.context.error("when-missing", span, message);
            return None;
        }
        let mut keys: Vec<EventKey> = Vec::new();
        let mut complete = true;
        for term in terms {
            match self.term(&format!("{path}[{}]", term.index), term) {
                Some(key) if !keys.contains(&key) => keys.push(key),
                Some(_) => {}
                None => complete = false,
            }
        }
        complete.then_some(keys)
    }

    fn term(&mut self, path: &str, field: &Field<RawTerm>) -> Option<EventKey> {
        let term = field.value.as_ref()?;
        if let Some(event) = &term.once {
            return self.event(path, "once", &term.source, event);
        }
        if let Some(signal) = value(&term.source).and_then(|source| signal(source)) {
            return Some(signal_key(signal));
        }
        if !self.is_lonely_signal(path, &term.source) && !self.context.has_unknown_key(field.span) {
            let message = format!("{path}: expected `once` with the name of an event");
            self.context.error("when-missing", field.span, message);
        }
        None
    }

    /// The source of a signal needs no event.
    fn signal_only(&mut self, path: &str, span: Span, rule: &RawWhenRule) -> Option<Trigger> {
        if let Some(signal) = value(&rule.source).and_then(|source| signal(source)) {
            return Some(Trigger::Each(signal_key(signal)));
        }
        if !self.is_lonely_signal(path, &rule.source) && !self.context.has_unknown_key(span) {
            let message =
                format!("{path}: expected one of `interval`, `once`, `each`, `event`, `all`, `any`");
            self.context.add(
                Problem::error("when-missing", span, message)
                    .help("leave `when` out to run the job at startup"),
            );
        }
        None
    }

    /// Judges a source that stands without an event; whether it is a signal that never arrives as one.
    fn is_lonely_signal(&mut self, path: &str, source: &Opt<String>) -> bool {
        let Some(field) = source else { return false };
        let Some(text) = field.value.as_deref() else { return false };
        let _: Option<Source> = self.source(&format!("{path}.source"), field.span, text);
        self.is_other_signal(text)
    }

    fn event(
        &mut self,
        path: &str,
        name: &str,
        source: &Opt<String>,
        event: &Field<EventName>,
    ) -> Option<EventKey> {
        let text = &event.value.as_ref()?.0;
        let wrong_source = source.as_ref().is_some_and(|source| source.value.is_none());
        let given = source.as_ref().and_then(|source| Some((source.span, source.value.as_deref()?)));
        if let Some((_, source)) = given
            && let Some(signal) = signal(source)
        {
            return self.signal_event(path, name, event.span, text, source, signal);
        }
        let path = format!("{path}.{name}");
        if let Some((span, source)) = given.filter(|(_, source)| self.is_other_signal(source)) {
            let _: Option<Source> = self.source(&path, span, source);
            return None;
        }
        let Some(code) = self.code(&path, event.span, text) else {
            if let Some((span, source)) = given.filter(|(_, source)| *source != GLOBAL) {
                let _: Option<Source> = self.source(&path, span, source);
            }
            return None;
        };
        match given {
            _ if wrong_source => None,
            None | Some((_, GLOBAL)) if code.is_global() => Some(EventKey { code, source: Source::Global }),
            None => {
                let message = format!("{path}: the event {text:?} needs a `source`");
                self.context.add(
                    Problem::error("missing-source", event.span, message)
                        .help("add `source` with the name of a job, or `watch.NAME`"),
                );
                None
            }
            Some((span, source)) if code.is_global() => {
                let message = format!("{path}: the event {text:?} has no `source`, found {source:?}");
                self.context
                    .add(Problem::error("unexpected-source", span, message).help("remove the `source`"));
                None
            }
            Some((span, source)) => self.sourced(&path, event.span, code, span, source),
        }
    }

    /// Signals that never arrive as events, unless a job has such a name.
    fn is_other_signal(&self, source: &str) -> bool {
        source.starts_with("SIG") && Signal::parse(source).is_some() && self.names.job(source).is_none()
    }

    fn sourced(
        &mut self,
        path: &str,
        event_span: Span,
        code: EventCode,
        source_span: Span,
        text: &str,
    ) -> Option<EventKey> {
        let source = self.source(path, source_span, text)?;
        let (events, noun): (&[EventCode], &str) = match &source {
            Source::Job(_) => (&JOB_EVENTS, "job"),
            Source::Watch(_) => (&WATCH_EVENTS, "watch"),
            Source::Check(_) => (&CHECK_EVENTS, "health check"),
            Source::Global | Source::Signal(_) => (&GLOBAL_EVENTS, "program"),
        };
        if events.contains(&code) {
            return Some(EventKey { code, source });
        }
        let message = format!(
            "{path}: a {noun} has no event {:?}; its events are {}",
            code.config_name(),
            listed(events)
        );
        let watch = (noun == "job" && WATCH_EVENTS.contains(&code))
            .then(|| self.names.watch(text))
            .flatten()
            .map(|_| format!("\"watch.{text}\" is the watch of that name"));
        self.context.add(Problem::error("wrong-event", event_span, message).maybe_help(watch));
        None
    }

    fn source(&mut self, path: &str, span: Span, text: &str) -> Option<Source> {
        let job = self.names.job(text).map(Source::Job);
        let watch = || self.names.watch(text.strip_prefix("watch.").unwrap_or(text)).map(Source::Watch);
        // ContainerPilot publishes the outcome of a health check as that of a command `check.JOB`.
        let check = || self.names.job(text.strip_prefix("check.")?).map(Source::Check);
        if let Some(source) = job.or_else(watch).or_else(check) {
            return Some(source);
        }
        if self.incomplete || self.names.incomplete {
            return None;
        }
        let path = path.rsplit_once('.').map_or(path, |(parent, _)| parent);
        let is_signal = self.is_other_signal(text);
        let message = if is_signal {
            format!("{path}.source: a job cannot wait for {text}")
        } else {
            format!("{path}.source: nothing is named {text:?}")
        };
        let help = if is_signal {
            "the signals that a job can wait for are SIGHUP and SIGUSR2".to_owned()
        } else if text == MAIN {
            "the command after `--` has this name; there is none here".to_owned()
        } else {
            self.names.advice(text)
        };
        self.context.add(Problem::error("unknown-source", span, message).help(help));
        None
    }

    fn signal_event(
        &mut self,
        path: &str,
        name: &str,
        span: Span,
        text: &str,
        source: &str,
        signal: Signal,
    ) -> Option<EventKey> {
        if text == source || text == EventCode::Signal.config_name() {
            return Some(signal_key(signal));
        }
        let message = format!("{path}.{name}: a signal has no event {text:?}");
        let help = format!("leave `{name}` out: `{{source: {source:?}}}` runs the job at each {source}");
        self.context.add(Problem::error("wrong-event", span, message).help(help));
        None
    }

    fn code(&mut self, path: &str, span: Span, text: &str) -> Option<EventCode> {
        let events = [GLOBAL_EVENTS.as_slice(), &JOB_EVENTS, &[EventCode::Changed]].concat();
        let code = events.iter().find(|code| code.config_name() == text).copied();
        if code.is_none() {
            let message = format!("{path}: there is no event {text:?}");
            let help = match suggest::nearest(text, events.iter().map(|code| code.config_name())) {
                Some(name) => format!("did you mean {name:?}?"),
                None => format!("the events are {}", listed(&events)),
            };
            self.context.add(Problem::error("unknown-event", span, message).help(help));
        }
        code
    }
}

/// Whose events a `when` names.
pub(super) fn sources(when: &RawWhen) -> Vec<&str> {
    fn of(terms: &[Field<RawTerm>]) -> impl Iterator<Item = &str> {
        terms.iter().filter_map(|term| value(&term.value.as_ref()?.source)).map(String::as_str)
    }
    match when {
        RawWhen::All(terms) => of(&terms.0).collect(),
        RawWhen::Rule(rule) => {
            let listed = [&rule.all, &rule.any].into_iter().filter_map(value).flat_map(|terms| of(&terms.0));
            value(&rule.source).map(String::as_str).into_iter().chain(listed).collect()
        }
    }
}

/// Which of the fields that exclude each other are given, in file order.
fn choices(rule: &RawWhenRule) -> Vec<(&'static str, Span)> {
    let mut given: Vec<(&'static str, Span)> = [
        ("interval", rule.interval.as_ref().map(|field| field.key)),
        ("once", rule.once.as_ref().map(|field| field.key)),
        ("each", rule.each.as_ref().map(|field| field.key)),
        ("event", rule.event.as_ref().map(|field| field.key)),
        ("all", rule.all.as_ref().map(|field| field.key)),
        ("any", rule.any.as_ref().map(|field| field.key)),
    ]
    .into_iter()
    .filter_map(|(name, span)| Some((name, span?)))
    .collect();
    given.sort_by_key(|(_, span)| span.start);
    given
}

/// The signals that arrive as events.
fn signal(source: &str) -> Option<Signal> {
    match source {
        "SIGHUP" => Some(Signal::HUP),
        "SIGUSR2" => Some(Signal::USR2),
        _ => None,
    }
}

fn signal_key(signal: Signal) -> EventKey {
    EventKey { code: EventCode::Signal, source: Source::Signal(signal) }
}

fn listed(events: &[EventCode]) -> String {
    events.iter().map(|code| code.config_name()).collect::<Vec<_>>().join(", ")
}

/// The end of the job `preStart`, however it comes about.
pub(in crate::config) fn after(name: &Arc<str>) -> Trigger {
    let codes = [EventCode::ExitSuccess, EventCode::ExitFailed, EventCode::Stopped];
    let key = |code| EventKey { code, source: Source::Job(Arc::clone(name)) };
    Trigger::Any(codes.map(key).to_vec())
}
