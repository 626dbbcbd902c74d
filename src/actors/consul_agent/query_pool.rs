//! Sends the queries of watches, as many at a time as Consul's connections allow.
//!
//! A blocking query holds a connection, and Consul allows a client 200. Beyond 128 of them, queries about services are
//! sent again when the change feed reports that something has changed; all others take turns. The decisions are in
//! [`super::machine::query_way`].

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};

use super::change_feed::ChangeFeed;
use super::machine::query_way::{Way, is_news, way};
use crate::consul::{CallError, Client};
use crate::messages::discovery::{Query, QueryReply};

/// Blocking queries that have a connection of their own.
const BLOCKING_QUERIES: usize = 128;
/// Queries for an immediate reply. With the blocking queries, the change feed and the calls about services they use all
/// connections of the client.
const IMMEDIATE_QUERIES: usize = 14;
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
        let connection = query.newer_than.and_then(|_| self.blocking.try_acquire().ok());
        match way(&query, connection.is_some()) {
            Way::Immediate => self.query_immediately(client, query).await,
            Way::Blocking => client.query(&query, REPLY_LIMIT).await,
            Way::OnChange { index, wait } => {
                self.query_on_change(client, query, index, Instant::now() + wait).await
            }
            Way::InTurn { newer_than, patience } => {
                self.query_in_turn(client, query, newer_than, patience).await
            }
        }
    }

    async fn query_immediately(&self, client: &Client, query: Query) -> Result<QueryReply, CallError> {
        let _permit = self.immediate.acquire().await;
        client.query(&Query { newer_than: None, ..query }, REPLY_LIMIT).await
    }

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
            if is_news(reply.index, index) || Instant::now() >= deadline {
                return Ok(reply);
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep_until(deadline) => {}
            }
        }
    }

    async fn query_in_turn(
        &self,
        client: &Client,
        query: Query,
        newer_than: (u64, Duration),
        patience: Duration,
    ) -> Result<QueryReply, CallError> {
        match timeout(patience, self.blocking.acquire()).await {
            Ok(_permit) => {
                let query = Query { newer_than: Some(newer_than), ..query };
                client.query(&query, REPLY_LIMIT).await
            }
            Err(_) => self.query_immediately(client, query).await,
        }
    }
}
