//! Questions of those who watch: passed on to Consul, as many at a time as its connections allow.
//!
//! A question that waits for news holds a connection, and Consul allows a client 200. Beyond 128 of them, questions
//! about services wait aside without one, and are asked when the pulse says that something somewhere has changed;
//! all others take turns.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use slog::{debug, info};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::pulse::Pulse;
use super::{ConsulAgent, retry};
use crate::consul::blocking;
use crate::consul::{CallError, Client};
use crate::messages::discovery::{Query, QueryFailure, QueryReply, QueryTarget};
use crate::process::random_share;

/// Questions that wait for news with a connection of their own.
const HELD: usize = 128;
/// Questions that want an answer now; with those that wait, the pulse and the calls about services they make as many
/// connections as the client has.
const BRIEF: usize = 14;
/// Where many take turns, each has at most this long.
const TURN: Duration = Duration::from_secs(2);
/// How long an answer may take, beyond the wait that was asked for.
pub const LIMIT: Duration = Duration::from_secs(5);

/// What the questions to one Consul share.
pub struct Questions {
    held: Semaphore,
    brief: Semaphore,
    pulse: Pulse,
}

impl Default for Questions {
    fn default() -> Self {
        Self { held: Semaphore::new(HELD), brief: Semaphore::new(BRIEF), pulse: Pulse::default() }
    }
}

impl Questions {
    async fn ask(&self, client: &Client, query: Query) -> Result<QueryReply, CallError> {
        let Some((index, wait)) = query.newer_than else { return self.ask_now(client, query).await };
        if let Ok(_slot) = self.held.try_acquire() {
            return client.query(&query, LIMIT).await;
        }
        let now = Instant::now();
        match (&query.target, &query.datacentre) {
            (QueryTarget::Service { .. }, None) => self.ask_at_news(client, query, index, now + wait).await,
            (QueryTarget::Service { .. } | QueryTarget::Key(_) | QueryTarget::Prefix(_), _) => {
                // Those who have a connection keep it for minutes.
                let deadline = now + query.interval.min(wait);
                self.ask_in_turn(client, query, (index, wait), deadline).await
            }
        }
    }

    async fn ask_now(&self, client: &Client, query: Query) -> Result<QueryReply, CallError> {
        let _slot = self.brief.acquire().await;
        client.query(&Query { newer_than: None, ..query }, LIMIT).await
    }

    /// Asks whenever something has changed, until the answer is a newer one or it is time.
    async fn ask_at_news(
        &self,
        client: &Client,
        query: Query,
        index: u64,
        deadline: Instant,
    ) -> Result<QueryReply, CallError> {
        let mut pulse = self.pulse.feel(client);
        loop {
            // Asked while we listen already: what changes after the answer is heard of.
            pulse.mark_unchanged();
            let answer = self.ask_now(client, query.clone()).await?;
            if answer.index.map(|index| index.max(1)) != Some(index) || Instant::now() >= deadline {
                return Ok(answer);
            }
            tokio::select! {
                _ = pulse.changed() => {}
                () = sleep_until(deadline) => {}
            }
        }
    }

    /// Waits for a turn, which is short; asks at once if there is none in time.
    async fn ask_in_turn(
        &self,
        client: &Client,
        query: Query,
        (index, wait): (u64, Duration),
        deadline: Instant,
    ) -> Result<QueryReply, CallError> {
        match timeout_at(deadline, self.held.acquire()).await {
            Ok(_slot) => {
                let query = Query { newer_than: Some((index, TURN.min(wait))), ..query };
                client.query(&query, LIMIT).await
            }
            Err(_) => self.ask_now(client, query).await,
        }
    }
}

/// Command: this caller asks no more. Its question is dropped, and its trouble is over.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Silence(pub Arc<str>);

impl Handler<Silence> for ConsulAgent {
    type Result = ();

    fn handle(&mut self, Silence(caller): Silence, _: &mut Context<Self>) {
        if self.outage.served(&caller) {
            info!(self.log, "nobody has trouble with Consul any more");
            self.forget_outage();
        }
        self.asking.remove(&caller);
    }
}

/// The outcome of a question, as its caller is told it.
enum Ending {
    Answered(QueryReply),
    Unanswered(QueryFailure),
    /// It is told after this pause, or when Consul serves others again.
    Failed(Duration),
}

impl ConsulAgent {
    fn conclude_query(
        &mut self,
        query: &Query,
        result: Result<QueryReply, CallError>,
        took: Duration,
        ctx: &mut Context<Self>,
    ) -> Ending {
        let error = match result {
            Ok(answer) => {
                self.served(&query.caller, None, ctx);
                return Ending::Answered(answer);
            }
            Err(error) => error,
        };
        if query.newer_than.is_some() && took >= blocking::HELD {
            let caller = &*query.caller;
            debug!(self.log, "a question ended after {:.1}s: {error}", took.as_secs_f64(); "asked_by" => caller);
            self.count(true, None);
            return Ending::Unanswered(QueryFailure::Cut(took));
        }
        self.failed(&query.caller, &error);
        self.pause_after_failure(query)
    }

    fn pause_after_failure(&self, query: &Query) -> Ending {
        let (failures, is_first) = (query.failures.saturating_add(1), self.outage.is_first(&query.caller));
        Ending::Failed(retry::delay(failures, query.interval, is_first, random_share()))
    }
}

impl Handler<Query> for ConsulAgent {
    type Result = ResponseActFuture<Self, Result<QueryReply, QueryFailure>>;

    fn handle(&mut self, query: Query, _: &mut Context<Self>) -> Self::Result {
        let client = self.client.clone();
        let link = self.link;
        let questions = Rc::clone(&self.questions);
        let recovered = Rc::clone(&self.recovered);
        let resumed = Rc::clone(&self.resumed);
        // Consul holds a question for minutes. It is dropped when its caller is silenced, or asks the next one.
        let (keep, dropped) = oneshot::channel::<Infallible>();
        self.asking.insert(Arc::clone(&query.caller), keep);
        let (question, asked) = (query.clone(), Instant::now());
        let exchange = async move {
            let client = client?;
            tokio::select! {
                biased;
                _ = dropped => None,
                () = recovered.notified() => None,
                result = questions.ask(&client, question) => Some(result),
            }
        };
        let ending = fut::wrap_future(exchange).map(move |result, agent: &mut Self, ctx| match result {
            Some(result) if link == agent.link => agent.conclude_query(&query, result, asked.elapsed(), ctx),
            None if agent.client.is_none() => agent.pause_after_failure(&query),
            // What a former Consul said does not count.
            Some(_) | None => Ending::Unanswered(QueryFailure::Interrupted),
        });
        Box::pin(ending.then(move |ending, _, _| {
            fut::wrap_future(async move {
                match ending {
                    Ending::Answered(answer) => Ok(answer),
                    Ending::Unanswered(why) => Err(why),
                    Ending::Failed(pause) => {
                        let _ = timeout(pause, resumed.notified()).await;
                        Err(QueryFailure::Failed)
                    }
                }
            })
        }))
    }
}
