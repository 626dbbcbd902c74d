//! TLS settings of a client: whom to trust, who we are.

use std::path::PathBuf;

use super::MentionedFile;
use super::context::{Context, value};
use crate::config::diagnostic::{Place, Problem};
use crate::config::raw::{Opt, RawTls};
use crate::config::spec::TlsSpec;

/// Validates the settings. Those of Consul are overridden by the environment variables of its own tools.
pub(super) fn validate(context: &mut Context<'_>, raw: &RawTls, is_consul: bool) -> Option<TlsSpec> {
    let ca_file = file(context, &raw.cafile, is_consul, "CONSUL_CACERT");
    let ca_path = file(context, &raw.capath, is_consul, "CONSUL_CAPATH");
    let client_cert = file(context, &raw.clientcert, is_consul, "CONSUL_CLIENT_CERT");
    let client_key = file(context, &raw.clientkey, is_consul, "CONSUL_CLIENT_KEY");
    if client_cert.is_some() != client_key.is_some() {
        let given = raw.clientcert.as_ref().or(raw.clientkey.as_ref());
        let place = given.map_or(Place::Nowhere, |field| field.key.into());
        let message = ": a certificate and its key go together: expected both `clientcert` and `clientkey`";
        context.error("incomplete-tls", place, message);
    }
    let server_name =
        variable(context, is_consul, "CONSUL_TLS_SERVER_NAME").or_else(|| value(&raw.servername).cloned());
    let verify = match variable(context, is_consul, "CONSUL_HTTP_SSL_VERIFY") {
        Some(text) => verify_by_variable(context, &text.to_ascii_lowercase())?,
        None => value(&raw.verify).is_none_or(|verify| verify.0),
    };
    Some(TlsSpec { ca_file, ca_path, client_cert, client_key, server_name, verify })
}

fn variable(context: &Context<'_>, is_consul: bool, name: &str) -> Option<String> {
    if is_consul { context.variable(name) } else { None }
}

fn file(context: &mut Context<'_>, field: &Opt<String>, is_consul: bool, name: &str) -> Option<PathBuf> {
    if let Some(path) = variable(context, is_consul, name) {
        let (of, path) = (format!("environment variable {name}"), PathBuf::from(path));
        context.places.files.push(MentionedFile { of, place: Place::Nowhere, path: path.clone() });
        return Some(path);
    }
    let field = field.as_ref()?;
    let path = PathBuf::from(field.value.as_ref()?);
    let of = context.path.clone();
    context.places.files.push(MentionedFile { of, place: field.span.into(), path: path.clone() });
    Some(path)
}

fn verify_by_variable(context: &mut Context<'_>, text: &str) -> Option<bool> {
    match text {
        // The same words as in Go's `strconv.ParseBool`, and so in Consul's own tools.
        "1" | "t" | "true" => Some(true),
        "0" | "f" | "false" => Some(false),
        other => {
            let message = format!(
                "environment variable CONSUL_HTTP_SSL_VERIFY: expected \"true\" or \"false\", found {other:?}"
            );
            context.problems.add(Problem::error("bad-variable", Place::Nowhere, message));
            None
        }
    }
}
