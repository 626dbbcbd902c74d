//! When a job can be used: by a descriptor, by its output, by systemd's notify protocol. What waits for that, and what
//! becomes of processes that are not ready in time, or silent for too long.

use std::collections::BTreeSet;
use std::fs;

use crate::operator::beside;
use crate::support::consul::Consul;
use crate::support::container::Container;
use crate::support::http::get_port;
use crate::support::needs::{can_be_pid_one, has_programs, is_root};
use crate::support::ports::free_port;
use crate::support::{Exit, Pilot, Setup, threads};

/// Perl that speaks the protocol: it waits at `gate NAME` until the test opens that gate.
pub const PERL: &str = r#"
use Socket; $| = 1;
sub tell_all {
    socket(my $socket, AF_UNIX, SOCK_DGRAM, 0) or die;
    my $to = pack_sockaddr_un("\0" . substr($ENV{NOTIFY_SOCKET}, 1));
    for (@_) { send($socket, $_, 0, $to) or die "send: $!"; }
}
sub gate { select(undef, undef, undef, 0.005) until -e "{dir}/$_[0]"; }
"#;

/// A run with a program in Perl, `app.pl`.
pub fn perl(script: &str) -> Setup {
    Setup::new().file("app.pl", &format!("{PERL}\n{script}"))
}

/// Python that can also send descriptors.
const PYTHON: &str = r"
import os, socket, sys, time
def tell(text, fds=()):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.connect('\0' + os.environ['NOTIFY_SOCKET'][1:])
    socket.send_fds(s, [text.encode()], list(fds))
";

/// A run with a program in Python, `app.py`.
fn python(script: &str) -> Setup {
    Setup::new().file("app.py", &format!("{PYTHON}\n{script}"))
}

pub const APP: &str = r#"name: "app", exec: ["perl", "{dir}/app.pl"]"#;
/// Runs when the job `app` is ready.
pub const USER: &str = r#"{ name: "user", exec: "sleep 1000", after: ["app"] }"#;

const WATCHDOG_KILLS: &str = r#"containerpilot_job_watchdog_kills_total{name="app"}"#;

pub fn open(pilot: &Pilot, gate: &str) {
    fs::write(pilot.path(gate), "").unwrap();
}

fn state(pilot: &Pilot) -> String {
    pilot.status_of("app")["state"].as_str().unwrap().to_owned()
}

/// The job is starting, and nobody who waits for it runs, until the test opens the gate.
pub fn assert_ready_behind_gate(pilot: &Pilot) {
    pilot.wait_for_line("app", "waits");
    assert_eq!((state(pilot).as_str(), pilot.count("app ready")), ("starting", 0));
    assert_eq!(pilot.status_of("app")["ready"], false);
    assert_eq!(pilot.status_of("user")["state"], "waiting");
    open(pilot, "gate");
    pilot.wait_for_event("user ready");
    assert_eq!(pilot.status_of("app")["ready"], true);
    assert_eq!(state(pilot), "running");
    assert_eq!(pilot.stop(), Exit::Code(0));
    pilot.assert_order(&["app ready", "user ready", "user stopping", "user stopped", "app stopping"]);
    assert_eq!(pilot.count("app ready"), 1);
}

#[test]
fn a_newline_to_its_descriptor_makes_a_job_ready() {
    for fd in [3, 9, 200] {
        let script = r#"open(my $fd, ">&=", $ENV{CONTAINERPILOT_READY_FD}) or die; syswrite($fd, "not yet");
            print "waits\n"; gate("gate"); syswrite($fd, "\n") or die; sleep 1000;"#;
        let config = format!("{{ jobs: [{{ {APP}, ready: {{ fd: {fd} }} }}, {USER}] }}");
        assert_ready_behind_gate(&perl(script).config(&config).start());
    }
}

#[test]
fn a_shell_script_tells_as_under_s6() {
    let script = "echo waits; while ! test -e {dir}/gate; do sleep 0.01; done; echo >&3; exec sleep 1000";
    let config = format!(
        r#"{{ jobs: [{{ name: "app", exec: ["sh", "-c", "{script}"], ready: {{ fd: 3 }} }}, {USER}] }}"#
    );
    assert_ready_behind_gate(&Pilot::start(&config));
}

#[test]
fn a_line_of_its_output_makes_a_job_ready() {
    for stream in ["STDOUT", "STDERR"] {
        let script = format!(
            r#"$| = 1; print "waits\n"; gate("gate"); print {stream} "listening on 8080\n"; sleep 1000;"#
        );
        let config =
            format!(r#"{{ jobs: [{{ {APP}, ready: {{ log: "^listening on [0-9]+$" }} }}, {USER}] }}"#);
        assert_ready_behind_gate(&perl(&script).config(&config).start());
    }
}

#[test]
fn a_line_counts_though_the_log_does_not_show_it() {
    let config = r#"{ logging: { level: "ERROR" }, jobs: [
        { name: "app", exec: ["sh", "-c", "echo up; exec sleep 1000"], ready: { log: "up" } },
        { name: "user", exec: "touch {dir}/used", after: ["app"] }] }"#;
    let pilot = Pilot::start(config);
    pilot.wait_for_file("used");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_notification_makes_a_job_ready_and_shows_its_status() {
    let script = r#"tell_all("STATUS=loading\nUNKNOWN=1", "X"); print "waits\n"; gate("gate");
        tell_all("READY=1\nSTATUS=serving"); sleep 1000;"#;
    let config = format!("{{ jobs: [{{ {APP}, ready: {{ notify: true }} }}, {USER}] }}");
    let pilot = perl(script).config(&config).start();
    pilot.eventually("its status is shown", || pilot.status_of("app")["statusText"] == "loading");
    assert_ready_behind_gate(&pilot);
}

#[test]
fn a_watched_status_shows_what_a_process_says_though_there_is_no_event() {
    let script =
        r#"tell_all("READY=1\nSTATUS=loading"); gate("gate"); tell_all("STATUS=serving"); sleep 1000;"#;
    let pilot = perl(script).config(&format!("{{ jobs: [{{ {APP}, ready: {{ notify: true }} }}] }}")).start();
    let mut client = beside(&pilot, &["status", "-watch"], "watched");
    pilot.eventually("what it says first", || pilot.text("watched").contains("loading"));
    open(&pilot, "gate");
    pilot.eventually("what it says then", || pilot.text("watched").contains("serving"));
    assert_eq!(pilot.stop(), Exit::Code(0));
    client.wait().unwrap();
}

#[test]
fn another_process_of_the_group_may_tell_too() {
    let script =
        r#"if (fork() == 0) { print "waits\n"; gate("gate"); tell_all("READY=1"); sleep 1000; } sleep 1000;"#;
    let config = format!("{{ jobs: [{{ {APP}, ready: {{ notify: true }} }}, {USER}] }}");
    assert_ready_behind_gate(&perl(script).config(&config).start());
}

#[test]
fn systemd_notify_speaks_for_a_shell_script() {
    if !has_programs(&["systemd-notify"]) {
        return;
    }
    let script = "echo waits; while ! test -e {dir}/gate; do sleep 0.01; done; systemd-notify --ready; exec sleep 1000";
    let config = format!(
        r#"{{ jobs: [{{ name: "app", exec: ["sh", "-c", "{script}"], ready: {{ notify: true }} }}, {USER}] }}"#
    );
    assert_ready_behind_gate(&Pilot::start(&config));
}

#[test]
fn a_configuration_that_uses_none_of_this_has_no_socket_timer_or_thread_for_it() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: "sleep 1000", restarts: "unlimited", health: { exec: "true", interval: "1s" } }] }"#,
    );
    pilot.wait_for_event("app healthy");
    let of = |path: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(format!("/proc/{}/{path}", pilot.pid())).unwrap().flatten();
        let target = |entry: fs::DirEntry| fs::read_link(entry.path()).unwrap_or(entry.path());
        entries.map(|entry| target(entry).display().to_string()).collect()
    };
    let sockets = || of("fd").iter().filter(|target| target.starts_with("socket:")).count();
    // The control socket, and both ends of what tells the event loop of signals.
    pilot.eventually("only its own sockets are there", || sockets() == 3);
    assert!(!of("fd").iter().any(|target| target.contains("timerfd")), "{:?}", of("fd"));
    // The event loop and the log; those that start processes are there for all jobs.
    let others = || threads(pilot.pid()).iter().filter(|name| *name != "spawner").count();
    pilot.eventually("there are two other threads", || others() == 2);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_job_that_is_not_ready_in_time_is_killed_and_restarted() {
    for (ready, script) in [
        ("fd: 3", "exec 3>&-; sleep 1000"),
        ("notify: true", "sleep 1000"),
        (r#"log: \"up\""#, "echo nearly; sleep 1000"),
    ] {
        let ready = ready.replace("\\\"", "\"");
        let (exit, pilot) = Pilot::run(&format!(
            r#"{{ jobs: [{{ name: "app", exec: ["sh", "-c", "{script}"], ready: {{ {ready}, timeout: "200ms" }}, restarts: 1,
                backoff: {{ max: "0s" }} }}, {{ name: "user", exec: "touch {{dir}}/used", after: ["app"] }}] }}"#
        ));
        assert_eq!(exit, Exit::Code(137));
        assert_eq!(pilot.events_of("app"), ["exitFailed", "exitFailed", "stopping", "stopped"]);
        let record = pilot.wait_for_message("was not ready within 200ms: it is killed");
        assert_eq!((record.job.as_str(), record.level.as_str()), ("app", "warning"));
        assert!(!pilot.path("used").exists());
    }
}

#[test]
fn a_job_can_ask_for_more_time() {
    let script = r#"for (1..10) { tell_all("EXTEND_TIMEOUT_USEC=400000"); select(undef, undef, undef, 0.1); }
        tell_all("READY=1"); sleep 1000;"#;
    let config = format!(r#"{{ jobs: [{{ {APP}, ready: {{ notify: true, timeout: "400ms" }} }}] }}"#);
    let pilot = perl(script).config(&config).start();
    pilot.wait_for_event("app ready");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.count("app ready"), 1);
}

#[test]
fn checks_begin_when_a_job_is_ready() {
    let script = r#"print "waits\n"; gate("gate"); tell_all("READY=1"); sleep 1000;"#;
    let config = format!(
        r#"{{ jobs: [{{ {APP}, ready: {{ notify: true }},
            health: {{ exec: ["sh", "-c", "echo x >> {{dir}}/checks"], interval: "20ms", timeout: "10s" }} }}] }}"#
    );
    let pilot = perl(script).config(&config).start();
    pilot.wait_for_line("app", "waits");
    assert_eq!(pilot.lines("checks").len(), 0);
    open(&pilot, "gate");
    pilot.wait_for_event("app healthy");
    assert_eq!(pilot.stop(), Exit::Code(0));
    pilot.assert_order(&["app ready", "app healthy"]);
}

#[test]
fn the_clock_of_an_interval_starts_when_a_job_is_ready() {
    let config = format!(
        r#"{{ jobs: [{{ {APP}, ready: {{ notify: true }} }},
            {{ name: "tick", exec: "true", when: {{ interval: "20ms" }}, timeout: "10s", after: ["app"] }}, {USER}] }}"#
    );
    let pilot =
        perl(r#"print "waits\n"; gate("gate"); tell_all("READY=1"); sleep 1000;"#).config(&config).start();
    assert_ready_behind_gate(&pilot);
    pilot.assert_order(&["app ready", "tick ready"]);
}

#[test]
fn an_advertised_job_without_checks_is_registered_when_it_is_ready_and_kept_alive() {
    let consul = Consul::start();
    let script = r#"print "waits\n"; gate("gate"); tell_all("READY=1"); gate("end"); exit 1;"#;
    let config = format!(
        r#"{{ consul: "{}", jobs: [{{ {APP}, port: 8080, interfaces: ["static:127.0.0.1"], ready: {{ notify: true }} }},
            {{ name: "other", exec: "sleep 1000" }}] }}"#,
        consul.address()
    );
    let pilot = perl(script).config(&config).start();
    pilot.wait_for_line("app", "waits");
    consul.wait_for_absence("app");
    open(&pilot, "gate");
    consul.wait_for_status("app", "passing");
    open(&pilot, "end");
    consul.wait_for_absence("app");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn readyz_waits_for_the_word_of_a_required_job() {
    let port = free_port();
    let config = format!(
        r#"{{ telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"] }},
            jobs: [{{ {APP}, ready: {{ notify: true }}, watchdog: "60s", essential: true }}] }}"#
    );
    let script = r#"print "waits\n"; gate("gate"); tell_all("READY=1"); gate("end"); tell_all("STOPPING=1"); sleep 1000;"#;
    let pilot = perl(script).config(&config).start();
    pilot.wait_for_line("app", "waits");
    let get = |path: &str| get_port(port, path, "");
    let not_ready = get("/readyz");
    assert_eq!(
        (not_ready.status, not_ready.body.contains("is being started")),
        (503, true),
        "{}",
        not_ready.body
    );
    open(&pilot, "gate");
    pilot.eventually("it is ready", || get("/readyz").status == 200);
    let metrics = get("/metrics");
    assert!(metrics.sample(r#"containerpilot_job_ready_seconds{name="app"}"#).is_some(), "{}", metrics.body);
    assert_eq!(metrics.sample(WATCHDOG_KILLS).as_deref(), Some("0"));
    open(&pilot, "end");
    pilot.eventually("it says that it stops", || get("/readyz").body.contains("is about to end"));
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_silent_process_gets_sigabrt_and_its_run_has_failed() {
    let script = r#"die unless $ENV{WATCHDOG_USEC} == 300000 && $ENV{WATCHDOG_PID} == $$;
        for (1..20) { tell_all("WATCHDOG=1"); select(undef, undef, undef, 0.05); } print "silent\n"; sleep 1000;"#;
    let config = format!(r#"{{ jobs: [{{ {APP}, watchdog: "300ms" }}] }}"#);
    let pilot = perl(script).config(&config).start();
    assert_eq!(pilot.wait_exit(), Exit::Code(134));
    assert_eq!(pilot.lines_of("app"), ["silent"], "signs of life keep it alive");
    assert_eq!(pilot.events_of("app"), ["ready", "exitFailed", "stopping", "stopped"]);
    pilot.wait_for_message("was silent for longer than its watchdog of 300ms: it gets SIGABRT");
}

#[test]
fn a_silent_process_that_ignores_sigabrt_is_killed() {
    let script = r#"$SIG{ABRT} = 'IGNORE'; tell_all("READY=1"); sleep 1 while 1;"#;
    let config = format!(
        r#"{{ jobs: [{{ {APP}, ready: {{ notify: true }}, watchdog: "100ms", killTimeout: "100ms", success: [0, "SIGKILL"] }}] }}"#
    );
    let (exit, pilot) = {
        let pilot = perl(script).config(&config).start();
        (pilot.wait_exit(), pilot)
    };
    assert_eq!(exit, Exit::Code(137), "whatever `success` says, it has failed");
    pilot.wait_for_message("did not end after SIGABRT: it is killed");
}

#[test]
fn a_process_can_trigger_its_watchdog_and_tell_why_it_fails() {
    let port = free_port();
    let config = format!(
        r#"{{ telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"] }}, jobs: [
            {{ {APP}, ready: {{ notify: true }}, watchdog: "60s" }}, {{ name: "other", exec: "sleep 1000" }}] }}"#
    );
    let pilot =
        perl(r#"tell_all("READY=1", "ERRNO=98", "WATCHDOG=trigger"); sleep 1000;"#).config(&config).start();
    pilot.wait_for_event("app stopped");
    let told = pilot.status_of("app")["lastExit"]["reason"].as_str().unwrap().to_owned();
    // The words for an error are those of the C library.
    let is_told = told.starts_with("ended by its watchdog: killed by SIGABRT: Address ");
    assert!(is_told && told.ends_with("in use (os error 98)"), "{told}");
    let kills = get_port(port, "/metrics", "").sample(WATCHDOG_KILLS);
    assert_eq!(kills.as_deref(), Some("1"));
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn stored_descriptors_are_given_to_the_next_execution() {
    if !has_programs(&["python3"]) {
        return;
    }
    let script = r#"
count = int(os.environ.get('LISTEN_FDS', '0'))
if count == 0:
    server, other = socket.create_server(('127.0.0.1', 0)), os.pipe()
    print('port', server.getsockname()[1], flush=True)
    tell('READY=1')
    tell('FDSTORE=1\nFDNAME=web', [server.fileno()])
    tell('FDSTORE=1\nFDNAME=gone', other)
    tell('FDSTORE=1', [other[0]])
    tell('FDSTOREREMOVE=1\nFDNAME=gone')
    sys.exit(1)
assert os.environ['LISTEN_PID'] == str(os.getpid())
print(os.environ['LISTEN_FDNAMES'], count, flush=True)
print('port', socket.socket(fileno=3).getsockname()[1], flush=True)
"#;
    let config = r#"{ jobs: [{ name: "app", exec: ["python3", "{dir}/app.py"], ready: { notify: true }, restarts: 1,
        backoff: { max: "0s" } }] }"#;
    let pilot = python(script).config(config).start();
    assert_eq!(pilot.wait_exit(), Exit::Code(0), "{}", pilot.log().text());
    let lines = pilot.lines_of("app");
    assert_eq!((lines.len(), lines[1].as_str()), (3, "web:stored 2"), "{lines:?}");
    assert_eq!(lines[0], lines[2], "the same socket");
}

#[test]
fn of_too_many_descriptors_the_first_are_kept() {
    if !has_programs(&["python3"]) {
        return;
    }
    let script = r"
count = int(os.environ.get('LISTEN_FDS', '0'))
if count == 0:
    for _ in range(70):
        tell('FDSTORE=1', [0])
    sys.exit(1)
print(count, flush=True)
";
    // Beside a descriptor of its own there is room for those before it.
    for (ready, expected) in [("notify: true", "64"), ("fd: 5", "2")] {
        let config = format!(
            r#"{{ jobs: [{{ name: "app", exec: ["python3", "{{dir}}/app.py"], ready: {{ {ready} }}, watchdog: "60s",
                restarts: 1, backoff: {{ max: "0s" }} }}] }}"#
        );
        let pilot = python(script).config(&config).start();
        assert_eq!(pilot.wait_exit(), Exit::Code(0), "{}", pilot.log().text());
        assert_eq!(pilot.lines_of("app"), [expected]);
        pilot.wait_for_message("stores more descriptors than are kept: some are closed");
    }
}

#[test]
fn a_process_that_waits_at_a_barrier_goes_on_when_its_messages_were_read() {
    if !has_programs(&["python3"]) {
        return;
    }
    let script = r#"
reader, writer = os.pipe()
tell('READY=1\nSTATUS=before the barrier')
tell('BARRIER=1', [writer])
os.close(writer)
assert os.read(reader, 1) == b''
print('passed', flush=True)
time.sleep(1000)
"#;
    let config = r#"{ jobs: [{ name: "app", exec: ["python3", "{dir}/app.py"], ready: { notify: true } }] }"#;
    let pilot = python(script).config(config).start();
    pilot.wait_for_line("app", "passed");
    let status = pilot.status_of("app");
    assert_eq!((&status["ready"], &status["statusText"]), (&true.into(), &"before the barrier".into()));
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn readiness_works_as_process_1_of_another_user() {
    if !can_be_pid_one() || !is_root() {
        return;
    }
    let script = r#"print "waits\n"; gate("gate"); tell_all("READY=1"); sleep 1000;"#;
    let config =
        format!("{{ jobs: [{{ {APP}, user: 54321, group: 54321, ready: {{ notify: true }} }}, {USER}] }}");
    let setup = perl(script);
    fs::set_permissions(setup.dir(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_ready_behind_gate(&setup.config(&config).as_pid_one().start());
}

#[test]
fn readiness_works_in_a_container_with_a_read_only_root_and_without_root() {
    let script = r#"tell_all("READY=1\nSTATUS=serving"); sleep 1000;"#;
    let config = format!(
        "{{ control: {{ socket: \"{{dir}}/control.socket\" }}, jobs: [{{ {APP}, ready: {{ notify: true }} }}, {USER}] }}"
    );
    let setup = |setup: Setup| {
        fs::set_permissions(setup.dir(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        setup.file("app.pl", &format!("{PERL}\n{script}")).config(&config)
    };
    let Some(container) =
        Container::start_with(&["--read-only", "--user", "1000:1000", "--cap-drop", "ALL"], setup)
    else {
        return;
    };
    container.wait_for_event("user ready");
    assert_eq!(container.stop().0, Exit::Code(0));
}
