//! The scenarios that ContainerPilot's own integration tests go through, each with what it checks there, written anew.

use std::fs;
use std::thread;

use crate::support::consul::Consul;
use crate::support::http::{connect, get_port, request};
use crate::support::needs::can_be_pid_one;
use crate::support::ports::free_port;
use crate::support::{Exit, Pilot, Setup, zombies};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// An advertised job that only sleeps, and a configuration around it.
fn advertised(consul: &Consul, rest: &str) -> String {
    format!(
        r#"{{ consul: "{}", jobs: [
            {{ name: "app", port: 8000, interfaces: "static:10.1.2.3", exec: "sleep 1000", health: {{ exec: "true", interval: 1, ttl: 5 }} }},
            {rest}
        ] }}"#,
        consul.address()
    )
}

#[test]
fn config_reload_one_reload_is_answered_and_many_at_once_do_not_wedge_the_program() {
    let pilot = Pilot::start(r#"{ jobs: [{ name: "app", exec: "sleep 1000" }] }"#);
    pilot.wait_for_event("global startup");
    assert_eq!(pilot.ask("POST", "/v3/reload", "").status, 200);
    let socket = pilot.socket();
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let socket = socket.clone();
            thread::spawn(move || request(connect(&socket), "POST", "/v3/reload", "", "").status)
        })
        .collect();
    for client in clients {
        assert_eq!(client.join().unwrap(), 200);
    }
    assert_eq!(pilot.ask("POST", "/v3/reload", "").status, 200);
    assert_eq!(pilot.ask("GET", "/v3/ping", "").status, 200);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn coprocess_its_restarts_are_limited_and_a_reload_gives_it_new_flags_and_a_new_count() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: "sleep 1000" }],
             coprocesses: [{ name: "helper", command: ["sh", "-c", "echo up $0; exec sleep 1000", "arg1"], restarts: 1 }] }"#,
    );
    let runs = |count: usize, argument: &str| {
        let line = format!("up {argument}");
        pilot.eventually(&format!("{count} × {line}"), || {
            pilot.lines_of("helper").iter().filter(|printed| **printed == line).count() == count
        });
    };
    let end = || {
        pilot.eventually("the coprocess runs", || pilot.status_of("helper")["pid"].is_i64());
        kill(Pid::from_raw(i32::try_from(pilot.pid_of("helper")).unwrap()), Signal::SIGTERM).unwrap();
    };
    runs(1, "arg1");
    end();
    runs(2, "arg1");
    end();
    pilot.wait_for_event("helper stopped");
    pilot.edit("arg1", "arg2");
    pilot.signal(Signal::SIGHUP);
    runs(1, "arg2");
    end();
    runs(2, "arg2");
    assert_eq!(pilot.status_of("app")["state"], "running");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.lines_of("helper").iter().filter(|line| *line == "up arg1").count(), 2);
}

#[test]
fn discovery_a_proxy_learns_of_an_application_that_registers_and_of_its_end() {
    let consul = Consul::start();
    let url = format!("http://{}/v1/health/service/app?passing", consul.address());
    let proxy = format!(
        r#"{{ consul: "{}", watches: [{{ name: "app", interval: 1 }}], jobs: [
            {{ name: "proxy", port: 80, interfaces: "static:10.1.2.4", exec: "sleep 1000", health: {{ exec: "true", interval: 1, ttl: 5 }} }},
            {{ name: "on-change", exec: ["sh", "-c", "curl -s '{url}' > {{dir}}/new && mv {{dir}}/new {{dir}}/upstreams"],
               when: {{ source: "watch.app", each: "changed" }} }},
        ] }}"#,
        consul.address()
    );
    let proxy = Pilot::start(&proxy);
    consul.wait_for_status("proxy", "passing");
    let app = Pilot::start(&advertised(&consul, ""));
    consul.wait_for_status("app", "passing");
    proxy.eventually("the proxy knows the application", || proxy.text("upstreams").contains("10.1.2.3"));
    assert_eq!(app.stop(), Exit::Code(0));
    consul.wait_for_absence("app");
    proxy.eventually("the proxy knows of its end", || proxy.text("upstreams").trim() == "[]");
    assert_eq!(proxy.stop(), Exit::Code(0));
}

#[test]
fn environment_processes_are_told_the_addresses_and_pids_of_jobs() {
    let consul = Consul::start();
    let show = r#"{ name: "testpid", exec: "sleep 1000" },
        { name: "show", exec: "env", when: { source: "app", once: "healthy" } },"#;
    let pilot = Pilot::start(&advertised(&consul, show));
    pilot.wait_for_event("show exitSuccess");
    let lines = pilot.lines_of("show");
    for expected in [
        "CONTAINERPILOT_APP_IP=10.1.2.3".to_owned(),
        format!("CONTAINERPILOT_TESTPID_PID={}", pilot.pid_of("testpid")),
        format!("CONTAINERPILOT_PID={}", pilot.pid()),
    ] {
        assert!(lines.contains(&expected), "{expected}: {lines:#?}");
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn logging_output_is_formatted_unless_it_is_raw_for_jobs_and_for_their_checks() {
    let pilot = Pilot::start(
        r#"{ logging: { level: "DEBUG", format: "text" }, jobs: [
            { name: "job1", exec: ["sh", "-c", "echo job1 exec; exec sleep 1000"] },
            { name: "job2", exec: ["sh", "-c", "echo job2 exec; exec sleep 1000"], logging: { raw: true } },
            { name: "job3", exec: "sleep 1000", health: { exec: "echo job3 health", interval: 1, ttl: 5, logging: { raw: true } } },
            { name: "job4", exec: "sleep 1000", health: { exec: "echo job4 health", interval: 1, ttl: 5 } },
        ] }"#,
    );
    for (what, is_raw) in
        [("job1 exec", false), ("job2 exec", true), ("job3 health", true), ("job4 health", false)]
    {
        let line = pilot
            .wait_for_record(what, |record| record.line.contains(what) && !record.line.contains("sh -c"))
            .line;
        let is_formatted = line.starts_with("time=") && line.contains(&format!(r#"msg="{what}""#));
        assert_eq!((line == what, is_formatted), (is_raw, !is_raw), "{line}");
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn leftover_arguments_the_jobs_run_until_the_container_is_stopped() {
    let config = r#"{ jobs: [{ name: "app", exec: ["sh", "-c", "echo up; exec sleep 1000"] }] }"#;
    let pilot = Setup::new().config(config).arguments(&["/bin/server", "-p", "80"]).start();
    pilot.wait_for_line("app", "up");
    pilot.wait_for_message("arguments are ignored");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn zombies_orphans_of_jobs_and_of_checks_are_reaped() {
    if !can_be_pid_one() {
        return;
    }
    let orphans = "(sleep 0.05 &) ; (sleep 0.1 & sleep 0.15 &) ; true";
    let config = format!(
        r#"{{ jobs: [
            {{ name: "checked", exec: "sleep 1000", health: {{ exec: ["sh", "-c", "setsid sh -c '{orphans}'"], interval: "50ms", timeout: "10s" }} }},
            {{ name: "slow", exec: ["sh", "-c", "for i in 1 2 3 4 5; do setsid sh -c '{orphans}'; done; exec sleep 1000"] }},
        ] }}"#
    );
    let pilot = Setup::new().config(&config).as_pid_one().start();
    pilot.wait_for_event("checked healthy");
    for _ in 0..20 {
        pilot.eventually("no zombies are left", || zombies(pilot.pid()).is_empty());
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn reopening_after_sigusr1_the_log_goes_on_in_a_new_file() {
    let pilot = Pilot::start(
        r#"{ logging: { format: "json", output: "{dir}/the.log" },
             jobs: [{ name: "tick", exec: "echo tick", when: { interval: "20ms" } }] }"#,
    );
    pilot.eventually("the log grows", || pilot.text("the.log").contains("tick"));
    fs::rename(pilot.path("the.log"), pilot.path("old.log")).unwrap();
    assert!(!pilot.path("the.log").exists());
    pilot.signal(Signal::SIGUSR1);
    pilot.eventually("a new log grows", || pilot.text("the.log").contains("tick"));
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(pilot.text("old.log").contains("tick"));
}

#[test]
fn sighup_and_sigusr2_start_the_jobs_that_wait_for_them_and_leave_the_application_alone() {
    let consul = Consul::start();
    let signals = r#"{ name: "on-sighup", exec: "echo fired on SIGHUP", when: { source: "SIGHUP" } },
        { name: "on-sigusr2", exec: "echo fired on SIGUSR2", when: { source: "SIGUSR2" } },"#;
    let pilot = Pilot::start(&advertised(&consul, signals));
    consul.wait_for_status("app", "passing");
    let before = pilot.pid_of("app");
    pilot.signal(Signal::SIGHUP);
    pilot.wait_for_line("on-sighup", "fired on SIGHUP");
    pilot.signal(Signal::SIGUSR2);
    pilot.wait_for_line("on-sigusr2", "fired on SIGUSR2");
    assert_eq!(pilot.pid_of("app"), before);
    assert_eq!(consul.statuses("app"), ["passing"]);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn sigterm_runs_the_jobs_before_and_after_the_end_and_withdraws_the_service() {
    let consul = Consul::start();
    let hooks = r#"{ name: "preStop", exec: "echo fired on app stopping", when: { source: "app", once: "stopping" } },
        { name: "postStop", exec: "echo fired on app stopped", when: { source: "app", once: "stopped" } },"#;
    let pilot = Pilot::start(&advertised(&consul, hooks));
    consul.wait_for_status("app", "passing");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.lines_of("preStop"), ["fired on app stopping"]);
    assert_eq!(pilot.lines_of("postStop"), ["fired on app stopped"]);
    pilot.assert_order(&["app stopping", "preStop exitSuccess", "app stopped", "postStop exitSuccess"]);
    consul.wait_for_absence("app");
}

#[test]
fn tasks_run_as_often_as_they_may_and_those_that_take_too_long_are_killed() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [
            { name: "task1", exec: ["sh", "-c", "sleep 0.05; echo done"], when: { interval: "1s" }, restarts: "2" },
            { name: "task2", exec: ["sh", "-c", "sleep 0.05; echo done"], timeout: "900ms", when: { interval: "1s" }, restarts: 2 },
            { name: "task3", exec: ["sh", "-c", "echo begun; sleep 100; echo done"], timeout: "50ms", when: { interval: "1s" }, restarts: "2" },
        ] }"#,
    );
    assert_ne!(exit, Exit::Code(0), "a task was killed");
    for task in ["task1", "task2"] {
        assert_eq!(pilot.lines_of(task), ["done"; 3], "{task}");
        assert_eq!(pilot.count(&format!("{task} exitSuccess")), 3, "{task}");
    }
    assert_eq!(pilot.count("task3 exitFailed"), 3);
    assert!(pilot.lines_of("task3").iter().all(|line| line == "begun"), "{:?}", pilot.lines_of("task3"));
}

#[test]
fn telemetry_metrics_and_status_are_served_and_the_service_comes_and_goes() {
    let consul = Consul::start();
    let port = free_port();
    let telemetry = format!(
        r#"], watches: [{{ name: "other", interval: 1 }}], telemetry: {{ port: {port}, interfaces: "static:127.0.0.1", metrics: [
            {{ namespace: "containerpilot", subsystem: "app", name: "some_counter", help: "help text", type: "counter" }} ] }} }}"#
    );
    let config = advertised(&consul, r#"{ name: "plain", exec: "sleep 1000" },"#);
    let (jobs, _) = config.rsplit_once("] }").unwrap();
    let pilot = Pilot::start(&format!("{jobs}{telemetry}"));
    consul.wait_for_status("containerpilot", "passing");
    consul.wait_for_status("app", "passing");
    pilot.tell(&["-putmetric", "containerpilot_app_some_counter=42"]);
    let metrics = get_port(port, "/metrics", "");
    assert_eq!(metrics.sample("containerpilot_app_some_counter").as_deref(), Some("42"));
    for family in
        ["containerpilot_events", "containerpilot_control_http_requests", "containerpilot_watch_instances"]
    {
        assert!(metrics.body.contains(&format!("\n{family}{{")), "{family}: {}", metrics.body);
    }
    let status = get_port(port, "/status", "").json();
    assert_eq!(status["Version"], env!("CARGO_PKG_VERSION"));
    // A job that is advertised is a service there, and only that.
    let jobs = status["Jobs"].as_array().unwrap();
    assert!(jobs.iter().any(|job| job["Name"] == "plain"), "{status}");
    let services = status["Services"].as_array().unwrap();
    let app = services.iter().find(|service| service["Name"] == "app").unwrap();
    assert_eq!(
        (&app["Address"], &app["Port"], &app["Status"]),
        (&"10.1.2.3".into(), &8000.into(), &"healthy".into())
    );
    assert!(status["Watches"].as_array().unwrap().iter().any(|watch| watch == "other"), "{status}");
    assert_eq!(pilot.stop(), Exit::Code(0));
    consul.wait_for_absence("containerpilot");
}

#[test]
fn version_is_printed_and_nothing_is_run() {
    let config = r#"{ jobs: [{ name: "app", exec: "touch {dir}/ran" }] }"#;
    for flag in ["-version", "--version", "-version=true"] {
        let pilot = Setup::new().config(config).arguments(&[flag]).start();
        assert_eq!(pilot.wait_exit(), Exit::Code(0));
        let text = pilot.log().text();
        assert!(text.starts_with(concat!("Version: ", env!("CARGO_PKG_VERSION"), "\nGitHash: ")), "{text}");
        assert!(!pilot.path("ran").exists());
    }
}
