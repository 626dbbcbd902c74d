//! The page for people: what is served, to how many, and how it looks in a real Chromium.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::browser::Browser;
use crate::support::http::{Answer, get_port, request};
use crate::support::needs::has_programs;
use crate::support::ports::free_port;
use crate::support::{DEADLINE, Exit, Pilot, resident_kib};

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

/// A few jobs of every look.
const JOBS: &str = r#"[
    { name: "database", exec: "sleep 1000", restarts: "unlimited", health: { exec: "true", interval: "2s" } },
    { name: "migrate", exec: "true", when: { source: "database", once: "healthy" } },
    { name: "application", exec: ["sh", "-c", "while test ! -e {dir}/crash; do sleep 0.02; done; rm {dir}/crash; exit 3"],
      when: { source: "migrate", once: "exitSuccess" }, restarts: "unlimited", backoff: { min: "300ms" } },
    { name: "report", exec: "true", when: { interval: "1h" } },
    { name: "hook", exec: "true", when: { source: "SIGUSR2" } },
    { name: "broken", exec: ["sh", "-c", "echo failing words; exit 1"] } ]"#;

fn start(page: &str) -> (Pilot, u16) {
    let port = free_port();
    let telemetry = format!(r#"telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"]{page} }}"#);
    let pilot = Pilot::start(&format!("{{ {telemetry}, jobs: {JOBS} }}"));
    pilot.wait_for_event("migrate exitSuccess");
    (pilot, port)
}

fn send(port: u16, method: &str, path: &str) -> Answer {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    request(stream, method, path, "", "")
}

/// A client of the stream that keeps the page up to date.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(port: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(b"GET /page/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        Self(BufReader::new(stream))
    }

    fn status(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.get(9..12).unwrap_or_default().to_owned()
    }

    /// The next message of that event that is wanted.
    fn wait_for(&mut self, event: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < DEADLINE, "no such message: {event}");
            let (name, told) = self.next();
            if name == event && wanted(&told) {
                return told;
            }
        }
    }

    /// The next message: the name of its event, and its content.
    fn next(&mut self) -> (String, Value) {
        let mut name = "message".to_owned();
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream has ended");
            if let Some(other) = line.strip_prefix("event: ") {
                name = other.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (name, serde_json::from_str(data).unwrap());
            }
        }
    }
}

#[test]
fn without_page_nothing_of_it_is_there() {
    for page in ["", ", page: false"] {
        let (pilot, port) = start(page);
        for path in
            ["/", "/page/events", "/page/why/database", "/page/logs/database", "/page/crashes/database"]
        {
            for method in ["GET", "POST"] {
                let answer = send(port, method, path);
                assert_eq!(answer.status, 404, "{method} {path}");
                assert_eq!(answer.json()["error"], format!("there is nothing at {path}"));
            }
        }
        assert_eq!(pilot.stop(), Exit::Code(0));
    }
}

#[test]
fn the_page_is_one_file_with_a_strict_policy_and_changes_nothing() {
    let (pilot, port) = start(", page: true");
    let answer = get_port(port, "/", "");
    assert_eq!(answer.status, 200);
    let head = answer.head.to_ascii_lowercase();
    assert!(head.contains("content-type: text/html; charset=utf-8"), "{head}");
    let policy = head.lines().find_map(|line| line.strip_prefix("content-security-policy: ")).unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(policy.contains("script-src 'sha256-") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(answer.body.starts_with("<!DOCTYPE html>"));
    for (method, path) in [("POST", "/"), ("PUT", "/page/events"), ("HEAD", "/page/events"), ("DELETE", "/")]
    {
        assert_eq!(send(port, method, path).status, 405, "{method} {path}");
    }
    assert_eq!(send(port, "HEAD", "/").body, "");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn the_stream_tells_all_and_then_what_changes() {
    let (pilot, port) = start(", page: true");
    pilot.wait_for_event("database healthy");
    let mut client = Client::connect(port);
    assert_eq!(client.status(), "200");
    let graph = client.wait_for("graph", |_| true);
    let edge = json!({ "from": "database", "to": "migrate", "event": "healthy" });
    assert!(graph["edges"].as_array().unwrap().contains(&edge), "{graph}");
    let database = client.wait_for("job", |job| job["name"] == "database");
    assert_eq!((&database["state"], &database["health"]), (&json!("running"), &json!("healthy")));
    let program = client.wait_for("program", |_| true);
    assert_eq!(program["order"].as_array().unwrap().len(), 6);
    client.wait_for("message", |event| event["code"] == "startup");
    let began = Instant::now();
    fs::write(pilot.path("crash"), "").unwrap();
    client.wait_for("message", |event| event["code"] == "exitFailed" && event["source"] == "application");
    client.wait_for("job", |job| job["name"] == "application" && job["restarts"] == 1);
    assert!(began.elapsed() < DEADLINE);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn events_come_after_all_that_there_is_however_many_jobs_there_are() {
    let port = free_port();
    let job = |number| format!("{{ name: 'job-{number}', exec: 'true', when: {{ source: 'SIGUSR2' }} }}");
    let jobs: Vec<String> = (0..200).map(job).collect();
    let telemetry = format!("telemetry: {{ port: {port}, interfaces: ['static:127.0.0.1'], page: true }}");
    let pilot = Pilot::start(&format!("{{ {telemetry}, jobs: [{}] }}", jobs.join(", ")));
    pilot.wait_for_event("global startup");
    let mut client = Client::connect(port);
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != "message") {
        names.push(client.next().0);
    }
    assert_eq!(names.iter().filter(|name| *name == "program").count(), 1, "{names:?}");
    assert_eq!(names.iter().filter(|name| *name == "job").count(), 200, "{names:?}");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn output_and_crashes_are_shown_only_if_the_page_is_full() {
    let port = free_port();
    let config = |page: &str| {
        format!(
            r#"{{ telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"], page: {page} }}, jobs: [
                {{ name: "app", exec: "sleep 1000" }},
                {{ name: "/bin/broken", exec: ["sh", "-c", "echo last words; exit 3"] }} ] }}"#
        )
    };
    let paths = ["/page/logs/%2Fbin%2Fbroken", "/page/crashes/%2Fbin%2Fbroken"];
    let pilot = Pilot::start(&config("true"));
    pilot.wait_for_event("/bin/broken stopped");
    for path in paths {
        assert_eq!(get_port(port, path, "").status, 404, "{path}");
    }
    let why = get_port(port, "/page/why/%2Fbin%2Fbroken", "").json();
    assert!(why["summary"].as_str().unwrap().contains("exited with status 3"), "{why}");
    assert!(!why.to_string().contains("last words"), "{why}");
    assert_eq!(pilot.stop(), Exit::Code(0));
    let pilot = Pilot::start(&config("\"full\""));
    pilot.wait_for_event("/bin/broken stopped");
    let [logs, crashes] = paths.map(|path| get_port(port, path, ""));
    assert!(logs.body.contains("last words"), "{logs:?}");
    assert!(
        crashes.body.contains("last words") && crashes.body.contains("exited with status 3"),
        "{crashes:?}"
    );
    assert_eq!(get_port(port, "/page/logs/ghost", "").status, 404);
    assert_eq!(send(port, "POST", paths[0]).status, 405);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_reload_turns_the_page_on_and_off() {
    let (pilot, port) = start(", page: true");
    let mut client = Client::connect(port);
    client.wait_for("program", |_| true);
    pilot.edit(", page: true", ", page: false");
    pilot.tell(&["-reload"]);
    let mut rest = String::new();
    client.0.read_to_string(&mut rest).unwrap();
    assert_eq!(get_port(port, "/", "").status, 404);
    pilot.edit(", page: false", ", page: true");
    pilot.tell(&["-reload"]);
    assert_eq!(get_port(port, "/", "").status, 200);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn at_most_32_clients_are_served_and_one_that_goes_makes_room() {
    let (pilot, port) = start(", page: true");
    let mut clients: Vec<Client> = (0..32).map(|_| Client::connect(port)).collect();
    for client in &mut clients {
        assert_eq!(client.status(), "200");
    }
    let refused = get_port(port, "/page/events", "");
    assert_eq!(refused.status, 503);
    assert_eq!(refused.json()["error"], "32 clients look at the page already");
    assert_eq!(get_port(port, "/metrics", "").status, 200, "others are served");
    clients.pop();
    pilot.eventually("there is room again", || Client::connect(port).status() == "200");
    let began = Instant::now();
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(began.elapsed().as_secs() < 20, "clients do not hold up the end");
}

#[test]
fn clients_that_do_not_read_cost_little() {
    let port = free_port();
    let pilot = Pilot::start(&format!(
        r#"{{ telemetry: {{ port: {port}, interfaces: ["static:127.0.0.1"], page: true }}, logging: {{ level: "ERROR" }},
            jobs: [{{ name: "busy", exec: "true", restarts: "unlimited", backoff: {{ max: "0s" }} }},
                   {{ name: "app", exec: "sleep 1000" }}] }}"#
    ));
    let seen = || {
        let found = get_port(port, "/metrics", "").sample("containerpilot_job_restarts_total{name=\"busy\"}");
        found.and_then(|count| count.parse::<f64>().ok()).unwrap_or(0.0)
    };
    pilot.eventually("it restarts", || seen() > 100.0);
    let _silent: Vec<TcpStream> = (0..32)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(b"GET /page/events HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            stream
        })
        .collect();
    let (before, runs) = (resident_kib(pilot.pid()), seen());
    pilot.within(DEADLINE * 3, "many runs more", || seen() > runs + 300.0);
    let grown = resident_kib(pilot.pid()).saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB more with 32 clients that read nothing");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

/// Text whose colour is too near to its background (WCAG AA: 4.5 to 1).
const FAINT: &str = r#"
    const luminance = (color) => {
        const [r, g, b] = color.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255)
            .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const back = (node) => {
        for (let at = node; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            if (!/, 0\)$/.test(color) && color !== 'transparent') return color;
        }
        return 'rgb(255, 255, 255)';
    };
    const faint = [];
    for (const node of document.querySelectorAll('body *')) {
        if (![...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim())) continue;
        if (['SCRIPT', 'STYLE', 'title', 'OPTION'].includes(node.tagName) || !node.getClientRects().length) continue;
        const style = getComputedStyle(node);
        const color = node instanceof SVGElement ? style.fill : style.color;
        const [one, other] = [luminance(color), luminance(back(node))].sort((a, b) => b - a);
        if ((one + 0.05) / (other + 0.05) < 4.5) faint.push(`${node.tagName} ${node.textContent} ${color} on ${back(node)}`);
    }
    return faint;"#;

fn adjust(browser: &Browser, width: u32, scheme: &str) {
    let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
    browser.devtools("Emulation.setDeviceMetricsOverride", &size);
    let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
    browser.devtools("Emulation.setEmulatedMedia", &features);
}

/// With `UPDATE_SCREENSHOTS=1`, keeps what the page looks like for the manual.
fn keep_picture(browser: &Browser, name: &str) {
    if std::env::var_os("UPDATE_SCREENSHOTS").is_none() {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut decoder = Command::new("base64")
        .arg("-d")
        .stdin(Stdio::piped())
        .stdout(fs::File::create(path).unwrap())
        .spawn()
        .unwrap();
    decoder.stdin.take().unwrap().write_all(browser.screenshot().as_bytes()).unwrap();
    assert!(decoder.wait().unwrap().success());
}

#[test]
fn in_chromium_the_page_is_live_accessible_and_asks_nobody_else() {
    if !has_programs(&["chromium", "chromedriver"]) {
        return;
    }
    let (pilot, port) = start(r#", page: "full""#);
    pilot.wait_for_event("broken stopped");
    let (browser, origin) = (Browser::start(), format!("http://127.0.0.1:{port}/"));
    browser.log("performance"); // of its own first page
    browser.open(&origin);
    browser.wait_for("document.querySelectorAll('#job-rows tr').length === 6");
    browser.wait_for("document.querySelector('#event-rows tr')");
    browser.wait_for("document.querySelector('#graph svg')");
    let row = "document.querySelector('[data-name=application]').innerText";
    browser.wait_for(&format!("{row}.includes('running')"));

    // Live: a crash is on the page within a second, which the page itself measures.
    browser.run(
        "window.seen = null; new MutationObserver(() => {
            const row = document.querySelector('[data-name=application]');
            if (!window.seen && row && /delayed|starting|\\t1\\t/.test(row.innerText)) window.seen = Date.now();
        }).observe(document.querySelector('#job-rows'), { childList: true, subtree: true });",
    );
    fs::write(pilot.path("crash"), "").unwrap();
    browser.wait_for("window.seen");
    let crashed = "[...document.querySelectorAll('#event-rows tr')].find((row) => row.innerText.includes('exitFailed') && row.innerText.includes('application'))";
    browser.wait_for(crashed);
    let late =
        browser.run(&format!("return window.seen - Date.parse({crashed}.querySelector('time').dateTime);"));
    assert!(late.as_f64().unwrap() < 1000.0, "seen {late} ms after the crash");

    // The keyboard: from the top, Tab reaches every job, Enter opens it.
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0);");
    for _ in 0..3 {
        browser.press(TAB);
    }
    let focused = browser.run("return document.activeElement.textContent;");
    assert_eq!(focused, "migrate", "the link to the jobs, then the jobs");
    browser.press(ENTER);
    browser.wait_for("!document.querySelector('#detail').hidden && document.querySelector('#detail h3').textContent === 'migrate'");
    browser.wait_for("document.activeElement.ariaExpanded === 'true'");

    browser.wait_for("document.querySelector('#detail').innerText.includes('Why')");
    browser.run("document.querySelector('[data-name=broken] button').click();");
    browser.wait_for("document.querySelector('#detail').innerText.includes('failing words')");

    // The timeline can be scrolled back, and stays there.
    browser.run("for (let i = 0; i < 3; i++) document.querySelector('#wider').click();");
    browser.wait_for(
        "document.querySelector('#timeline').scrollWidth > document.querySelector('#timeline').clientWidth",
    );
    browser.run("document.querySelector('#timeline').scrollLeft = 0;");
    fs::write(pilot.path("crash"), "").unwrap();
    pilot.wait_for_events("application exitFailed", 2);
    browser.wait_for("document.querySelector('[data-name=application]').innerText.includes('2')");
    assert_eq!(browser.run("return document.querySelector('#timeline').scrollLeft;"), json!(0));

    // Roles and names, as a screen reader gets them.
    let tree = browser.devtools("Accessibility.getFullAXTree", &json!({}));
    let nodes: Vec<(String, String)> = tree["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            let text = |key: &str| node[key]["value"].as_str().unwrap_or_default().to_owned();
            (text("role"), text("name"))
        })
        .collect();
    for (role, name) in [
        ("banner", ""),
        ("main", ""),
        ("heading", "Jobs"),
        ("table", "Jobs"),
        ("columnheader", "State"),
        ("rowheader", "database"),
        ("button", "database"),
        ("region", "What waits for what"),
        ("region", "Events"),
        ("region", "Timeline: scroll left for the past"),
        ("status", ""),
        ("combobox", "Of"),
    ] {
        assert!(
            nodes.iter().any(|node| *node == (role.to_owned(), name.to_owned())),
            "{role} {name:?} in {nodes:?}"
        );
    }
    let unnamed: Vec<_> = nodes.iter().filter(|(role, name)| role == "button" && name.is_empty()).collect();
    assert!(unnamed.is_empty(), "{unnamed:?}");

    // In every light and at every width.
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")] {
        adjust(&browser, width, scheme);
        browser.wait_for(&format!("window.innerWidth === {width}"));
        browser.run("document.querySelector('#now').click(); window.scrollTo(0, 0);");
        browser.wait_for("document.querySelector('#timeline svg')");
        assert_eq!(browser.run(FAINT), json!([]), "{width} {scheme}");
        let fits = browser.run("return document.documentElement.scrollWidth <= window.innerWidth;");
        assert_eq!(fits, json!(true), "at {width} nothing has to be scrolled sideways");
        keep_picture(&browser, &format!("page-{}-{scheme}.png", if width > 600 { "wide" } else { "phone" }));
    }

    let errors: Vec<Value> = browser.log("browser");
    assert!(errors.is_empty(), "{errors:?}");
    for entry in browser.log("performance") {
        let message: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
        if message["message"]["method"] == "Network.requestWillBeSent" {
            let url = message["message"]["params"]["request"]["url"].as_str().unwrap().to_owned();
            assert!(
                url.starts_with(&origin) || url.starts_with("data:") || url.starts_with("chrome://"),
                "{url}"
            );
        }
    }
    drop(browser);
    assert_eq!(pilot.stop(), Exit::Code(0));
}
