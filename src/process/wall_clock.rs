//! The clock on the wall, for schedules: what it says, and a timer of the kernel that follows it also when somebody sets it.
//! Nothing here polls, and a configuration without schedules makes no timer.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::clock_gettime;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::messages::moment::{ClockReading, WallTime};

#[cfg(test)]
pub mod simulated;

/// What the clocks say now. `chance` is a random number in 0..1.
pub fn read(chance: f64) -> ClockReading {
    #[cfg(test)]
    if let Some(reading) = simulated::read(chance) {
        return reading;
    }
    // Older than every kernel that we run on; without it, a pause looks like a clock that was set.
    let since_boot = clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from);
    ClockReading { wall: wall_time(SystemTime::now()), since_boot, chance }
}

/// Converts a time of the standard library.
fn wall_time(time: SystemTime) -> WallTime {
    WallTime::from_milliseconds(match time.duration_since(UNIX_EPOCH) {
        Ok(since) => milliseconds(since),
        Err(before) => -milliseconds(before.duration()),
    })
}

/// A time by the clock on the wall as the standard library has it.
pub fn system_time(time: WallTime) -> SystemTime {
    let distance = Duration::from_millis(time.milliseconds().unsigned_abs());
    let found = if time.milliseconds() < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    found.unwrap_or(UNIX_EPOCH)
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A timer of the kernel: timerfd(2) on CLOCK_REALTIME.
#[derive(Debug)]
pub struct WallTimer {
    timer: AsyncFd<Timer>,
    #[cfg(test)]
    simulated: std::cell::Cell<Option<simulated::Alarm>>,
}

/// tokio wants the number of the descriptor.
#[derive(Debug)]
struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl WallTimer {
    /// A timer that is not set.
    pub fn new() -> io::Result<Self> {
        let timer =
            TimerFd::new(ClockId::CLOCK_REALTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        // SAFETY: the timer owns its descriptor, and nothing closes or replaces it while it lives.
        let timer = unsafe { AsyncFd::register_with_interest(Timer(timer), Interest::READABLE) }?;
        Ok(Self {
            timer,
            #[cfg(test)]
            simulated: std::cell::Cell::default(),
        })
    }

    /// Sets it to a time, in place of any other.
    pub fn set(&self, at: WallTime) -> io::Result<()> {
        #[cfg(test)]
        self.simulated.set(simulated::Alarm::new(at));
        // Zero would turn it off; a time that is over makes it elapse at once.
        let at = Duration::from_millis(u64::try_from(at.milliseconds()).unwrap_or(0).max(1));
        let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
        Ok(self.timer.get_ref().0.set(Expiration::OneShot(TimeSpec::from_duration(at)), flags)?)
    }

    /// Waits until it is that time, or until somebody sets the clock or the machine wakes from sleep.
    pub async fn wait(&self) {
        #[cfg(test)]
        if let Some(alarm) = self.simulated.get() {
            return alarm.wait().await;
        }
        while let Ok(mut ready) = self.timer.readable().await {
            match self.timer.get_ref().0.wait() {
                Err(Errno::EAGAIN) => ready.clear_ready(),
                // ECANCELED, which tells of a clock that was set, is no error here.
                Ok(()) | Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_timer_elapses_when_the_clock_says_so_and_not_before() {
        let timer = WallTimer::new().unwrap();
        for milliseconds in [0, 30] {
            let at = read(0.0).wall.plus(Duration::from_millis(milliseconds));
            timer.set(at).unwrap();
            timer.wait().await;
            assert!(read(0.0).wall >= at);
        }
        timer.set(WallTime::from_milliseconds(-5)).unwrap();
        timer.wait().await;
    }

    #[test]
    fn a_reading_is_of_now() {
        let (before, reading) = (SystemTime::now() - Duration::from_millis(1), read(0.5));
        assert!(system_time(reading.wall) >= before && system_time(reading.wall) <= SystemTime::now());
        assert!(reading.since_boot > Duration::ZERO);
        let before_1970 = (WallTime::from_milliseconds(-1500), UNIX_EPOCH - Duration::from_millis(1500));
        assert_eq!((wall_time(before_1970.1), system_time(before_1970.0)), before_1970);
    }
}
