//! Why a job's process ended and why the job stops, in words for people.

use serde::{Deserialize, Serialize};

use super::lifecycle::Input;
use crate::messages::event::Detail;
use crate::messages::process::{ExitStatus, Pid, ProcessEnded, Unstarted};
use crate::messages::signal::Signal;

/// Why a job was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// The whole program stops.
    Shutdown,
    /// It is not in the new configuration, or is another job there.
    Reload,
    /// It was killed before it was told to stop.
    Killed,
    /// A user stopped it.
    Halted,
    /// A user restarted it.
    Restarted,
    /// It became unhealthy.
    Unhealthy,
    /// It became unhealthy, and has no restart left.
    UnhealthyForGood,
    /// Its group restarts it, because another of the group ended.
    Group,
    /// Its group has given up and stops all its jobs.
    GroupGaveUp,
}

impl StopReason {
    /// Whether it was stopped because it became unhealthy.
    pub const fn is_ill_health(self) -> bool {
        matches!(self, Self::Unhealthy | Self::UnhealthyForGood)
    }

    pub const fn text(self) -> &'static str {
        match self {
            Self::Shutdown => "the program shuts down",
            Self::Reload => "a reload changed or removed the job",
            Self::Killed => "it is killed, together with the program",
            Self::Halted => "it is stopped by hand",
            Self::Restarted => "it is restarted by hand",
            Self::Unhealthy => "it is unhealthy",
            Self::UnhealthyForGood => "it is unhealthy, and has no restart left",
            Self::Group => "its group is restarted",
            Self::GroupGaveUp => "its group gave up: it had used up its restarts",
        }
    }
}

/// Why we sent SIGKILL or SIGABRT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kill {
    /// The run took longer than `timeout`.
    RunTimeout,
    /// The process was not ready within `ready.timeout`.
    NotReady,
    /// The process was silent for longer than `watchdog`; it got SIGABRT first.
    Watchdog,
    /// The process did not end within `killTimeout` of its stop signal.
    StopTimeout,
    /// The whole program had no time left to wait for it.
    NoTimeLeft,
}

impl Kill {
    /// Why an input leads to a kill, if it is one that can.
    pub fn by(input: Input) -> Option<Self> {
        [
            (Input::RunTimeoutElapsed, Self::RunTimeout),
            (Input::KillTimeoutElapsed, Self::StopTimeout),
            (Input::KillRequested, Self::NoTimeLeft),
        ]
        .into_iter()
        .find_map(|(known, kill)| (known == input).then_some(kill))
    }
}

/// How a process ended, and why if it was us who killed it.
pub fn end(ended: &ProcessEnded, kill: Option<Kill>) -> String {
    if ended.unstarted == Some(Unstarted::Cancelled) && kill == Some(Kill::RunTimeout) {
        return "was not started within its timeout".to_owned();
    }
    if ended.unstarted == Some(Unstarted::Cancelled) && kill == Some(Kill::NotReady) {
        return "was not started within its ready.timeout".to_owned();
    }
    if kill == Some(Kill::Watchdog) {
        return format!("ended by its watchdog: {ended}");
    }
    let was_killed = matches!(ended.status, ExitStatus::Signal { signal: Signal::KILL, .. });
    match kill.filter(|_| was_killed && !ended.for_memory) {
        Some(Kill::RunTimeout) => format!("ran longer than its timeout: {ended}"),
        Some(Kill::NotReady) => format!("was not ready within its ready.timeout: {ended}"),
        Some(Kill::StopTimeout) => format!("{ended} after killTimeout"),
        Some(Kill::NoTimeLeft) => format!("{ended}: there was no time left to wait for it"),
        Some(Kill::Watchdog) | None => ended.to_string(),
    }
}

/// The details that the event of an end carries.
pub fn of_end(ended: &ProcessEnded, reason: &str) -> Detail {
    let signal = match ended.status {
        ExitStatus::Signal { signal, .. } => Some(signal),
        ExitStatus::Code(_) => None,
    };
    let was_cancelled = ended.unstarted == Some(Unstarted::Cancelled);
    Detail {
        pid: ended.pid.filter(|_| ended.unstarted.is_none()).map(Pid::number),
        status: Some(ended.status.shell_code()).filter(|_| !was_cancelled),
        signal: signal.filter(|_| !was_cancelled),
        reason: Some(reason.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::process::ExecutionId;

    fn ended(status: ExitStatus, for_memory: bool) -> ProcessEnded {
        ProcessEnded {
            execution: ExecutionId(1),
            pid: Pid::new(7),
            status,
            unstarted: None,
            for_memory,
            daemons: vec![],
            leftover: false,
        }
    }

    #[test]
    fn a_kill_by_us_says_why() {
        let killed = ExitStatus::Signal { signal: Signal::KILL, core_dumped: false };
        for (status, for_memory, kill, expected) in [
            (killed, false, None, "killed by SIGKILL"),
            (killed, false, Some(Kill::RunTimeout), "ran longer than its timeout: killed by SIGKILL"),
            (
                killed,
                false,
                Some(Kill::NotReady),
                "was not ready within its ready.timeout: killed by SIGKILL",
            ),
            (ExitStatus::Code(0), false, Some(Kill::Watchdog), "ended by its watchdog: exited with status 0"),
            (killed, false, Some(Kill::StopTimeout), "killed by SIGKILL after killTimeout"),
            (
                killed,
                false,
                Some(Kill::NoTimeLeft),
                "killed by SIGKILL: there was no time left to wait for it",
            ),
            (killed, true, Some(Kill::StopTimeout), "killed for memory (SIGKILL)"),
            (ExitStatus::Code(0), false, Some(Kill::StopTimeout), "exited with status 0"),
        ] {
            assert_eq!(end(&ended(status, for_memory), kill), expected);
        }
        assert_eq!(Kill::by(Input::KillTimeoutElapsed), Some(Kill::StopTimeout));
        assert_eq!(Kill::by(Input::StopRequested), None);
    }

    #[test]
    fn the_event_of_an_end_has_the_process_and_its_status() {
        let killed = ended(ExitStatus::Signal { signal: Signal::TERM, core_dumped: false }, false);
        let expected = Detail {
            pid: Some(7),
            status: Some(143),
            signal: Some(Signal::TERM),
            reason: Some("words".to_owned()),
        };
        assert_eq!(of_end(&killed, "words"), expected);
        let never = ProcessEnded {
            unstarted: Some(Unstarted::Failed("cannot execute".into())),
            ..ended(ExitStatus::Code(127), false)
        };
        let detail = of_end(&never, "cannot execute");
        assert_eq!((detail.pid, detail.status, detail.signal), (None, Some(127), None));
        let cancelled = ProcessEnded { pid: None, unstarted: Some(Unstarted::Cancelled), ..killed };
        assert_eq!(of_end(&cancelled, "words"), Detail::reason("words"));
        assert_eq!(end(&cancelled, Some(Kill::RunTimeout)), "was not started within its timeout");
        assert_eq!(end(&cancelled, None), "stopped before it was started");
    }
}
