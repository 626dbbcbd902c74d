//! The limits of settings, and problems that are reported once and where they are.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use crate::config::diagnostic::Report;
use crate::config::exec_limits::{cost, cost_of_job, length};
use crate::config::interfaces::InterfaceAddress;
use crate::config::spec::{CommandLine, Spec};
use crate::config::{Loaded, System, load_beside, load_text};

fn load(text: &str, env: &BTreeMap<String, String>) -> Result<Loaded, Report> {
    let address = InterfaceAddress { interface: "eth0".into(), address: [192, 0, 2, 7].into() };
    let system = System { addresses: vec![address].into(), ..System::default() };
    load_text("test.json5", text, env, &system)
}

/// Loads a file where the command line has a command, too.
fn load_beside_command(text: &str) -> Result<Loaded, Report> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.json5");
    fs::write(&path, text).unwrap();
    let command = CommandLine { program: "command".into(), args: vec![] };
    load_beside(Some(command), &path, &BTreeMap::new(), &System::default())
}

fn spec(text: &str) -> Spec {
    load(text, &BTreeMap::new()).unwrap_or_else(|report| panic!("{report}")).spec
}

/// The sources of the events that a job waits for.
fn sources(spec: &Spec, job: usize) -> Vec<String> {
    spec.jobs[job].when.keys().iter().map(|key| key.source.to_string()).collect()
}

/// Every error and warning about a configuration, a line each.
fn problems(text: &str) -> Vec<String> {
    let report = load(text, &BTreeMap::new()).map_or_else(|report| report, |loaded| loaded.warnings);
    report.lines().map(|(_, line)| line).collect()
}

/// The same for a job with these settings.
fn problems_of_job(settings: &str) -> Vec<String> {
    problems(&format!("{{jobs: [{{name: 'a', exec: 'a', {settings}}}]}}"))
}

#[track_caller]
fn assert_only(problems: &[String], expected: &str) {
    assert!(
        matches!(problems, [only] if only.contains(expected)),
        "expected {expected:?}, found {problems:#?}"
    );
}

#[test]
fn a_setting_may_be_exactly_at_its_limit() {
    let [longest_path, longer_path] = [107, 108].map(|length| format!("'/{}'", "x".repeat(length - 1)));
    let job = "name: 'a', exec: 'a', restarts: 1";
    for (text, right, wrong, expected) in [
        (format!("jobs: [{{{job}, timeout: N}}]"), "'1ms'", "'999us'", "expected at least 1ms, found 999µs"),
        (
            "jobs: [{exec: 'a', restarts: {limit: N, per: '1h'}}]".into(),
            "1000",
            "1001",
            ".restarts.limit: expected at most 1000 together with `per`, found 1001",
        ),
        (
            format!("jobs: [{{{job}}}], groups: [{{name: 'g', jobs: 'a', limit: N}}]"),
            "1000",
            "1001",
            ".limit: expected at most 1000, or \"unlimited\", found 1001",
        ),
        (
            format!("jobs: [{{{job}}}], control: {{socket: N}}"),
            &longest_path,
            &longer_path,
            "control.socket: expected a path of at most 107 bytes, found 108",
        ),
        (
            format!("jobs: [{{{job}, backoff: {{min: '1s', max: N}}}}]"),
            "'1s'",
            "'999ms'",
            ".backoff: min 1s is above max 999ms",
        ),
    ] {
        assert_eq!(problems(&format!("{{{}}}", text.replace('N', right))), [""; 0]);
        assert_only(&problems(&format!("{{{}}}", text.replace('N', wrong))), expected);
    }
}

#[test]
fn metadata_is_what_consul_takes() {
    let problems = |meta: &str| {
        problems(&format!(
            "{{consul: 'a:1', jobs: [{{name: 'a', exec: 'a', port: 80, health: {{}}, meta: {{{meta}}}}}]}}"
        ))
    };
    let entries = |count: usize| (0..count).map(|entry| format!("k{entry}: '', ")).collect::<String>();
    let key = |length: usize| format!("{}: 'v'", "k".repeat(length));
    let value = |length: usize| format!("key: '{}'", "é".repeat(length));
    for right in [entries(64), key(128), value(256), "'a-b_C9': 'any {}'".to_owned()] {
        assert_eq!(problems(&right), [""; 0], "{right}");
    }
    let refused_key = |key: &str| format!(".meta: Consul refuses the key \"{key}");
    for (wrong, expected) in [
        (entries(65), ".meta: Consul takes at most 64 entries of a service, found 65".to_owned()),
        (key(129), refused_key("kkk")),
        (value(257), ".meta.key: Consul takes at most 512 bytes of a value, found 514".to_owned()),
        ("'a b': ''".to_owned(), refused_key("a b\"")),
        ("'': 'v'".to_owned(), refused_key("\"")),
        ("'é': 'v'".to_owned(), refused_key("é\"")),
        ("'consul-a': 'v'".to_owned(), refused_key("consul-a\"")),
    ] {
        assert_only(&problems(&wrong), &expected);
    }
}

#[test]
fn the_control_socket_is_where_the_program_can_make_it() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).display().to_string();
    let problems = |socket: &str| {
        problems(&format!("{{jobs: [{{name: 'a', exec: 'a'}}], control: {{socket: '{socket}'}}}}"))
    };
    fs::write(place("file"), "").unwrap();
    let _listener = UnixListener::bind(place("socket")).unwrap();
    symlink(place("file"), place("link")).unwrap();
    for right in ["new", "socket", "link"] {
        assert_eq!(problems(&place(right)), [""; 0], "{right}");
    }
    assert_eq!(problems("in-the-working-directory.socket"), [""; 0]);
    for (wrong, expected) in [
        ("none/socket", "none\" does not exist"),
        ("file/socket", "file\" is not a directory"),
        ("file", "control.socket: expected the path of a socket, found the file"),
        ("", "control.socket: expected the path of a socket, found the directory"),
    ] {
        assert_only(&problems(&place(wrong)), expected);
    }
    assert_only(&problems("/a\\u0000b"), "control.socket: a NUL character");
}

#[test]
fn no_process_runs_as_the_user_or_group_minus_one() {
    for what in ["user", "group"] {
        assert_eq!(problems_of_job(&format!("{what}: 4294967294")), [""; 0]);
        let expected = format!(".{what}: 4294967295 stands for no {what} at all");
        assert_only(&problems_of_job(&format!("{what}: 4294967295")), &expected);
        assert_only(&problems_of_job(&format!("{what}: '4294967295'")), &expected);
    }
}

#[test]
fn more_open_files_than_the_kernel_allows_are_warned_of() {
    let warnings = |limit: &str, most_open_files: Option<u64>| {
        let system = System { most_open_files, ..System::default() };
        let text = format!("{{jobs: [{{name: 'a', exec: 'a', rlimits: {{nofile: {limit}}}}}]}}");
        let loaded = load_text("test.json5", &text, &BTreeMap::new(), &system).unwrap();
        loaded.warnings.lines().map(|(_, line)| line).collect::<Vec<_>>()
    };
    let expected =
        ".rlimits.nofile: the process cannot be started: the kernel of this machine allows 1000 at most";
    for high in ["1001", "'unlimited'", "{soft: 1, hard: 1001}"] {
        assert_only(&warnings(high, Some(1000)), expected);
        assert_eq!(warnings(high, None), [""; 0], "{high}");
    }
    assert_eq!(warnings("1000", Some(1000)), [""; 0]);
}

#[test]
fn a_response_without_a_body_contains_nothing() {
    let problems =
        |settings: &str| problems_of_job(&format!("health: {{http: {{url: 'http://a/', {settings}}}}}"));
    assert_only(
        &problems("method: 'head', contains: 'ok'"),
        ".http.contains: the response to a HEAD request has no body",
    );
    for right in
        ["method: 'HEAD'", "contains: 'ok'", "method: 'GET', contains: 'ok'", "method: 'HEAD', contains: ''"]
    {
        assert_eq!(problems(right), [""; 0], "{right}");
    }
}

#[test]
fn a_longest_delay_of_0_turns_delays_off_however_long_the_shortest_is() {
    assert_eq!(problems_of_job("backoff: {min: '1s', max: 0}"), [""; 0]);
}

#[test]
fn a_variable_may_be_as_long_as_the_kernel_takes() {
    let limit = System::default().exec_limits.string();
    let problems = |value: usize| problems_of_job(&format!("env: {{A: '{}'}}", "x".repeat(value)));
    let longest = limit - length("A", "");
    assert_eq!(problems(longest), [""; 0]);
    assert_only(&problems(longest + 1), &format!("env.A: this variable takes {} bytes", limit + 1));
}

#[test]
fn variables_and_arguments_may_take_as_much_as_the_kernel_does() {
    let limit = System::default().exec_limits.total();
    let a_job = "{jobs: [{name: 'a', exec: 'a'}]}";
    for (text, own, expected) in [
        ("{env: {A: 'b'}}", cost(length("A", "b")), "env: these variables"),
        (a_job, cost_of_job(&spec(a_job).jobs[0]), "job \"a\": its command line and its variables"),
    ] {
        let report = |inherited: usize| {
            let value = "x".repeat(inherited - cost(length("INHERITED", "")));
            let env = BTreeMap::from([("INHERITED".to_owned(), value)]);
            load(text, &env).map_err(|report| report.to_string())
        };
        report(limit - own).unwrap();
        let found = report(limit - own + 1).unwrap_err();
        assert!(found.contains(expected), "{found}");
        assert!(found.contains(&format!("take {} bytes", limit + 1)), "{found}");
    }
}

#[test]
fn what_is_wrong_is_reported_once_and_makes_nothing_else_wrong() {
    for (text, expected) in [
        ("jobs: [{exec: 'a', rlimits: {nofile: {soft: 'x'}}}]", ".rlimits.nofile.soft: expected"),
        ("jobs: [{exec: 'a', rlimits: {nofile: {hard: 'x'}}}]", ".rlimits.nofile.hard: expected"),
        ("jobs: [{exec: 'a', rlimits: {nofile: {}}}]", ".rlimits.nofile: expected `soft`, `hard` or both"),
        ("telemetry: {metrics: [{name: [], type: 'gauge'}]}", "telemetry.metrics[0].name: expected a string"),
        ("telemetry: {metrics: [{type: 'gauge'}]}", "telemetry.metrics[0]: expected a `name`"),
        ("jobs: [{exec: 'a', when: {source: [], once: 'stopped'}}]", ".when.source: expected a string"),
        (
            "jobs: [{exec: 'a', health: {tcp: 'b'}, onUnhealthy: 'shutdown'}]",
            ".health.tcp: expected an address",
        ),
        ("jobs: [{name: 'a'}], groups: [{name: 'g', jobs: 'a'}]", "jobs[0] (\"a\"): expected an `exec`"),
        (
            "jobs: [{name: [], exec: 'a'}], groups: [{name: 'g', jobs: 'b'}]",
            "jobs[0].name: expected a string",
        ),
        ("consul: 'unix://run/consul.sock'", "expected an absolute path after `unix://`"),
    ] {
        assert_only(&problems(&format!("{{{text}}}")), expected);
    }
}

#[test]
fn a_reserved_name_that_is_given_twice_is_one_duplicate() {
    let found =
        problems("{jobs: [{name: 'containerpilot', exec: 'a'}, {name: 'containerpilot', exec: 'b'}]}");
    let count = |words: &str| found.iter().filter(|line| line.contains(words)).count();
    assert_eq!((count("duplicate job"), count("reserved"), found.len()), (1, 2, 3), "{found:#?}");
}

#[test]
fn a_coprocess_that_is_given_twice_is_one_duplicate() {
    assert_only(
        &problems("{coprocesses: [{name: 'a', command: 'a'}, {name: 'a', command: 'b'}]}"),
        "duplicate coprocess \"a\"",
    );
}

#[test]
fn two_metrics_share_no_series() {
    let metrics = |first: &str, second: &str| {
        problems(&format!(
            "{{telemetry: {{interfaces: 'eth0', metrics: [{{{first}}}, {{{second}}}]}}, jobs: [{{name: 'a', exec: 'a'}}]}}"
        ))
    };
    assert_only(
        &metrics("name: 'h', type: 'histogram'", "name: 'h_sum', type: 'gauge'"),
        "telemetry.metrics[1]: \"h_sum\" and \"h\" would both be exposed as \"h_sum\"",
    );
    assert_only(
        &metrics("name: 'jobs', type: 'gauge'", "name: 'jobs_total', type: 'counter'"),
        "telemetry.metrics[1]: \"jobs_total\" and \"jobs\" would both be exposed as \"jobs\"",
    );
    let apart = metrics("name: 's', type: 'summary'", "name: 's_bucket', type: 'gauge'");
    assert!(apart.iter().all(|line| !line.contains("metrics")), "{apart:?}");
}

#[test]
fn names_contain_no_control_characters_and_those_of_groups_no_spaces() {
    assert_only(
        &problems("{jobs: [{name: 'a\\u0007', exec: 'a'}]}"),
        ".name: a name cannot contain control characters",
    );
    let group = |name: &str| {
        problems(&format!(
            "{{jobs: [{{name: 'a', exec: 'a', restarts: 1}}], groups: [{{{name} jobs: 'a'}}]}}"
        ))
    };
    for name in ["a b", "a\\u0007", "\\t"] {
        assert_only(&group(&format!("name: '{name}',")), ".name: expected a name without spaces");
    }
    assert_only(&group(""), "groups[0]: expected a `name`");
    assert_eq!(group("name: 'g',"), [""; 0]);
}

#[test]
fn a_header_contains_no_control_character_but_tabs() {
    let header = |value: &str| {
        problems_of_job(&format!("health: {{http: {{url: 'http://b', headers: {{B: '{value}'}}}}}}"))
    };
    assert_eq!(header("b\\tc"), [""; 0]);
    assert_only(&header("b\\nc"), ".headers.B: a header cannot contain control characters");
}

#[test]
fn the_shortest_ttl_counts_and_is_shown_where_it_is_first_given() {
    let job = "name: 'a', exec: 'a', port: 80, health: [\n{ttl: 30},\n{ttl: 2},\n{ttl: 2}]";
    let text = format!("{{consul: 'a:1', jobs: [{{{job}}}]}}");
    assert_eq!(spec(&text).jobs[0].advertise.as_ref().unwrap().ttl, Duration::from_secs(2));
    assert_only(
        &problems(&text),
        "test.json5:3:7: job \"a\": its ttl of 2s is not above its heartbeat of 5s",
    );
}

#[test]
fn a_problem_of_a_coprocess_is_shown_at_its_name() {
    let waits_for_it = "jobs: [{name: 'preStart', exec: 'a', when: {source: 'agent', once: 'exitSuccess'}}]";
    assert_only(
        &problems(&format!("{{coprocesses: [{{name: 'agent', command: 'b'}}], {waits_for_it}}}")),
        "test.json5:1:23: job \"agent\" can never start",
    );
    let report = load_beside_command("{coprocesses: [{name: 'main', command: 'b'}]}").unwrap_err();
    let lines: Vec<String> = report.lines().map(|(_, line)| line).collect();
    assert_only(&lines, "test.json5:1:23: job \"main\": so is the command after `--` named");
}

#[test]
fn a_job_can_wait_for_the_command_of_the_command_line() {
    let text = "{jobs: [{exec: 'a', when: {source: 'main', once: 'exitSuccess'}}]}";
    let loaded = load_beside_command(text).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(sources(&loaded.spec, 0), ["main"]);
    assert_only(&problems(text), "the command after `--` has this name; there is none here");
}

#[test]
fn a_job_is_required_if_it_is_essential_advertised_or_there_to_run_always() {
    let spec = spec(
        "{consul: 'a:1', jobs: [{name: 'a', exec: 'a', essential: true}, {name: 'b', port: 80, health: {}},
                                {name: 'c', exec: 'c', restarts: 'unlimited'}, {name: 'd', exec: 'd'}]}",
    );
    assert_eq!(spec.jobs.iter().map(|job| job.required).collect::<Vec<_>>(), [true, true, true, false]);
}

#[test]
fn an_event_that_is_listed_twice_counts_once() {
    let twice = "{source: 'a', once: 'exitSuccess'}, {source: 'a', once: 'exitSuccess'}";
    for when in [format!("[{twice}]"), format!("{{all: [{twice}]}}"), format!("{{any: [{twice}]}}")] {
        let spec =
            spec(&format!("{{jobs: [{{name: 'a', exec: 'a'}}, {{name: 'b', exec: 'b', when: {when}}}]}}"));
        assert_eq!(sources(&spec, 1), ["a"], "{when}");
    }
}

#[test]
fn a_job_that_is_named_like_a_signal_is_that_job() {
    let spec = spec(
        "{jobs: [{name: 'SIGTERM', exec: 'a'}, {name: 'SIGNALS', exec: 'a'},
                 {name: 'b', exec: 'b', when: {source: 'SIGTERM', once: 'exitSuccess'}},
                 {name: 'c', exec: 'c', when: {source: 'SIGNALS', once: 'exitSuccess'}}]}",
    );
    assert_eq!((sources(&spec, 2), sources(&spec, 3)), (vec!["SIGTERM".into()], vec!["SIGNALS".into()]));
    for (source, expected) in
        [("SIGTERM", "a job cannot wait for SIGTERM"), ("TERM", "nothing is named \"TERM\"")]
    {
        assert_only(
            &problems_of_job(&format!("when: {{source: '{source}', once: 'exitSuccess'}}")),
            expected,
        );
    }
}
