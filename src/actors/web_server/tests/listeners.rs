//! How the listeners change at a reload, with real sockets.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::*;
use crate::config::spec::{ControlSpec, PageSpec, TelemetrySpec};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A web server that serves the control socket `first` and no telemetry.
struct Server {
    address: Addr<WebServer>,
    directory: tempfile::TempDir,
}

fn with_server<F: Future<Output = ()>>(test: impl FnOnce(Server) -> F) {
    System::new().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let (spec, log) =
            (spec(directory.path().join("first"), None), Logger::root(slog::Discard, slog::o!()));
        let listeners = Listeners::bind(&spec, true, &log).unwrap();
        let address = WebServer::new(listeners, &spec, state(Stub::default()), log).start();
        test(Server { address, directory }).await;
    });
}

fn spec(socket: PathBuf, port: Option<u16>) -> Spec {
    let telemetry = port.map(|port| TelemetrySpec {
        port,
        address: LOCALHOST,
        tags: vec![],
        metrics: vec![],
        page: PageSpec::Off,
    });
    Spec { control: ControlSpec { socket, mode: 0o600 }, telemetry, ..Spec::default() }
}

/// A listener of another program, and its port.
fn taken_port() -> (TcpListener, u16) {
    let listener = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn free_port() -> u16 {
    taken_port().1
}

fn is_open(port: u16) -> bool {
    TcpStream::connect(SocketAddr::new(LOCALHOST, port)).is_ok()
}

impl Server {
    fn socket(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn is_served(&self, name: &str) -> bool {
        UnixStream::connect(self.socket(name)).is_ok()
    }

    async fn prepare(&self, spec: Spec) -> Result<(), String> {
        self.address.send(PrepareListeners(Arc::new(spec))).await.unwrap()
    }

    /// Prepares that control socket and that port.
    async fn prepare_both(&self, name: &str, port: u16) -> Result<(), String> {
        self.prepare(spec(self.socket(name), Some(port))).await
    }

    async fn adopt(&self) {
        self.address.send(AdoptListeners).await.unwrap();
    }
}

#[::core::prelude::v1::test]
fn what_was_prepared_is_served_beside_the_old_and_alone_once_it_is_adopted() {
    with_server(|server| async move {
        let port = free_port();
        server.prepare_both("second", port).await.unwrap();
        assert!(server.is_served("first") && server.is_served("second") && is_open(port));
        server.adopt().await;
        assert!(!server.socket("first").exists() && server.is_served("second") && is_open(port));
        // The next configuration has no telemetry, and the same socket with another mode.
        let mut next = spec(server.socket("second"), None);
        next.control.mode = 0o640;
        server.prepare(next).await.unwrap();
        assert!(is_open(port));
        server.adopt().await;
        assert!(server.is_served("second") && !is_open(port));
        let mode = fs::metadata(server.socket("second")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    });
}

#[::core::prelude::v1::test]
fn listeners_that_cannot_all_be_bound_change_nothing() {
    with_server(|server| async move {
        let (_other, taken) = taken_port();
        let error = server.prepare_both("second", taken).await.unwrap_err();
        assert!(error.contains(&format!("cannot serve telemetry on 127.0.0.1:{taken}")), "{error}");
        let port = free_port();
        let error = server.prepare_both("no/directory", port).await.unwrap_err();
        assert!(error.contains("cannot create the control socket"), "{error}");
        assert!(server.is_served("first") && !server.socket("second").exists() && !is_open(port));
        server.adopt().await;
        assert!(server.is_served("first"), "nothing was prepared");
    });
}

#[::core::prelude::v1::test]
fn a_second_preparation_replaces_the_first_even_at_the_same_addresses() {
    with_server(|server| async move {
        let ((_, port), (_, other)) = (taken_port(), taken_port()); // both free again, and different
        server.prepare_both("second", port).await.unwrap();
        server.prepare_both("second", port).await.unwrap();
        server.prepare_both("third", other).await.unwrap();
        assert!(!server.socket("second").exists() && !is_open(port));
        server.adopt().await;
        assert!(server.is_served("third") && is_open(other));
    });
}

#[::core::prelude::v1::test]
fn listeners_of_a_reload_that_was_given_up_are_closed() {
    with_server(|server| async move {
        let port = free_port();
        server.prepare_both("second", port).await.unwrap();
        server.address.send(DiscardListeners).await.unwrap();
        assert!(server.is_served("first") && !server.socket("second").exists() && !is_open(port));
        server.adopt().await;
        assert!(server.is_served("first"), "nothing is left to adopt");
    });
}
