//! What a test needs of the machine. Where that is missing, the test returns and says so; in CI it fails, since a test
//! that nobody ran must not look like one that passed.

use std::env;
use std::io::Write;
use std::net::{Ipv6Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread;

/// Tells that the running test cannot show what it should. Panics in CI, which is where the variable `CI` is `true`.
pub fn skip(reason: &str) {
    assert!(env::var("CI").as_deref() != Ok("true"), "in CI every test must run: {reason}");
    let test = thread::current().name().unwrap_or("a test").to_owned();
    // Not with eprintln!: the test harness hides what a test prints unless it fails.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

/// Says that the test is skipped unless the fact is true.
fn or_skip(is_so: bool, reason: &str) -> bool {
    if !is_so {
        skip(reason);
    }
    is_so
}

/// Are we root?
pub fn is_root() -> bool {
    or_skip(nix::unistd::geteuid().is_root(), "it needs root")
}

/// Can a PID namespace be made here?
pub fn can_be_pid_one() -> bool {
    let trial = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).output();
    let possible = trial.as_ref().is_ok_and(|output| output.status.success());
    or_skip(possible, &format!("this user cannot make a PID namespace ({trial:?})"))
}

/// Does this machine have IPv6, at least on its loopback interface?
pub fn has_ipv6() -> bool {
    let bound = TcpListener::bind((Ipv6Addr::LOCALHOST, 0));
    or_skip(bound.is_ok(), &format!("this machine has no IPv6 address ::1 ({bound:?})"))
}

/// Are these programs in `PATH`, or in `/usr/sbin`, where Debian has nginx?
pub fn has_programs(programs: &[&str]) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_missing = |program: &&str| {
        let mut folders = env::split_paths(&path).chain([Path::new("/usr/sbin").to_owned()]);
        !folders.any(|folder| folder.join(program).is_file())
    };
    let missing: Vec<&str> = programs.iter().copied().filter(is_missing).collect();
    or_skip(missing.is_empty(), &format!("there is no {}", missing.join(" and no ")))
}
