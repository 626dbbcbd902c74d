//! Reports about wrong configurations.

use super::*;

fn warnings(text: &str) -> Vec<String> {
    loaded(text).warnings.lines().map(|(_, line)| line).collect()
}

#[test]
fn a_signal_in_another_spelling_is_suggested_and_nothing_else_is_wrong() {
    for (typed, meant) in [("sighup", "SIGHUP"), ("HUP", "SIGHUP"), ("SigUsr2", "SIGUSR2")] {
        for when in [format!("{{source: '{typed}'}}"), format!("[{{source: '{typed}'}}]")] {
            let text = format!("{{jobs: [{{name: 'a', exec: 'a', when: {when}}}]}}");
            let report = load_text("test.json5", &text, &env(&[]), &system()).unwrap_err();
            assert_eq!(report.problems().len(), 1, "{report}");
            assert!(report.to_string().contains(&format!("did you mean {meant:?}?")), "{report}");
        }
    }
    let named =
        "{jobs: [{name: 'hup', exec: 'a'}, {name: 'b', exec: 'b', when: {source: 'hup', once: 'stopped'}}]}";
    assert_eq!(errors(named), [""; 0]);
}

#[test]
fn a_job_named_like_a_signal_or_like_the_checks_of_another_is_warned_of() {
    for signal in ["SIGHUP", "SIGUSR2"] {
        let found = warnings(&format!("{{jobs: [{{name: '{signal}', exec: 'a'}}]}}"));
        assert!(found.len() == 1 && found[0].contains("is named like a signal"), "{found:?}");
    }
    let found = warnings("{jobs: [{name: 'check.db', exec: 'a'}, {name: 'db', exec: 'b'}]}");
    assert!(found.len() == 1 && found[0].contains("named like the health checks of job \"db\""), "{found:?}");
    for right in ["SIGUSR1", "sighup", "check.db"] {
        assert_eq!(warnings(&format!("{{jobs: [{{name: '{right}', exec: 'a'}}]}}")), [""; 0], "{right}");
    }
}

#[test]
fn jobs_that_share_the_variable_of_their_process_ids_are_warned_of_once() {
    let jobs = |names: &[&str]| {
        let jobs: String = names.iter().map(|name| format!("{{name: '{name}', exec: 'a'}},")).collect();
        warnings(&format!("{{jobs: [{jobs}]}}"))
    };
    let found = jobs(&["my-app", "my_app", "my.app", "my+app"]);
    let expected = "jobs \"my-app\" and \"my_app\" share the variable CONTAINERPILOT_MY_APP_PID";
    assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
    assert_eq!(jobs(&["my-app", "my-app2"]), [""; 0]);
}

#[test]
fn keys_of_containerpilot_2_point_to_migrate_once() {
    let report = |text: &str| load_text("test.json5", text, &env(&[]), &system()).unwrap_err().to_string();
    let old = report("{consul: 'a:1', services: [], backends: [], preStart: 'a'}");
    let help = "this looks like a configuration of ContainerPilot 2: run `containerpilot migrate FILE`";
    assert_eq!(old.matches(help).count(), 1, "{old}");
    for key in ["services", "backends", "preStart"] {
        assert!(old.contains(&format!("unknown key `{key}` in the configuration")), "{old}");
    }
    for text in ["{jobs: [{exec: 'a', tasks: []}], service: []}", "{jobs: [], tasks: []}"] {
        assert!(!report(text).contains("migrate"), "{text}");
    }
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
fn a_wrong_when_or_exec_hides_no_other_error_of_its_job() {
    let found = errors(
        "{jobs: [{name: 'a', exec: '', when: {source: 'nobody', once: 'healthy'}, success: [],\n\
         tty: true, logging: {raw: true}, restarts: {limit: 2000, per: '1m'}, forward: 'SIGKILL'}]}",
    );
    for part in ["exec", "when.source", "success", "restarts.limit", "forward"] {
        assert!(found.iter().any(|line| line.contains(&format!("(\"a\").{part}"))), "{part}: {found:#?}");
    }
}

#[test]
fn variables_under_the_name_that_others_use_are_explained() {
    let found = errors("{jobs: [{name: 'a', exec: 'a', environment: {A: 'b'}}]}");
    assert_eq!(
        found,
        ["test.json5:1:32: unknown key `environment` in jobs[0] (\"a\") (did you mean `env`?)"]
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
    let report = check(None, &path, &env(&[]), &system());
    assert_eq!((report.count(Severity::Error), report.count(Severity::Warning)), (1, 0));
    assert_eq!(report.summary(), "1 error");
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
        "{env: 'API_KEY=SECRET'}",
        "{jobs: [{exec: 'true', env: \"API_KEY=SECRET\"}]}",
        "{jobs: [{exec: 'true', health: {http: {url: 'http://x', headers: 'Authorization: SECRET'}}}]}",
        "{jobs: [{exec: 'true', environment: {API_KEY: 'SECRET'}}]}",
        "{jobs: [{exec: 'true', environment: ['API_KEY=SECRET']}]}",
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
