//! The values that a template computes with, and what Go's rules say about each kind.

use std::collections::BTreeMap;
use std::rc::Rc;

/// The environment as templates see it: Go's `map[string]string`.
pub(super) type Environment = BTreeMap<Rc<str>, Rc<str>>;

/// A value; copies are cheap.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Go's untyped nil: an argument `nil`, or the data of a `{{template}}` that was given none.
    Nil,
    Bool(bool),
    Int(i64),
    /// One byte of a string, as `index` yields it: Go's `uint8`.
    Byte(u8),
    Float(f64),
    Text(Rc<str>),
    Strings(Rc<[Rc<str>]>),
    Ints(Rc<[i64]>),
    Environment(Rc<Environment>),
}

/// Copies the environment once, so that its values can be shared afterwards.
pub(super) fn environment(env: &BTreeMap<String, String>) -> Rc<Environment> {
    Rc::new(env.iter().map(|(name, value)| (Rc::from(name.as_str()), Rc::from(value.as_str()))).collect())
}

impl Value {
    pub(super) fn text(text: &str) -> Value {
        Value::Text(Rc::from(text))
    }

    /// The name of the type as Go's `%T` prints it.
    pub(super) fn go_type(&self) -> &'static str {
        self.names().0
    }

    /// The kind of value in the words of an error message.
    pub(super) fn described(&self) -> &'static str {
        self.names().1
    }

    fn names(&self) -> (&'static str, &'static str) {
        match self {
            Value::Nil => ("<nil>", "nil"),
            Value::Bool(_) => ("bool", "a boolean"),
            Value::Int(_) => ("int", "an integer"),
            Value::Byte(_) => ("uint8", "a byte"),
            Value::Float(_) => ("float64", "a floating-point number"),
            Value::Text(_) => ("string", "a string"),
            Value::Strings(_) => ("[]string", "a list of strings"),
            Value::Ints(_) => ("[]int", "a list of integers"),
            Value::Environment(_) => ("map[string]string", "the environment"),
        }
    }

    /// Whether the value counts as true: it is not the zero or empty value of its type.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::Nil => false,
            Value::Bool(value) => *value,
            Value::Int(value) => *value != 0,
            Value::Byte(value) => *value != 0,
            Value::Float(value) => *value != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::Strings(list) => !list.is_empty(),
            Value::Ints(list) => !list.is_empty(),
            Value::Environment(map) => !map.is_empty(),
        }
    }

    /// The number, for an integer of either kind.
    pub(super) fn as_integer(&self) -> Option<i64> {
        if let Value::Byte(byte) = self {
            Some(i64::from(*byte))
        } else if let Value::Int(int) = self {
            Some(*int)
        } else {
            None
        }
    }

    /// The number of elements, for what has elements; the bytes of a string.
    pub(super) fn length(&self) -> Option<usize> {
        match self {
            Value::Text(text) => Some(text.len()),
            Value::Strings(list) => Some(list.len()),
            Value::Ints(list) => Some(list.len()),
            Value::Environment(map) => Some(map.len()),
            Value::Nil | Value::Bool(_) | Value::Int(_) | Value::Byte(_) | Value::Float(_) => None,
        }
    }

    /// The element at a position; one byte of a string.
    pub(super) fn element(&self, position: usize) -> Option<Value> {
        if let Value::Text(text) = self {
            text.as_bytes().get(position).map(|byte| Value::Byte(*byte))
        } else if let Value::Strings(list) = self {
            list.get(position).map(|text| Value::Text(Rc::clone(text)))
        } else if let Value::Ints(list) = self {
            list.get(position).map(|int| Value::Int(*int))
        } else {
            None
        }
    }

    /// The pairs that `range` visits in order, or nothing when the value cannot be ranged over.
    pub(super) fn entries(&self) -> Option<Box<dyn Iterator<Item = (Value, Value)> + '_>> {
        let index = |at: usize| Value::Int(i64::try_from(at).unwrap_or(i64::MAX));
        match self {
            // Like a nil map: nothing to visit, and no mistake.
            Value::Nil => Some(Box::new(std::iter::empty())),
            Value::Strings(_) | Value::Ints(_) => {
                let length = self.length().unwrap_or_default();
                Some(Box::new((0..length).filter_map(move |at| Some((index(at), self.element(at)?)))))
            }
            Value::Environment(map) => Some(Box::new(
                map.iter().map(|(key, value)| (Value::Text(Rc::clone(key)), Value::Text(Rc::clone(value)))),
            )),
            Value::Bool(_) | Value::Int(_) | Value::Byte(_) | Value::Float(_) | Value::Text(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_empty_values_are_false() {
        let zeros = [
            Value::Nil,
            Value::Bool(false),
            Value::Int(0),
            Value::Byte(0),
            Value::Float(-0.0),
            Value::text(""),
            Value::Strings(Rc::from([])),
            Value::Ints(Rc::from([])),
            Value::Environment(Rc::new(Environment::new())),
        ];
        for value in zeros {
            assert!(!value.is_true(), "{value:?}");
        }
        assert!(Value::text("false").is_true());
        assert!(Value::Ints(Rc::from([0])).is_true());
    }

    #[test]
    fn the_environment_is_visited_in_the_order_of_its_keys() {
        let map = BTreeMap::from([("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())]);
        let value = Value::Environment(environment(&map));
        let keys: Vec<String> = value.entries().unwrap().map(|(key, _)| format!("{key:?}")).collect();
        assert_eq!(keys, ["Text(\"a\")", "Text(\"b\")"]);
    }

    #[test]
    fn single_values_have_no_entries() {
        assert!(Value::Int(3).entries().is_none());
        assert!(Value::text("abc").entries().is_none());
    }
}
