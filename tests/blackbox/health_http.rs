//! Health checks over HTTP, HTTPS and TCP: whom they trust, what they say when they fail, and that they fork nothing.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use crate::support;
use crate::support::needs::{has_ipv6, has_programs};
use crate::support::ports::free_port;
use crate::support::tls::{Certificates, serve};
use crate::support::{Exit, Pilot, Setup};

/// A job that is well when its check is.
fn job(name: &str, check: &str) -> String {
    format!(
        r#"{{ name: "{name}", exec: "sleep 1000", health: {{ {check}, interval: "200ms", timeout: "20s" }} }},"#
    )
}

fn config(checks: &[(&str, String)]) -> String {
    let jobs: String = checks.iter().map(|(name, check)| job(name, check)).collect();
    format!("{{ jobs: [{jobs}] }}")
}

/// Certificates of an authority for names and addresses of this machine, and of others.
fn certificates() -> Certificates {
    let certificates = Certificates::new();
    certificates.authority("authority");
    certificates.authority("stranger");
    certificates.signed("server", "authority", "DNS:localhost,DNS:app.example,IP:127.0.0.1,IP:::1");
    certificates.signed("elsewhere", "authority", "DNS:elsewhere.example");
    certificates.signed("client", "authority", "DNS:client");
    std::fs::create_dir(certificates.path("trusted")).unwrap();
    std::fs::copy(certificates.path("authority.pem"), certificates.path("trusted/a.pem")).unwrap();
    certificates
}

#[test]
fn an_https_check_passes_when_the_certificate_is_for_the_host_and_signed_by_somebody_trusted() {
    if !has_ipv6() {
        return;
    }
    let certificates = certificates();
    let place = certificates.place();
    let four = serve(&certificates, "server", "127.0.0.1:0", None);
    let six = serve(&certificates, "server", "[::1]:0", None);
    let mutual = serve(&certificates, "server", "127.0.0.1:0", Some("authority"));
    let elsewhere = serve(&certificates, "elsewhere", "127.0.0.1:0", None);
    let ours = format!(r#"cafile: "{place}/authority.pem""#);
    let known = format!(r#"clientcert: "{place}/client.pem", clientkey: "{place}/client.key""#);
    let check =
        |url: String, tls: &str| format!(r#"http: {{ url: "{url}", contains: "well", tls: {{ {tls} }} }}"#);
    let checks = [
        ("name", check(format!("https://localhost:{four}/"), &ours)),
        ("four", check(format!("https://127.0.0.1:{four}/"), &ours)),
        ("six", check(format!("HTTPS://[::1]:{six}/?x"), &ours)),
        ("folder", check(format!("https://127.0.0.1:{four}"), &format!(r#"capath: "{place}/trusted""#))),
        (
            "other-name",
            check(format!("https://127.0.0.1:{four}"), &format!(r#"{ours}, servername: "app.example""#)),
        ),
        ("mutual", check(format!("https://127.0.0.1:{mutual}"), &format!("{ours}, {known}"))),
        ("anybody", check(format!("https://127.0.0.1:{elsewhere}"), "verify: false")),
    ];
    let pilot = Pilot::start(&config(&checks));
    for (name, _) in &checks {
        pilot.wait_for_event(&format!("{name} healthy"));
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_self_signed_certificate_is_accepted_if_it_is_trusted_itself() {
    let certificates = Certificates::new();
    let place = certificates.place();
    certificates.self_signed("server", "DNS:localhost,IP:127.0.0.1");
    certificates.self_signed("other", "DNS:localhost,IP:127.0.0.1");
    let port = serve(&certificates, "server", "127.0.0.1:0", None);
    let check = |trusted: &str| {
        let tls = format!(r#"tls: {{ cafile: "{place}/{trusted}.pem" }}"#);
        format!(r#"http: {{ url: "https://127.0.0.1:{port}/", contains: "well", {tls} }}"#)
    };
    let pilot = Pilot::start(&config(&[("itself", check("server")), ("stranger", check("other"))]));
    pilot.wait_for_event("itself healthy");
    let record = pilot.wait_for_message("is Failing");
    assert!(record.message.contains("self-signed") && record.message.contains("`tls.cafile`"), "{record:?}");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_check_lets_a_server_send_its_whole_answer_although_the_status_was_enough() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serves = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n").unwrap();
        (0..20).all(|_| {
            thread::sleep(Duration::from_millis(10));
            stream.write_all(&[b'x'; 100]).is_ok()
        })
    });
    let pilot = Pilot::start(&config(&[("app", format!(r#"http: "http://127.0.0.1:{port}""#))]));
    pilot.wait_for_event("app healthy");
    assert!(serves.join().unwrap(), "the connection ended while the server sent");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn what_the_system_trusts_is_trusted_without_settings() {
    let certificates = certificates();
    let port = serve(&certificates, "server", "127.0.0.1:0", None);
    let checks = [("app", format!(r#"http: "https://localhost:{port}""#))];
    let authority = certificates.path("authority.pem").display().to_string();
    let pilot = Setup::new().config(&config(&checks)).env("SSL_CERT_FILE", &authority).start();
    pilot.wait_for_event("app healthy");
}

#[test]
fn an_https_check_that_fails_says_why_once() {
    let certificates = certificates();
    let place = certificates.place();
    let server = serve(&certificates, "server", "127.0.0.1:0", None);
    let mutual = serve(&certificates, "server", "127.0.0.1:0", Some("authority"));
    let elsewhere = serve(&certificates, "elsewhere", "127.0.0.1:0", None);
    let check =
        |port: u16, tls: &str| format!(r#"http: {{ url: "https://127.0.0.1:{port}", tls: {{ {tls} }} }}"#);
    let ours = format!(r#"cafile: "{place}/authority.pem""#);
    let cases = [
        ("stranger", check(server, &format!(r#"cafile: "{place}/stranger.pem""#)), "tls.cafile"),
        ("elsewhere", check(elsewhere, &ours), "elsewhere.example"),
        ("unknown", check(mutual, &ours), "CertificateRequired"),
        ("missing", check(server, &format!(r#"cafile: "{place}/none.pem""#)), "none.pem"),
    ];
    let checks: Vec<(&str, String)> = cases.iter().map(|(name, check, _)| (*name, check.clone())).collect();
    let pilot = Pilot::start(&config(&checks));
    for (name, _, reason) in &cases {
        pilot.wait_for_event(&format!("{name} unhealthy"));
        let failing = |record: &support::Record| {
            record.job == format!("check.{name}") && record.message.contains("is Failing")
        };
        let record = pilot.wait_for_record(&format!("why {name} fails"), failing);
        println!("{}", record.message);
        assert!(record.message.contains(reason), "{name}: {}", record.message);
        assert_eq!(record.level, "info");
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
    let told = pilot.count_messages("is Failing");
    assert_eq!(told, cases.len(), "each is told when it changes, not at each try");
}

#[test]
fn a_machine_that_trusts_nobody_is_told_what_to_do() {
    let certificates = certificates();
    let port = serve(&certificates, "server", "127.0.0.1:0", None);
    std::fs::write(certificates.path("empty.pem"), "").unwrap();
    let empty = certificates.path("empty.pem").display().to_string();
    let checks = [("app", format!(r#"http: "https://localhost:{port}""#))];
    let pilot = Setup::new().config(&config(&checks)).env("SSL_CERT_FILE", &empty).start();
    let record = pilot.wait_for_message("is Failing");
    for words in ["empty.pem", "`tls.cafile`", "SSL_CERT_FILE", "verify: false"] {
        assert!(record.message.contains(words), "{}", record.message);
    }
}

#[test]
fn a_renewed_authority_is_read_at_the_next_try() {
    let certificates = certificates();
    let place = certificates.place();
    let port = serve(&certificates, "server", "127.0.0.1:0", None);
    std::fs::copy(certificates.path("stranger.pem"), certificates.path("ca.pem")).unwrap();
    let check =
        format!(r#"http: {{ url: "https://localhost:{port}", tls: {{ cafile: "{place}/ca.pem" }} }}"#);
    let pilot = Pilot::start(&config(&[("app", check)]));
    pilot.wait_for_event("app unhealthy");
    std::fs::rename(certificates.path("authority.pem"), certificates.path("ca.pem")).unwrap();
    pilot.wait_for_event("app healthy");
}

/// Where Debian has it.
const NGINX: &str = "/usr/sbin/nginx";

/// An nginx with a place for each kind of answer; `PORT` stands for its port.
const NGINX_CONFIG: &str = r#"
daemon off; master_process off; error_log {dir}/error.log; pid {dir}/nginx.pid;
events {}
http {
    log_format asked '$request|$http_user_agent'; access_log {dir}/access.log asked;
    client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
    server {
        listen 127.0.0.1:PORT; root {dir};
        location = /well { return 200 "all is well"; }
        location = /café { return 204; }
        location = /posted { if ($request_method = POST) { return 201; } return 405; }
        location = /moved { return 302 /well; }
        location = /pieces.txt { ssi on; ssi_types *; }
        location = /secret.txt { auth_basic here; auth_basic_user_file {dir}/users; }
    }
    server { listen 127.0.0.1:PORT; server_name app.example; location / { return 200 "the app"; } }
}
"#;

#[test]
fn a_real_server_is_asked_for_what_the_check_says() {
    if !has_programs(&[NGINX]) {
        return;
    }
    let port = free_port();
    let url = |path: &str| format!(r#"url: "http://127.0.0.1:{port}/{path}""#);
    let healthy = [
        ("plain", url("well")),
        ("contains", format!(r#"{}, contains: "is well""#, url("well"))),
        // nginx sends what it puts together itself in chunks.
        ("pieces", format!(r#"{}, contains: "asked with GET.""#, url("pieces.txt"))),
        ("head", format!(r#"{}, method: "head""#, url("well?head"))),
        ("posted", format!(r#"{}, method: "POST", status: 201"#, url("posted"))),
        ("no-content", url("café")),
        ("expected", format!("{}, status: 302", url("moved"))),
        ("host", format!(r#"{}, headers: {{ Host: "app.example" }}, contains: "the app""#, url("well"))),
        ("login", format!(r#"url: "http://me:p%40ss@127.0.0.1:{port}/secret.txt", contains: "42""#)),
    ];
    let unhealthy = [
        ("missing", url("nowhere"), "answered 404 Not Found"),
        ("moved", url("moved"), "answered 302 Found"),
        ("stranger", url("secret.txt"), "answered 401 Unauthorized"),
        ("ill", format!(r#"{}, contains: "ill""#, url("well")), "the answer does not contain"),
    ];
    let checks: String = healthy
        .iter()
        .map(|(name, request)| (name, request))
        .chain(unhealthy.iter().map(|(name, request, _)| (name, request)))
        .map(|(name, request)| {
            job(name, &format!("http: {{ {request} }}"))
                .replace("exec:", "when: { source: \"nginx\", once: \"healthy\" }, exec:")
        })
        .collect();
    let nginx = format!(
        r#"{{ name: "nginx", exec: ["{NGINX}", "-p", "{{dir}}", "-c", "{{dir}}/nginx.conf"],
              health: {{ tcp: "127.0.0.1:{port}", interval: "10s" }} }},"#
    );
    let setup = Setup::new()
        .file("nginx.conf", &NGINX_CONFIG.replace("PORT", &port.to_string()))
        .file("users", "me:{PLAIN}p@ss\n")
        .file("secret.txt", "42")
        .file("pieces.txt", r#"asked with <!--# echo var="request_method" -->."#);
    let pilot = setup.config(&format!("{{ jobs: [{nginx}{checks}] }}")).start();
    for (name, _) in &healthy {
        pilot.wait_for_event(&format!("{name} healthy"));
    }
    for (name, _, reason) in &unhealthy {
        pilot.wait_for_event(&format!("{name} unhealthy"));
        pilot.wait_for_message(reason);
    }
    let asked = pilot.text("access.log");
    for wanted in ["GET /well HTTP/1.1|containerpilot/", "HEAD /well?head HTTP/1.1|containerpilot/"] {
        assert!(asked.contains(wanted), "{wanted} is not in {asked}");
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_server_that_never_answers_fails_at_the_timeout_and_holds_up_nobody() {
    // The kernel accepts connections for a listener that never does.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let config = format!(
        r#"{{ jobs: [
            {{ name: "http", exec: "sleep 1000", health: {{ http: "http://{address}/", interval: "100ms", timeout: "300ms" }} }},
            {{ name: "https", exec: "sleep 1000", health: {{ http: "https://{address}/", interval: "100ms", timeout: "300ms" }} }},
            {{ name: "both", exec: "sleep 1000", health: [{{ http: "http://{address}/", interval: "1h" }}, {{ tcp: "{address}", interval: "50ms" }}] }},
            {{ name: "tcp", exec: "sleep 1000", health: {{ tcp: "{address}", interval: "50ms" }} }}] }}"#
    );
    let pilot = Pilot::start(&config);
    for event in ["tcp healthy", "http unhealthy", "https unhealthy"] {
        pilot.wait_for_event(event);
    }
    pilot.wait_for_message("took longer than its timeout");
    assert_eq!(pilot.status_of("both")["health"], "unknown", "one of its checks has nothing to say yet");
    assert_eq!(support::children(pilot.pid()).len(), 4, "no check is a process");
    assert_eq!(pilot.stop(), Exit::Code(0));
}
