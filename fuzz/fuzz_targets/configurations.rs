//! Whatever is in the files of a configuration: loading, checking, rendering and migrating agree with each other, no
//! report shows a secret or what a terminal would obey, and a migrated text is one that can be read.
#![no_main]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use arbitrary::{Arbitrary, Result, Unstructured};
use containerpilot::config::diagnostic::Report;
use containerpilot::config::migrate::{Migration, migrate};
use containerpilot::config::spec::Spec;
use containerpilot::config::{System, check, load, load_text, render};
use containerpilot_fuzz::config::{SECRET, by_schema, of_version_two};
use containerpilot_fuzz::{memory, with_shared};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

const MOST_MEMORY: usize = 64 << 20;
const NAMES: [&str; 6] = ["a.json5", "b.json", "c.json5", ".hidden.json5", "notes.txt", "d.json5"];

#[derive(Debug)]
struct Input {
    files: Vec<(&'static str, Vec<u8>)>,
    /// Whether every text is as the schema says: then secrets stand where they are known to be secrets.
    is_by_schema: bool,
}

impl<'a> Arbitrary<'a> for Input {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let (mut files, mut is_by_schema) = (Vec::new(), true);
        for name in NAMES.iter().take(*u.choose(&[1, 1, 2, 6])?) {
            let kind = u.int_in_range(0..=9)?;
            is_by_schema &= kind < 7;
            let text = match kind {
                0 => [by_schema(u)?.as_bytes(), u.choose(&[b"\xff", b"\0"])?.as_slice()].concat(),
                1..7 => by_schema(u)?.into_bytes(),
                7 | 8 => of_version_two(u)?.into_bytes(),
                _ => {
                    let length = u.int_in_range(0..=200)?;
                    u.bytes(length.min(u.len()))?.to_vec()
                }
            };
            files.push((*name, text));
        }
        Ok(Self { files, is_by_schema })
    }
}

/// A directory for the files of each input, in memory where the system has such a place.
fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a directory")
}

thread_local! {
    static DIRECTORY: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

fuzz_target!(|input: Input| {
    with_shared(&DIRECTORY, directory, |directory| {
        let paths: Vec<PathBuf> = input.files.iter().map(|(name, _)| directory.path().join(name)).collect();
        for (path, (_, text)) in paths.iter().zip(&input.files) {
            fs::write(path, text).expect("a file");
        }
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned()), ("B".to_owned(), "x,y".to_owned())]);
        let whole = examine(directory.path(), &env, input.is_by_schema);
        if let ([path], [(_, text)]) = (&paths[..], &input.files[..]) {
            let loaded = load(path, &env, &System::default());
            assert_eq!(loaded.ok().map(|loaded| loaded.spec), whole, "a directory with one file is that file");
            if let Ok(text) = str::from_utf8(text) {
                let loaded = load_text("x", text, &env, &System::default());
                assert_eq!(loaded.ok().map(|loaded| loaded.spec), whole, "a file is its text");
            }
        }
        for text in input.files.iter().filter_map(|(_, text)| str::from_utf8(text).ok()) {
            assert_migrates(text, &env);
        }
        for path in paths {
            fs::remove_file(path).expect("a file that is still there");
        }
    });
    drop(input);
    memory::assert_bounded(MOST_MEMORY);
});

/// Loads, checks and renders.
fn examine(path: &Path, env: &BTreeMap<String, String>, hides_secrets: bool) -> Option<Spec> {
    let system = System::default();
    let loaded = load(path, env, &system);
    let checked = check(None, path, env, &system);
    let rendered = render(path, env);
    assert_printable(&checked, hides_secrets);
    let _ = checked.render(true);
    match &loaded {
        Ok(loaded) => {
            assert_printable(&loaded.warnings, hides_secrets);
            assert!(rendered.is_ok(), "what can be loaded can be rendered");
        }
        Err(report) => {
            assert!(report.has_errors());
            assert!(checked.has_errors(), "check finds what a start does");
        }
    }
    if let Err(report) = &rendered {
        assert_printable(report, hides_secrets);
    }
    loaded.ok().map(|loaded| loaded.spec)
}

fn assert_printable(report: &Report, hides_secrets: bool) {
    for text in &texts(report) {
        assert!(!hides_secrets || !text.contains(SECRET), "a secret in {text}");
        let is_bad = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
        assert!(!text.contains(is_bad), "{text:?}");
    }
}

/// All forms of a report but the coloured one.
fn texts(report: &Report) -> [String; 3] {
    let lines: Vec<String> = report.lines().map(|(_, line)| line).collect();
    [report.render(false), report.to_json().to_string(), lines.join("\n")]
}

fn assert_migrates(text: &str, env: &BTreeMap<String, String>) {
    match migrate("old.json5", text, None) {
        Ok(Migration::Migrated { text: migrated, remarks }) => {
            let _ = remarks;
            if text.contains("{{") {
                return; // what the template will become cannot be known
            }
            let report = match load_text("new.json5", &migrated, env, &System::default()) {
                Ok(_) => return,
                Err(report) => report,
            };
            let unreadable = ["syntax", "too-deep", "template", "duplicate-key", "empty-file"];
            let is_readable = report.problems().iter().all(|problem| !unreadable.contains(&problem.code));
            assert!(is_readable, "{report}\n--- migrated from\n{text}\n--- to\n{migrated}");
        }
        Ok(Migration::Current) => {}
        Err(report) => assert!(report.has_errors()),
    }
}
