//! When a schedule is due: a cron expression in a time zone. Pure: the time is an argument.

pub mod cron;
pub mod local;
#[cfg(test)]
mod tests;
pub mod zone;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::messages::moment::WallTime;
use cron::Pattern;
use zone::Zone;

/// A job's schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CronSpec {
    /// The expression as it was written.
    pub text: String,
    /// The local times at which it is due.
    pub pattern: Pattern,
    /// Where they are local.
    pub zone: Zone,
    /// The longest random delay of a run.
    pub jitter: Duration,
    /// Whether one run makes up for those that a pause of the machine made us miss.
    pub catch_up: bool,
}

impl CronSpec {
    /// The first time after `after` at which it is due; `None` if that never comes.
    ///
    /// Every local time that the pattern names has one moment: of one that comes twice the first, of one that a clock change
    /// leaves out the moment of the change. Both keep the order, so that the local times need to be tried only from now on.
    pub fn next(&self, after: WallTime) -> Option<WallTime> {
        let after = after.seconds();
        let mut from = after + i64::from(self.zone.offset_at(after));
        loop {
            let local = self.pattern.next(from)?;
            let due = self.zone.moment_of(local);
            if due > after {
                return Some(WallTime::from_seconds(due));
            }
            from = local + 1;
        }
    }
}
