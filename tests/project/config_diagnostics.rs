//! What a person with a wrong configuration sees. Each file or directory in `testdata/bad` has its report
//! beside it, in a file of the same name that ends in `.snap`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use containerpilot::config::interfaces::InterfaceAddress;
use containerpilot::config::{self, System};

/// A machine that is the same everywhere.
fn system() -> System {
    let address = |interface: &str, address: &str| InterfaceAddress {
        interface: interface.to_owned(),
        address: address.parse().unwrap(),
    };
    let addresses = vec![address("eth0", "192.0.2.7"), address("lo", "127.0.0.1")];
    System { addresses: addresses.into(), ..System::default() }
}

fn env() -> BTreeMap<String, String> {
    [("PATH", "/usr/bin:/bin"), ("RESTARTS", "on-failure"), ("NAMES", "one,two")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

fn cases(directory: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "json5"))
        .collect();
    paths.sort();
    paths
}

fn compare(directory: &str, path: &Path, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(Path::new("../testdata").join(directory));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(path.file_stem().unwrap().to_str().unwrap(), text));
}

#[test]
fn every_bad_configuration_is_explained() {
    let cases = cases("tests/testdata/bad");
    assert!(cases.len() >= 40);
    for path in cases {
        let report = config::check(None, &path, &env(), &system());
        assert!(!report.is_empty(), "{}", path.display());
        compare("bad", &path, &format!("{report}\n{}", report.summary()));
    }
}

#[test]
fn every_good_configuration_becomes_a_specification() {
    for path in cases("tests/testdata/good") {
        let loaded = config::load(&path, &env(), &system()).unwrap_or_else(|report| panic!("{report}"));
        compare("good", &path, &format!("{:#?}\n\n{}", loaded.spec, loaded.warnings));
    }
}

#[test]
fn the_report_for_programs_has_the_same_places() {
    let path = Path::new("tests/testdata/bad/67-unicode-columns.json5");
    let report = config::check(None, path, &env(), &system());
    let json = serde_json::to_string_pretty(&report.to_json()).unwrap();
    compare("bad", Path::new("67-unicode-columns-as-json"), &json);
}

#[test]
fn a_missing_path_is_explained() {
    let report = config::load(Path::new("no/such/file.json5"), &env(), &system()).unwrap_err();
    assert_eq!(
        report.to_string(),
        "error[unreadable]: cannot read \"no/such/file.json5\": No such file or directory\n"
    );
}
