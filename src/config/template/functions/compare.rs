//! Comparisons after Go's rules: integers of any kind compare with each other, all else only with its own kind.

use std::cmp::Ordering;

use super::{Call, Outcome};
use crate::config::template::value::Value;
use crate::config::template::{Result, TemplateError};

/// The values that can be compared, by what they can be compared with.
#[derive(PartialEq)]
enum Basic {
    Nothing,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(std::rc::Rc<str>),
}

pub(super) fn not(call: &mut Call<'_>) -> Outcome {
    Ok(Value::Bool(!call.value(0).is_true()))
}

/// True when the first argument equals any of the others.
pub(super) fn eq(call: &mut Call<'_>) -> Outcome {
    for at in 1..call.arguments.len() {
        if equal(call, at)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

pub(super) fn ne(call: &mut Call<'_>) -> Outcome {
    equal(call, 1).map(|equal| Value::Bool(!equal))
}

/// Whether the order of both arguments is as asked.
pub(super) fn order(call: &mut Call<'_>, is_asked: fn(Ordering) -> bool) -> Outcome {
    ordering(call).map(|ordering| Value::Bool(ordering.is_some_and(is_asked)))
}

fn basic(call: &Call<'_>, at: usize) -> Result<Basic> {
    match call.value(at) {
        Value::Nil => Ok(Basic::Nothing),
        Value::Bool(value) => Ok(Basic::Bool(value)),
        Value::Int(value) => Ok(Basic::Integer(value)),
        Value::Byte(value) => Ok(Basic::Integer(i64::from(value))),
        Value::Float(value) => Ok(Basic::Float(value)),
        Value::Text(text) => Ok(Basic::Text(text)),
        value @ (Value::Strings(_) | Value::Ints(_) | Value::Environment(_)) => {
            Err(call.argument_fault(at, format!("cannot compare {}", value.described())))
        }
    }
}

fn equal(call: &mut Call<'_>, with: usize) -> Result<bool> {
    let (one, other) = (basic(call, 0)?, basic(call, with)?);
    if let Basic::Text(text) = &one {
        let length = text.len();
        call.session.budget.allocate(length, call.span)?;
    }
    let comparable = one == Basic::Nothing
        || other == Basic::Nothing
        || std::mem::discriminant(&one) == std::mem::discriminant(&other);
    if comparable { Ok(one == other) } else { Err(incompatible(call, with)) }
}

fn ordering(call: &mut Call<'_>) -> Result<Option<Ordering>> {
    match (basic(call, 0)?, basic(call, 1)?) {
        (Basic::Integer(one), Basic::Integer(other)) => Ok(Some(one.cmp(&other))),
        (Basic::Float(one), Basic::Float(other)) => Ok(one.partial_cmp(&other)),
        (Basic::Text(one), Basic::Text(other)) => {
            call.session.budget.allocate(one.len(), call.span)?;
            Ok(Some(one.cmp(&other)))
        }
        (Basic::Bool(_), Basic::Bool(_)) => Err(call.fault("booleans have no order")),
        (Basic::Nothing, _) | (_, Basic::Nothing) => Err(call.fault("nil has no order")),
        (Basic::Bool(_) | Basic::Integer(_) | Basic::Float(_) | Basic::Text(_), _) => {
            Err(incompatible(call, 1))
        }
    }
}

fn incompatible(call: &Call<'_>, with: usize) -> TemplateError {
    let (one, other) = (call.value(0).described(), call.value(with).described());
    call.fault(format!("incompatible types for comparison: {one} and {other}"))
}
