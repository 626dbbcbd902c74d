//! The ways to a real Consul: mutual TLS, ACL tokens, a unix socket; and that no secret is ever shown.

use std::time::{Duration, Instant};

use crate::support::consul::Consul;
use crate::support::needs::has_ipv6;
use crate::support::ports::free_port;
use crate::support::proxy::{Fault, Proxy};
use crate::support::tls::Certificates;
use crate::support::{Exit, Pilot, Setup};

const MASTER: &str = "11111111-2222-3333-4444-555555555555";
const TOKEN: &str = "99999999-8888-7777-6666-abcdefabcdef";

/// An advertised job that is always well.
fn config(consul: &str) -> String {
    format!(
        r#"{{ consul: {consul}, watches: [{{ name: "app", interval: "1s" }}], jobs: [{{ name: "app", exec: "sleep 1000", port: 80,
            interfaces: "static:10.1.2.3", health: {{ exec: "true", interval: "50ms", timeout: "10s", heartbeat: "1s" }} }}] }}"#
    )
}

fn acl_settings() -> String {
    format!(
        r#"{{ "acl": {{ "enabled": true, "token_ttl": "0s", "default_policy": "deny", "tokens": {{ "master": "{MASTER}", "agent": "{MASTER}" }} }} }}"#
    )
}

/// Makes a token that may write the service `app`, and read.
fn make_token(consul: &Consul) {
    let rules = r#"service \"app\" { policy = \"write\" } service_prefix \"\" { policy = \"read\" } node_prefix \"\" { policy = \"read\" }"#;
    consul.put("/v1/acl/policy", &format!(r#"{{ "Name": "app", "Rules": "{rules}" }}"#));
    add_token(consul, TOKEN);
}

/// One more token with the same rights; its name for who administers it.
fn add_token(consul: &Consul, secret: &str) -> String {
    let text = format!(r#"{{ "SecretID": "{secret}", "Policies": [{{ "Name": "app" }}] }}"#);
    let token: serde_json::Value = serde_json::from_str(&consul.put("/v1/acl/token", &text)).unwrap();
    token["AccessorID"].as_str().unwrap().to_owned()
}

fn host() -> String {
    nix::unistd::gethostname().unwrap().into_string().unwrap()
}

fn assert_hidden(pilot: &Pilot, secret: &str) {
    assert!(!pilot.log().text().contains(secret), "the log shows a secret");
}

#[test]
fn a_token_opens_a_consul_that_denies_by_default() {
    let consul = Consul::with(Some(&acl_settings()), Some(MASTER));
    make_token(&consul);
    let address = consul.address();
    let pilot = Pilot::start(&config(&format!(r#"{{ address: "{address}", token: "{TOKEN}" }}"#)));
    consul.wait_for_status("app", "passing");
    pilot.wait_for_event("watch.app healthy");
    assert_eq!(pilot.stop(), Exit::Code(0));
    consul.wait_for_absence("app");
    assert_hidden(&pilot, TOKEN);
}

#[test]
fn the_token_of_the_environment_wins() {
    let consul = Consul::with(Some(&acl_settings()), Some(MASTER));
    make_token(&consul);
    let config = config(&format!(r#"{{ address: "{}", token: "a wrong one" }}"#, consul.address()));
    let pilot = Setup::new().config(&config).env("CONSUL_HTTP_TOKEN", TOKEN).start();
    consul.wait_for_status("app", "passing");
    assert_hidden(&pilot, TOKEN);
}

#[test]
fn a_job_gets_the_token_of_the_environment_only_if_it_asks_for_it() {
    let config = r#"{ jobs: [
        { name: "plain", exec: ["sh", "-c", "echo ${#CONSUL_HTTP_TOKEN}"] },
        { name: "asks", exec: ["sh", "-c", "echo ${#CONSUL_HTTP_TOKEN}"],
          env: { CONSUL_HTTP_TOKEN: "{{ .CONSUL_HTTP_TOKEN }}" } },
        { name: "app", exec: "sleep 1000" } ] }"#;
    let pilot = Setup::new().config(config).env("CONSUL_HTTP_TOKEN", TOKEN).start();
    pilot.wait_for_line("plain", "0");
    pilot.wait_for_line("asks", &TOKEN.len().to_string());
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_refused_token_is_told_once_without_it_and_works_as_soon_as_it_is_good() {
    let consul = Consul::with(Some(&acl_settings()), Some(MASTER));
    let address = consul.address();
    let pilot = Pilot::start(&config(&format!(r#"{{ address: "{address}", token: "{TOKEN}" }}"#)));
    let record = pilot.wait_for_message("Consul is in trouble");
    assert!(record.message.contains("403"), "{}", record.message);
    make_token(&consul);
    consul.wait_for_status("app", "passing");
    pilot.wait_for_message("Consul is back");
    let told = pilot.count_messages("in trouble");
    assert_eq!(told, 1);
    assert_hidden(&pilot, TOKEN);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn each_outage_and_its_end_are_told_and_shown_beside_a_key_that_the_token_may_not_read() {
    let consul = Consul::with(Some(&acl_settings()), Some(MASTER));
    make_token(&consul);
    let proxy = Proxy::new(consul.port());
    let watches = r#"{ name: "a-secret", key: "secret", interval: "1s" }, { name: "app", interval: "1s" }"#;
    let address = proxy.address();
    let pilot = Pilot::start(&format!(
        r#"{{ consul: {{ address: "{address}", token: "{TOKEN}" }}, watches: [{watches}],
            jobs: [{{ name: "main", exec: "sleep 1000" }}] }}"#
    ));
    let trouble = || pilot.ask("GET", "/v3/status", "").json()["consul"]["trouble"].to_string();
    pilot.eventually("the refusal is shown", || trouble().contains("403"));
    for outage in 1..=2 {
        proxy.set(Fault::Refused);
        pilot.eventually("the outage is told", || {
            pilot.count_messages("trouble: it cannot be reached") == outage
        });
        assert!(trouble().contains("it cannot be reached"), "{}", trouble());
        proxy.set(Fault::None);
        pilot.eventually("its end is told", || pilot.count_messages("Consul is back") == outage);
        assert!(trouble().contains("403"), "{}", trouble());
    }
    assert_eq!(pilot.count_messages("Consul is in trouble"), 3);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_token_that_was_replaced_is_told_once_and_a_reload_with_the_new_one_recovers() {
    const OTHER: &str = "77777777-8888-7777-6666-abcdefabcdef";
    let consul = Consul::with(Some(&acl_settings()), Some(MASTER));
    make_token(&consul);
    let first = add_token(&consul, OTHER);
    let address = consul.address();
    let config = config(&format!(r#"{{ address: "{address}", token: "{OTHER}" }}"#));
    let pilot = Pilot::start(&config.replace(r#"heartbeat: "1s""#, r#"heartbeat: "2s", ttl: "5s""#));
    consul.wait_for_status("app", "passing");
    pilot.wait_for_event("watch.app healthy");
    let process = pilot.pid_of("app");
    consul.delete(&format!("/v1/acl/token/{first}"));
    let record = pilot.wait_for_message("Consul is in trouble");
    assert!(record.message.contains("403"), "{}", record.message);
    // Some more tries fail, as the records for whoever looks closely say.
    pilot.eventually("several tries have failed", || pilot.count_messages("Consul failed") >= 4);
    assert_eq!(pilot.count_messages("Consul is in trouble"), 1);
    // What the agent says itself: without our token it cannot tell the catalogue either.
    let has_status =
        |status: &str| consul.get("/v1/agent/checks")[format!("service:app-{}", host())]["Status"] == status;
    consul.eventually("the TTL has lapsed", || has_status("critical"));
    pilot.edit(OTHER, TOKEN);
    pilot.tell(&["-reload"]);
    let began = Instant::now();
    consul.eventually("the service is back", || has_status("passing"));
    pilot.wait_for_message("Consul is back");
    println!("recovered {:?} after the reload", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(4), "two heartbeats: {:?}", began.elapsed());
    assert_eq!(pilot.count_messages("Consul is in trouble"), 1);
    assert_eq!(pilot.pid_of("app"), process, "the job itself was left alone");
    assert_eq!(pilot.stop(), Exit::Code(0));
    consul.wait_for_absence("app"); // registered with the new token, or this could not be
    assert_hidden(&pilot, TOKEN);
    assert_hidden(&pilot, OTHER);
}

#[test]
fn consul_is_reached_through_a_unix_socket() {
    let settings = r#"{ "addresses": { "http": "127.0.0.1 unix://{dir}/http.socket" } }"#;
    let consul = Consul::with(Some(settings), None);
    let socket = consul.dir().join("http.socket");
    let pilot = Pilot::start(&config(&format!("\"unix://{}\"", socket.display())));
    consul.wait_for_status("app", "passing");
    pilot.wait_for_event("watch.app healthy");
    assert_eq!(pilot.stop(), Exit::Code(0));
    consul.wait_for_absence("app");
}

/// A Consul that asks its clients for certificates; its own is for `names`.
fn with_tls(files: &Certificates, names: &str, more: &str) -> (Consul, u16) {
    files.authority("authority");
    files.authority("stranger");
    files.signed("server", "authority", names);
    files.signed("client", "authority", "DNS:client");
    std::fs::create_dir(files.path("trusted")).unwrap();
    std::fs::copy(files.path("authority.pem"), files.path("trusted/authority.pem")).unwrap();
    let port = free_port();
    let place = files.place();
    let settings = format!(
        r#"{{ "ports": {{ "https": {port} }}, {more} "verify_incoming_https": true, "ca_file": "{place}/authority.pem",
            "cert_file": "{place}/server.pem", "key_file": "{place}/server.key" }}"#
    );
    (Consul::with(Some(&settings), None), port)
}

#[test]
fn mutual_tls_lets_only_those_in_who_know_each_other() {
    let files = Certificates::new();
    let (consul, port) = with_tls(&files, "DNS:server.dc1.consul", "");
    let place = files.place();
    let client = format!(r#"clientcert: "{place}/client.pem", clientkey: "{place}/client.key""#);
    let name = r#"servername: "server.dc1.consul""#;
    let start = |tls: &str| {
        Pilot::start(&config(&format!(r#"{{ address: "https://127.0.0.1:{port}", tls: {{ {tls} }} }}"#)))
    };
    let good = [
        format!(r#"cafile: "{place}/authority.pem", {name}, {client}"#),
        format!(r#"capath: "{place}/trusted", {name}, {client}"#),
        format!("verify: false, {client}"),
    ];
    for tls in good {
        let pilot = start(&tls);
        consul.wait_for_status("app", "passing");
        pilot.wait_for_event("watch.app healthy");
        let warned = pilot.log().text().contains("verify is false");
        assert_eq!(warned, tls.contains("verify"), "{tls}");
        assert_eq!(pilot.stop(), Exit::Code(0));
        consul.wait_for_absence("app");
    }
    let bad = [
        (format!(r#"cafile: "{place}/authority.pem", {name}"#), ""),
        (format!(r#"cafile: "{place}/stranger.pem", {name}, {client}"#), "certificate"),
        (format!(r#"cafile: "{place}/authority.pem", {client}"#), "certificate"),
        (format!("{name}, {client}"), "certificate"),
    ];
    for (tls, reason) in bad {
        let pilot = start(&tls);
        let record = pilot.wait_for_message("Consul is in trouble");
        assert!(record.message.contains(reason), "{tls}: {}", record.message);
        println!("{}", record.message);
        assert_eq!(pilot.stop(), Exit::Code(0));
        assert_eq!(consul.statuses("app"), [""; 0]);
    }
}

#[test]
fn a_certificate_may_be_for_the_address_of_either_kind() {
    if !has_ipv6() {
        return;
    }
    let files = Certificates::new();
    let both = r#""addresses": { "https": "127.0.0.1 ::1" },"#;
    let (consul, port) = with_tls(&files, "IP:127.0.0.1,IP:::1", both);
    let place = files.place();
    let tls = format!(
        r#"cafile: "{place}/authority.pem", clientcert: "{place}/client.pem", clientkey: "{place}/client.key""#
    );
    for host in ["127.0.0.1", "[::1]"] {
        let pilot =
            Pilot::start(&config(&format!(r#"{{ address: "https://{host}:{port}", tls: {{ {tls} }} }}"#)));
        consul.wait_for_status("app", "passing");
        pilot.wait_for_event("watch.app healthy");
        assert_eq!(pilot.stop(), Exit::Code(0));
        consul.wait_for_absence("app");
    }
}

#[test]
fn a_certificate_that_cannot_be_used_is_refused_at_the_start() {
    let files = Certificates::new();
    std::fs::write(files.path("key"), "this is no key").unwrap();
    files.authority("authority");
    let place = files.place();
    let tls = format!(
        r#"cafile: "{place}/authority.pem", clientcert: "{place}/authority.pem", clientkey: "{place}/key""#
    );
    let (exit, pilot) =
        Pilot::run(&config(&format!(r#"{{ address: "https://127.0.0.1:1", tls: {{ {tls} }} }}"#)));
    assert_eq!(exit, Exit::Code(1));
    assert!(pilot.log().text().contains("expected a private key"), "{}", pilot.log().text());
    assert_hidden(&pilot, "this is no key");
}
