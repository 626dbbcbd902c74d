//! Connections: to a TCP address, with or without TLS and under another name if need be, or to a unix socket.
//! Names are resolved on another thread.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix_service::fn_service;
use actix_tls::connect::{ConnectError, ConnectInfo, Connection};
use awc::http::Uri;
use awc::{Client, Connector};
use tokio::net::UnixStream;

use super::error::SetupError;
use super::tls;
use crate::config::spec::{ConsulAddress, ConsulSpec};
use crate::offload;

/// Enough for every slot that the ConsulAgent hands out; below the 200 that Consul allows a client.
const CONNECTIONS: usize = 160;
/// An idle connection is kept for the next heartbeats.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
const LIFETIME: Duration = Duration::from_secs(3600);

/// An HTTP client for Consul, and the beginning of every URL.
pub fn consul_client(spec: &ConsulSpec) -> Result<(Client, String), SetupError> {
    match &spec.address {
        ConsulAddress::Unix(path) => Ok((through_socket(path.clone()), "http://localhost".to_owned())),
        ConsulAddress::Tcp { tls, host, port } => {
            let scheme = if *tls { "https" } else { "http" };
            let server_name = spec.tls.server_name.as_ref().filter(|_| *tls);
            let base = format!("{scheme}://{}:{port}", in_url(server_name.unwrap_or(host)));
            Ok((through_tcp(spec, *tls, host, *port)?, base))
        }
    }
}

fn in_url(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn through_tcp(spec: &ConsulSpec, with_tls: bool, host: &str, port: u16) -> Result<Client, SetupError> {
    let target: Arc<str> = host.into();
    let connector = Connector::new()
        .connector(fn_service(move |request: ConnectInfo<Uri>| {
            let target = Arc::clone(&target);
            async move {
                let stream = offload::connect(&target, port).await.map_err(ConnectError::Io)?;
                // A heartbeat is one small packet; nothing is gained by holding it back.
                stream.set_nodelay(true).map_err(ConnectError::Io)?;
                Ok(Connection::new(request.request().clone(), stream))
            }
        }))
        .limit(CONNECTIONS)
        .conn_keep_alive(KEEP_ALIVE)
        .conn_lifetime(LIFETIME);
    let connector =
        if with_tls { connector.rustls_0_23(Arc::new(tls::client_config(&spec.tls)?)) } else { connector };
    Ok(Client::builder().connector(connector).disable_redirects().disable_timeout().finish())
}

fn through_socket(path: PathBuf) -> Client {
    let path = Arc::new(path);
    let connector = Connector::new()
        .connector(fn_service(move |request: ConnectInfo<Uri>| {
            let path = Arc::clone(&path);
            async move {
                let stream: io::Result<UnixStream> = UnixStream::connect(&*path).await;
                Ok(Connection::new(request.request().clone(), stream.map_err(ConnectError::Io)?))
            }
        }))
        .limit(CONNECTIONS)
        .conn_keep_alive(KEEP_ALIVE)
        .conn_lifetime(LIFETIME);
    Client::builder().connector(connector).disable_redirects().disable_timeout().finish()
}
