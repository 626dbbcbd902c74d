//! From the bytes of a datagram to a message. Pure: no descriptors, no clock.
//!
//! No crate was found that reads this protocol; those for it write it.

use std::io;
use std::time::Duration;

use crate::messages::notify::{Notification, WatchdogSign};
use crate::messages::process::Pid;
use crate::printable::printable;

/// The longest status that is kept, in characters.
const LONGEST_STATUS: usize = 256;
/// The longest name of a stored descriptor, as systemd has it.
const LONGEST_NAME: usize = 255;
/// The name of a stored descriptor without a name.
const UNNAMED: &str = "stored";

/// What one datagram says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// What the job acts on.
    pub notification: Notification,
    /// `FDSTORE=1`: the descriptors that came with it are to be kept.
    pub stores: bool,
    /// `FDSTOREREMOVE=1`: the descriptors of that name are to be forgotten.
    pub removes: bool,
    /// `FDNAME=`, if it is a name.
    pub name: Option<String>,
}

impl Message {
    /// Reads lines of `KEY=VALUE`. What is not understood is ignored, as the protocol asks for; of a key that comes twice,
    /// the last one counts.
    pub fn parse(text: &[u8]) -> Self {
        let mut message = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            let Some(equals) = line.iter().position(|byte| *byte == b'=') else { continue };
            let (key, value) = line.split_at(equals);
            message.note(key, value.get(1..).unwrap_or_default());
        }
        message
    }

    fn note(&mut self, key: &[u8], value: &[u8]) {
        let notification = &mut self.notification;
        match key {
            b"READY" => notification.ready |= value == b"1",
            b"RELOADING" => notification.reloading |= value == b"1",
            b"STOPPING" => notification.stopping |= value == b"1",
            b"STATUS" => notification.status = Some(status(value)),
            b"ERRNO" => notification.error = number(value).and_then(error).or(notification.error.take()),
            b"MAINPID" => {
                let process = number(value).and_then(|number| i32::try_from(number).ok()).and_then(Pid::new);
                notification.main_process = process.or(notification.main_process);
            }
            b"WATCHDOG" => {
                notification.watchdog = match value {
                    b"1" => Some(WatchdogSign::Alive),
                    b"trigger" => Some(WatchdogSign::Trigger),
                    _ => notification.watchdog,
                }
            }
            b"WATCHDOG_USEC" => notification.watchdog_period = time(value).or(notification.watchdog_period),
            b"EXTEND_TIMEOUT_USEC" => notification.extension = time(value).or(notification.extension),
            b"FDSTORE" => self.stores |= value == b"1",
            b"FDSTOREREMOVE" => self.removes |= value == b"1",
            b"FDNAME" => self.name = name(value).or(self.name.take()),
            _ => {}
        }
    }

    /// The name of descriptors that come with it.
    pub fn name_to_store(&self) -> String {
        self.name.clone().unwrap_or_else(|| UNNAMED.to_owned())
    }
}

fn number(value: &[u8]) -> Option<u64> {
    // `parse` would take a sign.
    let digits = std::str::from_utf8(value).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

fn time(value: &[u8]) -> Option<Duration> {
    number(value).map(Duration::from_micros)
}

fn error(number: u64) -> Option<String> {
    let number = i32::try_from(number).ok().filter(|number| *number > 0)?;
    Some(io::Error::from_raw_os_error(number).to_string())
}

fn status(value: &[u8]) -> String {
    let text = printable(&String::from_utf8_lossy(value));
    text.chars().take(LONGEST_STATUS).collect()
}

/// Names are joined by colons in `LISTEN_FDNAMES`.
fn name(value: &[u8]) -> Option<String> {
    let is_good = |byte: &u8| byte.is_ascii_graphic() && *byte != b':' || *byte == b' ';
    let fits = !value.is_empty() && value.len() <= LONGEST_NAME && value.iter().all(is_good);
    fits.then(|| String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(text: &str) -> Notification {
        Message::parse(text.as_bytes()).notification
    }

    #[test]
    fn every_key_of_the_protocol_is_understood() {
        let text = "READY=1\nRELOADING=1\nSTOPPING=1\nSTATUS=serving 3 of 4\nERRNO=98\nMAINPID=42\nWATCHDOG=1\n\
                    WATCHDOG_USEC=1500000\nEXTEND_TIMEOUT_USEC=7\nFDSTORE=1\nFDSTOREREMOVE=1\nFDNAME=web\nBARRIER=1\n";
        let message = Message::parse(text.as_bytes());
        assert_eq!(
            message,
            Message {
                notification: Notification {
                    ready: true,
                    reloading: true,
                    stopping: true,
                    status: Some("serving 3 of 4".into()),
                    error: Some("Address already in use (os error 98)".into()),
                    main_process: Pid::new(42),
                    watchdog: Some(WatchdogSign::Alive),
                    watchdog_period: Some(Duration::from_millis(1500)),
                    extension: Some(Duration::from_micros(7)),
                },
                stores: true,
                removes: true,
                name: Some("web".into()),
            }
        );
        assert_eq!(told("WATCHDOG=trigger").watchdog, Some(WatchdogSign::Trigger));
        assert!(
            told("WATCHDOG=1").is_mere_sign_of_life() && !told("WATCHDOG=1\nREADY=1").is_mere_sign_of_life()
        );
    }

    #[test]
    fn what_is_not_understood_is_ignored() {
        for text in [
            "",
            "\n\n",
            "READY",
            "READY=0",
            "READY=11",
            "ready=1",
            " READY=1",
            "X_OTHER=1",
            "=1",
            "=",
            "WATCHDOG=2",
            "WATCHDOG_USEC=-1",
            "WATCHDOG_USEC=+1",
            "WATCHDOG_USEC=",
            "MAINPID=0",
            "MAINPID=99999999999",
            "ERRNO=0",
            "ERRNO=x",
            "EXTEND_TIMEOUT_USEC=1s",
            "FDSTORE=yes",
            "FDNAME=a:b",
            "FDNAME=",
            "BARRIER=1",
        ] {
            assert_eq!(Message::parse(text.as_bytes()), Message::default(), "{text:?}");
        }
        assert!(told("READY=1\nREADY=0").ready, "what was said is not taken back");
    }

    #[test]
    fn a_status_is_printable_and_short() {
        assert_eq!(told("STATUS=\u{1b}[31mred").status.as_deref(), Some("\\u{1b}[31mred"));
        assert_eq!(told("STATUS=").status.as_deref(), Some(""));
        let long = told(&format!("STATUS={}", "ä".repeat(4000))).status.unwrap();
        assert_eq!(long.chars().count(), LONGEST_STATUS);
        assert_eq!(Message::parse(b"STATUS=\xff").notification.status.as_deref(), Some("\u{fffd}"));
    }

    #[test]
    fn a_descriptor_has_the_name_that_it_was_given() {
        assert_eq!(Message::parse(b"FDSTORE=1\nFDNAME=conn-1").name_to_store(), "conn-1");
        assert_eq!(Message::parse(b"FDSTORE=1").name_to_store(), "stored");
        let longest = format!("FDSTORE=1\nFDNAME={}", "x".repeat(256));
        assert_eq!(Message::parse(longest.as_bytes()).name_to_store(), "stored");
    }

    proptest! {
        #[test]
        fn no_datagram_makes_it_panic_or_keep_what_cannot_be_printed(text in prop::collection::vec(any::<u8>(), 0..4096)) {
            let message = Message::parse(&text);
            if let Some(status) = message.notification.status {
                prop_assert!(status.chars().count() <= LONGEST_STATUS && !status.contains(char::is_control));
            }
        }

        #[test]
        fn a_value_of_one_key_is_no_other_key(value in "[^\n]{0,40}", key in "[A-Z_]{1,12}") {
            prop_assume!(key != "READY");
            let text = format!("{key}={value}");
            prop_assert!(!told(&text).ready);
        }

        #[test]
        fn lines_of_keys_in_any_order_mean_the_same(
            lines in Just(vec!["READY=1", "STATUS=x", "WATCHDOG=1", "FDNAME=a", "MAINPID=7", "UNKNOWN=1"]).prop_shuffle(),
        ) {
            let expected = Message::parse(b"READY=1\nSTATUS=x\nWATCHDOG=1\nFDNAME=a\nMAINPID=7");
            prop_assert_eq!(Message::parse(lines.join("\n").as_bytes()), expected);
        }
    }
}
