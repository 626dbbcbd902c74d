//! Hides secrets in a record. A secret is serialised as it is, except within [`masked`]: there a mask takes its place. Equal
//! values have equal masks, so that machines which compare them decide alike when the record is replayed.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::OnceLock;

use serde::{Serialize, Serializer};

thread_local! {
    static IS_MASKING: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function that serialises something; secrets in it are written as masks.
pub fn masked<T>(serialise: impl FnOnce() -> T) -> T {
    let before = IS_MASKING.replace(true);
    let result = serialise();
    IS_MASKING.set(before);
    result
}

/// A number that tells values apart and says nothing else about them: its key is random, and is written down nowhere.
fn mask(value: impl Hash) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    KEY.get_or_init(RandomState::new).hash_one(value)
}

fn shown(value: &str) -> String {
    if IS_MASKING.get() { format!("***{:016x}", mask(value)) } else { value.to_owned() }
}

/// For a secret text.
pub fn text<S: Serializer>(value: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&shown(value))
}

/// For a list of texts that may all be secrets, such as the arguments of a program.
pub fn texts<S: Serializer>(values: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| shown(value)))
}

/// For named values that may all be secrets, such as headers.
pub fn values<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(pairs.iter().map(|(name, value)| (name, shown(value))))
}

/// For variables, whose values may all be secrets.
pub fn variables<S: Serializer>(
    pairs: &[(String, Option<String>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(pairs.iter().map(|(name, value)| (name, value.as_deref().map(shown))))
}

/// For a number that was computed from a secret.
pub fn number<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    if IS_MASKING.get() { mask(value).serialize(serializer) } else { value.serialize(serializer) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Everything {
        #[serde(serialize_with = "text")]
        url: String,
        #[serde(serialize_with = "texts")]
        args: Vec<String>,
        #[serde(serialize_with = "values")]
        headers: Vec<(String, String)>,
        #[serde(serialize_with = "variables")]
        env: Vec<(String, Option<String>)>,
        #[serde(serialize_with = "number")]
        digest: u64,
    }

    fn everything(secret: &str) -> Everything {
        Everything {
            url: secret.into(),
            args: vec![secret.into()],
            headers: vec![("H".into(), secret.into())],
            env: vec![("E".into(), Some(secret.into())), ("UNSET".into(), None)],
            digest: 4711,
        }
    }

    #[test]
    fn values_are_serialised_as_they_are_unless_a_record_is_written() {
        let plain = r#"{"url":"s3","args":["s3"],"headers":[["H","s3"]],"env":[["E","s3"],["UNSET",null]],"digest":4711}"#;
        assert_eq!(serde_json::to_string(&everything("s3")).unwrap(), plain);
        let masked = masked(|| serde_json::to_string(&everything("s3")).unwrap());
        // The digits alone may be part of a mask.
        assert!(!masked.contains("s3") && !masked.contains(r#""digest":4711}"#), "{masked}");
        assert!(masked.contains(r#"["UNSET",null]"#), "{masked}");
        assert_eq!(serde_json::to_string(&everything("s3")).unwrap(), plain);
    }

    #[test]
    fn equal_values_have_equal_masks_and_others_have_others() {
        let written = |secret| masked(|| serde_json::to_string(&everything(secret)).unwrap());
        assert_eq!(written("a"), written("a"));
        assert_ne!(written("a"), written("b"));
    }
}
