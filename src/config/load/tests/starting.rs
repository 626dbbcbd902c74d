//! When jobs start, are ready and start again.

use super::*;

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
fn a_source_that_is_no_job_but_a_watch_means_the_watch() {
    let spec = spec(
        "{consul: 'a:1', jobs: [{exec: 'a', when: {source: 'db', each: 'changed'}}], watches: [{name: 'db'}]}",
    );
    let Trigger::Each(key) = &spec.jobs[0].when.trigger else { panic!("{spec:?}") };
    assert_eq!(key.to_string(), "watch.db changed");
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
fn what_a_template_leaves_empty_is_no_other_setting() {
    for (text, expected) in [
        ("{consul: 'c:1', watches: [{name: 'a', key: '', interval: 1}]}", ".key: expected a key, found \"\""),
        (
            "{consul: 'c:1', watches: [{name: 'a', prefix: '', interval: 1}]}",
            ".prefix: expected a prefix, found \"\"",
        ),
        ("{jobs: [{name: 'a', exec: 'a', after: ''}]}", ".after"),
        ("{jobs: [{name: 'a', exec: 'a', envFile: ['']}]}", ".envFile: expected an absolute path"),
        // Without a user, the process would be run by root.
        ("{jobs: [{name: 'a', exec: 'a', user: ''}]}", ".user: there is no user \"\""),
        ("{jobs: [{name: 'a', exec: 'a', group: ''}]}", ".group: there is no group \"\""),
    ] {
        let found = errors(text);
        assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}");
    }
    let spec = spec("{jobs: [{name: 'a', exec: 'a', env: {name: ''}}]}");
    assert_eq!(spec.jobs[0].execution.env, [("name".to_owned(), Some(String::new()))]);
}

#[test]
fn an_empty_directory_or_file_of_variables_is_absent() {
    let execution = |settings: &str| {
        let spec = spec(&format!("{{jobs: [{{name: 'a', exec: 'a', {settings}}}]}}"));
        spec.jobs[0].execution.clone()
    };
    assert_eq!(execution("cwd: '', envFile: ''"), execution(""));
}

#[test]
fn the_command_after_the_dashes_cannot_be_in_a_group() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config");
    fs::write(&path, "{jobs: [{name: 'db', exec: 'db'}], groups: [{name: 'g', jobs: ['db', 'main']}]}")
        .unwrap();
    let main = CommandLine { program: "app".into(), args: vec![] };
    let report = load_beside(Some(main), &path, &env(&[]), &system()).unwrap_err().to_string();
    assert!(report.contains("job \"main\" cannot be in a group: it is the command after `--`"), "{report}");
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
fn the_jobs_and_watches_of_a_group_that_pre_start_waits_for_begin_at_startup_beside_coprocesses() {
    let loaded = loaded(
        "{consul: 'a:1', coprocesses: [{name: 'agent', command: 'agent'}], watches: [{name: 'x'}, {name: 'y'}],
          jobs: [{name: 'db', exec: 'a', restarts: 1}, {name: 'preStart', exec: 'a', after: ['group.all']},
                 {name: 'cache', exec: 'a', restarts: 1, when: {source: 'watch.x', once: 'healthy'}}],
          groups: [{name: 'all', jobs: ['db', 'cache']}]}",
    );
    assert_eq!(loaded.spec.jobs[1].when.trigger, Trigger::Once(validate::startup()));
    let waits: Vec<bool> = loaded.spec.watches.iter().map(|watch| watch.after_coprocesses).collect();
    assert_eq!(waits, [false, true]);
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
