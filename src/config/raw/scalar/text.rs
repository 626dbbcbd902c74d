//! A text that may be written without quotes if it looks like a number or a boolean.

#[cfg(test)]
use std::borrow::Cow;
use std::marker::PhantomData;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::Deserializer;

use super::{Read, ScalarVisitor, Written};
use crate::config::decode::AS_WRITTEN;

/// A text, or a number or boolean that is taken as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar(pub String);

impl Read for Scalar {
    fn expecting() -> String {
        "a string, number or boolean".to_owned()
    }

    fn read(written: Written<'_>) -> Option<Self> {
        match written {
            Written::Text(text) => Some(Self(text.to_owned())),
            Written::Bool(value) => Some(Self(value.to_string())),
            // The decoder gives finite numbers as texts.
            Written::Unsigned(_) | Written::Signed(_) | Written::Float(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(AS_WRITTEN, ScalarVisitor(PhantomData))
    }
}

#[cfg(test)]
impl JsonSchema for Scalar {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}
