//! How long a shutdown still waits for Consul. The time in which any job waits for its withdrawal is added up: a slow Consul
//! that takes its time for each of many jobs in a chain must not use up the time in which they are to stop.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::services::WITHDRAWAL_LIMIT;
use crate::messages::moment::Moment;

/// The time that a shutdown has spent on waiting for withdrawals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Patience {
    /// The time of the waits that are over.
    spent: Duration,
    /// The beginning of the wait that goes on.
    waiting_since: Option<Moment>,
}

impl Patience {
    /// The time that is left.
    pub fn left(&self, now: Moment) -> Duration {
        let present = self.waiting_since.map_or(Duration::ZERO, |since| now.since(since));
        WITHDRAWAL_LIMIT.saturating_sub(self.spent.saturating_add(present))
    }

    /// Notes whether anybody waits from now on.
    pub fn note(&mut self, now: Moment, is_waiting: bool) {
        match self.waiting_since {
            None if is_waiting => self.waiting_since = Some(now),
            Some(since) if !is_waiting => {
                self.spent = self.spent.saturating_add(now.since(since));
                self.waiting_since = None;
            }
            None | Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Moment {
        Moment::after(Duration::from_millis(milliseconds))
    }

    #[test]
    fn only_time_in_which_somebody_waits_is_spent_and_waits_at_the_same_time_count_once() {
        let mut patience = Patience::default();
        patience.note(ms(0), false);
        assert_eq!(patience.left(ms(5000)), WITHDRAWAL_LIMIT);
        patience.note(ms(5000), true);
        patience.note(ms(5300), true);
        patience.note(ms(5500), false);
        assert_eq!(patience.left(ms(9000)), Duration::from_millis(1400));
        patience.note(ms(9000), true);
        assert_eq!(patience.left(ms(10_000)), Duration::from_millis(400));
        assert_eq!(patience.left(ms(60_000)), Duration::ZERO);
    }
}
