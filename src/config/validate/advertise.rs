//! How a job appears in Consul, and the address that `interfaces` choose.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::context::{Context, is_set, items, key, time, value};
use super::health::Health;
use crate::config::diagnostic::Problem;
use crate::config::interfaces::{self, Selector};
use crate::config::raw::{Dictionary, OneOrMany, Opt, RawJob, Scalar};
use crate::config::source::Span;
use crate::config::spec::AdvertiseSpec;

/// How many entries Consul takes of the `meta` of a service.
const MOST_META: usize = 64;

/// How many bytes Consul takes of a key in `meta`.
const LONGEST_META_KEY: usize = 128;

/// How many bytes Consul takes of a value in `meta`.
const LONGEST_META_VALUE: usize = 512;

/// The registration of a job that has a port; a job without one must not ask for any.
pub(super) fn validate(context: &mut Context<'_>, job: &RawJob, health: &Health) -> Option<AdvertiseSpec> {
    let selectors = selectors(context, &job.interfaces);
    let Some(port) = job.port.as_ref().filter(|port| port.value.is_none_or(|port| port.0 != 0)) else {
        // ContainerPilot ignores these settings too, but says nothing.
        let unused = [
            ("tags", key(&job.tags)),
            ("meta", key(&job.meta)),
            ("interfaces", key(&job.interfaces)),
            ("initial_status", key(&job.initial_status)),
            ("consul", key(&job.consul)),
        ];
        context.no_effect(&unused, "without `port`");
        return None;
    };
    if job.health.is_none() && job.ready.is_none() {
        context.add(
            Problem::error(
                "port-without-health",
                port.key,
                ".port: an advertised job needs `health` or `ready`",
            )
            .help("add a check such as `health: {tcp: \"127.0.0.1:80\"}`, or remove `port`"),
        );
    }
    let selectors = selectors?;
    let address = match &job.interfaces {
        Some(interfaces) => address(context, interfaces.span, &selectors)?,
        None if context.has_consul => address(context, port.span, &selectors)?,
        // Nobody asked for this address, and nobody will be told.
        None => {
            interfaces::resolve(&selectors, context.system.addresses()).unwrap_or(Ipv4Addr::LOCALHOST.into())
        }
    };
    let consul = value(&job.consul);
    Some(AdvertiseSpec {
        port: port.value?.0,
        address,
        tags: strings(&job.tags),
        meta: meta(context, &job.meta),
        initial_status: value(&job.initial_status).copied(),
        heartbeat: health.heartbeat.unwrap_or(Duration::from_secs(5)),
        ttl: health.ttl.unwrap_or(Duration::from_secs(15)),
        enable_tag_override: consul.is_some_and(|consul| is_set(&consul.enable_tag_override)),
        deregister_critical_after: consul.and_then(|consul| time(&consul.deregister_critical_service_after)),
    })
}

/// The metadata of the service. Reports what Consul would refuse, and the whole registration with it.
fn meta(context: &mut Context<'_>, field: &Opt<Dictionary<Scalar>>) -> Vec<(String, String)> {
    let Some(field) = field else { return Vec::new() };
    let entries = field.value.as_ref().map_or(&[][..], |map| &map.0);
    if entries.len() > MOST_META {
        let message =
            format!(".meta: Consul takes at most {MOST_META} entries of a service, found {}", entries.len());
        context.error("bad-meta", field.span, message);
    }
    let mut meta = Vec::new();
    for (key, entry) in entries {
        if let Some(why) = refused_key(key) {
            context.error("bad-meta", entry.key, format!(".meta: Consul refuses the key {key:?}: {why}"));
        }
        let Some(Scalar(text)) = &entry.value else { continue };
        if text.len() > LONGEST_META_VALUE {
            let message = format!(
                ".meta.{key}: Consul takes at most {LONGEST_META_VALUE} bytes of a value, found {}",
                text.len()
            );
            context.error("bad-meta", entry.span, message);
        }
        meta.push((key.clone(), text.clone()));
    }
    meta
}

/// Why Consul refuses a key of `meta`, if so.
fn refused_key(key: &str) -> Option<&'static str> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if key.is_empty() || key.len() > LONGEST_META_KEY || !key.bytes().all(is_allowed) {
        Some("a key has 1 to 128 letters without accents, digits, `_` and `-`")
    } else if key.starts_with("consul-") {
        Some("keys that start with `consul-` are reserved for Consul itself")
    } else {
        None
    }
}

/// What `interfaces` ask for; `None` after a problem was reported.
pub(super) fn selectors(context: &mut Context<'_>, field: &Opt<OneOrMany<String>>) -> Option<Vec<Selector>> {
    let Some(field) = field else { return Some(interfaces::default_selectors()) };
    let items = field.value.as_ref()?.0.iter();
    let parsed: Vec<Option<Selector>> = items
        .map(|item| {
            let selector = Selector::parse(item.value.as_ref()?);
            context.accept(
                "bad-interface",
                item.span,
                selector.map_err(|reason| format!(".interfaces: {reason}")),
            )
        })
        .collect();
    let selectors: Vec<Selector> = parsed.into_iter().collect::<Option<_>>()?;
    Some(if selectors.is_empty() { interfaces::default_selectors() } else { selectors })
}

/// The address that the first matching selector chooses.
pub(super) fn address(context: &mut Context<'_>, place: Span, selectors: &[Selector]) -> Option<IpAddr> {
    let chosen = interfaces::resolve(selectors, context.system.addresses());
    context.accept("no-interface", place, chosen.map_err(|reason| format!(".interfaces: {reason}")))
}

pub(super) fn strings(field: &Opt<OneOrMany<Scalar>>) -> Vec<String> {
    items(field).iter().filter_map(|item| item.value.as_ref().map(|text| text.0.clone())).collect()
}
