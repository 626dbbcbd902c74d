//! `report`: an archive for a bug report. And: no secret is in it, nor in anything else that the program shows.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::http::get_port;
use crate::support::needs::has_programs;
use crate::support::ports::free_port;
use crate::support::tls::Certificates;
use crate::support::{DEADLINE, Pilot, Setup};

/// Unpacks an archive; returns the names of its files.
fn unpack(archive: &Path, folder: &Path) -> Vec<String> {
    let output = Command::new("tar").arg("-xzvf").arg(archive).arg("-C").arg(folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let names = String::from_utf8(output.stdout).unwrap();
    names.lines().filter_map(|name| name.strip_prefix("containerpilot-report/")).map(Into::into).collect()
}

#[test]
fn a_report_has_all_that_is_known_and_is_for_its_owner_only() {
    if !has_programs(&["tar", "gzip"]) {
        return;
    }
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "app", exec: ["sh", "-c", "echo last words; exit 3"] },
            { name: "stays", exec: "sleep 1000" },
        ] }"#,
    );
    pilot.wait_for_event("app exitFailed");
    pilot.eventually("the dossier", || pilot.tell(&["crashes", "app"]).contains("last words"));
    let archive = pilot.path("report.tar.gz");
    let said = pilot.tell(&["report", "-out", archive.to_str().unwrap()]);
    assert!(said.starts_with(archive.to_str().unwrap()) && said.ends_with(" KiB)\n"), "{said}");
    assert_eq!(fs::metadata(&archive).unwrap().permissions().mode() & 0o777, 0o600);
    let names = unpack(&archive, pilot.dir());
    for name in [
        "configuration.json",
        "limits.txt",
        "metrics.txt",
        "program.json",
        "status.json",
        "crashes.json",
        "log.txt",
        "events.jsonl",
        "graph.dot",
        "why/0.json",
    ] {
        assert!(names.iter().any(|found| found == name), "{name} is not in {names:?}");
    }
    let text = |name: &str| pilot.text(&format!("containerpilot-report/{name}"));
    let json = |name: &str| serde_json::from_str::<Value>(&text(name)).unwrap();
    assert!(text("log.txt").contains("last words"));
    assert_eq!(json("crashes.json")["crashes"][0]["status"], 3);
    assert_eq!(json("status.json")["jobs"][0]["name"], "app");
    assert_eq!(json("configuration.json")["jobs"][0]["name"], "app");
    assert_eq!(json("program.json")["pid"], pilot.pid());
    assert!(text("limits.txt").contains("Max open files"), "{}", text("limits.txt"));
    assert!(text("metrics.txt").contains("containerpilot_"), "{}", text("metrics.txt"));
    let events = text("events.jsonl");
    let first: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    assert_eq!(first["code"], "startup");
    let stdout = pilot.client(&["report", "-out", "-"]).stdout;
    assert!(stdout.starts_with(&[0x1f, 0x8b]), "gzip");
}

/// The first event of the page's stream, which has everything in it.
fn beginning_of_stream(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(b"GET /page/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    let mut lines = BufReader::new(stream);
    while !text.contains("data:") || !text.ends_with("\n\n") {
        assert_ne!(lines.read_line(&mut text).unwrap(), 0, "{text}");
    }
    text
}

#[test]
fn no_planted_secret_is_in_anything_that_is_shown() {
    if !has_programs(&["tar", "gzip"]) {
        return;
    }
    let (port, consul) = (free_port(), free_port());
    let certificates = Certificates::new();
    certificates.authority("us");
    let (place, key) = (certificates.place(), fs::read_to_string(certificates.path("us.key")).unwrap());
    let setup = Setup::new()
        .file("password", "planted-in-file\n")
        .file("vars.env", "SECRET=planted-in-env-file\n")
        .file("client.key", "-----BEGIN PRIVATE KEY-----\nplantedInKey\n-----END PRIVATE KEY-----\n")
        .env("INHERITED", "planted-inherited");
    let pilot = setup
        .config(&format!(
            r#"{{
              consul: {{ address: "https://127.0.0.1:{consul}", token: "planted-token",
                tls: {{ cafile: "{place}/us.pem", clientcert: "{place}/us.pem", clientkey: "{place}/us.key" }} }},
              telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"], page: "full" }},
              env: {{ TOP: "planted-in-env" }},
              jobs: [
                {{ name: "app", exec: ["sh", "-c", "echo ready; sleep 0.2; exit 1", "planted-argument"], restarts: 3,
                   env: {{ OWN: "planted-in-job", FILE: {{ file: "{{dir}}/password" }} }}, envFile: "{{dir}}/vars.env",
                   backoff: {{ min: "10ms", max: "20ms" }} }},
                {{ name: "web", exec: "sleep 1000", port: 8000, interfaces: ["static:127.0.0.1"],
                   env: {{ FILE: {{ file: "{{dir}}/password" }} }},
                   health: {{ http: {{ url: "https://me:planted-userinfo@127.0.0.1:1/?key=planted-query",
                     headers: {{ Authorization: "Bearer planted-header" }}, tls: {{ clientkey: "{{dir}}/client.key", clientcert: "{{dir}}/client.key" }} }},
                     interval: 1, ttl: 5 }} }},
                {{ name: "broken", exec: ["/does/not/exist", "planted-argument-2"], restarts: 1 }},
              ],
              watches: [{{ name: "db", interval: 1 }}],
            }}"#
        ))
        .start();
    pilot.wait_for_event("broken exitFailed");
    pilot.wait_for_event("web unhealthy");
    pilot.tell(&["-putenv", "LATER=planted-by-putenv"]);
    pilot.wait_for_event("app stopped");
    pilot.wait_for_message("Consul is in trouble");
    let archive = pilot.path("report.tar.gz");
    pilot.tell(&["report", "-out", archive.to_str().unwrap()]);
    let mut shown: Vec<(String, String)> = Vec::new();
    for name in unpack(&archive, pilot.dir()) {
        let text = pilot.text(&format!("containerpilot-report/{name}"));
        shown.push((name, text));
    }
    for arguments in [
        &["status"][..],
        &["status", "-format", "json"],
        &["events"],
        &["logs"],
        &["crashes"],
        &["crashes", "app"],
        &["crashes", "broken"],
        &["crashes", "-format", "json"],
        &["-reload", "-dry-run"],
        &["why", "web"],
        &["why", "app", "-format", "json"],
        &["graph"],
    ] {
        shown.push((arguments.join(" "), pilot.tell(arguments)));
    }
    let page =
        ["/page/why/web", "/page/why/app", "/page/logs/app", "/page/crashes/app", "/page/crashes/broken"];
    for path in ["/metrics", "/status", "/readyz"].into_iter().chain(page) {
        let answer = get_port(port, path, "");
        assert!(answer.status == 200 || path == "/readyz", "{path}: {}", answer.status);
        shown.push((path.to_owned(), answer.body));
    }
    shown.push(("/page/events".to_owned(), beginning_of_stream(port)));
    shown.push(("the log".to_owned(), pilot.log().text()));
    assert!(shown.len() > 15, "{}", shown.len());
    let crashes = &shown.iter().find(|(name, _)| name == "crashes.json").unwrap().1;
    assert!(crashes.contains("ready") && crashes.contains("/does/not/exist"), "{crashes}");
    let key: Vec<&str> = key.lines().filter(|line| !line.starts_with('-')).collect();
    assert!(!key.is_empty());
    for (name, text) in &shown {
        assert!(!key.iter().any(|line| text.contains(line)), "{name} shows our key to Consul: {text}");
        assert!(!text.to_lowercase().contains("planted"), "{name} shows a secret: {text}");
    }
}
