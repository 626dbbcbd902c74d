//! Texts: printing, the environment, defaults and replacing.

use std::rc::Rc;

use super::{Call, Outcome};
use crate::config::template::budget::Draft;
use crate::config::template::format::write_plain;
use crate::config::template::printf::write_formatted;
use crate::config::template::value::Value;

/// `print` and `println`.
pub(super) fn write(call: &mut Call<'_>, write: fn(&mut Draft, &[Value])) -> Outcome {
    let mut draft = Draft::default();
    write(&mut draft, &call.values());
    call.finish(draft)
}

pub(super) fn printf(call: &mut Call<'_>) -> Outcome {
    let format = call.text(0)?;
    let mut draft = Draft::default();
    write_formatted(&mut draft, &format, call.values().get(1..).unwrap_or_default());
    call.finish(draft)
}

/// `default VALUE X` is X if that is a string that is not empty, else VALUE as a string.
pub(super) fn default(call: &mut Call<'_>) -> Outcome {
    if let value @ Value::Text(_) = call.value(1)
        && value.is_true()
    {
        return Ok(value);
    }
    if let value @ Value::Text(_) = call.value(0) {
        return Ok(value);
    }
    let mut draft = Draft::default();
    write_plain(&mut draft, &call.value(0));
    call.finish(draft)
}

/// `env NAME`: the value of an environment variable, empty if there is none.
pub(super) fn env(call: &mut Call<'_>) -> Outcome {
    let name = call.text(0)?;
    Ok(Value::Text(call.session.environment.get(&name).map(Rc::clone).unwrap_or_default()))
}

/// `replaceAll FROM TO TEXT`
pub(super) fn replace_all(call: &mut Call<'_>) -> Outcome {
    let (from, to, text) = (call.text(0)?, call.text(1)?, call.text(2)?);
    let mut draft = Draft::default();
    let mut copied = 0;
    for (at, found) in text.match_indices(&*from) {
        draft.push_str(text.get(copied..at).unwrap_or_default());
        draft.push_str(&to);
        copied = at + found.len();
        if draft.is_full() {
            break;
        }
    }
    draft.push_str(text.get(copied..).unwrap_or_default());
    // Also what is not written was searched.
    call.session.budget.allocate(text.len(), call.span)?;
    call.finish(draft)
}

/// Go calls function values with this; a configuration has none.
pub(super) fn call(call: &mut Call<'_>) -> Outcome {
    Err(call.wrong_type(0, "a function"))
}
