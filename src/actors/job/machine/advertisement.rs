//! Which status Consul has to show for a job, from its health. When that is sent is decided in the ConsulAgent's `reconcile.rs`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Action, Actions, State};
use crate::config::spec::{AdvertiseSpec, InitialStatus, JobSpec};
use crate::messages::discovery::{Registration, ServiceStatus};
use crate::messages::health::Health;

/// Decides what Consul is told about a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advertisement {
    registration: Arc<Registration>,
    initial: Option<ServiceStatus>,
    entry: ConsulEntry,
}

/// The last thing that Consul was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum ConsulEntry {
    /// Nothing: it has not served yet.
    Unlisted,
    /// It was registered before anything was known of its health.
    Provisional(ServiceStatus),
    /// It is registered with the status that its health calls for.
    Listed(ServiceStatus),
    /// It stops, and its health means nothing any more.
    Withdrawn,
}

/// The entry after a change of the job's health. `initial` is the status before anything is known of it, if it is to have one.
fn follow(entry: ConsulEntry, health: Health, initial: Option<ServiceStatus>) -> ConsulEntry {
    match (entry, health) {
        (ConsulEntry::Withdrawn, _) => ConsulEntry::Withdrawn,
        (ConsulEntry::Unlisted | ConsulEntry::Provisional(_) | ConsulEntry::Listed(_), Health::Healthy) => {
            ConsulEntry::Listed(ServiceStatus::Passing)
        }
        (
            ConsulEntry::Unlisted | ConsulEntry::Provisional(_) | ConsulEntry::Listed(_),
            Health::Maintenance,
        )
        | (ConsulEntry::Unlisted, Health::Unhealthy) => ConsulEntry::Unlisted,
        // The end of maintenance.
        (ConsulEntry::Unlisted, Health::Unknown) => {
            initial.map_or(ConsulEntry::Unlisted, ConsulEntry::Provisional)
        }
        (ConsulEntry::Provisional(status), Health::Unknown) => ConsulEntry::Provisional(status),
        // A process that has just been started again serves nobody yet.
        (ConsulEntry::Listed(_), Health::Unknown)
        | (ConsulEntry::Provisional(_) | ConsulEntry::Listed(_), Health::Unhealthy) => {
            ConsulEntry::Listed(ServiceStatus::Critical)
        }
    }
}

impl Advertisement {
    /// The advertisement of a job that has one.
    pub fn new(job: &JobSpec, host: &str) -> Option<Self> {
        let spec = job.advertise.as_ref()?;
        Some(Self {
            registration: Arc::new(registration(&job.name, spec, host)),
            initial: spec.initial_status.map(|status| match status {
                InitialStatus::Passing => ServiceStatus::Passing,
                InitialStatus::Warning => ServiceStatus::Warning,
                InitialStatus::Critical => ServiceStatus::Critical,
            }),
            entry: ConsulEntry::Unlisted,
        })
    }

    /// The job is there, or runs again after it was withdrawn; its health is that now.
    fn begin(&mut self, health: Health) -> Option<Action> {
        if !matches!(self.entry, ConsulEntry::Unlisted | ConsulEntry::Withdrawn) {
            return None;
        }
        self.entry = ConsulEntry::Unlisted;
        let status = self.initial.filter(|_| health != Health::Maintenance)?;
        self.change(ConsulEntry::Provisional(status))
    }

    /// Withdraws the job; it waits until that is done.
    pub fn withdraw(&mut self) -> Action {
        self.entry = ConsulEntry::Withdrawn;
        Action::Withdraw { id: Arc::clone(&self.registration.id), is_awaited: true }
    }

    fn change(&mut self, next: ConsulEntry) -> Option<Action> {
        if next == self.entry {
            return None;
        }
        self.entry = next;
        Some(match next {
            ConsulEntry::Provisional(status) | ConsulEntry::Listed(status) => {
                Action::Advertise(Arc::clone(&self.registration), status)
            }
            ConsulEntry::Unlisted | ConsulEntry::Withdrawn => {
                Action::Withdraw { id: Arc::clone(&self.registration.id), is_awaited: false }
            }
        })
    }
}

impl State {
    /// Its id in Consul, if it is advertised.
    pub fn service_id(&self) -> Option<&Arc<str>> {
        self.advertisement.as_ref().map(|advertisement| &advertisement.registration.id)
    }

    /// The health that Consul is told. A job without checks is healthy while its process is ready.
    fn service_health(&self) -> Health {
        if self.spec.health.is_empty() && self.is_ready() {
            return Health::Healthy;
        }
        self.checks.health()
    }

    pub(super) fn begin_advertisement(&mut self, list: &mut Actions) {
        let health = self.service_health();
        list.extend(self.advertisement.as_mut().and_then(|advertisement| advertisement.begin(health)));
    }

    /// Tells Consul what the job's health means, if that changed. A job that stops and is not checked any more
    /// keeps its entry until it is withdrawn: its pre-stop jobs find it as it was.
    pub(super) fn follow_health(&mut self, list: &mut Actions) {
        let health = self.service_health();
        if health == Health::Unknown && self.life.phase.is_stopping() {
            return;
        }
        if let Some(advertisement) = &mut self.advertisement {
            list.extend(advertisement.change(follow(advertisement.entry, health, advertisement.initial)));
        }
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
    use ConsulEntry::{Listed, Provisional, Unlisted};
    use ServiceStatus::{Critical, Passing, Warning};

    #[test]
    fn every_entry_follows_every_health() {
        let begins = (Unlisted, [Unlisted, Listed(Passing), Unlisted, Unlisted]);
        let begins_with_warning = (Unlisted, [Provisional(Warning), Listed(Passing), Unlisted, Unlisted]);
        let others = [
            (Provisional(Warning), [Provisional(Warning), Listed(Passing), Listed(Critical), Unlisted]),
            (Listed(Passing), [Listed(Critical), Listed(Passing), Listed(Critical), Unlisted]),
            (Listed(Critical), [Listed(Critical), Listed(Passing), Listed(Critical), Unlisted]),
            (ConsulEntry::Withdrawn, [ConsulEntry::Withdrawn; 4]),
        ];
        for (initial, begins) in [(None, begins), (Some(Warning), begins_with_warning)] {
            for (entry, expected) in [begins].into_iter().chain(others) {
                let healths = [Health::Unknown, Health::Healthy, Health::Unhealthy, Health::Maintenance];
                assert_eq!(healths.map(|health| follow(entry, health, initial)), expected, "{entry:?}");
            }
        }
    }
}
