use std::io::BufRead;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use super::*;
use crate::replay;

/// Counts warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl slog::Drain for Warnings {
    type Ok = ();
    type Err = slog::Never;

    fn log(&self, record: &slog::Record<'_>, _: &slog::OwnedKVList) -> Result<(), slog::Never> {
        self.0.lock().unwrap().push(record.msg().to_string());
        Ok(())
    }
}

impl Warnings {
    fn logger(&self) -> Logger {
        Logger::root(self.clone(), slog::o!())
    }

    fn list(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

const PATIENCE: Duration = Duration::from_secs(30);

fn quiet() -> Logger {
    Logger::root(slog::Discard, slog::o!())
}

fn step(track: &mut Track, input: &str) {
    let state = "a state";
    track.note_input(|| (Kind::Watch, "w", &state), Moment::default(), &input);
    track.note_actions(&["an action"]);
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_step_is_written_as_state_input_and_actions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("record");
    let recording = Recording::create(&path, &quiet()).unwrap();
    let (mut first, mut second) = (recording.track(), recording.track());
    step(&mut first, "one");
    step(&mut second, "two");
    step(&mut first, "three");
    drop(first);
    recording.close(PATIENCE);
    drop(second);
    let machine = |number| {
        format!(r#"{{"machine":{{"number":{number},"kind":"Watch","name":"w","state":"a state"}}}}"#)
    };
    let input = |number, input| format!(r#"{{"input":{{"number":{number},"at":0,"input":"{input}"}}}}"#);
    let actions = r#"{"actions":["an action"]}"#.to_owned();
    let expected = [
        format!(r#"{{"record":{{"format":{FORMAT},"program":"{PROGRAM}"}}}}"#),
        machine(1),
        input(1, "one"),
        actions.clone(),
        machine(2),
        input(2, "two"),
        actions.clone(),
        input(1, "three"),
        actions,
        r#"{"gone":1}"#.to_owned(),
        r#"{"end":"the program ended"}"#.to_owned(),
    ];
    assert_eq!(lines(&path), expected);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_full_file_moves_aside_and_the_next_has_the_states_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("record");
    let limits = Limits { file: 1000, queue: QUEUE_LIMIT };
    let recording = Recording::start(next_file(&path).unwrap(), &path, limits, &quiet()).unwrap();
    let mut track = recording.track();
    for number in 0..100 {
        step(&mut track, &number.to_string());
    }
    recording.close(PATIENCE);
    for path in [&former(&path), &path] {
        let lines = lines(path);
        assert!(lines[0].starts_with(r#"{"record""#) && lines[1].starts_with(r#"{"machine""#), "{lines:?}");
        let size = fs::metadata(path).unwrap().len();
        assert!(size < 1200, "{size}");
    }
    assert!(lines(&path).iter().any(|line| line.contains(r#""input":"99""#)));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
}

#[test]
fn a_former_record_is_kept_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("record");
    for run in ["one", "two", "three"] {
        let recording = Recording::create(&path, &quiet()).unwrap();
        step(&mut recording.track(), run);
        recording.close(PATIENCE);
    }
    assert!(lines(&path)[2].contains("three"));
    assert!(lines(&former(&path))[2].contains("two"));
}

#[test]
fn what_is_no_record_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("record");
    let refusal = || Recording::create(&path, &quiet()).unwrap_err().to_string();
    let expected = format!("{} is there already, and is no record", path.display());
    fs::write(&path, "root:x:0:0").unwrap();
    assert_eq!(refusal(), expected);
    assert_eq!(fs::read_to_string(&path).unwrap(), "root:x:0:0");
    fs::remove_file(&path).unwrap();
    symlink("/dev/null", &path).unwrap();
    assert_eq!(refusal(), expected);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(refusal(), expected);
    fs::remove_dir(&path).unwrap();
    fs::write(former(&path), "precious").unwrap();
    assert_eq!(refusal(), format!("{}.1 is there already, and is no record", path.display()));
}

#[test]
fn a_symbolic_link_that_appears_later_is_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("record"), directory.path().join("other"));
    fs::write(&other, "untouched").unwrap();
    symlink(&other, &path).unwrap();
    let mut file = next_file(&path).unwrap();
    file.write_all(b"x").unwrap();
    assert_eq!(fs::read_to_string(&other).unwrap(), "untouched");
    assert_eq!(fs::read_to_string(&path).unwrap(), "x");
}

#[test]
fn a_disk_that_does_not_keep_up_ends_the_record_and_nothing_else() {
    let warnings = Warnings::default();
    let (unread, disk) = nix::unistd::pipe().unwrap();
    let limits = Limits { file: FILE_LIMIT, queue: 10_000 };
    let recording = Recording::start(disk.into(), Path::new("pipe"), limits, &warnings.logger()).unwrap();
    let mut track = recording.track();
    let input = "x".repeat(1000);
    let began = Instant::now();
    while warnings.list().is_empty() {
        step(&mut track, &input);
        assert!(began.elapsed() < PATIENCE);
    }
    for _ in 0..1000 {
        step(&mut track, &input);
    }
    drop(track);
    assert_eq!(warnings.list(), ["the record ends: the disk does not keep up"]);
    let reader = thread::spawn(move || lines_of(unread));
    recording.close(PATIENCE);
    drop(recording);
    let lines = reader.join().unwrap();
    assert_eq!(lines.last().unwrap(), r#"{"end":"the disk does not keep up"}"#);
    assert!(lines.iter().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
}

fn lines_of(pipe: OwnedFd) -> Vec<String> {
    io::BufReader::new(File::from(pipe)).lines().map(Result::unwrap).collect()
}

#[test]
fn a_full_disk_ends_the_record_and_is_told_once() {
    let warnings = Warnings::default();
    let disk = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let limits = Limits { file: FILE_LIMIT, queue: QUEUE_LIMIT };
    let recording = Recording::start(disk, Path::new("/full/record"), limits, &warnings.logger()).unwrap();
    let began = Instant::now();
    let mut track = recording.track();
    while recording.0.queue.borrow().is_some() {
        step(&mut track, "one");
        assert!(began.elapsed() < PATIENCE);
    }
    step(&mut track, "two");
    recording.close(PATIENCE);
    let told = "the record ends: cannot write /full/record: No space left on device";
    assert_eq!(warnings.list(), [told]);
}

#[test]
fn a_file_that_cannot_be_followed_by_another_keeps_its_whole_lines() {
    let warnings = Warnings::default();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("record");
    fs::create_dir(former(&path)).unwrap();
    let file = OpenOptions::new().append(true).create_new(true).open(&path).unwrap();
    let limits = Limits { file: 1000, queue: QUEUE_LIMIT };
    let recording = Recording::start(file, &path, limits, &warnings.logger()).unwrap();
    let mut track = recording.track();
    for number in 0..100 {
        step(&mut track, &number.to_string());
    }
    recording.close(PATIENCE);
    assert_eq!(warnings.list().len(), 1, "{:?}", warnings.list());
    let lines = lines(&path);
    assert!(lines.last().unwrap().starts_with(r#"{"end":"cannot write "#), "{lines:?}");
}

#[test]
fn nothing_is_written_of_a_machine_that_got_no_input() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("record");
    let recording = Recording::create(&path, &quiet()).unwrap();
    drop(recording.track());
    recording.close(PATIENCE);
    let summary = replay::run(&fs::read(&path).unwrap()[..]).unwrap();
    assert_eq!((summary.steps, summary.machines), (0, 0));
}
