//! Every file of `examples/`, as it is: it passes `check`, and does what its comments promise.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::support;
use crate::support::consul::{Consul, program};
use crate::support::http::get_port;
use crate::support::needs::has_programs;
use crate::support::ports::free_port;
use crate::support::terminal::Terminal;
use crate::support::{Exit, Pilot, Setup};
use nix::sys::signal::Signal;

/// Added to every example: a log that tests can read.
const LOGGING: &str = r#"{ logging: { format: "json", level: "DEBUG" } }"#;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// The PATH of someone who has installed the program; with the Consul of the tests, and where Debian has nginx.
fn search_path() -> String {
    let own = Path::new(support::program()).parent().unwrap();
    let consul = program().parent().unwrap();
    format!("{}:{}:{}:/usr/sbin", own.display(), consul.display(), std::env::var("PATH").unwrap())
}

/// An example about to run: unchanged, with its temporary files in the folder of the run.
fn prepared(name: &str) -> Setup {
    let setup = Setup::new();
    let (from, to) = (examples().join(name), setup.dir().join("configuration"));
    fs::create_dir(&to).unwrap();
    let files = if from.is_dir() {
        fs::read_dir(&from).unwrap().map(|entry| entry.unwrap().path()).collect()
    } else {
        vec![from]
    };
    for file in files {
        fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
    let setup = setup.file("configuration/zz-log.json5", LOGGING).env("TMPDIR", "{dir}");
    let setup = setup.env("CONTAINERPILOT", "{dir}/configuration").env("PATH", &search_path());
    setup.env("EXAMPLES", examples().to_str().unwrap())
}

/// Runs the program as a client of an example.
fn tell(pilot: &Pilot, arguments: &[&str]) {
    pilot.wait_for_event("global startup");
    let mut command = Command::new(support::program());
    command.env("TMPDIR", pilot.dir()).env("CONTAINERPILOT", pilot.path("configuration"));
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_example_passes_the_check_and_is_in_the_index() {
    let index = fs::read_to_string(examples().join("README.md")).unwrap();
    let mut found = 0;
    for entry in fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name == "README.md" {
            continue;
        }
        assert!(
            index.contains(&format!("({name})")) || index.contains(&format!("({name}/)")),
            "{name} is not in README.md"
        );
        let configurations: Vec<PathBuf> = match name.as_str() {
            "autopilot" => ["app", "consul", "nginx", "prometheus"]
                .map(|part| path.join(part).with_extension("json5"))
                .into(),
            "prometheus" => continue,
            _ if name.ends_with(".sh") => continue,
            _ => vec![path],
        };
        for configuration in configurations {
            let output = Command::new(support::program())
                .args(["check", "-config"])
                .arg(&configuration)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {said}", configuration.display());
            found += 1;
        }
    }
    assert!(found > 12, "only {found} examples");
}

#[test]
fn a_shell_at_the_terminal_ends_everything_when_it_ends() {
    let terminal = Terminal::new();
    let pilot = prepared("terminal.json5").at_terminal(&terminal).start();
    pilot.wait_for_message("started");
    terminal.line("tty; echo here$((1 + 1))");
    terminal.wait_for("here2");
    assert!(terminal.screen().contains("/dev/pts/"), "{}", terminal.screen());
    pilot.signal(Signal::SIGUSR1);
    pilot.wait_for_line("server", "asked to reopen its files");
    terminal.line("exit 5");
    assert_eq!(pilot.wait_exit(), Exit::Code(5));
}

#[test]
fn hello_greets_and_says_goodbye() {
    let pilot = prepared("hello.json5").env("USER", "you").start();
    pilot.wait_for_line("greeter", "hello, you");
    pilot.wait_for_event("greeter healthy");
    pilot.wait_for_event("clock exitSuccess");
    assert_eq!(pilot.stop(), Exit::Code(0));
    pilot.wait_for_line("greeter", "goodbye");
    pilot.assert_order(&["prepare exitSuccess", "greeter healthy", "greeter stopped"]);
}

#[test]
fn jobs_wait_until_servers_say_that_they_can_be_used() {
    let pilot = prepared("readiness.json5").start();
    pilot.wait_for_line("app", "app: db and cache can be used");
    pilot.wait_for_event("report exitSuccess");
    assert_eq!(pilot.stop(), Exit::Code(0));
    pilot.assert_order(&["db ready", "app ready", "app stopping", "app stopped", "db stopping"]);
    pilot.assert_order(&["cache ready", "app ready", "app stopped", "cache stopping"]);
    pilot.assert_order(&["db ready", "report ready"]);
}

#[test]
fn a_server_that_hangs_is_ended_by_its_watchdog_and_started_again() {
    if !has_programs(&["python3"]) {
        return;
    }
    let pilot = prepared("watchdog.json5").start();
    pilot.wait_for_line("user", "user: the server can be used");
    pilot.wait_for_line("server", "server: hangs");
    pilot.wait_for_events("server ready", 2);
    pilot.assert_order(&["server ready", "user ready", "server exitFailed", "server ready"]);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_group_restarts_those_after_the_job_that_ended() {
    let pilot = prepared("groups.json5").start();
    pilot.wait_for_line("greet", "the shop is open");
    tell(&pilot, &["signal", "app", "SIGKILL"]);
    pilot.wait_for_events("greet exitSuccess", 2);
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!((pilot.count("db ready"), pilot.count("app ready"), pilot.count("web ready")), (1, 2, 2));
}

#[test]
fn a_chain_starts_link_by_link_and_stops_the_app_before_what_it_needs() {
    let pilot = prepared("chain.json5").start();
    pilot.wait_for_line("announce", "everything is up");
    pilot.wait_for_event("announce exitSuccess");
    assert_eq!(pilot.stop(), Exit::Code(0));
    pilot.assert_order(&["database healthy", "migrate exitSuccess", "app healthy", "announce exitSuccess"]);
    assert!(pilot.at("cache healthy") < pilot.at("app healthy"));
    assert!(
        pilot.at("app stopped") < pilot.at("cache stopping"),
        "the app has waited for the cache's health"
    );
}

#[test]
fn hooks_run_before_the_start_before_the_end_and_after_it() {
    let pilot = prepared("hooks.json5").start();
    pilot.wait_for_line("app", "serving");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.lines_of("pre-start"), ["fetching the configuration"]);
    assert_eq!(pilot.lines_of("pre-stop"), ["handing over", "handed over"]);
    assert_eq!(pilot.lines_of("post-stop"), ["cleaning up"]);
    pilot.assert_order(&[
        "pre-start exitSuccess",
        "app stopping",
        "pre-stop exitSuccess",
        "app stopped",
        "post-stop exitSuccess",
    ]);
}

#[test]
fn a_periodic_task_that_fails_raises_an_alarm() {
    let pilot = prepared("periodic.json5").env("INTERVAL", "100ms").start();
    pilot.wait_for_line("backup", "backup done");
    fs::write(pilot.path("disk-full"), "").unwrap();
    pilot.wait_for_line("alarm", "ALARM: backup: exitFailed");
    fs::remove_file(pilot.path("disk-full")).unwrap();
    let before = pilot.count("backup exitSuccess");
    pilot.wait_for_events("backup exitSuccess", before + 2);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_schedule_runs_by_the_clock() {
    let pilot = prepared("schedule.json5").env("EVERY", "* * * * * *").start();
    pilot.wait_for_event("report exitSuccess");
    assert!(pilot.lines_of("report")[0].starts_with("it is "));
    pilot.wait_for_event("clean exitSuccess");
    assert_eq!(pilot.count("backup exitSuccess"), 0);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn restart_rules_try_again_after_a_failure_and_restart_what_is_ill() {
    let pilot = prepared("restarts.json5").env("INTERVAL", "100ms").start();
    pilot.wait_for_line("report", "all in sync");
    assert_eq!(pilot.lines_of("sync"), ["try 1", "try 2", "try 3"]);
    assert!(!pilot.path("tries").exists(), "the next run counts from 1");
    pilot.wait_for_event("server healthy");
    fs::write(pilot.path("ill"), "").unwrap();
    pilot.wait_for_events("server healthy", 2);
    pilot.assert_order(&["server unhealthy", "server stopping", "server stopped", "server healthy"]);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn secrets_are_read_at_each_start() {
    let pilot = prepared("secrets.json5").start();
    pilot.wait_for_line("app", "production, with a password of 8 letters");
    fs::write(pilot.path("password"), "a longer password\n").unwrap();
    tell(&pilot, &["restart", "app"]);
    pilot.wait_for_line("app", "production, with a password of 17 letters");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_consul_agent_in_the_container_starts_first_and_stops_last() {
    if !has_programs(&["python3"]) {
        return;
    }
    let [http, server, gossip, port] = [(); 4].map(|()| free_port().to_string());
    let setup = prepared("consul-agent.json5").env("CONSUL_PORT", &http).env("SERVER_PORT", &server);
    let pilot = setup.env("GOSSIP_PORT", &gossip).env("PORT", &port).start();
    pilot.wait_for_event("app healthy");
    pilot.eventually("the app is registered", || {
        let answer = get_port(http.parse().unwrap(), "/v1/agent/checks", "");
        answer.body.contains("passing")
    });
    assert_eq!(pilot.stop(), Exit::Code(0));
    pilot.assert_order(&["consul-agent healthy", "app healthy", "app stopped", "consul-agent stopping"]);
}

/// Answers every request with this name, until the test ends.
fn serve(name: &'static str) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
        }
    });
    port
}

#[test]
fn the_upstreams_of_nginx_follow_consul() {
    if !has_programs(&["nginx", "curl", "jq", "python3"]) {
        return;
    }
    let consul = Consul::start();
    let (nginx, app, other) = (free_port(), free_port(), serve("the other"));
    let setup = prepared("nginx.json5").env("CONSUL_HTTP_ADDR", &consul.address());
    let pilot = setup.env("NGINX_PORT", &nginx.to_string()).env("PORT", &app.to_string()).start();
    pilot.eventually("the app answers through nginx", || get_port(nginx, "/", "").body.contains("Directory"));
    let registration = format!(r#"{{"ID":"other","Name":"app","Address":"127.0.0.1","Port":{other}}}"#);
    consul.put("/v1/agent/service/register", &registration);
    pilot.eventually("the other answers through nginx", || get_port(nginx, "/", "").body == "the other");
    tell(&pilot, &["stop", "app"]);
    pilot.eventually("only the other answers", || {
        (0..10).all(|_| get_port(nginx, "/", "").body == "the other")
    });
    assert_eq!(pilot.count("upstreams exitFailed"), 0);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_hard_dependency_waits_for_the_database_and_a_soft_one_hears_of_it() {
    let consul = Consul::start();
    let pilot = prepared("database.json5").env("CONSUL_HTTP_ADDR", &consul.address()).start();
    pilot.wait_for_line("catalogue", "showing what is in the cache");
    pilot.wait_for_line("no-database", "there is no database");
    assert_eq!(pilot.lines_of("orders"), [""; 0]);
    consul.register("database", "database-1", 5432, &[]);
    pilot.wait_for_line("orders", "taking orders");
    pilot.wait_for_line("catalogue", "looking again for a database");
    consul.put("/v1/agent/service/deregister/database-1", "");
    pilot.wait_for_events("no-database exitSuccess", 2);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_coprocess_ends_with_the_application_whose_status_counts() {
    let pilot = prepared("coprocess.json5").env("STATUS", "3").start();
    pilot.wait_for_line("shipper", "request 1");
    assert_eq!(pilot.wait_exit(), Exit::Code(3));
    pilot.assert_order(&["preStart exitSuccess", "app exitFailed", "shipper stopped"]);
}

#[test]
fn signals_reach_the_jobs_that_they_are_meant_for() {
    let pilot = prepared("signals.json5").start();
    pilot.wait_for_line("app", "serving");
    pilot.signal(Signal::SIGHUP);
    pilot.wait_for_line("app", "HUP: reading my configuration");
    pilot.signal(Signal::SIGUSR2);
    pilot.wait_for_line("on-usr2", "taking a snapshot");
    tell(&pilot, &["signal", "app", "SIGUSR1"]);
    pilot.wait_for_line("app", "USR1: rotating logs");
    assert_eq!(pilot.stop(), Exit::Code(0));
    pilot.wait_for_line("app", "QUIT: bye");
}

#[test]
fn a_sensor_measures_and_prometheus_can_read() {
    let port = free_port();
    let pilot = prepared("telemetry.json5").env("TELEMETRY_PORT", &port.to_string()).start();
    pilot.wait_for_events("sensor exitSuccess", 2);
    let metrics = get_port(port, "/metrics", "");
    let sample = |name: &str| metrics.sample(name).unwrap_or_default().parse::<f64>().unwrap_or_default();
    assert!(sample("app_queue_length") > 0.0, "{}", metrics.body);
    assert!(sample("app_measurements_total") >= 2.0, "{}", metrics.body);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn in_maintenance_the_service_is_not_discovered_and_runs_on() {
    if !has_programs(&["python3"]) {
        return;
    }
    let consul = Consul::start();
    let port = free_port();
    let setup = prepared("maintenance.json5").env("CONSUL_HTTP_ADDR", &consul.address());
    let pilot = setup.env("PORT", &port.to_string()).start();
    consul.wait_for_status("app", "passing");
    tell(&pilot, &["-maintenance", "enable"]);
    pilot.wait_for_line("close", "closed for maintenance");
    consul.wait_for_absence("app");
    assert_eq!(get_port(port, "/", "").status, 200);
    tell(&pilot, &["-maintenance", "disable"]);
    pilot.wait_for_line("open", "open again");
    consul.wait_for_status("app", "passing");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.count("app exitFailed"), 1, "it has ended once, when everything did");
}

#[test]
fn a_later_file_of_a_directory_wins() {
    let pilot = prepared("directory").start();
    pilot.wait_for_line("app", "serving");
    pilot.wait_for_line("backup", "backup");
    pilot.wait_for_line("clean", "cleaning every second");
    pilot.wait_for_events("clean exitSuccess", 2);
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(pilot.lines_of("clean").iter().all(|line| line == "cleaning every second"));
}

#[test]
fn a_command_is_the_essential_job_with_jobs_around_it_or_without() {
    let pilot = prepared("command.json5").arguments(&["--", "sh", "-c", "echo working; exit 7"]).start();
    assert_eq!(pilot.wait_exit(), Exit::Code(7));
    assert_eq!(pilot.lines_of("main"), ["working"]);
    assert_eq!(pilot.lines_of("goodbye"), ["goodbye"]);

    let alone = Setup::new().arguments(&["--", "sh", "-c", "exit 7"]).start();
    assert_eq!(alone.wait_exit(), Exit::Code(7));
}

#[test]
fn the_names_in_the_comments_of_examples_are_right() {
    for entry in fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !path.is_file() || !name.ends_with(".json5") || name == "hello.json5" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(&format!("examples/{name}")), "{name} does not say how to run it");
        let socket = format!("/containerpilot-{}.socket", name.trim_end_matches(".json5"));
        assert!(text.contains(&socket), "{name} has no control socket of its own");
    }
}
