//! The parts of a configuration beside jobs, as users write them.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::field::{List, OneOrMany, Opt};
use super::scalar::{Flag, Mode, PageSetting, Port, Scalar, Size, Time};
use crate::config::spec::{LogFormat, MetricKind};

/// How to reach Consul.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(expecting = "an address such as \"localhost:8500\", or an object with `address`")]
#[cfg_attr(test, schemars(untagged))]
pub enum RawConsul {
    /// `host:port`, a `http://` or `https://` URL, or `unix:///path`.
    #[serde(rename = "string")]
    Address(String),
    /// Address, token and TLS settings.
    #[serde(rename = "object")]
    Settings(Box<RawConsulSettings>),
}

/// Address, token and TLS settings of Consul.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawConsulSettings {
    /// `host:port`, a `http://` or `https://` URL, or `unix:///path`. Default: CONSUL_HTTP_ADDR, or 127.0.0.1:8500.
    pub address: Opt<String>,
    /// "http" or "https". Default "http".
    pub scheme: Opt<RawScheme>,
    /// The ACL token; CONSUL_HTTP_TOKEN overrides it.
    pub token: Opt<Scalar>,
    /// TLS settings, used with "https".
    pub tls: Opt<RawTls>,
}

/// Protocols that Consul speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum RawScheme {
    /// Plain text.
    Http,
    /// TLS.
    Https,
}

/// TLS settings of a client, Consul's or an http check's. The variables override those of Consul.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "lowercase")]
pub struct RawTls {
    /// A file with trusted certificates (Consul: CONSUL_CACERT). Default what the system trusts.
    pub cafile: Opt<String>,
    /// A directory with trusted certificates (Consul: CONSUL_CAPATH).
    pub capath: Opt<String>,
    /// Our certificate (Consul: CONSUL_CLIENT_CERT).
    pub clientcert: Opt<String>,
    /// Our key (Consul: CONSUL_CLIENT_KEY).
    pub clientkey: Opt<String>,
    /// The name or address that the server's certificate must be for (Consul: CONSUL_TLS_SERVER_NAME). Default the host.
    pub servername: Opt<String>,
    /// Whether the server's certificate is checked (Consul: CONSUL_HTTP_SSL_VERIFY). Default true.
    pub verify: Opt<Flag>,
}

/// A service or key to observe in Consul.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawWatch {
    /// The service to observe, and the name of its events' source: `watch.NAME`.
    pub name: Opt<String>,
    /// How often to ask where Consul's blocking queries do not work, at least 1ms. Default 10s.
    pub interval: Opt<Time>,
    /// Observes only instances with this tag.
    pub tag: Opt<Scalar>,
    /// The datacentre to ask.
    pub dc: Opt<String>,
    /// Another name for its events' source, to observe one service twice.
    #[serde(rename = "as")]
    pub alias: Opt<String>,
    /// Observes this key of the KV store instead of a service.
    pub key: Opt<String>,
    /// Observes all keys below this prefix of the KV store instead of a service.
    pub prefix: Opt<String>,
}

/// The control socket.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawControl {
    /// The path of the unix socket. Default /var/run/containerpilot.socket.
    pub socket: Opt<String>,
    /// The permission bits of the socket, in octal digits. Default "0600".
    pub mode: Opt<Mode>,
}

/// Metrics and their HTTP endpoint.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawTelemetry {
    /// The TCP port of `/metrics` and `/status`. Default 9090.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub port: Opt<Port>,
    /// Which address to bind and advertise, as for jobs. Default ["eth0:inet", "inet"].
    pub interfaces: Opt<OneOrMany<String>>,
    /// Tags of the service in Consul.
    pub tags: Opt<OneOrMany<Scalar>>,
    /// Whether a page for browsers is at `/`: jobs, their graph, a timeline and events; with "full" also the output and the crashes of
    /// jobs. Default false.
    pub page: Opt<PageSetting>,
    /// Metrics of your own, set through the control socket.
    pub metrics: Opt<List<RawMetric>>,
}

/// A metric of your own.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawMetric {
    /// The first part of its full name.
    pub namespace: Opt<String>,
    /// The second part of its full name.
    pub subsystem: Opt<String>,
    /// The last part of its full name.
    pub name: Opt<String>,
    /// Its explanation for readers.
    pub help: Opt<String>,
    /// What it counts or measures.
    #[serde(rename = "type")]
    pub kind: Opt<MetricKind>,
}

/// Level, format and destination of the log.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawLogging {
    /// Records below this level are not written. Default INFO.
    pub level: Opt<RawLevel>,
    /// How a record looks. Default "default".
    pub format: Opt<LogFormat>,
    /// "stdout", "stderr" or the path of a file. Default "stdout".
    pub output: Opt<String>,
    /// How much of the last output of each job is kept in memory for `logs`; "0" keeps nothing. Default "64KiB".
    pub keep: Opt<Size>,
}

/// Levels of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum RawLevel {
    /// Every event and decision.
    Debug,
    /// What an operator likes to know.
    Info,
    /// What an operator should look at.
    Warn,
    /// The same as WARN.
    Warning,
    /// What went wrong.
    Error,
    /// What ends the program.
    Fatal,
    /// The same as FATAL.
    Panic,
}
