//! The listeners of the control socket and of the telemetry port, and the loop that accepts connections.
//!
//! actix-web's `HttpServer` was weighed: it starts two threads for each server, deletes any file at the path of a unix
//! socket, and leaves the socket with mode 0755. Here the control socket appears with its final mode and already
//! listening, in one step (bind to another name, then rename(2)). A socket that another process listens on is never
//! replaced; one that nobody listens on is.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Weak;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{Mode, fchmod};
use tokio::net::{TcpListener, UnixListener};

use super::connection::Serve;
use super::connections::Connections;
use super::socket::Socket;
use crate::config::spec::ControlSpec;
use crate::reason::reason;

/// How long we wait after accept(2) has failed, for lack of file descriptors perhaps.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The file of a control socket. It is removed when this is dropped, unless another process has put its own there.
#[derive(Debug)]
pub struct SocketFile {
    spec: ControlSpec,
    /// Device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    pub fn path(&self) -> &Path {
        &self.spec.socket
    }

    /// Is there still a socket at the path?
    pub fn exists(&self) -> bool {
        is_socket(&self.spec.socket)
    }

    pub fn set_mode(&mut self, mode: u32) -> io::Result<()> {
        if mode != self.spec.mode {
            fs::set_permissions(&self.spec.socket, fs::Permissions::from_mode(mode))?;
            self.spec.mode = mode;
        }
        Ok(())
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.spec.socket).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.spec.socket);
        }
    }
}

/// A socket that accepts connections.
#[derive(Debug)]
pub enum Listener {
    /// The control socket.
    Unix(UnixListener),
    /// The telemetry port.
    Tcp(TcpListener),
}

impl Listener {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Socket>>> {
        Poll::Ready(match self {
            Self::Unix(listener) => Ok(Box::new(ready!(listener.poll_accept(cx))?.0)),
            Self::Tcp(listener) => {
                let (socket, _) = ready!(listener.poll_accept(cx))?;
                // A long response is written in pieces: none of them is to wait until the one before has arrived. If the kernel
                // refuses, they only come later.
                let _ = socket.set_nodelay(true);
                Ok(Box::new(socket))
            }
        })
    }
}

/// The next connection; `None` when the listener has been dropped.
async fn accept(listener: &Weak<Listener>) -> Option<Box<dyn Socket>> {
    loop {
        let accepted = poll_fn(|cx| match listener.upgrade() {
            Some(listener) => listener.poll_accept(cx).map(Some),
            None => Poll::Ready(None),
        });
        match accepted.await? {
            Ok(socket) => return Some(socket),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Serves every connection with the function that `serve` resolves to; that is awaited at the first connection. The
/// listener is borrowed for each accept(2) only, so its owner closes it by dropping it, and then aborts this task.
pub async fn accept_loop(
    listener: Weak<Listener>,
    serve: impl Future<Output = Option<Serve>>,
    connections: Connections,
) {
    let Some(mut socket) = accept(&listener).await else { return };
    let Some(serve) = serve.await else { return };
    loop {
        connections.make_room().await;
        connections.add(socket, &serve);
        let Some(next) = accept(&listener).await else { return };
        socket = next;
    }
}

pub fn bind_telemetry(address: SocketAddr) -> io::Result<Listener> {
    let listen = || {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    };
    let explain = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot serve telemetry on {address}: {}", reason(&error)))
    };
    listen().map(Listener::Tcp).map_err(explain)
}

/// Creates the control socket and listens on it.
pub fn bind_control(spec: &ControlSpec) -> io::Result<(Listener, SocketFile)> {
    let explain = |error: io::Error| {
        // Common in containers: another user than root, or a root file system that is read-only.
        let elsewhere = matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotFound
        );
        let advice = if elsewhere { " (control.socket can name another place)" } else { "" };
        let (place, reason) = (spec.socket.display(), reason(&error));
        io::Error::new(error.kind(), format!("cannot create the control socket {place}: {reason}{advice}"))
    };
    create(spec).map_err(explain)
}

fn create(spec: &ControlSpec) -> io::Result<(Listener, SocketFile)> {
    refuse_if_in_use(&spec.socket)?;
    // In the same directory, since rename(2) works within one file system only; and one byte longer only, since the path
    // of a unix socket has at most 108 bytes.
    let mut temporary = spec.socket.clone().into_os_string();
    temporary.push("~");
    let temporary = PathBuf::from(temporary);
    if is_socket(&temporary) {
        fs::remove_file(&temporary)?; // left by a start that failed before the rename
    }
    let socket = listening_socket(&temporary, spec.mode)?;
    let finish = || {
        // The umask may have removed bits at the bind.
        fs::set_permissions(&temporary, fs::Permissions::from_mode(spec.mode))?;
        let identity = identity(&temporary)?;
        let listener = UnixListener::from_std(socket.into())?;
        fs::rename(&temporary, &spec.socket)?;
        Ok((Listener::Unix(listener), SocketFile { spec: spec.clone(), identity }))
    };
    finish().inspect_err(|_| {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    })
}

fn listening_socket(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let socket = unix_socket()?;
    // The kernel gives the file the permissions that the socket has when it is bound.
    fchmod(socket.as_fd(), Mode::from_bits_truncate(mode))?;
    socket::bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    // As many as the kernel allows may wait to be accepted: who connects without blocking is refused otherwise.
    socket::listen(&socket, Backlog::MAXALLOWABLE)?;
    Ok(socket)
}

fn unix_socket() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?)
}

/// Refuses to replace a socket that a process listens on, or a file that is no socket.
fn refuse_if_in_use(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if found.file_type().is_socket() || found.is_symlink() => {}
        Ok(_) => {
            let reason =
                "there is a file of that name that is not a socket; remove it, or set control.socket";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
        }
    }
    match socket::connect(unix_socket()?.as_raw_fd(), &UnixAddr::new(path)?) {
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(()),
        // EAGAIN: its queue of connections is full, so there is a listener.
        Ok(()) | Err(Errno::EAGAIN) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process listens on it; is a containerpilot running already? If so, set control.socket",
        )),
        Err(error) => Err(error.into()),
    }
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
    use std::rc::Rc;

    use tokio::io::AsyncReadExt;

    use super::*;

    fn spec(directory: &tempfile::TempDir, mode: u32) -> ControlSpec {
        ControlSpec { socket: directory.path().join("s"), mode }
    }

    fn names(directory: &tempfile::TempDir) -> Vec<String> {
        let entries = fs::read_dir(directory.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn in_system(test: impl FnOnce(tempfile::TempDir)) {
        actix_rt::System::new().block_on(async { test(tempfile::tempdir().unwrap()) });
    }

    #[test]
    fn what_serves_is_made_for_the_first_client() {
        actix_rt::System::new().block_on(async {
            let directory = tempfile::tempdir().unwrap();
            let (listener, _file) = bind_control(&spec(&directory, 0o600)).unwrap();
            let (made, mut is_made) = tokio::sync::oneshot::channel();
            let serve: Serve = Rc::new(|_| Box::pin(async {}));
            let serving = async move {
                made.send(()).unwrap();
                Some(serve)
            };
            let listener = Rc::new(listener);
            actix_rt::spawn(accept_loop(Rc::downgrade(&listener), serving, Connections::default()));
            tokio::task::yield_now().await;
            assert!(is_made.try_recv().is_err());
            let mut client = tokio::net::UnixStream::connect(directory.path().join("s")).await.unwrap();
            is_made.await.unwrap();
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "served to its end");
        });
    }

    #[test]
    fn the_socket_has_its_mode_and_is_alone() {
        in_system(|directory| {
            for mode in [0o600, 0o666] {
                let made = bind_control(&spec(&directory, mode)).unwrap();
                let found = fs::metadata(directory.path().join("s")).unwrap();
                assert_eq!(found.permissions().mode() & 0o777, mode);
                assert_eq!(names(&directory), ["s"]);
                drop(made);
                assert!(names(&directory).is_empty());
            }
        });
    }

    #[test]
    fn a_stale_socket_is_replaced() {
        in_system(|directory| {
            drop(StdListener::bind(directory.path().join("s")).unwrap());
            drop(StdListener::bind(directory.path().join("s~")).unwrap());
            let _made = bind_control(&spec(&directory, 0o600)).unwrap();
            StdStream::connect(directory.path().join("s")).unwrap();
        });
    }

    #[test]
    fn a_live_socket_is_refused_and_undisturbed() {
        in_system(|directory| {
            let live = StdListener::bind(directory.path().join("s")).unwrap();
            let error = bind_control(&spec(&directory, 0o600)).unwrap_err().to_string();
            assert!(error.contains("another process listens on it"), "{error}");
            live.set_nonblocking(true).unwrap();
            while live.accept().is_ok() {}
            StdStream::connect(directory.path().join("s")).unwrap();
            assert_eq!(names(&directory), ["s"]);
        });
    }

    #[test]
    fn a_file_that_is_no_socket_is_never_removed() {
        in_system(|directory| {
            fs::write(directory.path().join("s"), "precious").unwrap();
            let error = bind_control(&spec(&directory, 0o600)).unwrap_err().to_string();
            assert!(error.contains("not a socket"), "{error}");
            assert_eq!(fs::read_to_string(directory.path().join("s")).unwrap(), "precious");
        });
    }

    #[test]
    fn a_socket_that_somebody_else_put_there_stays() {
        in_system(|directory| {
            let made = bind_control(&spec(&directory, 0o600)).unwrap();
            fs::remove_file(directory.path().join("s")).unwrap();
            let _other = StdListener::bind(directory.path().join("s")).unwrap();
            drop(made);
            assert_eq!(names(&directory), ["s"]);
        });
    }

    #[test]
    fn a_directory_that_does_not_exist_is_named() {
        in_system(|directory| {
            let socket = directory.path().join("none/s");
            let error = bind_control(&ControlSpec { socket: socket.clone(), mode: 0o600 }).unwrap_err();
            assert!(error.to_string().contains(socket.to_str().unwrap()), "{error}");
        });
    }
}
