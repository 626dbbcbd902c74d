//! A connection to a server: TCP, TLS upon TCP, or a unix socket.
//!
//! awc's own connector was weighed: it has no unix sockets, takes the name in the certificate from the URL, and rejects
//! certificates for an IPv6 address.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_rt::net::{ActixStream, Ready};
use nix::sys::socket::{setsockopt, sockopt};
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::self_signed::is_of_authority;
use crate::dial;

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// To a TCP port.
    Tcp(TcpStream),
    /// To a TCP port, encrypted.
    Tls(Box<TlsStream<TcpStream>>),
    /// To a unix socket.
    Unix(UnixStream),
}

/// The address of a server. Names are resolved on another thread, so that a slow name server blocks nothing.
#[derive(Clone)]
pub enum Target {
    /// A host name or an address without brackets, a port, and TLS if wanted.
    Tcp(Arc<str>, u16, Option<Tls>),
    /// A unix socket.
    Unix(Arc<PathBuf>),
}

/// TLS settings of a connection.
#[derive(Clone)]
pub struct Tls {
    /// The trusted certificates and our own.
    pub config: Arc<ClientConfig>,
    /// The name or address that the certificate must be for; `None`: the host.
    pub server_name: Option<Arc<str>>,
}

/// Opens a connection.
pub async fn open(target: Target) -> io::Result<Stream> {
    match target {
        Target::Unix(path) => UnixStream::connect(&*path).await.map(Stream::Unix),
        Target::Tcp(host, port, tls) => {
            let stream = dial::connect(&host, port).await?;
            // Requests are small and must leave at once.
            stream.set_nodelay(true)?;
            let Some(Tls { config, server_name }) = tls else { return Ok(Stream::Tcp(stream)) };
            let name = server_name_of(server_name.as_deref().unwrap_or(&host))?;
            let stream = TlsConnector::from(config).connect(name, stream).await.map_err(with_remedy)?;
            Ok(Stream::Tls(Box::new(stream)))
        }
    }
}

/// TCP keepalive, in seconds: the first probe after 10 s of silence, then every 3 s, given up after 3 probes. So a host or
/// network that disappears is noticed within 20 s, although a blocking query may wait for minutes. The probes also keep
/// the connection in the tables of firewalls.
const KEEP_ALIVE_IDLE: u32 = 10;
const KEEP_ALIVE_INTERVAL: u32 = 3;
const KEEP_ALIVE_TRIES: u32 = 3;
/// TCP_USER_TIMEOUT in milliseconds, for data that is sent and not acknowledged: keepalive does not cover that.
const UNACKNOWLEDGED: u32 = 19_000;

impl Stream {
    /// Makes the kernel close the connection when the other host disappears without closing it. The other end of a unix
    /// socket cannot.
    pub fn enable_keepalive(&self) -> io::Result<()> {
        let socket = match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
            Self::Unix(_) => return Ok(()),
        };
        setsockopt(socket, sockopt::KeepAlive, &true)?;
        setsockopt(socket, sockopt::TcpKeepIdle, &KEEP_ALIVE_IDLE)?;
        setsockopt(socket, sockopt::TcpKeepInterval, &KEEP_ALIVE_INTERVAL)?;
        setsockopt(socket, sockopt::TcpKeepCount, &KEEP_ALIVE_TRIES)?;
        setsockopt(socket, sockopt::TcpUserTimeout, &UNACKNOWLEDGED)?;
        Ok(())
    }
}

/// A name or an address, as rustls compares it with those in a certificate.
fn server_name_of(host: &str) -> io::Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).map_err(|_| {
        let reason = format!("a certificate cannot be for {host:?}: expected a host name or an address");
        io::Error::new(io::ErrorKind::InvalidInput, reason)
    })
}

/// Adds the remedy to the errors for an unknown issuer, which is usually a private certificate authority, and for a self-signed
/// certificate that is not trusted.
fn with_remedy(error: io::Error) -> io::Error {
    let Some(cause) = error.get_ref().and_then(|cause| cause.downcast_ref()) else { return error };
    let message = if matches!(cause, rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) {
        "its certificate is signed by nobody we trust; `tls.cafile` names a file with those to trust"
    } else if is_of_authority(cause) {
        "its certificate is self-signed or that of an authority; if it is to be trusted, `tls.cafile` names a file with it"
    } else {
        return error;
    };
    io::Error::new(error.kind(), message)
}

/// Calls the same method of each kind of stream.
macro_rules! each {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Stream::Tcp($inner) => $call,
            Stream::Tls($inner) => $call,
            Stream::Unix($inner) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}

impl ActixStream for Stream {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        match self {
            Self::Tcp(stream) => ActixStream::poll_read_ready(stream, cx),
            Self::Tls(stream) => ActixStream::poll_read_ready(stream.get_ref().0, cx),
            Self::Unix(stream) => ActixStream::poll_read_ready(stream, cx),
        }
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        match self {
            Self::Tcp(stream) => ActixStream::poll_write_ready(stream, cx),
            Self::Tls(stream) => ActixStream::poll_write_ready(stream.get_ref().0, cx),
            Self::Unix(stream) => ActixStream::poll_write_ready(stream, cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_for_names_and_for_addresses() {
        assert!(matches!(server_name_of("consul.example"), Ok(ServerName::DnsName(_))));
        assert!(matches!(server_name_of("127.0.0.1"), Ok(ServerName::IpAddress(_))));
        assert!(matches!(server_name_of("::1"), Ok(ServerName::IpAddress(_))));
        assert!(server_name_of("[::1]").is_err() && server_name_of("").is_err());
    }
}
