//! Single values that may be written in more than one way. ContainerPilot takes a number in a string
//! for a number, and so do these: templates often put quotes around what they insert.

#[cfg(test)]
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer, Unexpected, Visitor};

use crate::config::duration::GoDuration;
use crate::config::spec::{EndOfRun, Limit, PageSpec, StopBudget};
#[cfg(test)]
use crate::messages::event::EventCode;
use crate::messages::signal::Signal;

/// A single value as it is written.
#[derive(Clone, Copy)]
enum Written<'a> {
    Text(&'a str),
    Unsigned(u64),
    /// Always negative.
    Signed(i64),
    Float(f64),
    Bool(bool),
}

impl<'a> Written<'a> {
    fn text(self) -> Option<&'a str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    fn whole<T: FromStr + TryFrom<u64> + TryFrom<i64>>(self) -> Option<T> {
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Unsigned(number) => T::try_from(number).ok(),
            Self::Signed(number) => T::try_from(number).ok(),
            Self::Float(number) => whole(number).and_then(|number| T::try_from(number).ok()),
            Self::Bool(_) => None,
        }
    }

    fn number(self) -> Option<f64> {
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Unsigned(number) => Some(number as f64),
            Self::Signed(number) => Some(number as f64),
            Self::Float(number) => Some(number),
            Self::Bool(_) => None,
        }
    }

    /// The value as a length of time: a text as in Go, or a number of seconds.
    fn duration(self) -> Option<Duration> {
        let duration = match self.text() {
            Some(text) => GoDuration::parse_config(text),
            None => GoDuration::from_seconds(self.number()?),
        };
        duration.ok().and_then(GoDuration::as_std)
    }

    /// Why it is no length of time, where there is more to say than what was expected.
    fn why_no_duration(self) -> Option<String> {
        if let Some(Err(error)) = self.text().map(GoDuration::parse_config) {
            return Some(error);
        }
        let is_negative = self.text().is_some() || self.number().is_some_and(|number| number < 0.0);
        is_negative.then(|| "a negative duration makes no sense here".to_owned())
    }
}

/// A float that is a whole number; larger ones are not exact and refused.
fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

trait Read: Sized {
    /// What messages say was expected.
    fn expecting() -> String;

    fn read(written: Written<'_>) -> Option<Self>;

    /// Why a value was refused, if there is more to say than what was expected.
    fn reason(_: Written<'_>) -> Option<String> {
        None
    }
}

struct ScalarVisitor<T>(PhantomData<T>);

impl<T: Read> ScalarVisitor<T> {
    /// What was found is not told here: the decoder adds it, with its place.
    fn read<E: de::Error>(&self, written: Written<'_>) -> Result<T, E> {
        T::read(written).ok_or_else(|| match T::reason(written) {
            Some(reason) => E::invalid_value(Unexpected::Other(&reason), self),
            None => E::invalid_value(Unexpected::Unit, self),
        })
    }
}

impl<T: Read> Visitor<'_> for ScalarVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&T::expecting())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        self.read(Written::Text(text))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.read(Written::Unsigned(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.read(Written::Signed(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.read(Written::Float(number))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<T, E> {
        self.read(Written::Bool(value))
    }
}

/// Defines what is expected of a scalar, its JSON Schema, and how it is read.
macro_rules! scalar {
    ($type:ty, $expecting:expr, $schema:tt, $read:expr $(, reason: $reason:expr)?) => {
        impl Read for $type {
            fn expecting() -> String {
                $expecting.to_owned()
            }

            fn read(written: Written<'_>) -> Option<Self> {
                let read: fn(Written<'_>) -> Option<Self> = $read;
                read(written)
            }

            $(fn reason(written: Written<'_>) -> Option<String> {
                $reason(written)
            })?
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(ScalarVisitor(PhantomData))
            }
        }

        #[cfg(test)]
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

mod size;
mod text;

pub use size::Size;
pub use text::Scalar;

/// `true` or `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag(pub bool);

scalar!(Flag, "true or false", { "type": "boolean" }, |written| match written {
    Written::Bool(value) => Some(Flag(value)),
    Written::Text("true" | "1") | Written::Unsigned(1) => Some(Flag(true)),
    Written::Text("false" | "0") | Written::Unsigned(0) => Some(Flag(false)),
    Written::Text(_) | Written::Unsigned(_) | Written::Signed(_) | Written::Float(_) => None,
});

/// Whether there is a page for people: `true`, `false`, or "full".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSetting(pub PageSpec);

scalar!(
    PageSetting,
    "true, false or \"full\"",
    { "enum": [true, false, "full"] },
    |written| match written {
        Written::Bool(false) | Written::Text("false") => Some(PageSetting(PageSpec::Off)),
        Written::Bool(true) | Written::Text("true") => Some(PageSetting(PageSpec::Overview)),
        Written::Text("full") => Some(PageSetting(PageSpec::Full)),
        Written::Text(_) | Written::Unsigned(_) | Written::Signed(_) | Written::Float(_) => None,
    }
);

/// A number, whole or not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Real(pub f64);

scalar!(Real, "a number", { "type": "number" }, |written| {
    written.number().filter(|number| number.is_finite()).map(Real)
});

/// A TCP port; ContainerPilot takes 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port(pub u16);

scalar!(
    Port,
    "a port number from 1 to 65535",
    { "type": ["integer", "string"], "minimum": 0, "maximum": 65535, "pattern": "^[0-9]+$" },
    |written| written.whole().map(Port)
);

/// A length of time, never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub Duration);

scalar!(
    Time,
    "a duration such as \"1.5s\", \"1m30s\" or \"100ms\", or a number of seconds",
    {
        "type": ["string", "number"],
        "minimum": 0,
        "description": "A duration: a number with a unit (ns, us, ms, s, m, h), or a number of seconds.",
        "examples": ["1.5s", "1m30s", "100ms", 10]
    },
    |written| written.duration().map(Time),
    reason: Written::why_no_duration
);

/// The time that a shutdown may take, or -1 for none at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopTime(pub StopBudget);

scalar!(
    StopTime,
    "a duration such as \"5s\", a number of seconds, or -1",
    {
        "type": ["string", "number"],
        "description": "A duration, a number of seconds, or -1 to kill at once.",
        "examples": ["5s", 5, -1]
    },
    |written| {
        let is_none = matches!(written, Written::Text("-1") | Written::Signed(-1));
        let budget = || written.duration().map(StopBudget::Within);
        is_none.then_some(StopBudget::Immediate).or_else(budget).map(StopTime)
    },
    reason: Written::why_no_duration
);

/// How often a job is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarts(pub Limit);

scalar!(
    Restarts,
    "a whole number ≥ 0, \"never\" or \"unlimited\"",
    {
        "anyOf": [
            { "type": "integer", "minimum": 0 },
            { "type": "string", "pattern": "^(never|unlimited|[0-9]+)$" }
        ],
        "examples": ["never", "unlimited", 3]
    },
    |written| match written.text() {
        Some("never") => Some(Restarts(Limit::Finite(0))),
        Some("unlimited") => Some(Restarts(Limit::Unlimited)),
        _ => written.whole().map(Limit::Finite).map(Restarts),
    },
    reason: |written: Written<'_>| {
        let largest = u32::MAX;
        let is_too_large = written.number().is_some_and(|number| number > f64::from(largest));
        is_too_large.then(|| format!("the largest number of restarts is {largest}; \"unlimited\" has no limit"))
    }
);

/// One way in which a run can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending(pub EndOfRun);

scalar!(
    Ending,
    "an exit status from 0 to 255, or a signal such as \"SIGTERM\"",
    {
        "anyOf": [
            { "type": "integer", "minimum": 0, "maximum": 255 },
            { "type": "string", "pattern": "^([0-9]{1,3}|(SIG|sig)?[A-Za-z].*)$" }
        ],
        "examples": [0, 78, "SIGTERM"]
    },
    |written| {
        let code = || written.whole().map(EndOfRun::Code);
        // A number is a status, also in a string.
        let is_name = |text: &&str| text.starts_with(|first: char| first.is_ascii_alphabetic());
        let signal = || written.text().filter(is_name).and_then(Signal::parse).map(EndOfRun::Signal);
        code().or_else(signal).map(Ending)
    }
);

/// Permission bits in octal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(pub u32);

scalar!(
    Mode,
    "octal permission bits in a string, such as \"022\" or \"0660\"",
    { "type": "string", "pattern": "^(0o)?[0-7]{1,4}$", "examples": ["022", "0660"] },
    |written| {
        // Whether 22 means 0o22 or 0o26 is anyone's guess; zero is zero.
        if matches!(written, Written::Unsigned(0)) {
            return Some(Mode(0));
        }
        let Written::Text(text) = written else { return None };
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let is_octal = digits.len() <= 4 && digits.bytes().all(|digit| digit.is_ascii_digit());
        u32::from_str_radix(digits, 8).ok().filter(|_| is_octal).map(Mode)
    }
);

/// One side of a resource limit; `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitValue(pub Option<u64>);

scalar!(
    LimitValue,
    "a whole number ≥ 0 or \"unlimited\"",
    { "anyOf": [{ "type": "integer", "minimum": 0 }, { "const": "unlimited" }] },
    |written| match written.text() {
        Some("unlimited" | "infinity") => Some(LimitValue(None)),
        _ => written.whole().map(|number| LimitValue(Some(number))),
    }
);

/// A whole number from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole<const MIN: i64, const MAX: i64>(pub i64);

impl<const MIN: i64, const MAX: i64> Read for Whole<MIN, MAX> {
    fn expecting() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }

    fn read(written: Written<'_>) -> Option<Self> {
        written.whole().filter(|number| (MIN..=MAX).contains(number)).map(Whole)
    }
}

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor(PhantomData))
    }
}

#[cfg(test)]
impl<const MIN: i64, const MAX: i64> JsonSchema for Whole<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("WholeFrom{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

/// The name of an event; which names there are is checked with its source.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct EventName(pub String);

#[cfg(test)]
impl JsonSchema for EventName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "EventName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let codes = EventCode::ALL.iter().map(|code| code.config_name());
        let names: Vec<&str> = codes.chain(["SIGHUP", "SIGUSR2"]).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}
