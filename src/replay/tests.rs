use std::io;

use super::*;
use crate::actors::machine::{Clock, Driver};
use crate::config::spec::{WatchSpec, WatchTarget};
use crate::messages::discovery::{Found, QueryReply};
use crate::recording::Recording;
use watch::machine::{Input, State};

fn watch() -> State {
    let spec = WatchSpec {
        name: "db".into(),
        target: WatchTarget::Key("k".into()),
        interval: Duration::from_secs(1),
        datacentre: None,
        after_coprocesses: false,
    };
    State::new(spec, 0)
}

/// The record of a watch that finds a key.
fn record() -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("record");
    let recording = Recording::create(&path, &slog::Logger::root(slog::Discard, slog::o!())).unwrap();
    let mut driver = Driver::new(watch(), &Clock::start(Some(recording.clone())));
    driver.step(Input::Begun);
    let found = vec![Found::Entry { key: "k".into(), digest: 7 }];
    driver.step(Input::Replied(Ok(QueryReply { found, index: Some(3) })));
    drop(driver);
    recording.close(Duration::from_secs(30));
    std::fs::read_to_string(path).unwrap()
}

fn failure(record: &str) -> String {
    run(record.as_bytes()).unwrap_err().to_string()
}

/// A line in place of another one.
fn with(number: usize, line: &str) -> String {
    let record = record();
    let mut lines: Vec<&str> = record.lines().collect();
    lines[number - 1] = line;
    lines.join("\n") + "\n"
}

#[test]
fn a_record_replays_to_the_same_actions() {
    let summary = run(record().as_bytes()).unwrap();
    assert_eq!(summary, Summary { steps: 2, machines: 1, end: Some("the program ended".into()) });
    let told = "2 steps of 1 machines: the same actions\nthe record ends: the program ended";
    assert_eq!(summary.to_string(), told);
}

#[test]
fn a_record_has_a_header_then_states_inputs_and_actions_and_an_end() {
    let record = record();
    let tags: Vec<&str> = record.lines().map(|line| line.split('"').nth(1).unwrap()).collect();
    assert_eq!(tags, ["record", "machine", "input", "actions", "input", "actions", "gone", "end"]);
}

#[test]
fn another_action_is_shown_beside_the_recorded_one() {
    let text = failure(&with(4, r#"{"actions":["Stop"]}"#));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("line 4: watch \"db\" decides otherwise, 0.0"), "{text}");
    assert_eq!(lines[1], r#"input: "Begun""#);
    assert_eq!(lines[3], r#"- "Stop""#);
    assert!(lines[4].starts_with(r#"+ {"Ask":{"caller":"watch.db","#), "{text}");
}

#[test]
fn an_action_more_or_less_is_a_difference() {
    assert!(failure(&with(4, r#"{"actions":[]}"#)).contains("\n+ {\"Ask\""));
    let actions = record().lines().nth(3).unwrap().replace("]}", ",\"Stop\"]}");
    let text = failure(&with(4, &actions));
    assert!(text.contains("\n  {\"Ask\"") && text.ends_with("\n- \"Stop\""), "{text}");
}

#[test]
fn what_is_no_record_is_refused() {
    assert_eq!(failure(""), "line 1: this is no record: it has no whole line");
    assert!(failure("hello\n").starts_with("line 1: this is no record: expected value"));
    assert_eq!(failure("{\"gone\":1}\n"), "line 1: this is no record: it does not begin with its version");
    let other = failure("{\"record\":{\"format\":7,\"program\":\"9.0\"}}\n");
    let expected = "the record has format 7, of containerpilot 9.0; this program reads format 1";
    assert_eq!(other, format!("line 1: {expected}"));
}

#[test]
fn a_wrong_line_is_named() {
    for (line, expected) in [
        ("{", "not a line of a record: EOF"),
        (r#"{"other":1}"#, "not a line of a record: unknown variant"),
        (r#"{"actions":[]}"#, "actions without an input"),
        (r#"{"gone":9}"#, "there is no machine 9"),
        (r#"{"input":{"number":9,"at":0,"input":"Begun"}}"#, "there is no machine 9"),
        (
            r#"{"input":{"number":1,"at":0,"input":"Unheard"}}"#,
            "watch \"db\", with the input \"Unheard\": cannot read it",
        ),
        (
            r#"{"machine":{"number":2,"kind":"Job","name":"a\u001b","state":{}}}"#,
            "cannot read the state of job \"a\\u{1b}\": missing field",
        ),
        (r#"{"machine":{"number":2,"kind":"Robot","name":"a","state":{}}}"#, "not a line of a record"),
    ] {
        let text = failure(&with(7, line));
        assert!(text.starts_with(&format!("line 7: {expected}")), "{text}");
    }
    let again = record().lines().nth(1).unwrap().to_owned();
    assert_eq!(failure(&with(3, &again)), "line 3: there is a machine 1 already");
}

#[test]
fn deep_nesting_is_an_error() {
    let deep = format!(r#"{{"actions":{}}}"#, "[".repeat(1_000_000));
    assert!(failure(&with(4, &deep)).starts_with("line 4: not a line of a record"));
}

#[test]
fn a_line_that_is_too_long_is_an_error() {
    let long = io::repeat(b'x').take(LONGEST_LINE + 10);
    let text = run(io::BufReader::new(record().as_bytes().chain(long))).unwrap_err().to_string();
    assert_eq!(text, "line 9: longer than a line of a record can be");
}

#[test]
fn a_record_of_another_version_is_tried_and_said_to_be_one() {
    let header = r#"{"record":{"format":1,"program":"0.0.1"}}"#;
    assert!(run(with(1, header).as_bytes()).is_ok());
    let broken = with(1, header) + "x\n";
    assert!(failure(&broken).ends_with(&format!("the record is of containerpilot 0.0.1, this is {PROGRAM}")));
}

#[test]
fn a_file_after_its_predecessor_begins_anew() {
    let summary = run((record() + &record()).as_bytes()).unwrap();
    assert_eq!((summary.steps, summary.machines), (4, 2));
}

#[test]
fn a_record_that_was_cut_off_says_so() {
    let record = record();
    let cut = &record[..record.len() - 3];
    let told = run(cut.as_bytes()).unwrap().to_string();
    assert!(told.ends_with("the record was cut off: the program was killed, or it still runs"), "{told}");
}
