//! Services and keys to observe in Consul.

use std::time::Duration;

use super::context::{Context, value};
use super::jobs::{check_service_name, entries, label};
use crate::config::merge::Named;
use crate::config::raw::{Field, List, Opt, RawWatch};
use crate::config::spec::{WatchSpec, WatchTarget};

/// How often to ask where blocking queries do not work, if nothing else is given.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);

pub(super) fn validate(context: &mut Context<'_>, field: &Opt<List<RawWatch>>) -> Vec<WatchSpec> {
    let mut watches = Vec::new();
    for (entry, raw) in entries(field) {
        let path = label("watches", entry.index, raw.identity().as_deref());
        if let Some(watch) = context.within(path, |context| watch(context, entry, raw)) {
            context.places.watches.push(raw.name_span().unwrap_or(entry.span));
            watches.push(watch);
        }
    }
    watches
}

fn watch(context: &mut Context<'_>, entry: &Field<RawWatch>, raw: &RawWatch) -> Option<WatchSpec> {
    if raw.name.is_none() {
        context.error("missing-name", entry.span, ": expected a `name`");
    }
    for name in [&raw.name, &raw.alias].into_iter().flatten() {
        check_service_name(context, name);
    }
    let target = target(context, raw);
    let interval = context.at_least_1ms("interval", &raw.interval);
    let name = raw.identity()?;
    Some(WatchSpec {
        after_coprocesses: context.after.is_watch_after_coprocesses(&name),
        name: name.into(),
        target: target?,
        interval: interval.unwrap_or(DEFAULT_INTERVAL),
        datacentre: value(&raw.dc).cloned(),
    })
}

fn target(context: &mut Context<'_>, raw: &RawWatch) -> Option<WatchTarget> {
    match (&raw.key, &raw.prefix) {
        (Some(_), Some(prefix)) => {
            let message = ": expected at most one of `key` and `prefix`, found both";
            context.refuse("watch-conflict", prefix.key, message)
        }
        (Some(field), None) => in_kv_store(context, raw, "key", field).map(WatchTarget::Key),
        (None, Some(field)) => in_kv_store(context, raw, "prefix", field).map(WatchTarget::Prefix),
        (None, None) => Some(WatchTarget::Service {
            service: value(&raw.name)?.clone(),
            tag: value(&raw.tag).map(|tag| tag.0.clone()),
        }),
    }
}

/// A key or a prefix of the KV store.
fn in_kv_store(
    context: &mut Context<'_>,
    raw: &RawWatch,
    name: &str,
    field: &Field<String>,
) -> Option<String> {
    if let Some(tag) = &raw.tag {
        context.error("watch-conflict", tag.key, ".tag: only services have tags, keys do not");
    }
    let text = field.value.clone()?;
    if text.is_empty() {
        return context.refuse("bad-key", field.span, format!(".{name}: expected a {name}, found \"\""));
    }
    Some(text)
}
