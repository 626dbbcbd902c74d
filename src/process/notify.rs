//! The socket of systemd's notify protocol: one for each execution of a job that speaks it, so that a flood of one job
//! fills no queue but its own. Only receives; who may say what is decided elsewhere.
//!
//! Its address is abstract (unix(7)): it needs no file system that can be written to, no privilege and no cleaning up. It is
//! in our network namespace; a process that enters another one cannot reach it.
#![allow(unsafe_code)]

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::cmsg_space;
use nix::sys::socket::{MsgFlags, UnixCredentials, recvmsg, setsockopt, sockopt::PassCred};
use tokio::io::Interest;

use super::random_share;
use crate::messages::process::Pid;

mod message;

pub use message::Message;

/// The longest message, as systemd has it; a longer one is ignored.
const LONGEST: usize = 4096;
/// The most descriptors that the kernel passes with one message (SCM_MAX_FD).
const MOST_DESCRIPTORS: usize = 253;

/// Receives the messages of one execution.
#[derive(Debug)]
pub struct NotifySocket {
    socket: tokio::net::UnixDatagram,
    address: String,
}

/// One message, and who sent it.
#[derive(Debug)]
pub struct Datagram {
    /// The process that the kernel says has sent it; `None` if it is not in our PID namespace.
    pub sender: Option<Pid>,
    /// What it says.
    pub text: Vec<u8>,
    /// The descriptors that came with it.
    pub descriptors: Vec<OwnedFd>,
    /// Some could not be opened here (MSG_CTRUNC); then all were closed.
    pub has_lost_descriptors: bool,
}

impl NotifySocket {
    /// Opens a socket; within a tokio runtime.
    pub fn open() -> io::Result<Self> {
        let (socket, name) = bind_to_new_name()?;
        socket.set_nonblocking(true)?;
        setsockopt(&socket, PassCred, &true)?;
        Ok(Self { socket: tokio::net::UnixDatagram::from_std(socket)?, address: format!("@{name}") })
    }

    /// The value of `NOTIFY_SOCKET`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits until there may be a message.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// The next message, if there is one. One that is too long comes without text.
    pub fn receive(&self) -> io::Result<Option<Datagram>> {
        if_there(self.socket.try_io(Interest::READABLE, || receive(self.socket.as_raw_fd())))
    }

    /// The next message, if there is one, also if the event loop has not noticed it yet.
    pub fn receive_unnoticed(&self) -> io::Result<Option<Datagram>> {
        if_there(receive(self.socket.as_raw_fd()))
    }
}

/// That there is no message is no error.
fn if_there(received: io::Result<Datagram>) -> io::Result<Option<Datagram>> {
    match received {
        Ok(datagram) => Ok(Some(datagram)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

fn bind_to_new_name() -> io::Result<(UnixDatagram, String)> {
    loop {
        let name = format!("containerpilot-{}-{:013x}", std::process::id(), random_number());
        match UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?) {
            // Another socket has this name.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return Ok((bound?, name)),
        }
    }
}

fn random_number() -> u64 {
    // 52 bits; the address only has to be new, it is no secret.
    (random_share() * (1u64 << 52) as f64) as u64
}

fn receive(socket: RawFd) -> io::Result<Datagram> {
    let mut text = vec![0; LONGEST];
    let mut control = cmsg_space!([RawFd; MOST_DESCRIPTORS], UnixCredentials);
    let mut parts = [IoSliceMut::new(&mut text)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let received = recvmsg::<()>(socket, &mut parts, Some(&mut control), flags)?;
    let (flags, length) = (received.flags, received.bytes);
    let (mut sender, mut descriptors) = (None, Vec::new());
    for (kind, data) in control_messages(&control) {
        // Both carry numbers of four bytes; the first one of credentials is the process.
        let mut numbers = data.as_chunks::<4>().0.iter().map(|bytes| i32::from_ne_bytes(*bytes));
        if kind == libc::SCM_CREDENTIALS {
            sender = numbers.next().and_then(Pid::new);
        } else if kind == libc::SCM_RIGHTS {
            // SAFETY: the kernel has just made these descriptors for us, and nobody else knows their numbers.
            descriptors.extend(numbers.map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
        }
    }
    let has_lost_descriptors = flags.contains(MsgFlags::MSG_CTRUNC);
    if has_lost_descriptors {
        descriptors.clear();
    }
    text.truncate(if flags.contains(MsgFlags::MSG_TRUNC) { 0 } else { length });
    Ok(Datagram { sender, text, descriptors, has_lost_descriptors })
}

/// The control messages of sockets (cmsg(3)) that the kernel has written into a buffer of zeroes: kind and data. nix hands out
/// none if not all of them fit, and the descriptors among them would stay open.
fn control_messages(mut control: &[u8]) -> impl Iterator<Item = (i32, &[u8])> {
    const LENGTH: usize = size_of::<usize>();
    const HEADER: usize = LENGTH + 8;
    std::iter::from_fn(move || {
        let length = usize::from_ne_bytes(control.get(..LENGTH)?.try_into().ok()?);
        let [level, kind] = *control.get(LENGTH..HEADER)?.as_chunks::<4>().0 else { return None };
        if i32::from_ne_bytes(level) != libc::SOL_SOCKET {
            return None;
        }
        let kind = i32::from_ne_bytes(kind);
        let data = control.get(HEADER..length)?;
        control = control.get(length.next_multiple_of(LENGTH)..).unwrap_or_default();
        Some((kind, data))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::sys::socket::{AddressFamily, ControlMessage, SockFlag, SockType, UnixAddr, sendmsg, socket};
    use std::io::IoSlice;

    use super::super::set_seed;

    fn send(address: &str, text: &[u8], descriptors: &[RawFd]) {
        let sender = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).unwrap();
        let to = UnixAddr::new_abstract(address.trim_start_matches('@').as_bytes()).unwrap();
        let rights = [ControlMessage::ScmRights(descriptors)];
        let control = if descriptors.is_empty() { &[][..] } else { &rights[..] };
        sendmsg(sender.as_raw_fd(), &[IoSlice::new(text)], control, MsgFlags::empty(), Some(&to)).unwrap();
    }

    #[tokio::test]
    async fn a_message_comes_with_its_sender_and_its_descriptors() {
        let socket = NotifySocket::open().unwrap();
        assert!(socket.receive().unwrap().is_none());
        let (reader, _writer) = io::pipe().unwrap();
        send(socket.address(), b"FDSTORE=1", &[reader.as_raw_fd(), reader.as_raw_fd()]);
        socket.readable().await.unwrap();
        let datagram = socket.receive().unwrap().unwrap();
        assert_eq!(datagram.sender.map(Pid::number), i32::try_from(std::process::id()).ok());
        assert_eq!((datagram.text.as_slice(), datagram.descriptors.len()), (&b"FDSTORE=1"[..], 2));
        let flags =
            datagram.descriptors.iter().map(|descriptor| fcntl(descriptor, FcntlArg::F_GETFD).unwrap());
        assert!(flags.into_iter().all(|flags| flags == libc::FD_CLOEXEC), "no job inherits them by chance");
    }

    #[tokio::test]
    async fn a_name_that_is_taken_is_not_used() {
        set_seed(7);
        let first = NotifySocket::open().unwrap();
        set_seed(7);
        assert_ne!(NotifySocket::open().unwrap().address(), first.address());
    }

    #[tokio::test]
    async fn what_a_process_says_just_before_its_end_is_heard() {
        let socket = NotifySocket::open().unwrap();
        assert!(socket.receive().unwrap().is_none());
        send(socket.address(), b"READY=1", &[]);
        assert_eq!(socket.receive_unnoticed().unwrap().unwrap().text, b"READY=1");
        assert!(socket.receive_unnoticed().unwrap().is_none());
    }

    #[tokio::test]
    async fn a_socket_that_fails_is_no_silence() {
        let socket = NotifySocket::open().unwrap();
        send(socket.address(), b"READY=1", &[]);
        socket.readable().await.unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: takes the numbers of two open descriptors. Only the socket uses the second, and closes it.
        assert_ne!(unsafe { libc::dup2(null.as_raw_fd(), socket.socket.as_raw_fd()) }, -1);
        for failed in [socket.receive(), socket.receive_unnoticed()] {
            assert_eq!(failed.unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
        }
    }

    #[tokio::test]
    async fn a_message_that_is_too_long_says_nothing() {
        let socket = NotifySocket::open().unwrap();
        send(socket.address(), &[b"READY=1\n".as_slice(), &[b'x'; LONGEST]].concat(), &[]);
        socket.readable().await.unwrap();
        assert_eq!(socket.receive().unwrap().unwrap().text, b"");
    }
}
