//! The places where we listen. The control socket appears with its final permissions and already listening, in
//! one step; one that another process serves is never taken away, one that nobody serves is replaced.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use actix_rt::task::JoinHandle;
use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{Mode, fchmod};
use tokio::net::{TcpListener, UnixListener};

use super::connection::{Connections, Serve, Socket};
use crate::config::spec::{ControlSpec, TelemetrySpec};
use crate::reason::reason;

/// How long we wait after the system refused to accept, for lack of file descriptors perhaps.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A control socket's file. It is ours as long as it is the one that we made.
#[derive(Debug)]
pub struct SocketFile {
    spec: ControlSpec,
    identity: (u64, u64),
}

impl SocketFile {
    /// What was asked for.
    pub fn spec(&self) -> &ControlSpec {
        &self.spec
    }

    /// Whether nobody has removed it.
    pub fn exists(&self) -> bool {
        is_socket(&self.spec.socket)
    }

    /// Gives it other permissions, if it has others.
    pub fn set_mode(&mut self, mode: u32) -> io::Result<()> {
        if mode == self.spec.mode {
            return Ok(());
        }
        fs::set_permissions(&self.spec.socket, fs::Permissions::from_mode(mode))?;
        self.spec.mode = mode;
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

/// Something that accepts connections.
#[derive(Debug)]
pub enum Listener {
    /// The control socket.
    Unix(UnixListener),
    /// The telemetry port.
    Tcp(TcpListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| Socket::Unix(stream)),
            Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| Socket::Tcp(stream)),
        }
    }

    /// The next who comes.
    async fn next(&self) -> Socket {
        loop {
            match self.accept().await {
                Ok(socket) => return socket,
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    /// Serves whoever comes, with what `serve` resolves to, until the returned task is aborted. That is asked for when
    /// the first one comes: often nobody does, and jobs would wait for it.
    pub fn serve(
        self,
        serve: impl Future<Output = Option<Serve>> + 'static,
        connections: Connections,
    ) -> JoinHandle<()> {
        actix_rt::spawn(async move {
            let first = self.next().await;
            let Some(serve) = serve.await else { return };
            connections.add(first, &serve);
            loop {
                connections.add(self.next().await, &serve);
            }
        })
    }
}

/// Listens on the telemetry port.
pub fn bind_telemetry(spec: &TelemetrySpec) -> io::Result<Listener> {
    let address = SocketAddr::new(spec.address, spec.port);
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
    // Beside it, since a rename works only within one file system, and longer by one byte only: paths are short.
    let mut temporary = spec.socket.clone().into_os_string();
    temporary.push("~");
    let temporary = PathBuf::from(temporary);
    if is_socket(&temporary) {
        fs::remove_file(&temporary)?; // of a start that did not get this far
    }
    let socket = listening_socket(&temporary, spec.mode)?;
    let made = || {
        // The mask of the process may have taken bits away at the bind.
        fs::set_permissions(&temporary, fs::Permissions::from_mode(spec.mode))?;
        let identity = identity(&temporary)?;
        let listener = UnixListener::from_std(socket.into())?;
        fs::rename(&temporary, &spec.socket)?;
        Ok((Listener::Unix(listener), SocketFile { spec: spec.clone(), identity }))
    };
    made().inspect_err(|_| {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    })
}

fn listening_socket(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let socket = unix_socket()?;
    // The kernel gives the file the permissions that the socket has when it is bound.
    fchmod(socket.as_fd(), Mode::from_bits_truncate(mode))?;
    socket::bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    socket::listen(&socket, Backlog::MAXCONN)?;
    Ok(socket)
}

fn unix_socket() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?)
}

/// Only what nobody listens on may be replaced.
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
        // A full queue of connections is a sign of life, too.
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
            let task = listener.serve(serving, Connections::default());
            tokio::task::yield_now().await;
            assert!(is_made.try_recv().is_err());
            let mut client = tokio::net::UnixStream::connect(directory.path().join("s")).await.unwrap();
            is_made.await.unwrap();
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "served to its end");
            task.abort();
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
