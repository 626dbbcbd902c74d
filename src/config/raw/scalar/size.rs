//! A number of bytes, with or without a unit.

#[cfg(test)]
use std::borrow::Cow;
use std::marker::PhantomData;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::Deserializer;

use super::{Read, ScalarVisitor, Written};
use crate::config::spec::MOST_KEPT;

/// A number of bytes, not more than all jobs may keep together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u32);

scalar!(
    Size,
    "a size such as \"64KiB\" or \"1MiB\", or a number of bytes",
    {
        "type": ["string", "integer"],
        "minimum": 0,
        "description": "A number of bytes, at most 8 MiB, or a number with a unit (B, KB, KiB, MB, MiB).",
        "examples": ["64KiB", "1MiB", 0]
    },
    |written| size(written).filter(|size| *size <= MOST_KEPT).map(Size),
    reason: |written: Written<'_>| {
        let is_too_large = size(written).is_some_and(|size| size > MOST_KEPT);
        is_too_large.then(|| format!("all jobs together keep {}MiB", MOST_KEPT >> 20))
    }
);

/// The value as a number of bytes: a number, or a text of digits and a unit.
fn size(written: Written<'_>) -> Option<u32> {
    let Some(text) = written.text() else { return written.whole() };
    let digits = text.trim_end_matches(|last: char| !last.is_ascii_digit());
    let unit = match text.get(digits.len()..)?.trim_start() {
        "" | "B" => 1,
        "KB" => 1000,
        "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u32>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_with_or_without_a_unit() {
        let read = |text| Size::read(Written::Text(text)).map(|size| size.0);
        for (text, bytes) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("64KiB", Some(65_536)),
            ("64 KiB", Some(65_536)),
            ("3KB", Some(3000)),
            ("2MB", Some(2_000_000)),
            ("8MiB", Some(8 << 20)),
            ("9MiB", None),
            ("1GiB", None),
            ("KiB", None),
            ("-1", None),
            ("", None),
            ("99999999999999999999MiB", None),
        ] {
            assert_eq!(read(text), bytes, "{text}");
        }
        assert_eq!(Size::read(Written::Unsigned(5)), Some(Size(5)));
        assert_eq!(Size::read(Written::Bool(true)), None);
        assert!(Size::reason(Written::Text("9MiB")).unwrap().contains("8MiB"));
    }
}
