//! Rendering never panics, its errors point into the source, and literal text maps back to itself.
#![no_main]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use containerpilot::config::template::render;
use libfuzzer_sys::fuzz_target;

static ENV: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let pairs = [("NAME", "Template"), ("PARTS", "a:b:c"), ("COUNT", "3"), ("EMPTY", ""), ("É", "日本")];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
});

fuzz_target!(|source: &str| {
    match render(source, &ENV) {
        Ok(rendered) => {
            let ends: Vec<usize> = rendered.text.char_indices().map(|(at, _)| at).take(40).collect();
            for from in &ends {
                for to in ends.iter().filter(|to| *to >= from) {
                    let origin = rendered.map.locate(*from..*to);
                    let text = source.get(origin.span).expect("a span on character boundaries");
                    assert!(!origin.verbatim || text == &rendered.text[*from..*to]);
                }
            }
            let end = rendered.text.len();
            assert!(source.get(rendered.map.locate(end..end + 1).span).is_some());
        }
        Err(error) => assert!(source.get(error.span).is_some(), "{}", error.message),
    }
});
