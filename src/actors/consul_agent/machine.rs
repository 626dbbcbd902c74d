//! The decisions of the ConsulAgent: what to register and withdraw and when, which queries are open, and when trouble
//! with Consul is logged. Pure: no clock, no network.
//!
//! `services` decides about registrations, `queries` about the queries of watches, and both report here whether
//! Consul served them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::actors::machine::{Kind, Machine};
use crate::config::spec::ConsulAddress;
use crate::messages::discovery::{Query, QueryFailure, QueryReply, Registration, RemoveWatch, ServiceStatus};
use crate::messages::moment::Moment;
use crate::messages::status::DiscoveryFailure;

pub mod feed;
pub mod outage;
mod patience;
mod queries;
pub mod query_way;
pub mod reconcile;
pub mod retry;
pub mod services;
mod telling;
#[cfg(test)]
mod tests;

use outage::{Outage, Trouble};
use patience::Patience;
use queries::Caller;
use reconcile::Call;
use services::Service;

/// Everything that the agent knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    link: Link,
    services: BTreeMap<Arc<str>, Service>,
    /// The number of the latest withdrawal that somebody waits for.
    withdrawals: u64,
    /// How many services each waiter still waits for.
    waiters: BTreeMap<u64, usize>,
    maintenance: bool,
    /// A withdrawal did not succeed within its time limit, and no call has succeeded since. Nobody waits for the next
    /// withdrawals, so that many of them do not add up their limits.
    is_withdrawal_hopeless: bool,
    /// How long the shutdown still waits for withdrawals; `None` before it.
    patience: Option<Patience>,
    /// Our own service, which is registered from startup to shutdown.
    own_service: Option<Arc<Registration>>,
    /// Between startup and shutdown.
    is_serving: bool,
    /// The watches that have sent a query, by the name under which they did.
    callers: BTreeMap<Arc<str>, Caller>,
    outage: Outage,
    /// The trouble that is shown.
    shown: Option<String>,
    /// The first call without any reply, while no call has succeeded since.
    unreachable_since: Option<Moment>,
    /// The first call that failed in any way, while no call has succeeded since.
    failing_since: Option<Moment>,
}

/// The way to Consul. Each change of the configuration makes another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Unique among links.
    pub number: u64,
    /// The address of Consul; `None`: there is none, so nothing is registered and no query sent.
    pub address: Option<ConsulAddress>,
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFailure {
    /// The kind of failure.
    pub trouble: Trouble,
    /// Consul replied that it does not know the service.
    pub is_unknown: bool,
    /// The reason, in words.
    pub reason: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// A job is to be registered with this status.
    Advertised(Arc<Registration>, ServiceStatus),
    /// A service is to be deregistered. The waiter is released when that is done or given up.
    Withdrawn {
        /// The service's id.
        id: Arc<str>,
        /// The number of whoever waits for it.
        waiter: Option<u64>,
    },
    /// Every service is to be deregistered. The waiter is released when that is done or given up.
    AllWithdrawn {
        /// The number of whoever waits for it.
        waiter: u64,
    },
    /// The withdrawal of that number has taken as long as a stopping job can wait.
    WithdrawalLimitElapsed(Arc<str>, u64),
    /// The timer of a service has elapsed.
    TimerElapsed {
        /// The service's id.
        id: Arc<str>,
        /// It is time for a heartbeat, not for another try.
        is_heartbeat: bool,
    },
    /// A call about a service is over.
    CallEnded {
        /// The service's id.
        id: Arc<str>,
        /// The call.
        call: Call,
        /// The number of the link that it was made over.
        link: u64,
        /// Its result.
        result: Result<(), CallFailure>,
        /// A random number between 0 and 1.
        random: f64,
    },
    /// The program has started up.
    StartedUp,
    /// The program begins to shut down.
    ShuttingDown,
    /// The container entered or left maintenance.
    MaintenanceChanged(bool),
    /// The configuration of our own service has changed.
    OwnServiceChanged(Option<Registration>),
    /// The configuration of Consul has changed; this is the link from now on.
    Reconnected(Link),
    /// A watch sent a query.
    QueryRequested {
        /// The number of the query.
        number: u64,
        /// The query.
        query: Query,
        /// A random number between 0 and 1.
        random: f64,
    },
    /// A query is over.
    QueryEnded {
        /// The watch that sent it.
        caller: Arc<str>,
        /// The number of the query.
        number: u64,
        /// Its result.
        result: Result<QueryReply, CallFailure>,
        /// A random number between 0 and 1.
        random: f64,
    },
    /// The pause after a failed query is over.
    PauseElapsed {
        /// The watch that sent it.
        caller: Arc<str>,
        /// The number of the query.
        number: u64,
    },
    /// A watch was removed from the configuration.
    WatchRemoved(RemoveWatch),
}

/// Something that the actor is to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Action {
    /// Make this call over that link, and report [`Input::CallEnded`].
    Call(Arc<Registration>, Call, u64),
    /// Deregister a service over a former link, for at most [`services::WITHDRAWAL_LIMIT`], and report [`Input::CallEnded`]. The
    /// result is of no matter: if it fails, the TTL lapses.
    DeregisterOverFormer(Arc<str>, u64),
    /// No call uses this link any more.
    CloseLink(u64),
    /// Report [`Input::TimerElapsed`] for that service after this time.
    StartTimer {
        /// The service's id.
        id: Arc<str>,
        /// The time.
        wait: Duration,
        /// Passed on to the input.
        is_heartbeat: bool,
    },
    /// Cancel the timer of that service.
    CancelTimer(Arc<str>),
    /// Report [`Input::WithdrawalLimitElapsed`] for that service, with that number, after this time.
    StartWithdrawalLimit(Arc<str>, u64, Duration),
    /// Tell this waiter that its services are withdrawn.
    Release(u64),
    /// Send this query to Consul, and report [`Input::QueryEnded`].
    Query(u64, Query),
    /// Drop the query of that number, and the watch's claim to a reply.
    DropQuery(u64),
    /// Report [`Input::PauseElapsed`] after this time.
    Pause {
        /// The watch that sent the query.
        caller: Arc<str>,
        /// The number of the query.
        number: u64,
        /// The time.
        wait: Duration,
    },
    /// Give the watch this reply to the query of that number, and drop the query if it is still open.
    Reply(u64, Result<QueryReply, QueryFailure>),
    /// Count a call in the metrics.
    Count {
        /// Whether Consul replied as it should.
        answered: bool,
    },
    /// Show how long it took until Consul knew the latest change of a service.
    ShowLag(Duration),
    /// Show what is wrong with Consul, if anything is.
    ShowTrouble(Option<String>),
    /// Show why the last call for this job or watch failed; `None`: it did not.
    ShowFailure(Arc<str>, Option<DiscoveryFailure>),
    /// Write this into the log.
    Log(Remark),
}

/// A line for the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Remark {
    /// A call about a service succeeded.
    Done(Arc<str>, Call),
    /// Consul does not know this service, although it was registered.
    Forgotten(Arc<str>),
    /// A call for a service or watch failed, for this reason.
    Failed(Arc<str>, String),
    /// The same, and it is the first failure of its kind.
    InTrouble(Arc<str>, String),
    /// Consul is back for everybody that it does not refuse, after this time.
    Recovered(Duration),
    /// The last watch in trouble was removed.
    NoTroubleLeft,
    /// Consul held the query of a watch for this long, then the connection ended for this reason.
    Cut(Arc<str>, Duration, String),
}

impl State {
    /// An agent that has registered nothing yet.
    pub fn new(link: Link, own_service: Option<Registration>) -> Self {
        Self {
            link,
            services: BTreeMap::new(),
            withdrawals: 0,
            waiters: BTreeMap::new(),
            maintenance: false,
            is_withdrawal_hopeless: false,
            patience: None,
            own_service: own_service.map(Arc::new),
            is_serving: false,
            callers: BTreeMap::new(),
            outage: Outage::default(),
            shown: None,
            unreachable_since: None,
            failing_since: None,
        }
    }

    /// The number of the present link.
    pub const fn link(&self) -> u64 {
        self.link.number
    }

    /// Our own service is registered from startup to shutdown.
    fn serve(&mut self, now: Moment, is_serving: bool, actions: &mut Vec<Action>) {
        self.is_serving = is_serving;
        match self.own_service.clone() {
            Some(own) if is_serving => self.advertise(now, own, ServiceStatus::Passing, actions),
            Some(own) => self.withdraw(now, &own.id, None, actions),
            None => {}
        }
    }

    fn change_own_service(&mut self, now: Moment, own: Option<Registration>, actions: &mut Vec<Action>) {
        let is_serving = self.is_serving;
        self.serve(now, false, actions);
        self.own_service = own.map(Arc::new);
        self.serve(now, is_serving, actions);
    }

    fn reconnected(&mut self, link: Link, actions: &mut Vec<Action>) {
        let former = std::mem::replace(&mut self.link, link);
        self.is_withdrawal_hopeless = false;
        if former.address.is_some() {
            let is_elsewhere = former.address != self.link.address;
            if is_elsewhere {
                self.forget_outage(actions);
                self.unreachable_since = None;
                self.failing_since = None;
            }
            self.leave(&former, is_elsewhere, actions);
        }
        // The replies of another Consul are of no use, and a pause was meant for a Consul in trouble.
        self.interrupt_queries(actions);
        self.end_pauses(actions);
        self.reconcile_all(actions);
        self.close_unused(former.number, actions);
    }
}

impl Machine for State {
    type Input = Input;
    type Action = Action;
    const KIND: Kind = Kind::ConsulAgent;

    fn step(&mut self, now: Moment, input: Input) -> Vec<Action> {
        let mut actions = Vec::new();
        let list = &mut actions;
        match input {
            Input::Advertised(registration, status) => self.advertise(now, registration, status, list),
            Input::Withdrawn { id, waiter } => self.withdraw(now, &id, waiter, list),
            Input::AllWithdrawn { waiter } => self.withdraw_all(now, waiter, list),
            Input::WithdrawalLimitElapsed(id, number) => self.give_up_waiting(&id, number, list),
            Input::TimerElapsed { id, is_heartbeat } => self.timer_elapsed(&id, is_heartbeat, list),
            Input::CallEnded { id, call, link, result, random } => {
                self.call_ended(now, &id, (call, link), result, random, list);
            }
            Input::StartedUp => self.serve(now, true, list),
            Input::ShuttingDown => {
                self.patience.get_or_insert_default();
                self.serve(now, false, list);
            }
            Input::MaintenanceChanged(maintenance) => {
                self.maintenance = maintenance;
                self.reconcile_all(list);
            }
            Input::OwnServiceChanged(own) => self.change_own_service(now, own, list),
            Input::Reconnected(link) => self.reconnected(link, list),
            Input::QueryRequested { number, query, random } => self.query(now, number, query, random, list),
            Input::QueryEnded { caller, number, result, random } => {
                self.query_ended(now, &caller, number, result, random, list);
            }
            Input::PauseElapsed { caller, number } => self.pause_elapsed(&caller, number, list),
            Input::WatchRemoved(watch) => self.remove_watch(&watch, list),
        }
        if let Some(patience) = &mut self.patience {
            patience.note(now, !self.waiters.is_empty());
        }
        actions
    }
}
