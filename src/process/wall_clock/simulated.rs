//! The clock on the wall of the simulation: it goes with tokio's paused clock, and the simulation sets it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{ClockReading, WallTime};

std::thread_local! {
    static CLOCK: RefCell<Option<Clock>> = const { RefCell::new(None) };
}

struct Clock {
    began: Instant,
    /// What it showed, or would have shown, when it began.
    wall: WallTime,
    /// How often it was set.
    changes: u64,
    was_set: Rc<Notify>,
}

impl Clock {
    fn wall(&self) -> WallTime {
        self.wall.plus(self.began.elapsed())
    }
}

/// From now on this thread has a simulated clock, which shows this time.
pub fn begin(wall: WallTime) {
    CLOCK.set(Some(Clock { began: Instant::now(), wall, changes: 0, was_set: Rc::default() }));
}

/// This thread has the real clock again.
pub fn end() {
    CLOCK.set(None);
}

/// Somebody sets the clock, by so many milliseconds.
pub fn set_by(milliseconds: i64) {
    CLOCK.with_borrow_mut(|clock| {
        if let Some(clock) = clock {
            clock.wall = WallTime::from_milliseconds(clock.wall.milliseconds() + milliseconds);
            clock.changes += 1;
            clock.was_set.notify_waiters();
        }
    });
}

/// What the simulated clock says, if there is one.
pub fn read(chance: f64) -> Option<ClockReading> {
    CLOCK.with_borrow(|clock| {
        let clock = clock.as_ref()?;
        Some(ClockReading { wall: clock.wall(), since_boot: clock.began.elapsed(), chance })
    })
}

/// A timer on the simulated clock.
#[derive(Debug, Clone, Copy)]
pub struct Alarm {
    at: WallTime,
    changes: u64,
}

impl Alarm {
    /// A timer that is set to this time, if there is a simulated clock.
    pub fn new(at: WallTime) -> Option<Self> {
        CLOCK.with_borrow(|clock| clock.as_ref().map(|clock| Self { at, changes: clock.changes }))
    }

    /// Waits until it is that time, or the clock was set.
    pub async fn wait(self) {
        let found = CLOCK.with_borrow(|clock| {
            let clock = clock.as_ref().filter(|clock| clock.changes == self.changes)?;
            let rest = u64::try_from(self.at.since(clock.wall())).unwrap_or(0);
            Some((Duration::from_millis(rest), Rc::clone(&clock.was_set)))
        });
        let Some((rest, was_set)) = found else { return };
        tokio::select! {
            () = sleep(rest) => {}
            () = was_set.notified() => {}
        }
    }
}
