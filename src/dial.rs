//! Connections to a host by name or by number. A server on this machine has usually accepted by the time that the
//! kernel returns from being asked: whoever looks at once need not wait to be told, which saves a health check a part
//! of its cost.

use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream as Plain, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockProtocol, SockType, SockaddrStorage, sockopt};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::offload;

/// Connects to the first address of a host that accepts. An IPv6 address may be in brackets, as in a URL.
pub async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    send(host, port, &[]).await
}

/// The same, and sends these bytes.
pub async fn send(host: &str, port: u16, bytes: &[u8]) -> io::Result<TcpStream> {
    let (mut stream, sent) = first_of(addresses(host, port).await?, async |address| {
        let mut stream = begin(address)?;
        let sent = match stream.write(bytes) {
            Ok(sent) if sent > 0 => Some(sent),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None, // not there yet
            Err(error) => return Err(error),
        };
        let stream = TcpStream::from_std(stream)?;
        if sent.is_none() {
            established(&stream).await?;
        }
        // Who hears its own request as an answer finds out by itself, should the ports have changed.
        if bytes.is_empty() || ports_for_clients().contains(&address.port()) {
            refuse_itself(&stream, address)?;
        }
        Ok((stream, sent.unwrap_or_default()))
    })
    .await?;
    stream.write_all(bytes.get(sent..).unwrap_or_default()).await?;
    Ok(stream)
}

/// Connects to the first address of `HOST:PORT` that accepts, and leaves again.
pub async fn reach(address: &str) -> io::Result<()> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = parts.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("expected HOST:PORT, found {address:?}"))
    })?;
    first_of(addresses(host, port).await?, async |address| {
        let stream = begin(address)?;
        if stream.peer_addr().is_ok() {
            return refuse_itself(&stream, address);
        }
        let stream = TcpStream::from_std(stream)?;
        established(&stream).await?;
        refuse_itself(&stream, address)
    })
    .await
}

/// Waits until a connection is there; the error if it does not come about.
async fn established(stream: &TcpStream) -> io::Result<()> {
    stream.writable().await?;
    stream.take_error()?.map_or(Ok(()), Err)
}

/// Where nobody listens, a connection can come about with itself: if the kernel gives it the very port that it goes
/// to. Ends it so that the port is free at once, for whoever should be there.
fn refuse_itself(stream: &impl AsFd, address: SocketAddr) -> io::Result<()> {
    let own: SockaddrStorage = socket::getsockname(stream.as_fd().as_raw_fd())?;
    if own != SockaddrStorage::from(address) {
        return Ok(());
    }
    socket::setsockopt(&stream.as_fd(), sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
    Err(io::ErrorKind::ConnectionRefused.into())
}

/// The ports that the kernel gives to who connects, as it told when it was first asked.
fn ports_for_clients() -> &'static RangeInclusive<u16> {
    static PORTS: OnceLock<RangeInclusive<u16>> = OnceLock::new();
    PORTS.get_or_init(|| {
        let told = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
        told.ok().as_deref().and_then(range).unwrap_or(0..=u16::MAX)
    })
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    Some(numbers.next()?.ok()?..=numbers.next()?.ok()?)
}

async fn first_of<T>(
    addresses: Vec<SocketAddr>,
    attempt: impl AsyncFn(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut outcome = Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    for address in addresses {
        outcome = attempt(address).await;
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// Only a name needs a thread to find them.
async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let name = host.to_owned();
    offload::run(move || (name.as_str(), port).to_socket_addrs().map(Iterator::collect)).await?
}

/// A connection that is under way, or there already.
fn begin(address: SocketAddr) -> io::Result<Plain> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(family, SockType::Stream, flags, SockProtocol::Tcp)?;
    match socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(socket.into()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::time::Duration;

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
            assert!(send(host, port, b"x").await.is_ok());
            assert!(reach(&format!("{host}:{port}")).await.is_ok());
        }
        assert!(connect("no-such-host.invalid", port).await.is_err());
        assert!(send("no-such-host.invalid", port, b"x").await.is_err());
        assert!(reach("localhost").await.is_err());
    }

    #[tokio::test]
    async fn an_ipv6_address_needs_no_name_server_with_brackets_or_without() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
        let port = listener.local_addr().unwrap().port();
        for host in ["::1", "[::1]"] {
            assert!(connect(host, port).await.is_ok());
            assert!(send(host, port, b"x").await.is_ok());
        }
        assert!(reach(&format!("[::1]:{port}")).await.is_ok());
    }

    #[tokio::test]
    async fn who_refuses_is_not_reached() {
        let port = refusing();
        for error in [
            connect("127.0.0.1", port).await.unwrap_err(),
            send("127.0.0.1", port, b"x").await.unwrap_err(),
            reach(&format!("127.0.0.1:{port}")).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
    }

    #[tokio::test]
    async fn nobody_is_reached_where_a_connection_only_meets_itself() {
        let flags = SockFlag::SOCK_CLOEXEC;
        let bound = socket::socket(AddressFamily::Inet, SockType::Stream, flags, SockProtocol::Tcp).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], refusing()));
        socket::bind(bound.as_raw_fd(), &SockaddrStorage::from(address)).unwrap();
        socket::connect(bound.as_raw_fd(), &SockaddrStorage::from(address)).unwrap();
        let refused = refuse_itself(&bound, address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        drop(bound);
        TcpListener::bind(address).unwrap();
    }

    #[test]
    fn what_the_kernel_tells_of_its_ports_is_understood() {
        assert_eq!(range("32768\t60999\n"), Some(32768..=60999));
        for nonsense in ["", "32768", "32768 x", "0 70000"] {
            assert_eq!(range(nonsense), None);
        }
        assert!(!ports_for_clients().is_empty());
    }

    #[tokio::test]
    async fn who_has_accepted_and_then_goes_is_not_taken_for_one_who_refuses() {
        let (gone, port) = listener("127.0.0.1:0");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = gone.accept().unwrap();
            stream.read_exact(&mut [0; 1024]).unwrap();
        });
        // More than the kernel takes at once: what is left meets a connection that was reset.
        let failed = send("127.0.0.1", port, &vec![1; 32 << 20]).await.unwrap_err();
        assert_ne!(failed.kind(), io::ErrorKind::ConnectionRefused);
        server.join().unwrap();
    }

    #[tokio::test]
    async fn the_next_address_is_tried_when_one_refuses() {
        let (_listener, port) = listener("127.0.0.1:0");
        let addresses = vec![([127, 0, 0, 1], refusing()).into(), ([127, 0, 0, 1], port).into()];
        let reached = first_of(addresses, async |address| TcpStream::connect(address).await).await;
        assert_eq!(reached.unwrap().peer_addr().unwrap().port(), port);
        assert!(first_of(Vec::new(), async |_| Ok(())).await.is_err());
    }

    #[tokio::test]
    async fn all_is_sent_even_if_more_than_the_kernel_takes_at_once() {
        let (listener, port) = listener("127.0.0.1:0");
        let reader = std::thread::spawn(move || {
            let mut received = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            received
        });
        let bytes: Vec<u8> = (0..32 << 20).map(|index| (index % 251) as u8).collect();
        drop(send("127.0.0.1", port, &bytes).await.unwrap());
        assert!(reader.join().unwrap() == bytes);
    }

    #[tokio::test]
    async fn a_server_that_accepts_late_is_waited_for() {
        let (listener, port) = listener("127.0.0.1:0");
        // The queue of one who accepts nobody fills up; what comes then waits for its turn.
        socket::listen(&listener, socket::Backlog::new(0).unwrap()).unwrap();
        let _first = connect("127.0.0.1", port).await.unwrap();
        let late = send("127.0.0.1", port, b"hello");
        tokio::pin!(late);
        let waited = tokio::time::timeout(Duration::from_millis(200), &mut late).await;
        assert!(waited.is_err(), "the queue should be full");
        let mut received = [0; 5];
        drop(listener.accept().unwrap());
        let sent = late.await.unwrap();
        listener.accept().unwrap().0.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"hello");
        drop(sent);
    }
}
