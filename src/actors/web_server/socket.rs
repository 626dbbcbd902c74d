//! The socket of a client's connection, unix or TCP.

use std::fmt::Debug;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::task::{Context, Poll};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::{RcvBuf, SndBuf};
use nix::sys::socket::{MsgFlags, recv, setsockopt};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::{TcpStream, UnixStream};

/// The size of the kernel's buffers of a connection (SO_SNDBUF, SO_RCVBUF; the kernel doubles it). By default TCP buffers
/// up to 4 MiB for a client that reads nothing, which counts as memory of the container.
const KERNEL_BUFFER: usize = 64 << 10;

/// A connected socket.
pub trait Socket: AsyncRead + AsyncWrite + AsFd + Debug + Unpin {
    /// Waits until the client is gone, as far as the kernel tells.
    fn poll_hang_up(&self, cx: &mut Context<'_>) -> Poll<()>;
}

impl Socket for UnixStream {
    fn poll_hang_up(&self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            // After an error, the next write will fail, too.
            let Poll::Ready(Ok(())) = self.poll_read_ready(cx) else { return Poll::Pending };
            if is_hung_up(self) {
                return Poll::Ready(());
            }
            let look = || if has_more(self) { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) };
            // While bytes wait to be read, the kernel does not report a later end again. The next write will notice it.
            if self.try_io(Interest::READABLE, look).is_ok() {
                return Poll::Pending;
            }
        }
    }
}

impl Socket for TcpStream {
    /// TCP tells only that the client sends no more; it may read on.
    fn poll_hang_up(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// Whether the other end is closed. A client that has only ended what it sends does not count.
fn is_hung_up(socket: &dyn Socket) -> bool {
    let mut look = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    let count = poll(&mut look, PollTimeout::ZERO);
    let [looked] = look;
    count.is_ok() && looked.revents().is_some_and(|events| events.contains(PollFlags::POLLHUP))
}

/// Limits the kernel's buffers of a connection. If the kernel refuses, they only stay larger.
pub fn limit_buffers(socket: &dyn Socket) {
    let _ = setsockopt(&socket.as_fd(), SndBuf, &KERNEL_BUFFER);
    let _ = setsockopt(&socket.as_fd(), RcvBuf, &KERNEL_BUFFER);
}

/// Whether the kernel has something to read from a socket: bytes, its end, or an error.
pub fn has_more(socket: &dyn Socket) -> bool {
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    recv(socket.as_fd().as_raw_fd(), &mut [0], flags) != Err(Errno::EAGAIN)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::Shutdown;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[actix::test]
    async fn a_client_that_only_ends_what_it_sends_is_not_gone() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let theirs = theirs.into_std().unwrap();
        let gone = || poll_fn(|cx| ours.poll_hang_up(cx));
        assert!(timeout(Duration::from_millis(10), gone()).await.is_err());
        theirs.shutdown(Shutdown::Write).unwrap();
        assert!(timeout(Duration::from_millis(10), gone()).await.is_err());
    }

    #[actix::test]
    async fn a_client_that_closes_its_socket_is_gone() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let gone = actix_rt::spawn(async move { poll_fn(|cx| ours.poll_hang_up(cx)).await });
        tokio::task::yield_now().await;
        assert!(!gone.is_finished());
        drop(theirs);
        timeout(Duration::from_secs(5), gone).await.unwrap().unwrap();
    }
}
