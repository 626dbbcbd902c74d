//! The control socket from outside: the socket itself, its clients, and what a reload leaves alone.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crate::support::http::{answer, connect, request};
use crate::support::ports::free_port;
use crate::support::{Exit, Pilot, Setup, program};

const TWO: &str = r#"{ jobs: [
    { name: "app", exec: "sleep 1000", restarts: "unlimited" },
    { name: "two", exec: "sleep 1001", restarts: "unlimited" },
] }"#;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn error_of(pilot: &Pilot, arguments: &[&str]) -> String {
    let output = pilot.client(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_socket_is_private_and_gone_after_the_end() {
    let pilot = Pilot::start(TWO);
    pilot.wait_for_event("global startup");
    assert_eq!(mode(&pilot.socket()), 0o600);
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(!pilot.socket().exists());
}

#[test]
fn the_mode_of_the_socket_can_be_set_and_changed() {
    let pilot = Pilot::start(
        r#"{ control: { socket: "{dir}/control.socket", mode: "0666" }, jobs: [{ exec: "sleep 9" }] }"#,
    );
    pilot.wait_for_event("global startup");
    assert_eq!(mode(&pilot.socket()), 0o666);
    pilot.edit("0666", "0660");
    pilot.tell(&["-reload"]);
    pilot.eventually("the new mode", || mode(&pilot.socket()) == 0o660);
    pilot.tell(&["-ping"]);
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_refused() {
    let setup = Setup::new().config(TWO);
    drop(UnixListener::bind(setup.dir().join("control.socket")).unwrap());
    let pilot = setup.start();
    pilot.tell(&["-ping"]);
    let second = Command::new(program()).arg("-config").arg(pilot.config()).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said =
        String::from_utf8_lossy(&second.stdout).into_owned() + &String::from_utf8_lossy(&second.stderr);
    assert!(
        said.contains("cannot create the control socket") && said.contains("another process listens on it"),
        "{said}"
    );
    assert!(!said.contains("startup"), "{said}");
    pilot.tell(&["-ping"]);
}

/// What `curl` prints and the status that it was given.
fn curl(arguments: &[&str]) -> (u16, String) {
    let output = Command::new("curl").args(["-sS", "-w", "%{http_code}"]).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let (body, status) = text.split_at(text.len() - 3);
    (status.parse().unwrap(), body.to_owned())
}

#[test]
fn curl_can_use_every_endpoint_of_the_control_socket() {
    let port = free_port();
    let pilot = Pilot::start(&format!(
        r#"{{ telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"],
                metrics: [{{ name: "stock", help: "Pieces.", type: "gauge" }}] }},
              jobs: [{{ name: "app", exec: "sleep 1000" }}, {{ name: "two", exec: "sleep 1001" }}] }}"#
    ));
    pilot.eventually("app runs", || pilot.status_of("app")["state"] == "running");
    let socket = pilot.socket().to_str().unwrap().to_owned();
    let ask = |method: &str, path: &str, body: &str| {
        curl(&["--unix-socket", &socket, "-X", method, "-d", body, &format!("http://control{path}")])
    };
    for (path, body, status, part) in [
        ("/v3/environ", r#"{"A":"b","GONE":null}"#, 200, "{}\n"),
        ("/v3/env", r#"{"A":""}"#, 200, "{}\n"),
        ("/v3/env", r#"{"A":"1","9":"2"}"#, 400, "9"),
        ("/v3/env", "{", 422, "expected a JSON object"),
        ("/v3/metric", r#"{"stock":5}"#, 200, "{}\n"),
        ("/v3/metric", r#"{"stock":"6.5"}"#, 200, "{}\n"),
        ("/v3/metric", r#"{"stock":1,"stok":1}"#, 400, r#"did you mean \"stock\"?"#),
        ("/v3/metric", r#"{"stock":"many"}"#, 400, "stock: expected a number"),
        ("/v3/reload", "", 200, r#"{"started":[],"stopped":[],"kept":["app","two"]}"#),
        ("/v3/reload", r#"{"dryRun":true,"restart":"all"}"#, 200, r#""started":["app","two"]"#),
        ("/v3/maintenance/enable", "", 200, r#"{"updated":true}"#),
        ("/v3/maintenance/enable", "", 200, r#"{"updated":false}"#),
        ("/v3/maintenance/disable", "", 200, r#"{"updated":true}"#),
        ("/v3/jobs/two/signal", r#"{"signal":"SIGCONT"}"#, 200, "{}\n"),
        ("/v3/jobs/two/signal", r#"{"signal":"SIGNOPE"}"#, 422, "SIGNOPE"),
        ("/v3/jobs/nope/stop", "", 404, r#"there is no job \"nope\""#),
        ("/v3/jobs/two/start", "", 409, "runs already"),
        ("/v3/nope", "", 404, "there is nothing at /v3/nope"),
    ] {
        for method in ["PUT", "POST"] {
            // What changes something answers otherwise the second time.
            let method = if path.starts_with("/v3/maintenance") { "PUT" } else { method };
            let (found, text) = ask(method, path, body);
            assert_eq!((found, text.contains(part)), (status, true), "{method} {path} {body}: {text}");
            if path.starts_with("/v3/maintenance") {
                break;
            }
        }
    }
    for (verb, state) in [("stop", "halted"), ("start", "running"), ("restart", "running")] {
        assert_eq!(ask("POST", &format!("/v3/jobs/two/{verb}"), ""), (200, "{}\n".to_owned()));
        pilot.eventually(state, || pilot.status_of("two")["state"] == state);
    }
    let get = |path: &str| curl(&["--unix-socket", &socket, &format!("http://control{path}")]);
    assert_eq!(get("/v3/ping"), (200, "ok\n".to_owned()));
    assert_eq!(ask("POST", "/v3/ping", ""), (200, "ok\n".to_owned()));
    let (status, text) = ask("PUT", "/v3/ping", "");
    assert!(status == 405 && text.contains("/v3/ping takes GET, HEAD, POST, not PUT"), "{text}");
    let (status, _) = curl(&["--unix-socket", &socket, "-I", "http://control/v3/ping"]);
    assert_eq!(status, 200, "HEAD");
    let (status, events) = get("/v3/events?wait=0&since=0");
    assert!(status == 200 && events.contains(r#""code":"startup""#), "{events}");
    let (status, whole) = get("/v3/status");
    assert!(status == 200 && whole.contains(r#""name":"app""#), "{whole}");
    assert_eq!(get("/v3/reload").0, 405);
    fs::write(pilot.path("large"), vec![b'x'; 2 << 20]).unwrap();
    let large = pilot.path("large").to_str().unwrap().to_owned();
    assert_eq!(
        curl(&["--unix-socket", &socket, "-T", &large, "http://control/v3/env"]),
        (413, "{\"error\":\"the body is larger than 1 MiB\"}\n".to_owned())
    );
}

#[test]
fn curl_can_use_every_endpoint_of_telemetry() {
    let port = free_port();
    let pilot = Pilot::start(&format!(
        r#"{{ telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"] }},
              jobs: [{{ name: "app", exec: "sleep 1000", essential: true }}] }}"#
    ));
    pilot.eventually("app runs", || pilot.status_of("app")["state"] == "running");
    let get =
        |path: &str, accept: &str| curl(&["-i", "-H", accept, &format!("http://127.0.0.1:{port}{path}")]);
    for (path, accept, status, part) in [
        ("/metrics", "Accept: */*", 200, "content-type: text/plain; version=0.0.4; charset=utf-8"),
        ("/metrics", "Accept: application/openmetrics-text", 200, "\n# EOF\n"),
        ("/status", "Accept: */*", 200, r#""Jobs":[{"Name":"app","Status":"unknown"}]"#),
        ("/healthz", "Accept: */*", 200, "ok\n"),
        ("/readyz", "Accept: */*", 200, r#""ready":true"#),
        ("/nope", "Accept: */*", 404, r#"{"error":"there is nothing at /nope"}"#),
    ] {
        let (found, text) = get(path, accept);
        assert_eq!((found, text.contains(part)), (status, true), "{path}: {text}");
    }
    let (status, head) = curl(&["-I", &format!("http://127.0.0.1:{port}/healthz")]);
    assert!(status == 200 && head.contains("content-length: 3") && head.ends_with("\r\n\r\n"), "{head}");
    let put = curl(&["-X", "PUT", &format!("http://127.0.0.1:{port}/metrics")]);
    assert_eq!(put, (405, "{\"error\":\"/metrics takes GET, HEAD, not PUT\"}\n".to_owned()));
}

#[test]
fn a_client_without_a_server_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let config = directory.path().join("c.json5");
    fs::write(&config, format!("{{ control: {{ socket: {socket:?} }}, jobs: [ broken ] }}")).unwrap();
    let ping = || {
        let mut command = Command::new(program());
        let output = command.arg("-config").arg(&config).arg("-ping").output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, error) = ping();
    assert_eq!(status, Some(1));
    assert!(error.contains(socket.to_str().unwrap()) && error.contains("no such socket"), "{error}");
    drop(UnixListener::bind(&socket).unwrap());
    let (status, error) = ping();
    assert_eq!(status, Some(1));
    assert!(error.contains("nobody listens"), "{error}");
}

#[test]
fn a_reload_touches_only_what_changed() {
    let pilot = Pilot::start(TWO);
    let (app, two) = (pilot.pid_of("app"), pilot.pid_of("two"));
    pilot.edit("sleep 1001", "sleep 1002");
    assert_eq!(
        pilot.tell(&["-reload", "--dry-run"]),
        "would be stopped: two\nwould be started: two\nwould be kept: app\n"
    );
    assert_eq!(pilot.pid_of("two"), two);
    assert_eq!(pilot.tell(&["-reload"]), "stopped: two\nstarted: two\nkept: app\n");
    pilot
        .eventually("two runs anew", || pilot.status_of("two")["pid"].as_i64().is_some_and(|pid| pid != two));
    assert_eq!(pilot.pid_of("app"), app);
    assert_eq!(pilot.tell(&["-reload"]), "kept: app, two\n");
    assert_eq!(pilot.tell(&["-reload", "-all"]), "stopped: app, two\nstarted: app, two\n");
    pilot
        .eventually("app runs anew", || pilot.status_of("app")["pid"].as_i64().is_some_and(|pid| pid != app));
}

#[test]
fn a_bad_configuration_changes_nothing_and_is_explained() {
    let pilot = Pilot::start(TWO);
    let app = pilot.pid_of("app");
    for (old, bad, words) in [
        ("\"unlimited\"", "\"always\"", "restarts"),
        ("jobs", "jbos", "jbos"),
        ("]", "", ""), // not even JSON5
    ] {
        let good = pilot.text("containerpilot.json5");
        pilot.edit(old, bad);
        let error = error_of(&pilot, &["-reload"]);
        assert!(error.contains(words) && error.contains("containerpilot.json5:"), "{error}");
        fs::write(pilot.config(), good).unwrap();
    }
    assert_eq!(pilot.ask("PUT", "/v3/reload", "").status, 200);
    assert_eq!(pilot.pid_of("app"), app);
}

#[test]
fn the_control_socket_moves_when_its_path_changes() {
    let pilot =
        Pilot::start(r#"{ control: { socket: "{dir}/old" }, jobs: [{ name: "app", exec: "sleep 1000" }] }"#);
    pilot.wait_for_event("global startup");
    let pid =
        || request(connect(&pilot.path("old")), "GET", "/v3/status", "", "").json()["jobs"][0]["pid"].clone();
    pilot.eventually("app runs", || pid().is_i64());
    let pid = pid();
    let mut half = connect(&pilot.path("old"));
    half.write_all(b"PUT /v3/env HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{").unwrap();
    pilot.edit("/old", "/new");
    // The client reads the new configuration, so it would ask at the new place.
    let answer = request(connect(&pilot.path("old")), "PUT", "/v3/reload", "", "");
    assert_eq!((answer.status, answer.json()["kept"][0].as_str()), (200, Some("app")));
    pilot.eventually("the socket has moved", || pilot.path("new").exists() && !pilot.path("old").exists());
    let status: serde_json::Value =
        serde_json::from_str(&pilot.tell(&["status", "--format", "json"])).unwrap();
    assert_eq!(status["jobs"][0]["pid"], pid);
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(!pilot.path("new").exists());
}

#[test]
fn a_client_that_reads_a_new_path_too_early_is_told_of_the_old_one() {
    let pilot =
        Pilot::start(r#"{ control: { socket: "{dir}/old" }, jobs: [{ name: "app", exec: "sleep 1000" }] }"#);
    pilot.wait_for_event("global startup");
    pilot.edit("/old", "/new");
    let old = pilot.path("old").to_str().unwrap().to_owned();
    let error = error_of(&pilot, &["-reload"]);
    assert!(error.contains("/new: there is no such socket"), "{error}");
    assert!(error.contains(&format!("add -socket {old}")), "{error}");
    assert_eq!(pilot.tell(&["-reload", "-socket", &old]), "kept: app\n");
    pilot.tell(&["-ping"]);
    assert!(error_of(&pilot, &["status", "-socket", &old]).contains("there is no such socket"));
}

#[test]
fn a_configuration_that_does_not_exist_sends_nobody_to_another_program() {
    let pilot = Pilot::start(r#"{ jobs: [{ name: "app", exec: "sleep 1000" }] }"#);
    pilot.wait_for_event("global startup");
    let mut client = Command::new(program());
    let output = client.args(["-config", "/no/such.json5", "stop", "app"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("there is no configuration /no/such.json5"), "{error}");
}

#[test]
fn variables_are_seen_by_processes_that_start_later() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: ["sh", "-c", "echo mode=$MODE old=${OLD-gone}; exec sleep 1000"], env: {} },
                    { name: "rest", exec: "sleep 1000" }] }"#,
    );
    pilot.wait_for_line("app", "mode= old=gone");
    pilot.tell(&["-putenv", "MODE=a=b", "-putenv", "OLD=1"]);
    pilot.tell(&["restart", "app"]);
    pilot.wait_for_line("app", "mode=a=b old=1");
    pilot.tell(&["-putenv", "OLD"]);
    assert_eq!(pilot.ask("PUT", "/v3/environ", r#"{"MODE":"never","9":"x"}"#).status, 400);
    pilot.tell(&["restart", "app"]);
    pilot.wait_for_line("app", "mode=a=b old=gone");
}

#[test]
fn jobs_are_started_stopped_restarted_and_signalled_by_hand() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: ["sh", "-c", "trap 'echo hup' HUP; echo up; while :; do sleep 0.05; done"] },
                    { name: "rest", exec: "sleep 1000" }] }"#,
    );
    pilot.wait_for_line("app", "up");
    pilot.tell(&["signal", "app", "hup"]);
    pilot.wait_for_line("app", "hup");
    pilot.tell(&["stop", "app"]);
    pilot.eventually("app is stopped", || pilot.status_of("app")["state"] == "halted");
    assert!(error_of(&pilot, &["signal", "app", "HUP"]).contains("has no process to signal"));
    assert!(error_of(&pilot, &["stop", "app"]).contains("does not run"));
    pilot.tell(&["start", "app"]);
    pilot.eventually("app runs", || pilot.status_of("app")["state"] == "running");
    assert!(error_of(&pilot, &["start", "app"]).contains("runs already"));
    assert!(error_of(&pilot, &["start", "nope"]).contains("there is no job \"nope\""));
    assert_eq!(pilot.client(&["signal", "app", "SIGNOPE"]).status.code(), Some(2));
}

#[test]
fn maintenance_is_idempotent_and_shown() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: "sleep 1000", health: { exec: "true", interval: "100ms", timeout: "10s" } },
                    { name: "hook", exec: "echo hooked", when: { each: "enterMaintenance" } }] }"#,
    );
    pilot.wait_for_event("app healthy");
    pilot.tell(&["-maintenance", "enable"]);
    pilot.wait_for_line("hook", "hooked");
    assert_eq!(pilot.ask("PUT", "/v3/maintenance/enable", "").json()["updated"], false);
    assert!(pilot.tell(&["status"]).contains("in maintenance"));
    pilot.eventually("shown", || pilot.status_of("app")["health"] == "maintenance");
    pilot.tell(&["-reload"]);
    assert!(pilot.tell(&["status"]).contains("in maintenance"));
    pilot.tell(&["-maintenance", "disable"]);
    pilot.wait_for_events("app healthy", 2);
    assert_eq!(pilot.count("global enterMaintenance"), 1);
}

#[test]
fn events_are_replayed_and_followed_to_the_very_end() {
    let pilot = Pilot::start(TWO);
    let text = pilot.tell(&["events"]);
    assert!(text.contains(" 1 global startup\n"), "{text}");
    let mut command = Command::new(program());
    command.arg("-config").arg(pilot.config()).args(["events", "-f", "--since", "0"]).stdout(Stdio::piped());
    let mut follower = command.spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().ends_with(" 1 global startup"));
    assert_eq!(pilot.stop(), Exit::Code(0));
    let rest: Vec<String> = lines.collect();
    assert!(follower.wait().unwrap().success());
    for event in ["global shutdown", "app stopping", "app stopped", "two stopped"] {
        assert!(rest.iter().any(|line| line.contains(event)), "{event} in {rest:?}");
    }
}

#[test]
fn streams_are_in_chunks_only_for_clients_that_know_chunks() {
    let pilot = Pilot::start(TWO);
    pilot.wait_for_event("two ready");
    let offers = "Connection: upgrade\r\nUpgrade: websocket\r\n";
    let requests = [("1.0", "", false), ("1.0", offers, false), ("1.1", offers, false)];
    for (path, first) in [("/v3/events?since=0&wait=0", "id: 1\n"), ("/v3/crashes", r#"{"crashes":["#)] {
        for (version, headers, is_chunked) in
            requests.into_iter().chain([("1.1", "Connection: close\r\n", true)])
        {
            let mut stream = pilot.connect();
            let request = format!("GET {path} HTTP/{version}\r\nHost: x\r\n{headers}\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let answer = answer(stream);
            assert_eq!(answer.status, 200, "{request}");
            assert_eq!(
                answer.head.contains("transfer-encoding: chunked"),
                is_chunked,
                "{request}{}",
                answer.head
            );
            assert_eq!(answer.body.starts_with(first), !is_chunked, "{request}{}", answer.body);
        }
    }
}

#[test]
fn a_request_with_a_malformed_chunk_gets_a_whole_response() {
    let pilot = Pilot::start(TWO);
    pilot.wait_for_event("two ready");
    for body in [".L", "zz\r\n\r\n", "5\r\nabcdeXX\r\n", ".LGET /v3/ping HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let mut stream = pilot.connect();
        let head = "PUT /v3/metric HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let answer = answer(stream);
        let expected = "{\"error\":\"the body is incomplete or malformed\"}\n";
        assert_eq!((answer.status, answer.body.as_str()), (400, expected), "{body:?}");
    }
}

#[test]
fn variables_that_would_keep_processes_from_starting_are_refused_and_change_nothing() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "app", exec: "sleep 1000" },
            { name: "next", exec: ["sh", "-c", "echo small=${SMALL-unset}"], when: { source: "SIGUSR2" } } ] }"#,
    );
    let put = |body: &str| {
        let answer = pilot.ask("PUT", "/v3/environ", body);
        (answer.status, answer.json()["error"].as_str().unwrap_or_default().to_owned())
    };
    let (status, error) = put(&format!(r#"{{"SMALL":"1","BIG":"{}"}}"#, "x".repeat(3 << 17)));
    assert_eq!(status, 400, "{error}");
    assert!(error.starts_with("BIG: it would take 393221 bytes; "), "{error}");
    pilot.tell(&["start", "next"]);
    pilot.wait_for_line("next", "small=unset");
    // At most 6 MiB are taken, however large the stack may be.
    let value = "x".repeat(100_000);
    let (status, error) = (0..100)
        .map(|number| put(&format!(r#"{{"SMALL":"{number}","V{number}":"{value}"}}"#)))
        .find(|(status, _)| *status != 200)
        .unwrap();
    assert_eq!(status, 400, "{error}");
    assert!(error.contains(": with it all variables would take "), "{error}");
    pilot.tell(&["start", "next"]);
    let printed = pilot.wait_for_record("next prints", |record| record.message.starts_with("small=1"));
    assert!(!printed.message.contains("unset"), "{}", printed.message);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

/// Answers one request with that body, as a control socket that somebody else has filled with words would.
fn answering(status: &str, body: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 4096];
        let _ = stream.read(&mut head);
        stream.write_all(answer.as_bytes()).unwrap();
    });
    (directory, socket)
}

#[test]
fn text_from_outside_reaches_no_terminal_unescaped() {
    let evil = r"e\u001b[31mvil\u202e\u009b";
    let job = format!(
        r#"{{"name":"{evil}","state":"{evil}","health":"{evil}","checks":[],"pid":7,"restarts":0,"since":"{evil}",
            "lastExit":{{"status":1,"reason":"{evil}"}}}}"#
    );
    let watch =
        format!(r#"{{"name":"{evil}","known":true,"instances":[{{"id":"x","address":"{evil}","port":1}}]}}"#);
    let status = format!(
        r#"{{"version":"{evil}","uptime":1,"jobs":[{job}],"watches":[{watch}],"consul":{{"trouble":"{evil}"}}}}"#
    );
    let event =
        format!("data: {{\"sequence\":1,\"time\":\"T\",\"code\":\"{evil}\",\"source\":\"{evil}\"}}\n\n");
    let error = format!(r#"{{"error":"{evil}"}}"#);
    for (words, answer, body) in [
        (&["status"][..], "200 OK", status.as_str()),
        (&["events"], "200 OK", &event),
        (&["-reload"], "200 OK", &format!(r#"{{"started":["{evil}"]}}"#)),
        (&["stop", "app"], "409 Conflict", &error),
        (&["stop", "app"], "500 Oops", "\u{1b}[2J\u{202e}e\u{1b}[31mvil"),
        (&["-ping"], "200 OK", "ok\u{1b}[2J e\u{1b}[31mvil\n"),
    ] {
        let (_directory, socket) = answering(answer, body);
        let output = Command::new(program()).args(words).arg("-socket").arg(&socket).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(r"e\u{1b}[31mvil"), "{words:?}: {text:?}");
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{9b}']), "{words:?}: {text:?}");
    }
}

#[test]
fn check_warns_of_a_control_socket_that_every_user_can_replace() {
    let directory = tempfile::tempdir().unwrap();
    let (config, open) = (directory.path().join("c.json5"), directory.path().join("open"));
    fs::create_dir(&open).unwrap();
    let text = format!("{{ control: {{ socket: {:?} }}, jobs: [{{ exec: 'sleep 1' }}] }}", open.join("s"));
    fs::write(&config, text).unwrap();
    for (mode, warns) in [(0o777, true), (0o1777, false), (0o755, false), (0o770, false)] {
        fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
        let output = Command::new(program()).args(["check", "-config"]).arg(&config).output().unwrap();
        let report = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(report.contains("warning[open-control-socket]"), warns, "{mode:o}: {report}");
    }
}

#[test]
fn events_say_how_and_why_a_process_ended_and_why_a_job_stops() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "fails", exec: ["sh", "-c", "exit 3"] },
            { name: "absent", exec: "/no/such/program" },
            { name: "slow", exec: "sleep 1000", timeout: "1s" },
            { name: "after", exec: "true", when: { source: "fails", once: "exitSuccess" } },
            { name: "late", exec: "true", when: { source: "SIGUSR2", once: "signal", timeout: "50ms" } },
            { name: "deaf", exec: ["sh", "-c", "trap '' TERM; while :; do echo up >> {dir}/up; sleep 0.05; done"],
              killTimeout: "50ms" },
            { name: "app", exec: "sleep 1000" } ] }"#,
    );
    pilot.wait_for_file("up");
    let deaf = pilot.pid_of("deaf");
    for job in ["fails", "absent", "slow", "after", "late"] {
        pilot.wait_for_event(&format!("{job} stopped"));
    }
    pilot.tell(&["stop", "deaf"]);
    pilot.wait_for_event("deaf stopped");
    let answer = pilot.ask("GET", "/v3/events?wait=0", "").body;
    let events: Vec<serde_json::Value> =
        answer.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
    let event = |source: &str, code: &str| {
        let found = events.iter().find(|event| event["source"] == source && event["code"] == code);
        found.unwrap_or_else(|| panic!("{source} {code} in {answer}")).clone()
    };
    let reason = |source: &str, code: &str| event(source, code)["reason"].as_str().unwrap().to_owned();
    let failed = event("fails", "exitFailed");
    assert_eq!((&failed["status"], &failed["reason"]), (&3.into(), &"exited with status 3".into()));
    assert!(failed["pid"].as_i64().unwrap() > 1, "{failed}");
    assert_eq!(reason("fails", "stopping"), "will not run again: exited with status 3");
    let absent = event("absent", "exitFailed");
    assert_eq!((&absent["status"], absent.get("pid")), (&127.into(), None));
    assert!(absent["reason"].as_str().unwrap().contains("No such file"), "{absent}");
    assert_eq!(reason("slow", "exitFailed"), "ran longer than its timeout: killed by SIGKILL");
    assert_eq!(reason("after", "stopping"), r#"will not run: "fails exitSuccess" can no longer come"#);
    assert_eq!(reason("late", "stopping"), r#"will not run: "SIGUSR2 signal" has not come within 50ms"#);
    assert_eq!(reason("deaf", "stopping"), "it is stopped by hand");
    let killed = event("deaf", "exitFailed");
    assert_eq!(
        (&killed["pid"], &killed["status"], &killed["signal"]),
        (&deaf.into(), &137.into(), &"SIGKILL".into())
    );
    assert_eq!(killed["reason"], "killed by SIGKILL after killTimeout");
    let told = pilot.tell(&["events"]);
    assert!(
        told.contains(&format!("deaf exitFailed: killed by SIGKILL after killTimeout [pid {deaf}]")),
        "{told}"
    );
    let shown = pilot.tell(&["status"]);
    assert!(shown.lines().any(|line| line.starts_with("after") && line.contains("never ran")), "{shown}");
    assert!(shown.contains("never ran: fails failed"), "{shown}");
    pilot.tell(&["restart", "app"]);
    pilot.wait_for_event("app stopped");
    let told = pilot.tell(&["events"]);
    assert!(told.contains("app stopping: it is restarted by hand"), "{told}");
    assert_eq!(pilot.stop(), Exit::Code(0));
}
