//! Messages to and from the ConsulAgent: registrations, withdrawals, and the queries of watches.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::{Message, Recipient};
use serde::{Deserialize, Serialize};

use crate::masking;

/// A service as it is registered in Consul.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Unique among the services of an agent.
    pub id: Arc<str>,
    /// The name that clients look up.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Consul tags.
    pub tags: Vec<String>,
    /// Consul metadata.
    pub meta: Vec<(String, String)>,
    /// Other agents may change the tags.
    pub enable_tag_override: bool,
    /// How often its status is sent again.
    pub heartbeat: Duration,
    /// How long a status is valid.
    pub ttl: Duration,
    /// Consul removes the service after it was critical for this long.
    pub deregister_critical_after: Option<Duration>,
}

/// The state of a service's check in Consul.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ServiceStatus {
    /// Shown to clients.
    Passing,
    /// Registered, with a warning.
    Warning,
    /// Registered, not shown to clients.
    Critical,
}

impl fmt::Display for ServiceStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passing => "passing",
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}

/// Command to the ConsulAgent.
#[derive(Clone, Message)]
#[rtype(result = "()")]
pub enum DiscoveryCommand {
    /// Register the service, with this status, and keep it registered.
    Advertise(Arc<Registration>, ServiceStatus),
    /// Deregister the service; the recipient is told when that is done or given up.
    Withdraw(Arc<str>, Option<Recipient<Withdrawn>>),
}

/// The service is deregistered, or that was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Withdrawn;

/// Command to the ConsulAgent: deregister all services; replies when that is done or given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct WithdrawAll;

/// A query about the catalogue or the KV store.
#[derive(Debug, Clone, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<QueryReply, QueryFailure>")]
pub struct Query {
    /// The name of the watch that asks, as `watch.NAME`.
    pub caller: Arc<str>,
    /// Distinguishes watches of the same name.
    pub generation: u64,
    /// The service or keys to look up.
    pub target: QueryTarget,
    /// Datacentre to ask; the agent's own unless given.
    pub datacentre: Option<String>,
    /// Reply when there is something newer than this index, or after that time.
    pub newer_than: Option<(u64, Duration)>,
    /// How often to ask a Consul that does not support blocking queries.
    pub interval: Duration,
}

/// Command to the ConsulAgent: this watch was removed and sends no more queries.
#[derive(Debug, Clone, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct RemoveWatch {
    /// The watch's name, as `watch.NAME`.
    pub caller: Arc<str>,
    /// Distinguishes watches of the same name.
    pub generation: u64,
}

/// The service or keys that a query looks up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueryTarget {
    /// Healthy instances of a service, with a tag if given.
    Service {
        /// Consul's name of the service.
        name: String,
        /// Only instances with this tag.
        tag: Option<String>,
    },
    /// One key of the KV store.
    Key(String),
    /// Every key below a prefix.
    Prefix(String),
}

/// Consul's reply to a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryReply {
    /// The instances or keys that exist now, in the order of Consul's ids.
    pub found: Vec<Found>,
    /// The index of that state (`X-Consul-Index`); a proxy may have removed it.
    pub index: Option<u64>,
}

/// An instance of a service, or a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Found {
    /// A healthy instance.
    Instance {
        /// Its id, unique in its datacentre together with its address.
        id: String,
        /// Its address.
        address: String,
        /// Its port.
        port: u16,
    },
    /// A key of the KV store.
    Entry {
        /// Its name.
        key: String,
        /// Differs when the value does.
        #[serde(serialize_with = "masking::number")]
        digest: u64,
    },
}

/// A query that got no reply. The ConsulAgent logs the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueryFailure {
    /// The call failed, and the pause after the failure is over: ask again.
    Failed,
    /// Consul held the query for this long, then the connection ended: ask again for an immediate reply. A proxy that
    /// closes idle connections causes this; it is an outage only if the next query fails too.
    Cut(Duration),
    /// The reply may be lost, because Consul was unreachable or was replaced by another one: ask again now.
    Interrupted,
}

/// Report to the Pilot: the result of a watch changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchChanged {
    /// The name of the watch.
    pub name: Arc<str>,
    /// Distinguishes watches of the same name: the number of the configuration that started it.
    pub generation: u64,
    /// Whether there are instances or keys; `None` before the first reply.
    pub found: Option<bool>,
}
