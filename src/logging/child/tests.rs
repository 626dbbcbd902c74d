//! Output of children; threads that write into pipes take their place.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use tempfile::TempDir;
use tokio::task::LocalSet;

use super::*;
use crate::config::spec::{LogFormat, LogLevel, LogOutput, LoggingSpec};
use crate::logging::output::Output;
use crate::logging::{OutputStream, Settings};

mod held;

const LONG: Duration = Duration::from_secs(30);

/// A log file and a pipe into it.
struct Story {
    _folder: TempDir,
    path: PathBuf,
    log: Log,
    stream: ChildStream,
    child: File,
}

/// The stream of a child with that pipe.
fn stream_from(pipe: OwnedFd, log: &Log) -> ChildStream {
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    ChildOutput::start(log, KeptOutput::default()).unwrap().add(pipe, label(), Keep::Default).unwrap()
}

/// A log to that descriptor with room for about `bound` bytes.
fn log_to(descriptor: impl Into<File>, bound: usize) -> Log {
    let output = Output::over(descriptor.into(), LogOutput::Stderr);
    let settings = Settings::new(LogLevel::Info, LogFormat::Default);
    Log::over(LogSink::start(output, settings, bound).unwrap())
}

fn label() -> Label {
    Label { job: Arc::from("app"), pid: 7, stream: OutputStream::Stdout }
}

impl Story {
    fn new(level: LogLevel) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let output = LogOutput::File(path.clone());
        let log = Log::open(&LoggingSpec { level, output, ..LoggingSpec::default() }).unwrap();
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let stream = stream_from(reader, &log);
        Self { _folder: folder, path, log, stream, child: writer.into() }
    }

    fn messages(&self) -> Vec<String> {
        assert!(self.log.flush(LONG));
        let text = fs::read_to_string(&self.path).unwrap();
        text.lines().map(|line| line.split_once(" app 7 ").unwrap().1.to_owned()).collect()
    }
}

async fn until(what: &str, mut fact: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !fact() {
        assert!(Instant::now() < deadline, "not seen in time: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Runs a test where `spawn_local` works.
async fn told<T>(story: impl Future<Output = T>) -> T {
    LocalSet::new().run_until(story).await
}

#[tokio::test(flavor = "current_thread")]
async fn lines_arrive_as_they_are_written_until_the_end() {
    told(async {
        let mut story = Story::new(LogLevel::Info);
        story.child.write_all(b"one\r\ntwo\nthr").unwrap();
        until("two lines", || story.messages() == ["one", "two"]).await;
        assert!(story.stream.is_open());
        story.child.write_all(b"ee\nlast").unwrap();
        story.child = File::open("/dev/null").unwrap();
        until("the end", || !story.stream.is_open()).await;
        assert_eq!(story.messages(), ["one", "two", "three", "last"]);
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_long_line_is_split_and_the_child_lives_on() {
    told(async {
        let mut story = Story::new(LogLevel::Info);
        let child = thread::spawn({
            let mut child = story.child.try_clone().unwrap();
            move || writeln!(child, "{}\nnext", "x".repeat(200 * 1024)).unwrap()
        });
        until("the next line", || story.messages().iter().any(|message| message == "next")).await;
        child.join().unwrap();
        let messages = story.messages();
        assert_eq!(messages.len(), 5);
        let line: String = messages[..4].iter().map(|piece| piece.trim_end_matches(" [continued]")).collect();
        assert_eq!(line, "x".repeat(200 * 1024));
        writeln!(story.child, "alive").unwrap();
        until("a later line", || story.messages().last().unwrap() == "alive").await;
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_drain_logs_all_that_was_written_before_anything_else_runs() {
    told(async {
        let mut story = Story::new(LogLevel::Info);
        let text: String = (0..6000).map(|number| format!("line {number}\n")).collect();
        assert!(text.len() < CHUNK);
        story.child.write_all(text.as_bytes()).unwrap();
        story.child.write_all(b"no newline").unwrap();
        drop(std::mem::replace(&mut story.child, File::open("/dev/null").unwrap()));
        story.stream.drain();
        let messages = story.messages();
        assert_eq!(messages.len(), 6001);
        assert!(messages.iter().zip(text.lines()).all(|(message, line)| message == line));
        assert_eq!(messages[6000], "no newline");
        story.stream.drain();
        assert!(!story.stream.is_open());
        assert_eq!(story.messages().len(), 6001, "a second drain adds nothing");
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_drain_leaves_the_pipe_to_the_processes_that_still_hold_it() {
    told(async {
        let mut story = Story::new(LogLevel::Info);
        let mut grandchild = story.child.try_clone().unwrap();
        story.child.write_all(b"whole\npartial").unwrap();
        story.stream.drain();
        assert_eq!(story.messages(), ["whole", "partial"]);
        assert!(story.stream.is_open());
        drop(std::mem::replace(&mut story.child, File::open("/dev/null").unwrap()));
        writeln!(grandchild, "later").unwrap();
        until("the grandchild's line", || story.messages() == ["whole", "partial", "later"]).await;
        drop(grandchild);
        until("the end", || !story.stream.is_open()).await;
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_drain_of_a_pipe_that_is_exactly_full_logs_the_last_line_too() {
    told(async {
        let mut story = Story::new(LogLevel::Info);
        let size = story.stream.stream.pipe_size();
        let text = [vec![b'x'; size - 5], b"\nlast".to_vec()].concat();
        story.child.write_all(&text).unwrap();
        story.stream.drain();
        assert_eq!(story.messages().last().unwrap(), "last");
        assert!(story.stream.is_open());
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_drain_ends_though_another_process_never_stops_writing() {
    told(async {
        let story = Story::new(LogLevel::Info);
        let over = Arc::new(AtomicBool::new(false));
        let grandchild = thread::spawn({
            let (mut child, over) = (story.child.try_clone().unwrap(), Arc::clone(&over));
            move || {
                while !over.load(Ordering::Relaxed) {
                    child.write_all(b"more\n").unwrap();
                }
            }
        });
        for _ in 0..20 {
            story.stream.drain();
        }
        over.store(true, Ordering::Relaxed);
        until("the writer's end", || grandchild.is_finished()).await;
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_dropped_stream_is_forwarded_to_its_end() {
    told(async {
        let Story { _folder, path, log, stream, mut child } = Story::new(LogLevel::Info);
        drop(stream);
        child.write_all(b"one\ntwo").unwrap();
        drop(child);
        let read = || {
            assert!(log.flush(LONG));
            fs::read_to_string(&path).unwrap()
        };
        until("both lines", || read().ends_with(" app 7 two\n")).await;
        assert!(read().contains(" app 7 one\n"));
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_slow_log_slows_the_child_and_loses_nothing() {
    const LINES: usize = 40_000;
    let log_lines = told(async {
        let (log_reader, log_writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let log = log_to(log_writer, 64 * 1024);
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let stream = stream_from(reader, &log);
        let written = Arc::new(AtomicUsize::new(0));
        let child = thread::spawn({
            let written = Arc::clone(&written);
            move || {
                let mut child = File::from(writer);
                for number in 0..LINES {
                    writeln!(child, "line {number} {}", "x".repeat(80)).unwrap();
                    written.store(number + 1, Ordering::Relaxed);
                }
            }
        });
        until("a full sink", || !log.sink().has_room()).await;
        // Two pipes, two buffers and a chunk hold far less than all lines: the child must be waiting.
        assert!(written.load(Ordering::Relaxed) < LINES / 2);
        assert!(stream.is_open());

        let log_lines = thread::spawn(move || {
            let lines = BufReader::new(File::from(log_reader)).lines();
            lines
                .map(|line| line.unwrap().split(' ').nth(4).unwrap().parse::<usize>().unwrap())
                .collect::<Vec<_>>()
        });
        until("the end", || !stream.is_open()).await;
        child.join().unwrap();
        assert!(log.flush(LONG));
        log_lines
    })
    .await;
    until("all lines", || log_lines.is_finished()).await;
    assert!(log_lines.join().unwrap().into_iter().eq(0..LINES), "all lines, in order");
}

#[tokio::test(flavor = "current_thread")]
async fn a_drain_does_not_wait_for_room() {
    let text = told(async {
        let (log_reader, log_writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let log = log_to(log_writer, 4096);
        while log.sink().has_room() {
            log.sink().append(|out| out.extend_from_slice(&[b'x'; 4096]));
        }
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let stream = stream_from(reader, &log);
        File::from(writer).write_all(b"last words").unwrap();
        stream.drain();
        let text = thread::spawn(move || io::read_to_string(File::from(log_reader)).unwrap());
        assert!(log.flush(LONG));
        until("the end", || !stream.is_open()).await;
        text
    })
    .await;
    until("the whole log", || text.is_finished()).await;
    assert!(text.join().unwrap().ends_with(" app 7 last words\n"));
}

#[tokio::test(flavor = "current_thread")]
async fn a_chatty_child_starves_nobody() {
    told(async {
        let mut story = Story::new(LogLevel::Info);
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let null = File::options().write(true).open("/dev/null").unwrap();
        let other_log = log_to(null, 1 << 20);
        let _chatty = stream_from(reader, &other_log);
        let over = Arc::new(AtomicBool::new(false));
        let flood = thread::spawn({
            let over = Arc::clone(&over);
            move || {
                let mut child = File::from(writer);
                while !over.load(Ordering::Relaxed) {
                    child.write_all(&[b'\n'; 4096]).unwrap();
                }
            }
        });
        for number in 0..20 {
            writeln!(story.child, "quiet {number}").unwrap();
            until("the quiet child's line", || story.messages().len() == number + 1).await;
        }
        over.store(true, Ordering::Relaxed);
        until("the flood's end", || flood.is_finished()).await;
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn above_the_level_of_children_their_output_is_read_and_not_logged() {
    told(async {
        let mut story = Story::new(LogLevel::Warn);
        let mut child = story.child.try_clone().unwrap();
        let writer = thread::spawn(move || child.write_all(&[b'\n'; 300_000]).unwrap());
        until("the child's end", || writer.is_finished()).await;
        story.child.write_all(b"partial").unwrap();
        story.stream.drain();
        assert!(story.messages().is_empty());
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_changed_format_holds_for_later_lines_of_a_running_child() {
    told(async {
        let mut story = Story::new(LogLevel::Info);
        writeln!(story.child, "one").unwrap();
        story.stream.drain();
        let output = LogOutput::File(story.path.clone());
        let spec = LoggingSpec { format: LogFormat::Text, output, ..LoggingSpec::default() };
        story.log.adopt(story.log.prepare(&spec).unwrap());
        writeln!(story.child, "two").unwrap();
        story.stream.drain();
        assert!(story.log.flush(LONG));
        let text = fs::read_to_string(&story.path).unwrap();
        assert!(
            text.contains(" app 7 one\n") && text.ends_with(" level=info msg=two job=app pid=7\n"),
            "{text}"
        );
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn streams_of_many_children_share_one_output_and_their_numbers_are_used_again() {
    told(async {
        let Story { _folder, path, log, stream, child } = Story::new(LogLevel::Info);
        drop((stream, child));
        let output = ChildOutput::start(&log, KeptOutput::default()).unwrap();
        for round in 0..3 {
            let mut children = Vec::new();
            for number in 0..50 {
                let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
                fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
                let label = Label {
                    job: Arc::from(format!("job{round}-{number}")),
                    pid: 7,
                    stream: OutputStream::Stdout,
                };
                children.push((output.add(reader, label, Keep::Nothing).unwrap(), File::from(writer)));
            }
            for (_, child) in &mut children {
                child.write_all(b"whole\npartial").unwrap();
            }
            let streams: Vec<ChildStream> = children.into_iter().map(|(stream, _)| stream).collect();
            until("all ends", || streams.iter().all(|stream| !stream.is_open())).await;
        }
        assert!(output.forwarder.streams.borrow().is_empty(), "nothing is left of them");
        assert!(log.flush(LONG));
        let text = fs::read_to_string(&path).unwrap();
        for round in 0..3 {
            for number in 0..50 {
                for message in ["whole", "partial"] {
                    let record = format!(" job{round}-{number} 7 {message}\n");
                    assert_eq!(text.matches(&record).count(), 1, "{record}");
                }
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_stream_is_read_four_times_in_a_turn_and_once_if_that_fills_the_log() {
    let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
    for (bound, expected) in [(8 * CHUNK, 4), (CHUNK, 1)] {
        told(async {
            let (log, _log_writer) = Log::simulated(bound, 0);
            let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
            fcntl(&writer, FcntlArg::F_SETPIPE_SZ(512 * 1024)).unwrap();
            let ChildStream { stream, forwarder } = stream_from(reader, &log);
            File::from(writer).write_all(&line.repeat(5 * CHUNK / line.len())).unwrap();
            forwarder.read_some(&stream);
            let left = unistd::read(&stream.pipe, &mut vec![0; 5 * CHUNK]).unwrap();
            assert_eq!(left, (5 - expected) * CHUNK);
        })
        .await;
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_watched_line_is_found_once_whether_it_is_logged_or_not() {
    for level in [LogLevel::Info, LogLevel::Warn] {
        told(async {
            let mut story = Story::new(level);
            let times = Rc::new(Cell::new(0));
            let counted = Rc::clone(&times);
            let found = Rc::new(move || counted.set(counted.get() + 1));
            story.stream.watch(LineWatch::new("^ready$", found).unwrap());
            for (text, expected) in [("not ready\n", 0), ("ready\n", 1), ("ready\n", 1)] {
                story.child.write_all(text.as_bytes()).unwrap();
                story.stream.drain();
                assert_eq!(times.get(), expected, "{text} {level:?}");
            }
        })
        .await;
    }
}
