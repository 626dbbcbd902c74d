//! Any text splits into words or is an error at one of its characters; words that are quoted again split alike.
#![no_main]

use containerpilot::config::words::split;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match split(text) {
        Ok(words) => {
            let quoted: Vec<String> =
                words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
            assert_eq!(split(&quoted.join(" ")), Ok(words));
        }
        Err(error) => assert!(text[error.offset..].starts_with(['\'', '"', '\\'])),
    }
});
