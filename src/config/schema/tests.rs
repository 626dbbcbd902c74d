use serde_json::{Map, Value};

use super::*;

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
