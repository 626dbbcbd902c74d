//! The rules of Consul's blocking queries: which index the next query has, how long it may wait, and how soon it follows.
//! Pure.
//!
//! Consul replies to a query with an index when there is something newer, or when the wait is over. With a wait of
//! minutes, an idle watch costs nothing. Some proxies reply early, or without the change: then the watch asks once per
//! `interval`, until a query blocks again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The wait of a query: Consul's default. It allows ten minutes, but proxies close connections that are silent for long.
pub const WAIT: Duration = Duration::from_secs(300);
/// To Consul a wait of zero means its default, and a very short one would be a busy loop.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
/// A server that has not replied for this long holds the query.
pub const HELD: Duration = Duration::from_millis(500);
/// A server that holds queries for a while and then replies early is asked at least this often.
const CHEAP: Duration = Duration::from_secs(10);
/// The number of quick replies in a row after which the next query still follows at once.
const BURST: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest pause while Consul replies with newer indices but nothing that concerns us changed.
const LONGEST_PAUSE: Duration = Duration::from_millis(80);

/// The position of a watch in Consul's sequence of changes, and how the server has behaved so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// The index of the last reply; `None`: the next query does not block.
    index: Option<u64>,
    /// The number of quick replies in a row.
    quick_replies: u32,
    /// The number of queries in a row that ended before their wait was over, without a change.
    early_replies: u32,
    /// The last change was not reported when it happened: until one is, a query waits only for `interval`.
    misses_changes: bool,
}

/// The reply to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Consul's index; a proxy may have removed it.
    pub index: Option<u64>,
    /// The time from the query to its reply.
    pub took: Duration,
    /// The reply differs from the one before.
    pub is_news: bool,
}

/// What a reply shows about the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// There is no index: the server does not support blocking queries.
    Unindexed,
    /// Nothing: the query had no index, or the server's state was restored.
    Nothing,
    /// A change was reported when it happened.
    Told,
    /// Something else changed: a service without instances has the index of the whole catalogue.
    Elsewhere,
    /// Nothing changed during the whole wait.
    Quiet,
    /// Nothing changed, and the wait was not over.
    Early,
    /// A change was reported only when the wait was over, or with the old index.
    Missed,
}

impl Cursor {
    /// The index and the wait of the next query; `None`: a query that does not block. `interval` is the setting of the
    /// watch.
    pub fn newer_than(self, interval: Duration) -> Option<(u64, Duration)> {
        let wait = if self.misses_changes { interval.clamp(SHORTEST_WAIT, WAIT) } else { WAIT };
        self.index.map(|index| (index, wait))
    }

    /// The cursor after a reply, and the pause before the next query.
    #[must_use]
    pub fn after(self, reply: Reply, interval: Duration) -> (Self, Duration) {
        let verdict = self.verdict(reply, interval);
        let next = Self {
            index: self.next_index(reply.index),
            quick_replies: if reply.took >= HELD { 0 } else { self.quick_replies.saturating_add(1) },
            early_replies: match verdict {
                Verdict::Early => self.early_replies.saturating_add(1),
                Verdict::Nothing | Verdict::Missed => self.early_replies,
                Verdict::Unindexed | Verdict::Told | Verdict::Elsewhere | Verdict::Quiet => 0,
            },
            misses_changes: match verdict {
                Verdict::Missed => true,
                Verdict::Told | Verdict::Unindexed => false,
                Verdict::Nothing | Verdict::Elsewhere | Verdict::Quiet | Verdict::Early => {
                    self.misses_changes
                }
            },
        };
        (next, next.pause(verdict, reply.took, interval))
    }

    /// The cursor after a query that was held and whose connection then ended, and the pause before the next query. That
    /// one does not block: it shows whether the server is there, and a server that restarted without its state would
    /// hold a query with the old index although something changed.
    #[must_use]
    pub fn after_cut(self, took: Duration, interval: Duration) -> (Self, Duration) {
        let next = Self {
            index: None,
            quick_replies: 0,
            early_replies: self.early_replies.saturating_add(1),
            ..self
        };
        (next, next.pause_after_early(took, interval))
    }

    /// Forgets the index, since the reply to the last query may be lost.
    #[must_use]
    pub fn anew(self) -> Self {
        Self { index: None, ..self }
    }

    fn next_index(self, answered: Option<u64>) -> Option<u64> {
        // An index of zero would not block.
        match (self.index, answered.map(|index| index.max(1))) {
            (_, None) => None,
            // The server lost or restored its state: our index has no meaning any more.
            (Some(last), Some(index)) if index < last => None,
            (_, Some(index)) => Some(index),
        }
    }

    fn verdict(self, reply: Reply, interval: Duration) -> Verdict {
        let Some(index) = reply.index else { return Verdict::Unindexed };
        let Some((asked, wait)) = self.newer_than(interval) else { return Verdict::Nothing };
        let index = index.max(1);
        if index < asked {
            return Verdict::Nothing;
        }
        match reply.is_news {
            true if index == asked || reply.took >= wait => Verdict::Missed,
            true => Verdict::Told,
            false if index > asked => Verdict::Elsewhere,
            false if reply.took >= wait => Verdict::Quiet,
            false => Verdict::Early,
        }
    }

    fn pause(self, verdict: Verdict, took: Duration, interval: Duration) -> Duration {
        match verdict {
            Verdict::Unindexed => interval,
            Verdict::Quiet => Duration::ZERO,
            Verdict::Early => self.pause_after_early(took, interval),
            Verdict::Missed => interval.saturating_sub(took),
            Verdict::Told => self.pause_of_burst(FIRST_PAUSE),
            Verdict::Nothing | Verdict::Elsewhere => self.pause_of_burst(interval.min(LONGEST_PAUSE)),
        }
    }

    /// One query that ends early may have a passing reason (a proxy's time limit, a new leader); a second one in a row
    /// means that the server does not block.
    fn pause_after_early(self, took: Duration, interval: Duration) -> Duration {
        let pace = if took >= HELD { interval.min(CHEAP) } else { interval };
        if self.early_replies <= 1 { Duration::ZERO } else { pace.saturating_sub(took) }
    }

    fn pause_of_burst(self, longest: Duration) -> Duration {
        if self.quick_replies <= BURST {
            return Duration::ZERO;
        }
        let doublings = (self.quick_replies - BURST - 1).min(16);
        FIRST_PAUSE.saturating_mul(1 << doublings).min(longest.max(FIRST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(1);
    const AT_ONCE: Duration = Duration::ZERO;
    const MINUTE: Duration = Duration::from_secs(60);

    fn reply(index: u64, took: Duration, is_news: bool) -> Reply {
        Reply { index: Some(index), took, is_news }
    }

    /// A cursor whose last answer had that index.
    fn at(index: u64) -> Cursor {
        Cursor::default().after(reply(index, AT_ONCE, true), INTERVAL).0
    }

    fn index(cursor: Cursor) -> Option<u64> {
        cursor.newer_than(INTERVAL).map(|(index, _)| index)
    }

    fn wait(cursor: Cursor) -> Option<Duration> {
        cursor.newer_than(INTERVAL).map(|(_, wait)| wait)
    }

    #[test]
    fn an_idle_watch_asks_once_in_five_minutes_whatever_its_interval() {
        for interval in [Duration::from_millis(1), INTERVAL, Duration::MAX] {
            let mut cursor = at(7);
            for _ in 0..10 {
                assert_eq!(cursor.newer_than(interval), Some((7, WAIT)));
                let (next, pause) = cursor.after(reply(7, WAIT, false), interval);
                assert_eq!(pause, Duration::ZERO);
                cursor = next;
            }
        }
    }

    #[test]
    fn every_answer_has_its_verdict() {
        use Verdict::{Early, Elsewhere, Missed, Nothing, Quiet, Told, Unindexed};
        let (first, later) = (Cursor::default(), at(7));
        let table = [
            (first, None, AT_ONCE, true, Unindexed),
            (later, None, WAIT, false, Unindexed),
            (first, Some(7), AT_ONCE, true, Nothing),
            (first, Some(7), AT_ONCE, false, Nothing),
            (later, Some(6), AT_ONCE, true, Nothing),
            (later, Some(6), WAIT, false, Nothing),
            (later, Some(8), AT_ONCE, true, Told),
            (later, Some(8), MINUTE, true, Told),
            (later, Some(8), WAIT, true, Missed),
            (later, Some(7), AT_ONCE, true, Missed),
            (later, Some(7), WAIT, true, Missed),
            (later, Some(8), AT_ONCE, false, Elsewhere),
            (later, Some(8), WAIT, false, Elsewhere),
            (later, Some(7), AT_ONCE, false, Early),
            (later, Some(7), MINUTE, false, Early),
            (later, Some(7), WAIT, false, Quiet),
        ];
        for (cursor, index, took, is_news, expected) in table {
            let reply = Reply { index, took, is_news };
            assert_eq!(cursor.verdict(reply, INTERVAL), expected, "{cursor:?} {reply:?}");
        }
    }

    #[test]
    fn the_next_query_waits_for_something_newer_than_the_last_answer() {
        assert_eq!(index(Cursor::default()), None);
        assert_eq!(index(at(7)), Some(7));
        assert_eq!(index(at(7).after(reply(7, WAIT, false), INTERVAL).0), Some(7));
        assert_eq!(index(at(7).after(reply(9, AT_ONCE, false), INTERVAL).0), Some(9));
    }

    #[test]
    fn an_index_that_goes_backwards_starts_over() {
        let (cursor, pause) = at(7).after(reply(6, AT_ONCE, false), INTERVAL);
        assert_eq!((index(cursor), pause), (None, Duration::ZERO));
        assert_eq!(index(cursor.after(reply(6, AT_ONCE, false), INTERVAL).0), Some(6));
    }

    #[test]
    fn the_index_is_never_zero() {
        assert_eq!(index(at(0)), Some(1));
        let (cursor, pause) = at(0).after(reply(0, WAIT, false), INTERVAL);
        assert_eq!((index(cursor), pause), (Some(1), Duration::ZERO));
    }

    #[test]
    fn a_server_without_an_index_is_asked_each_interval() {
        let (cursor, pause) = at(7).after(Reply { index: None, took: AT_ONCE, is_news: false }, INTERVAL);
        assert_eq!((index(cursor), pause), (None, INTERVAL));
    }

    #[test]
    fn a_change_after_a_quiet_time_is_followed_at_once() {
        let (_, pause) = at(7).after(reply(8, MINUTE, true), INTERVAL);
        assert_eq!(pause, Duration::ZERO);
    }

    #[test]
    fn a_service_that_changes_all_the_time_is_followed_all_the_time() {
        let mut cursor = at(7);
        for index in 8..100 {
            let (next, pause) = cursor.after(reply(index, Duration::from_millis(300), true), INTERVAL);
            assert!(pause <= FIRST_PAUSE);
            cursor = next;
        }
    }

    #[test]
    fn changes_elsewhere_hide_none_of_ours_for_long_and_make_no_busy_loop() {
        let (mut cursor, mut time) = (at(7), Duration::ZERO);
        for index in 8..800 {
            let (next, pause) = cursor.after(reply(index, AT_ONCE, false), INTERVAL);
            assert!(pause <= LONGEST_PAUSE);
            (cursor, time) = (next, time + pause);
        }
        assert!(time > Duration::from_secs(55), "800 queries in {time:?} of constant change");
    }

    #[test]
    fn a_server_that_never_blocks_is_asked_each_interval_from_the_second_early_answer_on() {
        let mut cursor = at(7);
        let pauses: Vec<Duration> = std::iter::repeat_with(|| {
            let (next, pause) = cursor.after(reply(7, AT_ONCE, false), INTERVAL);
            cursor = next;
            pause
        })
        .take(4)
        .collect();
        assert_eq!(pauses, [Duration::ZERO, INTERVAL, INTERVAL, INTERVAL]);
        let (_, pause) = cursor.after(reply(7, AT_ONCE, true), INTERVAL);
        assert_eq!(pause, INTERVAL, "a change under the old index makes it no better");
    }

    #[test]
    fn a_server_that_blocks_again_is_trusted_again() {
        let (mut cursor, mut pause) = (at(7), Duration::ZERO);
        for took in [AT_ONCE, AT_ONCE, AT_ONCE, WAIT, AT_ONCE] {
            (cursor, pause) = cursor.after(reply(7, took, false), INTERVAL);
        }
        assert_eq!(pause, Duration::ZERO, "one early answer after a whole wait is chance again");
    }

    #[test]
    fn a_server_that_holds_queries_for_less_than_their_wait_is_asked_again_at_once() {
        let mut cursor = at(7);
        for _ in 0..10 {
            let (next, pause) = cursor.after(reply(7, MINUTE, false), Duration::MAX);
            assert_eq!(pause, Duration::ZERO);
            cursor = next;
        }
        let (_, pause) = cursor.after(reply(7, HELD, false), Duration::MAX);
        assert_eq!(pause, CHEAP - HELD, "but not in a loop");
    }

    #[test]
    fn after_a_missed_change_the_server_is_asked_each_interval_until_it_tells_one_in_time() {
        let (cursor, _) = at(7).after(reply(8, WAIT, true), INTERVAL);
        assert_eq!(wait(cursor), Some(INTERVAL));
        let (cursor, pause) = cursor.after(reply(8, INTERVAL, false), INTERVAL);
        assert_eq!((wait(cursor), pause), (Some(INTERVAL), Duration::ZERO));
        let (cursor, _) = cursor.after(reply(9, INTERVAL, true), INTERVAL);
        assert_eq!(wait(cursor), Some(INTERVAL), "told when the wait was over: missed again");
        let (cursor, _) = cursor.after(reply(10, INTERVAL / 2, true), INTERVAL);
        assert_eq!(wait(cursor), Some(WAIT));
    }

    #[test]
    fn a_wait_is_never_zero_which_would_mean_consuls_default_nor_beyond_what_we_bear() {
        let (cursor, _) = at(7).after(reply(8, WAIT, true), INTERVAL);
        let wait = |interval| cursor.newer_than(interval).map(|(_, wait)| wait);
        assert_eq!(wait(Duration::from_millis(1)), Some(SHORTEST_WAIT));
        assert_eq!(wait(Duration::MAX), Some(WAIT));
    }

    #[test]
    fn after_a_cut_connection_an_answer_is_asked_for_at_once_and_then_waited_for_again() {
        let mut cursor = at(7);
        for _ in 0..10 {
            let (asking, pause) = cursor.after_cut(MINUTE, INTERVAL);
            assert_eq!((index(asking), pause), (None, Duration::ZERO));
            let (waiting, pause) = asking.after(reply(7, AT_ONCE, false), INTERVAL);
            assert_eq!((waiting.newer_than(INTERVAL), pause), (Some((7, WAIT)), Duration::ZERO));
            cursor = waiting;
        }
    }

    #[test]
    fn connections_that_are_cut_again_and_again_after_a_moment_make_no_busy_loop() {
        let (mut cursor, mut pauses) = (at(7), Vec::new());
        for _ in 0..3 {
            let (asking, pause) = cursor.after_cut(HELD, INTERVAL);
            pauses.push(pause);
            cursor = asking.after(reply(7, AT_ONCE, false), INTERVAL).0;
        }
        assert_eq!(pauses, [Duration::ZERO, INTERVAL - HELD, INTERVAL - HELD]);
    }
}
