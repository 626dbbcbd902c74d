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
