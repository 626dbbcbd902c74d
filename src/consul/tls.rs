//! TLS settings as rustls needs them: the trusted certificates, and our own.
//!
//! `rustls-native-certs` was weighed: it finds the system's certificates as this does, but cannot say where it looked.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::error::SetupError;
use super::self_signed::AcceptTrustedItself;
use crate::config::spec::TlsSpec;
use crate::reason::reason;

/// The files in which systems keep their trusted certificates.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The configuration of a TLS client; reads the files that the settings name.
pub fn client_config(spec: &TlsSpec) -> Result<ClientConfig, SetupError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| SetupError::Tls(error.to_string()))?;
    let builder = if spec.verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier(spec, provider)?))
    } else {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
    };
    match (&spec.client_cert, &spec.client_key) {
        (Some(certificate), Some(key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|error| SetupError::File(certificate.clone(), error.to_string())),
        (Some(_) | None, _) => Ok(builder.with_no_client_auth()),
    }
}

/// Trusts what the settings name, else what the system trusts.
fn verifier(spec: &TlsSpec, provider: Arc<CryptoProvider>) -> Result<AcceptTrustedItself, SetupError> {
    let (roots, trusted) = roots(spec)?;
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let inner = inner.map_err(|error| SetupError::Tls(error.to_string()))?;
    Ok(AcceptTrustedItself { trusted, inner })
}

/// The authorities, and the certificates that the settings themselves name.
fn roots(spec: &TlsSpec) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), SetupError> {
    let (mut roots, mut named) = (RootCertStore::empty(), Vec::new());
    let is_named = spec.ca_file.is_some() || spec.ca_path.is_some();
    for file in trusted_files(spec)? {
        let certificates = certificates(&file)?;
        if is_named {
            named.extend_from_slice(&certificates);
        }
        let (taken, refused) = roots.add_parsable_certificates(certificates);
        if spec.ca_file.as_ref() == Some(&file) && (refused > 0 || taken == 0) {
            let reason = if refused > 0 {
                "it holds a certificate that cannot be read"
            } else {
                "it holds no certificate"
            };
            return Err(SetupError::File(file, reason.to_owned()));
        }
    }
    if roots.is_empty() {
        return Err(SetupError::NoTrustedCertificate(trusted_places(spec)));
    }
    Ok((roots, named))
}

fn trusted_files(spec: &TlsSpec) -> Result<Vec<PathBuf>, SetupError> {
    let mut files: Vec<PathBuf> = spec.ca_file.iter().cloned().collect();
    if let Some(directory) = &spec.ca_path {
        let failed = |error: std::io::Error| SetupError::File(directory.clone(), reason(&error));
        for entry in fs::read_dir(directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_file() {
                files.push(path);
            }
        }
    }
    if files.is_empty() {
        files.extend(system_places().filter(|path| path.is_file()).take(1));
    }
    Ok(files)
}

/// The places that were searched for trusted certificates.
fn trusted_places(spec: &TlsSpec) -> Vec<PathBuf> {
    let given: Vec<PathBuf> = spec.ca_file.iter().chain(&spec.ca_path).cloned().collect();
    if given.is_empty() { system_places().collect() } else { given }
}

/// The places of the system's trusted certificates; the first file that exists counts.
fn system_places() -> impl Iterator<Item = PathBuf> {
    let named = std::env::var_os("SSL_CERT_FILE");
    named.into_iter().chain(SYSTEM_FILES.map(OsString::from)).map(PathBuf::from)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let failed = |error: rustls::pki_types::pem::Error| SetupError::File(file.to_owned(), reason(&error));
    CertificateDer::pem_file_iter(file).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)
}

/// Reads a key; errors contain nothing of it.
fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, SetupError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| {
        let reason = if let rustls::pki_types::pem::Error::Io(error) = error {
            reason(&error)
        } else {
            "expected a private key in PEM form".to_owned()
        };
        SetupError::File(file.to_owned(), reason)
    })
}

/// `verify: false`: accepts any certificate.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
