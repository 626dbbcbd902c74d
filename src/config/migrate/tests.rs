use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::config::spec::{JobSpec, Limit, Probe, Spec, Trigger, WatchTarget};
use crate::config::{Loaded, System, load_text};

fn main_command() -> CommandLine {
    CommandLine { program: "node".into(), args: vec!["app.js".into(), "a \"b\" {{ x }}".into()] }
}

fn migrated(text: &str) -> (String, Vec<Remark>) {
    match migrate("old.json", text, Some(&main_command())) {
        Ok(Migration::Migrated { text, remarks }) => (text, remarks),
        Ok(Migration::Current) => panic!("not migrated: {text}"),
        Err(report) => panic!("{}", report.render(false)),
    }
}

fn environment(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The configuration that a migrated file means.
fn meaning(text: &str, variables: &[(&str, &str)]) -> Spec {
    let (new, _) = migrated(text);
    match load_text("new.json5", &new, &environment(variables), &System::current()) {
        Ok(Loaded { spec, .. }) => spec,
        Err(report) => panic!("{new}\n{}", report.render(false)),
    }
}

fn refusal(text: &str) -> String {
    migrate("old.json", text, None).expect_err(text).render(false)
}

fn job<'a>(spec: &'a Spec, name: &str) -> &'a JobSpec {
    let found = spec.jobs.iter().find(|job| &*job.name == name);
    found.unwrap_or_else(|| panic!("no job {name} in {:?}", spec.jobs))
}

fn words(job: &JobSpec) -> Vec<&str> {
    let exec = job.exec.as_ref().unwrap();
    std::iter::once(&exec.program).chain(&exec.args).map(String::as_str).collect()
}

const SERVICE: &str = r#""services": [{"name": "app", "port": 80, "health": "true", "poll": 10, "ttl": 30,
    "interfaces": ["static:192.0.2.1"]}]"#;

fn with_service(rest: &str) -> String {
    format!("{{{SERVICE}, {rest}}}")
}

#[test]
fn the_first_service_runs_the_main_application_and_ends_the_container() {
    let spec = meaning(&with_service(""), &[]);
    let app = job(&spec, "app");
    assert_eq!(words(app), ["node", "app.js", "a \"b\" {{ x }}"]);
    assert!(app.essential && app.restarts == Limit::Finite(0));
    let advertise = app.advertise.as_ref().unwrap();
    assert_eq!((advertise.port, advertise.ttl.as_secs(), advertise.heartbeat.as_secs()), (80, 30, 10));
}

#[test]
fn a_second_service_of_the_same_name_is_left_to_decide() {
    let service = |name: &str| format!(r#"{{"name": "{name}", "port": 80, "health": "true"}}"#);
    let of = |second: &str| migrated(&format!("{{\"services\": [{}, {}]}}", service("app"), service(second)));
    let (text, remarks) = of("app");
    assert!(text.contains(r#"name: "app-2""#), "{text}");
    assert!(
        remarks.iter().any(|remark| remark.message.starts_with("another job has the name")),
        "{remarks:?}"
    );
    assert_eq!(of("web").1, []);
}

#[test]
fn a_file_with_any_key_that_only_we_have_needs_no_migration() {
    for text in [
        "{groups: []}",
        "{shutdownSignals: ['SIGINT']}",
        "{telemetry: {port: 9090, metrics: []}}",
        "{jobs: []}",
    ] {
        assert!(matches!(migrate("old.json", text, None), Ok(Migration::Current)), "{text}");
    }
    assert!(matches!(
        migrate("old.json", "{telemetry: {port: 9090, sensors: []}}", None),
        Ok(Migration::Migrated { .. })
    ));
}

#[test]
fn without_a_service_the_main_application_is_the_job_main() {
    let spec = meaning("{}", &[]);
    assert_eq!(words(job(&spec, "main"))[0], "node");
    assert!(job(&spec, "main").essential);
}

#[test]
fn a_main_application_that_nobody_named_is_left_to_decide_and_fails_when_run() {
    let Ok(Migration::Migrated { text, remarks }) = migrate("old.json", &with_service(""), None) else {
        panic!()
    };
    assert!(text.contains("DECIDE: put the main application here"), "{text}");
    assert!(remarks[0].message.starts_with("put the main application here"), "{remarks:?}");
    let spec = load_text("new", &text, &BTreeMap::new(), &System::current()).unwrap().spec;
    assert_eq!(words(job(&spec, "app"))[0], "sh");
}

#[test]
fn hooks_become_jobs_around_the_main_application() {
    let spec = meaning(
        &with_service(
            r#""preStart": "pre start", "preStop": ["pre", "stop"], "postStop": "post", "stopTimeout": 7"#,
        ),
        &[],
    );
    assert_eq!(words(job(&spec, "preStart")), ["pre", "start"]);
    let on = |name: &str| match &job(&spec, name).when.trigger {
        Trigger::Once(key) => key.to_string(),
        Trigger::Each(_) | Trigger::All(_) | Trigger::Any(_) | Trigger::Interval(_) | Trigger::Cron(_) => {
            panic!("{name}")
        }
    };
    assert_eq!(on("app"), "preStart exitSuccess");
    assert_eq!(on("preStop"), "app stopping");
    assert_eq!(on("postStop"), "app stopped");
    assert_eq!(spec.stop_timeout, crate::config::spec::StopBudget::Within(std::time::Duration::from_secs(7)));
}

#[test]
fn hooks_that_are_null_or_empty_are_absent() {
    let spec = meaning(&with_service(r#""preStart": null, "preStop": "", "postStop": [], "tasks": []"#), &[]);
    assert_eq!(spec.jobs.len(), 1);
}

#[test]
fn tasks_run_at_intervals() {
    let spec = meaning(
        r#"{"tasks": [
            {"name": "sync", "command": ["sync.sh", "-v"], "frequency": "1500ms", "timeout": "100ms"},
            {"command": "date", "frequency": "1m"}]}"#,
        &[],
    );
    let sync = job(&spec, "sync");
    assert_eq!(sync.when.trigger, Trigger::Interval(std::time::Duration::from_millis(1500)));
    assert_eq!(sync.timeout, Some(std::time::Duration::from_millis(100)));
    assert_eq!(words(job(&spec, "task-2")), ["date"]);
}

#[test]
fn backends_become_watches_and_jobs_that_run_at_changes() {
    let spec = meaning(
        r#"{"consul": "localhost:8500", "backends": [
            {"name": "db", "poll": 3, "onChange": "reload.sh a", "tag": "prod", "timeout": "2s"},
            {"name": "db", "poll": 4, "onChange": ["b"]},
            {"name": "quiet", "poll": 5}]}"#,
        &[],
    );
    let names: Vec<&str> = spec.watches.iter().map(|watch| &*watch.name).collect();
    assert_eq!(names, ["db", "db-2", "quiet"]);
    let WatchTarget::Service { service, tag } = &spec.watches[0].target else { panic!() };
    assert_eq!((service.as_str(), tag.as_deref()), ("db", Some("prod")));
    let WatchTarget::Service { service, .. } = &spec.watches[1].target else { panic!() };
    assert_eq!(service, "db");
    let Trigger::Each(key) = &job(&spec, "onChange-db-2").when.trigger else { panic!() };
    assert_eq!(key.to_string(), "watch.db-2 changed");
    assert_eq!(job(&spec, "onChange-db").timeout, Some(std::time::Duration::from_secs(2)));
    assert_eq!(spec.jobs.len(), 3);
}

#[test]
fn coprocesses_stay_coprocesses() {
    let spec = meaning(
        r#"{"coprocesses": [{"name": "agent", "command": ["consul", "agent"], "restarts": "unlimited"},
                            {"command": "tail -f /dev/null"}]}"#,
        &[],
    );
    assert_eq!(words(job(&spec, "agent")), ["consul", "agent"]);
    assert_eq!(job(&spec, "agent").restarts, Limit::Unlimited);
    assert_eq!(spec.jobs.len(), 3);
}

#[test]
fn sensors_become_metrics_and_jobs_that_record_them() {
    let spec = meaning(
        r#"{"telemetry": {"port": 9090, "interfaces": "static:127.0.0.1", "tags": ["t"], "sensors": [
            {"namespace": "n", "subsystem": "s", "name": "free", "help": "Free.", "type": "gauge", "poll": 5,
             "check": ["/bin/sensor", "a b"], "timeout": "3s"},
            {"name": "count", "help": "", "type": "counter", "poll": 5, "check": "/bin/count {{ .X }}  -x"}]}}"#,
        &[("X", "y z")],
    );
    let telemetry = spec.telemetry.as_ref().unwrap();
    assert_eq!(telemetry.metrics[0].full_name, "n_s_free");
    let sensor = words(job(&spec, "sensor-n_s_free"));
    assert_eq!(sensor[..2], ["sh", "-c"]);
    assert_eq!(sensor[2], r#"value=$("$@") && containerpilot -putmetric "n_s_free=$value""#);
    assert_eq!(sensor[3..], ["sensor", "/bin/sensor", "a b"]);
    assert_eq!(words(job(&spec, "sensor-count"))[4..], ["/bin/count", "y z", "-x"]);
    let trigger = &job(&spec, "sensor-count").when.trigger;
    assert_eq!(*trigger, Trigger::Interval(std::time::Duration::from_secs(5)));
}

#[test]
fn a_service_without_a_check_gets_one_to_decide_on() {
    let text = r#"{"services": [{"name": "app", "port": {{ .PORT }}, "poll": 1, "ttl": 3, "interfaces": "static:192.0.2.1"}]}"#;
    let (new, remarks) = migrated(text);
    assert!(new.contains("DECIDE: version 2 took a service without a check"), "{new}");
    assert_eq!(remarks.len(), 1);
    assert_eq!(remarks[0].line, Some(1));
    let spec = meaning(text, &[("PORT", "81")]);
    assert_eq!(job(&spec, "app").health[0].probe, Probe::Tcp("127.0.0.1:81".into()));
}

#[test]
fn further_services_are_advertised_and_run_nothing() {
    let text = r#"{"services": [
        {"name": "web", "port": 80, "health": "true", "poll": 1, "ttl": 3, "interfaces": "static:192.0.2.1"},
        {"name": "admin", "port": 81, "health": "true", "poll": 1, "ttl": 3, "interfaces": "static:192.0.2.1",
         "tags": ["a", "b"], "consul": {"enableTagOverride": true, "deregisterCriticalServiceAfter": "10m"}}]}"#;
    let spec = meaning(text, &[]);
    let admin = job(&spec, "admin");
    assert!(admin.exec.is_none() && !admin.essential);
    assert_eq!(admin.advertise.as_ref().unwrap().tags, ["a", "b"]);
    assert!(admin.advertise.as_ref().unwrap().enable_tag_override);
}

#[test]
fn template_actions_in_strings_and_for_values_are_carried_over() {
    let text = r#"{
        "consul": "{{ if .AGENT }}localhost{{ else }}{{ .CONSUL | default "consul" }}{{ end }}:8500",
        "services": [{"name": "{{ .NAME }}", "port": {{ .PORT }}, "health": ["true", "{{ .NAME }}"], "poll": 1, "ttl": 3,
                      "interfaces": ["static:192.0.2.1"], "tags": [{{ range $i, $t := split "," .TAGS }}{{ if $i }},{{ end }}"{{ $t }}"{{ end }}]}],
        "preStop": "stop {{ .NAME }}"}"#;
    let spec = meaning(text, &[("NAME", "app"), ("PORT", "8080"), ("TAGS", "x,y"), ("CONSUL", "c.example")]);
    let app = job(&spec, "app");
    assert_eq!(app.advertise.as_ref().unwrap().port, 8080);
    assert_eq!(app.advertise.as_ref().unwrap().tags, ["x", "y"]);
    assert_eq!(words(job(&spec, "preStop")), ["stop", "app"]);
    assert!(format!("{:?}", spec.consul).contains("c.example"));
}

#[test]
fn conditions_around_entries_of_lists_are_carried_over() {
    let text = r#"{"consul": "localhost:8500",
        "coprocesses": [{{ if .CONSUL_AGENT }}
            {"name": "agent", "command": ["consul", "agent"]}{{ end }}],
        "tasks": [{"command": "date", "frequency": "1s"}{{ if .A }}, {"name": "a", "command": "a", "frequency": "1s"}
                  {{ else if .B }}{"name": "b", "command": "b", "frequency": "1s"}
                  {{- else -}} {"name": "c", "command": "c", "frequency": "1s"}{{ end }}],
        "backends": [{{ range $name := split "," .BACKENDS }}{"name": "{{ $name }}", "poll": 1, "onChange": "x"},{{ end }}]}"#;
    let names = |variables: &[(&str, &str)]| -> Vec<String> {
        let spec = meaning(text, variables);
        let watches = spec.watches.iter().map(|watch| format!("watch.{}", watch.name));
        spec.jobs.iter().map(|job| job.name.to_string()).chain(watches).collect()
    };
    let (on, off) = (("CONSUL_AGENT", "1"), ("CONSUL_AGENT", ""));
    assert_eq!(
        names(&[on, ("A", "1"), ("BACKENDS", "p,q")]),
        ["agent", "main", "task-1", "a", "onChange-p", "onChange-q", "watch.p", "watch.q"]
    );
    assert_eq!(names(&[off, ("B", "1"), ("BACKENDS", "p")])[..3], ["main", "task-1", "b"]);
    assert_eq!(names(&[off, ("BACKENDS", "p")])[..3], ["main", "task-1", "c"]);
}

#[test]
fn a_conditional_first_service_does_not_carry_the_main_application() {
    let text = r#"{"services": [{{ if .X }}{"name": "app", "port": 80, "health": "true", "poll": 1, "ttl": 3,
        "interfaces": "static:192.0.2.1"}{{ end }}]}"#;
    assert_eq!(meaning(text, &[]).jobs.len(), 1);
    let spec = meaning(text, &[("X", "1")]);
    assert!(job(&spec, "main").essential && job(&spec, "app").exec.is_none());
}

#[test]
fn a_template_action_with_no_place_in_the_result_is_refused_with_advice() {
    for text in [
        r#"{ {{ if .X }}"preStart": "x",{{ end }} "services": [] }"#,
        r#"{{ $x := 1 }}{"preStart": "x"}"#,
        r#"{"services": [{{ template "s" }}]}"#,
        r#"{"services": [{"name": "a", {{ if .X }}"port": 80,{{ end }} "health": "x"}]}"#,
        r#"{ {{ if .X }}"tasks": [{"command": "a", "frequency": 1}{{ end }}]}"#,
    ] {
        let refusal = refusal(text);
        assert!(refusal.contains("old.json:1:") && refusal.contains("-template"), "{refusal}");
    }
}

#[test]
fn unknown_keys_are_kept_as_comments_and_told() {
    let (new, remarks) = migrated(
        r#"{"etcd": {"endpoints": ["x"]},
            "nonsense": "{{ .X }}",
            "logging": {"level": "INFO", "colour": 1},
            "services": [{"name": "app", "port": 80, "health": "true", "poll": 1, "ttl": 3, "weight": 3}]}"#,
    );
    for line in
        [r#"// etcd: {"endpoints": ["x"]}"#, r#"// nonsense: "{ { .X }}""#, "// colour: 1", "// weight: 3"]
    {
        assert!(new.contains(line), "{line}: {new}");
    }
    let told: Vec<&str> = remarks.iter().map(|remark| remark.message.split(':').next().unwrap()).collect();
    assert_eq!(told, ["logging.colour", "services[0].weight", "etcd", "nonsense"]);
    assert_eq!(remarks[0].line, Some(3));
}

#[test]
fn quotes_in_a_command_are_left_to_decide() {
    let (new, remarks) = migrated(r#"{"preStart": "sh -c 'echo a'"}"#);
    assert!(new.contains("DECIDE: version 2 split this at each space"), "{new}");
    assert_eq!(remarks.len(), 1);
    assert!(migrated(r#"{"preStart": ["sh", "-c", "echo 'a'"]}"#).1.is_empty());
    assert!(migrated(r#"{"preStart": "echo {{ .X | default "a" }}"}"#).1.is_empty());
    assert_eq!(migrated(r#"{"preStart": "sh -c '{{ .X }}'"}"#).1.len(), 1);
}

#[test]
fn differences_that_ask_for_no_decision_are_told_in_comments() {
    let (new, _) =
        migrated(r#"{"preStart": "a", "postStop": "b", "tasks": [{"command": "c", "frequency": 1}]}"#);
    for difference in
        ["runs when the main application's whole process group is gone", "its clock starts at startup"]
    {
        assert!(new.contains(&format!("// DIFFERENT: {difference}")), "{new}");
    }
}

#[test]
fn a_command_that_is_a_template_action_alone_is_one_word() {
    let sensor = r#"{"telemetry": {"port": 1, "sensors": [{"name": "a", "help": "b", "type": "gauge", "poll": 1, "check": {{ .X }}}]}}"#;
    let (new, _) = migrated(sensor);
    assert!(new.contains(r#""sensor", {{ .X }}]"#), "{new}");
}

#[test]
fn comments_are_told_to_be_lost() {
    let (_, remarks) = migrated("{ // mine\n preStart: 'x' }");
    assert!(remarks[0].message.contains("comments"), "{remarks:?}");
}

#[test]
fn a_file_of_version_3_needs_no_migration() {
    for text in
        ["{ jobs: [] }", "{ consul: 'x:1', watches: [], telemetry: {} }", "{ control: {}, jobs: [{{ .X }}] }"]
    {
        assert!(matches!(migrate("old", text, None), Ok(Migration::Current)), "{text}");
    }
    assert!(refusal(r#"{"jobs": [], "services": []}"#).contains("`jobs` of version 3 beside `services`"));
}

#[test]
fn wrong_shapes_are_refused_with_their_place() {
    for (text, message) in [
        ("[]", "expected a configuration in braces"),
        (r#"{"services": 1}"#, "services: expected an array"),
        (r#"{"services": [{"port": 1}]}"#, "services[0]: expected an object with `name`"),
        (r#"{"services": ["x"]}"#, "services[0]: expected an object with `name`"),
        (
            r#"{"tasks": [{"name": "a", "command": "b"}]}"#,
            "tasks[0]: expected an object with `command` and `frequency`",
        ),
        (r#"{"backends": [{"poll": 1}]}"#, "backends[0]: expected an object with `name`"),
        (r#"{"coprocesses": [{"name": "a"}]}"#, "coprocesses[0]: expected an object with `command`"),
        (r#"{"telemetry": {"sensors": [{"name": "a"}]}}"#, "telemetry.sensors[0]: expected an object with"),
        (r#"{"preStart": 5}"#, "exec: expected a command"),
        (r#"{"telemetry": 5}"#, "telemetry: expected an object"),
        (r#"{"logging": "x"}"#, "logging: expected an object"),
        (r#"{"preStart": "{{ .X"}"#, "never closed"),
        (r#"{"preStart": "#, "old.json:1:"),
        ("", "empty"),
    ] {
        let refusal = refusal(text);
        assert!(refusal.contains(message), "{text}: {refusal}");
    }
}

#[test]
fn names_that_meet_are_told_apart() {
    let spec = meaning(
        r#"{"preStart": "x", "tasks": [{"name": "preStart", "command": "a", "frequency": 1},
            {"name": "t", "command": "a", "frequency": 1}, {"name": "t", "command": "a", "frequency": 1},
            {"name": "t", "command": "a", "frequency": 1}]}"#,
        &[],
    );
    let names: Vec<&str> = spec.jobs.iter().map(|job| &*job.name).collect();
    assert_eq!(names, ["preStart", "main", "preStart-2", "t", "t-2", "t-3"]);
}

#[test]
fn every_section_and_every_two_and_all_but_two_become_configurations_that_load() {
    const SECTIONS: [&str; 10] = [
        r#""consul": {"address": "localhost:8500", "token": "{{ .T }}"}"#,
        r#""logging": {"level": "DEBUG", "format": "text", "output": "stderr"}, "stopTimeout": {{ .X | default 3 }}"#,
        r#""preStart": "pre {{ .X }}""#,
        r#""preStop": ["sh", "-c", "echo 'a b'"]"#,
        r#""postStop": "sh -c 'echo a'""#,
        r#""services": [{"name": "a", "port": 80, "poll": 1, "ttl": 3, "interfaces": "static:192.0.2.1"},
                        {{ if .X }}{"name": "b", "port": "81", "health": "true", "poll": "2", "ttl": 6, "interfaces": "static:192.0.2.1"},{{ end }}]"#,
        r#""tasks": [{"command": "date", "frequency": "{{ .F | default "1s" }}"}, {"name": "a", "command": ["b"], "frequency": "2s", "timeout": "1s"}]"#,
        r#""backends": [{"name": "a", "poll": 1, "onChange": "x"}, {"name": "a", "poll": 1, "tag": "t", "onChange": ["y"]}]"#,
        r#""coprocesses": [{"name": "a", "command": "agent 'x y'", "restarts": 3}]"#,
        r#""telemetry": {"port": 9090, "interfaces": ["static:127.0.0.1"], "sensors": [
            {"name": "n", "type": "counter", "help": "h", "poll": 5, "check": 'c "d" {{ .X }}'}]}, "unknown": [{{ .X }}]"#,
    ];
    let few =
        |choice: &u32| choice.count_ones() <= 2 || choice.count_zeros() <= 32 - SECTIONS.len() as u32 + 2;
    for choice in (0..1_u32 << SECTIONS.len()).filter(few) {
        let chosen = SECTIONS.iter().enumerate().filter(|(index, _)| choice >> index & 1 == 1);
        let text = chosen.map(|(_, section)| *section).collect::<Vec<_>>().join(",\n");
        let old = format!("{{ {text} }}");
        for x in ["", "5"] {
            let spec = meaning(&old, &[("X", x)]);
            assert_eq!(spec.jobs.iter().filter(|job| job.essential).count(), 1, "{old}");
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_a_migration_panic(
        text in r#"(\{|\}|\[|\]|"|'|,|:|//|/\*|\*/|\{\{|\}\}|\{\{ if \.X \}\}|\{\{ else \}\}|\{\{ end \}\}|services|name|tasks|1|\n| |é){0,40}"#
    ) {
        let _ = migrate("old.json", &text, None);
    }

    #[test]
    fn no_cut_makes_a_migration_panic(start in 0_usize..1700, length in 0_usize..200) {
        let whole = include_str!("../../../tests/testdata/migrate/nginx.json");
        let mut text: Vec<char> = whole.chars().collect();
        let end = (start + length).min(text.len());
        text.drain(start.min(end)..end);
        let _ = migrate("old.json", &text.into_iter().collect::<String>(), None);
    }
}
