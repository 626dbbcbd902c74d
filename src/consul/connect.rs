//! The HTTP client of a Consul. TLS is made beneath HTTP, by our own [`stream`](super::stream): for awc every URL is
//! a plain one.

use std::sync::Arc;
use std::time::Duration;

use actix_service::fn_service;
use actix_tls::connect::{ConnectError, ConnectInfo, Connection};
use awc::http::Uri;
use awc::{Client, Connector};

use super::error::SetupError;
use super::stream::{Target, Tls, open};
use super::tls;
use crate::config::spec::{ConsulAddress, ConsulSpec, TlsSpec};

/// Enough for every slot that the ConsulAgent hands out; below the 200 that Consul allows a client, some of which
/// are left to others with our address.
const CONNECTIONS: usize = 160;
/// An idle connection is kept for the next heartbeats.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
const LIFETIME: Duration = Duration::from_secs(3600);
/// A query that waits for news has minutes, but to connect it has only this.
pub const CONNECTING: Duration = Duration::from_secs(5);

/// An HTTP client for Consul, and the beginning of every URL.
pub fn consul_client(spec: &ConsulSpec) -> Result<(Client, String), SetupError> {
    let (target, base) = match &spec.address {
        ConsulAddress::Unix(path) => (Target::Unix(Arc::new(path.clone())), "http://localhost".to_owned()),
        ConsulAddress::Tcp { tls, host, port } => {
            let tls = if *tls { Some(encryption(&spec.tls)?) } else { None };
            (Target::Tcp(host.as_str().into(), *port, tls), format!("http://{}:{port}", in_url(host)))
        }
    };
    Ok((client(target), base))
}

/// How to encrypt what the settings are for; reads the certificates.
pub fn encryption(spec: &TlsSpec) -> Result<Tls, SetupError> {
    let config = Arc::new(tls::client_config(spec)?);
    Ok(Tls { config, server_name: spec.server_name.as_deref().map(Into::into) })
}

fn in_url(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn client(target: Target) -> Client {
    let connector = Connector::new()
        .connector(fn_service(move |request: ConnectInfo<Uri>| {
            let target = target.clone();
            async move {
                let stream = open(target).await.map_err(ConnectError::Io)?;
                stream.notice_silent_death().map_err(ConnectError::Io)?;
                Ok::<_, ConnectError>(Connection::new(request.request().clone(), stream))
            }
        }))
        .timeout(CONNECTING)
        .limit(CONNECTIONS)
        .conn_keep_alive(KEEP_ALIVE)
        .conn_lifetime(LIFETIME);
    Client::builder().connector(connector).disable_redirects().disable_timeout().finish()
}
