//! The next call about one service, from what is wanted and what is known, and what is known after it. A changed status is sent at
//! once, or right after the call under way; an unchanged one when its heartbeat is due. Each outcome leads to a state in which
//! the next calls make things right.

use serde::{Deserialize, Serialize};

use crate::messages::discovery::ServiceStatus;

/// The state that a service should have in Consul.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// Nothing.
    Absent,
    /// That revision of its registration, with this status.
    Present(u64, ServiceStatus),
}

/// The state of a service in Consul, as far as we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Known {
    /// Nothing.
    Absent,
    /// That revision of its registration, with this status.
    Present(u64, ServiceStatus),
    /// That revision of its registration. A service that Consul knew before, perhaps from an earlier life of ours, keeps
    /// the status that it had, whatever its new registration says.
    Registered(u64),
    /// A call failed: it may have had its effect or not.
    Uncertain,
}

/// One call to Consul about a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Call {
    /// Register that revision, with this status; replaces what is there.
    Register(u64, ServiceStatus),
    /// Tell the status of what is registered already.
    Update(u64, ServiceStatus),
    /// Deregister.
    Deregister,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Consul did it.
    Done,
    /// Consul does not know the service.
    Forgotten,
    /// No answer, or a refusal.
    Failed,
}

/// The next call, if one is needed; `due` when it is time for a heartbeat.
pub fn reconcile(wanted: Wanted, known: Known, due: bool) -> Option<Call> {
    match (wanted, known) {
        (Wanted::Absent, Known::Absent) => None,
        (Wanted::Absent, Known::Present(..) | Known::Registered(_) | Known::Uncertain) => {
            Some(Call::Deregister)
        }
        (Wanted::Present(revision, status), Known::Absent | Known::Uncertain) => {
            Some(Call::Register(revision, status))
        }
        (Wanted::Present(revision, status), Known::Registered(known)) => {
            let is_registered = revision == known;
            Some(if is_registered {
                Call::Update(revision, status)
            } else {
                Call::Register(revision, status)
            })
        }
        (Wanted::Present(revision, status), Known::Present(known, told)) => {
            if revision != known {
                Some(Call::Register(revision, status))
            } else if due || status != told {
                Some(Call::Update(revision, status))
            } else {
                None
            }
        }
    }
}

/// What is known after a call.
pub fn after(call: Call, outcome: Outcome) -> Known {
    match (call, outcome) {
        (Call::Register(revision, _), Outcome::Done) => Known::Registered(revision),
        (Call::Update(revision, status), Outcome::Done) => Known::Present(revision, status),
        (Call::Deregister, Outcome::Done | Outcome::Forgotten) | (Call::Update(..), Outcome::Forgotten) => {
            Known::Absent
        }
        (Call::Register(..), Outcome::Forgotten)
        | (Call::Register(..) | Call::Update(..) | Call::Deregister, Outcome::Failed) => Known::Uncertain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ServiceStatus::{Critical, Passing, Warning};

    const STATUSES: [ServiceStatus; 3] = [Passing, Warning, Critical];

    fn every_wanted() -> Vec<Wanted> {
        let present = |revision| STATUSES.map(|status| Wanted::Present(revision, status));
        [Wanted::Absent].into_iter().chain(present(1)).chain(present(2)).collect()
    }

    fn every_known() -> Vec<Known> {
        let present = |revision| STATUSES.map(|status| Known::Present(revision, status));
        let others = [Known::Absent, Known::Uncertain, Known::Registered(1), Known::Registered(2)];
        others.into_iter().chain(present(1)).chain(present(2)).collect()
    }

    fn satisfied(wanted: Wanted, known: Known) -> bool {
        match wanted {
            Wanted::Absent => known == Known::Absent,
            Wanted::Present(revision, status) => known == Known::Present(revision, status),
        }
    }

    /// What is known when every call that is needed is done: there are two at most.
    fn settled(wanted: Wanted, mut known: Known) -> Known {
        for _ in 0..2 {
            if let Some(call) = reconcile(wanted, known, false) {
                known = after(call, Outcome::Done);
            }
        }
        known
    }

    #[test]
    fn calls_that_are_done_make_what_is_known_what_is_wanted() {
        for wanted in every_wanted() {
            for known in every_known() {
                let call = reconcile(wanted, known, false);
                assert_eq!(call.is_none(), satisfied(wanted, known), "{wanted:?} {known:?}: {call:?}");
                assert!(satisfied(wanted, settled(wanted, known)), "{wanted:?} {known:?}: {call:?}");
            }
        }
    }

    #[test]
    fn whatever_fails_the_next_calls_make_it_right() {
        for wanted in every_wanted() {
            for known in every_known() {
                for due in [false, true] {
                    let Some(call) = reconcile(wanted, known, due) else { continue };
                    for outcome in [Outcome::Forgotten, Outcome::Failed] {
                        let learnt = after(call, outcome);
                        assert!(
                            satisfied(wanted, settled(wanted, learnt)),
                            "{wanted:?} {known:?} {call:?} {outcome:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_registration_is_followed_by_its_status_which_it_does_not_change() {
        let known = after(Call::Register(1, Passing), Outcome::Done);
        assert_eq!(reconcile(Wanted::Present(1, Passing), known, false), Some(Call::Update(1, Passing)));
    }

    #[test]
    fn a_heartbeat_repeats_the_status_and_changes_nothing() {
        for status in STATUSES {
            let (wanted, known) = (Wanted::Present(1, status), Known::Present(1, status));
            assert_eq!(reconcile(wanted, known, true), Some(Call::Update(1, status)));
            assert_eq!(after(Call::Update(1, status), Outcome::Done), known);
        }
        assert_eq!(reconcile(Wanted::Absent, Known::Absent, true), None);
    }

    #[test]
    fn a_service_that_consul_forgot_is_registered_with_its_present_status() {
        let known = after(Call::Update(1, Critical), Outcome::Forgotten);
        assert_eq!(reconcile(Wanted::Present(1, Critical), known, false), Some(Call::Register(1, Critical)));
    }

    #[test]
    fn a_failure_is_told_without_registering_anew() {
        let known = Known::Present(1, Passing);
        assert_eq!(reconcile(Wanted::Present(1, Critical), known, false), Some(Call::Update(1, Critical)));
    }
}
