//! TCP connections to a host by name or by number.
//!
//! tokio looks names up in its pool of threads, which panics where no thread can be started. A resolver of its own, hickory,
//! would add 1.2 MB.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::offload;

/// So many names are looked up at a time, each on a thread; the next ones wait. A look-up goes on when its check has given up: while
/// a name server is silent, checks that begin again and again must not use up what a container allows of processes.
static LOOKUPS: Semaphore = Semaphore::const_new(64);

/// Connects to the first address of a host that accepts. An IPv6 address may be in brackets, as in a URL.
pub async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    first_of(addresses(host, port).await?).await
}

/// Connects to the first address of `HOST:PORT` that accepts, and closes the connection again.
pub async fn connect_and_close(address: &str) -> io::Result<()> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = parts.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("expected HOST:PORT, found {address:?}"))
    })?;
    connect(host, port).await.map(drop)
}

async fn first_of(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        let connected = TcpStream::connect(address).await;
        match connected.and_then(|stream| refuse_self_connection(stream, address)) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Where nobody listens, a connection can connect to itself: if the kernel gives it the port that it goes to as its own
/// (a simultaneous open of TCP with one socket). That is no server.
fn refuse_self_connection(stream: TcpStream, address: SocketAddr) -> io::Result<TcpStream> {
    if stream.local_addr()? != address {
        return Ok(stream);
    }
    // Without TIME_WAIT: the port must be free at once for the server that belongs there.
    setsockopt(&stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
    Err(io::ErrorKind::ConnectionRefused.into())
}

/// The addresses of a host. Only a name needs the resolver, which blocks a thread of its own.
async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let name = host.to_owned();
    let turn = LOOKUPS.acquire().await.map_err(io::Error::other)?;
    let look_up = move || {
        let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
        drop(turn);
        found
    };
    offload::run(look_up).await?
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tokio::net::TcpSocket;

    use super::*;

    fn listener(address: &str) -> (TcpListener, u16) {
        let listener = TcpListener::bind(address).unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    /// A port that nobody listens on.
    fn refusing() -> u16 {
        listener("127.0.0.1:0").1
    }

    #[tokio::test]
    async fn a_host_is_reached_by_name_and_by_number() {
        let (_listener, port) = listener("127.0.0.1:0");
        for host in ["127.0.0.1", "localhost"] {
            let stream = connect(host, port).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap().port(), port);
            assert!(connect_and_close(&format!("{host}:{port}")).await.is_ok());
        }
        assert!(connect("no-such-host.invalid", port).await.is_err());
        assert!(connect_and_close("localhost").await.is_err());
    }

    #[tokio::test]
    async fn an_ipv6_address_needs_no_name_server_with_brackets_or_without() {
        if !crate::needs::has_ipv6() {
            return;
        }
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["::1", "[::1]"] {
            assert!(connect(host, port).await.is_ok());
        }
        assert!(connect_and_close(&format!("[::1]:{port}")).await.is_ok());
    }

    #[tokio::test]
    async fn a_port_that_refuses_is_not_reached() {
        let port = refusing();
        for error in [
            connect("127.0.0.1", port).await.unwrap_err(),
            connect_and_close(&format!("127.0.0.1:{port}")).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
    }

    #[tokio::test]
    async fn a_connection_to_itself_is_refused_and_leaves_its_port_free() {
        let address = SocketAddr::from(([127, 0, 0, 1], refusing()));
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(address).unwrap();
        let stream = socket.connect(address).await.unwrap();
        let refused = refuse_self_connection(stream, address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        TcpListener::bind(address).unwrap();
    }

    #[tokio::test]
    async fn the_next_address_is_tried_when_one_refuses() {
        let (_listener, port) = listener("127.0.0.1:0");
        let addresses = vec![([127, 0, 0, 1], refusing()).into(), ([127, 0, 0, 1], port).into()];
        let reached = first_of(addresses).await;
        assert_eq!(reached.unwrap().peer_addr().unwrap().port(), port);
        assert!(first_of(Vec::new()).await.is_err());
    }
}
