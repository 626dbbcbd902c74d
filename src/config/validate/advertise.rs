//! How a job appears in Consul, and the address that `interfaces` choose.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::context::{Context, time, value};
use super::health::Health;
use crate::config::diagnostic::Problem;
use crate::config::interfaces::{self, Selector};
use crate::config::raw::{Dictionary, Field, Flag, OneOrMany, Opt, RawInitialStatus, RawJob, Scalar};
use crate::config::source::Span;
use crate::config::spec::{AdvertiseSpec, InitialStatus};

/// The registration of a job that has a port; a job without one must not ask for any.
pub(super) fn validate(
    context: &mut Context<'_>,
    path: &dyn Display,
    job: &RawJob,
    health: &Health,
) -> Option<AdvertiseSpec> {
    let selectors = selectors(context, path, job.interfaces.as_deref());
    let port_field = job.port.as_ref().filter(|port| port.value.is_none_or(|port| port.0 != 0));
    let Some(port) = port_field else {
        warn_of_unused(context, path, job);
        return None;
    };
    if job.health.is_none() {
        let message = format!("{path}.port: an advertised job needs `health`");
        context.add(
            Problem::error("port-without-health", port.key, message)
                .help("add a check such as `health: {tcp: \"127.0.0.1:80\"}`, or remove `port`"),
        );
    }
    let selectors = selectors?;
    let address = match &job.interfaces {
        Some(interfaces) => address(context, path, interfaces.span, &selectors)?,
        None if context.has_consul => address(context, path, port.span, &selectors)?,
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
        meta: entries(&job.meta),
        initial_status: value(&job.initial_status).map(|status| match status {
            RawInitialStatus::Passing => InitialStatus::Passing,
            RawInitialStatus::Warning => InitialStatus::Warning,
            RawInitialStatus::Critical => InitialStatus::Critical,
        }),
        heartbeat: health.heartbeat.unwrap_or(Duration::from_secs(5)),
        ttl: health.ttl.unwrap_or(Duration::from_secs(15)),
        enable_tag_override: consul
            .is_some_and(|consul| matches!(value(&consul.enable_tag_override), Some(Flag(true)))),
        deregister_critical_after: consul.and_then(|consul| time(&consul.deregister_critical_service_after)),
    })
}

/// ContainerPilot ignores these settings too, but says nothing.
fn warn_of_unused(context: &mut Context<'_>, path: &dyn Display, job: &RawJob) {
    let unused = [
        ("tags", job.tags.as_ref().map(|field| field.key)),
        ("meta", job.meta.as_ref().map(|field| field.key)),
        ("interfaces", job.interfaces.as_ref().map(|field| field.key)),
        ("initial_status", job.initial_status.as_ref().map(|field| field.key)),
        ("consul", job.consul.as_ref().map(|field| field.key)),
    ];
    for (name, span) in unused {
        if let Some(span) = span {
            let message = format!("{path}.{name} has no effect without `port`");
            context.add(Problem::warning("no-effect", span, message));
        }
    }
}

/// What `interfaces` ask for; `None` after a problem was reported.
pub(super) fn selectors(
    context: &mut Context<'_>,
    path: &dyn Display,
    field: Option<&Field<OneOrMany<String>>>,
) -> Option<Vec<Selector>> {
    let Some(field) = field else { return Some(interfaces::default_selectors()) };
    let mut selectors = Some(Vec::new());
    for item in &field.value.as_ref()?.0 {
        match item.value.as_ref().map(|text| Selector::parse(text)) {
            Some(Ok(selector)) => {
                if let Some(selectors) = &mut selectors {
                    selectors.push(selector);
                }
            }
            Some(Err(reason)) => {
                context.error("bad-interface", item.span, format!("{path}.interfaces: {reason}"));
                selectors = None;
            }
            None => selectors = None,
        }
    }
    selectors.map(|list| if list.is_empty() { interfaces::default_selectors() } else { list })
}

/// The address that the first matching selector chooses.
pub(super) fn address(
    context: &mut Context<'_>,
    path: &dyn Display,
    place: Span,
    selectors: &[Selector],
) -> Option<IpAddr> {
    match interfaces::resolve(selectors, context.system.addresses()) {
        Ok(address) => Some(address),
        Err(reason) => {
            context.error("no-interface", place, format!("{path}.interfaces: {reason}"));
            None
        }
    }
}

pub(super) fn strings(field: &Opt<OneOrMany<Scalar>>) -> Vec<String> {
    value(field)
        .into_iter()
        .flat_map(|list| &list.0)
        .filter_map(|item| item.value.as_ref().map(|text| text.0.clone()))
        .collect()
}

fn entries(field: &Opt<Dictionary<Scalar>>) -> Vec<(String, String)> {
    value(field)
        .into_iter()
        .flat_map(|map| &map.0)
        .filter_map(|(key, value)| Some((key.clone(), value.value.as_ref()?.0.clone())))
        .collect()
}
