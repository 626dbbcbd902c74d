//! The program with a stdout that the test chooses: a file, a pipe that nobody reads, another user's process.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::processes::{Mark, VARIABLE};
use super::{DEADLINE, Exit, comes_true};

/// The program, running with nothing between it and the test.
pub struct Bare {
    dir: TempDir,
    mark: Mark,
    child: Child,
}

impl Bare {
    /// Starts the program; `{dir}` in the configuration stands for the folder of the run. A control socket there is
    /// added. Unless `adjust` says otherwise, stdout goes to the file `out` and stderr to the file `err`.
    pub fn start(config: &str, adjust: impl FnOnce(&mut Command)) -> Self {
        Self::start_in(&["{program}", "-config", "{config}"], config, adjust)
    }

    /// The same by another command line, in which `{program}`, `{config}` and `{dir}` are filled in.
    pub fn start_in(words: &[&str], config: &str, adjust: impl FnOnce(&mut Command)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("containerpilot.json5");
        let here = dir.path().to_str().unwrap();
        let socket = format!(r#"{{ control: {{ socket: "{here}/control.socket" }},"#);
        let config = config.trim_start().strip_prefix('{').unwrap().replace("{dir}", here);
        fs::write(&path, socket + &config).unwrap();
        let filled: Vec<String> = words
            .iter()
            .map(|word| {
                word.replace("{program}", super::program())
                    .replace("{config}", path.to_str().unwrap())
                    .replace("{dir}", here)
            })
            .collect();
        let (program, arguments) = filled.split_first().unwrap();
        let file = |name: &str| Stdio::from(File::create(dir.path().join(name)).unwrap());
        let mut command = Command::new(program);
        command.args(arguments).current_dir(dir.path()).env(VARIABLE, dir.path());
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        adjust(&mut command);
        let child = command.spawn().unwrap();
        Self { mark: Mark::new(dir.path()), dir, child }
    }

    /// A file in the folder of the run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The bytes of a file in the folder of the run; none if there is no such file.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_default()
    }

    /// The text of a file in the folder of the run.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&self.bytes(name)).into_owned()
    }

    /// How many lines a file in the folder of the run has.
    pub fn count_lines(&self, name: &str) -> usize {
        self.text(name).matches('\n').count()
    }

    /// The process that was started.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Every process of the run.
    pub fn processes(&self) -> Vec<i32> {
        self.mark.living()
    }

    /// Waits for a fact.
    pub fn eventually(&self, what: &str, fact: impl Fn() -> bool) {
        self.within(DEADLINE, what, fact);
    }

    /// Waits for a fact that takes its time.
    pub fn within(&self, deadline: Duration, what: &str, fact: impl Fn() -> bool) {
        if !comes_true(deadline, fact) {
            let err = self.text("err");
            panic!("missed deadline: {what}\n--- out\n{}\n--- err\n{err}", self.text("out"));
        }
    }

    /// Waits until that many lines have been added to a file: proof that whatever writes them still runs.
    pub fn wait_for_more_lines(&self, name: &str, more: usize) {
        let wanted = self.count_lines(name) + more;
        self.eventually(&format!("{wanted} lines in {name}"), || self.count_lines(name) >= wanted);
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Asks the program to end, and waits until it has.
    pub fn stop(&mut self) -> Exit {
        self.signal(Signal::SIGTERM);
        self.wait_exit()
    }

    /// Waits until the program has ended; nothing that it started may survive it.
    pub fn wait_exit(&mut self) -> Exit {
        let ends = comes_true(DEADLINE, || self.child.try_wait().unwrap().is_some());
        assert!(ends, "missed deadline: the program ends\n{}", self.text("out"));
        assert_eq!(self.mark.living(), [0; 0], "processes survived the program");
        self.child.wait().unwrap().into()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.mark.kill_all();
    }
}

/// A pipe whose writing end a process can have as its stdout.
pub fn pipe() -> (io::PipeReader, Stdio) {
    let (reader, writer) = io::pipe().unwrap();
    (reader, writer.into())
}

/// A path in the file system that a process sees.
pub fn seen_by(pid: i32, path: &Path) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root{}", path.display()))
}

/// Lets everyone go on who waits to read from a FIFO; an error if nobody does.
pub fn open_gate(path: &Path) -> io::Result<()> {
    let gate = File::options().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    (&gate).write_all(b"\n")
}
