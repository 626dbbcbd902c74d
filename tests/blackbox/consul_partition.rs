//! Consul agents in two network namespaces: a partition is no change, is noticed, and heals.

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::support::Pilot;
use crate::support::consul::{Consul, exchange, program};
use crate::support::needs::skip;

/// A namespace with one link to ours; both go with the test.
struct Namespace {
    name: String,
    link: String,
    /// Of our end of the link.
    ours: String,
    /// Of the end within.
    theirs: String,
}

impl Namespace {
    /// One for the test with that number; `None` where this user cannot make one.
    fn new(test: u8) -> Option<Self> {
        let number = std::process::id();
        // A network of four addresses that no other run has at the same time.
        let (network, first) = (number / 64 % 256, number % 64 * 4);
        let namespace = Self {
            name: format!("pilot{number}-{test}"),
            link: format!("p{number}-{test}"),
            ours: format!("10.{test}.{network}.{}", first + 1),
            theirs: format!("10.{test}.{network}.{}", first + 2),
        };
        let Self { name, link, ours, theirs } = &namespace;
        let made = ip(&format!("netns add {name}"))
            && ip(&format!("link add {link} type veth peer name inner netns {name}"))
            && ip(&format!("addr add {ours}/30 dev {link}"))
            && ip(&format!("link set {link} up"))
            && ip(&format!("-n {name} addr add {theirs}/30 dev inner"))
            && ip(&format!("-n {name} link set inner up"))
            && ip(&format!("-n {name} link set lo up"));
        if !made {
            skip("this user cannot make network namespaces");
        }
        made.then_some(namespace)
    }

    fn cut(&self, cut: bool) {
        assert!(ip(&format!("link set {} {}", self.link, if cut { "down" } else { "up" })));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&format!("link del {}", self.link));
        ip(&format!("netns del {}", self.name));
    }
}

fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

/// A client agent within the namespace, joined to a server outside; we reach it through a unix socket, or over the link.
struct Agent(Child);

impl Agent {
    fn start(namespace: &Namespace, directory: &std::path::Path, gossip: u16) -> Self {
        let place = directory.display();
        let settings = format!(
            r#"{{ "node_name": "inner", "data_dir": "{place}/data", "bind_addr": "{}", "retry_join": ["{}:{gossip}"],
                "retry_interval": "1s", "addresses": {{ "http": "unix://{place}/http.socket {}" }},
                "ports": {{ "dns": -1, "serf_lan": {gossip} }} }}"#,
            namespace.theirs, namespace.ours, namespace.theirs
        );
        let file = directory.join("agent.json");
        fs::write(&file, settings).unwrap();
        let log = fs::File::create(directory.join("agent.log")).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace.name]).arg(program());
        command.arg("agent").arg(format!("-config-file={}", file.display()));
        Self(command.stdin(Stdio::null()).stdout(log).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server outside, and an agent within the namespace that has joined it; the agent's folder.
fn joined(namespace: &Namespace) -> (Consul, Agent, tempfile::TempDir) {
    let settings = format!(r#"{{ "advertise_addr": "{}", "bind_addr": "0.0.0.0" }}"#, namespace.ours);
    let server = Consul::reachable(&settings);
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(namespace, directory.path(), server.gossip_port());
    let socket = directory.path().join("http.socket");
    server.eventually("the agent has joined", || {
        let stream = UnixStream::connect(&socket).ok();
        let answer = stream.and_then(|stream| exchange(stream, "GET", "/v1/catalog/nodes", None, ""));
        answer.is_some_and(|(status, body)| status == 200 && body.contains("inner"))
    });
    (server, agent, directory)
}

#[test]
fn a_consul_that_went_away_without_a_word_is_noticed_although_a_query_waits_for_minutes() {
    let Some(namespace) = Namespace::new(214) else { return };
    let (server, _agent, _directory) = joined(&namespace);
    server.register("db", "db-1", 1, &[]);
    let config = format!(
        r#"{{ consul: "{}:8500", watches: [{{ name: "db", interval: "1s" }}],
            jobs: [{{ name: "app", exec: "sleep 1000" }}] }}"#,
        namespace.theirs
    );
    let pilot = Pilot::start(&config);
    pilot.wait_for_event("watch.db healthy");
    namespace.cut(true);
    let began = Instant::now();
    pilot.wait_for_message("Consul is in trouble");
    println!("noticed after {:?}", began.elapsed());
    server.register("db", "db-2", 2, &[]);
    namespace.cut(false);
    // The kernel remembers for a moment that nobody was there.
    let join = format!("/v1/agent/join/{}:{}", namespace.theirs, server.gossip_port());
    pilot.eventually("the servers find each other", || {
        server.answer("PUT", &join, "").is_some_and(|(status, _)| status == 200)
    });
    pilot.wait_for_events("watch.db changed", 2);
    pilot.wait_for_message("Consul is back");
    assert_eq!(pilot.events_of("watch.db"), ["changed", "healthy", "changed"], "a partition is no change");
}

#[test]
fn a_partition_is_no_change_and_its_end_brings_the_news() {
    let Some(namespace) = Namespace::new(213) else { return };
    let (server, _agent, directory) = joined(&namespace);
    let socket = directory.path().join("http.socket");
    server.register("db", "db-1", 1, &[]);
    let config = format!(
        r#"{{ consul: "unix://{}", watches: [{{ name: "db", interval: "1s" }}], jobs: [
            {{ name: "app", exec: "sleep 1000", port: 80, interfaces: "static:10.1.2.3",
               health: {{ exec: "test ! -e {{dir}}/ill", interval: "50ms", timeout: "10s", heartbeat: "1s" }} }}] }}"#,
        socket.display()
    );
    let pilot = Pilot::start(&config);
    server.wait_for_status("app", "passing");
    pilot.wait_for_event("watch.db healthy");
    assert!(!pilot.log().text().contains("Consul is in trouble"));
    namespace.cut(true);
    pilot.wait_for_message("Consul is in trouble");
    fs::write(pilot.path("ill"), "").unwrap();
    pilot.wait_for_event("app unhealthy");
    server.register("db", "db-2", 2, &[]);
    assert_eq!(pilot.events_of("watch.db"), ["changed", "healthy"], "a partition is no change");
    namespace.cut(false);
    // The kernel remembers for a moment that nobody was there.
    let join = format!("/v1/agent/join/{}:{}", namespace.theirs, server.gossip_port());
    pilot.eventually("the servers find each other", || {
        server.answer("PUT", &join, "").is_some_and(|(status, _)| status == 200)
    });
    server.wait_for_status("app", "critical");
    pilot.wait_for_events("watch.db changed", 2);
    pilot.wait_for_message("Consul is back");
    assert_eq!(pilot.events_of("watch.db"), ["changed", "healthy", "changed"]);
}
