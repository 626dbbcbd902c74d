//! The program as the entrypoint of a container, where a Docker engine answers. The run's folder and the program
//! are at the same paths within; the container has a name of its own and is removed when the test ends.

use std::ops::Deref;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::needs::skip;
use super::processes::VARIABLE;
pub use super::setup::SOCKET;
use super::{Exit, Pilot, Setup, program};

/// The name of an image to run in; `None`, and the test is skipped, if there can be none here.
pub fn image() -> Option<&'static str> {
    static IMAGE: OnceLock<Result<String, String>> = OnceLock::new();
    let image = IMAGE.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/base-image.sh");
        let output = Command::new(script).output().unwrap();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    });
    image.as_deref().inspect_err(|why| skip(&format!("it needs a Docker engine and an image: {why}"))).ok()
}

/// A container whose entrypoint is the program.
pub struct Container {
    pilot: Pilot,
    /// Dropped last: nobody is left then who could make the container.
    name: Name,
}

/// Removes the container when dropped, whatever became of the test.
struct Name(String);

impl Container {
    /// Starts the program in a container with these options of `docker run`, and with a configuration as
    /// [`Pilot::start`] takes it; `None` if there is no engine.
    pub fn start(options: &[&str], config: &str) -> Option<Self> {
        Self::start_with(options, |setup| setup.config(config))
    }

    /// The same, with a run that the test sets up.
    pub fn start_with(options: &[&str], adjust: impl FnOnce(Setup) -> Setup) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let image = image()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = Name(format!("containerpilot-test-{}-{number}", std::process::id()));
        let setup = adjust(Setup::new());
        let dir = setup.dir().to_str().unwrap().to_owned();
        let (mark, folder) = (format!("{VARIABLE}={dir}"), format!("{dir}:{dir}"));
        let program = format!("{0}:{0}:ro", program());
        let id = setup.dir().join("container-id");
        let mut words = vec!["docker", "run", "--name", &name.0, "--cidfile", id.to_str().unwrap()];
        words.extend(["--env", &mark]);
        words.extend(["--volume", &folder, "--volume", &program, "--workdir", &dir]);
        words.extend(options);
        words.extend([image]);
        let words = words.into_iter().map(|word| word.replace("{dir}", &dir)).collect();
        let pilot = setup.in_container(words).start();
        let container = Self { pilot, name };
        container.eventually("the container is made", || {
            container.log().exit().is_some() || !container.text("container-id").is_empty()
        });
        Some(container)
    }

    /// The program within, whose own `ask` speaks to the control socket.
    pub fn pilot(&self) -> &Pilot {
        &self.pilot
    }

    /// Asks the engine something about the container, named last; anything but success fails the test.
    pub fn docker(&self, words: &[&str]) -> String {
        self.checked(words, &[&self.name.0])
    }

    /// Pauses the container. The kernel cannot freeze a process that waits in some of its calls, and then Docker gives up.
    pub fn pause(&self) {
        self.eventually("docker can pause it", || self.pause_at_once());
    }

    /// Pauses the container, if that works at once: when Docker gives up, the container was frozen for a while already.
    pub fn pause_at_once(&self) -> bool {
        docker(&["pause", &self.name.0]).status.success()
    }

    /// Runs a command in the container; anything but success fails the test.
    pub fn exec(&self, words: &[&str]) -> String {
        self.checked(&["exec", &self.name.0], words)
    }

    /// Runs the program in the container, as its client, with the run's configuration.
    pub fn ask(&self, words: &[&str]) -> String {
        let config = self.path("containerpilot.json5");
        self.exec(&[&[program(), "-config", config.to_str().unwrap()], words].concat())
    }

    fn checked(&self, first: &[&str], last: &[&str]) -> String {
        let output = docker(&[first, last].concat());
        if !output.status.success() {
            self.fail(&format!("docker {first:?} {last:?}: {}", String::from_utf8_lossy(&output.stderr)));
        }
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What the engine knows of the container's state.
    pub fn state(&self) -> Value {
        serde_json::from_str(&self.docker(&["inspect", "--format", "{{json .State}}"])).unwrap()
    }

    /// Sends the entrypoint a signal, as the engine does.
    pub fn kill(&self, signal: &str) {
        self.docker(&["kill", "--signal", signal]);
    }

    /// `docker stop`, with a time-out that only a failing test waits for: how the program ended, and how long that took.
    pub fn stop(&self) -> (Exit, Duration) {
        let began = Instant::now();
        self.docker(&["stop", "--time", "60"]);
        (self.wait_exit(), began.elapsed())
    }

    /// Waits for time to pass that the container does not notice or must not use.
    pub fn let_pass(&self, time: Duration) {
        let began = Instant::now();
        self.eventually("time passes", || began.elapsed() >= time);
    }

    /// What `docker logs` shows of stdout.
    pub fn engine_log(&self) -> String {
        self.docker(&["logs"])
    }
}

impl Deref for Container {
    type Target = Pilot;

    fn deref(&self) -> &Pilot {
        &self.pilot
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        docker(&["rm", "--force", "--volumes", &self.0]);
    }
}

fn docker(words: &[&str]) -> Output {
    Command::new("docker").args(words).output().unwrap()
}
