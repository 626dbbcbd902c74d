//! Consul in the validated configuration: how to reach it, what is advertised in it, what is observed.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::masking;

/// A job's registration in Consul.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdvertiseSpec {
    /// The port it listens on.
    pub port: u16,
    /// The address it is found at, chosen by `interfaces`.
    pub address: IpAddr,
    /// Consul tags.
    pub tags: Vec<String>,
    /// Consul metadata.
    pub meta: Vec<(String, String)>,
    /// Register at once, with this status, instead of at the first pass.
    pub initial_status: Option<InitialStatus>,
    /// How often a healthy job says so.
    pub heartbeat: Duration,
    /// How long Consul believes it.
    pub ttl: Duration,
    /// Let other agents change our tags.
    pub enable_tag_override: bool,
    /// Consul forgets the service after it was critical for this long.
    pub deregister_critical_after: Option<Duration>,
}

/// The status with which a service is first registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum InitialStatus {
    /// Served to clients at once.
    Passing,
    /// Known, with a warning.
    Warning,
    /// Known, not served.
    Critical,
}

/// How to reach Consul.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsulSpec {
    /// Where its HTTP API listens.
    pub address: ConsulAddress,
    /// ACL token.
    pub token: Option<Secret>,
    /// TLS settings; used with `https`.
    pub tls: TlsSpec,
}

/// A value that must never be printed. It is serialised as it is, except into a record.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(#[serde(serialize_with = "masking::text")] String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: String) -> Self {
        Self(value)
    }

    /// The value itself, to be sent and never logged.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Where Consul's HTTP API listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConsulAddress {
    /// `http` or `https`, host and port.
    Tcp {
        /// Whether to use TLS.
        tls: bool,
        /// Host name or address; IPv6 without brackets.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// A unix socket.
    Unix(PathBuf),
}

/// TLS settings of a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TlsSpec {
    /// File with trusted certificates.
    pub ca_file: Option<PathBuf>,
    /// Directory with trusted certificates.
    pub ca_path: Option<PathBuf>,
    /// Our own certificate.
    pub client_cert: Option<PathBuf>,
    /// Our own key.
    pub client_key: Option<PathBuf>,
    /// Name that the server's certificate must bear.
    pub server_name: Option<String>,
    /// Whether the server's certificate is checked.
    pub verify: bool,
}

/// Something observed in Consul.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchSpec {
    /// The name of its events' source, without `watch.`; unique among watches.
    pub name: Arc<str>,
    /// What is observed.
    pub target: WatchTarget,
    /// How often to ask where blocking queries do not work.
    pub interval: Duration,
    /// Datacentre to ask.
    pub datacentre: Option<String>,
    /// Whether it begins when every coprocess has been started, instead of at startup.
    pub after_coprocesses: bool,
}

impl WatchSpec {
    /// Whether both observe the same thing in the same way, whenever they began.
    pub fn observes_like(&self, other: &Self) -> bool {
        let Self { name, target, interval, datacentre, after_coprocesses: _ } = self;
        (name, target, interval, datacentre)
            == (&other.name, &other.target, &other.interval, &other.datacentre)
    }
}

/// What a watch observes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchTarget {
    /// Healthy instances of a service, with a tag if given.
    Service {
        /// Consul's name of the service.
        service: String,
        /// Only instances with this tag.
        tag: Option<String>,
    },
    /// One key of the KV store.
    Key(String),
    /// Every key below a prefix.
    Prefix(String),
}
