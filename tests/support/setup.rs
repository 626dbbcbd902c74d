//! How a run begins: its folder, configuration, arguments, environment, and whether it is process 1.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use nix::unistd::Pid;
use serde_json::{Map, Value};
use tempfile::TempDir;

use super::log::Log;
use super::processes::{self, Mark, VARIABLE};
use super::programs::write_program;
use super::terminal::Terminal;
use super::{DEADLINE, LOOK_EVERY, Pilot, record};

/// The control socket's name in the folder of a run.
pub const SOCKET: &str = "control.socket";
/// The configuration's name in the folder of a run.
const CONFIG: &str = "containerpilot.json5";

/// A run about to begin.
pub struct Setup {
    dir: TempDir,
    config: Option<String>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// The words before the program, which give it a world of its own.
    within: Vec<String>,
    world: World,
    unread: bool,
    /// Its standard input, if that is a terminal.
    stdin: Option<File>,
    /// Its standard output, if that is a terminal.
    stdout: Option<File>,
}

/// Where the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum World {
    /// Where the test runs.
    Ours,
    /// As process 1 of a new PID namespace.
    Namespace,
    /// In a container, as process 1 unless its options say otherwise.
    Container,
}

impl Setup {
    /// A run without configuration and arguments, in a new folder.
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            config: None,
            arguments: vec![],
            environment: vec![],
            within: vec![],
            world: World::Ours,
            unread: false,
            stdin: None,
            stdout: None,
        }
    }

    /// The folder of the run, to put files there that it needs.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file into the folder of the run; `{dir}` in it stands for that folder.
    pub fn file(self, name: &str, text: &str) -> Self {
        fs::write(self.dir().join(name), self.filled(text)).unwrap();
        self
    }

    /// Writes a program into the folder of the run; `{dir}` in it stands for that folder.
    pub fn program(self, name: &str, text: &str) -> Self {
        write_program(&self.dir().join(name), &self.filled(text), 0o755);
        self
    }

    /// With this configuration; what [`Pilot::start`] says about it is true here too.
    pub fn config(mut self, config: &str) -> Self {
        self.config = Some(self.filled(&completed(config)));
        self
    }

    /// With these arguments after `-config`; `{dir}` in them stands for the folder of the run.
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| self.filled(argument)).collect::<Vec<_>>());
        self
    }

    /// With an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), self.filled(value)));
        self
    }

    /// As process 1 of a new PID namespace; see [`super::needs::can_be_pid_one`].
    #[allow(clippy::wrong_self_convention, reason = "a run as process 1 is what it reads like")]
    pub fn as_pid_one(mut self) -> Self {
        self.world = World::Namespace;
        self.within = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"].map(Into::into).into();
        self
    }

    /// In a container that these words start.
    pub(super) fn in_container(mut self, words: Vec<String>) -> Self {
        self.world = World::Container;
        self.within = words;
        self
    }

    /// As the leader of a session whose controlling terminal is this one, at its standard input.
    pub fn at_terminal(mut self, terminal: &Terminal) -> Self {
        self.within = ["setsid", "--ctty"].map(Into::into).into();
        self.on_terminal(terminal)
    }

    /// As a job of a shell with job control, at this terminal; the script runs the program as `"$@"`.
    pub fn below_shell(mut self, terminal: &Terminal, script: &str) -> Self {
        let words = ["setsid", "--ctty", "bash", "--norc", "--noprofile", "-ic", script, "bash"];
        self.within = words.map(Into::into).into();
        self.on_terminal(terminal)
    }

    /// With this terminal as its standard input.
    pub fn on_terminal(mut self, terminal: &Terminal) -> Self {
        self.stdin = Some(terminal.open());
        self
    }

    /// With this terminal as its standard input and output. Nothing of its log is seen then.
    pub fn wholly_on_terminal(mut self, terminal: &Terminal) -> Self {
        self.stdout = Some(terminal.open());
        self.on_terminal(terminal)
    }

    /// With a standard output that nobody reads, so that it is full soon.
    pub fn with_unread_output(mut self) -> Self {
        self.unread = true;
        self
    }

    fn filled(&self, text: &str) -> String {
        text.replace("{dir}", &self.dir().to_string_lossy())
    }

    fn command(&self) -> Command {
        let program = super::program();
        let mut command = match self.within.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
            None => Command::new(program),
        };
        if record::are_all_recorded()
            && self.world != World::Container
            && record::is_supervision(&self.arguments)
        {
            command.arg("-record").arg(self.dir().join(record::RECORD));
        }
        if let Some(config) = &self.config {
            let path = self.dir().join(CONFIG);
            fs::write(&path, config).unwrap();
            command.arg("-config").arg(path);
        }
        command.args(&self.arguments);
        command.env_remove("CONTAINERPILOT").env(VARIABLE, self.dir());
        command.envs(self.environment.iter().cloned());
        let stdin = self.stdin.as_ref().map_or_else(Stdio::null, |file| file.try_clone().unwrap().into());
        let stdout = self.stdout.as_ref().map_or_else(Stdio::piped, |file| file.try_clone().unwrap().into());
        command.current_dir(self.dir()).stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        command
    }

    /// Starts the program.
    pub fn start(self) -> Pilot {
        let mut child = self.command().spawn().unwrap();
        let unread = if self.unread { child.stdout.take() } else { None };
        let number = i32::try_from(child.id()).unwrap();
        let log = Log::follow(child);
        let mark = Mark::new(self.dir());
        let child = Pid::from_raw(number);
        let is_first = self.world != World::Ours;
        let mut pilot = Pilot { dir: self.dir, mark, log, child, pid: child, is_first, unread };
        if self.world == World::Namespace {
            pilot.pid = only_child(&pilot);
        }
        pilot
    }
}

/// The program within its namespace; itself if it has ended already.
fn only_child(pilot: &Pilot) -> Pid {
    let began = Instant::now();
    loop {
        if let Some(child) = processes::children(pilot.child.as_raw()).first() {
            return Pid::from_raw(*child);
        }
        if pilot.log.exit().is_some() {
            return pilot.child;
        }
        if began.elapsed() > DEADLINE {
            pilot.fail("missed deadline: the namespace has a process");
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Adds a control socket and a log that shows every event, unless the configuration has its own; one that is not
/// an object is left as it is.
fn completed(config: &str) -> String {
    let (Ok(keys), Some(rest)) =
        (json5::from_str::<Map<String, Value>>(config), config.trim_start().strip_prefix('{'))
    else {
        return config.into();
    };
    let mut added = String::new();
    if !keys.contains_key("control") {
        added.push_str(&format!(r#" control: {{ socket: "{{dir}}/{SOCKET}" }},"#));
    }
    if !keys.contains_key("logging") {
        added.push_str(r#" logging: { format: "json", level: "DEBUG" },"#);
    }
    format!("{{{added}{rest}")
}
