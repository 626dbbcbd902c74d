//! What configurations and images of ContainerPilot 3.8 rely on, with the real program.

use std::fs;

use crate::support;
use crate::support::consul::Consul;
use crate::support::ports::free_port;
use crate::support::{Exit, Pilot, Setup};

#[test]
fn a_job_whose_check_tries_nothing_is_healthy_while_its_process_runs() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "app", exec: ["sh", "-c", "while ! test -e {dir}/end; do sleep 0.02; done"], restarts: 1,
              health: { interval: 1, ttl: 10 } },
            { name: "after", exec: "echo seen", when: { source: "app", once: "healthy" } },
        ] }"#,
    );
    pilot.wait_for_line("after", "seen");
    assert_eq!(pilot.status_of("app")["health"], "healthy");
    fs::write(pilot.path("end"), "").unwrap();
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert_eq!(pilot.count("app unhealthy"), 0);
}

#[test]
fn an_advertised_job_without_exec_and_without_a_probe_is_passing_and_keeps_the_program_alive() {
    let consul = Consul::start();
    let config = format!(
        r#"{{ consul: "{}", jobs: [
            {{ name: "outside", port: 80, interfaces: "static:10.1.2.3", health: {{ interval: 1, ttl: 10 }} }},
            {{ name: "task", exec: "true" }},
        ] }}"#,
        consul.address()
    );
    let pilot = Pilot::start(&config);
    pilot.wait_for_event("task stopped");
    consul.wait_for_status("outside", "passing");
    assert_eq!(pilot.status_of("outside")["health"], "healthy");
    assert_eq!(pilot.count("global shutdown"), 0);
    assert_eq!(pilot.stop(), Exit::Code(0));
    consul.wait_for_absence("outside");
}

const CHECKED: &str = r#"{ jobs: [
    { name: "app", exec: "sleep 1000", health: { exec: "test -e {dir}/up", interval: "50ms", timeout: "10s" } },
    { name: "other", exec: "sleep 1000", health: { exec: "true", interval: "50ms", timeout: "10s" } },
] }"#;

#[test]
fn the_outcome_of_every_try_of_a_check_starts_the_jobs_that_wait_for_it() {
    let alarm = r#"{ name: "alarm", exec: "true", when: { source: "check.app", each: "exitFailed" } },
        { name: "up", exec: ["sh", "-c", "echo $CONTAINERPILOT_EVENT_SOURCE $CONTAINERPILOT_EVENT_CODE"],
          when: { source: "check.app", once: "exitSuccess" } },
    ] }"#;
    let pilot = Pilot::start(&CHECKED.replace("] }", alarm));
    pilot.wait_for_events("alarm exitSuccess", 2);
    assert!(pilot.count("check.app exitFailed") >= 2);
    fs::write(pilot.path("up"), "").unwrap();
    pilot.wait_for_line("up", "check.app exitSuccess");
    pilot.wait_for_event("app healthy");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(pilot.events().iter().all(|event| !event.starts_with("check.other")), "nobody listens");
}

#[test]
fn the_outcome_of_a_check_is_no_event_unless_a_job_waits_for_it() {
    let pilot = Pilot::start(CHECKED);
    pilot.wait_for_event("app unhealthy");
    assert!(pilot.events().iter().all(|event| !event.starts_with("check.")), "nobody listens");
    let alarm = r#"{ name: "alarm", exec: "true", when: { source: "check.app", each: "exitFailed" } }, ] }"#;
    let before = pilot.pid_of("app");
    pilot.edit("] }", alarm);
    pilot.tell(&["-reload"]);
    pilot.wait_for_event("check.app exitFailed");
    assert_eq!(pilot.pid_of("app"), before, "the job whose check is listened for now did not change");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn processes_are_told_pids_by_base_name_and_the_address_of_our_own_telemetry() {
    let consul = Consul::start();
    let config = format!(
        r#"{{ consul: "{}", telemetry: {{ port: {}, interfaces: "static:127.0.0.1" }}, jobs: [
            {{ name: "{{dir}}/bin/my--server.v2.sh", exec: "sleep 1000" }},
            {{ name: "my-app", exec: "sleep 1000", health: {{}}, port: 80, interfaces: "static:10.1.2.3" }},
            {{ name: "show", exec: "env", when: {{ source: "my-app", once: "healthy" }} }},
        ] }}"#,
        consul.address(),
        free_port()
    );
    let pilot = Pilot::start(&config);
    pilot.wait_for_event("show exitSuccess");
    let lines = pilot.lines_of("show");
    let value = |name: &str| {
        let prefix = format!("CONTAINERPILOT_{name}=");
        lines.iter().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
    };
    assert_eq!(
        value("MY_SERVER_V2_PID"),
        Some(pilot.pid_of(&format!("{}/bin/my--server.v2.sh", pilot.dir().display())).to_string())
    );
    assert_eq!(value("MY_APP_PID"), Some(pilot.pid_of("my-app").to_string()));
    assert_eq!(value("MY_APP_IP").as_deref(), Some("10.1.2.3"));
    assert_eq!(value("CONTAINERPILOT_IP").as_deref(), Some("127.0.0.1"));
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn telemetry_that_is_not_advertised_has_no_variable() {
    let config = format!(
        r#"{{ telemetry: {{ port: {}, interfaces: "static:127.0.0.1" }}, jobs: [{{ name: "show", exec: "env" }}] }}"#,
        free_port()
    );
    let (exit, pilot) = Pilot::run(&config);
    assert_eq!(exit, Exit::Code(0));
    let variables = pilot.lines_of("show");
    assert!(variables.iter().any(|line| line.starts_with("CONTAINERPILOT_PID=")), "{variables:?}");
    assert!(
        variables.iter().all(|line| !line.starts_with("CONTAINERPILOT_CONTAINERPILOT_IP")),
        "{variables:?}"
    );
}

#[test]
fn a_file_with_keys_in_another_case_runs_and_each_is_warned_of() {
    let (exit, pilot) = Pilot::run(
        r#"{ control: { Socket: "{dir}/control.socket" }, "logging": { Output: "STDOUT", format: "json", level: "DEBUG" },
             JOBS: [{ Name: "app", EXEC: "echo ran" }] }"#,
    );
    assert_eq!(exit, Exit::Code(0));
    assert_eq!(pilot.lines_of("app"), ["ran"]);
    for key in ["Socket", "Output", "JOBS", "Name", "EXEC"] {
        let warned = |record: &support::Record| {
            record.level == "warning" && record.message.contains(&format!("key `{key}` in"))
        };
        assert!(pilot.log().with_records(|records| records.iter().any(warned)), "{key}");
    }
}

const ONE_LINE: &str = r#"{ jobs: [{ name: "app", exec: "echo ran" }] }"#;

#[test]
fn the_cmd_of_an_old_image_is_ignored_with_a_warning() {
    let leftover = ["nginx", "-g", "daemon off;", "-version"];
    let pilot = Setup::new().config(ONE_LINE).arguments(&leftover).start();
    let warning = pilot.wait_for_message("arguments are ignored");
    assert_eq!(warning.level, "warning");
    assert!(warning.message.contains(r#""nginx", "-g", "daemon off;", "-version""#), "{}", warning.message);
    assert!(warning.message.contains("put `--` before a command"), "{}", warning.message);
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert_eq!(pilot.lines_of("app"), ["ran"]);
}

#[test]
fn a_configuration_that_the_environment_names_counts_too() {
    let setup = Setup::new().file(
        "app.json5",
        &ONE_LINE.replacen('{', r#"{ logging: { format: "json" }, control: { socket: "{dir}/s" }, "#, 1),
    );
    let pilot = setup.env("CONTAINERPILOT", "{dir}/app.json5").arguments(&["nginx"]).start();
    pilot.wait_for_message("arguments are ignored");
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert_eq!(pilot.lines_of("app"), ["ran"]);
}

#[test]
fn switches_take_truth_values_as_in_go() {
    for flag in ["-version=true", "--version=1"] {
        let pilot = Setup::new().arguments(&[flag]).start();
        assert_eq!(pilot.wait_exit(), Exit::Code(0));
        assert!(pilot.log().text().contains("Version: "), "{}", pilot.log().text());
    }
    let pilot = Setup::new().config(ONE_LINE).arguments(&["-template=true", "-version=false"]).start();
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert!(pilot.log().text().contains("echo ran"), "{}", pilot.log().text());
}
