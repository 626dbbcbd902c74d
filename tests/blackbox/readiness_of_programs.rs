//! Programs as Debian ships them tell us that they are ready: in their own protocol, without a change. Each runs in a PID
//! namespace of which we are process 1, as in a container.

use std::fs;

use crate::support::consul::program;
use crate::support::needs::{can_be_pid_one, has_programs, is_root, skip};
use crate::support::ports::free_port;
use crate::support::{Exit, Pilot, Setup};

/// Waits until a job that uses the server has found it ready, then ends all.
fn assert_used(pilot: &Pilot) {
    pilot.wait_for_event("user exitSuccess");
    pilot.assert_order(&["server ready", "user ready"]);
    assert_eq!(pilot.count("server ready"), 1);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

/// A server, and a job that connects to its port when it is ready.
fn config(server: &str, port: u16) -> String {
    let connect = format!("use IO::Socket::INET; IO::Socket::INET->new('127.0.0.1:{port}') or die 'refused'");
    format!(
        r#"{{ stopTimeout: "30s", jobs: [
            {{ name: "server", restarts: 1, {server} }},
            {{ name: "user", exec: ["perl", "-e", "{connect}"], after: ["server"] }}] }}"#
    )
}

#[test]
fn redis_tells_by_the_notify_protocol() {
    if !has_programs(&["redis-server"]) || !can_be_pid_one() {
        return;
    }
    let port = free_port();
    let server = format!(
        r#"ready: {{ notify: true, timeout: "60s" }},
           exec: "redis-server --port {port} --bind 127.0.0.1 --supervised systemd --dir {{dir}} --save ''""#
    );
    let pilot = Setup::new().config(&config(&server, port)).as_pid_one().start();
    pilot.wait_for_event("server ready");
    let status = pilot.status_of("server")["statusText"].clone();
    assert_eq!(status, "Ready to accept connections");
    assert_used(&pilot);
}

#[test]
fn haproxy_tells_by_the_notify_protocol() {
    if !has_programs(&["haproxy"]) || !can_be_pid_one() {
        return;
    }
    let port = free_port();
    let settings = format!(
        "global\n    maxconn 10\ndefaults\n    mode tcp\n    timeout connect 1s\n    timeout client 1s\n    timeout server 1s\n\
         listen test\n    bind 127.0.0.1:{port}\n    server other 127.0.0.1:1\n"
    );
    let server =
        r#"ready: { notify: true, timeout: "60s" }, exec: "/usr/sbin/haproxy -Ws -f {dir}/haproxy.cfg""#;
    let pilot =
        Setup::new().file("haproxy.cfg", &settings).config(&config(server, port)).as_pid_one().start();
    assert_used(&pilot);
}

#[test]
fn php_tells_by_the_notify_protocol() {
    let Some(program) = php().filter(|_| can_be_pid_one()) else { return };
    let port = free_port();
    let settings = format!(
        "[global]\nerror_log = /dev/stderr\n[www]\nuser = nobody\ngroup = nogroup\nlisten = 127.0.0.1:{port}\npm = static\npm.max_children = 1\n"
    );
    let server = format!(
        r#"ready: {{ notify: true, timeout: "60s" }}, exec: "{program} -F -R -y {{dir}}/php-fpm.conf""#
    );
    let pilot =
        Setup::new().file("php-fpm.conf", &settings).config(&config(&server, port)).as_pid_one().start();
    pilot.wait_for_event("server ready");
    pilot.eventually("it says what it does", || {
        pilot.status_of("server")["statusText"].as_str().is_some_and(|text| text.contains("Ready to handle"))
    });
    assert_used(&pilot);
}

/// Where Debian has php-fpm, whose name has its version.
fn php() -> Option<String> {
    let programs = fs::read_dir("/usr/sbin").into_iter().flatten().flatten().map(|entry| entry.path());
    let found = programs.map(|path| path.display().to_string()).find(|path| path.contains("/php-fpm"));
    if found.is_none() {
        skip("there is no php-fpm");
    }
    found
}

#[test]
fn postgresql_tells_by_the_notify_protocol() {
    let Some(folder) = postgresql().filter(|_| is_root() && can_be_pid_one()) else { return };
    let port = free_port();
    let prepare = format!(
        "chown nobody {{dir}} && setpriv --reuid nobody --clear-groups {folder}/initdb -D {{dir}}/data -A trust"
    );
    let config = format!(
        r#"{{ stopTimeout: "60s", jobs: [
            {{ name: "prepare", exec: ["sh", "-c", "{prepare}"] }},
            {{ name: "server", when: {{ source: "prepare", once: "exitSuccess" }}, restarts: 1, user: "nobody",
               stopSignal: "SIGINT", ready: {{ notify: true, timeout: "60s" }},
               exec: "{folder}/postgres -D {{dir}}/data -p {port} -k {{dir}} -h 127.0.0.1" }},
            {{ name: "user", exec: "{folder}/psql -h 127.0.0.1 -p {port} -U nobody -d postgres -c 'select 1'", after: ["server"] }}] }}"#
    );
    let setup = Setup::new();
    fs::set_permissions(setup.dir(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_used(&setup.config(&config).as_pid_one().start());
}

/// Where Debian has the programs of PostgreSQL.
fn postgresql() -> Option<String> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folder =
        versions.map(|version| version.path().join("bin")).find(|folder| folder.join("initdb").exists());
    if folder.is_none() {
        skip("there is no PostgreSQL");
    }
    Some(folder?.display().to_string())
}

/// It tells when it has joined a cluster; here, its own.
#[test]
fn consul_tells_by_the_notify_protocol() {
    if !can_be_pid_one() {
        return;
    }
    let (http, dns) = (free_port(), free_port());
    let ports = [free_port(), free_port(), free_port()];
    let settings = format!(
        r#"{{ "ports": {{ "http": {http}, "dns": {dns}, "grpc": -1, "serf_lan": {}, "serf_wan": {}, "server": {} }},
             "bind_addr": "127.0.0.1", "server": true, "bootstrap_expect": 1, "data_dir": "{{dir}}/data",
             "retry_join": ["127.0.0.1:{}"] }}"#,
        ports[0], ports[1], ports[2], ports[0]
    );
    let server = format!(
        r#"ready: {{ notify: true, timeout: "60s" }}, exec: "{} agent -config-file={{dir}}/consul.json""#,
        program().display()
    );
    let pilot =
        Setup::new().file("consul.json", &settings).config(&config(&server, http)).as_pid_one().start();
    // Consul says that it is ready before its start is done, and ignores a SIGTERM that comes in between.
    pilot.wait_for_line("server", "==> Consul agent running!");
    assert_used(&pilot);
}

#[test]
fn a_server_of_s6_tells_by_its_descriptor() {
    if !has_programs(&["s6-ipcserver"]) || !can_be_pid_one() {
        return;
    }
    // It writes the newline to stdout, as s6's own servers do.
    let connect =
        "use IO::Socket::UNIX; my $it = IO::Socket::UNIX->new('{dir}/service') or die 'refused'; print <$it>";
    let config = format!(
        r#"{{ jobs: [
            {{ name: "server", restarts: 1, ready: {{ fd: 3, timeout: "60s" }},
               exec: ["sh", "-c", "exec s6-ipcserver -1 {{dir}}/service echo served >&3"] }},
            {{ name: "user", exec: ["perl", "-e", "{connect}"], after: ["server"] }}] }}"#
    );
    let pilot = Setup::new().config(&config).as_pid_one().start();
    pilot.wait_for_line("user", "served");
    assert_used(&pilot);
}

#[test]
fn a_server_in_python_tells_by_its_output() {
    if !has_programs(&["python3"]) || !can_be_pid_one() {
        return;
    }
    let port = free_port();
    let server = format!(
        r#"ready: {{ log: "^Serving HTTP on ", timeout: "60s" }}, exec: "python3 -u -m http.server -b 127.0.0.1 {port}""#
    );
    assert_used(&Setup::new().config(&config(&server, port)).as_pid_one().start());
}
