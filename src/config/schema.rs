//! The JSON Schema of a configuration. A test derives it from the raw types and keeps the file equal, so that it cannot
//! drift from them and what derives it is not part of the program.

/// The JSON Schema (draft 2020-12) of a configuration file.
pub const SCHEMA: &str = include_str!("schema.json");

#[cfg(test)]
mod tests;
