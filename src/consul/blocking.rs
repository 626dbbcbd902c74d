//! Consul's rules for blocking queries: which index to ask with next, and how soon. Pure.
//!
//! A query with an index is answered when there is something newer; that answer may come at once again and again,
//! from a busy Consul or from a proxy that does not know the rule, and must not make us spin.

use std::time::Duration;

/// An answer that took at least this long was waited for.
const PATIENT: Duration = Duration::from_millis(500);
/// Answers in quick succession that are asked for without delay.
const BURST: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// While Consul answers with newer indices that mean nothing to us: a change that does must still be seen soon.
const LONGEST_PAUSE: Duration = Duration::from_millis(80);
/// Consul takes a wait of zero for its default of five minutes, and none above ten.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// What to ask next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Answer when there is something newer than this; `None`: answer now.
    pub index: Option<u64>,
    /// Answers in quick succession.
    hurried: u32,
    /// What the last of them was worth.
    worth: Worth,
}

/// What an answer was worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worth {
    /// It told a change.
    News,
    /// Something changed elsewhere: a service that does not exist shares its index with all others.
    Nothing,
    /// Nothing changed at all: somebody between us and Consul does not block.
    Futile,
}

impl Cursor {
    /// Nothing was asked yet.
    pub const fn new() -> Self {
        Self { index: None, hurried: 0, worth: Worth::News }
    }

    /// What to ask after an answer that came with `index` after `took`, and told of a change or did not.
    #[must_use]
    pub fn after(self, index: Option<u64>, took: Duration, is_news: bool) -> Self {
        let hurried = if took >= PATIENT { 0 } else { self.hurried.saturating_add(1) };
        let worth = match is_news {
            true => Worth::News,
            false if hurried > 0 && index.is_some() && index == self.index => Worth::Futile,
            false => Worth::Nothing,
        };
        let next = match (self.index, index) {
            (_, None) => None,
            // Its state was lost or restored: what we know the index of is gone.
            (Some(last), Some(index)) if index < last => None,
            // Zero would not block.
            (_, Some(index)) => Some(index.max(1)),
        };
        Self { index: next, hurried, worth }
    }

    /// Forgets the index, for the answer to the last query may be lost.
    #[must_use]
    pub fn anew(self) -> Self {
        Self { index: None, ..self }
    }

    /// How long to pause before the next query of a watch that wants news within `interval`.
    pub fn pause(self, answered_with: Option<u64>, interval: Duration) -> Duration {
        if answered_with.is_none() {
            return interval; // nobody blocks for us: poll
        }
        if self.hurried <= BURST {
            return Duration::ZERO;
        }
        let doublings = (self.hurried - BURST - 1).min(16);
        let longest = match self.worth {
            Worth::News => FIRST_PAUSE,
            Worth::Nothing => interval.min(LONGEST_PAUSE),
            Worth::Futile => interval,
        };
        FIRST_PAUSE.saturating_mul(1 << doublings).min(longest.max(FIRST_PAUSE))
    }
}

impl Default for Cursor {
    fn default() -> Self {
        Self::new()
    }
}

/// How long Consul may hold a query back.
pub fn wait(interval: Duration) -> Duration {
    interval.clamp(WAITS.0, WAITS.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);
    const AT_ONCE: Duration = Duration::ZERO;

    fn at(index: u64) -> Cursor {
        Cursor::new().after(Some(index), INTERVAL, true)
    }

    #[test]
    fn the_next_query_waits_for_something_newer_than_the_last_answer() {
        assert_eq!(Cursor::new().index, None);
        assert_eq!(at(7).index, Some(7));
        assert_eq!(at(7).after(Some(7), INTERVAL, false).index, Some(7));
        assert_eq!(at(7).after(Some(9), AT_ONCE, false).index, Some(9));
    }

    #[test]
    fn an_index_that_goes_backwards_starts_over() {
        let cursor = at(7).after(Some(6), AT_ONCE, false);
        assert_eq!(cursor.index, None);
        assert_eq!(cursor.after(Some(6), AT_ONCE, false).index, Some(6));
    }

    #[test]
    fn the_index_is_never_zero() {
        assert_eq!(at(0).index, Some(1));
        assert_eq!(at(1).after(Some(0), AT_ONCE, false).index, None);
    }

    #[test]
    fn without_an_index_we_poll_each_interval() {
        let cursor = at(7).after(None, AT_ONCE, false);
        assert_eq!(cursor.index, None);
        assert_eq!(cursor.pause(None, INTERVAL), INTERVAL);
    }

    #[test]
    fn a_change_after_a_quiet_time_is_followed_at_once() {
        assert_eq!(at(7).after(Some(8), AT_ONCE, false).pause(Some(8), INTERVAL), Duration::ZERO);
    }

    #[test]
    fn a_service_that_changes_all_the_time_is_followed_all_the_time() {
        let mut cursor = at(7);
        for index in 8..100 {
            cursor = cursor.after(Some(index), Duration::from_millis(300), true);
            assert!(cursor.pause(Some(index), INTERVAL) <= FIRST_PAUSE);
        }
    }

    #[test]
    fn changes_elsewhere_hide_none_of_ours_for_long() {
        let mut cursor = at(7);
        for index in 8..100 {
            cursor = cursor.after(Some(index), AT_ONCE, false);
            assert!(cursor.pause(Some(index), INTERVAL) <= LONGEST_PAUSE);
        }
    }

    #[test]
    fn answers_that_do_not_wait_are_slowed_down() {
        let (mut cursor, mut asked, mut time) = (at(7), 0, Duration::ZERO);
        while time < Duration::from_secs(60) {
            cursor = cursor.after(Some(7 + asked), AT_ONCE, false);
            time += cursor.pause(Some(7), INTERVAL);
            asked += 1;
        }
        assert!(asked < 800, "{asked} queries in a minute of constant change");
    }

    #[test]
    fn queries_that_do_not_block_become_polls_each_interval() {
        let mut cursor = at(7);
        for _ in 0..20 {
            cursor = cursor.after(Some(7), AT_ONCE, false);
        }
        assert_eq!(cursor.pause(Some(7), INTERVAL), INTERVAL);
        let quiet = cursor.after(Some(7), INTERVAL, false);
        assert_eq!(quiet.pause(Some(7), INTERVAL), Duration::ZERO);
    }

    #[test]
    fn consul_is_never_asked_for_its_default_wait() {
        assert_eq!(wait(Duration::from_millis(1)), Duration::from_secs(1));
        assert_eq!(wait(INTERVAL), INTERVAL);
        assert_eq!(wait(Duration::MAX), Duration::from_secs(600));
    }
}
