//! How a job stands with Consul: what its health means there, told to the ConsulAgent when it changes.

use std::sync::Arc;

use actix::prelude::Recipient;

use crate::config::spec::{AdvertiseSpec, InitialStatus, JobSpec};
use crate::messages::discovery::{DiscoveryCommand, Registration, ServiceStatus, Withdrawn};
use crate::messages::health::Health;

/// The way to the ConsulAgent, for those who advertise.
#[derive(Clone)]
pub struct Discovery {
    /// Where it takes commands.
    pub agent: Recipient<DiscoveryCommand>,
    /// This host's name, a part of service ids.
    pub host: Arc<str>,
}

/// What Consul is told of a job.
pub struct Advertisement {
    agent: Recipient<DiscoveryCommand>,
    registration: Arc<Registration>,
    initial: Option<ServiceStatus>,
    standing: Standing,
}

/// What was told last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Nothing: it has not served yet.
    Unlisted,
    /// It was registered before anything was known of its health.
    Provisional(ServiceStatus),
    /// It is registered with the status that its health calls for.
    Listed(ServiceStatus),
    /// It stops, and its health means nothing any more.
    Withdrawn,
}

/// What the job's health makes of its standing.
fn follow(standing: Standing, health: Health) -> Standing {
    match (standing, health) {
        (Standing::Withdrawn, _) => Standing::Withdrawn,
        (Standing::Unlisted | Standing::Provisional(_) | Standing::Listed(_), Health::Healthy) => {
            Standing::Listed(ServiceStatus::Passing)
        }
        (Standing::Unlisted | Standing::Provisional(_) | Standing::Listed(_), Health::Maintenance)
        | (Standing::Unlisted, Health::Unknown | Health::Unhealthy) => Standing::Unlisted,
        (Standing::Provisional(status), Health::Unknown) => Standing::Provisional(status),
        // A process that has just been started again serves nobody yet.
        (Standing::Listed(_), Health::Unknown)
        | (Standing::Provisional(_) | Standing::Listed(_), Health::Unhealthy) => {
            Standing::Listed(ServiceStatus::Critical)
        }
    }
}

impl Advertisement {
    /// The advertisement of a job that has one.
    pub fn new(job: &JobSpec, discovery: &Discovery) -> Option<Self> {
        let spec = job.advertise.as_ref()?;
        Some(Self {
            agent: discovery.agent.clone(),
            registration: Arc::new(registration(&job.name, spec, &discovery.host)),
            initial: spec.initial_status.map(|status| match status {
                InitialStatus::Passing => ServiceStatus::Passing,
                InitialStatus::Warning => ServiceStatus::Warning,
                InitialStatus::Critical => ServiceStatus::Critical,
            }),
            standing: Standing::Unlisted,
        })
    }

    /// The job is there, or runs again after it was withdrawn; its health is that now.
    pub fn begin(&mut self, health: Health) {
        if !matches!(self.standing, Standing::Unlisted | Standing::Withdrawn) {
            return;
        }
        self.standing = Standing::Unlisted;
        if let Some(status) = self.initial.filter(|_| health != Health::Maintenance) {
            self.change(Standing::Provisional(status));
        }
    }

    /// Tells Consul if the job's health means something else than it was told last.
    pub fn follow(&mut self, health: Health) {
        self.change(follow(self.standing, health));
    }

    /// Withdraws the job; `reply` hears when that is done.
    pub fn withdraw(&mut self, reply: Option<Recipient<Withdrawn>>) {
        self.standing = Standing::Withdrawn;
        self.agent.do_send(DiscoveryCommand::Withdraw(Arc::clone(&self.registration.id), reply));
    }

    fn change(&mut self, next: Standing) {
        if next == self.standing {
            return;
        }
        self.standing = next;
        self.agent.do_send(match next {
            Standing::Provisional(status) | Standing::Listed(status) => {
                DiscoveryCommand::Advertise(Arc::clone(&self.registration), status)
            }
            Standing::Unlisted | Standing::Withdrawn => {
                DiscoveryCommand::Withdraw(Arc::clone(&self.registration.id), None)
            }
        });
    }
}

fn registration(name: &str, spec: &AdvertiseSpec, host: &str) -> Registration {
    Registration {
        id: format!("{name}-{host}").into(),
        name: name.to_owned(),
        address: spec.address,
        port: spec.port,
        tags: spec.tags.clone(),
        meta: spec.meta.clone(),
        enable_tag_override: spec.enable_tag_override,
        heartbeat: spec.heartbeat,
        ttl: spec.ttl,
        deregister_critical_after: spec.deregister_critical_after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ServiceStatus::{Critical, Passing, Warning};
    use Standing::{Listed, Provisional, Unlisted};

    #[test]
    fn every_standing_follows_every_health() {
        let table = [
            (Unlisted, [Unlisted, Listed(Passing), Unlisted, Unlisted]),
            (Provisional(Warning), [Provisional(Warning), Listed(Passing), Listed(Critical), Unlisted]),
            (Listed(Passing), [Listed(Critical), Listed(Passing), Listed(Critical), Unlisted]),
            (Listed(Critical), [Listed(Critical), Listed(Passing), Listed(Critical), Unlisted]),
            (Standing::Withdrawn, [Standing::Withdrawn; 4]),
        ];
        for (standing, expected) in table {
            let healths = [Health::Unknown, Health::Healthy, Health::Unhealthy, Health::Maintenance];
            assert_eq!(healths.map(|health| follow(standing, health)), expected, "{standing:?}");
        }
    }
}
