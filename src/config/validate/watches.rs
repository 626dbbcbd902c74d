//! Services and keys to observe in Consul.

use std::time::Duration;

use super::Places;
use super::context::{Context, value};
use super::jobs::{self, After};
use crate::config::merge::Named;
use crate::config::raw::{Field, List, RawWatch};
use crate::config::spec::{WatchSpec, WatchTarget};

/// How often to ask where blocking queries do not work, if nothing else is given.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);

/// Validates all watches.
pub(super) fn validate(
    context: &mut Context<'_>,
    field: Option<&Field<List<RawWatch>>>,
    at_start: &After,
    places: &mut Places,
) -> Vec<WatchSpec> {
    let mut watches = Vec::new();
    for entry in field.and_then(|field| field.value.as_ref()).into_iter().flat_map(|list| &list.0) {
        let Some(raw) = &entry.value else { continue };
        if let Some(watch) = watch(context, entry, raw, at_start) {
            places.watches.push(raw.name_span().unwrap_or(entry.span));
            watches.push(watch);
        }
    }
    watches
}

fn watch(
    context: &mut Context<'_>,
    entry: &Field<RawWatch>,
    raw: &RawWatch,
    at_start: &After,
) -> Option<WatchSpec> {
    let path = match raw.identity() {
        Some(name) => format!("watches[{}] ({name:?})", entry.index),
        None => format!("watches[{}]", entry.index),
    };
    if raw.name.is_none() {
        context.error("missing-name", entry.span, format!("{path}: expected a `name`"));
    }
    for name in [&raw.name, &raw.alias].into_iter().flatten() {
        jobs::check_service_name(context, &path, name);
    }
    let target = target(context, &path, raw);
    let interval = context.at_least_1ms(format_args!("{path}.interval"), raw.interval.as_deref());
    let name = raw.identity()?;
    Some(WatchSpec {
        begins: at_start.watch(&name),
        name: name.into(),
        target: target?,
        interval: interval.unwrap_or(DEFAULT_INTERVAL),
        datacentre: value(&raw.dc).cloned(),
    })
}

fn target(context: &mut Context<'_>, path: &str, raw: &RawWatch) -> Option<WatchTarget> {
    let tag = raw.tag.as_ref();
    match (&raw.key, &raw.prefix) {
        (Some(_), Some(prefix)) => {
            let message = format!("{path}: expected at most one of `key` and `prefix`, found both");
            context.error("watch-conflict", prefix.key, message);
            None
        }
        (Some(field), None) | (None, Some(field)) => {
            if let Some(tag) = tag {
                let message = format!("{path}.tag: only services have tags, keys do not");
                context.error("watch-conflict", tag.key, message);
            }
            let text = field.value.clone()?;
            Some(if raw.key.is_some() { WatchTarget::Key(text) } else { WatchTarget::Prefix(text) })
        }
        (None, None) => Some(WatchTarget::Service {
            service: value(&raw.name)?.clone(),
            tag: tag.and_then(|tag| tag.value.as_ref()).map(|tag| tag.0.clone()),
        }),
    }
}
