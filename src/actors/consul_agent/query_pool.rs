//! Sends the queries of watches, as many at a time as Consul's connections allow.
//!
//! A blocking query holds a connection, and Consul allows a client 200. Beyond 128 of them, queries about services give
//! up their connection and are sent again when the change feed reports that something has changed; all others take
//! turns.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::change_feed::ChangeFeed;
use crate::consul::{CallError, Client};
use crate::messages::discovery::{Query, QueryReply, QueryTarget};

/// Blocking queries that have a connection of their own.
const BLOCKING_QUERIES: usize = 128;
/// Queries for an immediate reply. With the blocking queries, the change feed and the calls about services they use all
/// connections of the client.
const IMMEDIATE_QUERIES: usize = 14;
/// Where queries take turns, the longest turn.
const TURN: Duration = Duration::from_secs(2);
/// How long a reply may take, beyond the time that Consul was asked to wait.
pub const REPLY_LIMIT: Duration = Duration::from_secs(5);

/// The connections for queries to one Consul.
pub struct QueryPool {
    blocking: Semaphore,
    immediate: Semaphore,
    changes: ChangeFeed,
}

impl Default for QueryPool {
    fn default() -> Self {
        Self {
            blocking: Semaphore::new(BLOCKING_QUERIES),
            immediate: Semaphore::new(IMMEDIATE_QUERIES),
            changes: ChangeFeed::default(),
        }
    }
}

impl QueryPool {
    /// Consul's reply to a query.
    pub async fn query(&self, client: &Client, query: Query) -> Result<QueryReply, CallError> {
        let Some((index, wait)) = query.newer_than else {
            return self.query_immediately(client, query).await;
        };
        if let Ok(_permit) = self.blocking.try_acquire() {
            return client.query(&query, REPLY_LIMIT).await;
        }
        let now = Instant::now();
        match (&query.target, &query.datacentre) {
            (QueryTarget::Service { .. }, None) => {
                self.query_on_change(client, query, index, now + wait).await
            }
            (QueryTarget::Service { .. } | QueryTarget::Key(_) | QueryTarget::Prefix(_), _) => {
                // The queries that have a connection keep it for minutes.
                let deadline = now + query.interval.min(wait);
                self.query_in_turn(client, query, (index, wait), deadline).await
            }
        }
    }

    async fn query_immediately(&self, client: &Client, query: Query) -> Result<QueryReply, CallError> {
        let _permit = self.immediate.acquire().await;
        client.query(&Query { newer_than: None, ..query }, REPLY_LIMIT).await
    }

    /// Sends the query after every change in Consul, until the reply is newer than `index` or the deadline has come.
    async fn query_on_change(
        &self,
        client: &Client,
        query: Query,
        index: u64,
        deadline: Instant,
    ) -> Result<QueryReply, CallError> {
        let mut changes = self.changes.subscribe(client);
        loop {
            // Subscribed before the query is sent, so no change after the reply is missed.
            changes.mark_unchanged();
            let reply = self.query_immediately(client, query.clone()).await?;
            if reply.index.map(|index| index.max(1)) != Some(index) || Instant::now() >= deadline {
                return Ok(reply);
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep_until(deadline) => {}
            }
        }
    }

    /// Waits for a turn, which is short; asks for an immediate reply if none comes before the deadline.
    async fn query_in_turn(
        &self,
        client: &Client,
        query: Query,
        (index, wait): (u64, Duration),
        deadline: Instant,
    ) -> Result<QueryReply, CallError> {
        match timeout_at(deadline, self.blocking.acquire()).await {
            Ok(_permit) => {
                let query = Query { newer_than: Some((index, TURN.min(wait))), ..query };
                client.query(&query, REPLY_LIMIT).await
            }
            Err(_) => self.query_immediately(client, query).await,
        }
    }
}
