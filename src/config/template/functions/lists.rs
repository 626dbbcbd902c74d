//! Lists and their parts: `len`, `index`, `slice`, `split`, `join` and `loop`.

use std::ops::Range;
use std::rc::Rc;

use super::{Call, Outcome};
use crate::config::template::Result;
use crate::config::template::budget::{Draft, MAX_ELEMENTS};
use crate::config::template::quote::quote;
use crate::config::template::value::Value;

/// What one string of a list costs, its allocation included.
const STRING_SIZE: usize = 64;
const INT_SIZE: usize = 8;

pub(super) fn len(call: &mut Call<'_>) -> Outcome {
    let value = call.value(0);
    match value.length() {
        Some(length) => Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX))),
        None => Err(call.argument_fault(0, format!("{} has no length", value.described()))),
    }
}

/// `index X 1 2` is `X[1][2]`.
pub(super) fn index(call: &mut Call<'_>) -> Outcome {
    let mut item = call.value(0);
    for at in 1..call.arguments.len() {
        item = element(call, &item, at)?;
    }
    if matches!(item, Value::Nil) {
        return Err(call.argument_fault(0, "nil has no elements"));
    }
    Ok(item)
}

fn element(call: &Call<'_>, item: &Value, at: usize) -> Outcome {
    if let Value::Environment(map) = item {
        let key = call.text(at)?;
        return Ok(Value::Text(map.get(&key).cloned().unwrap_or_default()));
    }
    let Some(length) = item.length() else {
        return Err(call.argument_fault(0, format!("{} has no elements", item.described())));
    };
    let position = position(call, at, length.checked_sub(1))?;
    Ok(item.element(position).unwrap_or(Value::Nil))
}

/// An argument that must be a position up to `last`; without a last one there is no position at all.
fn position(call: &Call<'_>, at: usize, last: Option<usize>) -> Result<usize> {
    let number = whole(call, at)?;
    let position = usize::try_from(number).ok();
    position.filter(|position| last.is_some_and(|last| *position <= last)).ok_or_else(|| {
        let expected = last.map_or("there is none".to_owned(), |last| format!("expected 0 to {last}"));
        call.argument_fault(at, format!("index {number} is out of range: {expected}"))
    })
}

fn whole(call: &Call<'_>, at: usize) -> Result<i64> {
    call.value(at).as_integer().ok_or_else(|| call.wrong_type(at, "an integer"))
}

/// `slice X 1 3` is `X[1:3]`.
pub(super) fn slice(call: &mut Call<'_>) -> Outcome {
    let item = call.value(0);
    if let Value::Text(text) = item {
        let range = bounds(call, text.len(), 2)?;
        let part = text.get(range).ok_or_else(|| call.fault("the string would be cut inside a character"))?;
        call.session.budget.allocate(part.len(), call.span)?;
        Ok(Value::text(part))
    } else if let Value::Strings(list) = item {
        let range = bounds(call, list.len(), 3)?;
        call.session.budget.allocate_list(range.len(), STRING_SIZE, call.span)?;
        Ok(Value::Strings(Rc::from(list.get(range).unwrap_or_default())))
    } else if let Value::Ints(list) = item {
        let range = bounds(call, list.len(), 3)?;
        call.session.budget.allocate_list(range.len(), INT_SIZE, call.span)?;
        Ok(Value::Ints(Rc::from(list.get(range).unwrap_or_default())))
    } else {
        Err(call.argument_fault(0, format!("cannot slice {}", item.described())))
    }
}

/// The bounds of a slice. A third one limits what Go could append to it, and is only checked.
fn bounds(call: &Call<'_>, length: usize, most: usize) -> Result<Range<usize>> {
    let found = call.arguments.len() - 1;
    if found > most {
        return Err(call.fault(format!("expected at most {most} indexes, found {found}")));
    }
    let mut given = Vec::new();
    for at in 1..call.arguments.len() {
        given.push(position(call, at, Some(length))?);
    }
    if !given.is_sorted() {
        return Err(call.fault("expected indexes in ascending order"));
    }
    Ok(given.first().copied().unwrap_or(0)..given.get(1).copied().unwrap_or(length))
}

/// `split SEPARATOR TEXT`: the space around the text is ignored, and an empty text has no parts.
pub(super) fn split(call: &mut Call<'_>) -> Outcome {
    let (separator, text) = (call.text(0)?, call.text(1)?);
    let text = text.trim();
    if text.is_empty() {
        return Ok(Value::Strings(Rc::from([])));
    }
    let parts: Vec<Rc<str>> = if separator.is_empty() {
        let count = text.chars().count();
        call.session.budget.allocate_list(count, STRING_SIZE, call.span)?;
        text.chars().map(|character| Rc::from(character.encode_utf8(&mut [0; 4]) as &str)).collect()
    } else {
        let count = text.matches(&*separator).count() + 1;
        call.session.budget.allocate_list(count, STRING_SIZE, call.span)?;
        text.split(&*separator).map(Rc::from).collect()
    };
    call.session.budget.allocate(text.len(), call.span)?;
    Ok(Value::Strings(Rc::from(parts)))
}

/// `join SEPARATOR LIST`
pub(super) fn join(call: &mut Call<'_>) -> Outcome {
    let separator = call.text(0)?;
    let Value::Strings(list) = call.value(1) else { return Err(call.wrong_type(1, "a list of strings")) };
    let mut draft = Draft::default();
    for (at, part) in list.iter().enumerate() {
        if at > 0 {
            draft.push_str(&separator);
        }
        draft.push_str(part);
        if draft.is_full() {
            break;
        }
    }
    call.finish(draft)
}

/// `loop N` counts from 0, `loop FROM TO` from FROM, up or down; the last number is left out.
pub(super) fn count(call: &mut Call<'_>) -> Outcome {
    let (from, to) = match call.arguments.len() {
        1 => (0, bound(call, 0)?),
        _ => (bound(call, 0)?, bound(call, 1)?),
    };
    let length = usize::try_from(from.abs_diff(to)).unwrap_or(usize::MAX);
    if length > MAX_ELEMENTS {
        return Err(call.fault(format!("cannot count {length} numbers: expected at most {MAX_ELEMENTS}")));
    }
    call.session.budget.allocate_list(length, INT_SIZE, call.span)?;
    let list: Vec<i64> =
        if from <= to { (from..to).collect() } else { (to..from).map(|int| from - (int - to)).collect() };
    Ok(Value::Ints(Rc::from(list)))
}

/// A bound of a loop: an integer, or a string that holds one.
fn bound(call: &Call<'_>, at: usize) -> Result<i64> {
    let Value::Text(text) = call.value(at) else { return whole(call, at) };
    let wrong =
        || call.argument_fault(at, format!("expected an integer, found {}", quote(&text, '"', false)));
    text.parse::<i64>().map_err(|_| wrong())
}
