//! Configurations as a whole.

mod any_text;
mod consul;
mod files;
mod reports;
mod starting;

use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::config::diagnostic::Severity;
use crate::config::interfaces::InterfaceAddress;
use crate::config::spec::{
    ConsulAddress, EndOfRun, JobKind, Limit, OnUnhealthy, ReadyBy, RestartOn, RestartRule, StopBudget,
    Trigger, When,
};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::signal::Signal;

fn system() -> System {
    let address =
        |interface: &str, address: IpAddr| InterfaceAddress { interface: interface.into(), address };
    System {
        addresses: vec![address("eth0", [192, 0, 2, 7].into()), address("lo", [127, 0, 0, 1].into())].into(),
        ..System::default()
    }
}

fn env(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn loaded(text: &str) -> Loaded {
    load_text("test.json5", text, &env(&[]), &system()).unwrap_or_else(|report| panic!("{report}"))
}

fn spec(text: &str) -> Spec {
    loaded(text).spec
}

fn errors(text: &str) -> Vec<String> {
    match load_text("test.json5", text, &env(&[]), &system()) {
        Ok(_) => Vec::new(),
        Err(report) => report.lines().map(|(_, line)| line).collect(),
    }
}

fn load_path(path: &Path) -> Result<Loaded, Report> {
    load(path, &env(&[]), &system())
}

#[test]
fn an_empty_object_is_a_configuration() {
    assert_eq!(spec("{}"), Spec::default());
}

#[test]
fn a_byte_order_mark_is_ignored() {
    assert_eq!(spec("\u{feff}{}"), Spec::default());
}

#[test]
fn a_number_that_stands_for_a_text_is_taken_as_it_is_written() {
    let job = &spec(
        "{jobs: [{name: 'a', exec: ['a', 3.10, +1.0], meta: {version: 1.20}, port: 80, health: {},
                  env: {A: 1e3, B: 0x1F, C: 99999999999999999999, D: -0, E: true}}], consul: 'a:1'}",
    )
    .jobs[0];
    let command = job.exec.as_ref().unwrap();
    assert_eq!(command.args, ["3.10", "+1.0"]);
    let values: Vec<Option<&str>> = job.execution.env.iter().map(|(_, value)| value.as_deref()).collect();
    let expected = ["1e3", "0x1F", "99999999999999999999", "-0", "true"];
    assert_eq!(values, expected.map(Some));
    assert!(errors("{env: {A: 1e999}}")[0].contains("expected a string, number or boolean"));
}

#[test]
fn a_job_without_a_name_is_named_after_its_executable() {
    let spec = spec("{jobs: [{exec: \"/bin/app --flag\"}, {exec: ['./run me', 'x']}]}");
    assert_eq!(&*spec.jobs[0].name, "/bin/app");
    assert_eq!(&*spec.jobs[1].name, "./run me");
}

#[test]
fn the_machine_is_asked_for_its_addresses_only_if_something_is_advertised() {
    let is_asked = |text: &str| {
        let system = System::current();
        load_text("test.json5", text, &env(&[]), &system).unwrap_or_else(|report| panic!("{report}"));
        system.addresses.get().is_some()
    };
    assert!(!is_asked("{consul: 'localhost', jobs: [{exec: 'a'}]}"));
    assert!(is_asked(
        "{consul: 'localhost', jobs: [{name: 'a', exec: 'a', port: 80, interfaces: 'lo', health: {tcp: 'localhost:80', ttl: 5}}]}"
    ));
}

#[test]
fn the_budget_of_a_shutdown_is_a_number_a_duration_or_nothing() {
    assert_eq!(spec("{stopTimeout: 7}").stop_timeout, StopBudget::Within(Duration::from_secs(7)));
    assert_eq!(spec("{stopTimeout: '250ms'}").stop_timeout, StopBudget::Within(Duration::from_millis(250)));
    assert_eq!(spec("{stopTimeout: '-1'}").stop_timeout, StopBudget::Immediate);
    assert_eq!(spec("{stopTimeout: 0}").stop_timeout, StopBudget::Within(Duration::from_secs(5)));
}

#[test]
fn signals_that_shut_down_are_named_or_numbered_and_each_counts_once() {
    let numbers = |text: &str| {
        let signals = spec(&format!("{{shutdownSignals: {text}}}")).shutdown_signals;
        signals.iter().map(|signal| signal.number()).collect::<Vec<_>>()
    };
    assert_eq!(numbers("['SIGWINCH', 'rtmin+4', 28, 'SIGTERM']"), [libc::SIGWINCH, 38, libc::SIGTERM]);
    assert_eq!(numbers("'winch'"), [libc::SIGWINCH]);
    assert_eq!(numbers("[]"), [0; 0]);
    assert_eq!(spec("{}").shutdown_signals, []);
}

#[test]
fn a_signal_with_another_meaning_cannot_shut_down() {
    for name in
        ["KILL", "STOP", "CHLD", "HUP", "USR1", "USR2", "PIPE", "SEGV", "32", "33", "0", "65", "BEGIN"]
    {
        let text = format!("{{shutdownSignals: ['{name}']}}");
        let report = load_text("test.json5", &text, &env(&[]), &system()).unwrap_err();
        assert!(report.to_string().contains("shutdownSignals[0]"), "{name}: {report}");
    }
}

#[test]
fn a_key_in_another_case_is_taken_with_a_warning_that_names_the_spelling() {
    let loaded = loaded("{Jobs: [{NAME: 'app', Exec: 'a', stoptimeout: 3, HEALTH: {EXEC: 'b'}}]}");
    assert_eq!(&*loaded.spec.jobs[0].name, "app");
    assert_eq!(loaded.spec.jobs[0].stop.wait, Some(Duration::from_secs(3)));
    let warnings: Vec<String> = loaded.warnings.lines().map(|(_, line)| line).collect();
    for (found, right) in [
        ("Jobs", "jobs"),
        ("NAME", "name"),
        ("Exec", "exec"),
        ("stoptimeout", "stopTimeout"),
        ("EXEC", "exec"),
    ] {
        let said = |line: &&String| {
            line.contains(&format!("key `{found}`"))
                && line.ends_with(&format!("should be written `{right}`"))
        };
        assert!(warnings.iter().find(said).is_some(), "{found}: {warnings:#?}");
    }
    assert!(warnings.iter().any(|line| line.contains("in jobs[0] (\"app\")")), "{warnings:#?}");
}

#[test]
fn a_key_given_in_two_spellings_is_a_duplicate() {
    for text in ["{jobs: [], Jobs: []}", "{Jobs: [], jobs: []}", "{JOBS: [], Jobs: []}"] {
        let errors = errors(text);
        assert!(errors.iter().any(|line| line.contains("duplicate key `")), "{text}: {errors:?}");
    }
    assert_eq!(
        errors("{JOBS: [], Jobs: []}"),
        [
            "test.json5:1:2: key `JOBS` in the configuration should be written `jobs`",
            "test.json5:1:12: duplicate key `Jobs`: `JOBS` is the same key",
        ]
    );
}

#[test]
fn a_null_is_left_out_of_some_lists_and_wrong_in_others() {
    let spec = spec("{jobs: [{exec: ['a', null, 'b'], health: {exec: [null, 'c']}}]}");
    let command = spec.jobs[0].exec.as_ref().unwrap();
    assert_eq!((command.program.as_str(), command.args.as_slice()), ("a", &["b".to_owned()][..]));
    let found = errors("{jobs: [{name: 'a', exec: 'a'}, {name: 'b', exec: 'b', after: ['a', null]}]}");
    assert_eq!(found, ["test.json5:1:69: jobs[1] (\"b\").after[1]: expected a string, found null"]);
}

#[test]
fn names_of_variables_keep_their_case() {
    let spec = spec("{env: {Path: 'a', PATH: 'b'}}");
    assert_eq!(spec.env.len(), 2);
}

#[test]
fn a_schema_for_editors_is_accepted_and_changes_nothing() {
    assert_eq!(spec("{$schema: 'x.json'}"), Spec::default());
    assert_eq!(spec("{\"$schema\": 'x.json', jobs: []}"), Spec::default());
}

#[test]
fn the_log_goes_to_stdout_or_stderr_in_any_case() {
    use crate::config::spec::LogOutput;
    for (text, output) in
        [("STDOUT", LogOutput::Stdout), ("Stdout", LogOutput::Stdout), ("STDERR", LogOutput::Stderr)]
    {
        assert_eq!(spec(&format!("{{logging: {{output: '{text}'}}}}")).logging.output, output, "{text}");
    }
}

#[test]
fn a_check_that_tries_nothing_passes_while_the_process_runs() {
    use crate::config::spec::Probe;
    let spec = spec(
        "{jobs: [{name: 'a', exec: 'a', health: {interval: 5, ttl: 10}}, {name: 'b', exec: 'b', health: {}}]}",
    );
    assert!(spec.jobs.iter().all(|job| job.health[0].probe == Probe::Running));
}

#[test]
fn an_unset_budget_of_a_shutdown_grows_to_what_a_job_asks_for() {
    let budget = |text: &str| spec(text).stop_timeout;
    let jobs = "jobs: [{exec: 'a', killTimeout: 2}, {name: 'b', exec: 'b', stopTimeout: 10, drain: '1500ms', killTimeout: '20s'}]";
    assert_eq!(budget(&format!("{{{jobs}}}")), StopBudget::Within(Duration::from_millis(31_500)));
    assert_eq!(
        budget(&format!("{{stopTimeout: 0, {jobs}}}")),
        StopBudget::Within(Duration::from_millis(31_500))
    );
    assert_eq!(budget(&format!("{{stopTimeout: 7, {jobs}}}")), StopBudget::Within(Duration::from_secs(7)));
    assert_eq!(budget(&format!("{{stopTimeout: -1, {jobs}}}")), StopBudget::Immediate);
    assert_eq!(budget("{jobs: [{exec: 'a', killTimeout: 2}]}"), StopBudget::Within(Duration::from_secs(5)));
}

#[test]
fn a_budget_that_is_shorter_than_a_job_asks_for_is_warned_of() {
    let warnings = |budget: &str| {
        let text = format!(
            "{{stopTimeout: {budget}, jobs: [{{name: 'a', exec: 'a'}}, {{name: 'b', exec: 'b', drain: 1, killTimeout: 9}}]}}"
        );
        loaded(&text).warnings.lines().map(|(_, line)| line).collect::<Vec<_>>()
    };
    assert!(
        warnings("9").iter().any(|line| line.contains("job \"b\" asks for 10s to stop")),
        "{:?}",
        warnings("9")
    );
    for enough in ["10", "0", "'-1'"] {
        assert_eq!(warnings(enough), [""; 0], "{enough}");
    }
}
