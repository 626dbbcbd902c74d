//! Certificates made in the test, and a small HTTPS server that shows them.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use super::DEADLINE;

/// A folder of certificates, each with its key: `NAME.pem`, `NAME.key`.
pub struct Certificates(TempDir);

impl Certificates {
    /// None yet.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The folder, as configurations name it.
    pub fn place(&self) -> String {
        self.0.path().display().to_string()
    }

    /// Makes an authority that signs others.
    pub fn authority(&self, name: &str) {
        self.openssl(&format!("req -x509 {KEY} -keyout {name}.key -out {name}.pem -subj /CN={name} -days 2"));
    }

    /// Makes a certificate that is signed by itself, as most people do: it is that of an authority, too.
    pub fn self_signed(&self, name: &str, names: &str) {
        self.openssl(&format!(
            "req -x509 {KEY} -keyout {name}.key -out {name}.pem -subj /CN={name} -addext subjectAltName={names} -days 2"
        ));
    }

    /// Makes a certificate for these names and addresses, such as `DNS:a,IP:::1`.
    pub fn signed(&self, name: &str, authority: &str, names: &str) {
        self.openssl(&format!("req {KEY} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
        fs::write(self.path("extensions"), format!("subjectAltName={names}\n")).unwrap();
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -days 2 \
             -out {name}.pem -extfile extensions"
        ));
    }

    fn openssl(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        let output = command.args(arguments.split(' ')).current_dir(&self.0).output().unwrap();
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// Serves `well` to everybody over TLS, or to those with a certificate of `clients`; ends with the test.
/// Returns its port.
pub fn serve(certificates: &Certificates, name: &str, address: &str, clients: Option<&str>) -> u16 {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(chain(&certificates.path(&format!("{authority}.pem"))));
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let key = PrivateKeyDer::from_pem_file(certificates.path(&format!("{name}.key"))).unwrap();
    let chain = chain(&certificates.path(&format!("{name}.pem")));
    let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind(address).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            thread::spawn(move || answer(config, stream));
        }
    });
    port
}

fn chain(file: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(file).unwrap().map(Result::unwrap).collect()
}

fn answer(config: Arc<ServerConfig>, stream: TcpStream) {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let mut asked = Vec::new();
    let mut buffer = [0; 1024];
    while !asked.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => asked.extend_from_slice(&buffer[..count]),
        }
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwell");
    stream.conn.send_close_notify();
    let _ = stream.flush();
}
