//! The link to Consul: made from the configuration, and made anew when that changes.

use actix::prelude::*;
use slog::{Logger, error, warn};

use super::reconcile::Known;
use super::{ConsulAgent, WITHDRAWAL_LIMIT};
use crate::config::spec::{ConsulAddress, ConsulSpec};
use crate::consul::{Client, SetupError};

/// Command: reach Consul like this from now on, or do without.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Reconnect(pub Option<ConsulSpec>);

/// The client for that Consul, if there is one.
pub fn connect(spec: Option<&ConsulSpec>, log: &Logger) -> Result<Option<Client>, SetupError> {
    let Some(spec) = spec else { return Ok(None) };
    if !spec.tls.verify && matches!(spec.address, ConsulAddress::Tcp { tls: true, .. }) {
        warn!(log, "consul.tls.verify is false: whoever answers is taken for Consul");
    }
    Client::new(spec).map(Some)
}

impl Handler<Reconnect> for ConsulAgent {
    type Result = ();

    fn handle(&mut self, Reconnect(spec): Reconnect, ctx: &mut Context<Self>) {
        let client = match connect(spec.as_ref(), &self.log) {
            Ok(client) => client,
            Err(error) => return error!(self.log, "Consul is still reached as before: {error}"),
        };
        if let Some(former) = std::mem::replace(&mut self.client, client) {
            self.leave(&former);
        }
        self.recovered.notify_waiters();
        self.go_on_with_all(ctx);
    }
}

impl ConsulAgent {
    /// Withdraws everything from a Consul that is ours no more; if it does not hear, its TTLs lapse.
    fn leave(&mut self, former: &Client) {
        for (id, service) in self.services.iter_mut().filter(|(_, service)| !service.is_absent()) {
            service.known = Known::Absent;
            let (former, id) = (former.clone(), id.clone());
            actix_rt::spawn(async move {
                let _ = former.deregister(&id, WITHDRAWAL_LIMIT).await;
            });
        }
    }
}
