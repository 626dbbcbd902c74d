//! Values with their places, and the containers that keep going when one of their parts is wrong.

#[cfg(test)]
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::config::decode::{FIELD, ONE_OR_MANY};
use crate::config::source::{FileId, Span};

/// A value that was given, with its place. It is `None` if it was wrong; that has been reported.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Field<T> {
    /// Where the value is.
    pub span: Span,
    /// Where its key is.
    pub key: Span,
    /// Its position in a list.
    pub index: usize,
    /// The value.
    pub value: Option<T>,
}

/// A field that may be absent. Boxed, since most are: a job has thirty of them.
pub type Opt<T> = Option<Box<Field<T>>>;

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for FieldVisitor<T> {
            type Value = Field<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value with its place")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Field<T>, A::Error> {
                let [file, start, end, key_start, key_end, index] =
                    parts.next_element::<[u32; 6]>()?.unwrap_or_default();
                let file = FileId(file);
                let value = parts.next_element::<T>()?;
                Ok(Field {
                    span: Span { file, start, end },
                    key: Span { file, start: key_start, end: key_end },
                    index: index as usize,
                    value,
                })
            }
        }

        deserializer.deserialize_newtype_struct(FIELD, FieldVisitor(PhantomData))
    }
}

#[cfg(test)]
impl<T: JsonSchema> JsonSchema for Field<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// An array whose wrong items do not hide the others.
pub type List<T> = Vec<Field<T>>;

/// As [`List`]; a single value stands for an array of one.
#[derive(Debug, Clone, PartialEq)]
pub struct OneOrMany<T>(pub List<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ItemsVisitor<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<List<T>, A::Error> {
                List::deserialize(SeqAccessDeserializer::new(items))
            }
        }

        deserializer.deserialize_newtype_struct(ONE_OR_MANY, ItemsVisitor(PhantomData)).map(Self)
    }
}

#[cfg(test)]
impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let item = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [item, { "type": "array", "items": item }] })
    }
}

/// An object with any keys, in the order written.
#[derive(Debug, Clone, PartialEq)]
pub struct Dictionary<T>(pub Vec<(String, Field<T>)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Dictionary<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
            type Value = Vec<(String, Field<T>)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }

        deserializer.deserialize_map(EntriesVisitor(PhantomData)).map(Self)
    }
}

#[cfg(test)]
impl<T: JsonSchema> JsonSchema for Dictionary<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("DictionaryOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": generator.subschema_for::<T>() })
    }
}
