//! Sinks whose output is slow, full, closed or replaced.

mod files;

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::Mode;
use nix::unistd::{mkfifo, pipe2};

use super::*;
use crate::config::spec::LogFormat;

const LONG: Duration = Duration::from_secs(20);

fn settings() -> Settings {
    Settings::new(LogLevel::Info, LogFormat::Default)
}

fn sink_to(descriptor: impl Into<OwnedFd>, bound: usize) -> LogSink {
    let output = Output::over(descriptor.into().into(), LogOutput::Stderr);
    LogSink::start(output, settings(), bound).unwrap()
}

/// A pipe that holds one page, so that it is soon full.
fn small_pipe() -> (File, OwnedFd) {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
    fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    (reader.into(), writer)
}

fn rest_of(mut reader: impl Read) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}

fn set_output(sink: &LogSink, target: &LogOutput) -> io::Result<()> {
    if let Some(output) = sink.prepare_output(target)? {
        sink.use_output(output);
    }
    Ok(())
}

fn file(path: &Path) -> LogOutput {
    LogOutput::File(path.to_owned())
}

fn wait_until(what: &str, fact: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !fact() {
        assert!(Instant::now() < deadline, "not seen in time: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn records_arrive_in_order_and_the_end_of_the_last_sink_ends_the_output() {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
    let sink = sink_to(writer, DEFAULT_BOUND);
    let other = sink.clone();
    sink.push(b"one\n");
    other.push(b"two\n");
    sink.append(|out| out.extend_from_slice(b"three\n"));
    drop(sink);
    other.push(b"four\n");
    drop(other);
    assert_eq!(rest_of(File::from(reader)), "one\ntwo\nthree\nfour\n");
}

#[test]
fn own_records_that_find_no_room_are_counted_and_the_count_is_logged() {
    let (reader, writer) = small_pipe();
    let sink = sink_to(writer, 4096);
    for number in 0..2000 {
        sink.push(format!("record {number}\n").as_bytes());
    }
    drop(sink);
    let text = rest_of(reader);
    let written = text.lines().filter(|line| line.starts_with("record ")).count();
    let reports: Vec<_> = text.lines().filter(|line| line.contains(" containerpilot ")).collect();
    let lost: usize = reports
        .iter()
        .map(|line| {
            assert!(line.ends_with(" lost because the log could not be written fast enough"), "{line}");
            line.split(' ').nth(3).unwrap().parse::<usize>().unwrap()
        })
        .sum();
    assert!(lost > 0);
    assert_eq!(written + lost, 2000);
    assert_eq!(text.lines().count(), written + reports.len());
}

#[test]
fn a_single_lost_record_is_reported_in_the_singular() {
    assert_eq!(lost_text(1), "1 log record was lost because the log could not be written fast enough");
}

#[test]
fn a_record_larger_than_the_buffer_is_written_when_nothing_else_waits() {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
    let sink = sink_to(writer, 16);
    sink.push(b"a record of more than sixteen bytes\n");
    drop(sink);
    assert_eq!(rest_of(File::from(reader)), "a record of more than sixteen bytes\n");
}

#[test]
fn own_records_still_fit_when_children_have_no_room() {
    let (reader, writer) = small_pipe();
    let sink = sink_to(writer, 8192);
    while sink.has_room() {
        sink.append(|out| out.extend_from_slice(&[b'x'; 512]));
    }
    sink.append(|out| out.extend_from_slice(&[b'x'; 100_000]));
    sink.push(b"\nown record\n");
    drop(sink);
    assert!(rest_of(reader).ends_with("\nown record\n"));
}

#[tokio::test(flavor = "current_thread")]
async fn who_waits_for_room_goes_on_when_there_is_some() {
    let (mut reader, writer) = small_pipe();
    let sink = sink_to(writer, 8192);
    while sink.has_room() {
        sink.append(|out| out.extend_from_slice(&[b'x'; 512]));
    }
    let read = thread::spawn(move || {
        let mut buffer = Vec::new();
        reader.read_to_end(&mut buffer).unwrap();
        buffer.len()
    });
    tokio::time::timeout(LONG, sink.room()).await.expect("room in time");
    assert!(sink.has_room());
    drop(sink);
    assert!(read.join().unwrap() >= 6144);
}

#[test]
fn flush_waits_for_what_is_queued_but_not_for_ever() {
    let (reader, writer) = small_pipe();
    let sink = sink_to(writer, DEFAULT_BOUND);
    assert!(sink.flush(Duration::ZERO), "nothing to wait for");
    sink.push(&[b'x'; 100_000]);
    let (patience, begin) = (Duration::from_millis(200), Instant::now());
    assert!(!sink.flush(patience), "nobody reads");
    assert!((patience..LONG).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    let read = thread::spawn(move || rest_of(reader).len());
    assert!(sink.flush(LONG));
    drop(sink);
    assert_eq!(read.join().unwrap(), 100_000);
}

#[test]
fn flush_waits_longer_for_a_reader_that_reads() {
    let (mut reader, writer) = small_pipe();
    // So that each page counts as progress: a write that blocks returns after 64 KiB.
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let sink = sink_to(writer, DEFAULT_BOUND);
    sink.push(&vec![b'x'; 240 * 4096]);
    let read = thread::spawn(move || {
        let mut page = [0; 4096];
        let mut total = 0;
        while let Ok(length @ 1..) = reader.read(&mut page) {
            total += length;
            thread::sleep(Duration::from_millis(5)); // a slow reader
        }
        total
    });
    assert!(sink.flush(Duration::from_millis(400)), "all of it takes 1.2 s, and a page takes 5 ms");
    drop(sink);
    assert_eq!(read.join().unwrap(), 240 * 4096);
}

#[test]
fn each_page_that_is_read_is_progress_while_a_flush_waits() {
    const PAGE: usize = 4096;
    let (mut reader, writer) = small_pipe();
    let sink = sink_to(writer, DEFAULT_BOUND);
    sink.push(&[b'x'; 64 * PAGE]);
    let flush = thread::spawn({
        let sink = sink.clone();
        move || sink.flush(LONG)
    });
    wait_until("the flush", || sink.shared.is_flushing());
    // A write of 16 pages may have begun before the flush; the last of them stays in the pipe.
    reader.read_exact(&mut [0; 15 * PAGE]).unwrap();
    for page in 17..=64 {
        reader.read_exact(&mut [0; PAGE]).unwrap();
        wait_until("progress", || sink.usage().bytes >= page * PAGE as u64);
    }
    assert!(flush.join().unwrap());
}

#[test]
fn flush_gives_up_on_a_reader_that_is_never_done() {
    let (sink, _writer) = unwritten(DEFAULT_BOUND);
    sink.push(b"never written\n");
    let shared = Arc::clone(&sink.shared);
    let (given_up, is_over) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let deadline = Instant::now() + LONG;
        while is_over.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
            assert!(Instant::now() < deadline, "the flush goes on");
            shared.note_written(1);
        }
    });
    assert!(!sink.flush(Duration::from_millis(50)));
    drop(given_up);
    reader.join().unwrap();
}

#[test]
fn a_non_blocking_output_loses_nothing() {
    let (reader, writer) = small_pipe();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let sink = sink_to(writer, DEFAULT_BOUND);
    for number in 0..20_000 {
        sink.push(format!("record {number}\n").as_bytes());
    }
    let read = thread::spawn(move || rest_of(reader));
    assert!(sink.flush(LONG));
    drop(sink);
    let text = read.join().unwrap();
    assert!(text.lines().enumerate().all(|(number, line)| line == format!("record {number}")));
    assert_eq!(text.lines().count(), 20_000);
}

#[test]
fn a_closed_output_costs_records_and_a_new_one_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
    drop(reader);
    let sink = sink_to(writer, 4096);
    for _ in 0..3 {
        sink.push(b"lost\n");
        assert!(!sink.flush(LONG));
    }
    assert!(sink.has_room());
    set_output(&sink, &file(&folder.path().join("log"))).unwrap();
    sink.push(b"written\n");
    assert!(sink.flush(LONG));
    let text = fs::read_to_string(folder.path().join("log")).unwrap();
    let (first, report) = text.split_once('\n').unwrap();
    assert_eq!(first, "written");
    assert!(report.contains("cannot write the log to stderr: Broken pipe; works again after "), "{report}");
    assert!(report.ends_with("s, records lost: 3, bytes lost: 15\n"), "{report}");
}

#[test]
fn a_record_torn_by_an_outage_does_not_spoil_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    let reader = || OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&path).unwrap();
    let first_reader = reader();
    let writer = OpenOptions::new().write(true).open(&path).unwrap();
    let sink = sink_to(writer, DEFAULT_BOUND);
    sink.append(|out| {
        out.resize(200_000, b'x');
        out.push(b'\n');
    });
    wait_until("a part of the record", || matches!((&first_reader).read(&mut [0]), Ok(1)));
    drop(first_reader);
    assert!(!sink.flush(LONG));

    let second_reader = reader();
    fcntl(&second_reader, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    let read = thread::spawn(move || rest_of(second_reader));
    sink.push(b"whole\n");
    assert!(sink.flush(LONG));
    drop(sink);
    let text = read.join().unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "a torn record, a whole one, a report");
    assert!(lines[0].bytes().all(|byte| byte == b'x'));
    assert_eq!(lines[1], "whole");
    assert!(lines[2].contains("records lost: 1, "));
}

#[test]
fn a_full_disk_keeps_records_while_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let sink = sink_to(full, DEFAULT_BOUND);
    sink.push(b"one\n");
    assert!(!sink.flush(LONG));
    sink.push(b"two\n");
    assert!(!sink.flush(LONG), "a flush tries again, but does not wait for a disk");
    set_output(&sink, &file(&folder.path().join("log"))).unwrap();
    sink.push(b"three\n");
    wait_until("recovery", || sink.flush(LONG));
    let text = fs::read_to_string(folder.path().join("log")).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let records: Vec<_> = lines.iter().copied().filter(|line| !line.contains(" containerpilot ")).collect();
    assert_eq!(records, ["one", "two", "three"]);
    assert!(text.contains("No space left on device; works again after "), "{text}");
    assert!(text.contains("s, records lost: 0, bytes lost: 0\n"), "{text}");
    assert_eq!(lines.len(), 4, "one report per outage");
}

#[tokio::test(flavor = "current_thread")]
async fn a_full_disk_never_stops_the_children() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let sink = sink_to(full, 4096);
    for _ in 0..100 {
        tokio::time::timeout(LONG, sink.room()).await.expect("room in time");
        sink.append(|out| out.extend_from_slice(&[b'\n'; 3072]));
    }
}

#[test]
fn the_writer_is_named_log_and_takes_no_signals() {
    let (_reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
    let _sink = sink_to(writer.as_fd().try_clone_to_owned().unwrap(), 4096);
    let masks = || -> Vec<u64> {
        let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
        let logs = threads.filter(|thread| {
            fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name == "log\n")
        });
        let statuses = logs.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
        statuses
            .map(|status| {
                let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim();
                u64::from_str_radix(mask, 16).unwrap()
            })
            .collect()
    };
    wait_until("the thread", || !masks().is_empty());
    // The first 31 signals but SIGKILL and SIGSTOP, which cannot be blocked.
    let all = 0x7fff_ffff & !(1 << 8) & !(1 << 18);
    assert!(masks().iter().all(|mask| mask & all == all), "{:x?}", masks());
}

#[test]
fn large_buffers_are_given_back_when_the_log_is_idle() {
    let (reader, writer) = small_pipe();
    let sink = sink_to(writer, DEFAULT_BOUND);
    for _ in 0..10 {
        sink.append(|out| out.extend_from_slice(&[b'x'; 100_000]));
    }
    let read = thread::spawn(move || rest_of(reader).len());
    assert!(sink.flush(LONG));
    wait_until("a small buffer", || sink.shared.lock().pending.capacity() <= KEPT_CAPACITY);
    drop(sink);
    assert_eq!(read.join().unwrap(), 1_000_000);
}

/// A sink whose writer does nothing.
fn unwritten(bound: usize) -> (LogSink, simulated::SimulatedWriter) {
    simulated::sink(LogOutput::Stdout, settings(), bound, 0)
}

#[test]
fn children_have_room_in_three_quarters_of_the_bound() {
    let (sink, _writer) = unwritten(1000);
    sink.append(|out| out.resize(749, b'x'));
    assert!(sink.has_room());
    sink.append(|out| out.push(b'\n'));
    assert!(!sink.has_room());
}

#[test]
fn a_failed_write_is_repeated_after_its_delay_or_for_a_flush() {
    let (sink, _writer) = unwritten(1000);
    sink.shared.set_broken(true);
    let retry = |delay| {
        let shared = Arc::clone(&sink.shared);
        thread::spawn(move || {
            let begin = Instant::now();
            (shared.wait_to_retry(delay, &mut VecDeque::new()), begin.elapsed())
        })
    };
    let delay = Duration::from_millis(50);
    let waiting = retry(delay);
    wait_until("the end of the delay", || waiting.is_finished());
    let (next, waited) = waiting.join().unwrap();
    assert!(next == AfterFailure::Retry && waited >= delay, "{next:?} {waited:?}");

    let waiting = retry(10 * LONG);
    wait_until("an end before the delay", || {
        assert!(!sink.flush(LONG));
        waiting.is_finished()
    });
    assert_eq!(waiting.join().unwrap().0, AfterFailure::Retry);
}

/// A sink whose writer blocks with a record that it has taken, so that what follows stays queued.
fn blocked(bound: usize) -> (File, LogSink) {
    let (reader, writer) = small_pipe();
    let sink = sink_to(writer, bound);
    sink.push(&[b'x'; 8192]);
    wait_until("the writer has taken it", || sink.shared.lock().pending.is_empty());
    (reader, sink)
}

#[test]
fn a_sink_is_flooded_beyond_its_bound_and_margin_only() {
    let (_reader, sink) = blocked(1000);
    assert!(!sink.is_flooded() && sink.has_room());
    let most = 1000 + sink.shared.margin;
    sink.append(|out| out.resize(most - 1, b'x'));
    assert!(!sink.is_flooded() && !sink.has_room());
    assert_eq!((sink.usage().stalls, sink.usage().is_stalled), (1, true));
    sink.append(|out| out.push(b'\n'));
    assert!(sink.is_flooded());
    assert_eq!(sink.usage().stalls, 1, "it is full as before");
}

#[test]
fn our_own_records_may_use_a_quarter_of_the_bound() {
    let (_reader, sink) = blocked(4000);
    sink.push(&[b'a'; 600]);
    sink.push(&[b'b'; 400]);
    sink.push(&[b'c'; 1]);
    let (own, lost) = {
        let queue = sink.shared.lock();
        (queue.pending.len(), queue.lost)
    };
    assert_eq!((own, lost), (1000, 1));
}
