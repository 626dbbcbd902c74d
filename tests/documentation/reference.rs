//! The configuration reference as Markdown, from the JSON Schema that the program prints.

use std::collections::{HashSet, VecDeque};

use serde_json::{Map, Value};

/// Examples of a duration, by which the schema marks one.
const DURATION: &str = "1m30s";

/// One table per object, in the order in which a reader meets them.
pub fn render(schema: &Value) -> String {
    let defs = schema["$defs"].as_object().unwrap();
    let mut text = String::new();
    let mut seen = HashSet::new();
    let mut open = VecDeque::from([(String::new(), schema.clone())]);
    while let Some((path, object)) = open.pop_front() {
        let heading = if path.is_empty() { "Top level".to_owned() } else { format!("`{path}`") };
        text.push_str(&format!("## {heading}\n\n{}\n\n", words(&object)));
        text.push_str("| key | value | meaning |\n|---|---|---|\n");
        for (key, property) in object["properties"].as_object().unwrap() {
            let value = value(property, defs, &path, key);
            let meaning = format!("{}{}", words(property), choices(property, defs));
            text.push_str(&format!("| `{key}` | {} | {} |\n", cell(&value), cell(&meaning)));
        }
        text.push('\n');
        for (path, name) in objects(&object, defs, &path) {
            if seen.insert(name.clone()) {
                open.push_back((path, defs[&name].clone()));
            }
        }
    }
    text.trim_end().to_owned() + "\n"
}

/// The path and the definition of each object below this one.
fn objects(object: &Value, defs: &Map<String, Value>, path: &str) -> Vec<(String, String)> {
    let properties = object["properties"].as_object().unwrap();
    properties.iter().flat_map(|(key, property)| below(property, defs, &join(path, key))).collect()
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The definitions with keys of their own that a schema leads to.
fn below(schema: &Value, defs: &Map<String, Value>, path: &str) -> Vec<(String, String)> {
    if let Some(name) = reference(schema) {
        let target = &defs[name];
        if target["properties"].is_object() {
            return vec![(path.to_owned(), name.to_owned())];
        }
        return below(target, defs, path);
    }
    let items = schema.get("items").map_or_else(Vec::new, |items| below(items, defs, &format!("{path}[]")));
    let entries = schema.get("additionalProperties").filter(|it| it.is_object());
    let entries = entries.map_or_else(Vec::new, |entries| below(entries, defs, &format!("{path}.NAME")));
    let any = schema["anyOf"].as_array().into_iter().flatten().flat_map(|part| below(part, defs, path));
    any.chain(items).chain(entries).collect()
}

fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// What can be written for a key.
fn value(schema: &Value, defs: &Map<String, Value>, path: &str, key: &str) -> String {
    let mut kinds: Vec<String> = Vec::new();
    collect(schema, defs, &join(path, key), &mut kinds);
    let mut seen = HashSet::new();
    kinds.retain(|kind| seen.insert(kind.clone()));
    kinds.join(" or ")
}

fn collect(schema: &Value, defs: &Map<String, Value>, path: &str, kinds: &mut Vec<String>) {
    let examples = schema["examples"].as_array();
    if examples.is_some_and(|examples| examples.iter().any(|example| example == DURATION)) {
        kinds.push("[duration](#durations)".to_owned());
    } else if examples.is_some_and(|examples| examples.iter().any(|example| example == "5s")) {
        kinds.push("[duration](#durations) or `-1`".to_owned());
    } else if examples.is_some_and(|examples| examples.iter().any(|example| example == "never")) {
        kinds.push("`\"never\"`, `\"unlimited\"` or a whole number".to_owned());
    } else if let Some(name) = reference(schema) {
        let target = &defs[name];
        if target["properties"].is_object() {
            kinds.push(format!("[object](#{})", slug(path)));
        } else {
            collect(target, defs, path, kinds);
        }
    } else if let Some(choices) = schema["oneOf"].as_array() {
        kinds.push(
            choices.iter().map(|choice| format!("`{}`", choice["const"])).collect::<Vec<_>>().join(", "),
        );
    } else if schema["enum"].is_array() {
        kinds.push("name of an [event](events.md)".to_owned());
    } else if let Some(parts) = schema["anyOf"].as_array() {
        parts.iter().for_each(|part| collect(part, defs, path, kinds));
    } else if let Some(constant) = schema.get("const") {
        kinds.push(format!("`{constant}`"));
    } else {
        collect_types(schema, defs, path, kinds);
    }
}

fn collect_types(schema: &Value, defs: &Map<String, Value>, path: &str, kinds: &mut Vec<String>) {
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    // What takes any scalar takes it as text.
    let types = if types.starts_with(&["string", "number", "boolean"]) { vec!["text"] } else { types };
    for kind in types {
        let mut inner = Vec::new();
        match kind {
            "null" => {}
            "array" => {
                collect(&schema["items"], defs, &format!("{path}[]"), &mut inner);
                kinds.push(format!("array of {}", inner.join(" or ")));
            }
            "object" => {
                collect(&schema["additionalProperties"], defs, &format!("{path}.NAME"), &mut inner);
                kinds.push(format!("object of {}", inner.join(" or ")));
            }
            "integer" => match (&schema["minimum"], &schema["maximum"]) {
                (Value::Number(least), Value::Number(most)) => kinds.push(format!("{least} to {most}")),
                _ => kinds.push("whole number".to_owned()),
            },
            // A number in quotes.
            "string" if schema["maximum"].is_number() => {}
            "string" if schema["pattern"].is_string() => kinds.push("octal digits in quotes".to_owned()),
            other => kinds.push(other.to_owned()),
        }
    }
}

/// The values of an enumeration, each with what it means.
fn choices(schema: &Value, defs: &Map<String, Value>) -> String {
    let parts = schema["anyOf"].as_array().into_iter().flatten();
    let names = parts.chain([schema]).filter_map(reference);
    let choices = names.filter_map(|name| defs[name]["oneOf"].as_array()).flatten();
    choices.map(|choice| format!(" <br>`{}`: {}", choice["const"], words(choice))).collect()
}

fn words(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().to_owned()
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The anchor of a heading, as Markdown renderers make it.
pub fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}
