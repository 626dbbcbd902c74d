//! The JSON Schema of a configuration, derived from the raw types so that it cannot drift from them.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::raw::RawConfig;

/// The name of the schema; nothing is fetched from there.
const ID: &str = "urn:containerpilot:configuration";

/// The JSON Schema (draft 2020-12) of a configuration file.
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let derived = generator.into_root_schema_for::<RawConfig>().to_value();
    let mut schema = Map::new();
    // What a reader looks for first.
    for key in ["$schema", "title", "description"] {
        schema.insert(key.to_owned(), derived.get(key).cloned().unwrap_or_default());
    }
    schema.insert("$id".to_owned(), ID.into());
    schema.extend(derived.as_object().cloned().unwrap_or_default());
    public_names(Value::Object(schema))
}

/// Users need not know that our own types for what they write are called `Raw…`, nor where our lines end.
fn public_names(value: Value) -> Value {
    let public = |text: &str| text.replacen("#/$defs/Raw", "#/$defs/", 1).replace('\n', " ");
    match value {
        Value::Object(map) => {
            let entries = map.into_iter().map(|(key, value)| {
                let name = key.strip_prefix("Raw").map(str::to_owned);
                (name.unwrap_or(key), public_names(value))
            });
            Value::Object(entries.collect())
        }
        Value::Array(items) => items.into_iter().map(public_names).collect(),
        Value::String(text) => Value::String(public(&text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests;
