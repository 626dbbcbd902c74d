//! Health checks, and the times that they give to a registration in Consul.

use std::collections::HashSet;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use super::context::{Context, value};
use super::tls::{self, Overrides};
use super::{Places, address, command};
use crate::config::diagnostic::Problem;
use crate::config::raw::{Field, Flag, OneOrMany, RawCheck, RawHttp, RawHttpRequest, RawOutput, RawTls};
use crate::config::source::Span;
use crate::config::spec::{CheckSpec, HttpProbe, Probe, TlsSpec};

/// Time between tries if none is given.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);

/// All checks of a job.
#[derive(Debug, Default)]
pub(super) struct Health {
    pub(super) checks: Vec<CheckSpec>,
    /// The shortest time between heartbeats that a check asks for.
    pub(super) heartbeat: Option<Duration>,
    /// The shortest time-to-live that a check asks for.
    pub(super) ttl: Option<Duration>,
    /// What decides the time-to-live.
    pub(super) ttl_span: Option<Span>,
    /// The commands of the checks, for the lints.
    pub(super) commands: Vec<Option<Span>>,
}

/// Validates the checks of a job.
pub(super) fn validate(
    context: &mut Context<'_>,
    path: &dyn Display,
    field: &Field<OneOrMany<RawCheck>>,
    places: &mut Places,
) -> Health {
    let mut health = Health::default();
    let Some(OneOrMany(checks)) = &field.value else { return health };
    if checks.is_empty() {
        let message = format!("{path}.health: expected at least one health check, found none");
        context.error("no-checks", field.span, message);
    }
    let mut names = Names::new(context, path, checks);
    for (position, check) in checks.iter().enumerate() {
        let path = if checks.len() > 1 {
            format!("{path}.health[{}]", check.index)
        } else {
            format!("{path}.health")
        };
        let Some(raw) = &check.value else { continue };
        let name = names.name(position, raw);
        health.add((&mut *context, &mut *places), &path, check, raw, name);
    }
    health
}

impl Health {
    fn add(
        &mut self,
        (context, places): (&mut Context<'_>, &mut Places),
        path: &str,
        field: &Field<RawCheck>,
        raw: &RawCheck,
        name: Arc<str>,
    ) {
        let probe = probe(context, path, raw, places);
        let mut at_least_1ms = |name: &str, field| context.at_least_1ms(format_args!("{path}.{name}"), field);
        let interval = at_least_1ms("interval", raw.interval.as_deref()).unwrap_or(DEFAULT_INTERVAL);
        let timeout = at_least_1ms("timeout", raw.timeout.as_deref()).unwrap_or(interval);
        let heartbeat = at_least_1ms("heartbeat", raw.heartbeat.as_deref()).unwrap_or(interval);
        let ttl = at_least_1ms("ttl", raw.ttl.as_deref()).unwrap_or_else(|| interval.saturating_mul(3));
        self.heartbeat = Some(self.heartbeat.map_or(heartbeat, |other| other.min(heartbeat)));
        if self.ttl.is_none_or(|other| ttl < other) {
            self.ttl = Some(ttl);
            self.ttl_span = Some(raw.ttl.as_ref().map_or(field.span, |ttl| ttl.span));
        }
        let Some(probe) = probe else { return };
        self.commands.push(raw.exec.as_ref().map(|exec| exec.span));
        self.checks.push(CheckSpec {
            name,
            probe,
            interval,
            timeout,
            failures: value(&raw.failures).and_then(|count| u32::try_from(count.0).ok()).unwrap_or(1),
            raw_output: raw_output(raw.logging.as_deref()),
        });
    }
}

/// Whether a process inherits our own output.
pub(super) fn raw_output(logging: Option<&Field<RawOutput>>) -> bool {
    let raw = logging.and_then(|logging| value(&logging.value.as_ref()?.raw));
    matches!(raw, Some(Flag(true)))
}

fn probe(context: &mut Context<'_>, path: &str, raw: &RawCheck, places: &mut Places) -> Option<Probe> {
    let mut given: Vec<(&str, Span)> = [
        ("exec", raw.exec.as_ref().map(|field| field.key)),
        ("http", raw.http.as_ref().map(|field| field.key)),
        ("tcp", raw.tcp.as_ref().map(|field| field.key)),
    ]
    .into_iter()
    .filter_map(|(name, span)| Some((name, span?)))
    .collect();
    given.sort_by_key(|(_, span)| span.start);
    match given.as_slice() {
        // ContainerPilot heartbeats for such a job.
        [] => Some(Probe::Running),
        [(first, _), (second, span), ..] => {
            let message = format!(
                "{path}: expected at most one of `exec`, `http`, `tcp`, found `{first}` and `{second}`"
            );
            context.add(
                Problem::error("check-conflict", *span, message)
                    .help("`health` may be an array of several checks"),
            );
            None
        }
        [("exec", _)] => {
            let command = command::validate(context, format_args!("{path}.exec"), raw.exec.as_ref()?)?;
            Some(Probe::Exec(command.into()))
        }
        [("http", _)] => http(context, &format!("{path}.http"), raw.http.as_ref()?, places)
            .map(|probe| Probe::Http(probe.into())),
        [_] => tcp(context, format_args!("{path}.tcp"), raw.tcp.as_ref()?)
            .map(|address| Probe::Tcp(address.into())),
    }
}

fn tcp(context: &mut Context<'_>, path: fmt::Arguments<'_>, field: &Field<String>) -> Option<String> {
    let text = field.value.as_ref()?;
    let reason = match address::host_and_port(text) {
        Ok((_, Some(_))) => return Some(text.clone()),
        Ok((_, None)) => "the port is missing".to_owned(),
        Err(reason) => reason,
    };
    let message = format!("{path}: expected an address such as \"127.0.0.1:5432\", found {text:?}: {reason}");
    context.error("bad-address", field.span, message);
    None
}

fn http(
    context: &mut Context<'_>,
    path: &str,
    field: &Field<RawHttp>,
    places: &mut Places,
) -> Option<HttpProbe> {
    match field.value.as_ref()? {
        RawHttp::Url(url) => Some(HttpProbe {
            url: checked_url(context, format_args!("{path}"), field.span, url)?,
            method: "GET".to_owned(),
            status: None,
            headers: Vec::new(),
            contains: None,
            tls: tls(context, path, &RawTls::default(), places)?,
        }),
        RawHttp::Request(request) => http_request(context, path, field.span, request, places),
    }
}

fn tls(context: &mut Context<'_>, path: &str, raw: &RawTls, places: &mut Places) -> Option<TlsSpec> {
    tls::validate(context, &format!("{path}.tls"), raw, Overrides::None, places)
}

fn http_request(
    context: &mut Context<'_>,
    path: &str,
    span: Span,
    raw: &RawHttpRequest,
    places: &mut Places,
) -> Option<HttpProbe> {
    let url = match &raw.url {
        Some(url) => url
            .value
            .as_ref()
            .and_then(|text| checked_url(context, format_args!("{path}.url"), url.span, text)),
        None => {
            context.error("missing-url", span, format!("{path}: expected a `url`"));
            None
        }
    };
    let method = match &raw.method {
        Some(field) => method(context, path, field),
        None => Some("GET".to_owned()),
    };
    let headers = headers(context, path, raw);
    let tls = tls(context, path, value(&raw.tls).unwrap_or(&RawTls::default()), places);
    Some(HttpProbe {
        url: url?,
        method: method?,
        status: value(&raw.status).and_then(|status| u16::try_from(status.0).ok()),
        headers: headers?,
        contains: value(&raw.contains).cloned(),
        tls: tls?,
    })
}

fn checked_url(context: &mut Context<'_>, path: fmt::Arguments<'_>, span: Span, url: &str) -> Option<String> {
    match address::check_url(url) {
        Ok(()) => Some(url.to_owned()),
        Err(reason) => {
            context.error("bad-url", span, format!("{path}: {url:?} is not a URL: {reason}"));
            None
        }
    }
}

fn method(context: &mut Context<'_>, path: &str, field: &Field<String>) -> Option<String> {
    let text = field.value.as_ref()?;
    if text.is_empty() || !text.bytes().all(|letter| letter.is_ascii_alphabetic()) {
        let message = format!("{path}.method: expected a method such as \"GET\" or \"HEAD\", found {text:?}");
        context.error("bad-method", field.span, message);
        return None;
    }
    Some(text.to_ascii_uppercase())
}

fn headers(context: &mut Context<'_>, path: &str, raw: &RawHttpRequest) -> Option<Vec<(String, String)>> {
    let Some(field) = &raw.headers else { return Some(Vec::new()) };
    let mut headers = Vec::new();
    for (name, value) in &field.value.as_ref()?.0 {
        let Some(text) = value.value.as_ref().map(|text| text.0.as_str()) else { continue };
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            let message = format!("{path}.headers: {name:?} is not a header name");
            context.error("bad-header", value.key, message);
        } else if text.contains(|character: char| character.is_control() && character != '\t') {
            let message = format!("{path}.headers.{name}: a header cannot contain control characters");
            context.error("bad-header", value.span, message);
        } else {
            headers.push((name.clone(), text.to_owned()));
        }
    }
    Some(headers)
}

/// The characters of header names (RFC 9110, `tchar`).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Names of a job's checks: as given, else `check`, `check-2` and so on.
struct Names {
    taken: HashSet<String>,
}

impl Names {
    fn new(context: &mut Context<'_>, path: &dyn Display, checks: &[Field<RawCheck>]) -> Self {
        let mut taken = HashSet::new();
        let given = checks.iter().filter_map(|check| check.value.as_ref()?.name.as_ref());
        for field in given {
            let Some(name) = &field.value else { continue };
            if !taken.insert(name.clone()) {
                let message = format!("{path}.health: duplicate health check {name:?}");
                context.error("duplicate-name", field.span, message);
            }
        }
        Self { taken }
    }

    fn name(&mut self, position: usize, raw: &RawCheck) -> Arc<str> {
        if let Some(name) = value(&raw.name) {
            return name.as_str().into();
        }
        let mut number = position + 1;
        loop {
            let name = if number == 1 { "check".to_owned() } else { format!("check-{number}") };
            if self.taken.insert(name.clone()) {
                return name.into();
            }
            number += 1;
        }
    }
}
