//! TLS settings of a client: whom to trust, who we are.

use std::path::PathBuf;

use super::context::{Context, value};
use super::{Places, TlsFile};
use crate::config::diagnostic::Place;
use crate::config::raw::{Opt, RawTls};
use crate::config::spec::TlsSpec;

/// The environment variables that override settings; none for most clients.
#[derive(Clone, Copy)]
pub(super) enum Overrides {
    None,
    /// Those of Consul's own tools.
    Consul,
}

impl Overrides {
    fn variable(self, context: &Context<'_>, name: &str) -> Option<String> {
        match self {
            Self::None => None,
            Self::Consul => context.variable(name),
        }
    }
}

/// Validates the settings at `path`.
pub(super) fn validate(
    context: &mut Context<'_>,
    path: &str,
    raw: &RawTls,
    overrides: Overrides,
    places: &mut Places,
) -> Option<TlsSpec> {
    let mut file = |field: &Opt<String>, variable: &str| {
        if let Some(path) = overrides.variable(context, variable) {
            return Some(PathBuf::from(path));
        }
        let field = field.as_ref()?;
        let file = PathBuf::from(field.value.as_ref()?);
        places.tls_files.push(TlsFile { of: path.to_owned(), span: field.span, path: file.clone() });
        Some(file)
    };
    let ca_file = file(&raw.cafile, "CONSUL_CACERT");
    let ca_path = file(&raw.capath, "CONSUL_CAPATH");
    let client_cert = file(&raw.clientcert, "CONSUL_CLIENT_CERT");
    let client_key = file(&raw.clientkey, "CONSUL_CLIENT_KEY");
    if client_cert.is_some() != client_key.is_some() {
        let given = raw.clientcert.as_ref().or(raw.clientkey.as_ref());
        let place = given.map_or(Place::Nowhere, |field| field.key.into());
        let message = format!(
            "{path}: a certificate and its key go together: expected both `clientcert` and `clientkey`"
        );
        context.error("incomplete-tls", place, message);
    }
    let server_name =
        overrides.variable(context, "CONSUL_TLS_SERVER_NAME").or_else(|| value(&raw.servername).cloned());
    let verify = verify(context, raw, overrides)?;
    Some(TlsSpec { ca_file, ca_path, client_cert, client_key, server_name, verify })
}

fn verify(context: &mut Context<'_>, raw: &RawTls, overrides: Overrides) -> Option<bool> {
    let variable = overrides.variable(context, "CONSUL_HTTP_SSL_VERIFY");
    match variable.as_deref().map(str::to_ascii_lowercase).as_deref() {
        Some("1" | "true") => Some(true),
        Some("0" | "false") => Some(false),
        Some(other) => {
            let message = format!(
                "environment variable CONSUL_HTTP_SSL_VERIFY: expected \"true\" or \"false\", found {other:?}"
            );
            context.error("bad-variable", Place::Nowhere, message);
            None
        }
        None => Some(value(&raw.verify).is_none_or(|verify| verify.0)),
    }
}
