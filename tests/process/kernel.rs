//! The `Kernel` trait against the real kernel: groups, stopped children, signals to all, and descriptors.

use std::io::IoSlice;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use containerpilot::process::{Datagram, NotifySocket, is_pid_one, random_share};
use nix::sys::resource::Resource::RLIMIT_NOFILE;
use nix::sys::resource::setrlimit;
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};

use super::*;

/// A shell script that becomes its arguments, with nothing in `/proc`.
const HIDE_PROC: &str = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";

fn signal(number: i32) -> Signal {
    Signal::from_number(number).unwrap()
}

#[test]
fn a_group_is_that_of_its_processes_until_the_last_is_reaped() {
    let mut children = Children::alone();
    let Spawned { pid, pipes } = spawn(&plain(), &["sh", "-c", "sleep 1000 & echo $!; wait"]).unwrap();
    let member = Pid::new(read_line(&pipes.unwrap().stdout).parse().unwrap()).unwrap();
    assert_eq!((LINUX.group_of(pid), LINUX.group_of(member)), (Some(pid), Some(pid)));
    assert!(!LINUX.group_is_empty(pid));
    LINUX.signal_group(pid, Signal::KILL).unwrap();
    until("it ends", || LINUX.peek_at(pid).unwrap());
    assert!(!LINUX.group_is_empty(pid), "a zombie is in it");
    children.wait(pid);
    children.wait(member);
    assert!(LINUX.group_is_empty(pid));
    assert_eq!(LINUX.group_of(pid), None);
}

#[test]
fn the_signal_that_stopped_a_child_is_told_once() {
    let mut children = Children::alone();
    let pid = spawn_quietly(&["sleep", "1000"]);
    assert_eq!(LINUX.stopped_by(pid), None);
    for number in [libc::SIGSTOP, libc::SIGTSTP] {
        LINUX.signal_group(pid, signal(number)).unwrap();
        assert_eq!(until("it is stopped", || LINUX.stopped_by(pid)), signal(number));
        assert_eq!(LINUX.stopped_by(pid), None, "it was told");
        LINUX.signal_group(pid, signal(libc::SIGCONT)).unwrap();
    }
    LINUX.signal_group(pid, Signal::KILL).unwrap();
    until("it ends", || LINUX.peek_at(pid).unwrap());
    assert_eq!(LINUX.stopped_by(pid), None, "to end is not to be stopped");
    children.wait(pid);
}

#[test]
fn all_children_get_a_signal_and_it_is_told_whether_there_are_any() {
    let mut children = Children::alone();
    assert!(!LINUX.signal_all_children(Signal::TERM));
    let own = [(); 3].map(|()| spawn_quietly(&["sleep", "1000"]));
    assert!(LINUX.signal_all_children(Signal::TERM));
    for pid in own {
        assert_eq!(killed_by(children.wait(pid)), Some(libc::SIGTERM));
    }
    assert!(!LINUX.signal_all_children(Signal::TERM));
}

#[test]
fn without_proc_processes_start_and_a_group_with_members_counts_as_alive() {
    let _children = Children::alone();
    if can_be_pid_one() {
        run_again(&["unshare", "--mount", "sh", "-c", HIDE_PROC], "kernel::started_without_proc");
    }
}

#[test]
#[ignore = "part of another test"]
fn started_without_proc() {
    let mut children = Children::alone();
    assert!(!Path::new("/proc/self").exists());
    assert_eq!(LINUX.memory_kills(), None);
    let pid = spawn(&plain(), &["sleep", "1000"]).unwrap().pid;
    assert!(group_is_alive(pid));
    assert!(!LINUX.signal_all_children(Signal::TERM), "nobody tells who they are");
    LINUX.signal_group(pid, Signal::KILL).unwrap();
    assert_eq!(killed_by(children.wait(pid)), Some(libc::SIGKILL));
    assert!(!group_is_alive(pid));
}

#[test]
fn process_1_needs_no_proc_to_signal_every_process() {
    let _children = Children::alone();
    if can_be_pid_one() {
        let within = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "sh", "-c", HIDE_PROC];
        run_again(&within, "kernel::started_as_process_1_without_proc");
    }
}

#[test]
#[ignore = "part of another test"]
fn started_as_process_1_without_proc() {
    let mut children = Children::alone();
    assert!(is_pid_one() && !Path::new("/proc/self").exists());
    let Spawned { pid, pipes } = spawn(&plain(), &["sh", "-c", "sleep 1000 & echo $!; wait"]).unwrap();
    let grandchild = Pid::new(read_line(&pipes.unwrap().stdout).parse().unwrap()).unwrap();
    assert!(LINUX.signal_all_children(Signal::TERM));
    for pid in [pid, grandchild] {
        assert_eq!(killed_by(children.wait(pid)), Some(libc::SIGTERM));
    }
}

#[test]
fn a_child_is_a_likelier_victim_than_we_are_when_memory_runs_out() {
    let mut children = Children::alone();
    let score = |process: &str| -> i32 {
        fs::read_to_string(format!("/proc/{process}/oom_score_adj")).unwrap().trim().parse().unwrap()
    };
    let pid = spawn_quietly(&["sleep", "1000"]);
    assert_eq!(score(&pid.to_string()), (score("self") + 200).min(1000));
    LINUX.signal_group(pid, Signal::KILL).unwrap();
    children.wait(pid);
}

#[test]
fn a_child_gets_what_is_passed_to_it_and_leads_a_session_only_if_it_should() {
    let mut children = Children::alone();
    let script = "echo $LISTEN_PID; cut -d' ' -f5,6 /proc/$$/stat; readlink /proc/$$/fd/3; echo here >&9";
    for (execution, own_session) in [(plain(), true), (slow(), true), (plain(), false), (slow(), false)] {
        let (reader, writer) = io::pipe().unwrap();
        let null = File::open("/dev/null").unwrap();
        let descriptors = vec![(Arc::new(writer.into()), 9), (Arc::new(null.into()), 3)];
        let mut passed = Passed { descriptors, own_session, ..Passed::default() };
        passed.tell_own_number("LISTEN_PID");
        let path = [("PATH", "/usr/bin:/bin")];
        let start = Launch { passed, ..describe(&execution, &["sh", "-c", script], &path, Output::Piped) };
        let Spawned { pid, pipes } = settle(LINUX.spawn(start)).unwrap();
        let session = if own_session { pid.number() } else { nix::unistd::getsid(None).unwrap().as_raw() };
        assert_eq!(read_all(pipes.unwrap().stdout), format!("{pid}\n{pid} {session}\n/dev/null\n"));
        assert_eq!(io::read_to_string(reader).unwrap(), "here\n");
        assert_eq!(children.wait(pid), ExitStatus::Code(0));
    }
}

/// Whether an address is in the memory of a process.
fn has_address(process: Pid, address: usize) -> bool {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let holds = |line: &str| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(start)..number(end)).contains(&address)
    };
    maps.lines().any(holds)
}

#[test]
fn a_start_copies_no_memory_unless_its_settings_need_that() {
    let mut children = Children::alone();
    let folder = tempfile::tempdir().unwrap();
    for (name, execution, is_shared) in [("fast", plain(), true), ("slow", slow(), false)] {
        let lease = Lease::take(&folder.path().join(name), "");
        let program = lease.program.to_str().unwrap();
        let start = LINUX.spawn(describe(&execution, &[program], &[], Output::Piped));
        let pid = until("it has a process", || start.progress.pid());
        // So large that it gets pages of its own, which were not there when the process was made.
        let new = Vec::<u8>::with_capacity(64 << 20);
        assert_eq!(has_address(pid, new.as_ptr().addr()), is_shared, "{name}");
        LINUX.signal_process(pid, Signal::KILL);
        settle(start).unwrap();
        assert_eq!(killed_by(children.wait(pid)), Some(libc::SIGKILL));
    }
}

#[test]
fn random_shares_are_in_0_to_1_and_differ() {
    let shares: Vec<f64> = std::iter::repeat_with(random_share).take(100).collect();
    assert!(shares.iter().all(|share| (0.0..1.0).contains(share)), "{shares:?}");
    let distinct: BTreeSet<u64> = shares.iter().map(|share| share.to_bits()).collect();
    assert!(distinct.len() > 90, "{shares:?}");
}

#[test]
fn descriptors_that_cannot_all_be_taken_are_closed() {
    let _children = Children::alone();
    run_again(&["env"], "kernel::with_few_descriptors_left");
}

#[tokio::test]
#[ignore = "part of another test"]
async fn with_few_descriptors_left() {
    let socket = NotifySocket::open().unwrap();
    let (null, sender) = (File::open("/dev/null").unwrap(), UnixDatagram::unbound().unwrap());
    let send = |count: usize| {
        let descriptors = vec![null.as_raw_fd(); count];
        let to = UnixAddr::new_abstract(socket.address().trim_start_matches('@').as_bytes()).unwrap();
        let rights = [ControlMessage::ScmRights(&descriptors)];
        let text = [IoSlice::new(b"FDSTORE=1")];
        sendmsg(sender.as_raw_fd(), &text, &rights, MsgFlags::empty(), Some(&to)).unwrap();
        socket.receive_unnoticed().unwrap().unwrap()
    };
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    let limit = u64::from(File::open("/dev/null").unwrap().as_raw_fd().unsigned_abs()) + 4;
    setrlimit(RLIMIT_NOFILE, limit, limit).unwrap();
    for _ in 0..5 {
        let Datagram { sender, text, descriptors, has_lost_descriptors } = send(10);
        assert_eq!((descriptors.len(), has_lost_descriptors), (0, true));
        assert_eq!(sender, Pid::new(i32::try_from(std::process::id()).unwrap()));
        assert_eq!(text, b"FDSTORE=1");
        assert_eq!(open(), before);
    }
    let datagram = send(2);
    assert_eq!((datagram.descriptors.len(), datagram.has_lost_descriptors), (2, false));
}
