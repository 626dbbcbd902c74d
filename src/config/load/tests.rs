use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::config::Addresses;
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
        addresses: Addresses::Listed(vec![
            address("eth0", [192, 0, 2, 7].into()),
            address("lo", [127, 0, 0, 1].into()),
        ]),
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
        matches!(system.addresses, Addresses::Host(known) if known.get().is_some())
    };
    assert!(!is_asked("{consul: 'localhost', jobs: [{exec: 'a'}]}"));
    assert!(is_asked(
        "{consul: 'localhost', jobs: [{name: 'a', exec: 'a', port: 80, interfaces: 'lo', health: {tcp: 'localhost:80', ttl: 5}}]}"
    ));
}

#[test]
fn a_periodic_job_restarts_without_limit_and_times_out_with_its_interval() {
    let spec = spec(
        "{jobs: [{exec: 'a', when: {interval: '2s'}}, {exec: 'b', when: {interval: 2}, restarts: 5, timeout: 9}]}",
    );
    assert_eq!(
        (spec.jobs[0].restarts, spec.jobs[0].timeout),
        (Limit::Unlimited, Some(Duration::from_secs(2)))
    );
    assert_eq!(
        (spec.jobs[1].restarts, spec.jobs[1].timeout),
        (Limit::Finite(5), Some(Duration::from_secs(9)))
    );
}

#[test]
fn coprocesses_come_first_and_never_wait_for_anything_but_pre_start() {
    let spec = spec("{jobs: [{name: 'a', exec: 'a'}], coprocesses: [{command: 'agent -v'}]}");
    assert_eq!(&*spec.jobs[0].name, "agent -v");
    assert_eq!(spec.jobs[0].kind, JobKind::Coprocess);
    assert!(spec.jobs.iter().all(|job| matches!(job.when.trigger, Trigger::Once(_))));
}

#[test]
fn without_coprocesses_jobs_do_not_wait_for_pre_start() {
    let spec = spec("{jobs: [{name: 'app', exec: 'a'}, {name: 'preStart', exec: 'b'}]}");
    assert!(spec.jobs.iter().all(|job| matches!(job.when.trigger, Trigger::Once(_))));
}

#[test]
fn the_budget_of_a_shutdown_is_a_number_a_duration_or_nothing() {
    assert_eq!(spec("{stopTimeout: 7}").stop_timeout, StopBudget::Within(Duration::from_secs(7)));
    assert_eq!(spec("{stopTimeout: '250ms'}").stop_timeout, StopBudget::Within(Duration::from_millis(250)));
    assert_eq!(spec("{stopTimeout: '-1'}").stop_timeout, StopBudget::Immediate);
    assert_eq!(spec("{stopTimeout: 0}").stop_timeout, StopBudget::Within(Duration::from_secs(5)));
}

fn consul(text: &str, variables: &[(&str, &str)]) -> Option<crate::config::spec::ConsulSpec> {
    load_text("test.json5", text, &env(variables), &system())
        .unwrap_or_else(|report| panic!("{report}"))
        .spec
        .consul
}

fn tcp(tls: bool, host: &str, port: u16) -> ConsulAddress {
    ConsulAddress::Tcp { tls, host: host.into(), port }
}

#[test]
fn consul_is_found_under_all_its_addresses() {
    let address = |text: &str| consul(&format!("{{consul: {text}}}"), &[]).unwrap().address;
    assert_eq!(address("'consul:8500'"), tcp(false, "consul", 8500));
    assert_eq!(address("'http://consul:8500/'"), tcp(false, "consul", 8500));
    assert_eq!(address("'https://[::1]:8501'"), tcp(true, "::1", 8501));
    assert_eq!(address("'https://consul.example'"), tcp(true, "consul.example", 443));
    assert_eq!(address("'unix:///run/consul.sock'"), ConsulAddress::Unix("/run/consul.sock".into()));
    assert_eq!(address("{address: 'c:1', scheme: 'https'}"), tcp(true, "c", 1));
    assert_eq!(address("{token: 'x'}"), tcp(false, "127.0.0.1", 8500));
    assert_eq!(address("''"), tcp(false, "127.0.0.1", 8500));
    assert_eq!(consul("{}", &[]), None);
    assert_eq!(consul("{consul: null}", &[]), None);
}

#[test]
fn the_environment_overrides_consul_but_not_its_address() {
    let variables = [
        ("CONSUL_HTTP_ADDR", "https://env:1"),
        ("CONSUL_HTTP_TOKEN", "from-env"),
        ("CONSUL_CACERT", "/ca"),
        ("CONSUL_CAPATH", "/cas"),
        ("CONSUL_CLIENT_CERT", "/cert"),
        ("CONSUL_CLIENT_KEY", "/key"),
        ("CONSUL_TLS_SERVER_NAME", "name"),
        ("CONSUL_HTTP_SSL_VERIFY", "false"),
    ];
    let spec =
        consul("{consul: {address: 'file:2', token: 'from-file', tls: {verify: true}}}", &variables).unwrap();
    assert_eq!(spec.address, tcp(false, "file", 2));
    assert_eq!(spec.token.unwrap().expose(), "from-env");
    assert_eq!(spec.tls.ca_file, Some("/ca".into()));
    assert_eq!(spec.tls.ca_path, Some("/cas".into()));
    assert_eq!(spec.tls.client_cert, Some("/cert".into()));
    assert_eq!(spec.tls.client_key, Some("/key".into()));
    assert_eq!(spec.tls.server_name, Some("name".into()));
    assert!(!spec.tls.verify);
    assert_eq!(consul("{}", &variables).unwrap().address, tcp(true, "env", 1));
    assert_eq!(consul("{consul: {}}", &variables).unwrap().address, tcp(true, "env", 1));
}

#[test]
fn a_wrong_variable_of_the_environment_is_named() {
    let report = load_text("t", "{}", &env(&[("CONSUL_HTTP_ADDR", "a:b")]), &system()).unwrap_err();
    assert!(report.to_string().contains("environment variable CONSUL_HTTP_ADDR"), "{report}");
    let report =
        load_text("t", "{consul: 'a:1'}", &env(&[("CONSUL_HTTP_SSL_VERIFY", "x")]), &system()).unwrap_err();
    assert!(report.to_string().contains("CONSUL_HTTP_SSL_VERIFY"), "{report}");
}

#[test]
fn a_source_that_is_no_job_but_a_watch_means_the_watch() {
    let spec = spec(
        "{consul: 'a:1', jobs: [{exec: 'a', when: {source: 'db', each: 'changed'}}], watches: [{name: 'db'}]}",
    );
    let Trigger::Each(key) = &spec.jobs[0].when.trigger else { panic!("{spec:?}") };
    assert_eq!(key.to_string(), "watch.db changed");
}

#[test]
fn a_port_without_consul_needs_no_network() {
    let text = "{jobs: [{name: 'a', exec: 'a', port: 80, health: {tcp: 'a:80'}}]}";
    let loaded = load_text("t", text, &env(&[]), &System::default()).unwrap();
    assert_eq!(loaded.warnings.lines().count(), 1);
    let with_consul = text.replace("{jobs", "{consul: 'a:1', jobs");
    assert!(load_text("t", &with_consul, &env(&[]), &System::default()).is_err());
}

#[test]
fn every_independent_error_is_reported_in_file_order() {
    let found = errors(
        "{jobs: [\n{name: 'a', exec: 'a', restarts: 'x'},\n{name: 'b', exec: 'b', prot: 1},\n{name: 'c'}]}",
    );
    assert_eq!(
        found,
        [
            "test.json5:2:34: jobs[0] (\"a\").restarts: expected a whole number ≥ 0, \"never\" or \"unlimited\", found \"x\"",
            "test.json5:3:24: unknown key `prot` in jobs[1] (\"b\") (did you mean `port`?)",
            "test.json5:4:1: jobs[2] (\"c\"): expected an `exec`",
        ]
    );
}

#[test]
fn a_wrong_name_does_not_make_its_followers_wrong() {
    let found = errors("{jobs: [{name: [], exec: 'a'}, {exec: 'b', when: {source: 'x', once: 'stopped'}}]}");
    assert_eq!(found, ["test.json5:1:16: jobs[0].name: expected a string, found an array"]);
}

#[test]
fn a_job_that_never_starts_is_a_warning_at_start_and_an_error_of_check() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.json5");
    fs::write(&path, "{jobs: [{name: 'sh', exec: '/bin/sh', when: {source: 'sh', once: 'exitSuccess'}}]}")
        .unwrap();
    let warnings = load_path(&path).unwrap().warnings;
    assert_eq!((warnings.count(Severity::Error), warnings.count(Severity::Warning)), (0, 1));
    let report = check(&path, &env(&[]), &system());
    assert_eq!((report.count(Severity::Error), report.count(Severity::Warning)), (1, 0));
    assert_eq!(report.summary(), "1 error");
}

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

#[test]
fn a_secret_never_appears_in_a_report() {
    let texts = [
        "{consul: {address: 'x:0', token: 'SECRET', tokn: 1}}",
        "{consul: {address: 'x:0', token: 'SECRET' oops}}",
        "{consul: {token: 'SECRET', \"token\": 'SECRET'}}",
        "{consul: {token: ['SECRET']}, x: 1}",
        "{consul: {' token: 'SECRET'}}",
        "{consul: {address: {{ nope }}, token: 'SECRET'}}",
        "{consul: {tokn: 'SECRET'}}",
        "{consul: 'https://me:SECRET@consul:0'}",
        "{consul: 'me:SECRET@consul:0'}",
        "{consul: 'SECRET@consul:0', env: {A: 'https://SECRET@x'}}",
        "{env: {PASS: 'SECRET', 9: 'SECRET'}, jobs: [{exec: 'true'}]}",
        "{env: {PASS: ['SECRET']}}",
        "{env: {PASS: 'SECRET' oops}}",
        "{envv: {PASS: 'SECRET'}}",
        "{jobs: [{name: 'a', exec: 'true', env: {PASS: 'SECRET'}, nope: 1}]}",
        "{jobs: [{exec: 'true', health: {http: 'http://me:SECRET@host:0/'}}]}",
        "{jobs: [{exec: 'true', health: {http: {url: 'x', headers: {Authorization: 'SECRET'}}}}]}",
        "{jobs: [{exec: 'true', health: {http: {url: 'http://x', headers: {A: ['SECRET']}}}}]}",
        "{jobs: [{exec: 'true', health: {tcp: 'me:SECRET@host:1'}}]}",
    ];
    for text in texts {
        let report = load_text("t", text, &env(&[]), &system()).unwrap_err();
        assert!(!report.to_string().contains("SECRET"), "{report}");
        assert!(!report.to_json().to_string().contains("SECRET"));
    }
}

#[test]
fn a_secret_from_the_environment_is_not_shown_where_it_was_rendered() {
    let variables = env(&[("TOKEN", "SECRET'"), ("ADDRESS", "x:0")]);
    for text in [
        "{consul: {address: '{{ .ADDRESS }}', token: '{{ .TOKEN }}'}}",
        "{consul: \"https://me:{{ .TOKEN }}@{{ .ADDRESS }}\"}",
        "{env: {A: ['{{ .TOKEN }}']}}",
    ] {
        let report = load_text("t", text, &variables, &system()).unwrap_err();
        assert!(!report.to_string().contains("SECRET"), "{report}");
        assert!(!report.to_json().to_string().contains("SECRET"), "{report}");
    }
}

/// A configuration to break.
const SAMPLE: &str = include_str!("../../../tests/testdata/good/02-every-field.json5");

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_loading_panic(text in "\\PC{0,200}") {
        let result = load_text("t", &text, &env(&[]), &system());
        let _ = result.map_err(|report| (report.render(true), report.to_json()));
    }

    #[test]
    fn no_json5_alike_makes_loading_panic(text in "[{}\\[\\]:,'\"/*a-c0-9 \\n\\\\\\.\\-]{0,120}") {
        let result = load_text("t", &text, &env(&[]), &system());
        let _ = result.map_err(|report| (report.render(false), report.to_json()));
    }

    #[test]
    fn no_damage_to_a_configuration_makes_loading_panic(
        at in 0..SAMPLE.len(),
        length in 0..40usize,
        insert in "[{}\\[\\]:,'\"a0 \\-]{0,4}",
    ) {
        let start = SAMPLE.floor_char_boundary(at);
        let end = SAMPLE.floor_char_boundary(at + length);
        let text = format!("{}{insert}{}", &SAMPLE[..start], &SAMPLE[end..]);
        match load_text("t", &text, &env(&[]), &system()) {
            Ok(loaded) => { let _ = loaded.warnings.render(false); }
            Err(report) => prop_assert!(!report.render(false).is_empty()),
        }
    }
}

#[test]
fn what_pre_start_waits_for_starts_at_startup_beside_coprocesses() {
    let loaded = loaded(
        "{coprocesses: [{name: 'agent', command: 'agent'}],
          jobs: [{name: 'setup', exec: 'a'}, {name: 'app', exec: 'a'},
                 {name: 'between', exec: 'a', when: {source: 'setup', once: 'exitSuccess'}},
                 {name: 'preStart', exec: 'a', when: {source: 'between', once: 'exitSuccess'}}]}",
    );
    let trigger = |name: &str| {
        let job = loaded.spec.jobs.iter().find(|job| &*job.name == name).unwrap();
        job.when.trigger.clone()
    };
    assert_eq!(trigger("setup"), Trigger::Once(validate::startup()));
    assert_eq!(trigger("app"), validate::after(&"preStart".into()));
    assert_eq!(trigger("agent"), validate::after(&"preStart".into()));
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
}

#[test]
fn pre_start_cannot_wait_for_a_coprocess() {
    let loaded = loaded(
        "{coprocesses: [{name: 'agent', command: 'agent'}],
          jobs: [{name: 'preStart', exec: 'a', when: {source: 'agent', once: 'exitSuccess'}}]}",
    );
    assert_eq!(loaded.warnings.problems()[0].code, "start-cycle");
}

#[test]
fn a_text_that_an_action_left_out_is_explained() {
    let report = load_text("t", "{a: {{ .R }}}", &env(&[]), &system()).unwrap_err();
    assert!(report.to_string().contains("rendered nothing here: R is not set"), "{report}");
    let report = load_text("t", "{a: {{ .R }}}", &env(&[("R", "")]), &system()).unwrap_err();
    assert!(report.to_string().contains("rendered nothing here\n"), "{report}");
    assert_eq!(report.to_json()[0]["notes"][0], "the template rendered nothing here");
}

#[test]
fn the_report_for_programs_has_related_places() {
    let report = load_text("t", "{jobs: [],\n jobs: []}", &env(&[]), &system()).unwrap_err();
    let related = &report.to_json()[0]["related"][0];
    assert_eq!((&related["line"], &related["message"]), (&1.into(), &"first given here".into()));
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
fn the_health_checks_of_a_job_are_a_source_of_events() {
    use crate::messages::event::{EventCode, EventKey, Source};
    let spec = spec(
        "{jobs: [{name: 'app', exec: 'a', health: {exec: 'b'}}, {name: 'alarm', exec: 'c', when: {source: 'check.app', each: 'exitFailed'}}]}",
    );
    let key = EventKey { code: EventCode::ExitFailed, source: Source::Check("app".into()) };
    assert_eq!(spec.jobs[1].when.trigger, Trigger::Each(key));
}

#[test]
fn a_job_whose_name_looks_like_a_check_is_that_job() {
    use crate::messages::event::Source;
    let spec = spec(
        "{jobs: [{name: 'app', exec: 'a', health: {}}, {name: 'check.app', exec: 'b'}, {name: 'c', exec: 'c', when: {source: 'check.app', once: 'exitSuccess'}}]}",
    );
    assert_eq!(spec.jobs[2].when.trigger.keys()[0].source, Source::Job("check.app".into()));
}

/// A file of one line with that many jobs.
fn one_line(jobs: usize, job: impl Fn(usize) -> String) -> String {
    format!("{{jobs: [{}]}}", (0..jobs).map(job).collect::<Vec<_>>().join(", "))
}

#[test]
fn of_very_many_problems_the_first_are_shown_and_the_others_counted() {
    let text = one_line(2000, |index| format!("{{name: 'job-{index}', exec: 'a', restart: 'x'}}"));
    let report = load_text("test.json5", &text, &env(&[]), &system()).unwrap_err();
    assert_eq!(report.count(Severity::Error), 2000);
    assert_eq!(report.problems().len(), 100);
    assert_eq!(report.summary(), "2000 errors");
    assert!(report.to_string().ends_with("\n1900 more problems are not shown\n"), "{report}");
    assert_eq!(report.lines().last().unwrap().1, "1900 more problems are not shown");
    let json = report.to_json();
    assert_eq!(json.as_array().unwrap().len(), 101);
    assert_eq!(json[100]["code"], "more-problems");
    assert_eq!(json[99]["column"], json[99]["endColumn"].as_u64().unwrap() - "restart".len() as u64);
}

#[test]
fn errors_are_shown_before_warnings_are() {
    let text = one_line(150, |index| format!("{{NAME: 'job-{index}', exec: 'a'}}"));
    let text = text.replace("]}", ", {name: 'last'}]}");
    let report = load_text("test.json5", &text, &env(&[]), &system()).unwrap_err();
    assert_eq!((report.count(Severity::Error), report.count(Severity::Warning)), (1, 150));
    assert_eq!(report.problems().last().unwrap().severity, Severity::Error);
    assert_eq!(report.problems().len(), 100);
}

#[test]
fn of_a_very_long_line_the_part_around_the_place_is_shown() {
    let text = one_line(1000, |index| format!("{{name: 'job-{index}', exec: 'a'}}"));
    let text = text.replace("'job-500', exec", "'job-500', exce");
    let report = load_text("test.json5", &text, &env(&[]), &system()).unwrap_err().to_string();
    let place = format!("--> test.json5:1:{}\n", text.find("exce").unwrap() + 1);
    assert!(!report.contains(":::"), "{report}");
    assert!(report.lines().all(|line| line.chars().count() < 200), "{report}");
    let lines: Vec<&str> = report.split_once(&place).unwrap().1.lines().collect();
    let mark = lines[2].find('^').unwrap();
    assert_eq!(lines[2].matches('^').count(), 4, "{report}");
    let above: String = lines[1].chars().skip(mark).take(4).collect();
    assert_eq!(above, "exce", "{report}");
}

#[test]
fn a_source_that_nothing_defines_lists_only_some_of_very_many_names() {
    let text = one_line(50, |index| {
        format!("{{name: 'job-{index}', exec: 'a', when: {{source: 'zzzzzzzzzzzzzzzz', once: 'healthy'}}}}")
    });
    let errors = errors(&text);
    assert!(errors[0].ends_with("and 30 more)"), "{}", errors[0]);
}

/// The processor time of this thread in seconds, so that what else the machine does counts little.
fn processor_time() -> f64 {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    statistics.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

#[test]
fn the_time_to_report_grows_with_the_text_and_not_with_its_square() {
    let seconds = |jobs: usize| {
        let text = one_line(jobs, |index| {
            format!("{{name: 'job-{index}', exec: 'a', restart: 'x', when: {{sourc: 1, once: 'healthyy'}}}}")
        });
        let began = processor_time();
        let report = load_text("test.json5", &text, &env(&[]), &system()).unwrap_err();
        assert!(report.to_string().len() + report.to_json().to_string().len() > 1000);
        processor_time() - began
    };
    let fastest = |jobs: usize| (0..3).map(|_| seconds(jobs)).fold(f64::MAX, f64::min);
    let (some, many) = (fastest(300), fastest(2400));
    assert!(many < some * 8.0 * 3.0, "{some} s for 300 jobs, {many} s for 2400");
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

#[test]
fn a_restart_rule_is_read_with_its_defaults() {
    let spec = spec(
        "{jobs: [{exec: 'a', restarts: {limit: 5, on: 'failure', except: [78, 'SIGINT'], per: '1h'}, success: [0, '3', 'term']},
                 {exec: 'b', restarts: {on: 'success'}, success: 7},
                 {exec: 'c', restarts: {}}]}",
    );
    let [a, b, c] = [0, 1, 2].map(|index: usize| &spec.jobs[index]);
    let except = vec![EndOfRun::Code(78), EndOfRun::Signal(Signal::INT)];
    let per = Some(Duration::from_secs(3600));
    assert_eq!(a.restarts, Limit::Finite(5));
    assert_eq!(a.restart_rule, RestartRule { on: RestartOn::Failure, except, per });
    assert_eq!(a.success, [EndOfRun::Code(0), EndOfRun::Code(3), EndOfRun::Signal(Signal::TERM)]);
    assert_eq!((b.restarts, b.restart_rule.on, b.required), (Limit::Unlimited, RestartOn::Success, false));
    assert_eq!(b.success, [EndOfRun::Code(7)]);
    assert_eq!(
        (c.restarts, c.restart_rule.clone(), c.required),
        (Limit::Unlimited, RestartRule::default(), true)
    );
    assert_eq!((c.success.clone(), c.on_unhealthy), (vec![EndOfRun::Code(0)], OnUnhealthy::Nothing));
}

#[test]
fn after_is_short_for_all_of_ready() {
    let loaded = loaded(
        "{jobs: [{name: 'db', exec: 'a'}, {name: 'cache', exec: 'a'},
                 {name: 'app', exec: 'a', after: ['db', 'cache', 'db']},
                 {name: 'tick', exec: 'a', after: 'db', when: {interval: '1m'}},
                 {name: 'nightly', exec: 'a', after: ['db'], when: {cron: '@daily'}}]}",
    );
    let ready = |name: &str| EventKey { code: EventCode::Ready, source: Source::Job(name.into()) };
    let jobs = &loaded.spec.jobs;
    assert_eq!(jobs[2].when, When::new(Trigger::All(vec![ready("db"), ready("cache")])));
    assert_eq!((jobs[3].when.trigger.is_periodic(), jobs[3].when.keys()), (true, &[ready("db")][..]));
    assert_eq!(jobs[4].when.after, [ready("db")]);
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
}

#[test]
fn after_names_jobs_and_stands_beside_a_clock_only() {
    let found = errors(
        "{consul: 'localhost:8500', watches: [{name: 'db', interval: 1}],
          jobs: [{name: 'a', exec: 'a', after: ['b', 'watch.db']}, {name: 'c', exec: 'a', after: []},
                 {name: 'd', exec: 'a', after: ['a'], when: {source: 'c', once: 'exitSuccess'}}]}",
    );
    let expected = [
        "jobs[0] (\"a\").after[0]: nothing is named \"b\"",
        "jobs[0] (\"a\").after[1]: a watch has no event \"ready\"; its events are healthy, unhealthy, changed",
        "jobs[1] (\"c\").after: expected at least one job, found none",
        "jobs[2] (\"d\").after: expected no `when` beside it but one with `interval` or `cron`",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (line, expected) in found.iter().zip(expected) {
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn what_pre_start_is_to_run_after_starts_at_startup_beside_coprocesses() {
    let loaded = loaded(
        "{coprocesses: [{name: 'agent', command: 'agent'}],
          jobs: [{name: 'setup', exec: 'a'}, {name: 'preStart', exec: 'a', after: ['setup']}]}",
    );
    assert_eq!(loaded.spec.jobs[1].when.trigger, Trigger::Once(validate::startup()));
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
}

#[test]
fn ready_is_told_in_one_of_three_ways() {
    let spec = spec(
        "{jobs: [{name: 'a', exec: 'a', ready: {notify: true, timeout: '30s'}, watchdog: '10s'},
                 {name: 'b', exec: 'a', ready: {fd: 3}}, {name: 'c', exec: 'a', ready: {log: '^ready$'}},
                 {name: 'd', exec: 'a', ready: {timeout: 1}, health: {tcp: 'a:1'}}]}",
    );
    let ready = |index: usize| spec.jobs[index].ready.by.clone();
    assert_eq!([ready(0), ready(1)], [Some(ReadyBy::Notify), Some(ReadyBy::Descriptor(3))]);
    assert_eq!([ready(2), ready(3)], [Some(ReadyBy::Log("^ready$".into())), None]);
    assert_eq!(spec.jobs[0].ready.timeout, Some(Duration::from_secs(30)));
    assert_eq!((spec.jobs[0].watchdog, spec.jobs[1].watchdog), (Some(Duration::from_secs(10)), None));
    assert_eq!(
        spec.jobs.iter().map(|job| job.has_notify_socket()).collect::<Vec<_>>(),
        [true, false, false, false]
    );
}

#[test]
fn a_readiness_that_can_never_be_told_is_an_error() {
    for (job, expected) in [
        ("exec: 'a', ready: {}", ".ready: expected one of `notify`, `fd` and `log`"),
        ("exec: 'a', ready: {notify: false}", ".ready: expected one of `notify`, `fd` and `log`"),
        (
            "exec: 'a', ready: {fd: 3, log: 'x'}",
            ".ready: expected one of `notify`, `fd` and `log`, found `fd` and `log`",
        ),
        ("exec: 'a', ready: {fd: 2}", ".ready.fd: expected a whole number from 3 to 255, found 2"),
        ("exec: 'a', ready: {log: '('}", ".ready.log: expected a regular expression, found \"(\""),
        (
            "exec: 'a', ready: {log: 'x'}, logging: {raw: true}",
            ".ready.log: expected a job whose output is logged",
        ),
        ("exec: 'a', ready: {notify: true, timeout: 0}", ".ready.timeout: expected at least 1ms"),
        ("port: 80, ready: {notify: true}", ".ready: expected an `exec` beside it"),
        ("port: 80, health: {tcp: 'a:1'}, watchdog: '1s'", ".watchdog: expected an `exec` beside it"),
        ("exec: 'a', port: 80", ".port: an advertised job needs `health` or `ready`"),
    ] {
        let found = errors(&format!("{{consul: 'localhost:8500', jobs: [{{name: 'a', {job}}}]}}"));
        assert!(found.iter().any(|line| line.contains(expected)), "{job}: {found:?}");
    }
    let advertised =
        "{consul: 'localhost:8500', jobs: [{name: 'a', exec: 'a', port: 80, ready: {notify: true}}]}";
    assert!(spec(advertised).jobs[0].advertise.is_some());
}
