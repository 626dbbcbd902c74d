//! Unites the files of a directory into one configuration. Pure and associative: how files are grouped
//! makes no difference, only their order does.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::diagnostic::{Problem, Problems};
use super::raw::{
    Field, List, Opt, RawCommand, RawConfig, RawCoprocess, RawGroup, RawJob, RawMetric, RawTelemetry,
    RawWatch,
};
use super::source::Span;
use super::words;

/// A configuration made of any number of files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Merged {
    /// The merged configuration.
    pub config: RawConfig,
    /// The parts that a later file replaced.
    pub shadowed: Vec<Shadowed>,
}

/// An entry that a later file replaced.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shadowed {
    /// Where it is.
    pub span: Span,
    /// What it is, such as `job "app"`.
    pub what: String,
}

impl From<RawConfig> for Merged {
    fn from(config: RawConfig) -> Self {
        Self { config, shadowed: Vec::new() }
    }
}

/// Something that is united by name.
pub(super) trait Named {
    /// The word for it in messages.
    const NOUN: &'static str;

    /// The name that it was given.
    fn given_name(&self) -> Option<&Field<String>>;

    /// The name it has or gets by default; `None` if that cannot be told.
    fn identity(&self) -> Option<Cow<'_, str>> {
        self.given_name()?.value.as_deref().map(Cow::Borrowed)
    }

    /// Where that is.
    fn name_span(&self) -> Option<Span> {
        self.given_name().map(|name| name.span)
    }
}

impl Named for RawJob {
    const NOUN: &'static str = "job";

    fn identity(&self) -> Option<Cow<'_, str>> {
        match &self.name {
            Some(name) => name.value.as_deref().map(Cow::Borrowed),
            None => self.exec.as_ref()?.value.as_ref()?.program(),
        }
    }

    fn given_name(&self) -> Option<&Field<String>> {
        self.name.as_deref()
    }
}

impl Named for RawCoprocess {
    const NOUN: &'static str = "coprocess";

    fn identity(&self) -> Option<Cow<'_, str>> {
        match &self.name {
            Some(name) => name.value.as_deref().map(Cow::Borrowed),
            None => self.command.as_ref()?.value.as_ref().map(|command| command.line().into()),
        }
    }

    fn given_name(&self) -> Option<&Field<String>> {
        self.name.as_deref()
    }
}

impl Named for RawWatch {
    const NOUN: &'static str = "watch";

    fn given_name(&self) -> Option<&Field<String>> {
        self.alias.as_deref().or(self.name.as_deref())
    }
}

impl Named for RawGroup {
    const NOUN: &'static str = "group";

    fn given_name(&self) -> Option<&Field<String>> {
        self.name.as_deref()
    }
}

impl Named for RawMetric {
    const NOUN: &'static str = "metric";

    /// The parts that are not empty, joined with `_`.
    fn identity(&self) -> Option<Cow<'_, str>> {
        let parts = [&self.namespace, &self.subsystem, &self.name].into_iter().flatten();
        let parts: Option<Vec<&str>> = parts.map(|part| part.value.as_deref()).collect();
        Some(parts?.join("_")).filter(|name| !name.is_empty()).map(Cow::Owned)
    }

    fn given_name(&self) -> Option<&Field<String>> {
        self.name.as_deref()
    }
}

impl RawCommand {
    /// The first word.
    fn program(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Line(line) => words::split(line).ok()?.into_iter().next().map(Cow::Owned),
            Self::Words(words) => words.first().map(|word| word.0.as_str().into()),
        }
    }

    /// The whole command as one text.
    fn line(&self) -> String {
        match self {
            Self::Line(line) => line.trim().to_owned(),
            Self::Words(words) => words.iter().map(|word| word.0.as_str()).collect::<Vec<_>>().join(" "),
        }
    }
}

/// Puts the second configuration on top of the first.
#[must_use]
pub fn merge(first: Merged, second: Merged) -> Merged {
    let mut shadowed = first.shadowed;
    shadowed.extend(second.shadowed);
    let (a, b) = (first.config, second.config);
    let config = RawConfig {
        // Each file has its own, for editors.
        schema: b.schema.or(a.schema),
        consul: replace("consul", a.consul, b.consul, &mut shadowed),
        logging: replace("logging", a.logging, b.logging, &mut shadowed),
        jobs: unite(a.jobs, b.jobs, &mut shadowed),
        coprocesses: unite(a.coprocesses, b.coprocesses, &mut shadowed),
        groups: unite(a.groups, b.groups, &mut shadowed),
        watches: unite(a.watches, b.watches, &mut shadowed),
        control: replace("control", a.control, b.control, &mut shadowed),
        telemetry: merge_telemetry(a.telemetry, b.telemetry, &mut shadowed),
        stop_timeout: replace("stopTimeout", a.stop_timeout, b.stop_timeout, &mut shadowed),
        shutdown_signals: replace("shutdownSignals", a.shutdown_signals, b.shutdown_signals, &mut shadowed),
        env: replace("env", a.env, b.env, &mut shadowed),
    };
    shadowed.sort();
    Merged { config, shadowed }
}

fn merge_telemetry(
    first: Opt<RawTelemetry>,
    second: Opt<RawTelemetry>,
    shadowed: &mut Vec<Shadowed>,
) -> Opt<RawTelemetry> {
    let (mut first, second) = match (first, second) {
        (Some(first), Some(second)) => (first, second),
        (first, second) => return second.or(first),
    };
    first.value = match (first.value, second.value) {
        (Some(a), Some(b)) => Some(RawTelemetry {
            port: replace("telemetry.port", a.port, b.port, shadowed),
            interfaces: replace("telemetry.interfaces", a.interfaces, b.interfaces, shadowed),
            tags: replace("telemetry.tags", a.tags, b.tags, shadowed),
            page: replace("telemetry.page", a.page, b.page, shadowed),
            metrics: unite(a.metrics, b.metrics, shadowed),
        }),
        (a, b) => b.or(a),
    };
    Some(first)
}

fn replace<T>(what: &str, first: Opt<T>, second: Opt<T>, shadowed: &mut Vec<Shadowed>) -> Opt<T> {
    match (first, second) {
        (Some(first), Some(second)) => {
            shadowed.push(Shadowed { span: first.key, what: format!("`{what}`") });
            Some(second)
        }
        (first, second) => second.or(first),
    }
}

/// Entries keep the position of the first of their name and the value of the last.
fn unite<T: Named>(first: Opt<List<T>>, second: Opt<List<T>>, shadowed: &mut Vec<Shadowed>) -> Opt<List<T>> {
    let (mut first, second) = match (first, second) {
        (Some(first), Some(second)) => (first, second),
        (first, second) => return second.or(first),
    };
    let mut united: Vec<Field<T>> = Vec::new();
    let mut position: HashMap<String, usize> = HashMap::new();
    for entry in [first.value.take(), second.value].into_iter().flatten().flatten() {
        let name = entry.value.as_ref().and_then(Named::identity).map(Cow::into_owned);
        let earlier = name.as_ref().and_then(|name| position.get(name)).copied();
        match earlier.and_then(|index| united.get_mut(index)) {
            Some(earlier) => {
                let replaced = std::mem::replace(earlier, entry);
                shadowed.push(shadow(&replaced));
            }
            None => {
                position.extend(name.map(|name| (name, united.len())));
                united.push(entry);
            }
        }
    }
    first.value = Some(united);
    Some(first)
}

fn shadow<T: Named>(entry: &Field<T>) -> Shadowed {
    let value = entry.value.as_ref();
    let name = value.and_then(Named::identity).unwrap_or_default();
    let span = value.and_then(Named::name_span).unwrap_or(entry.span);
    Shadowed { span, what: format!("{} {name:?}", T::NOUN) }
}

/// Reports entries of one file that have the same name: there, nobody means to replace one.
pub fn report_duplicates(config: &RawConfig, problems: &mut Problems) {
    report_duplicate_entries(config.jobs.as_deref(), problems);
    report_duplicate_entries(config.coprocesses.as_deref(), problems);
    report_duplicate_entries(config.groups.as_deref(), problems);
    report_duplicate_entries(config.watches.as_deref(), problems);
    let telemetry = config.telemetry.as_ref().and_then(|telemetry| telemetry.value.as_ref());
    report_duplicate_entries(telemetry.and_then(|telemetry| telemetry.metrics.as_deref()), problems);
}

fn report_duplicate_entries<T: Named>(list: Option<&Field<List<T>>>, problems: &mut Problems) {
    let Some(list) = list.and_then(|list| list.value.as_ref()) else { return };
    let mut first: HashMap<Cow<'_, str>, Use> = HashMap::with_capacity(list.len());
    for entry in list {
        let Some(value) = &entry.value else { continue };
        let Some(name) = value.identity() else { continue };
        let here = Use::of(entry.span, value);
        match first.entry(name) {
            Entry::Occupied(earlier) => {
                problems.add(duplicate_name(T::NOUN, earlier.key(), here, *earlier.get()));
            }
            Entry::Vacant(place) => {
                place.insert(here);
            }
        }
    }
}

/// Where a name is used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    /// The name, or what it is taken from.
    pub(super) span: Span,
    /// Whether somebody wrote it.
    is_given: bool,
}

impl Use {
    pub(super) fn of(entry: Span, value: &impl Named) -> Self {
        let given = value.name_span();
        Self { span: given.unwrap_or(entry), is_given: given.is_some() }
    }
}

/// Two things of one name.
pub(super) fn duplicate_name(noun: &str, name: &str, here: Use, earlier: Use) -> Problem {
    let problem = Problem::error("duplicate-name", here.span, format!("duplicate {noun} {name:?}"))
        .label("used again here")
        .related(earlier.span, "first used here");
    match noun {
        "watch" => problem.help("give one of them another name with `as`"),
        _ if !(here.is_given && earlier.is_given) => problem.help("give one of them a `name`"),
        _ => problem,
    }
}

#[cfg(test)]
mod tests;
