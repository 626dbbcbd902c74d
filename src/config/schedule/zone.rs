//! Time zones: the offset of local time at a moment, and the moment of a local time. Pure. The rules of all zones are in
//! `zones.txt`, which is a part of the program; `Local` is what this machine says.
//!
//! Why not a crate: `jiff` made the program 300 kB larger, without its data, because it knows all changes since 1883. A
//! schedule looks ahead: of each zone its rule for the years to come is enough, and the few changes that are announced. A
//! test compares every zone with `jiff` until 2060.

mod rule;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use rule::Rule;

/// The rules of all zones: `RULE<tab>CHANGES<tab>NAMES`. Written by a test from the IANA time zone database.
const ZONES: &str = include_str!("zone/zones.txt");

/// No clock is further from another than this.
const A_DAY: i64 = 86_400;

/// A time zone from now on; what it was before 2026 is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Its name, as users write it.
    pub name: String,
    /// The offset before the first of `changes`.
    first: i32,
    /// Changes that follow no rule: from this moment on, the offset is that.
    changes: Vec<(i64, i32)>,
    /// The rule for times after the last of them.
    rule: Rule,
}

impl Zone {
    /// Coordinated Universal Time.
    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), first: 0, changes: Vec::new(), rule: Rule::Fixed(0) }
    }

    /// The zone of an IANA name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        let is_it = |known: &&str| known.eq_ignore_ascii_case(name);
        lines().find_map(|(rule, changes, names)| {
            let name = names.split(' ').find(is_it)?.to_owned();
            let mut changes = changes.split(' ').filter(|change| !change.is_empty());
            let first = changes.next().and_then(|first| first.parse().ok()).unwrap_or_default();
            let change = |text: &str| {
                let (at, offset) = text.split_once(':')?;
                Some((at.parse().ok()?, offset.parse().ok()?))
            };
            Some(Self {
                name,
                first,
                changes: changes.filter_map(change).collect(),
                rule: Rule::parse(rule)?,
            })
        })
    }

    /// A zone by its rule alone, as in the variable TZ (POSIX): `CET-1CEST,M3.5.0,M10.5.0/3`.
    pub fn by_rule(name: &str, rule: &str) -> Option<Self> {
        Some(Self { name: name.to_owned(), first: 0, changes: Vec::new(), rule: Rule::parse(rule)? })
    }

    /// The names of all zones.
    pub fn names() -> impl Iterator<Item = &'static str> {
        lines().flat_map(|(_, _, names)| names.split(' '))
    }

    /// How many seconds local time is ahead of UTC at a moment, which is in seconds since 1970-01-01 UTC.
    pub fn offset_at(&self, moment: i64) -> i32 {
        let passed = self.changes.partition_point(|(at, _)| *at <= moment);
        match (passed.checked_sub(1).and_then(|last| self.changes.get(last)), self.changes.len()) {
            (None, 0) => self.rule.offset_at(moment),
            (None, _) => self.first,
            (Some(_), all) if passed == all => self.rule.offset_at(moment),
            (Some((_, offset)), _) => *offset,
        }
    }

    /// The moment of a local time, which is in seconds since 1970-01-01 by the local clock. If it comes twice, the first one;
    /// if a change of the clock leaves it out, the moment of the change.
    pub fn moment_of(&self, local: i64) -> i64 {
        let (before, after) = (self.offset_at(local - A_DAY), self.offset_at(local + A_DAY));
        let moments =
            [before, self.offset_at(local), after].map(|offset| (local - i64::from(offset), offset));
        let right = moments.into_iter().filter(|(moment, offset)| self.offset_at(*moment) == *offset);
        right.map(|(moment, _)| moment).min().unwrap_or_else(|| {
            // The clock was set forward between these two.
            let (mut early, mut late) = (local - i64::from(after), local - i64::from(before));
            while late - early > 1 {
                let middle = early + (late - early) / 2;
                if self.offset_at(middle) == before { early = middle } else { late = middle }
            }
            late
        })
    }
}

fn lines() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    ZONES.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (rule, rest) = line.split_once('\t')?;
        let (changes, names) = rest.split_once('\t')?;
        Some((rule, changes, names))
    })
}
