use std::path::Path;
use std::{env, fs};

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::SCHEMA;
use crate::config::raw::RawConfig;

/// The name of the schema; nothing is fetched from there.
const ID: &str = "urn:containerpilot:configuration";

/// The JSON Schema (draft 2020-12) of a configuration file.
fn schema() -> Value {
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

/// Calls a function with every object of a schema.
fn each_object(value: &Value, visit: &mut impl FnMut(&Map<String, Value>)) {
    match value {
        Value::Object(map) => {
            visit(map);
            map.values().for_each(|value| each_object(value, visit));
        }
        Value::Array(items) => items.iter().for_each(|item| each_object(item, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_schema_names_its_draft_and_itself() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert!(schema["$id"].is_string());
    assert!(schema["$defs"]["Job"]["properties"]["exec"].is_object());
    assert!(!schema.to_string().contains("Raw"));
    assert_eq!(schema["title"], "containerpilot configuration");
}

#[test]
fn every_object_with_known_keys_refuses_others() {
    let mut objects = 0;
    each_object(&schema(), &mut |object| {
        if object.get("properties").is_some_and(|properties| properties.get("$ref").is_none()) {
            objects += 1;
            assert_eq!(object.get("additionalProperties"), Some(&Value::Bool(false)), "{object:?}");
        }
    });
    assert!(objects > 10, "{objects}");
}

#[test]
fn every_key_is_described() {
    each_object(&schema(), &mut |object| {
        let Some(Value::Object(properties)) = object.get("properties") else { return };
        for (name, property) in properties {
            assert!(property["description"].is_string(), "{name}: {property}");
        }
    });
}

#[test]
fn the_schema_is_what_the_raw_types_say() {
    let derived = format!("{:#}\n", schema());
    if env::var_os("UPDATE_SCHEMA").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/schema.json");
        fs::write(path, derived).unwrap();
    } else {
        assert!(SCHEMA == derived, "run `UPDATE_SCHEMA=1 cargo test --lib schema`");
    }
}
