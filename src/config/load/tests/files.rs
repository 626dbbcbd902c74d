//! Files and directories.

use super::*;

#[test]
fn a_directory_is_read_in_the_order_of_its_names() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("20.json5", "{stopTimeout: 2, jobs: [{name: 'b', exec: 'new'}]}");
    write(
        "10.json",
        "{\"stopTimeout\": 1, \"jobs\": [{\"name\": \"b\", \"exec\": \"old\"}, {\"name\": \"c\", \"exec\": \"c\"}]}",
    );
    write(".hidden.json5", "{ not read");
    write("30.yaml", "{ not read");
    write("target", "{jobs: [{name: 'linked', exec: 'l'}]}");
    symlink("target", directory.path().join("40.json5")).unwrap();
    let loaded = load_path(directory.path()).unwrap();
    let names: Vec<&str> = loaded.spec.jobs.iter().map(|job| &*job.name).collect();
    assert_eq!(names, ["b", "c", "linked"]);
    assert_eq!(loaded.spec.jobs[0].exec.as_ref().unwrap().program, "new");
    assert_eq!(loaded.spec.stop_timeout, StopBudget::Within(Duration::from_secs(2)));
    assert_eq!(loaded.warnings.count(Severity::Warning), 2);
}

#[test]
fn what_is_no_file_is_refused_without_opening_it() {
    let directory = tempfile::tempdir().unwrap();
    let report = load_path(directory.path()).unwrap_err().to_string();
    assert!(report.contains("no `*.json5` or `*.json` files"), "{report}");
    let pipe = directory.path().join("pipe.json5");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let report = load_path(&pipe).unwrap_err().to_string();
    assert!(report.contains("not a regular file"), "{report}");
    let large = directory.path().join("large.json5");
    fs::File::create(&large).unwrap().set_len(LARGEST_FILE + 1).unwrap();
    let report = load_path(&large).unwrap_err().to_string();
    assert!(report.contains("larger than 16 MiB"), "{report}");
}

#[test]
fn rendering_a_directory_names_each_file() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.json5"), "{}").unwrap();
    fs::write(directory.path().join("b.json5"), "{}\n").unwrap();
    let text = render(directory.path(), &env(&[])).unwrap();
    let shown = directory.path().display();
    assert_eq!(text, format!("// {shown}/a.json5\n{{}}\n// {shown}/b.json5\n{{}}\n"));
    assert_eq!(render(&directory.path().join("a.json5"), &env(&[])).unwrap(), "{}");
}

/// The report about a file of these bytes, if it is wrong.
fn refusal(bytes: &[u8]) -> Option<Report> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.json5");
    fs::write(&path, bytes).unwrap();
    load_path(&path).err()
}

/// The place and text of what is wrong with a file of these bytes.
fn wrong(bytes: &[u8]) -> Vec<(Option<std::ops::Range<usize>>, String)> {
    let Some(report) = refusal(bytes) else { return vec![] };
    let place =
        |problem: &Problem| if let Place::At(span) = problem.place { Some(span.range()) } else { None };
    report.problems().iter().map(|problem| (place(problem), problem.message.clone())).collect()
}

#[test]
fn bytes_that_are_no_text_are_shown_where_they_are() {
    let not_utf8 = "the file is not valid UTF-8 from here on";
    assert_eq!(wrong(b"{a: \"\xff\"}"), [(Some(5..8), not_utf8.to_owned())]);
    assert_eq!(wrong(b"\xef\xbb\xbf{a: \"\xff\"}"), [(Some(8..11), not_utf8.to_owned())]);
    let nul = "the file contains a NUL byte: is it a text file?";
    assert_eq!(wrong(b"{a: \0}"), [(Some(4..5), nul.to_owned())]);
    assert_eq!(wrong(b"\xef\xbb\xbf{}"), [], "a byte order mark is left out");
}

#[test]
fn a_file_that_is_no_text_shows_no_secret_either() {
    for bytes in [b"{token: 'SECRET', a: '\xff'}".as_slice(), b"{env: {A: 'SECRET'}, a: '\0'}"] {
        let report = refusal(bytes).unwrap().to_string();
        assert!(report.contains("a: '") && !report.contains("SECRET"), "{report}");
    }
}

#[test]
fn a_byte_order_mark_moves_no_place() {
    let place = |bytes: &[u8]| {
        let json = refusal(bytes).unwrap().to_json();
        [json[0]["line"].as_u64().unwrap(), json[0]["column"].as_u64().unwrap()]
    };
    assert_eq!(place(b"\xef\xbb\xbf{x: 1}"), [1, 2]);
    assert_eq!(place(b"\xef\xbb\xbf{\n \xff}"), [2, 2]);
}

#[test]
fn the_largest_file_is_read_to_its_end_and_a_larger_one_is_not() {
    let padded = |length: u64| [vec![b' '; usize::try_from(length).unwrap() - 2], b"{}".to_vec()].concat();
    assert_eq!(wrong(&padded(LARGEST_FILE)), []);
    let refused = wrong(&padded(LARGEST_FILE + 1));
    assert!(refused.iter().any(|(_, text)| text.contains("larger than")), "{refused:?}");
}
