//! Decides when trouble with Consul is logged: once when it begins, once when it is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

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

/// The services and watches in trouble, and the kinds of trouble that were logged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Outage {
    failing: BTreeMap<Arc<str>, Trouble>,
    logged: BTreeSet<Trouble>,
}

impl Outage {
    /// Notes that a call failed for a service or watch; true if this kind of trouble is to be logged.
    pub fn failed(&mut self, caller: Arc<str>, trouble: Trouble) -> bool {
        self.failing.insert(caller, trouble);
        self.logged.insert(trouble)
    }

    /// Notes that a call succeeded for a service or watch; true if it was the last one in trouble.
    pub fn served(&mut self, caller: &str) -> bool {
        if self.failing.remove(caller).is_none() || !self.failing.is_empty() {
            return false;
        }
        self.logged.clear();
        true
    }

    /// Is this the first caller in trouble? It tries more often than the others.
    pub fn is_first(&self, caller: &str) -> bool {
        self.failing.keys().next().is_some_and(|first| **first == *caller)
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
        for caller in ["b", "a", "c"] {
            outage.failed(name(caller), Trouble::Unreachable);
        }
        assert_eq!(["a", "b", "c"].map(|caller| outage.is_first(caller)), [true, false, false]);
        outage.served("a");
        assert_eq!(["a", "b", "c"].map(|caller| outage.is_first(caller)), [false, true, false]);
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
