//! The state of a whole group, and the events that are published when it changes.

use serde::{Deserialize, Serialize};

use super::Place;
use crate::messages::event::EventCode;
use crate::messages::health::Health;
use crate::messages::job::Phase;

/// The state of a group.
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
