//! Which events start a job: a pure listener that is shown events and says when the job is triggered.

use serde::{Deserialize, Serialize};

use crate::config::spec::{JobSpec, Trigger};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::job::Missing;

/// Follows the events that a job's `when` names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    trigger: Trigger,
    seen: Vec<EventKey>,
    fired: bool,
}

impl Listener {
    /// A listener that has seen nothing.
    pub fn new(trigger: Trigger) -> Self {
        Self { trigger, seen: Vec::new(), fired: false }
    }

    /// Takes note of an event; true if it triggers the job.
    pub fn observe(&mut self, key: &EventKey) -> bool {
        let triggers = match &self.trigger {
            Trigger::Each(wanted) => return wanted == key,
            Trigger::Once(wanted) => wanted == key,
            Trigger::Any(wanted) => wanted.contains(key),
            Trigger::Interval(_) | Trigger::Cron(_) => *key == startup(),
            Trigger::All(wanted) => {
                if wanted.contains(key) && !self.seen.contains(key) {
                    self.seen.push(key.clone());
                }
                wanted.iter().all(|wanted| self.seen.contains(wanted))
            }
        };
        let first = triggers && !self.fired;
        self.fired |= triggers;
        first
    }

    /// The events that have yet to come before the job is triggered: all of the first list, or one of the second.
    pub fn missing(&self) -> Missing {
        match &self.trigger {
            Trigger::Each(_) => self.trigger.first_missing(),
            _ if self.fired => Missing::Nothing,
            Trigger::All(keys) => {
                Missing::AllOf(keys.iter().filter(|key| !self.seen.contains(key)).cloned().collect())
            }
            Trigger::Once(_) | Trigger::Any(_) | Trigger::Interval(_) | Trigger::Cron(_) => {
                self.trigger.first_missing()
            }
        }
    }
}

/// The events that a job must be told of, each once.
pub fn interests(spec: &JobSpec) -> Vec<EventKey> {
    let starts_clock = spec.when.trigger.is_periodic() && spec.when.after.is_empty();
    let is_timed = starts_clock || spec.when.timeout.is_some();
    let mut unique: Vec<EventKey> = Vec::new();
    for key in spec.when.keys().iter().cloned().chain(is_timed.then(startup)) {
        if !unique.contains(&key) {
            unique.push(key);
        }
    }
    unique
}

/// The event that begins everything.
fn startup() -> EventKey {
    EventKey { code: EventCode::Startup, source: Source::Global }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    fn event(job: &str, code: EventCode) -> EventKey {
        EventKey { code, source: Source::Job(Arc::from(job)) }
    }

    #[test]
    fn once_triggers_at_the_first_event_only() {
        let key = event("db", EventCode::Healthy);
        let mut listener = Listener::new(Trigger::Once(key.clone()));
        assert!(!listener.observe(&event("db", EventCode::Unhealthy)));
        assert!(listener.observe(&key));
        assert!(!listener.observe(&key));
        assert_eq!(listener.missing(), Missing::Nothing);
    }

    #[test]
    fn all_remembers_nothing_but_what_it_waits_for() {
        let wanted = vec![event("db", EventCode::Healthy), event("mq", EventCode::Healthy)];
        let mut listener = Listener::new(Trigger::All(wanted.clone()));
        listener.observe(&event("db", EventCode::Stopped));
        assert_eq!(listener.seen, []);
        for _ in 0..2 {
            listener.observe(&wanted[0]);
            assert_eq!(listener.seen, wanted[..1]);
        }
    }

    #[test]
    fn each_triggers_every_time() {
        let key = event("db", EventCode::Changed);
        let mut listener = Listener::new(Trigger::Each(key.clone()));
        assert!(listener.observe(&key) && listener.observe(&key));
        assert_eq!(listener.missing(), Missing::AnyOf(vec![key]));
    }

    #[test]
    fn all_triggers_once_when_each_has_happened_in_any_order() {
        let (first, second) = (event("a", EventCode::ExitSuccess), event("b", EventCode::Healthy));
        let mut listener = Listener::new(Trigger::All(vec![first.clone(), second.clone()]));
        assert!(!listener.observe(&second));
        assert!(!listener.observe(&second));
        assert_eq!(listener.missing(), Missing::AllOf(vec![first.clone()]));
        assert!(listener.observe(&first));
        assert!(!listener.observe(&first));
    }

    #[test]
    fn any_triggers_once_at_the_first_of_them() {
        let (first, second) = (event("a", EventCode::ExitSuccess), event("b", EventCode::Healthy));
        let mut listener = Listener::new(Trigger::Any(vec![first.clone(), second.clone()]));
        assert!(listener.observe(&second));
        assert!(!listener.observe(&first));
    }

    #[test]
    fn an_interval_is_triggered_by_startup() {
        let mut listener = Listener::new(Trigger::Interval(Duration::from_secs(1)));
        assert!(listener.observe(&startup()));
        assert!(!listener.observe(&startup()));
    }

    #[test]
    fn sources_of_the_same_name_are_told_apart() {
        let job = event("db", EventCode::Healthy);
        let watch = EventKey { code: EventCode::Healthy, source: Source::Watch(Arc::from("db")) };
        assert!(!Listener::new(Trigger::Once(job)).observe(&watch));
    }
}
