//! Whatever is in a record: a replay ends with a summary or a reason that is printable, the same each time.
#![no_main]

use std::fmt;
use std::sync::LazyLock;

use arbitrary::{Arbitrary, Result, Unstructured};
use containerpilot::replay::run;
use containerpilot_fuzz::memory;
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::Value;

const MOST_MEMORY: usize = 64 << 20;

/// The record of a short run of `fuzz/records/config.json5`. A black-box test says when it is old, and how to record it anew.
static RECORDED: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let lines = include_str!("../records/base.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
});

/// A record with some changes.
struct Record(Vec<u8>);

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl<'a> Arbitrary<'a> for Record {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        // Most changes near the beginning, so that there is something to be wrong about afterwards.
        let length = u.int_in_range(1..=RECORDED.len())?;
        let mut lines = RECORDED[..length].to_vec();
        for _ in 0..u.int_in_range(0..=6)? {
            let at = u.choose_index(lines.len())?;
            match u.int_in_range(0..=5)? {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, u.choose(&RECORDED)?.clone()),
                2 => {
                    let other = u.choose_index(lines.len())?;
                    lines.swap(at, other);
                }
                _ => change(u, &mut lines[at])?,
            }
            if lines.is_empty() {
                break;
            }
        }
        let mut bytes: Vec<u8> = lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
        if u.ratio(1, 10)? {
            let at = u.int_in_range(0..=bytes.len())?;
            let count = u.int_in_range(0..=20)?;
            let raw = u.bytes(count.min(u.len()))?;
            bytes.splice(at..(at + raw.len()).min(bytes.len()), raw.iter().copied());
        }
        Ok(Self(bytes))
    }
}

/// Replaces a value somewhere in this one.
fn change(u: &mut Unstructured<'_>, value: &mut Value) -> Result<()> {
    match value {
        Value::Object(members) if !members.is_empty() && u.ratio(15, 16)? => {
            let index = u.choose_index(members.len())?;
            if u.ratio(1, 16)? {
                let key = members.keys().nth(index).cloned().unwrap_or_default();
                members.remove(&key);
            } else if let Some(member) = members.values_mut().nth(index) {
                change(u, member)?;
            }
        }
        Value::Array(items) if !items.is_empty() && u.ratio(15, 16)? => {
            let index = u.choose_index(items.len())?;
            match u.int_in_range(0..=7)? {
                0 => drop(items.remove(index)),
                1 => items.push(items[index].clone()),
                _ => change(u, &mut items[index])?,
            }
        }
        _ => *value = other(u)?,
    }
    Ok(())
}

fn other(u: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match u.int_in_range(0..=7)? {
        0 => Value::Null,
        1 => Value::from(u.arbitrary::<bool>()?),
        2 => Value::from(u.arbitrary::<u64>()?),
        3 => Value::from(u.arbitrary::<i64>()?),
        4 => Value::from(*u.choose(&[0, 1, 2, 3, 7, 1_000_000_000, u64::MAX])?),
        5 => Value::from(*u.choose(&[
            "",
            "db",
            "app",
            "Startup",
            "Healthy",
            "Unlimited",
            "\u{1b}[1m",
            "\u{0}",
        ])?),
        6 => Value::Array(Vec::new()),
        _ => Value::Object(serde_json::Map::new()),
    })
}

fuzz_target!(
    init: {
        // A machine whose state is impossible may panic; the replay catches that and tells it. Other panics are found by the
        // fuzzer without its hook, too.
        std::panic::set_hook(Box::new(|_| {}));
    },
    |record: Record| -> Corpus {
        let first = outcome(&record.0);
        assert_eq!(first, outcome(&record.0), "a replay is the same each time");
        let is_bad = |character: char| character.is_control() && character != '\n';
        assert!(!first.is_empty() && !first.contains(is_bad), "{first:?}");
        drop((first, record));
        memory::assert_bounded(MOST_MEMORY);
        Corpus::Keep
    }
);

fn outcome(record: &[u8]) -> String {
    match run(record) {
        Ok(summary) => summary.to_string(),
        Err(failure) => failure.to_string(),
    }
}
