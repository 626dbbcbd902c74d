//! Work that may block, on a thread of its own, so that a slow name server or disk holds up nobody. Not in tokio's
//! pool: that panics where it cannot start a thread, as at a container's limit of processes; here it is an error.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use tokio::net::TcpStream;

/// Does the work and waits for its result. Work that nobody waits for any more is done all the same.
#[cfg(not(test))]
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("offload".to_owned());
    let started = thread.spawn(move || {
        let _ = answer.send(work());
    });
    started.map_err(|error| io::Error::new(error.kind(), format!("cannot start a thread: {error}")))?;
    answered.await.map_err(|_| io::Error::other("its thread panicked"))
}

/// The same in unit tests, whose paused clock stands still for threads of tokio's only.
#[cfg(test)]
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}

/// Connects to the first address of a host that accepts; only a name needs a thread. An IPv6 address may be in
/// brackets, as in a URL.
pub async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = host.parse::<IpAddr>() {
        return TcpStream::connect((address, port)).await;
    }
    let name = host.to_owned();
    let look_up = move || (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
    let found: Vec<SocketAddr> = run(look_up).await??;
    TcpStream::connect(found.as_slice()).await
}

/// The same for `HOST:PORT`.
pub async fn connect_to(address: &str) -> io::Result<TcpStream> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = parts.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("expected HOST:PORT, found {address:?}"))
    })?;
    connect(host, port).await
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_host_is_reached_by_name_and_by_number() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            let stream = connect(host, port).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap().port(), port);
        }
        assert!(connect("no-such-host.invalid", port).await.is_err());
        assert!(connect_to(&format!("localhost:{port}")).await.is_ok());
        assert!(connect_to("localhost").await.is_err());
    }

    #[tokio::test]
    async fn an_ipv6_address_needs_no_name_server_with_brackets_or_without() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
        let port = listener.local_addr().unwrap().port();
        for host in ["::1", "[::1]"] {
            assert!(connect(host, port).await.is_ok());
        }
        assert!(connect_to(&format!("[::1]:{port}")).await.is_ok());
    }
}
