//! Logs in files, and outputs that are replaced.

use super::*;

#[test]
fn a_rotated_file_keeps_what_was_logged_before() {
    let folder = tempfile::tempdir().unwrap();
    let (path, rotated) = (folder.path().join("log"), folder.path().join("log.1"));
    fs::write(&path, "before\n").unwrap();
    let sink = LogSink::open(&file(&path), settings()).unwrap();
    sink.push(b"one\n");
    fs::rename(&path, &rotated).unwrap();
    sink.push(b"two\n");
    sink.reopen();
    sink.push(b"three\n");
    assert!(sink.flush(LONG));
    assert_eq!(fs::read_to_string(rotated).unwrap(), "before\none\ntwo\n");
    assert_eq!(fs::read_to_string(path).unwrap(), "three\n");
}

#[test]
fn a_file_that_cannot_be_reopened_stays_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, moved) = (folder.path().join("logs"), folder.path().join("moved"));
    fs::create_dir(&inside).unwrap();
    let sink = LogSink::open(&file(&inside.join("log")), settings()).unwrap();
    fs::rename(&inside, &moved).unwrap();
    sink.reopen();
    sink.push(b"two\n");
    assert!(sink.flush(LONG));
    let text = fs::read_to_string(moved.join("log")).unwrap();
    assert!(text.contains("cannot open the log file"), "{text}");
    assert!(text.contains("No such file or directory; the old one stays in use\n"), "{text}");
    assert!(text.contains("two\n"), "{text}");
}

#[test]
fn an_output_that_cannot_be_opened_is_named_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing/log");
    let error = LogSink::open(&file(&missing), settings()).unwrap_err();
    assert!(error.to_string().contains("missing/log\": No such file or directory"), "{error}");

    let good = folder.path().join("log");
    let sink = LogSink::open(&file(&good), settings()).unwrap();
    set_output(&sink, &file(&missing)).unwrap_err();
    sink.push(b"still here\n");
    assert!(sink.flush(LONG));
    assert_eq!(fs::read_to_string(good).unwrap(), "still here\n");
}

#[test]
fn a_fifo_that_nobody_reads_is_an_error_and_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    assert!(LogSink::open(&file(&path), settings()).is_err());
}

#[test]
fn a_new_output_gets_only_what_is_logged_later() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let sink = LogSink::open(&file(&first), settings()).unwrap();
    sink.push(b"one\n");
    set_output(&sink, &file(&second)).unwrap();
    sink.push(b"two\n");
    set_output(&sink, &file(&first)).unwrap();
    sink.push(b"three\n");
    assert!(sink.flush(LONG));
    assert_eq!(fs::read_to_string(&first).unwrap(), "one\nthree\n");
    assert_eq!(fs::read_to_string(&second).unwrap(), "two\n");

    fs::remove_file(&first).unwrap();
    set_output(&sink, &file(&first)).unwrap();
    assert!(sink.flush(LONG));
    assert!(!first.exists(), "an unchanged output is not opened again");
}

#[test]
fn a_log_file_is_readable_for_all_and_closed_in_children() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let _sink = LogSink::open(&file(&path), settings()).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o133, 0, "{mode:o}");
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|entry| {
        let leads_here = fs::read_link(entry.path()).is_ok_and(|target| target == path);
        leads_here.then(|| entry.file_name().into_string().unwrap())
    });
    let found: Vec<_> = descriptors.collect();
    assert_eq!(found.len(), 1);
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", found[0])).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    let flags = OFlag::from_bits_retain(i32::from_str_radix(flags.trim(), 8).unwrap());
    assert!(flags.contains(OFlag::O_CLOEXEC | OFlag::O_APPEND), "{flags:?}");
}
