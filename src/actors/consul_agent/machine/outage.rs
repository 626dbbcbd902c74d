//! Decides when trouble with Consul is logged: once when it begins, once when it is over.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::messages::moment::Moment;

/// The kind of trouble; each is logged once per outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Trouble {
    /// No reply, or none in time.
    Unreachable,
    /// A reply that makes no sense.
    Garbled,
    /// A reply with this HTTP status.
    Answered(u16),
}

/// The services and watches in trouble, and the kinds of trouble that were logged, with the time at which each began.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Outage {
    failing: BTreeMap<Arc<str>, Failing>,
    logged: BTreeMap<Trouble, Moment>,
    /// A call has succeeded since somebody else came into trouble or had no reply.
    is_serving: bool,
}

/// A service or watch in trouble.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Failing {
    /// The time of its first failure in a row.
    since: Moment,
    trouble: Trouble,
    reason: String,
    /// One of these failures was [`Trouble::Unreachable`].
    was_unreachable: bool,
    /// Its last call failed while those of others succeeded, for a reason of its own: it may not read its key, for instance.
    is_refused: bool,
}

impl Outage {
    /// Notes that a call failed for a service or watch; true if this kind of trouble is to be logged.
    pub fn failed(&mut self, now: Moment, caller: Arc<str>, trouble: Trouble, reason: String) -> bool {
        let former = self.failing.get(&caller);
        let since = former.map_or(now, |former| former.since);
        let was_unreachable = former.is_some_and(|former| former.was_unreachable);
        let is_unreachable = trouble == Trouble::Unreachable;
        self.is_serving &= former.is_some() && !is_unreachable;
        let is_refused = self.is_serving;
        // One that is now refused and now without a reply, while others are served, would be news each time.
        let is_told = self.logged.contains_key(&trouble) || (is_unreachable && was_unreachable);
        let was_unreachable = was_unreachable || is_unreachable;
        self.failing.insert(caller, Failing { since, trouble, reason, was_unreachable, is_refused });
        if !is_told {
            self.logged.insert(trouble, now);
        }
        !is_told
    }

    /// Notes that a call succeeded for a service or watch. If the outage is over by that, this is when it began.
    pub fn served(&mut self, caller: &str) -> Option<Moment> {
        self.failing.remove(caller);
        self.is_serving = true;
        if !self.failing.is_empty() {
            return self.reachable_again();
        }
        std::mem::take(&mut self.logged).into_values().min()
    }

    /// If Consul was unreachable, and only those are still in trouble that it refuses, this is when that began.
    pub fn reachable_again(&mut self) -> Option<Moment> {
        let is_over = self.failing.values().all(|failing| failing.is_refused);
        if is_over { self.logged.remove(&Trouble::Unreachable) } else { None }
    }

    /// Forgets a watch that was removed; true if it was the last one in trouble.
    pub fn removed(&mut self, caller: &str) -> bool {
        let is_last = self.failing.remove(caller).is_some() && self.failing.is_empty();
        if is_last {
            self.logged.clear();
        }
        is_last
    }

    /// The reason of the trouble, if there is any. That Consul is unreachable is more than what somebody is refused.
    pub fn reason(&self) -> Option<&str> {
        let unreachable = self.latest(|failing| failing.trouble == Trouble::Unreachable);
        unreachable.or_else(|| self.latest(|_| true)).map(|(_, failing)| &*failing.reason)
    }

    /// Is this the first of those in trouble to try again? It tries more often than the others, so it is one that was served
    /// until the outage began: it will be again, unlike one that Consul refuses for good.
    pub fn is_first(&self, caller: &str) -> bool {
        self.latest(|_| true).is_some_and(|(first, _)| **first == *caller)
    }

    /// Of these, the one that has been in trouble for the shortest time.
    fn latest(&self, is_one: impl Fn(&Failing) -> bool) -> Option<(&Arc<str>, &Failing)> {
        let them = self.failing.iter().filter(|(_, failing)| is_one(failing));
        them.min_by_key(|(_, failing)| Reverse(failing.since))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(second: u64) -> Moment {
        Moment::after(Duration::from_secs(second))
    }

    fn failed(outage: &mut Outage, second: u64, caller: &str, trouble: Trouble) -> bool {
        outage.failed(at(second), caller.into(), trouble, format!("{caller} {trouble:?}"))
    }

    #[test]
    fn an_outage_is_told_once_and_its_end_once() {
        let mut outage = Outage::default();
        assert!(failed(&mut outage, 1, "a", Trouble::Unreachable));
        assert!(!failed(&mut outage, 2, "a", Trouble::Unreachable));
        assert!(!failed(&mut outage, 3, "b", Trouble::Unreachable));
        assert_eq!(outage.served("a"), None, "b still has trouble");
        assert_eq!(outage.served("b"), Some(at(1)));
        assert_eq!((outage.served("b"), outage.reason()), (None, None));
        assert!(failed(&mut outage, 4, "a", Trouble::Unreachable), "the next outage is told again");
    }

    #[test]
    fn exactly_one_of_those_in_trouble_is_the_first() {
        let mut outage = Outage::default();
        assert!(!outage.is_first("a"));
        for caller in ["b", "a", "c"] {
            failed(&mut outage, 1, caller, Trouble::Unreachable);
        }
        assert_eq!(["a", "b", "c"].map(|caller| outage.is_first(caller)), [true, false, false]);
        outage.served("a");
        assert_eq!(["a", "b", "c"].map(|caller| outage.is_first(caller)), [false, true, false]);
    }

    #[test]
    fn the_first_was_served_until_the_outage_whatever_its_trouble_becomes() {
        let mut outage = Outage::default();
        failed(&mut outage, 1, "refused", Trouble::Answered(403));
        for trouble in [Trouble::Unreachable, Trouble::Answered(500), Trouble::Unreachable] {
            failed(&mut outage, 5, "served", trouble);
            failed(&mut outage, 6, "refused", trouble);
            assert!(outage.is_first("served") && !outage.is_first("refused"));
        }
        outage.served("served");
        assert!(outage.is_first("refused"));
    }

    #[test]
    fn another_kind_of_trouble_is_news_once() {
        let mut outage = Outage::default();
        assert!(failed(&mut outage, 1, "a", Trouble::Unreachable));
        assert!(failed(&mut outage, 2, "a", Trouble::Answered(500)));
        let is_news = failed(&mut outage, 3, "a", Trouble::Unreachable);
        assert!(!is_news, "an outage that changes its face is one");
        assert!(!failed(&mut outage, 4, "a", Trouble::Answered(500)));
        assert!(failed(&mut outage, 5, "a", Trouble::Answered(403)));
    }

    #[test]
    fn one_that_is_now_refused_and_now_without_a_reply_is_told_once_while_others_are_served() {
        let mut outage = Outage::default();
        assert!(failed(&mut outage, 1, "far", Trouble::Answered(500)));
        assert!(failed(&mut outage, 2, "far", Trouble::Unreachable));
        assert_eq!(outage.served("near"), None);
        failed(&mut outage, 3, "far", Trouble::Answered(500));
        assert_eq!(outage.reachable_again(), Some(at(2)));
        for second in 4..9 {
            assert!(!failed(&mut outage, second, "far", Trouble::Unreachable));
            assert!(!failed(&mut outage, second, "far", Trouble::Answered(500)));
            assert_eq!(outage.served("near"), None);
        }
        assert_eq!(outage.served("far"), Some(at(1)));
    }

    #[test]
    fn an_outage_that_was_refusals_too_is_over_when_the_last_of_these_is_served() {
        let mut outage = Outage::default();
        outage.served("a");
        failed(&mut outage, 1, "a", Trouble::Answered(500));
        failed(&mut outage, 2, "b", Trouble::Unreachable);
        failed(&mut outage, 3, "b", Trouble::Answered(500));
        failed(&mut outage, 3, "a", Trouble::Answered(500));
        assert_eq!((outage.reachable_again(), outage.served("b")), (None, None));
        assert_eq!(outage.served("a"), Some(at(1)));
    }

    #[test]
    fn the_reason_is_that_of_one_without_a_reply_else_of_the_latest_in_trouble() {
        let mut outage = Outage::default();
        failed(&mut outage, 1, "a", Trouble::Unreachable);
        failed(&mut outage, 2, "b", Trouble::Answered(500));
        failed(&mut outage, 3, "c", Trouble::Garbled);
        assert_eq!(outage.reason(), Some("a Unreachable"));
        assert!(!outage.removed("a"));
        assert_eq!(outage.reason(), Some("c Garbled"));
        assert!(!outage.removed("c") && outage.removed("b") && !outage.removed("b"));
        assert_eq!(outage, Outage::default());
    }
}
