//! What is said to and by the ConsulAgent: what to advertise, what to withdraw, what is observed.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::{Message, Recipient};

/// A service as Consul is to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Unique among the services of an agent.
    pub id: Arc<str>,
    /// What clients ask for.
    pub name: String,
    /// Where it is found.
    pub address: IpAddr,
    /// On which port.
    pub port: u16,
    /// Consul tags.
    pub tags: Vec<String>,
    /// Consul metadata.
    pub meta: Vec<(String, String)>,
    /// Let other agents change our tags.
    pub enable_tag_override: bool,
    /// How often we repeat its status.
    pub heartbeat: Duration,
    /// How long Consul believes it.
    pub ttl: Duration,
    /// Consul forgets the service after it was critical for this long.
    pub deregister_critical_after: Option<Duration>,
}

/// The state of a service's check in Consul.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ServiceStatus {
    /// Served to clients.
    Passing,
    /// Known, with a warning.
    Warning,
    /// Known, not served.
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
    /// Have the service registered, with this status.
    Advertise(Arc<Registration>, ServiceStatus),
    /// Have the service registered no more; its owner is told when that is so, or is given up.
    Withdraw(Arc<str>, Option<Recipient<Withdrawn>>),
}

/// Consul does not know the service any more, as far as we could see to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Withdrawn;

/// Command to the ConsulAgent: withdraw everything; answered when that is done or given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct WithdrawAll;

/// A question about the catalogue or the KV store.
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "Result<Answer, Unanswered>")]
pub struct Query {
    /// Who asks; to tell whether everybody is served again after an outage.
    pub asker: Arc<str>,
    /// What is asked for.
    pub sought: Sought,
    /// Datacentre to ask; the agent's own unless given.
    pub datacentre: Option<String>,
    /// Answer when there is something newer than this, or after that time.
    pub newer_than: Option<(u64, Duration)>,
    /// How often to ask where nothing can be waited for.
    pub interval: Duration,
    /// How many questions of the asker have failed in a row before this one.
    pub failures: u32,
}

/// What can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sought {
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

/// What Consul answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What there is now, in the order of Consul's ids.
    pub found: Vec<Found>,
    /// Consul's index of that state, as it came; it may be missing behind a proxy.
    pub index: Option<u64>,
}

/// An instance of a service, or a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// A healthy instance.
    Instance {
        /// Its id, unique in its datacentre together with its address.
        id: String,
        /// Where it is found.
        address: String,
        /// On which port.
        port: u16,
    },
    /// A key of the KV store.
    Entry {
        /// Its name.
        key: String,
        /// Differs when the value does.
        digest: u64,
    },
}

/// There is no answer; why is the ConsulAgent's to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// Something went wrong, and the pause after it is over: ask again.
    Failed,
    /// Consul held the question and then the connection ended, after this time: ask again for an answer now. A proxy
    /// that ends silent connections does so; it is trouble only if the next question fails too.
    Cut(Duration),
    /// Consul is back after an outage, and an answer may have been lost: ask again now.
    Interrupted,
}
