//! Loading never panics, hangs or prints a secret, whatever the file holds.
#![no_main]

use std::collections::BTreeMap;

use containerpilot::config::{System, load_text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let env = BTreeMap::from([("A".to_owned(), "1".to_owned()), ("B".to_owned(), "x,y".to_owned())]);
    match load_text("fuzz.json5", text, &env, &System::default()) {
        Ok(loaded) => {
            let _ = (loaded.warnings.render(true), loaded.warnings.to_json());
        }
        Err(report) => {
            assert!(!report.is_empty());
            let _ = (report.render(true), report.to_json());
        }
    }
});
