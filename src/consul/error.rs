//! Errors of calls to Consul, with their texts for the log.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::printable::printable;

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// There was no response, for this reason.
    Unreachable(String),
    /// There was no complete response within this time.
    TimedOut(Duration),
    /// Consul responded with an error.
    Answered {
        /// The HTTP status.
        status: u16,
        /// The beginning of the body.
        message: String,
    },
    /// The response is not what Consul sends, for this reason.
    Garbled(String),
}

impl CallError {
    /// Whether Consul does not know the service or check of the call. Its versions report that in different ways.
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::Answered { status: 404, .. } => true,
            Self::Answered { status: 500, message } => {
                ["Unknown check", "Unknown service", "does not have associated TTL"]
                    .iter()
                    .any(|words| message.contains(words))
            }
            Self::Answered { .. } | Self::Unreachable(_) | Self::TimedOut(_) | Self::Garbled(_) => false,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(reason) => write!(f, "it cannot be reached: {}", printable(reason)),
            Self::TimedOut(limit) => write!(f, "it did not answer within {:.1}s", limit.as_secs_f64()),
            Self::Answered { status, message } if message.is_empty() => write!(f, "it answered {status}"),
            Self::Answered { status, message } => write!(f, "it answered {status}: {}", printable(message)),
            Self::Garbled(reason) => write!(f, "its answer makes no sense: {}", printable(reason)),
        }
    }
}

/// A client that cannot be set up.
#[derive(Debug)]
pub enum SetupError {
    /// A file with certificates or a key cannot be used.
    File(PathBuf, String),
    /// The TLS settings do not fit together.
    Tls(String),
    /// None of these files and folders has a trusted certificate, so no server could be verified.
    NoTrustedCertificate(Vec<PathBuf>),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, reason) => write!(f, "cannot use {}: {reason}", path.display()),
            Self::Tls(reason) => write!(f, "cannot set up TLS: {reason}"),
            Self::NoTrustedCertificate(places) => {
                let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
                write!(
                    f,
                    "cannot set up TLS: expected trusted certificates in {}, found none; name a file with them in \
                     `tls.cafile` or SSL_CERT_FILE, or do without by `tls: {{verify: false}}`",
                    places.join(" or ")
                )
            }
        }
    }
}

impl std::error::Error for SetupError {}
