//! Puts service discovery together, and changes it when a configuration is reloaded.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use slog::Logger;

use crate::actors::consul_agent::link::{Reconnect, connect};
use crate::actors::consul_agent::{ConsulAgent, RemoveWatch, SetOwnService};
use crate::actors::machine::Clock;
use crate::actors::pilot::OWN_SERVICE;
use crate::actors::registry::Registry;
use crate::actors::watch::machine::caller;
use crate::actors::watch::{Retire, Watch};
use crate::config::spec::{Spec, TelemetrySpec, WatchSpec};
use crate::consul::Client;
use crate::messages::bus::{Bus, Interest, Notice, Subscribe, Unsubscribe};
use crate::messages::discovery::Registration;
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::status::Board;
use crate::metrics::Recorder;

/// How often our own service tells Consul that it is there, and how long that holds.
const OWN_HEARTBEAT: Duration = Duration::from_secs(5);
const OWN_TTL: Duration = Duration::from_secs(15);

/// The actors of service discovery.
pub struct Discovering {
    /// The one who talks to Consul.
    pub agent: Addr<ConsulAgent>,
    registry: Addr<Registry>,
    bus: Bus,
    board: Board,
    clock: Clock,
    log: Logger,
    watches: RefCell<HashMap<Arc<str>, Addr<Watch>>>,
}

impl Discovering {
    /// Starts the ConsulAgent; watches come with [`Self::observe_all`].
    pub fn new(
        spec: &Spec,
        bus: Bus,
        (board, recorder): (&Board, &Recorder),
        registry: &Addr<Registry>,
        (clock, log): (Clock, &Logger),
    ) -> io::Result<Self> {
        let client = connected(spec, log)?;
        let own_service = spec.telemetry.as_ref().map(own_service);
        let agent =
            ConsulAgent::new(client, (board.clone(), recorder.clone()), own_service, (clock, log)).start();
        let keys = [
            EventCode::Startup,
            EventCode::Shutdown,
            EventCode::EnterMaintenance,
            EventCode::ExitMaintenance,
        ];
        let interest = Interest::Keys(keys.map(global).to_vec());
        registry.do_send(Subscribe { interest, recipient: agent.clone().recipient() });
        let (registry, board, log) = (registry.clone(), board.clone(), log.clone());
        Ok(Self { agent, registry, bus, board, clock, log, watches: RefCell::default() })
    }

    /// Starts the configuration's watches; they begin at `startup`, or at the end of the job that coprocesses wait
    /// for, after the jobs that subscribed before them.
    pub fn observe_all(&self, spec: &Spec) {
        if spec.consul.is_some() {
            spec.watches.iter().for_each(|watch| drop(self.observe(watch)));
        }
    }

    /// Whether the new configuration's Consul can be spoken to at all, if it is another one.
    pub fn check(&self, old: &Spec, new: &Spec) -> io::Result<()> {
        if old.consul == new.consul {
            return Ok(());
        }
        connected(new, &self.log).map(drop)
    }

    /// Changes what changed; `facts` have happened already, `startup` aside.
    pub fn reconfigure(&self, old: &Spec, new: &Spec, facts: &HashSet<EventKey>) {
        if old.consul != new.consul {
            self.agent.do_send(Reconnect(new.consul.clone()));
        }
        if old.telemetry != new.telemetry {
            self.agent.do_send(SetOwnService(new.telemetry.as_ref().map(own_service)));
        }
        let wanted = |spec: &Spec| if spec.consul.is_some() { spec.watches.clone() } else { Vec::new() };
        let (before, after) = (wanted(old), wanted(new));
        let is_in = |watch: &WatchSpec, other: &[WatchSpec]| other.iter().any(|it| it.observes_like(watch));
        for watch in before.iter().filter(|watch| !is_in(watch, &after)) {
            self.retire(&watch.name);
        }
        let startup = global(EventCode::Startup);
        for watch in after.iter().filter(|watch| !is_in(watch, &before)) {
            let address = self.observe(watch);
            let begun = watch.begins.keys().iter().find(|key| **key == startup || facts.contains(key));
            begun.into_iter().for_each(|key| address.do_send(self.bus.private(key.clone())));
        }
    }

    fn observe(&self, spec: &WatchSpec) -> Addr<Watch> {
        let (bus, board) = (self.bus.clone(), self.board.clone());
        let agent = self.agent.clone().recipient();
        let watch = Watch::new(spec.clone(), bus, board, agent, (self.clock, &self.log)).start();
        let recipient: Recipient<Notice> = watch.clone().recipient();
        let interest = Interest::Keys(spec.begins.keys().to_vec());
        self.registry.do_send(Subscribe { interest, recipient });
        self.watches.borrow_mut().insert(spec.name.clone(), watch.clone());
        watch
    }

    fn retire(&self, name: &Arc<str>) {
        if let Some(watch) = self.watches.borrow_mut().remove(name) {
            self.registry.do_send(Unsubscribe(watch.clone().recipient()));
            watch.do_send(Retire);
            self.agent.do_send(RemoveWatch(caller(name)));
        }
        self.board.write().watches.remove(name);
    }
}

fn connected(spec: &Spec, log: &Logger) -> io::Result<Option<Client>> {
    connect(spec.consul.as_ref(), log)
        .map_err(|error| io::Error::other(format!("the client of Consul: {error}")))
}

fn global(code: EventCode) -> EventKey {
    EventKey { code, source: Source::Global }
}

/// The service under which our metrics are found.
fn own_service(spec: &TelemetrySpec) -> Registration {
    let mut tags = spec.tags.clone();
    tags.push(env!("CARGO_PKG_VERSION").to_owned());
    Registration {
        id: format!("{OWN_SERVICE}-{}", host_name()).into(),
        name: OWN_SERVICE.to_owned(),
        address: spec.address,
        port: spec.port,
        tags,
        meta: Vec::new(),
        enable_tag_override: false,
        heartbeat: OWN_HEARTBEAT,
        ttl: OWN_TTL,
        deregister_critical_after: None,
    }
}

/// This host's name, a part of service ids.
pub fn host_name() -> Arc<str> {
    let name = nix::unistd::gethostname().unwrap_or_default();
    name.to_string_lossy().into()
}
