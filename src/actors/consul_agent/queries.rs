//! Questions of those who watch: passed on to Consul, as many at a time as its connections allow.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;

use super::ConsulAgent;
use crate::messages::discovery::{Answer, Query, Unanswered};

/// Queries that are under way at a time. Each holds a connection, of which Consul allows a client 200.
pub const AT_A_TIME: usize = 128;
/// With more watches than that they take turns, each this long at most.
const TURN: Duration = Duration::from_secs(2);
/// How long an answer to a query may take, beyond the wait that was asked for.
const QUERY_LIMIT: Duration = Duration::from_secs(5);

impl ConsulAgent {
    /// Shortens the wait of a query when there are more than can be under way: then they take turns.
    fn with_its_turn(&self, mut query: Query) -> Query {
        if let Some((_, wait)) = query.newer_than.as_mut().filter(|_| self.asking > AT_A_TIME) {
            *wait = TURN.min(*wait);
        }
        query
    }
}

impl Handler<Query> for ConsulAgent {
    type Result = ResponseActFuture<Self, Result<Answer, Unanswered>>;

    fn handle(&mut self, query: Query, _: &mut Context<Self>) -> Self::Result {
        let Some(client) = self.client.clone() else {
            return Box::pin(fut::ready(Err(Unanswered::Failed)));
        };
        self.asking += 1;
        let slots = Rc::clone(&self.queries);
        let recovered = Rc::clone(&self.recovered);
        let query = self.with_its_turn(query);
        let asker = Arc::clone(&query.asker);
        let exchange = async move {
            let _slot = slots.acquire().await;
            tokio::select! {
                result = client.query(&query, QUERY_LIMIT) => Some(result),
                () = recovered.notified() => None,
            }
        };
        Box::pin(fut::wrap_future(exchange).map(move |result, agent: &mut Self, ctx| {
            agent.asking = agent.asking.saturating_sub(1);
            match result {
                Some(Ok(answer)) => {
                    agent.served(&asker, None, ctx);
                    Ok(answer)
                }
                Some(Err(error)) => {
                    agent.failed(&asker, &error);
                    Err(Unanswered::Failed)
                }
                None => Err(Unanswered::Interrupted),
            }
        }))
    }
}
