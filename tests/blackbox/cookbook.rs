//! Every configuration of `docs/cookbook.md`, as it stands there, does what its page says. Programs that are not here are
//! played by small scripts.

use std::fs;
use std::path::Path;

use crate::support;
use crate::support::consul::program;
use crate::support::http::get_port;
use crate::support::needs::has_programs;
use crate::support::ports::free_port;
use crate::support::{Exit, Pilot, Setup};
use nix::sys::signal::Signal;

/// Added to every recipe: a log that tests can read, and a control socket of its own.
const OURS: &str =
    r#"{ logging: { format: "json", level: "DEBUG" }, control: { socket: "{dir}/control.socket" } }"#;

/// The configuration below a heading of the page.
fn recipe(heading: &str) -> String {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cookbook.md")).unwrap();
    let (_, section) =
        page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let (_, block) = section.split_once("```json5\n").unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

/// A recipe about to run, with these scripts on its PATH.
fn prepared(heading: &str, scripts: &[(&str, &str)]) -> Setup {
    let setup = Setup::new();
    for folder in ["configuration", "bin"] {
        fs::create_dir(setup.dir().join(folder)).unwrap();
    }
    fs::write(setup.dir().join("configuration/10-recipe.json5"), recipe(heading)).unwrap();
    let setup = setup.file("configuration/20-test.json5", OURS);
    let setup = scripts.iter().fold(setup, |setup, (name, script)| {
        setup.program(&format!("bin/{name}"), &format!("#!/bin/sh\n{script}\n"))
    });
    let own = Path::new(support::program()).parent().unwrap();
    let consul = program().parent().unwrap();
    let rest = std::env::var("PATH").unwrap();
    let path = format!("{{dir}}/bin:{}:{}:{rest}:/usr/sbin", own.display(), consul.display());
    setup.env("CONTAINERPILOT", "{dir}/configuration").env("PATH", &path)
}

/// Ends the program and expects that it does so in order.
fn ends_well(pilot: &Pilot) {
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn nginx_serves_the_application_from_its_first_request_on_and_reloads_on_sighup() {
    if !has_programs(&["nginx", "python3"]) {
        return;
    }
    let (port, app) = (free_port(), free_port());
    let conf = format!(
        "pid {{dir}}/nginx.pid; worker_processes 1; events {{}} \
         http {{ access_log off; client_body_temp_path {{dir}}/b; proxy_temp_path {{dir}}/p; \
         fastcgi_temp_path {{dir}}/f; uwsgi_temp_path {{dir}}/u; scgi_temp_path {{dir}}/s; \
         server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{app}; }} \
         location = /version {{ return 200 one; }} }} }}"
    );
    let setup = prepared("A web server and an application", &[]).file("nginx.conf", &conf);
    let setup = setup.file("page.txt", "from the application").env("NGINX_CONF", "{dir}/nginx.conf");
    let pilot = setup.env("PORT", &port.to_string()).env("APP_PORT", &app.to_string()).start();
    pilot.wait_for_event("nginx healthy");
    assert_eq!(get_port(port, "/page.txt", "").body, "from the application");
    assert_eq!(get_port(port, "/version", "").body, "one");
    fs::write(pilot.path("nginx.conf"), pilot.text("nginx.conf").replace("200 one", "200 two")).unwrap();
    pilot.signal(Signal::SIGHUP);
    pilot.eventually("nginx has read its configuration", || get_port(port, "/version", "").body == "two");
    ends_well(&pilot);
    pilot.assert_order(&["app healthy", "nginx healthy", "nginx stopped", "app stopped"]);
}

const DATABASE: [(&str, &str); 6] = [
    ("postgres", "trap 'echo fast shutdown; exit 0' INT; touch {dir}/up; while :; do sleep 0.05; done"),
    ("pg_isready", "test -e {dir}/up"),
    ("migrate", "echo migrate $1; test ! -e {dir}/broken"),
    ("app-server", "echo serving; exec sleep 1000"),
    ("backup-to-storage", "echo saving; test ! -e {dir}/full"),
    ("send-alarm", "echo alarm: $@"),
];

#[test]
fn the_application_starts_after_the_migration_and_the_database_stops_last() {
    let pilot = prepared("A database with migration and backup", &DATABASE).start();
    pilot.wait_for_line("app", "serving");
    pilot.wait_for_line("backup", "saving");
    ends_well(&pilot);
    pilot.assert_order(&["db healthy", "migrate exitSuccess", "app stopped", "db stopped"]);
    assert!(pilot.lines_of("db").iter().any(|line| line == "fast shutdown"), "{:?}", pilot.lines_of("db"));
    assert_eq!(pilot.lines_of("migrate"), ["migrate up"]);
}

#[test]
fn a_backup_that_fails_raises_an_alarm_and_a_migration_that_fails_ends_the_container() {
    let setup = prepared("A database with migration and backup", &DATABASE).file("full", "");
    let pilot = setup.start();
    pilot.wait_for_line("alarm", "alarm: backup failed");
    ends_well(&pilot);
    let setup = prepared("A database with migration and backup", &DATABASE).file("broken", "");
    let pilot = setup.start();
    assert_eq!(pilot.wait_exit(), Exit::Code(1));
    assert_eq!(pilot.lines_of("app"), [""; 0]);
}

#[test]
fn there_are_as_many_workers_as_asked_for_and_a_reload_leaves_them_alone() {
    let scripts = [("worker", "trap 'exit 0' TERM; echo worker $2; while :; do sleep 0.05; done")];
    let pilot = prepared("A pool of workers", &scripts).env("WORKERS", "2").start();
    for number in 0..2 {
        pilot.wait_for_line(&format!("worker-{number}"), &format!("worker {number}"));
    }
    let before = pilot.pid_of("worker-1");
    let socket = pilot.socket();
    let socket = socket.to_str().unwrap();
    let tell = |arguments: &[&str]| {
        let arguments = [&["-socket", socket], arguments].concat();
        let output = std::process::Command::new(support::program()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    tell(&["-putenv", "WORKERS=3"]);
    assert_eq!(tell(&["-reload"]), "started: worker-2\nkept: worker-0, worker-1\n");
    pilot.wait_for_line("worker-2", "worker 2");
    assert_eq!(pilot.pid_of("worker-1"), before);
    ends_well(&pilot);
}

#[test]
fn tasks_run_at_startup_and_their_failures_are_counted() {
    let scripts = [("clean-up", "echo cleaned $@"), ("write-report", "echo no paper; exit 3")];
    let port = free_port();
    let pilot = prepared("Periodic tasks", &scripts).env("METRICS_PORT", &port.to_string()).start();
    pilot.wait_for_line("clean", "cleaned --older-than 7d");
    pilot.wait_for_event("count-report exitSuccess");
    assert_eq!(get_port(port, "/metrics", "").sample("tasks_failures").as_deref(), Some("1"));
    ends_well(&pilot);
    assert_eq!(pilot.count("count-clean exitSuccess"), 0);
}

#[test]
fn the_agent_starts_first_and_stops_last_and_changes_of_another_service_are_heard() {
    if !has_programs(&["python3"]) {
        return;
    }
    let [http, server, gossip, port] = [(); 4].map(|()| free_port().to_string());
    let scripts = [("update-connections", "echo connections updated")];
    let setup = prepared("An application with a Consul agent", &scripts).env("CONSUL_PORT", &http);
    let pilot = setup.env("SERVER_PORT", &server).env("GOSSIP_PORT", &gossip).env("PORT", &port).start();
    pilot.wait_for_event("app healthy");
    let agent: u16 = http.parse().unwrap();
    pilot.eventually("the application is registered", || {
        get_port(agent, "/v1/agent/checks", "").body.contains("passing")
    });
    let stream = std::net::TcpStream::connect(("127.0.0.1", agent)).unwrap();
    let service = r#"{"Name":"db","Port":5432}"#;
    let answer = support::http::request(stream, "PUT", "/v1/agent/service/register", "", service);
    assert_eq!(answer.status, 200, "{}", answer.body);
    pilot.wait_for_line("use-db", "connections updated");
    ends_well(&pilot);
    pilot.assert_order(&["consul-agent healthy", "app healthy", "app stopped", "consul-agent stopping"]);
}

#[test]
fn every_recipe_is_run_by_a_test() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cookbook.md")).unwrap();
    let tests =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blackbox/cookbook.rs")).unwrap();
    let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert!(headings.len() >= 5, "{headings:?}");
    for heading in headings {
        assert!(tests.contains(&format!("prepared({heading:?}")), "no test runs {heading:?}");
    }
}
