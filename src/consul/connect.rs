//! The HTTP client for Consul: awc upon our own connections ([`stream`](super::stream)). TLS happens there, so for awc
//! every URL is `http://`.

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

/// Enough for all requests that the ConsulAgent has open at a time. Consul allows 200 connections per client address, and
/// other programs may share ours.
const CONNECTIONS: usize = 160;
/// How long an idle connection is kept for the next heartbeat.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
const LIFETIME: Duration = Duration::from_secs(3600);
/// The time limit of connect(2) and the TLS handshake. A blocking query as a whole has minutes.
pub const CONNECTING: Duration = Duration::from_secs(5);

/// An HTTP client for Consul, and the base of its URLs.
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

/// The TLS settings as rustls needs them; reads the certificates.
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
                stream.enable_keepalive().map_err(ConnectError::Io)?;
                Ok::<_, ConnectError>(Connection::new(request.request().clone(), stream))
            }
        }))
        .timeout(CONNECTING)
        .limit(CONNECTIONS)
        .conn_keep_alive(KEEP_ALIVE)
        .conn_lifetime(LIFETIME);
    Client::builder().connector(connector).disable_redirects().disable_timeout().finish()
}
