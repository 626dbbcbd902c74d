//! How to reach Consul: the configuration, and the environment variables that override it.

use std::path::PathBuf;

use super::address::{host_and_port, strip_prefix_ignoring_case};
use super::context::{Context, value};
use super::tls;
use crate::config::diagnostic::{Place, Problem};
use crate::config::raw::{Opt, RawConsul, RawConsulSettings, RawScheme, RawTls};
use crate::config::spec::{ConsulAddress, ConsulSpec, Secret};

/// Where Consul's own tools look for it.
const DEFAULT_ADDRESS: &str = "127.0.0.1:8500";

/// The settings of Consul; `None` if neither configuration nor environment asks for it.
pub(super) fn validate(context: &mut Context<'_>, field: &Opt<RawConsul>) -> Option<ConsulSpec> {
    let from_environment = context.variable("CONSUL_HTTP_ADDR");
    let default = RawConsulSettings::default();
    let (address, settings) = match field {
        None => (parse_variable(context, &from_environment?, None), &default),
        Some(field) => match field.value.as_ref()? {
            // As Consul's own client, and ContainerPilot with it, does with an empty address.
            RawConsul::Address(text) if text.is_empty() => {
                (configured(context, &default, from_environment), &default)
            }
            RawConsul::Address(text) => (parse(context, field.span.into(), "consul", text, None), &default),
            RawConsul::Settings(settings) => {
                (configured(context, settings, from_environment), settings.as_ref())
            }
        },
    };
    let no_tls = RawTls::default();
    let tls = value(&settings.tls).unwrap_or(&no_tls);
    let tls = context.within("consul.tls", |context| tls::validate(context, tls, true));
    let token = token(context, settings);
    Some(ConsulSpec { address: address?, token, tls: tls? })
}

/// The ACL token, without the line end that it may have from a file. It is sent in a header, which takes nothing but
/// these characters; no message shows it.
fn token(context: &mut Context<'_>, settings: &RawConsulSettings) -> Option<Secret> {
    let from_environment = context.variable("CONSUL_HTTP_TOKEN").unwrap_or_default();
    let (name, place, token) = match (from_environment.trim(), &settings.token) {
        ("", None) => return None,
        ("", Some(field)) => ("consul.token", field.span.into(), field.value.as_ref()?.0.trim()),
        (token, _) => ("environment variable CONSUL_HTTP_TOKEN", Place::Nowhere, token),
    };
    if token.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Some(Secret::new(token.to_owned()));
    }
    let message = format!("{name}: a token has no control characters, and none beyond ASCII");
    context.error("bad-token", place, message);
    None
}

fn configured(
    context: &mut Context<'_>,
    settings: &RawConsulSettings,
    from_environment: Option<String>,
) -> Option<ConsulAddress> {
    let scheme = value(&settings.scheme).copied();
    match (&settings.address, from_environment) {
        (Some(field), _) => {
            parse(context, field.span.into(), "consul.address", field.value.as_ref()?, scheme)
        }
        (None, Some(text)) => parse_variable(context, &text, scheme),
        (None, None) => parse(context, Place::Nowhere, "consul.address", DEFAULT_ADDRESS, scheme),
    }
}

/// The variable may ask for TLS where the configuration does not, and never the other way round: the token would be sent as it is.
fn parse_variable(context: &mut Context<'_>, text: &str, scheme: Option<RawScheme>) -> Option<ConsulAddress> {
    let scheme = scheme.filter(|scheme| *scheme == RawScheme::Https);
    parse(context, Place::Nowhere, "environment variable CONSUL_HTTP_ADDR", text, scheme)
}

fn parse(
    context: &mut Context<'_>,
    place: Place,
    path: &str,
    text: &str,
    scheme: Option<RawScheme>,
) -> Option<ConsulAddress> {
    let (written, rest) = split_scheme(text);
    let lacks_host = rest.starts_with(':');
    let address = match (written, scheme) {
        (Some("unix"), _) if rest.starts_with('/') => return Some(ConsulAddress::Unix(PathBuf::from(rest))),
        (Some("unix"), _) => Err("expected an absolute path after `unix://`".to_owned()),
        (Some("http"), Some(RawScheme::Https)) | (Some("https"), Some(RawScheme::Http)) => {
            Err("`scheme` says otherwise".to_owned())
        }
        (Some("http"), _) => tcp(rest, false),
        (Some("https"), _) => tcp(rest, true),
        (Some(other), _) => Err(format!("expected `http`, `https` or `unix`, found {other:?}")),
        (None, scheme) => tcp(rest, scheme == Some(RawScheme::Https)),
    };
    let wrong = |reason: String| {
        let message = format!(
            "{path}: expected an address such as \"localhost:8500\", \"https://consul:8501\" or \
             \"unix:///run/consul.sock\", found {text:?}: {reason}"
        );
        context.error("bad-address", place, message);
    };
    let address = address.map_err(wrong).ok()?;
    if lacks_host {
        warn_of_missing_host(context, place, path, text);
    }
    Some(address)
}

/// Warns of an address that has only a port: Consul's own client looks for it at localhost then.
fn warn_of_missing_host(context: &mut Context<'_>, place: Place, path: &str, text: &str) {
    let message = format!("{path}: no host is given in {text:?}, so Consul is expected at localhost");
    context.add(
        Problem::warning("missing-host", place, message)
            .help("write the host too, or give a default for the variable that it comes from"),
    );
}

fn split_scheme(text: &str) -> (Option<&str>, &str) {
    for scheme in ["http", "https", "unix"] {
        if let Some(rest) = strip_prefix_ignoring_case(text, scheme).and_then(|rest| rest.strip_prefix("://"))
        {
            return (Some(scheme), rest);
        }
    }
    text.split_once("://").map_or((None, text), |(scheme, rest)| (Some(scheme), rest))
}

/// Without a port, that of the protocol: an address that leaves it out usually is a proxy's.
fn tcp(text: &str, tls: bool) -> Result<ConsulAddress, String> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let with_host = if text.starts_with(':') { format!("localhost{text}") } else { text.to_owned() };
    let (host, port) = host_and_port(&with_host)?;
    Ok(ConsulAddress::Tcp { tls, host, port: port.unwrap_or(if tls { 443 } else { 80 }) })
}
