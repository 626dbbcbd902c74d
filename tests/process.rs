//! The process layer against the real kernel. Waiting sees every child of this test program, so each test
//! that has children holds [`Children`] and thereby runs alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::print_stderr)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use containerpilot::config::spec::{CommandLine, ExecutionSpec, Resource, ResourceLimit, UserSpec};
use containerpilot::messages::process::{ExitStatus, Pid};
use containerpilot::messages::signal::Signal;
use containerpilot::process::{
    Delivery, EnvironmentBlock, Exited, Kernel, Launch, Layered, Linux, Output, Passed, RunningJobs,
    SpawnError, SpawnOutcome, Spawned, Spawning, become_subreaper, login_environment, reset_signals,
};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::SigSet;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{getgid, getuid};

#[path = "process/kernel.rs"]
mod kernel;
#[path = "support/lease.rs"]
mod lease;
#[path = "support/needs.rs"]
#[allow(dead_code, reason = "only some of its needs are needed here")]
mod needs;
#[path = "support/programs.rs"]
mod programs;
#[path = "process/signals.rs"]
mod signals;
#[path = "process/terminals.rs"]
mod terminals;

use lease::Lease;
use needs::{can_be_pid_one, is_root};
use programs::write_program;

static ALONE: Mutex<()> = Mutex::new(());
static LINUX: LazyLock<Linux> = LazyLock::new(Linux::default);

/// The right to have children, and those that were reaped while another was waited for.
struct Children {
    ended: HashMap<Pid, ExitStatus>,
    _alone: MutexGuard<'static, ()>,
}

/// All that is left of a process.
struct Outcome {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Children {
    /// With the preparations that the program makes before it starts anything.
    fn alone() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        become_subreaper().unwrap();
        reset_signals().unwrap();
        Self { ended: HashMap::new(), _alone: alone }
    }

    /// Reaps whatever ends until this one has.
    fn wait(&mut self, pid: Pid) -> ExitStatus {
        until(&format!("process {pid} ends"), || {
            while let Some(Exited { pid, status }) = LINUX.peek_exited().unwrap() {
                LINUX.reap(pid).unwrap();
                assert_eq!(self.ended.insert(pid, status), None, "process {pid} ended twice");
            }
            self.ended.remove(&pid)
        })
    }

    fn run(&mut self, execution: &ExecutionSpec, command: &[&str]) -> Outcome {
        let Spawned { pid, pipes } = spawn(execution, command).unwrap();
        let pipes = pipes.unwrap();
        let status = self.wait(pid);
        Outcome { status, stdout: read_all(pipes.stdout), stderr: read_all(pipes.stderr) }
    }

    /// What a shell script prints, without the last newline.
    fn output(&mut self, execution: &ExecutionSpec, script: &str) -> String {
        let outcome = self.run(execution, &["sh", "-c", script]);
        assert_eq!((outcome.status, outcome.stderr.as_str()), (ExitStatus::Code(0), ""), "{script}");
        outcome.stdout.trim_end().to_owned()
    }
}

impl Drop for Children {
    /// Leaves no child to the next test.
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        until("no child is left", || match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => Some(()),
            Ok(_) | Err(_) => None,
        });
    }
}

fn until<T>(fact: &str, mut observe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = observe() {
            return value;
        }
        assert!(Instant::now() < deadline, "not within a minute: {fact}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn group_is_alive(group: Pid) -> bool {
    LINUX.living_groups(&[group]).contains(&group)
}

fn words(command: &[&str]) -> CommandLine {
    let args = command[1..].iter().map(|&word| word.to_owned()).collect();
    CommandLine { program: command[0].to_owned(), args }
}

fn describe(
    execution: &ExecutionSpec,
    command: &[&str],
    variables: &[(&str, &str)],
    output: Output,
) -> Launch {
    let variables = variables.iter().copied().collect();
    let environment = EnvironmentBlock::new(&Layered::over(&variables), vec![], vec![]);
    let (command, execution) = (words(command), execution.clone());
    Launch {
        command,
        execution,
        environment,
        variable_files: vec![],
        running: RunningJobs::default(),
        variable: None,
        output,
        passed: Passed::default(),
    }
}

fn launch(
    execution: &ExecutionSpec,
    command: &[&str],
    variables: &[(&str, &str)],
    output: Output,
) -> Result<Spawned, SpawnError> {
    settle(LINUX.spawn(describe(execution, command, variables, output)))
}

/// Waits for a start; a process that did not become its program is reaped.
fn settle(spawning: Spawning) -> Result<Spawned, SpawnError> {
    match spawning.outcome.blocking_recv().expect("every start has an outcome") {
        SpawnOutcome::Started(spawned) => Ok(spawned),
        SpawnOutcome::Failed { error, child } => {
            if let Some(child) = child {
                let exited = until("it ends", || LINUX.peek_at(child).unwrap());
                assert_eq!(exited.status, ExitStatus::Code(127));
                LINUX.reap(child).unwrap();
            }
            Err(error)
        }
        SpawnOutcome::Cancelled => panic!("nobody cancelled it"),
    }
}

fn spawn(execution: &ExecutionSpec, command: &[&str]) -> Result<Spawned, SpawnError> {
    launch(execution, command, &[("PATH", "/usr/bin:/bin")], Output::Piped)
}

fn spawn_quietly(command: &[&str]) -> Pid {
    launch(&plain(), command, &[("PATH", "/usr/bin:/bin")], Output::Inherited).unwrap().pid
}

/// Why a program cannot be executed.
fn failure(execution: &ExecutionSpec, command: &[&str]) -> String {
    spawn(execution, command).expect_err("this should not start").to_string()
}

fn plain() -> ExecutionSpec {
    ExecutionSpec::default()
}

/// Is born in a copy of our memory and changes nothing of note.
fn slow() -> ExecutionSpec {
    ExecutionSpec { group: Some(getgid().as_raw()), ..plain() }
}

fn read_all(pipe: OwnedFd) -> String {
    let mut reader = File::from(pipe);
    let mut bytes = Vec::new();
    until("the pipe is closed", || match reader.read_to_end(&mut bytes) {
        Ok(_) => Some(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    });
    String::from_utf8(bytes).unwrap()
}

/// The next line; the pipe stays open.
fn read_line(pipe: &OwnedFd) -> String {
    let mut reader = File::from(pipe.try_clone().unwrap());
    let mut line = Vec::new();
    until("a line is written", || {
        let mut byte = [0];
        while let Ok(1) = reader.read(&mut byte) {
            if byte[0] == b'\n' {
                return Some(());
            }
            line.push(byte[0]);
        }
        None
    });
    String::from_utf8(line).unwrap()
}

fn executable_file(folder: &Path, name: &str, content: &str, mode: u32) -> String {
    let file = folder.join(name);
    write_program(&file, content, mode);
    file.to_str().unwrap().to_owned()
}

/// Runs an ignored test of this program in a new process, started through the command `within`.
fn run_again(within: &[&str], part: &str) {
    run_again_with(Stdio::null(), within, part);
}

fn run_again_with(stdin: Stdio, within: &[&str], part: &str) {
    let mut command = Command::new(within[0]);
    command.args(&within[1..]).arg(std::env::current_exe().unwrap());
    let output = command.args(["--exact", "--ignored", part]).stdin(stdin).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && told.contains("1 passed"), "{told}{output:?}");
}

fn killed_by(status: ExitStatus) -> Option<i32> {
    match status {
        ExitStatus::Signal { signal, .. } => Some(signal.number()),
        ExitStatus::Code(_) => None,
    }
}

fn nobody() -> UserSpec {
    UserSpec { name: Some("nobody".to_owned()), uid: 65_534, gid: 65_534 }
}

#[test]
fn every_exit_code_arrives() {
    let mut children = Children::alone();
    let started: Vec<(Pid, u8)> =
        (0..=255).map(|code: u8| (spawn_quietly(&["sh", "-c", &format!("exit {code}")]), code)).collect();
    for (pid, code) in started {
        assert_eq!(children.wait(pid), ExitStatus::Code(code));
    }
}

#[test]
fn every_deadly_signal_arrives_real_time_ones_included() {
    let mut children = Children::alone();
    let folder = tempfile::tempdir().unwrap();
    let execution = ExecutionSpec { cwd: Some(folder.path().to_owned()), ..plain() };
    // glibc keeps 32 and 33 for itself and starts children with both ignored.
    let reserved = [32, 33];
    let harmless = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];
    let stopping = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    let spared = [&harmless[..], &stopping, &reserved].concat();
    for number in (1..=64).filter(|number| !spared.contains(number)) {
        let pid = spawn(&execution, &["sleep", "1000"]).unwrap().pid;
        let signal = Signal::from_number(number).unwrap();
        assert_eq!(LINUX.signal_group(pid, signal).unwrap(), Delivery::Sent);
        assert_eq!(killed_by(children.wait(pid)), Some(number));
    }
}

#[test]
fn a_thousand_children_at_once_end_with_their_own_status() {
    let mut children = Children::alone();
    let started: BTreeMap<Pid, u8> = (0..1000_u32)
        .map(|index| (index % 251) as u8)
        .map(|code| (spawn_quietly(&["sh", "-c", &format!("exit {code}")]), code))
        .collect();
    assert_eq!(started.len(), 1000);
    for (pid, code) in started {
        assert_eq!(children.wait(pid), ExitStatus::Code(code));
    }
    assert!(children.ended.is_empty());
}

#[test]
fn starts_at_the_same_time_have_their_own_streams_environment_and_failures() {
    let mut children = Children::alone();
    let folder = tempfile::tempdir().unwrap();
    let broken = |number: usize| executable_file(folder.path(), &format!("broken-{number}"), "", 0o755);
    for crowd in [Vec::new(), crowd()] {
        let starts: Vec<(usize, Spawning)> = (0..60)
            .map(|number| {
                let value = number.to_string();
                let broken = broken(number);
                let command = if number % 3 == 0 {
                    vec![broken.as_str()]
                } else {
                    vec!["sh", "-c", "echo $NUMBER; echo $NUMBER >&2; exit $NUMBER"]
                };
                let variables = [("PATH", "/usr/bin:/bin"), ("NUMBER", &value)];
                (number, LINUX.spawn(describe(&plain(), &command, &variables, Output::Piped)))
            })
            .collect();
        let outcomes: Vec<_> = starts.into_iter().map(|(number, start)| (number, settle(start))).collect();
        for (number, outcome) in outcomes {
            if number % 3 == 0 {
                let reason = "exec format error: the file is empty";
                let told = outcome.unwrap_err().to_string();
                assert_eq!(told, format!("cannot execute {:?}: {reason}", broken(number)));
            } else {
                let Spawned { pid, pipes } = outcome.unwrap();
                assert_eq!(children.wait(pid), ExitStatus::Code(number as u8));
                let (pipes, line) = (pipes.unwrap(), format!("{number}\n"));
                assert_eq!([read_all(pipes.stdout), read_all(pipes.stderr)], [line.clone(), line]);
            }
        }
        drop(crowd);
    }
}

#[test]
fn a_start_that_was_cancelled_makes_no_process() {
    let _children = Children::alone();
    for _ in 0..200 {
        let start = LINUX.spawn(describe(&plain(), &["/bin/true"], &[], Output::Inherited));
        let cancelled = start.progress.cancel();
        match start.outcome.blocking_recv().unwrap() {
            SpawnOutcome::Cancelled => assert!(cancelled),
            SpawnOutcome::Started(spawned) => {
                assert!(!cancelled, "it has a process after all");
                until("it ends", || LINUX.peek_at(spawned.pid).unwrap());
                LINUX.reap(spawned.pid).unwrap();
            }
            SpawnOutcome::Failed { error, .. } => panic!("{error}"),
        }
    }
}

#[test]
fn an_execve_that_hangs_holds_up_no_other_start_and_can_be_killed() {
    let mut children = Children::alone();
    let folder = tempfile::tempdir().unwrap();
    let lease = Lease::take(&folder.path().join("leased"), "");
    let program = lease.program.to_str().unwrap();
    let hanging = LINUX.spawn(describe(&plain(), &[program], &[], Output::Piped));
    let pid = until("it has a process", || hanging.progress.pid());
    let other = LINUX.spawn(describe(&plain(), &["/bin/true"], &[], Output::Piped));
    LINUX.help_slow_starts();
    let other = settle(other).unwrap();
    assert_eq!(children.wait(other.pid), ExitStatus::Code(0), "others start");
    assert!(!hanging.progress.cancel(), "it is too late for that");
    LINUX.signal_process(pid, Signal::KILL);
    let spawned = settle(hanging).unwrap();
    assert_eq!(spawned.pid, pid);
    assert_eq!(killed_by(children.wait(pid)), Some(libc::SIGKILL));
    drop(lease);
}

#[test]
fn a_process_that_is_to_die_with_its_parent_outlives_the_help_for_slow_starts() {
    let mut children = Children::alone();
    let linux = Linux::default();
    let start = |arguments: &[&str]| linux.spawn(describe(&plain(), arguments, &[], Output::Piped));
    let guarded = settle(start(&["setpriv", "--pdeathsig", "KILL", "sleep", "1000"])).unwrap().pid;
    let name = || fs::read_to_string(format!("/proc/{}/comm", guarded.number())).unwrap_or_default();
    until("it has asked for the signal", || (name() == "sleep\n").then_some(()));
    let folder = tempfile::tempdir().unwrap();
    let lease = Lease::take(&folder.path().join("leased"), "");
    let hanging = start(&[lease.program.to_str().unwrap()]);
    let pid = until("it has a process", || hanging.progress.pid());
    let other = start(&["/bin/true"]);
    linux.help_slow_starts();
    let other = settle(other).unwrap();
    assert_eq!(children.wait(other.pid), ExitStatus::Code(0));
    linux.signal_process(pid, Signal::KILL);
    settle(hanging).unwrap();
    assert_eq!(killed_by(children.wait(pid)), Some(libc::SIGKILL));
    drop(lease);
    // Meanwhile the thread that has started it looks for more to do.
    for _ in 0..20 {
        let next = settle(start(&["/bin/true"])).unwrap();
        assert_eq!(children.wait(next.pid), ExitStatus::Code(0));
    }
    assert_eq!(name(), "sleep\n", "it lives");
    LINUX.signal_process(guarded, Signal::KILL);
    assert_eq!(killed_by(children.wait(guarded)), Some(libc::SIGKILL));
}

#[test]
fn an_orphan_becomes_ours() {
    let mut children = Children::alone();
    // The grandchild ends after its parent is reaped, and so as our child.
    let script = "{ while kill -0 $$ 2>/dev/null; do :; done; exit 7; } >/dev/null 2>&1 & echo $!";
    let Spawned { pid, pipes } = spawn(&plain(), &["sh", "-c", script]).unwrap();
    let orphan = Pid::new(read_line(&pipes.unwrap().stdout).parse().unwrap()).unwrap();
    assert_eq!(children.wait(pid), ExitStatus::Code(0));
    assert_eq!(children.wait(orphan), ExitStatus::Code(7));
    assert!(!group_is_alive(pid));
}

#[test]
fn a_signal_to_a_group_reaches_grandchildren() {
    let mut children = Children::alone();
    let Spawned { pid, pipes } = spawn(&plain(), &["sh", "-c", "sleep 1000 & echo $!; wait"]).unwrap();
    let grandchild = Pid::new(read_line(&pipes.unwrap().stdout).parse().unwrap()).unwrap();
    assert!(group_is_alive(pid));
    assert_eq!(LINUX.signal_group(pid, Signal::KILL).unwrap(), Delivery::Sent);
    assert_eq!(killed_by(children.wait(pid)), Some(libc::SIGKILL));
    assert_eq!(killed_by(children.wait(grandchild)), Some(libc::SIGKILL));
    assert!(!group_is_alive(pid));
}

#[test]
fn a_group_outlives_its_leader() {
    let mut children = Children::alone();
    let Spawned { pid, pipes } = spawn(&plain(), &["sh", "-c", "sleep 1000 & echo $!"]).unwrap();
    let rest = Pid::new(read_line(&pipes.unwrap().stdout).parse().unwrap()).unwrap();
    assert_eq!(children.wait(pid), ExitStatus::Code(0));
    assert!(group_is_alive(pid));
    assert_eq!(LINUX.signal_group(pid, Signal::TERM).unwrap(), Delivery::Sent);
    assert_eq!(killed_by(children.wait(rest)), Some(libc::SIGTERM));
    assert!(!group_is_alive(pid));
}

#[test]
fn a_zombie_keeps_its_group_but_is_not_alive() {
    let _children = Children::alone();
    let pid = spawn_quietly(&["true"]);
    let exited = until("it ends", || LINUX.peek_exited().unwrap());
    assert_eq!(exited, Exited { pid, status: ExitStatus::Code(0) });
    assert_eq!(LINUX.peek_exited().unwrap(), Some(exited), "peeking does not reap");
    assert!(!group_is_alive(pid));
    assert_eq!(LINUX.signal_group(pid, Signal::TERM).unwrap(), Delivery::Sent);
    LINUX.reap(pid).unwrap();
    assert_eq!(LINUX.signal_group(pid, Signal::TERM).unwrap(), Delivery::NoSuchGroup);
    assert_eq!(LINUX.peek_exited().unwrap(), None);
    assert!(LINUX.reap(pid).is_err());
}

#[test]
fn a_running_child_is_not_reaped() {
    let mut children = Children::alone();
    let pid = spawn_quietly(&["sleep", "1000"]);
    assert_eq!(LINUX.peek_exited().unwrap(), None);
    assert!(LINUX.reap(pid).is_err());
    LINUX.signal_group(pid, Signal::KILL).unwrap();
    assert_eq!(killed_by(children.wait(pid)), Some(libc::SIGKILL));
}

#[test]
fn the_environment_is_exactly_what_was_given() {
    let _children = Children::alone();
    let cases: [&[(&str, &str)]; 3] = [
        &[],
        &[("A", "1"), ("B", "x=y z"), ("EMPTY", "")],
        &[("PATH", "/none"), ("A", "first"), ("A", "last")],
    ];
    let expected = ["", "A=1\0B=x=y z\0EMPTY=\0", "A=last\0PATH=/none\0"];
    for (variables, expected) in cases.into_iter().zip(expected) {
        for execution in [plain(), slow()] {
            let command = ["/bin/cat", "/proc/self/environ"];
            let pipes = launch(&execution, &command, variables, Output::Piped).unwrap().pipes.unwrap();
            assert_eq!(read_all(pipes.stdout), expected);
        }
    }
}

#[test]
fn a_program_is_found_in_the_path_of_the_child_and_called_as_written() {
    let _children = Children::alone();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/sh", folder.path().join("our-shell")).unwrap();
    let path = folder.path().to_str().unwrap();
    let command = ["our-shell", "-c", "echo $0", "our-shell"];
    for execution in [plain(), slow()] {
        let pipes = launch(&execution, &command, &[("PATH", path)], Output::Piped).unwrap().pipes.unwrap();
        assert_eq!(read_all(pipes.stdout), "our-shell\n");
        let command = ["our-shell", "-c", "tr '\\0' '\\n' </proc/$$/cmdline | head -n1"];
        let path = format!("{path}:/usr/bin:/bin");
        let pipes = launch(&execution, &command, &[("PATH", &path)], Output::Piped).unwrap().pipes.unwrap();
        assert_eq!(read_all(pipes.stdout), "our-shell\n");
    }
}

#[test]
fn a_relative_program_is_relative_to_the_directory_of_the_job() {
    let mut children = Children::alone();
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    executable_file(&cwd, "here", "#!/bin/sh\npwd\n", 0o755);
    for execution in [plain(), slow()] {
        let execution = ExecutionSpec { cwd: Some(cwd.clone()), ..execution };
        assert_eq!(children.run(&execution, &["./here"]).stdout, format!("{}\n", cwd.display()));
    }
}

#[test]
fn a_child_leads_its_own_group_and_reads_nothing() {
    let mut children = Children::alone();
    for execution in [plain(), slow()] {
        let Spawned { pid, pipes } =
            spawn(&execution, &["sh", "-c", "readlink /proc/self/fd/0; cut -d' ' -f5 /proc/$$/stat"])
                .unwrap();
        assert_eq!(read_all(pipes.unwrap().stdout), format!("/dev/null\n{pid}\n"));
        assert_eq!(children.wait(pid), ExitStatus::Code(0));
    }
}

#[test]
fn both_pipes_are_non_blocking_and_closed_on_exec() {
    let mut children = Children::alone();
    let outcome = children.run(&plain(), &["sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n", "err\n"));
    let Spawned { pid, pipes } = spawn(&plain(), &["sleep", "1000"]).unwrap();
    let pipes = pipes.unwrap();
    for pipe in [&pipes.stdout, &pipes.stderr] {
        assert_eq!(nix::unistd::read(pipe, &mut [0]).unwrap_err(), Errno::EAGAIN);
        assert!(closes_on_exec(pipe.as_fd()));
    }
    LINUX.signal_group(pid, Signal::KILL).unwrap();
    children.wait(pid);
}

fn closes_on_exec(fd: BorrowedFd<'_>) -> bool {
    FdFlag::from_bits_truncate(fcntl(fd, FcntlArg::F_GETFD).unwrap()).contains(FdFlag::FD_CLOEXEC)
}

#[test]
fn a_child_is_there_until_it_is_reaped() {
    let mut children = Children::alone();
    assert!(!LINUX.has_children());
    let child = spawn(&plain(), &["true"]).unwrap();
    while LINUX.peek_at(child.pid).unwrap().is_none() {
        assert!(LINUX.has_children());
        thread::yield_now();
    }
    assert!(LINUX.has_children(), "a zombie is one");
    children.wait(child.pid);
    assert!(!LINUX.has_children());
}

/// Descriptors above 2 that this test program was given: what /proc says of their flags.
fn inherited_descriptors() -> BTreeSet<u32> {
    let numbers = fs::read_dir("/proc/self/fd").unwrap();
    let numbers = numbers.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap());
    let is_inherited = |fd: &u32| {
        let Ok(text) = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")) else { return false };
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
        i32::from_str_radix(flags, 8).unwrap() & libc::O_CLOEXEC == 0
    };
    numbers.filter(|&fd| fd > 2).filter(is_inherited).collect()
}

#[test]
fn no_descriptor_of_ours_leaks_into_a_child() {
    let mut children = Children::alone();
    let _ours = File::open("/dev/null").unwrap();
    let other = spawn(&plain(), &["sleep", "1000"]).unwrap();
    for execution in [plain(), slow()] {
        let listed = children.run(&execution, &["ls", "/proc/self/fd"]).stdout;
        let listed: BTreeSet<u32> = listed.lines().map(|line| line.parse().unwrap()).collect();
        let mut expected = inherited_descriptors();
        expected.extend([0, 1, 2]);
        // One more is the directory that `ls` reads.
        let surplus: Vec<_> = listed.difference(&expected).collect();
        assert_eq!(surplus.len(), 1, "listed {listed:?}, expected {expected:?}");
    }
    LINUX.signal_group(other.pid, Signal::KILL).unwrap();
    children.wait(other.pid);
}

/// So many descriptors that a new process does not get a copy of them.
fn crowd() -> Vec<File> {
    (0..300).map(|_| File::open("/dev/null").unwrap()).collect()
}

#[test]
fn a_child_gets_its_streams_alone_however_many_descriptors_are_open() {
    let mut children = Children::alone();
    let _ours = crowd();
    let own = || [0, 1, 2].map(|fd| fs::read_link(format!("/proc/self/fd/{fd}")).unwrap());
    let before = own();
    for execution in [plain(), slow(), plain()] {
        let outcome = children.run(&execution, &["sh", "-c", "ls /proc/$$/fd; cat; echo problem >&2"]);
        let listed: BTreeSet<u32> = outcome.stdout.lines().map(|line| line.parse().unwrap()).collect();
        let mut expected = inherited_descriptors();
        expected.extend([0, 1, 2]);
        assert_eq!(listed, expected, "stdin is at its end, and nothing else is there");
        assert_eq!(outcome.stderr, "problem\n");
    }
    assert_eq!(own(), before, "its streams did not become ours");
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    for _ in 0..10 {
        children.run(&plain(), &["true"]);
        failure(&plain(), &["/no/such"]);
        failure(&ExecutionSpec { cwd: Some("/no/such".into()), ..plain() }, &["true"]);
    }
    assert_eq!(open(), before);
}

#[test]
fn what_our_parent_gave_us_reaches_a_child_however_many_descriptors_are_open() {
    let mut children = Children::alone();
    let _ours = crowd();
    // As from a parent: without the flag that closes it.
    let given = fcntl(io::stdin(), FcntlArg::F_DUPFD(500)).unwrap();
    assert!(given >= 500);
    let outcome = children.run(&plain(), &["ls", &format!("/proc/self/fd/{given}")]);
    nix::unistd::close(given).unwrap();
    assert_eq!(outcome.status, ExitStatus::Code(0), "{}", outcome.stderr);
}

#[test]
fn starting_and_failing_to_start_leave_no_descriptor_behind() {
    let mut children = Children::alone();
    let count = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = count();
    for execution in [plain(), slow()] {
        children.run(&execution, &["true"]);
        failure(&execution, &["/no/such"]);
        failure(&ExecutionSpec { cwd: Some("/no/such".into()), ..execution }, &["true"]);
    }
    assert_eq!(count(), before);
    assert_eq!(LINUX.peek_exited().unwrap(), None, "a failed start leaves no zombie");
}

#[test]
fn a_child_starts_with_no_signal_blocked_and_sigpipe_as_by_default() {
    let mut children = Children::alone();
    SigSet::all().thread_block().unwrap();
    for execution in [plain(), slow()] {
        let status = children.output(&execution, "cat /proc/self/status");
        let mask = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        assert_eq!(mask("SigBlk:"), 0);
        assert_eq!(mask("SigIgn:") & (1 << (libc::SIGPIPE - 1)), 0);
    }
}

#[test]
fn an_inherited_ignored_sigchld_loses_no_status() {
    let mut children = Children::alone();
    let ourselves = std::env::current_exe().unwrap();
    let script = "trap '' CHLD; exec \"$0\" --exact --ignored started_with_sigchld_ignored";
    let outcome = children.run(&plain(), &["sh", "-c", script, ourselves.to_str().unwrap()]);
    assert_eq!(outcome.status, ExitStatus::Code(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("1 passed"), "{}", outcome.stdout);
}

#[test]
#[ignore = "part of another test"]
fn started_with_sigchld_ignored() {
    let mut children = Children::alone();
    let pid = spawn_quietly(&["sh", "-c", "exit 3"]);
    assert_eq!(children.wait(pid), ExitStatus::Code(3));
    assert!(failure(&slow(), &["/no/such"]).contains("No such file"));
}

#[test]
fn umask_nice_limits_and_oom_score_are_set() {
    let mut children = Children::alone();
    let mut set = |script: &str, execution: ExecutionSpec| children.output(&execution, script);
    assert_eq!(set("umask", ExecutionSpec { umask: Some(0o027), ..plain() }), "0027");
    assert_eq!(set("cut -d' ' -f19 /proc/$$/stat", ExecutionSpec { nice: Some(7), ..plain() }), "7");
    let limit = ResourceLimit { resource: Resource::Nofile, soft: Some(64), hard: Some(128) };
    let core = ResourceLimit { resource: Resource::Core, soft: Some(0), hard: Some(0) };
    let limits = ExecutionSpec { rlimits: vec![limit, core], ..plain() };
    assert_eq!(set("ulimit -Sn; ulimit -Hn; ulimit -Sc", limits), "64\n128\n0");
    let oom = ExecutionSpec { oom_score_adj: Some(500), ..plain() };
    assert_eq!(set("cat /proc/self/oom_score_adj", oom), "500");
}

#[test]
fn no_new_privileges_is_visible_in_the_child() {
    let mut children = Children::alone();
    let script = "grep NoNewPrivs /proc/self/status | cut -f2";
    assert_eq!(children.output(&ExecutionSpec { no_new_privileges: true, ..plain() }, script), "1");
}

#[test]
fn our_own_settings_stay_as_they_are() {
    let mut children = Children::alone();
    let before = fs::read_to_string("/proc/self/limits").unwrap();
    let limit = ResourceLimit { resource: Resource::Nofile, soft: Some(64), hard: Some(64) };
    let execution = ExecutionSpec { rlimits: vec![limit], oom_score_adj: Some(900), ..slow() };
    children.output(&execution, "true");
    assert_eq!(fs::read_to_string("/proc/self/limits").unwrap(), before);
    assert_ne!(fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim(), "900");
}

#[test]
fn another_user_brings_its_groups_and_loses_ours() {
    let mut children = Children::alone();
    if !is_root() {
        return;
    }
    let script = "id -u; id -g; id -G; grep CapEff /proc/self/status | cut -f2";
    let execution = ExecutionSpec { user: Some(nobody()), ..plain() };
    let expected = format!("65534\n65534\n{}\n0000000000000000", children.output(&plain(), "id -G nobody"));
    assert_eq!(children.output(&execution, script), expected);
    let execution = ExecutionSpec { group: Some(7), ..execution };
    let groups = children.output(&execution, "id -u; id -g; id -G");
    assert!(groups.starts_with("65534\n7\n7"), "{groups}");
    let by_number = UserSpec { name: None, uid: 54_321, gid: 12_345 };
    let execution = ExecutionSpec { user: Some(by_number), ..plain() };
    assert_eq!(children.output(&execution, "id -u; id -g; id -G"), "54321\n12345\n12345");
    let execution = ExecutionSpec { group: Some(7), ..plain() };
    assert_eq!(children.output(&execution, "id -u; id -g"), "0\n7");
}

#[test]
fn privileged_settings_are_made_before_the_user_changes() {
    let mut children = Children::alone();
    if !is_root() {
        return;
    }
    let execution =
        ExecutionSpec { user: Some(nobody()), nice: Some(-3), oom_score_adj: Some(10), ..plain() };
    let script = "id -u; cut -d' ' -f19 /proc/$$/stat; cat /proc/self/oom_score_adj";
    assert_eq!(children.output(&execution, script), "65534\n-3\n10");
}

#[test]
fn another_user_has_its_own_home() {
    let _children = Children::alone();
    if is_root() {
        let home = login_environment(&nobody());
        let expected = [("HOME", "/nonexistent"), ("USER", "nobody"), ("LOGNAME", "nobody")];
        assert_eq!(home, expected.map(|(name, value)| (name, value.into())));
    }
}

#[test]
fn without_privileges_a_job_may_name_our_own_user_and_nothing_more() {
    let mut children = Children::alone();
    if !is_root() {
        return;
    }
    // A copy, since the other user may have no right to reach this program where it was built.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let ourselves: PathBuf = folder.path().join("ourselves");
    fs::copy(std::env::current_exe().unwrap(), &ourselves).unwrap();
    assert_eq!(fs::metadata(&ourselves).unwrap().mode() & 0o111, 0o111);
    let execution = ExecutionSpec { user: Some(nobody()), cwd: Some("/".into()), ..plain() };
    let command = [ourselves.to_str().unwrap(), "--exact", "--ignored", "started_without_privileges"];
    let outcome = children.run(&execution, &command);
    assert_eq!(outcome.status, ExitStatus::Code(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("1 passed"), "{}", outcome.stdout);
}

#[test]
#[ignore = "part of another test"]
fn started_without_privileges() {
    let mut children = Children::alone();
    assert_eq!(getuid().as_raw(), nobody().uid);
    let as_user = |user| ExecutionSpec { user: Some(user), ..plain() };
    assert_eq!(children.output(&as_user(nobody()), "id -u"), "65534");
    let root = UserSpec { name: Some("root".to_owned()), uid: 0, gid: 0 };
    let told = failure(&as_user(root), &["true"]);
    assert_eq!(told, "cannot set the groups of user \"root\" (uid 0): Operation not permitted");
    let told = failure(&ExecutionSpec { group: Some(0), ..plain() }, &["true"]);
    assert_eq!(told, "cannot set group 0: Operation not permitted");
    let told = failure(&ExecutionSpec { nice: Some(-5), ..plain() }, &["true"]);
    assert_eq!(told, "cannot set nice -5: Permission denied");
    let told = failure(&ExecutionSpec { oom_score_adj: Some(-5), ..plain() }, &["true"]);
    assert_eq!(told, "cannot set oomScoreAdj -5: Permission denied");
}

#[test]
fn a_setting_that_fails_is_named() {
    let _children = Children::alone();
    let limit = ResourceLimit { resource: Resource::Nofile, soft: Some(9), hard: Some(5) };
    assert_eq!(
        failure(&ExecutionSpec { rlimits: vec![limit], ..slow() }, &["true"]),
        "cannot set the limit nofile to soft 9, hard 5: Invalid argument"
    );
    if is_root() {
        let impossible = UserSpec { name: None, uid: u32::MAX, gid: 7 };
        assert_eq!(
            failure(&ExecutionSpec { user: Some(impossible), ..plain() }, &["true"]),
            "cannot set user 4294967295: Invalid argument"
        );
    }
}

#[test]
fn a_program_that_cannot_be_executed_is_told_with_its_reason() {
    let _children = Children::alone();
    let folder = tempfile::tempdir().unwrap();
    let file = |name, content, mode| executable_file(folder.path(), name, content, mode);
    let directory = folder.path().to_str().unwrap().to_owned();
    let cases = [
        ("/no/such".to_owned(), "No such file or directory"),
        ("/bin/sh/x".to_owned(), "Not a directory"),
        (directory, "it is a directory"),
        ("/dev/null".to_owned(), "it is not a regular file"),
        (file("plain", "#!/bin/sh\n", 0o644), "permission denied: the file is not executable (mode 0644)"),
        (file("text", "echo hello\n", 0o755), "exec format error: is it a script without a #! line?"),
        (file("empty", "", 0o755), "exec format error: the file is empty"),
        (file("lost", "#!/no/such -e\n", 0o755), "its interpreter \"/no/such\" does not exist"),
        (file("windows", "#!/bin/sh\r\n", 0o755), "its interpreter \"/bin/sh\\r\" does not exist"),
        (file("denied", "#!/etc/passwd\n", 0o755), "its interpreter \"/etc/passwd\" may not be executed"),
    ];
    for (program, reason) in &cases {
        for execution in [plain(), slow()] {
            assert_eq!(failure(&execution, &[program]), format!("cannot execute {program:?}: {reason}"));
        }
    }
    let told = failure(&plain(), &["no-such-tool"]);
    assert_eq!(told, "cannot execute \"no-such-tool\": not found in PATH \"/usr/bin:/bin\"");
}

#[test]
fn a_directory_that_cannot_be_entered_is_told_apart_from_the_program() {
    let _children = Children::alone();
    for execution in [plain(), slow()] {
        let enter =
            |cwd: &str| failure(&ExecutionSpec { cwd: Some(cwd.into()), ..execution.clone() }, &["true"]);
        assert_eq!(enter("/no/such"), "cannot enter the directory \"/no/such\": No such file or directory");
        assert_eq!(enter("/bin/sh"), "cannot enter the directory \"/bin/sh\": it is not a directory");
    }
}

#[test]
fn limits_of_the_system_are_told() {
    let mut children = Children::alone();
    let long = "x".repeat(1 << 20);
    let told = failure(&plain(), &["/bin/true", &long]);
    assert_eq!(told, "cannot execute \"/bin/true\": its arguments and environment are too long");
    assert!(failure(&plain(), &["/bin/true", "a\0b"]).contains("nul byte"));
    if is_root() {
        // The kernel counts what the user has already.
        let other =
            spawn(&ExecutionSpec { user: Some(nobody()), ..plain() }, &["sleep", "1000"]).unwrap().pid;
        let limit = ResourceLimit { resource: Resource::Nproc, soft: Some(0), hard: Some(0) };
        let execution = ExecutionSpec { user: Some(nobody()), rlimits: vec![limit], ..plain() };
        let told = failure(&execution, &["/bin/true"]);
        assert_eq!(told, "cannot execute \"/bin/true\": the limit on the number of processes is reached");
        LINUX.signal_group(other, Signal::KILL).unwrap();
        children.wait(other);
    }
}
