//! The ways to a real Consul: mutual TLS, ACL tokens, a unix socket; and that no secret is ever shown.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may panic as tests do")]

mod support;

use std::path::Path;
use std::process::Command;

use support::consul::{Consul, free_port};
use support::{Exit, Pilot, Setup};

const MASTER: &str = "11111111-2222-3333-4444-555555555555";
const TOKEN: &str = "99999999-8888-7777-6666-abcdefabcdef";

/// An advertised job that is always well.
fn config(consul: &str) -> String {
    format!(
        r#"{{ consul: {consul}, watches: [{{ name: "app", interval: "1s" }}], jobs: [{{ name: "app", exec: "sleep 1000", port: 80,
            interfaces: "static:10.1.2.3", health: {{ exec: "true", interval: "50ms", heartbeat: "1s" }} }}] }}"#
    )
}

fn acl_settings() -> String {
    format!(
        r#"{{ "acl": {{ "enabled": true, "default_policy": "deny", "tokens": {{ "master": "{MASTER}", "agent": "{MASTER}" }} }} }}"#
    )
}

/// Makes a token that may write the service `app`, and read.
fn make_token(consul: &Consul) {
    let rules = r#"service \"app\" { policy = \"write\" } service_prefix \"\" { policy = \"read\" } node_prefix \"\" { policy = \"read\" }"#;
    consul.put("/v1/acl/policy", &format!(r#"{{ "Name": "app", "Rules": "{rules}" }}"#));
    consul
        .put("/v1/acl/token", &format!(r#"{{ "SecretID": "{TOKEN}", "Policies": [{{ "Name": "app" }}] }}"#));
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
fn a_refused_token_is_told_once_without_it_and_works_as_soon_as_it_is_good() {
    let consul = Consul::with(Some(&acl_settings()), Some(MASTER));
    let address = consul.address();
    let pilot = Pilot::start(&config(&format!(r#"{{ address: "{address}", token: "{TOKEN}" }}"#)));
    let record = pilot.wait_for_message("Consul is in trouble");
    assert!(record.message.contains("403"), "{}", record.message);
    make_token(&consul);
    consul.wait_for_status("app", "passing");
    pilot.wait_for_message("Consul is back");
    let told = pilot.log().records().iter().filter(|record| record.message.contains("in trouble")).count();
    assert_eq!(told, 1);
    assert_hidden(&pilot, TOKEN);
    assert_eq!(pilot.stop(), Exit::Code(0));
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

fn openssl(directory: &Path, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A key and a certificate, signed by an authority, for those names.
fn certificate(directory: &Path, name: &str, authority: &str, names: &str) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(directory, &format!("req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
    std::fs::write(directory.join("extensions"), format!("subjectAltName={names}\n")).unwrap();
    openssl(
        directory,
        &format!(
            "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -days 2 \
             -out {name}.pem -extfile extensions"
        ),
    );
}

fn authority(directory: &Path, name: &str) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        directory,
        &format!("req -x509 {key} -keyout {name}.key -out {name}.pem -subj /CN={name} -days 2"),
    );
}

/// A Consul that asks its clients for certificates; its own is not for the address that it is reached at.
fn with_tls(directory: &Path) -> (Consul, u16) {
    authority(directory, "authority");
    authority(directory, "stranger");
    certificate(directory, "server", "authority", "DNS:server.dc1.consul");
    certificate(directory, "client", "authority", "DNS:client");
    std::fs::create_dir(directory.join("trusted")).unwrap();
    std::fs::copy(directory.join("authority.pem"), directory.join("trusted/authority.pem")).unwrap();
    let port = free_port();
    let place = directory.display();
    let settings = format!(
        r#"{{ "ports": {{ "https": {port} }}, "verify_incoming_https": true, "ca_file": "{place}/authority.pem",
            "cert_file": "{place}/server.pem", "key_file": "{place}/server.key" }}"#
    );
    (Consul::with(Some(&settings), None), port)
}

#[test]
fn mutual_tls_lets_only_those_in_who_know_each_other() {
    let files = tempfile::tempdir().unwrap();
    let (consul, port) = with_tls(files.path());
    let place = files.path().display().to_string();
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
fn a_certificate_that_cannot_be_used_is_refused_at_the_start() {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("key"), "this is no key").unwrap();
    authority(files.path(), "authority");
    let place = files.path().display();
    let tls = format!(
        r#"cafile: "{place}/authority.pem", clientcert: "{place}/authority.pem", clientkey: "{place}/key""#
    );
    let (exit, pilot) =
        Pilot::run(&config(&format!(r#"{{ address: "https://127.0.0.1:1", tls: {{ {tls} }} }}"#)));
    assert_eq!(exit, Exit::Code(1));
    assert!(pilot.log().text().contains("expected a private key"), "{}", pilot.log().text());
    assert_hidden(&pilot, "this is no key");
}
