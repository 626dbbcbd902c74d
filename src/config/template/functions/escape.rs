//! Escaping for HTML, JavaScript and URLs. Several arguments are printed as `print` does, then escaped.

use super::{Call, Outcome};
use crate::config::template::budget::Draft;
use crate::config::template::printf::write_spaced;
use crate::config::template::quote::is_printable;
use crate::config::template::value::Value;

pub(super) fn html(call: &mut Call<'_>) -> Outcome {
    escape(call, |draft, character| match character {
        '\0' => draft.push('\u{FFFD}'),
        '"' => draft.push_str("&#34;"),
        '\'' => draft.push_str("&#39;"),
        '&' => draft.push_str("&amp;"),
        '<' => draft.push_str("&lt;"),
        '>' => draft.push_str("&gt;"),
        _ => draft.push(character),
    })
}

pub(super) fn js(call: &mut Call<'_>) -> Outcome {
    escape(call, |draft, character| match character {
        '\\' | '\'' | '"' => {
            draft.push('\\');
            draft.push(character);
        }
        '\0'..' ' | '<' | '>' | '&' | '=' => push_unicode(draft, character),
        ' '..='\x7F' => draft.push(character),
        _ if is_printable(character) => draft.push(character),
        _ => push_unicode(draft, character),
    })
}

fn push_unicode(draft: &mut Draft, character: char) {
    draft.push_str(&format!("\\u{:04X}", u32::from(character)));
}

pub(super) fn urlquery(call: &mut Call<'_>) -> Outcome {
    escape(call, |draft, character| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' | '~' => draft.push(character),
        ' ' => draft.push('+'),
        _ => {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                draft.push_str(&format!("%{byte:02X}"));
            }
        }
    })
}

fn escape(call: &mut Call<'_>, push: fn(&mut Draft, char)) -> Outcome {
    let mut printed = Draft::default();
    let values: Vec<Value> = call.values().into_iter().map(nil_as_no_value).collect();
    write_spaced(&mut printed, &values);
    let text = printed.finish(&mut call.session.budget, call.span)?;
    let mut draft = Draft::default();
    for character in text.chars() {
        push(&mut draft, character);
    }
    call.finish(draft)
}

/// An action of a template prints nil like this, too.
fn nil_as_no_value(value: Value) -> Value {
    if matches!(value, Value::Nil) { Value::text("<no value>") } else { value }
}
