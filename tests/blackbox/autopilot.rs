//! The autopilot demo in real containers: what its clients see while it is scaled, maintained, broken and stopped.
//! Runs where a Docker engine answers; the images it needs are made by the demo's own script.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output, id};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support;
use crate::support::consul::exchange;
use crate::support::http::request;
use crate::support::needs::skip;
use serde_json::Value;

/// How long a fact may take to come true.
const DEADLINE: Duration = Duration::from_secs(60);
/// The TTL of the app's health check: so long Consul believes in an app that nobody speaks for.
const TTL: Duration = Duration::from_secs(3);
/// How long nginx may need to follow Consul on a busy machine; usually it is a tenth of a second, and it was three seconds beside
/// other work for both cores.
const NOISE: Duration = Duration::from_secs(20);
/// How long `docker stop` waits before it kills; usually a stop takes half a second, most of it the drain.
const PATIENCE_OF_DOCKER: Duration = Duration::from_secs(10);
/// nginx's port with failover, and the one that shows what discovery alone achieves.
const PORTS: [u16; 2] = [80, 8080];

/// One request: when it began, how long it took, which app answered or what went wrong.
struct Attempt {
    began: Instant,
    took: Duration,
    answer: Result<String, String>,
}

/// Asks one port of nginx all the time.
struct Client {
    port: u16,
    attempts: Arc<Mutex<Vec<Attempt>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    fn start(address: SocketAddr) -> Self {
        let (attempts, stop) = (Arc::new(Mutex::new(vec![])), Arc::new(AtomicBool::new(false)));
        let (made, ended) = (Arc::clone(&attempts), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let began = Instant::now();
                let answer = ask(address);
                made.lock().unwrap().push(Attempt { began, took: began.elapsed(), answer });
                thread::sleep(Duration::from_millis(10));
            }
        });
        Self { port: address.port(), attempts, stop, thread: Some(thread) }
    }

    /// The failures since then: when each ended, counted from then, and what went wrong.
    fn failures(&self, since: Instant) -> Vec<(Duration, String)> {
        let attempts = self.attempts.lock().unwrap();
        let recent = attempts.iter().filter(|attempt| attempt.began >= since);
        let failed = recent.filter_map(|attempt| Some((attempt, attempt.answer.as_ref().err()?)));
        failed.map(|(attempt, why)| (attempt.began + attempt.took - since, why.clone())).collect()
    }

    /// The last answers, failures included, newest first; only those of requests that began after that.
    fn answers(&self, since: Instant, count: usize) -> Vec<String> {
        let attempts = self.attempts.lock().unwrap();
        let recent = attempts.iter().rev().take_while(|attempt| attempt.began >= since);
        recent.take(count).map(|attempt| attempt.answer.clone().unwrap_or_else(|why| why)).collect()
    }

    fn count(&self) -> usize {
        self.attempts.lock().unwrap().len()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Which app answers.
fn ask(address: SocketAddr) -> Result<String, String> {
    let patience = Duration::from_secs(20);
    let stream = TcpStream::connect_timeout(&address, patience).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(patience)).map_err(|error| error.to_string())?;
    let answer = request(stream, "GET", "/", "", "");
    match answer.body.strip_prefix("hello from ") {
        Some(app) if answer.status == 200 => Ok(app.trim_end().to_owned()),
        _ => Err(format!("{:?}", answer.head.lines().next())),
    }
}

/// The demo, running; removed with the test, however that ends.
struct Demo {
    name: String,
}

impl Demo {
    /// Starts it; `None`, with a word about it, where it cannot run.
    fn start() -> Option<Self> {
        let engine = Command::new("docker").args(["version", "--format", "{{ .Server.Version }}"]).output();
        if !engine.is_ok_and(|output| output.status.success()) {
            skip("no Docker engine answers");
            return None;
        }
        let demo = Self { name: format!("autopilot-test-{}", id()) };
        demo.script(&["up"]);
        Some(demo)
    }

    /// Calls the demo's script.
    fn script(&self, arguments: &[&str]) -> String {
        succeeded(&self.try_script(arguments), &format!("demo.sh {arguments:?}"))
    }

    fn try_script(&self, arguments: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/autopilot/demo.sh");
        let mut command = Command::new(script);
        command.args(arguments).env("DEMO", &self.name).env("DEMO_PUBLISH", "");
        command.env("CONTAINERPILOT_PROGRAM", support::program());
        command.output().unwrap()
    }

    /// The name of a container.
    fn container(&self, host: &str) -> String {
        format!("{}-{host}", self.name)
    }

    /// Where a port of a container is.
    fn address(&self, host: &str, port: u16) -> SocketAddr {
        let format = "{{ range .NetworkSettings.Networks }}{{ .IPAddress }}{{ end }}";
        let address = docker(&["inspect", "--format", format, &self.container(host)]);
        SocketAddr::new(address.trim().parse().unwrap(), port)
    }

    /// Asks a container for JSON; null if there is none.
    fn json(&self, host: &str, port: u16, path: &str) -> Value {
        let stream = TcpStream::connect_timeout(&self.address(host, port), Duration::from_secs(5));
        let Ok(stream) = stream else { return Value::Null };
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let answer = exchange(stream, "GET", path, None, "");
        answer.and_then(|(_, body)| serde_json::from_str(&body).ok()).unwrap_or(Value::Null)
    }

    /// How many healthy apps Consul knows.
    fn healthy_apps(&self) -> Option<usize> {
        self.json("consul", 8500, "/v1/health/service/app?passing").as_array().map(Vec::len)
    }

    /// What Prometheus says of its targets: `INSTANCE HEALTH`, sorted.
    fn targets(&self) -> Vec<String> {
        let answer = self.json("prometheus", 9091, "/api/v1/targets?state=active");
        let targets = answer["data"]["activeTargets"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut told: Vec<String> = targets
            .iter()
            .map(|target| format!("{} {}", text(&target["labels"]["instance"]), text(&target["health"])))
            .collect();
        told.sort();
        told
    }

    /// Waits for a fact.
    fn eventually(&self, what: &str, fact: impl Fn() -> bool) {
        if !support::comes_true(DEADLINE, fact) {
            self.fail(&format!("missed deadline: {what}"));
        }
    }

    /// Fails the test, showing the logs of all.
    fn fail(&self, why: &str) -> ! {
        let filter = format!("label=autopilot={}", self.name);
        let names = docker(&["ps", "--all", "--filter", &filter, "--format", "{{ .Names }}"]);
        let logs: Vec<String> = names
            .lines()
            .map(|name| {
                let output = Command::new("docker").args(["logs", "--tail", "40", name]).output().unwrap();
                format!("--- {name}\n{}", String::from_utf8_lossy(&output.stdout))
            })
            .collect();
        panic!("{why}\ntargets: {:?}\n{}", self.targets(), logs.join("\n"));
    }

    /// Stops a container; the time from the signal until its end, which is ours, without what the engine needs.
    fn stop(&self, host: &str) -> Duration {
        let container = self.container(host);
        let began = Instant::now();
        docker(&["stop", &container]);
        let whole = began.elapsed();
        let log = docker(&["logs", &container]);
        let told = log.lines().find(|line| line.ends_with("SIGTERM received")).unwrap();
        let told = seconds(told.split(' ').next().unwrap());
        let ended = seconds(docker(&["inspect", "--format", "{{ .State.FinishedAt }}", &container]).trim());
        let took = Duration::from_secs_f64(ended - told);
        eprintln!("docker stop {host} took {whole:.2?}, of which {took:.2?} from the signal to the end");
        took
    }
}

/// A point in time as seconds since 1970.
fn seconds(time: &str) -> f64 {
    let output = Command::new("date").args(["+%s.%N", "--date", time]).output().unwrap();
    succeeded(&output, time).trim().parse().unwrap()
}

impl Drop for Demo {
    fn drop(&mut self) {
        let removed = self.try_script(&["down"]);
        if !removed.status.success() {
            eprintln!("demo.sh down: {}", String::from_utf8_lossy(&removed.stderr));
        }
    }
}

fn docker(arguments: &[&str]) -> String {
    let output = Command::new("docker").args(arguments).output().unwrap();
    succeeded(&output, &format!("docker {arguments:?}"))
}

fn succeeded(output: &Output, what: &str) -> String {
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The demo with a client at each port of nginx.
struct Scene {
    clients: Vec<Client>,
    demo: Demo,
}

impl Scene {
    fn begin() -> Option<Self> {
        let demo = Demo::start()?;
        let clients = PORTS.map(|port| Client::start(demo.address("nginx", port)));
        let scene = Self { clients: clients.into(), demo };
        scene.answered_by(&["app-1"]);
        Some(scene)
    }

    /// Waits until exactly these apps answer.
    fn answered_by(&self, apps: &[&str]) {
        let since = Instant::now();
        for client in &self.clients {
            self.demo.eventually(&format!("{apps:?} answer at port {}", client.port), || {
                let mut answers = client.answers(since, 30);
                let enough = answers.len() == 30;
                answers.sort();
                answers.dedup();
                enough && answers == apps
            });
        }
    }

    /// Does something that nobody who asks may notice.
    fn unnoticed(&self, what: &str, act: impl FnOnce()) {
        self.noticed_for_at_most([Duration::ZERO; 2], what, act);
    }

    /// Does something that the clients of each port may notice, but only for that long.
    fn noticed_for_at_most(&self, windows: [Duration; 2], what: &str, act: impl FnOnce()) {
        let since = Instant::now();
        act();
        eprintln!("{what}: {:.1?}", since.elapsed());
        for (client, window) in self.clients.iter().zip(windows) {
            let failures = client.failures(since);
            let last = failures.last().map(|(ended, _)| *ended).unwrap_or_default();
            let (count, port) = (failures.len(), client.port);
            if count > 0 {
                eprintln!("  {count} requests failed at port {port}, the last after {last:.1?}");
            }
            if last > window {
                self.demo.fail(&format!("port {port} failed for {last:?} while {what}: {failures:?}"));
            }
        }
    }
}

#[test]
fn nobody_who_asks_notices_a_planned_change_and_an_accident_only_until_the_health_check_does() {
    let Some(scene) = Scene::begin() else { return };
    let demo = &scene.demo;

    scene.unnoticed("scaling up to three", || {
        demo.script(&["scale", "3"]);
        scene.answered_by(&["app-1", "app-2", "app-3"]);
    });
    let everyone = ["app-1 up", "app-2 up", "app-3 up", "consul up", "nginx up", "prometheus up"];
    demo.eventually("Prometheus scrapes everyone", || demo.targets() == everyone);

    let maintenance =
        |what: &str| docker(&["exec", &demo.container("app-2"), "containerpilot", "-maintenance", what]);
    scene.unnoticed("maintaining one", || {
        maintenance("enable");
        scene.answered_by(&["app-1", "app-3"]);
        maintenance("disable");
        scene.answered_by(&["app-1", "app-2", "app-3"]);
    });

    scene.unnoticed("restarting Consul", || {
        docker(&["restart", &demo.container("consul")]);
        demo.eventually("Consul knows everyone again", || demo.healthy_apps() == Some(3));
        scene.answered_by(&["app-1", "app-2", "app-3"]);
    });

    // nginx has the drain's time to follow; where this machine does not let it, failover bridges the rest.
    let planned = [Duration::ZERO, NOISE];
    let mut took = vec![];
    for (stopped, rest) in [("app-3", &["app-1", "app-2"][..]), ("app-2", &["app-1"])] {
        scene.noticed_for_at_most(planned, &format!("stopping {stopped}"), || {
            took.push(demo.stop(stopped));
            scene.answered_by(rest);
        });
    }
    assert!(
        took.iter().all(|took| *took < PATIENCE_OF_DOCKER),
        "docker stop: {took:?} until the container's end"
    );

    scene.unnoticed("scaling up to two", || {
        demo.script(&["scale", "2"]);
        scene.answered_by(&["app-1", "app-2"]);
    });
    scene.noticed_for_at_most([TTL, TTL + NOISE], "killing one", || {
        docker(&["kill", &demo.container("app-2")]);
        scene.answered_by(&["app-1"]);
    });
    demo.eventually("Prometheus misses the one that was killed", || {
        demo.targets().contains(&"app-2 down".to_owned())
    });
    scene.unnoticed("replacing the one that was killed", || {
        demo.script(&["scale", "2"]);
        scene.answered_by(&["app-1", "app-2"]);
    });
    scene.noticed_for_at_most(planned, "scaling down to one", || {
        demo.script(&["scale", "1"]);
        scene.answered_by(&["app-1"]);
    });
    let requests: usize = scene.clients.iter().map(Client::count).sum();
    eprintln!("{requests} requests in all");

    let name = demo.name.clone();
    drop(scene);
    let filter = format!("label=autopilot={name}");
    assert_eq!(docker(&["ps", "--all", "--quiet", "--filter", &filter]), "");
    assert_eq!(docker(&["network", "ls", "--quiet", "--filter", &format!("name={name}")]), "");
}
