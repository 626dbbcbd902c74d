//! Questions of clients that only the Pilot can answer: the configuration in force, and which events can still come.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::prelude::Message;

use crate::config::spec::Spec;
use crate::messages::account::Awaited;

/// Question to the Pilot, about this job and those that it waits for, or about none. It changes nothing.
#[derive(Debug, Message)]
#[rtype(result = "Knowledge")]
pub struct Inquire(pub Option<String>);

/// The Pilot's answer.
#[derive(Debug, Clone)]
pub struct Knowledge {
    /// The configuration in force.
    pub spec: Arc<Spec>,
    /// The job that was asked about and all that it waits for, through any chain: the events of their `when`.
    pub awaited: BTreeMap<Arc<str>, Vec<Awaited>>,
}
