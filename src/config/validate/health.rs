//! Health checks, and the times that they give to a registration in Consul.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::context::{Context, given, is_set, key, span, value};
use super::{address, command, tls};
use crate::config::diagnostic::Problem;
use crate::config::raw::{Field, OneOrMany, Opt, RawCheck, RawHttp, RawHttpRequest, RawOutput, RawTls};
use crate::config::source::Span;
use crate::config::spec::{CheckSpec, HttpProbe, Probe};

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
    /// The setting that decides the time-to-live.
    pub(super) ttl_span: Option<Span>,
    /// The commands of the checks, for the lints.
    pub(super) commands: Vec<Option<Span>>,
}

pub(super) fn validate(context: &mut Context<'_>, field: &Opt<OneOrMany<RawCheck>>) -> Health {
    let mut health = Health::default();
    let Some((field, OneOrMany(checks))) = field.as_ref().zip(value(field)) else { return health };
    if checks.is_empty() {
        context.error("no-checks", field.span, ".health: expected at least one health check, found none");
    }
    let mut names = given_names(context, checks);
    for (position, check) in checks.iter().enumerate() {
        let Some(raw) = &check.value else { continue };
        let name = name(&mut names, position, raw);
        let index = if checks.len() > 1 { format!("[{}]", check.index) } else { String::new() };
        context.within(format_args!(".health{index}"), |context| health.add(context, check.span, raw, name));
    }
    health
}

impl Health {
    fn add(&mut self, context: &mut Context<'_>, place: Span, raw: &RawCheck, name: Arc<str>) {
        let probe = probe(context, raw);
        let interval = context.at_least_1ms("interval", &raw.interval).unwrap_or(DEFAULT_INTERVAL);
        let timeout = context.at_least_1ms("timeout", &raw.timeout).unwrap_or(interval);
        let heartbeat = context.at_least_1ms("heartbeat", &raw.heartbeat).unwrap_or(interval);
        let ttl = context.at_least_1ms("ttl", &raw.ttl).unwrap_or_else(|| interval.saturating_mul(3));
        self.heartbeat = Some(self.heartbeat.map_or(heartbeat, |other| other.min(heartbeat)));
        if self.ttl.is_none_or(|other| ttl < other) {
            self.ttl = Some(ttl);
            self.ttl_span = Some(span(&raw.ttl).unwrap_or(place));
        }
        let Some(probe) = probe else { return };
        self.commands.push(span(&raw.exec));
        self.checks.push(CheckSpec {
            name,
            probe,
            interval,
            timeout,
            failures: value(&raw.failures).and_then(|count| u32::try_from(count.0).ok()).unwrap_or(1),
            raw_output: raw_output(&raw.logging),
        });
    }
}

/// Whether a process inherits our own output.
fn raw_output(logging: &Opt<RawOutput>) -> bool {
    value(logging).is_some_and(|logging| is_set(&logging.raw))
}

fn probe(context: &mut Context<'_>, raw: &RawCheck) -> Option<Probe> {
    let given = given(&[("exec", key(&raw.exec)), ("http", key(&raw.http)), ("tcp", key(&raw.tcp))]);
    if let [(first, _), (second, span), ..] = given.as_slice() {
        let message =
            format!(": expected at most one of `exec`, `http`, `tcp`, found `{first}` and `{second}`");
        let problem = Problem::error("check-conflict", *span, message);
        return context.reject(problem.help("`health` may be an array of several checks"));
    }
    if let Some(exec) = &raw.exec {
        command::validate(context, "exec", exec).map(|command| Probe::Exec(command.into()))
    } else if let Some(request) = &raw.http {
        context.within(".http", |context| http(context, request)).map(|probe| Probe::Http(probe.into()))
    } else if let Some(address) = &raw.tcp {
        tcp(context, address).map(|address| Probe::Tcp(address.into()))
    } else {
        // ContainerPilot heartbeats for such a job.
        Some(Probe::Running)
    }
}

fn tcp<'a>(context: &mut Context<'_>, field: &'a Field<String>) -> Option<&'a str> {
    let text = field.value.as_ref()?;
    let reason = match address::host_and_port(text) {
        Ok((_, Some(_))) => return Some(text),
        Ok((_, None)) => "the port is missing".to_owned(),
        Err(reason) => reason,
    };
    let message = format!(".tcp: expected an address such as \"127.0.0.1:5432\", found {text:?}: {reason}");
    context.refuse("bad-address", field.span, message)
}

fn http(context: &mut Context<'_>, field: &Field<RawHttp>) -> Option<HttpProbe> {
    let plain = RawHttpRequest::default();
    let (raw, url) = match field.value.as_ref()? {
        RawHttp::Url(url) => (&plain, checked_url(context, "", field.span, url)),
        RawHttp::Request(raw) => {
            let url = match &raw.url {
                Some(url) => url.value.as_ref().and_then(|text| checked_url(context, ".url", url.span, text)),
                None => context.refuse("missing-url", field.span, ": expected a `url`"),
            };
            (raw.as_ref(), url)
        }
    };
    let method = raw.method.as_ref().map_or(Some("GET".to_owned()), |field| method(context, field));
    if let Some(contains) = raw.contains.as_ref().filter(|_| method.as_deref() == Some("HEAD")) {
        let message = ".contains: the response to a HEAD request has no body";
        let problem = Problem::error("check-conflict", contains.key, message);
        context.add(problem.help("leave `method` out, or `contains`"));
    }
    let headers = headers(context, raw);
    let no_tls = RawTls::default();
    let tls = value(&raw.tls).unwrap_or(&no_tls);
    let tls = context.within(".tls", |context| tls::validate(context, tls, false));
    Some(HttpProbe {
        url: url?,
        method: method?,
        status: value(&raw.status).and_then(|status| u16::try_from(status.0).ok()),
        headers: headers?,
        contains: value(&raw.contains).cloned(),
        tls: tls?,
    })
}

fn checked_url(context: &mut Context<'_>, name: &str, span: Span, url: &str) -> Option<String> {
    let checked = address::check_url(url).map(|()| url.to_owned());
    // A query may hold a token.
    let shown = url.split('?').next().unwrap_or_default();
    context.accept(
        "bad-url",
        span,
        checked.map_err(|reason| format!("{name}: {shown:?} is not a URL: {reason}")),
    )
}

fn method(context: &mut Context<'_>, field: &Field<String>) -> Option<String> {
    let text = field.value.as_ref()?;
    if text.is_empty() || !text.bytes().all(|letter| letter.is_ascii_alphabetic()) {
        let message = format!(".method: expected a method such as \"GET\" or \"HEAD\", found {text:?}");
        return context.refuse("bad-method", field.span, message);
    }
    Some(text.to_ascii_uppercase())
}

fn headers(context: &mut Context<'_>, raw: &RawHttpRequest) -> Option<Vec<(String, String)>> {
    let Some(field) = &raw.headers else { return Some(Vec::new()) };
    let mut headers = Vec::new();
    for (name, value) in &field.value.as_ref()?.0 {
        let Some(text) = value.value.as_ref().map(|text| text.0.as_str()) else { continue };
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            context.error("bad-header", value.key, format!(".headers: {name:?} is not a header name"));
        } else if text.contains(|character: char| character.is_control() && character != '\t') {
            let message = format!(".headers.{name}: a header cannot contain control characters");
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

/// The names that are given to a job's checks.
fn given_names(context: &mut Context<'_>, checks: &[Field<RawCheck>]) -> HashSet<String> {
    let mut taken = HashSet::new();
    for field in checks.iter().filter_map(|check| check.value.as_ref()?.name.as_ref()) {
        let Some(name) = &field.value else { continue };
        if !taken.insert(name.clone()) {
            context.error("duplicate-name", field.span, format!(".health: duplicate health check {name:?}"));
        }
    }
    taken
}

/// The name of a check: as given, else `check`, `check-2` and so on.
fn name(taken: &mut HashSet<String>, position: usize, raw: &RawCheck) -> Arc<str> {
    if let Some(name) = value(&raw.name) {
        return name.as_str().into();
    }
    let numbered = |number| if number == 1 { "check".to_owned() } else { format!("check-{number}") };
    let mut names = (position + 1..).map(numbered);
    names.find(|name| taken.insert(name.clone())).unwrap_or_default().into()
}
