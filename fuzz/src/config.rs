//! Makes configurations: as the schema says, almost as it says, of ContainerPilot 2, and texts that are none.

use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use containerpilot::config::SCHEMA;
use serde_json::Value;

/// What stands in the place of every secret, and must be in no report.
pub const SECRET: &str = "sw0rdf1sh";

static PARSED: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(SCHEMA).expect("a schema"));

/// Nested deeper than this, values are plain.
const DEEPEST: usize = 7;
/// Objects whose values are all secrets, and keys whose value is one.
const SECRET_OBJECTS: [&str; 2] = ["env", "headers"];
const SECRET_KEYS: [&str; 1] = ["token"];

const TEXTS: [&str; 56] = [
    "a", "b", "app", "main", "watch.a", "check.app", "SIGHUP", "SIGUSR2", "sigterm", "startup", "healthy", "unhealthy",
    "exitSuccess", "exitFailed", "stopped", "stopping", "changed", "never", "unlimited", "5", "-1", "0", "1s", "10ms",
    "1m30s", "0s", "1h", "-5s", "9999999h", "1e3", "/bin/true", "sh -c 'sleep 1 &'", "nginx -g 'daemon off;'",
    "app \"unclosed", "", " ", "127.0.0.1:80", "localhost:8500", "http://127.0.0.1:80/health", "https://[::1]/x",
    "http://", "unix:///tmp/consul.sock", "eth0:inet", "static:192.0.2.1", "10.0.0.0/16", "inet6", "022", "0777",
    "counter", "DEBUG", "json", "passing", "root", "nofile", "ünïcode \u{1f600}", "\\u0000",
];
const ACTIONS: [&str; 10] = [
    "{{ .A }}",
    "{{ .MISSING }}",
    "{{ .B | default \"x\" }}",
    "{{ if .A }}1{{ else }}2{{ end }}",
    "{{ range split \",\" .B }}{{ . }}{{ end }}",
    "{{ env \"A\" }}",
    "{{- .A -}}",
    "{{/* nothing */}}",
    "{{ .A",
    "{{ end }}",
];
const OLD_KEYS: [&str; 30] = [
    "consul", "services", "backends", "tasks", "preStart", "preStop", "postStop", "telemetry", "logging", "stopTimeout",
    "coprocesses", "name", "port", "health", "poll", "ttl", "tags", "interfaces", "onChange", "command", "frequency",
    "timeout", "restarts", "sensors", "namespace", "check", "type", "help", "etcd", "unknown",
];

/// A configuration that the schema allows, or almost.
pub fn by_schema(u: &mut Unstructured<'_>) -> Result<String> {
    let mut text = String::new();
    value(u, &PARSED, 0, &mut text)?;
    Ok(text)
}

/// A configuration with the keys of ContainerPilot 2.
pub fn of_version_two(u: &mut Unstructured<'_>) -> Result<String> {
    let mut text = String::new();
    old_object(u, 0, &mut text)?;
    Ok(text)
}

/// A value that fits the schema; sometimes one that does not.
fn value(u: &mut Unstructured<'_>, schema: &Value, depth: usize, text: &mut String) -> Result<()> {
    let schema = resolve(schema);
    if u.is_empty() || depth > DEEPEST {
        text.push_str("null");
        return Ok(());
    }
    if depth > 0 && u.ratio(1, 40)? {
        return any(u, depth, text);
    }
    if let Some(Value::Array(choices)) = schema.get("anyOf").or_else(|| schema.get("oneOf")) {
        let choice = u.choose(choices)?;
        return value(u, choice, depth, text);
    }
    if let Some(Value::Array(choices)) = schema.get("enum").or_else(|| schema.get("examples"))
        && u.ratio(3, 4)?
    {
        text.push_str(&u.choose(choices)?.to_string());
        return Ok(());
    }
    let kind = match schema.get("type") {
        // The last one is often null.
        Some(Value::Array(kinds)) => u.choose(&kinds[..kinds.len().max(2) - 1])?.as_str(),
        Some(kind) => kind.as_str(),
        None => None,
    };
    match kind {
        Some("object") => object(u, schema, depth, text),
        Some("array") => list(u, schema.get("items").unwrap_or(&Value::Null), depth, text),
        Some("integer" | "number") => number(u, schema, text),
        Some("boolean") => {
            text.push_str(if u.arbitrary()? { "true" } else { "false" });
            Ok(())
        }
        Some("string") => string(u, text),
        _ => any(u, depth, text),
    }
}

fn resolve(schema: &Value) -> &Value {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    name.and_then(|name| PARSED.get("$defs")?.get(name)).unwrap_or(schema)
}

fn object(u: &mut Unstructured<'_>, schema: &Value, depth: usize, text: &mut String) -> Result<()> {
    text.push('{');
    let known = schema.get("properties").and_then(Value::as_object);
    for _ in 0..u.int_in_range(0..=6)? {
        match known {
            Some(known) if u.ratio(30, 31)? => {
                let (key, schema) = known.iter().nth(u.choose_index(known.len())?).expect("a key");
                text.push_str(&format!("{key:?}: "));
                keyed(u, key, schema, depth, text)?;
            }
            _ => {
                text.push_str(&format!("{:?}: ", u.choose(&["A", "B", "x", "exce", "nofile", "core", "é"])?));
                value(u, schema.get("additionalProperties").unwrap_or(&Value::Null), depth + 1, text)?;
            }
        }
        text.push_str(if u.ratio(1, 60)? { "" } else { ", " });
    }
    text.push('}');
    Ok(())
}

/// The value of a key; where only a secret can stand, the secret.
fn keyed(u: &mut Unstructured<'_>, key: &str, schema: &Value, depth: usize, text: &mut String) -> Result<()> {
    if SECRET_KEYS.contains(&key) {
        text.push_str(&format!("\"{SECRET}\""));
        return Ok(());
    }
    if SECRET_OBJECTS.contains(&key) {
        let name = u.choose(&["A", "PASSWORD", "1", "x y", ""])?;
        text.push_str(&format!("{{{name:?}: \"{SECRET}\"}}"));
        return Ok(());
    }
    value(u, schema, depth + 1, text)
}

fn list(u: &mut Unstructured<'_>, items: &Value, depth: usize, text: &mut String) -> Result<()> {
    text.push('[');
    for _ in 0..u.int_in_range(0..=4)? {
        value(u, items, depth + 1, text)?;
        text.push_str(", ");
    }
    text.push(']');
    Ok(())
}

fn number(u: &mut Unstructured<'_>, schema: &Value, text: &mut String) -> Result<()> {
    let least = schema.get("minimum").map(ToString::to_string).unwrap_or_default();
    let most = schema.get("maximum").map(ToString::to_string).unwrap_or_default();
    let choices = ["1", "0", "80", "-1", "1.5", "65536", "1e999", "0x10", "+5", "NaN", "9007199254740993", &least, &most];
    text.push_str(u.choose(&choices)?);
    Ok(())
}

fn string(u: &mut Unstructured<'_>, text: &mut String) -> Result<()> {
    let mut content = match u.int_in_range(0..=15)? {
        0 => {
            let length = u.int_in_range(0..=20)?;
            String::from_utf8_lossy(u.bytes(length.min(u.len()))?).into_owned()
        }
        _ => (*u.choose(&TEXTS)?).to_owned(),
    };
    if u.ratio(1, 10)? {
        content += u.choose(&ACTIONS)?;
    }
    text.push_str(&Value::from(content).to_string());
    Ok(())
}

/// A value that no schema asks for.
fn any(u: &mut Unstructured<'_>, depth: usize, text: &mut String) -> Result<()> {
    match u.int_in_range(0..=6)? {
        0 => text.push_str("null"),
        1 => number(u, &Value::Null, text)?,
        2 => list(u, &Value::Null, depth, text)?,
        3 => object(u, &Value::Null, depth, text)?,
        4 => text.push_str(u.choose(&ACTIONS)?),
        _ => string(u, text)?,
    }
    Ok(())
}

fn old_object(u: &mut Unstructured<'_>, depth: usize, text: &mut String) -> Result<()> {
    text.push('{');
    for _ in 0..u.int_in_range(0..=6)? {
        text.push_str(&format!("{:?}: ", u.choose(&OLD_KEYS)?));
        old_value(u, depth + 1, text)?;
        text.push_str(u.choose(&[", ", ", ", ",\n", ", // a comment\n", "\n"])?);
    }
    text.push('}');
    Ok(())
}

fn old_value(u: &mut Unstructured<'_>, depth: usize, text: &mut String) -> Result<()> {
    match u.int_in_range(0..=7)? {
        0 if depth < DEEPEST => old_object(u, depth, text),
        1 | 2 if depth < DEEPEST => {
            text.push('[');
            for _ in 0..u.int_in_range(0..=3)? {
                match u.int_in_range(0..=5)? {
                    0 => string(u, text)?,
                    1 => text.push_str(u.choose(&ACTIONS)?),
                    _ => old_object(u, depth + 1, text)?,
                }
                text.push_str(", ");
            }
            text.push(']');
            Ok(())
        }
        3 => number(u, &Value::Null, text),
        4 => any(u, depth, text),
        _ => string(u, text),
    }
}
