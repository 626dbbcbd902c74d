//! Decides how the query of a watch is sent, since connections are few.

use std::time::Duration;

use crate::messages::discovery::{Query, QueryTarget};

/// Where queries take turns, the longest turn.
const TURN: Duration = Duration::from_secs(2);

/// A way to send a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// For a reply at once.
    Immediate,
    /// On a connection that is kept until Consul has something new.
    Blocking,
    /// For a reply at once, now and after each change in Consul.
    OnChange {
        /// The index that is known: a reply with another one is the last.
        index: u64,
        /// After this time, any reply is the last.
        wait: Duration,
    },
    /// It waits until it has a connection, and gives that up soon.
    InTurn {
        /// The index that is known, and how long the connection is kept for another one.
        newer_than: (u64, Duration),
        /// How long it waits for a connection before it is sent for a reply at once.
        patience: Duration,
    },
}

/// The way to send this query; `has_connection` tells whether there is a connection that it may keep.
pub fn way(query: &Query, has_connection: bool) -> Way {
    let Some((index, wait)) = query.newer_than else { return Way::Immediate };
    if has_connection {
        return Way::Blocking;
    }
    match (&query.target, &query.datacentre) {
        (QueryTarget::Service { .. }, None) => Way::OnChange { index, wait },
        // The change feed knows neither keys nor other datacentres. The queries that keep a connection do so for minutes,
        // so it may be long until the first turn.
        (QueryTarget::Service { .. } | QueryTarget::Key(_) | QueryTarget::Prefix(_), _) => {
            Way::InTurn { newer_than: (index, TURN.min(wait)), patience: query.interval.min(wait) }
        }
    }
}

/// Whether the index of a reply differs from the one that is known.
pub fn is_news(reply: Option<u64>, known: u64) -> bool {
    // An index of zero counts as one, as for every query.
    reply.map(|index| index.max(1)) != Some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);
    const WAIT: Duration = Duration::from_secs(300);

    fn query(target: QueryTarget, newer_than: Option<(u64, Duration)>) -> Query {
        Query {
            caller: "watch.db".into(),
            generation: 0,
            target,
            datacentre: None,
            newer_than,
            interval: INTERVAL,
        }
    }

    fn service(newer_than: Option<(u64, Duration)>) -> Query {
        query(QueryTarget::Service { name: "db".to_owned(), tag: None }, newer_than)
    }

    #[test]
    fn the_first_query_is_answered_at_once() {
        for has_connection in [true, false] {
            assert_eq!(way(&service(None), has_connection), Way::Immediate);
        }
    }

    #[test]
    fn a_query_blocks_while_there_are_connections() {
        let key = query(QueryTarget::Key("a".to_owned()), Some((7, WAIT)));
        for query in [service(Some((7, WAIT))), key] {
            assert_eq!(way(&query, true), Way::Blocking);
        }
    }

    #[test]
    fn without_a_connection_services_wait_for_the_change_feed_and_all_else_takes_turns() {
        assert_eq!(way(&service(Some((7, WAIT))), false), Way::OnChange { index: 7, wait: WAIT });
        let turn = Way::InTurn { newer_than: (7, Duration::from_secs(2)), patience: INTERVAL };
        for target in [QueryTarget::Key("a".to_owned()), QueryTarget::Prefix("a/".to_owned())] {
            assert_eq!(way(&query(target, Some((7, WAIT))), false), turn);
        }
        let elsewhere = Query { datacentre: Some("dc2".to_owned()), ..service(Some((7, WAIT))) };
        assert_eq!(way(&elsewhere, false), turn);
        let short = Duration::from_secs(1);
        let turn = Way::InTurn { newer_than: (7, short), patience: short };
        let hurried = query(QueryTarget::Key("a".to_owned()), Some((7, short)));
        assert_eq!(way(&hurried, false), turn, "no longer than the query may take");
    }

    #[test]
    fn every_other_index_is_news_and_so_is_none() {
        assert!(!is_news(Some(7), 7));
        assert!(is_news(Some(8), 7));
        assert!(is_news(Some(3), 7), "Consul began anew");
        assert!(is_news(None, 7), "a proxy has removed it");
        assert!(!is_news(Some(0), 1));
    }
}
