//! The JSON Schema of a configuration, derived from the raw types so that it cannot drift from them.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::raw::RawConfig;

/// The JSON Schema (draft 2020-12) of a configuration file.
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<RawConfig>();
    schema.insert("$id".to_owned(), "https://containerpilot.example/schema/configuration.json".into());
    schema.to_value()
}

#[cfg(test)]
mod tests;
