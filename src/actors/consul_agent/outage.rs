//! Tells when trouble with Consul is worth a line in the log: once when it begins, once when it is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The kind of trouble; each is told once per outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trouble {
    /// No answer, or none in time.
    Unreachable,
    /// An answer that makes no sense.
    Garbled,
    /// An answer with this status.
    Answered(u16),
}

/// Who has trouble now, and what was told of it.
#[derive(Debug, Default)]
pub struct Outage {
    troubled: BTreeMap<Arc<str>, Trouble>,
    told: BTreeSet<Trouble>,
}

impl Outage {
    /// Notes that something failed for somebody; true if that is news.
    pub fn failed(&mut self, who: Arc<str>, trouble: Trouble) -> bool {
        self.troubled.insert(who, trouble);
        self.told.insert(trouble)
    }

    /// Notes that somebody is served; true if nobody has trouble any more, and somebody had.
    pub fn served(&mut self, who: &str) -> bool {
        if self.troubled.remove(who).is_none() || !self.troubled.is_empty() {
            return false;
        }
        self.told.clear();
        true
    }

    /// Whether this is the first caller in trouble: it tries more often than the others.
    pub fn is_first(&self, who: &str) -> bool {
        self.troubled.keys().next().is_some_and(|first| **first == *who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Arc<str> {
        text.into()
    }

    #[test]
    fn an_outage_is_told_once_and_its_end_once() {
        let mut outage = Outage::default();
        assert!(outage.failed(name("a"), Trouble::Unreachable));
        assert!(!outage.failed(name("a"), Trouble::Unreachable));
        assert!(!outage.failed(name("b"), Trouble::Unreachable));
        assert!(!outage.served("a"), "b still has trouble");
        assert!(outage.served("b"));
        assert!(!outage.served("b"));
        assert!(outage.failed(name("a"), Trouble::Unreachable), "the next outage is told again");
    }

    #[test]
    fn exactly_one_of_those_in_trouble_is_the_first() {
        let mut outage = Outage::default();
        assert!(!outage.is_first("a"));
        for who in ["b", "a", "c"] {
            outage.failed(name(who), Trouble::Unreachable);
        }
        assert_eq!(["a", "b", "c"].map(|who| outage.is_first(who)), [true, false, false]);
        outage.served("a");
        assert_eq!(["a", "b", "c"].map(|who| outage.is_first(who)), [false, true, false]);
    }

    #[test]
    fn another_kind_of_trouble_is_news_once() {
        let mut outage = Outage::default();
        assert!(outage.failed(name("a"), Trouble::Unreachable));
        assert!(outage.failed(name("a"), Trouble::Answered(500)));
        assert!(!outage.failed(name("a"), Trouble::Unreachable), "an outage that changes its face is one");
        assert!(!outage.failed(name("a"), Trouble::Answered(500)));
        assert!(outage.failed(name("a"), Trouble::Answered(403)));
    }
}
