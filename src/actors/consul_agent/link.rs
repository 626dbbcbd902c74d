//! The link to Consul: made from the configuration, and made anew when that changes.

use std::rc::Rc;

use actix::prelude::*;
use slog::{Logger, error, warn};

use super::ConsulAgent;
use super::machine::{Input, Link};
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
        let number = self.next_number();
        let address = client.as_ref().map(|client| client.address().clone());
        self.clients.extend(client.map(|client| (number, client)));
        self.query_pool = Rc::default();
        self.advance(Input::Reconnected(Link { number, address }), ctx);
    }
}
