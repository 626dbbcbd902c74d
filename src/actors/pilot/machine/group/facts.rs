//! The state of a whole group, and the events that are published when it changes.

use serde::{Deserialize, Serialize};

use super::Place;
use crate::messages::event::EventCode;
use crate::messages::health::Health;
use crate::messages::job::Phase;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Facts {
    /// All members are ready; one that is complete and succeeded needs not be.
    ready: bool,
    /// Whether all members that are checked are healthy, or one is unhealthy; `None` while neither is known.
    healthy: Option<bool>,
    /// All members are stopped or complete.
    stopped: bool,
}

impl Facts {
    /// The state of a group whose members are these.
    pub fn of(places: &[Place]) -> Self {
        let is_done = |place: &Place| place.phase == Phase::Complete && place.succeeded;
        let ready = places.iter().all(|place| place.ready || is_done(place));
        let mut checked = places.iter().filter(|place| place.is_checked).peekable();
        let has_checked = checked.peek().is_some();
        let healthy = if places.iter().any(|place| place.health == Health::Unhealthy) {
            Some(false)
        } else {
            (has_checked && checked.all(|place| place.health == Health::Healthy)).then_some(true)
        };
        let ready = ready && places.iter().any(|place| place.ready);
        Self { ready, healthy, stopped: places.iter().all(Place::is_over) }
    }

    /// The facts that hold now and held before.
    pub fn and(self, before: Self) -> Self {
        Self {
            ready: self.ready && before.ready,
            healthy: self.healthy.filter(|_| self.healthy == before.healthy),
            stopped: self.stopped && before.stopped,
        }
    }

    /// The events that hold.
    pub fn codes(self) -> Vec<EventCode> {
        let health = self.healthy.map(|is| if is { EventCode::Healthy } else { EventCode::Unhealthy });
        let flags = [(self.ready, EventCode::Ready), (self.stopped, EventCode::Stopped)];
        flags.into_iter().filter_map(|(holds, code)| holds.then_some(code)).chain(health).collect()
    }

    /// Changes to what is true now; the events that tell what became true. What is not known of health changes nothing:
    /// a group of which a member restarts is as healthy as before until that member's checks say otherwise.
    pub fn become_these(&mut self, now: Self) -> Vec<EventCode> {
        let before = self.codes();
        *self = Self { healthy: now.healthy.or(self.healthy), ..now };
        self.codes().into_iter().filter(|code| !before.contains(code)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(health: Health) -> Place {
        Place {
            phase: Phase::Running,
            ready: true,
            health,
            is_checked: true,
            succeeded: false,
            starts_at_once: true,
            ordered: 0,
            due: None,
            told: None,
        }
    }

    #[test]
    fn a_group_is_healthy_when_all_its_checked_members_are() {
        let of = |healths: &[Health]| {
            let places: Vec<Place> = healths.iter().map(|health| place(*health)).collect();
            Facts::of(&places).healthy
        };
        assert_eq!(of(&[Health::Healthy, Health::Healthy]), Some(true));
        assert_eq!(of(&[Health::Healthy, Health::Unknown]), None);
        assert_eq!(of(&[Health::Healthy, Health::Unhealthy]), Some(false));
        let unchecked = Place { is_checked: false, ..place(Health::Unknown) };
        assert_eq!(Facts::of(&[unchecked]).healthy, None);
        assert_eq!(Facts::of(&[unchecked, place(Health::Healthy)]).healthy, Some(true));
    }

    #[test]
    fn a_group_is_as_healthy_as_before_while_nothing_new_is_known() {
        let mut facts = Facts::of(&[place(Health::Healthy)]);
        let unknown = Facts::of(&[place(Health::Unknown)]);
        assert_eq!(facts.become_these(unknown), []);
        assert!(facts.codes().contains(&EventCode::Healthy));
        assert_eq!(facts.become_these(Facts::of(&[place(Health::Healthy)])), [], "it is told once");
        assert_eq!(facts.become_these(Facts::of(&[place(Health::Unhealthy)])), [EventCode::Unhealthy]);
    }

    #[test]
    fn a_group_is_ready_when_its_members_are_or_have_succeeded_and_one_is() {
        let over = |succeeded: bool| Place {
            phase: Phase::Complete,
            ready: false,
            succeeded,
            ..place(Health::Unknown)
        };
        let failing = Place { ready: false, ..place(Health::Unknown) };
        assert!(Facts::of(&[place(Health::Unknown), over(true)]).ready);
        assert!(!Facts::of(&[place(Health::Unknown), over(false)]).ready);
        assert!(
            !Facts::of(&[place(Health::Unknown), Place { succeeded: true, ..failing }]).ready,
            "it runs again"
        );
        assert!(!Facts::of(&[over(true)]).ready, "there is nothing to be used");
    }
}
