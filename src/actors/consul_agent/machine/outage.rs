//! Decides when trouble with Consul is logged: once when it begins, once when it is over, and once for each that is refused
//! while others are served.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::messages::moment::Moment;

/// The kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Trouble {
    /// No reply, or none in time.
    Unreachable,
    /// A reply that makes no sense.
    Garbled,
    /// A reply with this HTTP status.
    Answered(u16),
}

/// The status of an answer to a request that Consul cannot take: it is about that request, whatever others are answered.
const BAD_REQUEST: Trouble = Trouble::Answered(400);
/// A refusal is logged at this failure while others are served: after an outage, the first one may be a late answer.
const REFUSALS_UNTIL_TOLD: u32 = 2;

/// The services and watches in trouble. While one of them fails that is not refused for a reason of its own, there is an
/// outage, which may be everybody's: each kind of trouble is logged once for all. A refusal is logged for each of those that are refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Outage {
    failing: BTreeMap<Arc<str>, Failing>,
    /// The kinds of trouble that were logged in the present outage.
    told: BTreeSet<Trouble>,
    /// The time of the first failure of those that were in the outage and are served again.
    recovered_since: Option<Moment>,
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
    /// The kinds of trouble that were logged for it. One that is now refused and now without a reply is not news each time.
    told: BTreeSet<Trouble>,
    /// How many of its last calls were refused for a reason of its own: it may not read its key, for instance.
    refusals: u32,
}

impl Failing {
    const fn is_refused(&self) -> bool {
        self.refusals > 0
    }

    /// Is this failure to be logged, if the outage has told these kinds?
    fn is_news(&self, told: &BTreeSet<Trouble>) -> bool {
        let is_news_of_all = if self.is_refused() {
            self.refusals >= REFUSALS_UNTIL_TOLD || self.trouble == BAD_REQUEST
        } else {
            !told.contains(&self.trouble)
        };
        is_news_of_all && !self.told.contains(&self.trouble)
    }
}

impl Outage {
    /// Notes that a call failed for a service or watch; true if that is to be logged.
    pub fn failed(&mut self, now: Moment, caller: Arc<str>, trouble: Trouble, reason: String) -> bool {
        let former = self.failing.remove(&caller);
        if trouble != BAD_REQUEST {
            self.is_serving &= former.is_some() && trouble != Trouble::Unreachable;
        }
        let is_refused = self.is_serving || trouble == BAD_REQUEST;
        let (since, told, refusals) =
            former.map_or((now, BTreeSet::new(), 0), |former| (former.since, former.told, former.refusals));
        let refusals = if is_refused { refusals.saturating_add(1) } else { 0 };
        let mut failing = Failing { since, trouble, reason, told, refusals };
        let is_news = failing.is_news(&self.told);
        if is_news {
            failing.told.insert(trouble);
            if !is_refused {
                self.told.insert(trouble);
            }
        }
        self.failing.insert(caller, failing);
        is_news
    }

    /// Notes that a call succeeded for a service or watch. If that ends the outage, returns when it began.
    pub fn served(&mut self, caller: &str) -> Option<Moment> {
        self.is_serving = true;
        let failing = self.failing.remove(caller)?;
        let is_last_refusal = self.failing.is_empty() && !failing.told.is_empty();
        if !failing.is_refused() || is_last_refusal {
            let earlier = self.recovered_since.filter(|recovered| *recovered < failing.since);
            self.recovered_since = earlier.or(Some(failing.since));
        }
        self.over()
    }

    /// Ends the outage if all that are still in trouble are refused. Returns the time of the first failure of those that are served
    /// again.
    pub fn over(&mut self) -> Option<Moment> {
        if !self.failing.values().all(Failing::is_refused) {
            return None;
        }
        self.told.clear();
        self.recovered_since.take()
    }

    /// Forgets a watch that was removed; true if it was the last one in trouble.
    pub fn removed(&mut self, caller: &str) -> bool {
        let was_failing = self.failing.remove(caller).is_some();
        self.over();
        was_failing && self.failing.is_empty()
    }

    /// The last failure of a service or watch in trouble, and its reason.
    pub fn failure(&self, caller: &str) -> Option<(Trouble, &str)> {
        self.failing.get(caller).map(|failing| (failing.trouble, &*failing.reason))
    }

    /// The services and watches in trouble.
    pub fn callers(&self) -> impl Iterator<Item = &Arc<str>> {
        self.failing.keys()
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
        assert!(!failed(&mut outage, 3, "far", Trouble::Answered(500)));
        assert_eq!(outage.over(), None, "nobody was served that was not before");
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
        assert_eq!((outage.over(), outage.served("b")), (None, None));
        assert_eq!(outage.served("a"), Some(at(1)));
    }

    #[test]
    fn an_outage_is_told_though_one_was_refused_with_the_same_status_before() {
        let mut outage = Outage::default();
        assert!(failed(&mut outage, 1, "refused", Trouble::Answered(500)));
        outage.served("a");
        assert!(!failed(&mut outage, 2, "refused", Trouble::Answered(500)));
        assert_eq!(outage.over(), None);
        assert!(failed(&mut outage, 10, "a", Trouble::Answered(500)));
        assert!(!failed(&mut outage, 11, "b", Trouble::Answered(500)), "the same outage");
        assert!(!failed(&mut outage, 11, "refused", Trouble::Answered(500)));
        assert_eq!(
            (outage.served("b"), outage.served("a")),
            (None, None),
            "the refused one may be in it, too"
        );
        assert!(!failed(&mut outage, 15, "refused", Trouble::Answered(500)));
        assert_eq!(outage.over(), Some(at(10)));
        assert_eq!(outage.served("refused"), Some(at(1)));
    }

    #[test]
    fn each_that_is_refused_while_others_are_served_is_told_once() {
        let mut outage = Outage::default();
        assert!(failed(&mut outage, 1, "a", Trouble::Answered(403)));
        assert!(!failed(&mut outage, 1, "b", Trouble::Answered(403)), "it may be an outage");
        let mut told = Vec::new();
        for second in 2..9 {
            outage.served("c");
            told.extend(["a", "b"].map(|caller| failed(&mut outage, second, caller, Trouble::Answered(403))));
            assert_eq!(outage.over(), None);
        }
        assert_eq!(told.iter().filter(|told| **told).count(), 1, "that of b: {told:?}");
    }

    #[test]
    fn a_late_failure_after_an_outage_is_not_told() {
        let mut outage = Outage::default();
        assert!(failed(&mut outage, 1, "a", Trouble::Answered(500)));
        assert!(!failed(&mut outage, 1, "b", Trouble::Answered(500)));
        assert_eq!(outage.served("a"), None);
        assert!(!failed(&mut outage, 3, "b", Trouble::Answered(500)));
        assert_eq!((outage.over(), outage.served("b")), (Some(at(1)), None));
    }

    #[test]
    fn a_request_that_consul_cannot_take_is_told_for_each_service() {
        let mut outage = Outage::default();
        assert!(failed(&mut outage, 1, "a", Trouble::Answered(400)));
        assert!(failed(&mut outage, 1, "b", Trouble::Answered(400)));
        assert!(!failed(&mut outage, 2, "a", Trouble::Answered(400)));
        assert_eq!(outage.failure("b"), Some((Trouble::Answered(400), "b Answered(400)")));
        assert_eq!((outage.served("a"), outage.failure("a")), (None, None));
        assert_eq!(outage.served("b"), Some(at(1)));
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
