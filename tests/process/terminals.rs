//! Jobs at our terminal, in processes of their own that have a pseudo-terminal at their stdin.

use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use containerpilot::config::spec::JobSpec;
use containerpilot::process::{Environ, Kind, Order, has_terminal};
use nix::pty::openpty;
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::{getpgrp, tcgetpgrp, ttyname};

use super::*;

/// Runs a part of a test with a new terminal at its stdin, for reading alone or for both.
fn at_terminal(is_writable: bool, within: &[&str], part: &str) {
    let _children = Children::alone();
    let pty = openpty(None, None).unwrap();
    // Not as the controlling terminal of this process.
    let mut options = File::options();
    options.read(true).write(is_writable).custom_flags(libc::O_NOCTTY);
    run_again_with(options.open(ttyname(&pty.slave).unwrap()).unwrap().into(), within, part);
}

/// The files behind stdin, stdout and stderr of a job at the terminal. Its group is in the foreground.
fn found_by_job(children: &mut Children, then: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let found = folder.path().join("found");
    // The parentheses make a process of their own, so that the shell keeps its stdout.
    let script = format!(
        "(readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2; cut -d' ' -f5,8 /proc/$$/stat) > {}; {then}",
        found.display()
    );
    let path = [("PATH", "/usr/bin:/bin")];
    let spawned = launch(&plain(), &["sh", "-c", &script], &path, Output::Terminal).unwrap();
    assert!(spawned.pipes.is_none());
    assert_eq!(children.wait(spawned.pid), ExitStatus::Code(0));
    let mut lines: Vec<String> = fs::read_to_string(found).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(lines.pop(), Some(format!("{0} {0}", spawned.pid)), "its group, and that in the foreground");
    lines
}

/// Where the output of a job that asks for our terminal goes.
fn output_of_job() -> Output {
    let command = CommandLine { program: "sh".to_owned(), args: vec![] };
    let job = JobSpec { tty: true, ..JobSpec::new("shell".into(), Some(command)) };
    let order = Order { job: Arc::new(job), kind: Kind::Job, raw_output: false, occasion: None };
    order.describe(&Environ::new([]), &RunningJobs::default(), Passed::default()).unwrap().output
}

fn path_of(stream: u32) -> String {
    fs::read_link(format!("/proc/self/fd/{stream}")).unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_job_is_in_the_foreground_of_our_terminal_until_we_take_it_back() {
    at_terminal(true, &["setsid"], "terminals::started_as_leader_at_a_terminal");
}

#[test]
#[ignore = "part of another test"]
fn started_as_leader_at_a_terminal() {
    let mut children = Children::alone();
    assert_eq!(tcgetpgrp(io::stdin()), Err(Errno::ENOTTY), "it is nobody's yet");
    assert!(has_terminal(), "it becomes ours");
    assert_eq!(tcgetpgrp(io::stdin()), Ok(getpgrp()));
    assert!(has_terminal(), "it is ours");
    assert_eq!(output_of_job(), Output::Terminal);
    let can_edit = || tcgetattr(io::stdin()).unwrap().local_flags.contains(LocalFlags::ICANON);
    assert!(can_edit());
    let terminal = path_of(0);
    let found = found_by_job(&mut children, "stty raw -echo");
    assert_eq!(found, [terminal.as_str(); 3]);
    assert!(!can_edit());
    LINUX.take_terminal_back();
    assert_eq!(tcgetpgrp(io::stdin()), Ok(getpgrp()));
    assert!(can_edit(), "its modes are what they were");
}

#[test]
fn a_job_at_a_terminal_that_can_only_be_read_writes_where_we_do() {
    at_terminal(false, &["setsid"], "terminals::started_at_a_terminal_that_can_only_be_read");
}

#[test]
#[ignore = "part of another test"]
fn started_at_a_terminal_that_can_only_be_read() {
    let mut children = Children::alone();
    assert!(has_terminal());
    let found = found_by_job(&mut children, "true");
    assert_eq!(found, [0, 1, 2].map(path_of));
    assert_ne!(path_of(0), path_of(1));
}

#[test]
fn a_terminal_that_is_not_our_controlling_one_is_none() {
    at_terminal(true, &["env"], "terminals::started_at_a_terminal_of_no_session");
}

#[test]
#[ignore = "part of another test"]
fn started_at_a_terminal_of_no_session() {
    assert!(!has_terminal(), "only the leader of a session can make it ours");
    assert_eq!(output_of_job(), Output::Piped);
}
