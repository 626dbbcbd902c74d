//! Decides for the change feed, which asks Consul whether anything has changed: what a reply means, and when to ask again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::query_way::is_news;
use super::retry;
use crate::consul::blocking::{Cursor, Reply};

/// How often to query a Consul that does not support blocking queries.
const INTERVAL: Duration = Duration::from_secs(10);
/// The pause after a change, for each subscriber that then sends a query: at most two thousand queries a second follow from each
/// of the two feeds, that of services and that of checks.
const PAUSE_PER_SUBSCRIBER: Duration = Duration::from_micros(500);

/// The position in Consul's changes. A new one knows none, so the first reply counts as a change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Feed {
    cursor: Cursor,
    /// Failures in a row.
    failures: u32,
}

/// The consequences of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Something has changed, or may have.
    pub is_change: bool,
    /// The pause before the next query.
    pub pause: Duration,
}

impl Feed {
    /// The index and the wait of the next query; `None`: one that does not block.
    pub fn newer_than(&self) -> Option<(u64, Duration)> {
        self.cursor.newer_than(INTERVAL)
    }

    /// Consul has replied after this time, with this index. Each subscriber sends a query after a change.
    pub fn replied(&mut self, index: Option<u64>, took: Duration, subscribers: usize) -> Outcome {
        self.failures = 0;
        let known = self.newer_than().map(|(index, _)| index);
        let is_change = known.is_none_or(|known| is_news(index, known));
        let subscribers = u32::try_from(subscribers).unwrap_or(u32::MAX);
        let their_time = PAUSE_PER_SUBSCRIBER.saturating_mul(if is_change { subscribers } else { 0 });
        let interval = if is_change && index.is_some() { their_time } else { INTERVAL };
        // Only the query of a watch can tell whether a change matters to it.
        let (next, pause) = self.cursor.after(Reply { index, took, is_news: false }, interval);
        self.cursor = next;
        Outcome { is_change, pause: pause.max(their_time) }
    }

    /// The query has failed. Returns the pause before the next one, whose reply is a change again.
    pub fn failed(&mut self, random: f64) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.cursor = self.cursor.anew();
        retry::delay(self.failures, INTERVAL, false, random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(300);

    /// A feed that knows this index.
    fn at(index: u64) -> Feed {
        let mut feed = Feed::default();
        feed.replied(Some(index), Duration::ZERO, 1);
        feed
    }

    fn index(feed: &Feed) -> Option<u64> {
        feed.newer_than().map(|(index, _)| index)
    }

    #[test]
    fn the_first_reply_is_a_change_since_the_state_before_it_is_not_known() {
        let mut feed = Feed::default();
        assert_eq!(index(&feed), None);
        assert!(feed.replied(Some(7), Duration::ZERO, 1).is_change);
        assert_eq!(index(&feed), Some(7));
    }

    #[test]
    fn only_another_index_is_a_change() {
        let mut feed = at(7);
        let quiet = feed.replied(Some(7), LONG, 1);
        assert_eq!(quiet, Outcome { is_change: false, pause: Duration::ZERO });
        assert!(feed.replied(Some(8), LONG, 1).is_change);
        assert!(feed.replied(Some(3), LONG, 1).is_change, "Consul's state was restored");
        assert!(feed.replied(Some(0), LONG, 1).is_change);
        assert!(!feed.replied(Some(0), LONG, 1).is_change);
    }

    #[test]
    fn without_an_index_each_reply_may_be_a_change_and_is_asked_for_every_ten_seconds() {
        let mut feed = at(7);
        for _ in 0..3 {
            let outcome = feed.replied(None, Duration::ZERO, 1);
            assert_eq!(outcome, Outcome { is_change: true, pause: INTERVAL });
            assert_eq!(index(&feed), None);
        }
    }

    #[test]
    fn many_subscribers_have_time_to_ask_before_the_next_change() {
        let pause = |subscribers| at(7).replied(Some(8), LONG, subscribers).pause;
        assert_eq!(pause(1), PAUSE_PER_SUBSCRIBER);
        assert_eq!(pause(1_000), Duration::from_millis(500));
        assert_eq!(pause(usize::MAX), PAUSE_PER_SUBSCRIBER * u32::MAX);
    }

    #[test]
    fn after_failures_the_pauses_grow_and_the_next_reply_is_a_change() {
        let mut feed = at(7);
        let pauses: Vec<u128> = (0..3).map(|_| feed.failed(1.0).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400]);
        assert_eq!(index(&feed), None);
        assert!(feed.replied(Some(7), Duration::ZERO, 1).is_change);
        assert_eq!(feed.failed(1.0).as_millis(), 100, "a reply ends the row of failures");
    }
}
