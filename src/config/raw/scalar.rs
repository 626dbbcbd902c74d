//! Single values that may be written in more than one way. ContainerPilot takes a number in a string
//! for a number, and so do these: templates often put quotes around what they insert.

#[cfg(test)]
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};

use crate::config::duration::{DurationError, GoDuration};
#[cfg(test)]
use crate::messages::event::EventCode;

/// Defines how a scalar is read: from a text, and from the three kinds of numbers and booleans if it
/// can be written so.
macro_rules! scalar {
    ($type:ty, $expecting:expr, $schema:tt, text: $text:expr $(, unsigned: $unsigned:expr)?
     $(, signed: $signed:expr)? $(, float: $float:expr)? $(, bool: $bool:expr)? $(, reason: $reason:expr)?
     $(, number_reason: $number_reason:expr)?) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct ScalarVisitor;

                impl ScalarVisitor {
                    /// Why a number or boolean is refused.
                    #[allow(dead_code, unused_variables, reason = "not every scalar can be a number")]
                    fn refused<E: de::Error>(&self, found: Unexpected<'_>, number: f64) -> E {
                        $(if let Some(reason) = $number_reason(number) {
                            return E::invalid_value(Unexpected::Other(&reason), self);
                        })?
                        E::invalid_value(found, self)
                    }
                }

                impl Visitor<'_> for ScalarVisitor {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(&$expecting)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        let read: Option<$type> = $text(text);
                        $(if let (None, Some(reason)) = (&read, $reason(text)) {
                            return Err(E::invalid_value(Unexpected::Other(&reason), &self));
                        })?
                        read.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
                    }

                    $(fn visit_u64<E: de::Error>(self, number: u64) -> Result<$type, E> {
                        let read: Option<$type> = $unsigned(number);
                        read.ok_or_else(|| self.refused(Unexpected::Unsigned(number), number as f64))
                    })?

                    $(fn visit_i64<E: de::Error>(self, number: i64) -> Result<$type, E> {
                        let read: Option<$type> = $signed(number);
                        read.ok_or_else(|| self.refused(Unexpected::Signed(number), number as f64))
                    })?

                    $(fn visit_f64<E: de::Error>(self, number: f64) -> Result<$type, E> {
                        let read: Option<$type> = $float(number);
                        read.ok_or_else(|| self.refused(Unexpected::Float(number), number))
                    })?

                    $(fn visit_bool<E: de::Error>(self, value: bool) -> Result<$type, E> {
                        let read: Option<$type> = $bool(value);
                        read.ok_or_else(|| E::invalid_value(Unexpected::Bool(value), &self))
                    })?
                }

                deserializer.deserialize_any(ScalarVisitor)
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

/// A text, or a number or boolean that is taken as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar(pub String);

scalar!(Scalar, "a string, number or boolean", { "type": ["string", "number", "boolean"] },
    text: |text: &str| Some(Scalar(text.to_owned())),
    unsigned: |number: u64| Some(Scalar(number.to_string())),
    signed: |number: i64| Some(Scalar(number.to_string())),
    float: |number: f64| number.is_finite().then(|| Scalar(number.to_string())),
    bool: |value: bool| Some(Scalar(value.to_string())));

/// `true` or `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag(pub bool);

scalar!(Flag, "true or false", { "type": "boolean" },
    text: |text: &str| match text {
        "true" | "1" => Some(Flag(true)),
        "false" | "0" => Some(Flag(false)),
        _ => None,
    },
    unsigned: |number: u64| (number < 2).then_some(Flag(number == 1)),
    bool: |value: bool| Some(Flag(value)));

/// A number, whole or not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Real(pub f64);

scalar!(Real, "a number", { "type": "number" },
    text: |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite()).map(Real),
    unsigned: |number: u64| Some(Real(number as f64)),
    signed: |number: i64| Some(Real(number as f64)),
    float: |number: f64| number.is_finite().then_some(Real(number)));

/// A TCP port; ContainerPilot takes 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port(pub u16);

scalar!(Port, "a port number from 1 to 65535", {
        "type": ["integer", "string"], "minimum": 0, "maximum": 65535, "pattern": "^[0-9]+$"
    },
    text: |text: &str| text.parse().ok().map(Port),
    unsigned: |number: u64| u16::try_from(number).ok().map(Port),
    float: |number: f64| whole(number).and_then(|number| u16::try_from(number).ok()).map(Port));

/// A length of time, never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub Duration);

const TIME: &str = "a duration such as \"1.5s\", \"1m30s\" or \"100ms\", or a number of seconds";

scalar!(Time, TIME, {
        "type": ["string", "number"],
        "minimum": 0,
        "description": "A duration: a number with a unit (ns, us, ms, s, m, h), or a number of seconds.",
        "examples": ["1.5s", "1m30s", "100ms", 10]
    },
    text: |text: &str| GoDuration::parse_config(text).ok().and_then(GoDuration::as_std).map(Time),
    unsigned: |number: u64| seconds(number as f64).ok().and_then(GoDuration::as_std).map(Time),
    signed: |_: i64| None,
    float: |number: f64| seconds(number).ok().and_then(GoDuration::as_std).map(Time),
    reason: not_a_duration,
    number_reason: negative);

/// A length of time, or -1 for none at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopTime {
    /// `-1`: do not wait.
    Never,
    /// This long.
    Within(Duration),
}

const STOP_TIME: &str = "a duration such as \"5s\", a number of seconds, or -1";

scalar!(StopTime, STOP_TIME, {
        "type": ["string", "number"],
        "description": "A duration, a number of seconds, or -1 to kill at once.",
        "examples": ["5s", 5, -1]
    },
    text: |text: &str| match text {
        "-1" => Some(StopTime::Never),
        _ => GoDuration::parse_config(text).ok().and_then(GoDuration::as_std).map(StopTime::Within),
    },
    unsigned: |number: u64| seconds(number as f64).ok().and_then(GoDuration::as_std).map(StopTime::Within),
    signed: |number: i64| (number == -1).then_some(StopTime::Never),
    float: |number: f64| seconds(number).ok().and_then(GoDuration::as_std).map(StopTime::Within),
    reason: not_a_duration,
    number_reason: negative);

fn not_a_duration(text: &str) -> Option<String> {
    match GoDuration::parse_config(text) {
        Ok(_) => negative(-1.0),
        Err(error) => Some(error.to_string()),
    }
}

fn negative(number: f64) -> Option<String> {
    (number < 0.0).then(|| "a negative duration makes no sense here".to_owned())
}

fn seconds(number: f64) -> Result<GoDuration, DurationError> {
    GoDuration::from_seconds(number)
}

/// How often a job is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restarts {
    /// Not at all.
    Never,
    /// Always.
    Unlimited,
    /// At most this often.
    Times(u32),
}

scalar!(Restarts, "a whole number ≥ 0, \"never\" or \"unlimited\"", {
        "anyOf": [
            { "type": "integer", "minimum": 0 },
            { "type": "string", "pattern": "^(never|unlimited|[0-9]+)$" }
        ],
        "examples": ["never", "unlimited", 3]
    },
    text: |text: &str| match text {
        "never" => Some(Restarts::Never),
        "unlimited" => Some(Restarts::Unlimited),
        _ => text.parse().ok().map(Restarts::Times),
    },
    unsigned: |number: u64| u32::try_from(number).ok().map(Restarts::Times),
    float: |number: f64| whole(number).and_then(|number| u32::try_from(number).ok()).map(Restarts::Times),
    reason: |text: &str| text.parse().ok().and_then(too_many_restarts),
    number_reason: too_many_restarts);

fn too_many_restarts(number: f64) -> Option<String> {
    let largest = u32::MAX;
    (number > f64::from(largest))
        .then(|| format!("the largest number of restarts is {largest}; \"unlimited\" has no limit"))
}

/// Permission bits in octal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(pub u32);

scalar!(Mode, "octal permission bits in a string, such as \"022\" or \"0660\"", {
        "type": "string", "pattern": "^(0o)?[0-7]{1,4}$", "examples": ["022", "0660"]
    },
    text: |text: &str| {
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let is_octal = digits.len() <= 4 && digits.bytes().all(|digit| digit.is_ascii_digit());
        u32::from_str_radix(digits, 8).ok().filter(|_| is_octal).map(Mode)
    },
    // Whether 22 means 0o22 or 0o26 is anyone's guess; zero is zero.
    unsigned: |number: u64| (number == 0).then_some(Mode(0)));

/// One side of a resource limit; `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitValue(pub Option<u64>);

scalar!(LimitValue, "a whole number ≥ 0 or \"unlimited\"", {
        "anyOf": [{ "type": "integer", "minimum": 0 }, { "const": "unlimited" }]
    },
    text: |text: &str| match text {
        "unlimited" | "infinity" => Some(LimitValue(None)),
        _ => text.parse().ok().map(|number| LimitValue(Some(number))),
    },
    unsigned: |number: u64| Some(LimitValue(Some(number))),
    float: |number: f64| whole(number).and_then(|number| u64::try_from(number).ok())
        .map(|number| LimitValue(Some(number))));

/// A whole number from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole<const MIN: i64, const MAX: i64>(pub i64);

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WholeVisitor<const MIN: i64, const MAX: i64>;

        impl<const MIN: i64, const MAX: i64> WholeVisitor<MIN, MAX> {
            fn accept<E: de::Error>(&self, number: Option<i64>) -> Result<Whole<MIN, MAX>, E> {
                number
                    .filter(|number| (MIN..=MAX).contains(number))
                    .map(Whole)
                    .ok_or_else(|| E::invalid_value(Unexpected::Unit, self))
            }
        }

        impl<const MIN: i64, const MAX: i64> Visitor<'_> for WholeVisitor<MIN, MAX> {
            type Value = Whole<MIN, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {MIN} to {MAX}")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                self.accept(text.parse().ok())
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                self.accept(i64::try_from(number).ok())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                self.accept(Some(number))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
                self.accept(whole(number))
            }
        }

        deserializer.deserialize_any(WholeVisitor)
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

/// A float that is a whole number; larger ones are not exact and refused.
fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

/// The name of an event; which names there are is checked with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventName(pub String);

impl<'de> Deserialize<'de> for EventName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

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
