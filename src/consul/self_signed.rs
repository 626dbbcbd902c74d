//! Accepts a server's certificate that is itself in `tls.cafile` or `tls.capath`, though it is that of an authority: what
//! `openssl req -x509` makes is both. rustls uses no authority's certificate for a server; Go and OpenSSL do.
//!
//! Nothing else is accepted that rustls refuses.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Verifies as rustls does, and accepts the very certificates that the user trusts.
#[derive(Debug)]
pub struct AcceptTrustedItself {
    /// The certificates of `tls.cafile` and `tls.capath`.
    pub trusted: Vec<CertificateDer<'static>>,
    /// The verifier of rustls.
    pub inner: Arc<WebPkiServerVerifier>,
}

/// Is the only reason that the server's certificate is that of an authority? webpki says so when it has checked the dates.
pub fn is_of_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(cause)) = error else { return false };
    cause.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
}

impl ServerCertVerifier for AcceptTrustedItself {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.inner.verify_server_cert(certificate, intermediates, name, ocsp_response, now);
        match verified {
            Err(error) if is_of_authority(&error) && self.trusted.contains(certificate) => {
                // Its signature is its own and proves nothing; the handshake proves that the server has its key.
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            Ok(_) | Err(_) => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::RootCertStore;
    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    /// Made by `openssl req -x509 -addext subjectAltName=DNS:localhost,IP:127.0.0.1`: CA:TRUE, valid from `BEGIN` to `END`.
    const ONE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBmjCCAT+gAwIBAgIUGPQLV9EgsXx21B5qtjm4MgJ9EpgwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MB4XDTI2MTExOTIwMzAxMVoXDTI2MTIxOTIw
MzAxMVowFDESMBAGA1UEAwwJbG9jYWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAE0ELrbpoXcBbgUydVN656nFOoOu/PwgWXkopgZA0FpxYxT8NjpOg0+4Ci
oHgN8/kvpfcgwyrb53GfURv3e2xuJaNvMG0wHQYDVR0OBBYEFG7KpURB1KfbVzP9
UiVo7b/Mi81GMB8GA1UdIwQYMBaAFG7KpURB1KfbVzP9UiVo7b/Mi81GMA8GA1Ud
EwEB/wQFMAMBAf8wGgYDVR0RBBMwEYIJbG9jYWxob3N0hwR/AAABMAoGCCqGSM49
BAMCA0kAMEYCIQCKQkn+2UTYk50vt2S7u5urkBppQHKQrbOt1JsG62a9HgIhAOLb
e5Ux9eX40Gma6x7m4gCSYvji084b2r+1NYoOi7O0
-----END CERTIFICATE-----";
    /// Made in the same way, with another key.
    const OTHER: &str = "\
-----BEGIN CERTIFICATE-----
MIIBmDCCAT+gAwIBAgIUVh1QRJQEAPfTooL01mEKwFxepNMwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MB4XDTI2MTExOTIwMzAxMVoXDTI2MTIxOTIw
MzAxMVowFDESMBAGA1UEAwwJbG9jYWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAE6eh2SOTmcu02h3STDbqObBKOPnxXBt6d2Ai8aYlqtQMQ+Sm/MXzxrQsn
eM7o9/SjbmZydTu5C0bee9VHBCK3CKNvMG0wHQYDVR0OBBYEFDqOL0/xO/kDrw2k
+bDZRJpcitO4MB8GA1UdIwQYMBaAFDqOL0/xO/kDrw2k+bDZRJpcitO4MA8GA1Ud
EwEB/wQFMAMBAf8wGgYDVR0RBBMwEYIJbG9jYWxob3N0hwR/AAABMAoGCCqGSM49
BAMCA0cAMEQCIArf/TR6ESjgBq32yiGd+4b+JnUr0FyxKJrjzw+2MXG6AiBniItc
kpIz8roEm/0OfqZms1UHFvf397EqAfInJqp7Ug==
-----END CERTIFICATE-----";
    const BEGIN: u64 = 1_795_120_211;
    const END: u64 = 1_797_712_211;

    fn certificate(text: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(text.as_bytes()).unwrap()
    }

    fn verify(trusted: &str, server: &str, name: &'static str, second: u64) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(trusted)).unwrap();
        let provider = Arc::new(ring::default_provider());
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let verifier = AcceptTrustedItself { trusted: vec![certificate(trusted)], inner };
        let (name, now) = (name.try_into().unwrap(), UnixTime::since_unix_epoch(Duration::from_secs(second)));
        verifier.verify_server_cert(&certificate(server), &[], &name, &[], now).map(drop)
    }

    fn refusal(trusted: &str, server: &str, name: &'static str, second: u64) -> Error {
        verify(trusted, server, name, second).unwrap_err()
    }

    #[test]
    fn a_self_signed_certificate_that_is_trusted_itself_is_accepted_for_its_names() {
        for name in ["localhost", "127.0.0.1"] {
            assert_eq!(verify(ONE, ONE, name, BEGIN + 60), Ok(()), "{name}");
        }
        for name in ["elsewhere.example", "127.0.0.2"] {
            let refusal = refusal(ONE, ONE, name, BEGIN + 60);
            let is_for_name =
                matches!(refusal, Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. }));
            assert!(is_for_name, "{name}: {refusal:?}");
        }
    }

    #[test]
    fn a_self_signed_certificate_that_is_trusted_itself_is_refused_outside_its_dates() {
        for second in [BEGIN - 60, END + 60] {
            let refusal = refusal(ONE, ONE, "localhost", second);
            let is_for_date = matches!(
                refusal,
                Error::InvalidCertificate(
                    CertificateError::ExpiredContext { .. } | CertificateError::NotValidYetContext { .. }
                )
            );
            assert!(is_for_date, "{refusal:?}");
        }
    }

    #[test]
    fn another_self_signed_certificate_of_the_same_name_is_refused() {
        assert!(is_of_authority(&refusal(ONE, OTHER, "localhost", BEGIN + 60)));
        assert!(is_of_authority(&refusal(OTHER, ONE, "localhost", BEGIN + 60)));
    }
}
