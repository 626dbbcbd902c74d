//! Times, events and lists in the words of a sentence.

use std::time::{Duration, SystemTime};

use crate::config::spec::Probe;
use crate::logging::TimeText;
use crate::messages::event::{EventCode, EventKey, Source};

/// A time as people tell it: `02:13:07 UTC`, with its date if that is not today's.
pub fn clock(time: SystemTime, now: SystemTime) -> String {
    let (text, today) = (TimeText::new(time), TimeText::new(now));
    let part = |text: &TimeText, from: usize, to: usize| -> String {
        text.as_bytes().get(from..to).map(String::from_utf8_lossy).unwrap_or_default().into_owned()
    };
    let (date, hour) = (part(&text, 0, 10), part(&text, 11, 19));
    if date == part(&today, 0, 10) { format!("{hour} UTC") } else { format!("{date} {hour} UTC") }
}

/// How long something takes, in at most two units.
pub fn span(time: Duration) -> String {
    // 2.6 s are nearer to 3 s than to 2 s.
    let seconds = time.saturating_add(Duration::from_millis(500)).as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {small_unit}"),
    };
    match (days, hours, minutes, seconds) {
        (0, 0, 0, 0) => "less than 1 s".to_owned(),
        (0, 0, 0, _) => format!("{seconds} s"),
        (0, 0, _, _) => two(minutes, "min", seconds % 60, "s"),
        (0, _, _, _) => two(hours, "h", minutes, "min"),
        (_, _, _, _) => two(days, "d", hours, "h"),
    }
}

/// The time from now until then.
pub fn until(time: SystemTime, now: SystemTime) -> String {
    span(time.duration_since(now).unwrap_or(Duration::ZERO))
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(words: &[String], last: &str) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

/// So many times: `once`, `twice`, `3 times`.
pub fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        number => format!("{number} times"),
    }
}

/// How a run ended, after the name of the job: `exited with status 1`, `was killed by SIGKILL`.
pub fn ending(exit: &str) -> String {
    if exit.starts_with("killed ") || exit.starts_with("ended by ") {
        format!("was {exit}")
    } else if exit.starts_with("cannot ") {
        format!("could not be started: {exit}")
    } else {
        exit.to_owned()
    }
}

/// Events after "waits for".
pub fn awaited(keys: &[EventKey], last: &str) -> String {
    list(&keys.iter().map(awaited_event).collect::<Vec<_>>(), last)
}

fn awaited_event(key: &EventKey) -> String {
    let verb = match key.code {
        EventCode::Startup => "to start",
        EventCode::Shutdown => "to shut down",
        EventCode::ExitSuccess => "to succeed",
        EventCode::ExitFailed => "to fail",
        EventCode::Ready => "to be ready",
        EventCode::Healthy => "to be healthy",
        EventCode::Unhealthy => "to be unhealthy",
        EventCode::Changed => "to change",
        EventCode::Stopping => "to begin to stop",
        EventCode::Stopped => "to be stopped",
        EventCode::EnterMaintenance => "to enter maintenance",
        EventCode::ExitMaintenance => "to leave maintenance",
        EventCode::Signal => "to come",
    };
    format!("{} {verb}", subject(&key.source))
}

/// An event after "because".
pub fn happened(key: &EventKey) -> String {
    let verb = match key.code {
        EventCode::Startup => "started",
        EventCode::Shutdown => "began to shut down",
        EventCode::ExitSuccess => "succeeded",
        EventCode::ExitFailed => "failed",
        EventCode::Ready => "became ready",
        EventCode::Healthy => "became healthy",
        EventCode::Unhealthy => "became unhealthy",
        EventCode::Changed => "changed",
        EventCode::Stopping => "began to stop",
        EventCode::Stopped => "was stopped",
        EventCode::EnterMaintenance => "entered maintenance",
        EventCode::ExitMaintenance => "left maintenance",
        EventCode::Signal => "came",
    };
    format!("{} {verb}", subject(&key.source))
}

fn subject(source: &Source) -> String {
    match source {
        Source::Global => "the program".to_owned(),
        Source::Job(name) => name.to_string(),
        Source::Watch(name) => format!("the watch {name}"),
        Source::Check(name) => format!("a health check of {name}"),
        Source::Group(name) => format!("the group {name}"),
        Source::Signal(signal) => format!("the signal {signal}"),
    }
}

/// An event in a table: `db healthy`, `SIGHUP`, `shutdown`.
pub fn short(key: &EventKey) -> String {
    match &key.source {
        Source::Global => key.code.config_name().to_owned(),
        Source::Signal(signal) => signal.to_string(),
        Source::Job(_) | Source::Watch(_) | Source::Check(_) | Source::Group(_) => key.to_string(),
    }
}

/// What a check tries. Arguments, user, password and query may be secrets, and are left out.
pub fn probe(probe: &Probe) -> Option<String> {
    match probe {
        Probe::Exec(command) => Some(format!("`{}`", command.program)),
        Probe::Tcp(address) => Some(format!("a connection to {address}")),
        Probe::Http(probe) => Some(format!("{} {}", probe.method, public_url(&probe.url))),
        Probe::Running => None,
    }
}

/// A URL without user, password, query and fragment.
pub fn public_url(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or(url);
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
    let host = authority.rsplit('@').next().unwrap_or(authority);
    format!("{scheme}://{host}/{path}")
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn times_are_told_in_two_units_and_with_their_date_only_if_needed() {
        for (milliseconds, expected) in [
            (0, "less than 1 s"),
            (499, "less than 1 s"),
            (2_600, "3 s"),
            (65_000, "1 min 5 s"),
            (120_000, "2 min"),
            (3_600_000, "1 h"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(span(Duration::from_millis(milliseconds)), expected);
        }
        let day = Duration::from_secs(86_400);
        let time = UNIX_EPOCH + day + Duration::from_secs(7_987);
        assert_eq!(clock(time, UNIX_EPOCH + day), "02:13:07 UTC");
        assert_eq!(clock(time, UNIX_EPOCH), "1970-01-02 02:13:07 UTC");
        assert_eq!(until(UNIX_EPOCH, UNIX_EPOCH + day), "less than 1 s", "it is due");
    }

    #[test]
    fn a_url_is_shown_without_what_may_be_secret() {
        for (url, expected) in [
            ("http://user:pa%40ss@db:5432/live?token=x#y", "http://db:5432/live"),
            ("https://db", "https://db/"),
            ("http://a@b@c/x", "http://c/x"),
            ("http://db?key=secret", "http://db/"),
        ] {
            assert_eq!(public_url(url), expected);
        }
    }

    #[test]
    fn an_end_has_a_verb() {
        for (exit, expected) in [
            ("exited with status 1", "exited with status 1"),
            ("killed for memory (SIGKILL)", "was killed for memory (SIGKILL)"),
            ("cannot execute \"x\"", "could not be started: cannot execute \"x\""),
            (
                "ran longer than its timeout: killed by SIGKILL",
                "ran longer than its timeout: killed by SIGKILL",
            ),
        ] {
            assert_eq!(ending(exit), expected);
        }
    }

    #[test]
    fn lists_read_like_sentences() {
        let words =
            |number: usize| ["a", "b", "c"].iter().take(number).map(|word| (*word).to_owned()).collect();
        let texts =
            [0, 1, 2, 3].map(|number| list(&Vec::<String>::from_iter::<Vec<String>>(words(number)), "and"));
        assert_eq!(texts, ["", "a", "a and b", "a, b and c"]);
    }
}
