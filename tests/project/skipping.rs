//! Tests that cannot run on a machine: CI must not take them for tests that passed.

use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

use crate::support::needs::skip;

#[test]
#[ignore = "part of another test"]
fn lacks_something() {
    skip("there is no moon");
}

/// Runs the test above in a process of its own, with this value of the variable `CI`.
fn run(ci: Option<&str>) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "skipping::lacks_something"]);
    match ci {
        Some(value) => command.env("CI", value),
        None => command.env_remove("CI"),
    };
    command.output().unwrap()
}

#[test]
fn a_test_that_cannot_run_says_so_and_fails_in_ci() {
    for ci in [None, Some("false")] {
        let output = run(ci);
        assert!(output.status.success(), "CI={ci:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("skipped: skipping::lacks_something: there is no moon\n"), "CI={ci:?}: {said}");
    }
    let output = run(Some("true"));
    assert!(!output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("in CI every test must run: there is no moon"), "{said}");
}

/// Every file of tests, with its text.
fn test_files() -> Vec<(String, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files
}

#[test]
fn only_the_helper_decides_that_a_test_cannot_run() {
    let files = test_files();
    assert!(files.len() > 40, "{} files", files.len());
    let ours = ["support/needs.rs", "project/skipping.rs"];
    for (path, text) in files.iter().filter(|(path, _)| !ours.iter().any(|own| path.ends_with(own))) {
        for word in ["geteuid", "\"skipped"] {
            assert!(!text.contains(word), "{path} has {word}: please use what is in tests/support/needs.rs");
        }
    }
}
