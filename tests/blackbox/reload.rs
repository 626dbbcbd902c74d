//! Reloads at every moment of the program's life: what they leave alone, what they answer, and that nothing leaks.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use crate::support::http::{Answer, answer, connect, get_port, request};
use crate::support::ports::free_port;
use crate::support::record::are_all_recorded;
use crate::support::{Exit, Pilot, Setup, open_files, resident_kib, threads};
use nix::sys::signal::Signal;

const TWO: &str = r#"{ jobs: [
    { name: "app", exec: "sleep 1000", restarts: "unlimited" },
    { name: "two", exec: "sleep 1001", restarts: "unlimited" },
] }"#;

/// A job that ignores SIGTERM until there is a file `go`, and tells if it ever runs twice at once.
const STUBBORN: &str = r#"{ stopTimeout: "60s", jobs: [
    { name: "app", killTimeout: "60s", exec: ["sh", "-c",
      "trap '' TERM; mkdir {dir}/lock || echo twice >> {dir}/twice; echo version 1; while ! test -e {dir}/go; do sleep 0.02; done; rmdir {dir}/lock"] },
    { name: "other", exec: "sleep 1000" },
] }"#;

fn start_stubborn() -> Pilot {
    let pilot = Pilot::start(STUBBORN);
    pilot.wait_for_line("app", "version 1");
    pilot
}

/// A reload that was asked for; its answer may take a while.
fn reloading(pilot: &Pilot) -> JoinHandle<Answer> {
    let mut stream = pilot.connect();
    let head = "PUT /v3/reload HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    thread::spawn(move || answer(stream))
}

fn reloads(pilot: &Pilot) -> usize {
    pilot.log().with_records(|records| records.iter().filter(|record| record.message == "reloaded").count())
}

fn let_go(pilot: &Pilot) {
    fs::write(pilot.path("go"), "").unwrap();
}

#[test]
fn a_reload_during_startup_lets_it_go_on() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "preStart", exec: ["sh", "-c", "while ! test -e {dir}/go; do sleep 0.02; done"] },
            { name: "app", exec: "echo version 1", when: { source: "preStart", once: "exitSuccess" } },
            { name: "rest", exec: "sleep 1000" } ] }"#,
    );
    pilot.wait_for_event("global startup");
    pilot.eventually("preStart runs", || pilot.status_of("preStart")["state"] == "running");
    let before = pilot.pid_of("preStart");
    assert_eq!(pilot.tell(&["-reload"]), "kept: preStart, app, rest\n");
    pilot.edit("version 1", "version 2");
    assert_eq!(pilot.tell(&["-reload"]), "stopped: app\nstarted: app\nkept: preStart, rest\n");
    assert_eq!(pilot.pid_of("preStart"), before);
    assert_eq!(pilot.status_of("app")["state"], "waiting");
    let_go(&pilot);
    pilot.wait_for_line("app", "version 2");
    assert_eq!(pilot.count("preStart exitSuccess"), 1);
    assert_eq!(pilot.lines_of("app"), ["version 2"]);
}

#[test]
fn hang_ups_right_after_startup_collapse_and_disturb_nothing() {
    let pilot = Pilot::start(TWO);
    pilot.wait_for_event("global startup");
    for _ in 0..20 {
        pilot.signal(Signal::SIGHUP);
    }
    pilot.wait_for_message("reloaded");
    pilot.eventually("both run", || {
        ["app", "two"].iter().all(|job| pilot.status_of(job)["state"] == "running")
    });
    assert_eq!(pilot.count("app stopping"), 0);
    pilot.eventually("each has one process", || pilot.processes().len() == 3);
}

#[test]
fn a_reload_during_a_restart_delay_changes_it_only_for_what_changed() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "same", exec: "false", restarts: "unlimited", backoff: { min: "1h", max: "1h" } },
            { name: "crash", exec: ["sh", "-c", "echo version 1; exit 1"], restarts: "unlimited", backoff: { min: "1h", max: "1h" } },
            { name: "rest", exec: "sleep 1000" } ] }"#,
    );
    let delayed = |job: &str| pilot.status_of(job)["state"] == "delayed";
    pilot.eventually("both wait", || delayed("same") && delayed("crash"));
    assert_eq!(pilot.tell(&["-reload"]), "kept: same, crash, rest\n");
    assert!(delayed("same") && delayed("crash"));
    pilot.edit("version 1", "version 2");
    assert_eq!(pilot.tell(&["-reload"]), "stopped: crash\nstarted: crash\nkept: same, rest\n");
    pilot.wait_for_line("crash", "version 2");
    pilot.eventually("it waits again", || delayed("crash"));
    assert_eq!(pilot.status_of("crash")["restarts"], 0, "its restarts begin anew");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!((pilot.count("same exitFailed"), pilot.count("crash exitFailed")), (1, 2));
}

#[test]
fn reloads_while_one_still_stops_a_stubborn_job_wait_and_collapse() {
    let pilot = start_stubborn();
    let other = pilot.pid_of("other");
    pilot.edit("version 1", "version 2");
    let first = reloading(&pilot);
    pilot.wait_for_event("app stopping");
    pilot.edit("version 2", "version 3");
    let more: Vec<_> = (0..50).map(|_| reloading(&pilot)).collect();
    assert_eq!(pilot.ask("GET", "/v3/ping", "").status, 200);
    let refused = pilot.ask("PUT", "/v3/jobs/app/restart", "");
    assert_eq!((refused.status, refused.json()["error"].as_str()), (409, Some("a reload is under way")));
    let dry = pilot.ask("PUT", "/v3/reload", r#"{"dryRun":true}"#);
    assert_eq!((dry.status, dry.json()["kept"][0].as_str()), (200, Some("other")));
    assert!(!first.is_finished());
    let_go(&pilot);
    for reload in [first].into_iter().chain(more) {
        let answer = reload.join().unwrap();
        assert_eq!((answer.status, answer.json()["kept"][0].as_str()), (200, Some("other")), "{answer:?}");
    }
    pilot.wait_for_line("app", "version 3");
    assert!(reloads(&pilot) <= 3, "{} reloads for 51 requests", reloads(&pilot));
    assert!(!pilot.path("twice").exists(), "it ran twice at once");
    assert_eq!(pilot.pid_of("other"), other);
}

#[test]
fn a_reload_during_shutdown_is_refused_and_says_why() {
    let pilot = start_stubborn();
    pilot.edit("version 1", "version 2");
    let under_way = reloading(&pilot);
    pilot.wait_for_event("app stopping");
    pilot.signal(Signal::SIGTERM);
    let answer = under_way.join().unwrap();
    let why = Some("the program is shutting down");
    assert_eq!((answer.status, answer.json()["error"].as_str()), (409, why));
    pilot.wait_for_event("global shutdown");
    for (path, body) in [("/v3/reload", ""), ("/v3/reload", r#"{"dryRun":true}"#), ("/v3/jobs/app/start", "")]
    {
        let answer = pilot.ask("PUT", path, body);
        assert_eq!((answer.status, answer.json()["error"].as_str()), (409, why), "{path} {body}");
    }
    let output = pilot.client(&["-reload"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "containerpilot: the program is shutting down\n");
    pilot.signal(Signal::SIGHUP);
    pilot.wait_for_message("no reload while shutting down");
    let_go(&pilot);
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert_eq!(pilot.lines_of("app"), ["version 1"]);
}

#[test]
fn a_stubborn_job_that_holds_a_reload_can_be_killed_by_hand() {
    let pilot = start_stubborn();
    pilot.edit("version 1", "version 2");
    let under_way = reloading(&pilot);
    pilot.wait_for_event("app stopping");
    pilot.tell(&["signal", "app", "KILL"]);
    pilot.wait_for_message("by hand: SIGKILL");
    assert_eq!(under_way.join().unwrap().status, 200);
    pilot.wait_for_line("app", "version 2");
}

#[test]
fn maintenance_survives_a_reload_and_its_end_reaches_new_jobs() {
    let port = free_port();
    let pilot = Pilot::start(&format!(
        r#"{{ telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"] }}, jobs: [
            {{ name: "app", exec: "sleep 1000", health: {{ exec: "true", interval: "100ms", timeout: "10s" }} }},
            {{ name: "enter", exec: "echo entered", when: {{ each: "enterMaintenance" }} }},
            // more
        ] }}"#
    ));
    pilot.wait_for_event("app healthy");
    pilot.tell(&["-maintenance", "enable"]);
    pilot.wait_for_line("enter", "entered");
    pilot.edit("sleep 1000", "sleep 1001");
    pilot.edit("// more", r#"{ name: "exit", exec: "echo exited", when: { each: "exitMaintenance" } },"#);
    assert_eq!(pilot.tell(&["-reload"]), "stopped: app\nstarted: app, exit\nkept: enter\n");
    pilot.eventually("app runs anew", || pilot.status_of("app")["state"] == "running");
    pilot.eventually("its health is shown", || pilot.status_of("app")["health"] == "maintenance");
    assert_eq!(pilot.ask("PUT", "/v3/maintenance/enable", "").json()["updated"], false);
    assert_eq!(get_port(port, "/metrics", "").sample("containerpilot_maintenance").as_deref(), Some("1"));
    assert_eq!(pilot.count("app healthy"), 1);
    pilot.tell(&["-maintenance", "disable"]);
    pilot.wait_for_line("exit", "exited");
    pilot.wait_for_events("app healthy", 2);
    assert_eq!(get_port(port, "/metrics", "").sample("containerpilot_maintenance").as_deref(), Some("0"));
    assert_eq!(pilot.lines_of("enter"), ["entered"]);
}

#[test]
fn templates_see_at_the_next_reload_what_the_environment_was_set_to() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: ["sh", "-c", "echo word={{ .WORD }}; exec sleep 1000"] },
                    { name: "rest", exec: "sleep 1000" }] }"#,
    );
    pilot.wait_for_line("app", "word=");
    pilot.tell(&["-putenv", "WORD=a=b"]);
    assert_eq!(pilot.tell(&["-reload"]), "stopped: app\nstarted: app\nkept: rest\n");
    pilot.wait_for_line("app", "word=a=b");
    assert_eq!(pilot.tell(&["-reload"]), "kept: app, rest\n");
    pilot.tell(&["-putenv", "WORD"]);
    assert_eq!(pilot.tell(&["-reload", "--dry-run"]).lines().next(), Some("would be stopped: app"));
}

#[test]
fn what_counts_as_changed_is_the_validated_job_and_not_its_text() {
    let pilot = Pilot::start(TWO);
    pilot.eventually("app runs", || pilot.status_of("app")["state"] == "running");
    pilot.edit(
        r#"name: "app", exec: "sleep 1000""#,
        r#"// the main thing
        exec: ["sleep", "1000"], "name": 'app', when: { once: "startup" }"#,
    );
    assert_eq!(pilot.tell(&["-reload"]), "kept: app, two\n");
}

/// Resident kilobytes, open files and threads, but for those that start processes: how many were needed at once depends on the
/// machine.
fn used(pilot: &Pilot) -> (u64, usize, usize) {
    let pid = pilot.pid();
    let threads = threads(pid).iter().filter(|name| *name != "spawner").count();
    (resident_kib(pid), open_files(pid), threads)
}

#[test]
fn a_thousand_reloads_restart_nothing_and_leak_nothing() {
    let pilot = Pilot::start(TWO);
    pilot.eventually("both run", || {
        ["app", "two"].iter().all(|job| pilot.status_of(job)["state"] == "running")
    });
    let pids = (pilot.pid_of("app"), pilot.pid_of("two"));
    let mut stream = pilot.connect();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut reload = || {
        stream.write_all(b"PUT /v3/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").unwrap();
        let mut line = String::new();
        while !line.ends_with("}\n") {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0);
        }
        assert!(line.contains(r#""kept":["app","two"]"#), "{line}");
    };
    (0..100).for_each(|_| reload());
    let before = used(&pilot);
    (0..1000).for_each(|_| reload());
    // Those that read configurations linger for ten seconds; one for everything and one for the log remain.
    // A record has a thread of its own.
    let threads = if are_all_recorded() { 3 } else { 2 };
    pilot.eventually("no other thread is left", || used(&pilot).2 <= threads);
    let after = used(&pilot);
    assert_eq!(before.1, after.1, "file descriptors");
    assert!(after.0 < before.0 + 2048, "{} kB became {} kB", before.0, after.0);
    assert_eq!((pilot.pid_of("app"), pilot.pid_of("two")), pids);
    assert_eq!(pilot.count("app stopping") + pilot.count("two stopping"), 0);
}

/// With a control socket at `old`, and a telemetry port.
fn start_movable() -> (Pilot, u16) {
    let port = free_port();
    let pilot = Pilot::start(&format!(
        r#"{{ control: {{ socket: "{{dir}}/old" }}, telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"] }},
              jobs: [{{ name: "app", exec: "sleep 1000" }}] }}"#
    ));
    pilot.wait_for_event("global startup");
    pilot.eventually("app runs", || {
        ask(&pilot, "old", "GET", "/v3/status").json()["jobs"][0]["pid"].is_number()
    });
    (pilot, port)
}

fn ask(pilot: &Pilot, socket: &str, method: &str, path: &str) -> Answer {
    request(connect(&pilot.path(socket)), method, path, "", "")
}

#[test]
fn a_place_that_cannot_be_bound_refuses_the_whole_reload() {
    let (pilot, port) = start_movable();
    let pid = ask(&pilot, "old", "GET", "/v3/status").json()["jobs"][0]["pid"].clone();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let taken = taken.local_addr().unwrap().port().to_string();
    let good = pilot.text("containerpilot.json5");
    for (old, new, words) in [
        ("/old", "/missing/new", "does not exist"),
        ("/old", "/containerpilot.json5", "expected the path of a socket"),
        (port.to_string().as_str(), taken.as_str(), "cannot serve telemetry on 127.0.0.1:"),
    ] {
        pilot.edit(old, new);
        pilot.edit("sleep 1000", "sleep 1001");
        pilot.edit(
            "static:127.0.0.1\"]",
            "static:127.0.0.1\"], metrics: [{ name: \"new\", type: \"gauge\", help: \"x\" }]",
        );
        let answer = ask(&pilot, "old", "PUT", "/v3/reload");
        assert_eq!(answer.status, 422, "{answer:?}");
        assert!(answer.json()["error"].as_str().unwrap().contains(words), "{answer:?}");
        let status = ask(&pilot, "old", "GET", "/v3/status").json();
        assert_eq!(status["jobs"][0]["pid"], pid);
        assert!(!get_port(port, "/metrics", "").body.contains("\nnew 0"));
        fs::write(pilot.config(), &good).unwrap();
    }
    // If both move and one cannot, the other stays.
    let free = free_port();
    pilot.edit(&port.to_string(), &free.to_string());
    pilot.edit("/old", "/missing/new");
    assert_eq!(ask(&pilot, "old", "PUT", "/v3/reload").status, 422);
    assert_eq!((get_port(port, "/healthz", "").status, get_port(free, "/healthz", "").status), (200, 0));
    assert_eq!(pilot.count("app stopping"), 0);
}

#[test]
fn a_log_that_cannot_be_opened_refuses_the_reload_and_no_new_place_is_served() {
    let (pilot, port) = start_movable();
    let free = free_port();
    pilot.edit(&port.to_string(), &free.to_string());
    pilot.edit("/old", "/new");
    let missing = pilot.path("missing/log");
    pilot.edit("jobs:", &format!("logging: {{ output: {missing:?} }}, jobs:"));
    let answer = ask(&pilot, "old", "PUT", "/v3/reload");
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(answer.json()["error"].as_str().unwrap().contains("missing/log"), "{answer:?}");
    pilot.eventually("the new control socket is gone", || !pilot.path("new").exists());
    pilot.eventually("the new port is closed", || get_port(free, "/healthz", "").status == 0);
    assert_eq!(get_port(port, "/healthz", "").status, 200);
    assert_eq!(ask(&pilot, "old", "GET", "/v3/ping").status, 200);
}

#[test]
fn each_problem_of_a_reload_that_is_refused_is_a_record() {
    let pilot = Pilot::start(TWO);
    pilot.wait_for_event("global startup");
    pilot.edit("jobs:", "nonsense: 1, absurd: 2, jobs:");
    assert_eq!(pilot.ask("PUT", "/v3/reload", "").status, 422);
    for key in ["nonsense", "absurd"] {
        let record = pilot.wait_for_message(key);
        assert!(record.level == "warning" && !record.message.contains('\n'), "{record:?}");
    }
}

#[test]
fn a_consul_that_cannot_be_spoken_to_refuses_the_reload() {
    let pilot = Pilot::start(TWO);
    pilot.wait_for_event("global startup");
    fs::write(pilot.path("ca.pem"), "no certificate").unwrap();
    let ca = pilot.path("ca.pem");
    pilot.edit(
        "jobs:",
        &format!("consul: {{ address: 'https://127.0.0.1:1', tls: {{ cafile: {ca:?} }} }}, jobs:"),
    );
    let answer = pilot.ask("PUT", "/v3/reload", "");
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(answer.json()["error"].as_str().unwrap().contains("ca.pem"), "{answer:?}");
}

#[test]
fn a_port_that_our_own_address_for_all_blocks_is_explained() {
    let (pilot, _) = start_movable();
    pilot.edit("static:127.0.0.1", "static:0.0.0.0");
    let answer = ask(&pilot, "old", "PUT", "/v3/reload");
    assert_eq!(answer.status, 422);
    assert!(answer.json()["error"].as_str().unwrap().contains("move it to another port first"), "{answer:?}");
}

#[test]
fn both_places_are_served_while_the_old_jobs_stop() {
    let pilot = start_stubborn();
    pilot.edit("control.socket", "new.socket");
    pilot.edit("version 1", "version 2");
    let under_way = reloading(&pilot);
    pilot.wait_for_event("app stopping");
    for socket in ["control.socket", "new.socket"] {
        assert_eq!(ask(&pilot, socket, "GET", "/v3/ping").status, 200, "{socket}");
    }
    let_go(&pilot);
    assert_eq!(under_way.join().unwrap().status, 200);
    pilot.eventually("the old one is gone", || !pilot.path("control.socket").exists());
    assert_eq!(ask(&pilot, "new.socket", "GET", "/v3/ping").status, 200);
}

#[test]
fn a_shutdown_during_a_reload_leaves_no_socket_behind() {
    let pilot = start_stubborn();
    pilot.edit("control.socket", "new.socket");
    pilot.edit("version 1", "version 2");
    let under_way = reloading(&pilot);
    pilot.wait_for_event("app stopping");
    assert!(pilot.path("new.socket").exists());
    pilot.signal(Signal::SIGTERM);
    assert_eq!(under_way.join().unwrap().status, 409);
    let_go(&pilot);
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    for socket in ["control.socket", "new.socket", "new.socket~"] {
        assert!(!pilot.path(socket).exists(), "{socket}");
    }
}

#[test]
fn a_control_socket_that_was_removed_is_back_after_a_reload() {
    let pilot = Pilot::start(TWO);
    pilot.wait_for_event("global startup");
    fs::remove_file(pilot.socket()).unwrap();
    pilot.signal(Signal::SIGHUP);
    pilot.wait_for_message("reloaded");
    pilot.tell(&["-ping"]);
}

#[test]
fn reloads_that_change_a_job_and_both_places_leak_nothing() {
    let (pilot, port) = start_movable();
    let other = free_port();
    let there = |pilot: &Pilot| {
        pilot.edit("/old", "/new");
        pilot.edit(&port.to_string(), &other.to_string());
        pilot.edit("sleep 1000", "sleep 1001");
        assert_eq!(ask(pilot, "old", "PUT", "/v3/reload").status, 200);
        assert_eq!(get_port(other, "/metrics", "").status, 200);
    };
    let back = |pilot: &Pilot| {
        pilot.edit("/new", "/old");
        pilot.edit(&other.to_string(), &port.to_string());
        pilot.edit("sleep 1001", "sleep 1000");
        assert_eq!(ask(pilot, "new", "PUT", "/v3/reload").status, 200);
        assert_eq!(get_port(port, "/metrics", "").status, 200);
    };
    let rounds = |count: usize| {
        for _ in 0..count {
            there(&pilot);
            back(&pilot);
        }
    };
    rounds(10);
    pilot.eventually("the new process is there", || pilot.processes().len() == 2);
    let before = used(&pilot);
    rounds(50);
    // A connection that was just answered may still have been open before.
    pilot.eventually("no more files than before", || used(&pilot).1 <= before.1);
    let after = used(&pilot);
    assert!(after.0 < before.0 + 2048, "{} kB became {} kB", before.0, after.0);
    pilot.eventually("each reload has stopped it once", || pilot.count("app stopped") == 120);
}

#[test]
fn without_a_configuration_there_is_nothing_to_reload_and_sighup_is_for_the_command() {
    let script = "trap 'echo hung up' HUP; echo began; while :; do sleep 0.02; done";
    let pilot = Setup::new().arguments(&["--", "sh", "-c", script]).start();
    pilot.eventually("the command runs", || pilot.log().text().contains("began"));
    pilot.signal(nix::sys::signal::SIGHUP);
    pilot.eventually("the command is told", || pilot.log().text().contains("hung up"));
    assert!(!pilot.log().text().contains("reload"), "{}", pilot.log().text());
    assert_eq!(pilot.stop(), Exit::Code(0));
}
