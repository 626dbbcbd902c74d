//! TCP connections to a host by name or by number.
//!
//! tokio looks names up in its pool of threads, which panics where no thread can be started. A resolver of its own, hickory,
//! would add 1.2 MB.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::TcpStream;

mod lookups;

use lookups::Lookups;

static LOOKUPS: Lookups = Lookups::new();

/// After this time without a result the next address of a host is tried as well: the "connection attempt delay" of RFC 8305. One that
/// drops packets would take all the time that the caller has.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

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
    let mut attempts = FuturesUnordered::new();
    for address in addresses {
        attempts.push(connect_to(address));
        match tokio::time::timeout(NEXT_ADDRESS_AFTER, attempts.next()).await {
            Ok(Some(Ok(stream))) => return Ok(stream),
            Ok(Some(Err(error))) => failure = error,
            Ok(None) | Err(_) => {}
        }
    }
    while let Some(connected) = attempts.next().await {
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    refuse_self_connection(TcpStream::connect(address).await?, address)
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
    let mut addresses = LOOKUPS.find(host, |name| Ok((name, 0).to_socket_addrs()?.collect())).await?;
    addresses.iter_mut().for_each(|address| address.set_port(port));
    Ok(addresses)
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

    /// A server whose queue of connections is full, by the one connection that is returned: Linux drops the packets of more.
    async fn silent() -> (tokio::net::TcpListener, TcpStream, SocketAddr) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, TcpStream::connect(address).await.unwrap(), address)
    }

    #[tokio::test]
    async fn the_next_address_is_tried_when_one_does_not_answer_and_the_first_may_still_accept() {
        let (_listener, port) = listener("127.0.0.1:0");
        let (silent, _first, silent_address) = silent().await;
        let other = SocketAddr::from(([127, 0, 0, 1], port));
        let soon = Duration::from_secs(20);
        let reached = tokio::time::timeout(soon, first_of(vec![silent_address, other])).await;
        assert_eq!(reached.unwrap().unwrap().peer_addr().unwrap(), other);

        let refusing = SocketAddr::from(([127, 0, 0, 1], refusing()));
        let mut reached = tokio::spawn(first_of(vec![silent_address, refusing]));
        let early = tokio::time::timeout(2 * NEXT_ADDRESS_AFTER, &mut reached).await;
        assert!(early.is_err(), "the one that refuses is not the last word: {early:?}");
        // Makes room in the queue: the kernel sends its packet again after a second.
        let _first_accepted = silent.accept().await.unwrap();
        let reached = tokio::time::timeout(soon, reached).await;
        assert_eq!(reached.unwrap().unwrap().unwrap().peer_addr().unwrap(), silent_address);
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
