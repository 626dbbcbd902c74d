//! The ConsulAgent actor: the sole owner of calls to Consul. It keeps what is registered equal to what is wanted,
//! and asks for those who watch. What to call is decided in [`reconcile`], when to try again in [`retry`], what to
//! log in [`outage`]. Nobody waits for it longer than a stop can bear.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use slog::{Logger, debug, info, o, warn};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use crate::consul::{CallError, Client};
use crate::messages::bus::Notice;
use crate::messages::discovery::{DiscoveryCommand, Registration, ServiceStatus, WithdrawAll, Withdrawn};
use crate::messages::event::EventCode;
use crate::messages::status::Board;
use crate::metrics::Recorder;
use crate::process::random_share;

pub mod link;
pub mod outage;
mod pulse;
pub mod queries;
pub mod reconcile;
pub mod retry;
mod service;

use outage::{Outage, Trouble};
use queries::Questions;
use reconcile::{Call, Outcome, after};
use service::Service;

/// Calls about services that are under way at a time; each is short.
const CALLS: usize = 16;
/// A Consul that answered nobody for this long was away.
const REAL_SILENCE: Duration = Duration::from_secs(1);
/// How long a stopping job waits for its withdrawal; just below what it grants itself.
const WITHDRAWAL_LIMIT: Duration = Duration::from_millis(1900);
/// Failures in a row after which a withdrawal is waited for no more.
const WITHDRAWAL_TRIES: u32 = 2;

/// Keeps Consul informed, and asks it.
pub struct ConsulAgent {
    /// `None` without a Consul: then nothing is told and nothing asked.
    client: Option<Client>,
    log: Logger,
    board: Board,
    recorder: Recorder,
    services: BTreeMap<Arc<str>, Service>,
    maintenance: bool,
    outage: Outage,
    outage_began: Option<Instant>,
    /// Since when nobody had an answer, if somebody missed one.
    silent_since: Option<Instant>,
    /// Since when nobody was served, if something failed in whatever way.
    unserved_since: Option<Instant>,
    calls: Rc<Semaphore>,
    questions: Rc<Questions>,
    /// Counts links to Consul: what was asked over a former one says nothing about the present one.
    link: u64,
    /// Tells queries under way that Consul is back, and that their answers may be lost.
    recovered: Rc<Notify>,
    /// Ends the pauses after failed queries.
    resumed: Rc<Notify>,
    /// Keeps the last question of each asker alive: it is dropped together with its sender.
    asking: BTreeMap<Arc<str>, oneshot::Sender<Infallible>>,
    /// A withdrawal had its whole time and did not succeed, and nothing has since: nobody waits for another.
    hopeless: bool,
    /// Registered from startup to shutdown.
    own_service: Option<Arc<Registration>>,
    serving: bool,
}

/// Command: this is our own service from now on.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Advertiser(pub Option<Registration>);

impl ConsulAgent {
    /// An agent that has told Consul nothing yet; `own_service` is registered from startup to shutdown.
    pub fn new(
        client: Option<Client>,
        (board, recorder): (Board, Recorder),
        own_service: Option<Registration>,
        log: &Logger,
    ) -> Self {
        Self {
            client,
            log: log.new(o!("job" => "consul")),
            board,
            recorder,
            services: BTreeMap::new(),
            maintenance: false,
            outage: Outage::default(),
            outage_began: None,
            silent_since: None,
            unserved_since: None,
            calls: Rc::new(Semaphore::new(CALLS)),
            questions: Rc::default(),
            link: 0,
            recovered: Rc::default(),
            resumed: Rc::default(),
            asking: BTreeMap::new(),
            hopeless: false,
            own_service: own_service.map(Arc::new),
            serving: false,
        }
    }

    fn advertise(&mut self, registration: Arc<Registration>, status: ServiceStatus, ctx: &mut Context<Self>) {
        let id = Arc::clone(&registration.id);
        match self.services.get_mut(&id) {
            Some(service) => service.want(registration, status),
            None => {
                self.services.insert(Arc::clone(&id), Service::new(registration, status));
            }
        }
        self.go_on(&id, false, ctx);
    }

    fn withdraw(&mut self, id: &Arc<str>, done: Option<Box<dyn FnOnce()>>, ctx: &mut Context<Self>) {
        let Some(service) = self.services.get_mut(id) else {
            return done.into_iter().for_each(|done| done());
        };
        service.want_nothing();
        service.waiting.extend(done);
        if self.hopeless {
            service.stop_waiting();
        }
        let waiter = Arc::clone(id);
        ctx.run_later(WITHDRAWAL_LIMIT, move |agent, _| agent.give_up_waiting(&waiter));
        self.go_on(id, false, ctx);
    }

    fn give_up_waiting(&mut self, id: &Arc<str>) {
        if let Some(service) = self.services.get_mut(id).filter(|service| service.is_waited_for()) {
            self.hopeless = true;
            service.stop_waiting();
        }
    }

    /// Does what is to be done next about a service, unless a call about it is under way.
    fn go_on(&mut self, id: &Arc<str>, due: bool, ctx: &mut Context<Self>) {
        let Some(service) = self.services.get_mut(id).filter(|service| !service.in_flight) else { return };
        if let Some(timer) = service.timer.take() {
            ctx.cancel_future(timer);
        }
        match service.next_call(self.maintenance || self.client.is_none(), due) {
            Some(call) => self.perform(id, call, ctx),
            None if service.is_absent() => {
                service.stop_waiting();
                if !service.is_wanted() {
                    self.services.remove(id);
                }
            }
            None => {
                let wait = service.registration.heartbeat;
                service.timer = Some(Self::later(id, wait, true, ctx));
            }
        }
    }

    fn later(id: &Arc<str>, wait: Duration, due: bool, ctx: &mut Context<Self>) -> SpawnHandle {
        let id = Arc::clone(id);
        ctx.run_later(wait, move |agent, ctx| agent.go_on(&id, due, ctx))
    }

    fn perform(&mut self, id: &Arc<str>, call: Call, ctx: &mut Context<Self>) {
        let Some(service) = self.services.get_mut(id) else { return };
        let Some(client) = self.client.clone() else {
            return service.stop_waiting(); // there is nobody left to withdraw it from
        };
        service.in_flight = true;
        let slots = Rc::clone(&self.calls);
        let registration = Arc::clone(&service.registration);
        let (link, asked) = (self.link, client.clone());
        let exchange = async move {
            let _slot = slots.acquire().await;
            let limit = retry::deadline(registration.heartbeat);
            match call {
                Call::Register(_, status) => client.register(&registration, status, limit).await,
                Call::Update(_, status) => client.update(&registration.id, status, limit).await,
                Call::Deregister => client.deregister(&registration.id, limit).await,
            }
        };
        let id = Arc::clone(id);
        ctx.spawn(fut::wrap_future(exchange).map(move |result, agent: &mut Self, ctx| {
            if link == agent.link {
                agent.conclude(&id, call, result, ctx);
            } else {
                agent.conclude_over_former_link(&id, &asked, ctx);
            }
        }));
    }

    fn conclude(
        &mut self,
        id: &Arc<str>,
        call: Call,
        result: Result<(), CallError>,
        ctx: &mut Context<Self>,
    ) {
        let outcome = match &result {
            Ok(()) => Outcome::Done,
            Err(error) if error.is_unknown() => Outcome::Forgotten,
            Err(_) => Outcome::Failed,
        };
        let Some(service) = self.services.get_mut(id) else { return };
        service.in_flight = false;
        service.known = after(call, outcome);
        match (outcome, result) {
            (Outcome::Done, _) => {
                debug!(self.log, "{call:?} done"; "service" => &**id);
                service.failures = 0;
                let lag = service.settle();
                self.served(id, lag, ctx);
                self.go_on(id, false, ctx);
            }
            (Outcome::Forgotten, _) => {
                info!(self.log, "Consul does not know {id} any more"; "service" => &**id);
                // A registration that is answered so is no better tried again at once.
                let is_refusal = matches!(call, Call::Register(..));
                service.note_failure(is_refusal);
                if is_refusal {
                    self.count(true, None);
                } else {
                    self.served(id, None, ctx);
                }
                self.try_again(id, ctx);
            }
            (Outcome::Failed, Err(error)) => {
                service.note_failure(true);
                self.failed(id, &error);
                self.try_again(id, ctx);
            }
            (Outcome::Failed, Ok(())) => {}
        }
    }

    fn try_again(&mut self, id: &Arc<str>, ctx: &mut Context<Self>) {
        let Some(service) = self.services.get_mut(id) else { return };
        if service.failures == 0 {
            return self.go_on(id, false, ctx);
        }
        if service.failures >= WITHDRAWAL_TRIES {
            service.stop_waiting();
        }
        let is_first = self.outage.is_first(id);
        let wait = retry::delay(service.failures, service.registration.heartbeat, is_first, random_share());
        service.timer = Some(Self::later(id, wait, false, ctx));
    }

    /// Consul did what somebody asked for.
    fn served(&mut self, who: &str, lag: Option<Duration>, ctx: &mut Context<Self>) {
        self.hopeless = false;
        self.count(true, lag);
        if self.outage.served(who) {
            let lasted = self.outage_began.map_or(0.0, |began| began.elapsed().as_secs_f64());
            info!(self.log, "Consul is back after {lasted:.1}s");
            self.forget_outage();
        }
        // A busy Consul that is late now and then must not have everybody come back together.
        let is_real = |since: Option<Instant>| since.is_some_and(|since| since.elapsed() >= REAL_SILENCE);
        if is_real(self.silent_since.take()) {
            self.recovered.notify_waiters();
        }
        if is_real(self.unserved_since.take()) {
            self.retry_failed(ctx);
        }
    }

    /// Consul serves again: a pause that was meant for a Consul that does not is over.
    fn retry_failed(&mut self, ctx: &mut Context<Self>) {
        self.resumed.notify_waiters();
        let failing = self.services.iter().filter(|(_, service)| service.failures > 0 && !service.in_flight);
        for id in failing.map(|(id, _)| Arc::clone(id)).collect::<Vec<_>>() {
            self.go_on(&id, false, ctx);
        }
    }

    fn failed(&mut self, who: &Arc<str>, error: &CallError) {
        self.count(false, None);
        debug!(self.log, "Consul failed: {error}"; "asked_by" => &**who);
        let trouble = trouble(error);
        if trouble == Trouble::Unreachable {
            self.silent_since.get_or_insert_with(Instant::now);
        }
        self.unserved_since.get_or_insert_with(Instant::now);
        if self.outage.failed(Arc::clone(who), trouble) {
            warn!(self.log, "Consul is in trouble: {error}; retrying until it is well"; "asked_by" => &**who);
            self.board.write().discovery.trouble = Some(error.to_string());
        }
        self.outage_began.get_or_insert_with(Instant::now);
    }

    /// Nothing is wrong, as far as anybody knows.
    fn forget_outage(&mut self) {
        self.outage = Outage::default();
        self.outage_began = None;
        self.board.write().discovery.trouble = None;
    }

    fn count(&self, answered: bool, lag: Option<Duration>) {
        self.recorder.metrics().consul_answered(answered);
        if let Some(lag) = lag {
            self.board.write().discovery.lag = lag;
        }
    }

    /// Our own service lives from `startup` to `shutdown`.
    fn serve(&mut self, serving: bool, ctx: &mut Context<Self>) {
        self.serving = serving;
        match self.own_service.clone() {
            Some(own) if serving => self.advertise(own, ServiceStatus::Passing, ctx),
            Some(own) => self.withdraw(&own.id, None, ctx),
            None => {}
        }
    }

    fn set_maintenance(&mut self, maintenance: bool, ctx: &mut Context<Self>) {
        self.maintenance = maintenance;
        self.go_on_with_all(ctx);
    }

    fn go_on_with_all(&mut self, ctx: &mut Context<Self>) {
        for id in self.services.keys().cloned().collect::<Vec<_>>() {
            self.go_on(&id, false, ctx);
        }
    }
}

fn trouble(error: &CallError) -> Trouble {
    match error {
        CallError::Unreachable(_) | CallError::TimedOut(_) => Trouble::Unreachable,
        CallError::Answered { status, .. } => Trouble::Answered(*status),
        CallError::Garbled(_) => Trouble::Garbled,
    }
}

impl Actor for ConsulAgent {
    type Context = Context<Self>;
}

impl Handler<DiscoveryCommand> for ConsulAgent {
    type Result = ();

    fn handle(&mut self, command: DiscoveryCommand, ctx: &mut Context<Self>) {
        match command {
            DiscoveryCommand::Advertise(registration, status) => self.advertise(registration, status, ctx),
            DiscoveryCommand::Withdraw(id, reply) => {
                let done =
                    reply.map(|reply| -> Box<dyn FnOnce()> { Box::new(move || reply.do_send(Withdrawn)) });
                self.withdraw(&id, done, ctx);
            }
        }
    }
}

impl Handler<Notice> for ConsulAgent {
    type Result = ();

    fn handle(&mut self, notice: Notice, ctx: &mut Context<Self>) {
        match notice.event.key.code {
            EventCode::Startup => self.serve(true, ctx),
            EventCode::Shutdown => self.serve(false, ctx),
            EventCode::EnterMaintenance => self.set_maintenance(true, ctx),
            EventCode::ExitMaintenance => self.set_maintenance(false, ctx),
            EventCode::ExitSuccess
            | EventCode::ExitFailed
            | EventCode::Healthy
            | EventCode::Unhealthy
            | EventCode::Changed
            | EventCode::Stopping
            | EventCode::Stopped
            | EventCode::Signal => {}
        }
    }
}

impl Handler<Advertiser> for ConsulAgent {
    type Result = ();

    fn handle(&mut self, Advertiser(own_service): Advertiser, ctx: &mut Context<Self>) {
        let serving = self.serving;
        self.serve(false, ctx);
        self.own_service = own_service.map(Arc::new);
        self.serve(serving, ctx);
    }
}

impl Handler<WithdrawAll> for ConsulAgent {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: WithdrawAll, ctx: &mut Context<Self>) -> Self::Result {
        let (done, mut all_done) = mpsc::unbounded_channel::<()>();
        for id in self.services.keys().cloned().collect::<Vec<_>>() {
            let done = done.clone();
            self.withdraw(&id, Some(Box::new(move || drop(done))), ctx);
        }
        drop(done);
        Box::pin(async move {
            let _ = all_done.recv().await; // ends when the last sender is gone
        })
    }
}
