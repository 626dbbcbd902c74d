//! The configuration reference as Markdown, from the JSON Schema that the program prints.

use std::collections::{BTreeMap, HashSet, VecDeque};

use serde_json::{Map, Value};

/// Headings above the generated part, which its anchors must not meet.
const TAKEN: [&str; 6] = ["configuration", "directories", "durations", "commands", "templates", "top-level"];

/// One table per object, in the order in which a reader meets them.
pub fn render(schema: &Value) -> String {
    let mut reference = Reference { defs: schema["$defs"].as_object().unwrap(), anchors: BTreeMap::new() };
    let sections = reference.sections(schema);
    let mut text = reference.section("Top level", schema);
    for (path, name) in sections {
        text.push_str(&reference.section(&format!("`{path}`"), &reference.defs[&name]));
    }
    text.trim_end().to_owned() + "\n"
}

struct Reference<'a> {
    defs: &'a Map<String, Value>,
    /// By the name of a definition.
    anchors: BTreeMap<String, String>,
}

impl Reference<'_> {
    /// The path and the definition of every object, and their anchors.
    fn sections(&mut self, schema: &Value) -> Vec<(String, String)> {
        let mut sections = Vec::new();
        let mut slugs: Vec<String> = TAKEN.iter().map(|&slug| slug.to_owned()).collect();
        let mut open = VecDeque::from([(String::new(), schema)]);
        while let Some((path, object)) = open.pop_front() {
            for (key, property) in object["properties"].as_object().unwrap() {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                for (path, name) in below(property, self.defs, &path) {
                    if self.anchors.contains_key(&name) {
                        continue;
                    }
                    let anchor = unique(slug(&path), &slugs);
                    slugs.push(slug(&path));
                    self.anchors.insert(name.clone(), anchor);
                    open.push_back((path.clone(), &self.defs[&name]));
                    sections.push((path, name));
                }
            }
        }
        sections
    }

    fn section(&self, heading: &str, object: &Value) -> String {
        let mut text = format!("## {heading}\n\n{}\n\n", words(object));
        text.push_str("| key | value | meaning |\n|---|---|---|\n");
        for (key, property) in object["properties"].as_object().unwrap() {
            let meaning = format!("{}{}", words(property), self.choices(property));
            text.push_str(&format!("| `{key}` | {} | {} |\n", cell(&self.value(property)), cell(&meaning)));
        }
        text.push('\n');
        text
    }

    /// What can be written for a key.
    fn value(&self, schema: &Value) -> String {
        let mut kinds: Vec<String> = Vec::new();
        self.collect(schema, &mut kinds);
        let mut seen = HashSet::new();
        kinds.retain(|kind| seen.insert(kind.clone()));
        kinds.join(" or ")
    }

    fn collect(&self, schema: &Value, kinds: &mut Vec<String>) {
        // What the schema can only describe by examples.
        let is_like = |example: &str| {
            schema["examples"].as_array().is_some_and(|all| all.iter().any(|it| it == example))
        };
        if is_like("1m30s") {
            kinds.push("[duration](#durations)".to_owned());
        } else if is_like("5s") {
            kinds.push("[duration](#durations) or `-1`".to_owned());
        } else if is_like("never") {
            kinds.push("`\"never\"`, `\"unlimited\"` or a whole number".to_owned());
        } else if is_like("SIGTERM") {
            kinds.push("exit status or signal".to_owned());
        } else if let Some(name) = reference(schema) {
            match self.anchors.get(name) {
                Some(anchor) => kinds.push(format!("[object](#{anchor})")),
                None => self.collect(&self.defs[name], kinds),
            }
        } else if let Some(choices) = schema["oneOf"].as_array() {
            let choices: Vec<String> =
                choices.iter().map(|choice| format!("`{}`", choice["const"])).collect();
            kinds.push(choices.join(", "));
        } else if let Some(values) = schema["enum"].as_array() {
            let is_event = values.iter().any(|value| *value == "exitSuccess");
            let all: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            kinds.push(if is_event { "name of an [event](events.md)".to_owned() } else { all.join(", ") });
        } else if let Some(parts) = schema["anyOf"].as_array() {
            parts.iter().for_each(|part| self.collect(part, kinds));
        } else if let Some(constant) = schema.get("const") {
            kinds.push(format!("`{constant}`"));
        } else {
            self.collect_types(schema, kinds);
        }
    }

    fn collect_types(&self, schema: &Value, kinds: &mut Vec<String>) {
        let one = schema["type"].as_str();
        let several = schema["type"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let types: Vec<&str> = one.into_iter().chain(several).collect();
        // What takes any scalar takes it as text.
        let types = if types.starts_with(&["string", "number", "boolean"]) { vec!["text"] } else { types };
        for kind in types {
            match kind {
                "null" => {}
                "array" => kinds.push(format!("array of {}", self.value(&schema["items"]))),
                "object" => kinds.push(format!("object of {}", self.value(&schema["additionalProperties"]))),
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
    fn choices(&self, schema: &Value) -> String {
        let parts = schema["anyOf"].as_array().into_iter().flatten();
        let names = parts.chain([schema]).filter_map(reference);
        let choices = names.filter_map(|name| self.defs[name]["oneOf"].as_array()).flatten();
        choices.map(|choice| format!(" <br>`{}`: {}", choice["const"], words(choice))).collect()
    }
}

/// The definitions with keys of their own that a schema leads to, with their paths.
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

/// The anchor of a heading after others: a number tells equal ones apart.
pub fn unique(slug: String, before: &[String]) -> String {
    match before.iter().filter(|other| **other == slug).count() {
        0 => slug,
        count => format!("{slug}-{count}"),
    }
}
