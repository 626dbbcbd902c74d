//! The link to Consul: made from the configuration, and made anew when that changes.

use std::rc::Rc;
use std::sync::Arc;

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
        self.link += 1;
        self.questions = Rc::default();
        self.hopeless = false;
        if let Some(former) = std::mem::replace(&mut self.client, client) {
            self.leave(&former);
        }
        self.recovered.notify_waiters();
        self.resumed.notify_waiters();
        self.go_on_with_all(ctx);
    }
}

impl ConsulAgent {
    /// Whether that client talks to another Consul than ours.
    fn is_elsewhere(&self, former: &Client) -> bool {
        self.client.as_ref().is_none_or(|client| !client.has_address_of(former))
    }

    /// Everything is registered anew: with another Consul after it is withdrawn from the former one, or with the same
    /// one, which keeps the token of each registration.
    fn leave(&mut self, former: &Client) {
        let elsewhere = self.is_elsewhere(former);
        if elsewhere {
            self.forget_outage();
            self.silent_since = None;
            self.unserved_since = None;
        }
        for (id, service) in self.services.iter_mut().filter(|(_, service)| service.may_be_known()) {
            service.failures = 0;
            service.known = if elsewhere { Known::Absent } else { Known::Uncertain };
            if elsewhere && !service.in_flight {
                withdraw_from(former, id);
            }
        }
    }

    /// A call that was under way when the link changed is over: what it did, it did to the former Consul.
    pub(super) fn conclude_over_former_link(
        &mut self,
        id: &Arc<str>,
        former: &Client,
        ctx: &mut Context<Self>,
    ) {
        if self.is_elsewhere(former) {
            withdraw_from(former, id);
        }
        if let Some(service) = self.services.get_mut(id) {
            service.in_flight = false;
            self.go_on(id, false, ctx);
        }
    }
}

/// Withdraws a service from a Consul that is ours no more; if that does not hear, its TTL lapses.
fn withdraw_from(former: &Client, id: &Arc<str>) {
    let (former, id) = (former.clone(), Arc::clone(id));
    actix_rt::spawn(async move {
        let _ = former.deregister(&id, WITHDRAWAL_LIMIT).await;
    });
}
