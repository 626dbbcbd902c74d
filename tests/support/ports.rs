//! Ports of this machine that no other test gets, however many run at once.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

/// Below those that the kernel gives to connections.
const RANGE: std::ops::Range<u16> = 10_000..32_000;

/// What this process keeps from others: a socket for each port, with a name but no file, gone with the process.
static HELD: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// A port that nobody listens on, and that belongs to this test from now on.
pub fn free_port() -> u16 {
    let mut held = HELD.lock().unwrap();
    let first = u16::try_from(std::process::id() * 37 % u32::from(RANGE.end - RANGE.start)).unwrap();
    let port =
        (first..RANGE.end - RANGE.start).chain(0..first).map(|number| RANGE.start + number).find(|&port| {
            let name = SocketAddr::from_abstract_name(format!("containerpilot-test-port-{port}")).unwrap();
            let all = (Ipv4Addr::UNSPECIFIED, port);
            let Ok(socket) = UnixListener::bind_addr(&name) else { return false };
            let free = TcpListener::bind(all).is_ok() && UdpSocket::bind(all).is_ok();
            if free {
                held.push(socket);
            }
            free
        });
    port.unwrap()
}
