//! Our own service in Consul, under which our metrics are found.

use std::sync::Arc;
use std::time::Duration;

use crate::config::spec::TelemetrySpec;
use crate::messages::discovery::Registration;

/// Its name.
pub const NAME: &str = "containerpilot";
/// How often it tells Consul that it is there, and how long that holds.
const HEARTBEAT: Duration = Duration::from_secs(5);
const TTL: Duration = Duration::from_secs(15);

/// How it is registered.
pub fn own_service(spec: &TelemetrySpec) -> Registration {
    let mut tags = spec.tags.clone();
    tags.push(env!("CARGO_PKG_VERSION").to_owned());
    Registration {
        id: format!("{NAME}-{}", host_name()).into(),
        name: NAME.to_owned(),
        address: spec.address,
        port: spec.port,
        tags,
        meta: Vec::new(),
        enable_tag_override: false,
        heartbeat: HEARTBEAT,
        ttl: TTL,
        deregister_critical_after: None,
    }
}

/// This host's name, a part of service ids.
pub fn host_name() -> Arc<str> {
    let name = nix::unistd::gethostname().unwrap_or_default();
    name.to_string_lossy().into()
}
