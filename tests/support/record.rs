//! With `CONTAINERPILOT_RECORD_TESTS=1` every run writes a record, which is replayed when the run is over: its machines must
//! come to the same actions.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The record's name in the folder of a run.
pub const RECORD: &str = ".record";

/// Whether all runs are recorded.
pub fn are_all_recorded() -> bool {
    std::env::var_os("CONTAINERPILOT_RECORD_TESTS").is_some_and(|value| value == "1")
}

/// Whether these arguments ask for supervision, and not for a version or a template.
pub fn is_supervision(arguments: &[String]) -> bool {
    let mut ours = arguments.iter().take_while(|argument| *argument != "--");
    ours.all(|argument| !argument.starts_with('-') || argument == "-config")
}

/// Replays a record with the program that is tested.
pub fn replay(record: &Path) -> Output {
    Command::new(super::program()).arg("replay").arg(record).output().unwrap()
}

/// Replays the record of a run, if there is one. A run that was killed as it began has written nothing.
pub fn assert_same_actions(directory: &Path) {
    let record = directory.join(RECORD);
    if !fs::read(&record).is_ok_and(|record| record.contains(&b'\n')) {
        return;
    }
    let output = replay(&record);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the record of this run replays to other actions:\n{text}");
    eprintln!("record: {}", text.lines().next().unwrap_or_default());
}
