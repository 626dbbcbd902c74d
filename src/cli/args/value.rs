//! Values of arguments: from text to what they mean, or to what was expected.

use std::time::Duration;

use crate::config::duration::GoDuration;
use crate::messages::signal::Signal;

/// `KEY=VALUE`, or `KEY` to unset it.
pub(super) fn variable(text: &str) -> Result<(String, Option<String>), String> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (text, None),
    };
    let is_name = !key.starts_with(|c: char| c.is_ascii_digit())
        && !key.is_empty()
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return Err(format!("{key:?} is not a variable's name: letters, digits and _, no digit first"));
    }
    Ok((key.to_owned(), value))
}

/// `NAME=NUMBER`.
pub(super) fn measurement(text: &str) -> Result<(String, f64), String> {
    let (name, number) = text.split_once('=').ok_or("expected NAME=NUMBER")?;
    if name.is_empty() {
        return Err("expected the name of a metric before \"=\"".to_owned());
    }
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok((name.to_owned(), number)),
        Ok(_) | Err(_) => Err(format!("expected a number after \"=\", found {number:?}")),
    }
}

/// A signal by name or number.
pub(super) fn signal(text: &str) -> Result<Signal, String> {
    Signal::parse(text).ok_or_else(|| "expected a signal's name or number, such as SIGHUP or 1".to_owned())
}

/// A length of time, such as `5m`.
pub(super) fn age(text: &str) -> Result<String, String> {
    match GoDuration::parse_config(text).map(GoDuration::as_std) {
        Ok(Some(_)) => Ok(text.to_owned()),
        Ok(None) | Err(_) => Err("expected a duration such as 90s, 5m or 1h30m".to_owned()),
    }
}

/// A time such as `30s` or `5m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a time such as 30s or 5m, found {text:?}");
    let time = GoDuration::parse_config(text).map_err(|_| expected())?;
    time.as_std().ok_or_else(expected)
}
