//! Where a configuration puts the control socket, even if it is wrong elsewhere: a client that asks for a reload
//! must reach the program to be told what is wrong.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use regex_lite::Regex;

use super::load;
use super::locator;
use super::template;

/// The value of `control.socket`, if there is one. Of a directory, the last file decides.
pub fn control_socket(path: &Path, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let texts = load::readable_texts(path);
    texts.iter().rev().find_map(|text| configured(text, env)).flatten()
}

/// The value in one file; the outer `None` if it says nothing of `control`, which replaces that of earlier files as a whole.
fn configured(text: &str, env: &BTreeMap<String, String>) -> Option<Option<PathBuf>> {
    let rendered = template::render(text, env).map_or_else(|_| text.to_owned(), |rendered| rendered.text);
    if locator::locate(&rendered).is_err() {
        return None; // nested so deeply that no parser should see it
    }
    match json5::from_str::<serde_json::Value>(&rendered) {
        Ok(config) => {
            let control = in_any_case(&config, "control").filter(|control| !control.is_null())?;
            let socket = in_any_case(control, "socket").and_then(serde_json::Value::as_str);
            Some(socket.filter(|path| !path.is_empty()).map(PathBuf::from))
        }
        Err(_) => guessed(&rendered).map(Some),
    }
}

/// The value of a key, whatever the case of its letters.
fn in_any_case<'a>(object: &'a serde_json::Value, key: &str) -> Option<&'a serde_json::Value> {
    object.as_object()?.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value)
}

/// Of a text that cannot be parsed: what looks like the setting.
fn guessed(text: &str) -> Option<PathBuf> {
    let pattern = r#"(?is)["']?control["']?\s*:\s*\{[^{}]*?["']?socket["']?\s*:\s*["']([^"'\n]+)["']"#;
    let found = Regex::new(pattern).ok()?.captures(text)?;
    found.get(1).map(|path| PathBuf::from(path.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(text: &str) -> Option<String> {
        let env = BTreeMap::from([("DIR".to_owned(), "/run/x".to_owned())]);
        configured(text, &env).flatten().map(|path| path.to_str().unwrap().to_owned())
    }

    #[test]
    fn the_socket_is_found_in_a_configuration_that_is_wrong_elsewhere() {
        for text in [
            "{ control: { socket: '{{ .DIR }}/s' } }",
            "{ control: { socket: '/run/x/s' }, nonsense: 1, jobs: 'none' }",
            "{ jobs: [ { name: 'a', } } ], \"control\": {\n \"mode\": \"0600\", \"socket\": \"/run/x/s\" } }",
            "{ {{ if }} control: { socket: '/run/x/s' } }",
            "{ Control: { SOCKET: '/run/x/s' } }",
        ] {
            assert_eq!(socket(text).as_deref(), Some("/run/x/s"), "{text}");
        }
    }

    #[test]
    fn where_nothing_is_said_nothing_is_found() {
        for text in [
            "",
            "{}",
            "{ control: {} }",
            "{ control: 5 }",
            "{ socket: '/s' }",
            "{ broken",
            "{ control: { socket: '{{ .NONE }}' } }",
        ] {
            assert_eq!(socket(text), None, "{text}");
        }
    }

    #[test]
    fn the_last_file_of_a_directory_decides() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("1.json5", "{ control: { socket: '/one' } }"),
            ("2.json5", "{ control: { socket: '/two' } }"),
            ("3.json5", "{ jobs: [] }"),
            ("4.txt", "{ control: { socket: '/four' } }"),
            ("5.json5", "{ control: null }"),
        ] {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        assert_eq!(control_socket(directory.path(), &BTreeMap::new()), Some("/two".into()));
        assert_eq!(control_socket(&directory.path().join("none"), &BTreeMap::new()), None);
        std::fs::write(directory.path().join("6.json5"), "{ control: { mode: '0660' } }").unwrap();
        assert_eq!(control_socket(directory.path(), &BTreeMap::new()), None, "the default");
    }
}
