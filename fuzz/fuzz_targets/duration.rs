//! Any text is a duration or an error; what is a duration prints as one that reads back as itself.
#![no_main]

use containerpilot::config::duration::GoDuration;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let as_in_go = GoDuration::parse(text);
    let as_configured = GoDuration::parse_config(text);
    for duration in as_in_go.iter().chain(&as_configured) {
        assert_eq!(GoDuration::parse(&duration.to_string()).as_ref(), Ok(duration));
    }
    // A configuration takes all that Go takes, and bare numbers.
    if let Ok(duration) = as_in_go {
        assert_eq!(as_configured, Ok(duration));
    }
});
