//! The ConsulAgent actor: makes every call to Consul. It registers services and sends the queries of watches. The
//! decisions are in [`machine`].

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use slog::{Logger, debug, info, o, warn};
use tokio::sync::{Semaphore, oneshot};

use super::machine::{Clock, Driver};
use super::task::Task;
use crate::consul::{CallError, Client};
use crate::messages::bus::Notice;
use crate::messages::discovery::{
    DiscoveryCommand, Query, QueryFailure, QueryReply, Registration, RemoveWatch, WithdrawAll, Withdrawn,
};
use crate::messages::event::EventCode;
use crate::messages::status::Board;
use crate::metrics::Recorder;
use crate::process::random_share;

mod change_feed;
pub mod link;
pub mod machine;
mod query_pool;

use machine::outage::Trouble;
use machine::reconcile::Call;
use machine::services::WITHDRAWAL_LIMIT;
use machine::{Action, CallFailure, Input, Link, Remark, State, retry};
use query_pool::QueryPool;

/// Calls about services that run at a time; each is short.
const CONCURRENT_CALLS: usize = 16;

/// Registers services in Consul, and sends the queries of watches.
pub struct ConsulAgent {
    driver: Driver<State>,
    /// The clients of the present link and of former ones that a call still uses, by the number of the link.
    clients: BTreeMap<u64, Client>,
    /// The connections for queries over the present link.
    query_pool: Rc<QueryPool>,
    /// A permit for each call about a service that may run at a time.
    call_permits: Rc<Semaphore>,
    /// The timer of each service.
    timers: BTreeMap<Arc<str>, Task>,
    /// Requests that wait until services are withdrawn, by number.
    waiters: BTreeMap<u64, Waiter>,
    /// Queries whose watch still waits for a reply, by number.
    queries: BTreeMap<u64, PendingQuery>,
    /// The last number that was given to a link, waiter or query.
    last_number: u64,
    board: Board,
    recorder: Recorder,
    log: Logger,
}

/// Waits until services are withdrawn.
enum Waiter {
    /// A job, for its own service.
    Job(Recipient<Withdrawn>),
    /// The end of the program, for every service.
    Program(oneshot::Sender<()>),
}

/// A query whose watch waits for a reply.
struct PendingQuery {
    reply: oneshot::Sender<Result<QueryReply, QueryFailure>>,
    /// The request to Consul, or the pause after its failure.
    task: Option<Task>,
}

/// Command: this is our own service from now on.
#[derive(Message)]
#[rtype(result = "()")]
pub struct SetOwnService(pub Option<Registration>);

impl ConsulAgent {
    /// An agent that has registered nothing yet; `own_service` is registered from startup to shutdown. Without a
    /// client nothing is registered and no query sent.
    pub fn new(
        client: Option<Client>,
        (board, recorder): (Board, Recorder),
        own_service: Option<Registration>,
        (clock, log): (&Clock, &Logger),
    ) -> Self {
        let link = Link { number: 0, address: client.as_ref().map(|client| client.address().clone()) };
        Self {
            driver: Driver::new(State::new(link, own_service), clock),
            clients: client.into_iter().map(|client| (0, client)).collect(),
            query_pool: Rc::default(),
            call_permits: Rc::new(Semaphore::new(CONCURRENT_CALLS)),
            timers: BTreeMap::new(),
            waiters: BTreeMap::new(),
            queries: BTreeMap::new(),
            last_number: 0,
            board,
            recorder,
            log: log.new(o!("job" => "consul")),
        }
    }

    const fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn advance(&mut self, input: Input, ctx: &mut Context<Self>) {
        for action in self.driver.step(input) {
            self.perform(action, ctx);
        }
    }

    fn perform(&mut self, action: Action, ctx: &mut Context<Self>) {
        match action {
            Action::Call(registration, call, link) => self.call(registration, call, link, ctx),
            Action::DeregisterOverFormer(id, link) => self.deregister_over_former(id, link, ctx),
            Action::CloseLink(link) => drop(self.clients.remove(&link)),
            Action::StartTimer { id, wait, is_heartbeat } => {
                let timed = Arc::clone(&id);
                let timer = Task::later(wait, ctx, move |agent: &mut Self, ctx| {
                    agent.timers.remove(&timed);
                    agent.advance(Input::TimerElapsed { id: timed, is_heartbeat }, ctx);
                });
                self.timers.insert(id, timer);
            }
            Action::CancelTimer(id) => {
                if let Some(timer) = self.timers.remove(&id) {
                    timer.cancel(ctx);
                }
            }
            Action::StartWithdrawalLimit(id, number, limit) => {
                ctx.run_later(limit, move |agent, ctx| {
                    agent.advance(Input::WithdrawalLimitElapsed(id, number), ctx);
                });
            }
            Action::Release(waiter) => self.release(waiter),
            Action::Query(number, query) => self.query(number, query, ctx),
            Action::DropQuery(number) => drop(self.take_query(number, ctx)),
            Action::Pause { caller, number, wait } => {
                let timer = Task::later(wait, ctx, move |agent: &mut Self, ctx| {
                    agent.advance(Input::PauseElapsed { caller, number }, ctx);
                });
                self.note_task(number, timer);
            }
            Action::Reply(number, reply) => {
                if let Some(query) = self.take_query(number, ctx) {
                    let _ = query.reply.send(reply); // The watch may be gone.
                }
            }
            Action::Count { answered } => self.recorder.metrics().consul_answered(answered),
            Action::ShowLag(lag) => self.board.write().discovery.lag = lag,
            Action::ShowTrouble(trouble) => self.board.write().discovery.trouble = trouble,
            Action::ShowFailure(name, failure) => {
                let failures = &mut self.board.write().discovery.failures;
                match failure {
                    Some(failure) => drop(failures.insert(name, failure)),
                    None => drop(failures.remove(&name)),
                }
            }
            Action::Log(remark) => self.log(&remark),
        }
    }

    fn call(&mut self, registration: Arc<Registration>, call: Call, link: u64, ctx: &mut Context<Self>) {
        let id = Arc::clone(&registration.id);
        let (client, permits) = (self.client(link), Rc::clone(&self.call_permits));
        let recorder = self.recorder.clone();
        let exchange = async move {
            let client = client?;
            let _permit = permits.acquire().await;
            let limit = retry::deadline(registration.heartbeat);
            match call {
                Call::Register(_, status) => {
                    client.register(&registration, status, limit).await?;
                    recorder.metrics().service_registered(&registration.name);
                    Ok(())
                }
                Call::Update(_, status) => client.update(&registration.id, status, limit).await,
                Call::Deregister => client.deregister(&registration.id, limit).await,
            }
        };
        Self::await_call(exchange, id, call, link, ctx);
    }

    fn deregister_over_former(&self, id: Arc<str>, link: u64, ctx: &mut Context<Self>) {
        let (client, deregistered) = (self.client(link), Arc::clone(&id));
        let exchange = async move { client?.deregister(&deregistered, WITHDRAWAL_LIMIT).await };
        Self::await_call(exchange, id, Call::Deregister, link, ctx);
    }

    fn await_call(
        exchange: impl Future<Output = Result<(), CallError>> + 'static,
        id: Arc<str>,
        call: Call,
        link: u64,
        ctx: &mut Context<Self>,
    ) {
        ctx.spawn(fut::wrap_future(exchange).map(move |result, agent: &mut Self, ctx| {
            let result = result.map_err(|error| failure(&error));
            agent.advance(Input::CallEnded { id, call, link, result, random: random_share() }, ctx);
        }));
    }

    /// The client of a link. A link in use has one.
    fn client(&self, link: u64) -> Result<Client, CallError> {
        let client = self.clients.get(&link).cloned();
        debug_assert!(client.is_some(), "a link in use has a client");
        client.ok_or_else(|| CallError::Unreachable("there is no client".to_owned()))
    }

    fn release(&mut self, waiter: u64) {
        match self.waiters.remove(&waiter) {
            Some(Waiter::Job(job)) => job.do_send(Withdrawn),
            Some(Waiter::Program(done)) => drop(done.send(())),
            None => {}
        }
    }

    fn query(&mut self, number: u64, query: Query, ctx: &mut Context<Self>) {
        let client = self.client(self.driver.machine().link());
        let (pool, caller) = (Rc::clone(&self.query_pool), Arc::clone(&query.caller));
        let exchange = async move { pool.query(&client?, query).await };
        let task = Task::spawn(exchange, ctx, move |result, agent: &mut Self, ctx| {
            let result = result.map_err(|error| failure(&error));
            agent.advance(Input::QueryEnded { caller, number, result, random: random_share() }, ctx);
        });
        self.note_task(number, task);
    }

    fn note_task(&mut self, number: u64, task: Task) {
        if let Some(query) = self.queries.get_mut(&number) {
            query.task = Some(task);
        }
    }

    /// Ends the work on a query. If its watch gets no reply, it is told that the query was interrupted.
    fn take_query(&mut self, number: u64, ctx: &mut Context<Self>) -> Option<PendingQuery> {
        let mut query = self.queries.remove(&number)?;
        if let Some(task) = query.task.take() {
            task.cancel(ctx);
        }
        Some(query)
    }

    fn log(&self, remark: &Remark) {
        let log = &self.log;
        match remark {
            Remark::Done(id, call) => debug!(log, "{call:?} done"; "service" => &**id),
            Remark::Forgotten(id) => {
                info!(log, "Consul does not know {id} any more"; "service" => &**id);
            }
            Remark::Failed(caller, reason) => {
                debug!(log, "Consul failed: {reason}"; "asked_by" => &**caller);
            }
            Remark::InTrouble(caller, reason) => {
                warn!(log, "Consul is in trouble: {reason}; retrying until it is well"; "asked_by" => &**caller);
            }
            Remark::Recovered(lasted) => info!(log, "Consul is back after {:.1}s", lasted.as_secs_f64()),
            Remark::NoTroubleLeft => info!(log, "nobody has trouble with Consul any more"),
            Remark::Cut(caller, took, reason) => {
                let took = took.as_secs_f64();
                debug!(log, "a query ended after {took:.1}s: {reason}"; "asked_by" => &**caller);
            }
        }
    }
}

/// A failed call as the machine sees it.
fn failure(error: &CallError) -> CallFailure {
    let trouble = match error {
        CallError::Unreachable(_) | CallError::TimedOut(_) => Trouble::Unreachable,
        CallError::Answered { status, .. } => Trouble::Answered(*status),
        CallError::Garbled(_) => Trouble::Garbled,
    };
    CallFailure { trouble, is_unknown: error.is_unknown(), reason: error.to_string() }
}

impl Actor for ConsulAgent {
    type Context = Context<Self>;
}

impl Handler<DiscoveryCommand> for ConsulAgent {
    type Result = ();

    fn handle(&mut self, command: DiscoveryCommand, ctx: &mut Context<Self>) {
        let input = match command {
            DiscoveryCommand::Advertise(registration, status) => Input::Advertised(registration, status),
            DiscoveryCommand::Withdraw(id, job) => {
                let waiter = job.map(|job| {
                    let number = self.next_number();
                    self.waiters.insert(number, Waiter::Job(job));
                    number
                });
                Input::Withdrawn { id, waiter }
            }
        };
        self.advance(input, ctx);
    }
}

impl Handler<Notice> for ConsulAgent {
    type Result = ();

    fn handle(&mut self, notice: Notice, ctx: &mut Context<Self>) {
        match notice.event.key.code {
            EventCode::Startup => self.advance(Input::StartedUp, ctx),
            EventCode::Shutdown => self.advance(Input::ShuttingDown, ctx),
            EventCode::EnterMaintenance => self.advance(Input::MaintenanceChanged(true), ctx),
            EventCode::ExitMaintenance => self.advance(Input::MaintenanceChanged(false), ctx),
            EventCode::ExitSuccess
            | EventCode::ExitFailed
            | EventCode::Ready
            | EventCode::Healthy
            | EventCode::Unhealthy
            | EventCode::Changed
            | EventCode::Stopping
            | EventCode::Stopped
            | EventCode::Signal => {}
        }
    }
}

impl Handler<SetOwnService> for ConsulAgent {
    type Result = ();

    fn handle(&mut self, SetOwnService(own_service): SetOwnService, ctx: &mut Context<Self>) {
        self.advance(Input::OwnServiceChanged(own_service), ctx);
    }
}

impl Handler<WithdrawAll> for ConsulAgent {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: WithdrawAll, ctx: &mut Context<Self>) -> Self::Result {
        let (done, all_done) = oneshot::channel();
        let waiter = self.next_number();
        self.waiters.insert(waiter, Waiter::Program(done));
        self.advance(Input::AllWithdrawn { waiter }, ctx);
        Box::pin(async move {
            let _ = all_done.await;
        })
    }
}

impl Handler<Query> for ConsulAgent {
    type Result = ResponseFuture<Result<QueryReply, QueryFailure>>;

    fn handle(&mut self, query: Query, ctx: &mut Context<Self>) -> Self::Result {
        let number = self.next_number();
        let (reply, replied) = oneshot::channel();
        self.queries.insert(number, PendingQuery { reply, task: None });
        self.advance(Input::QueryRequested { number, query, random: random_share() }, ctx);
        Box::pin(async move { replied.await.unwrap_or(Err(QueryFailure::Interrupted)) })
    }
}

impl Handler<RemoveWatch> for ConsulAgent {
    type Result = ();

    fn handle(&mut self, watch: RemoveWatch, ctx: &mut Context<Self>) {
        self.advance(Input::WatchRemoved(watch), ctx);
    }
}
