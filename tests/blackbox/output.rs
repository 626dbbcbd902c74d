//! What jobs write becomes the log: one record for each line, whole, in order, before the end of its process is
//! told; and a log that nobody takes slows the jobs, never the program.

use std::cell::Cell;
use std::fs;
use std::io::{PipeReader, Read};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::bare::{Bare, open_gate, pipe, seen_by};
use crate::support::needs::can_be_pid_one;
use crate::support::{Exit, Pilot, children, open_files, resident_kib, state};
use nix::sys::signal::Signal;
use serde_json::Value;

const FORMATS: [&str; 3] = ["default", "text", "json"];

/// A job that proves every 20 ms that timers and starts of processes still work.
const MARKS: &str = r#"{ name: "marks", exec: ["sh", "-c", "echo >> {dir}/marks"], when: { interval: "20ms" }, timeout: "10s" }"#;
/// The same, and independent of a log that is so full that nobody who may write is started.
const RAW_MARKS: &str = r#"{
    name: "marks", exec: ["sh", "-c", "echo >> {dir}/marks"], when: { interval: "20ms" }, timeout: "10s",
    logging: { raw: true },
}"#;

/// What a record says, whatever its format.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    job: String,
    pid: u32,
    message: Vec<u8>,
}

/// The lines that jobs wrote, from the log of a run.
fn lines(log: &[u8], format: &str) -> Vec<Line> {
    let log = log.strip_suffix(b"\n").unwrap_or(log);
    let all = log.split(|byte| *byte == b'\n').map(|record| line(record, format));
    all.filter(|line| line.job != "containerpilot" && !tells_of_process(&line.message)).collect()
}

/// Whether it is our own record of a start or an end.
fn tells_of_process(message: &[u8]) -> bool {
    message.starts_with(b"started") || message.starts_with(b"exited with status ")
}

fn line(record: &[u8], format: &str) -> Line {
    match format {
        "default" => {
            let mut parts = record.splitn(4, |byte| *byte == b' ').skip(1);
            let mut next = || parts.next().unwrap_or_else(|| panic!("not a record: {record:?}")).to_owned();
            Line { job: text(next()), pid: number(&text(next())), message: next() }
        }
        "text" => {
            let record = text(record.to_owned());
            let (rest, pid) = record.rsplit_once(" pid=").unwrap();
            let (rest, job) = rest.rsplit_once(" job=").unwrap();
            let message = rest.split_once(" msg=").map(|(_, message)| message).unwrap_or_default();
            Line { job: job.to_owned(), pid: number(pid), message: unquoted(message) }
        }
        "json" => {
            let record: Value = serde_json::from_slice(record).unwrap();
            Line {
                job: record["job"].as_str().unwrap().to_owned(),
                pid: number(&record["pid"].to_string()),
                message: record["msg"].as_str().unwrap().into(),
            }
        }
        _ => unreachable!(),
    }
}

/// The value of a logfmt field, as Go would read it back.
fn unquoted(value: &str) -> Vec<u8> {
    let Some(value) = value.strip_prefix('"') else { return value.into() };
    let mut characters = value.strip_suffix('"').unwrap().chars();
    let mut bytes = Vec::new();
    while let Some(character) = characters.next() {
        match (character, if character == '\\' { characters.next() } else { None }) {
            ('\\', Some('x')) => {
                let digits: String = characters.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap());
            }
            ('\\', Some('r')) => bytes.push(b'\r'),
            ('\\', Some('t')) => bytes.push(b'\t'),
            ('\\', Some(other)) => bytes.extend(other.to_string().bytes()),
            (other, _) => bytes.extend(other.to_string().bytes()),
        }
    }
    bytes
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn number(digits: &str) -> u32 {
    digits.parse().unwrap()
}

/// What a script writes, as the log of a whole run has it.
fn logged(script: &str, format: &str) -> Vec<Line> {
    let script = serde_json::to_string(script).unwrap();
    let config = format!(
        r#"{{ logging: {{ format: "{format}" }}, jobs: [{{ name: "app", exec: ["sh", "-c", {script}] }}] }}"#
    );
    let mut bare = Bare::start(&config, |_| {});
    assert_eq!(bare.wait_exit(), Exit::Code(0), "{}", bare.text("out"));
    lines(&bare.bytes("out"), format)
}

/// The messages of what a script writes.
fn messages(script: &str, format: &str) -> Vec<Vec<u8>> {
    logged(script, format).into_iter().map(|line| line.message).collect()
}

#[test]
fn each_line_is_one_record_of_its_job_and_process_in_every_format() {
    for format in FORMATS {
        let mut seen = logged(r#"echo "  two  words  " >&2; printf '\n%s\n%s\n' 'a="b\c"' "z $$""#, format);
        let pid = seen[0].pid;
        assert!(seen.iter().all(|line| line.job == "app" && line.pid == pid), "{seen:?}");
        seen.sort_by(|one, other| one.message.cmp(&other.message)); // stdout and stderr are two pipes
        let messages: Vec<String> = seen.into_iter().map(|line| text(line.message)).collect();
        assert_eq!(messages, ["", "  two  words  ", r#"a="b\c""#, &format!("z {pid}")], "{format}");
    }
}

#[test]
fn a_last_line_without_a_newline_is_logged() {
    for format in FORMATS {
        assert_eq!(messages("printf 'whole\\nlast'", format), [b"whole".as_slice(), b"last"], "{format}");
    }
}

#[test]
fn a_carriage_return_before_the_newline_belongs_to_the_line_end() {
    for format in FORMATS {
        let seen = messages(r"printf 'one\r\ntwo\rhalf\r\n\r\n'", format);
        assert_eq!(seen, [b"one".as_slice(), b"two\rhalf", b""], "{format}");
    }
}

#[test]
fn bytes_that_are_no_text_make_whole_records_too() {
    let script = r"printf 'a\377\300b\nc\000d\n\033[31mred\n'; echo after";
    let raw = [b"a\xff\xc0b".as_slice(), b"c\0d", b"\x1b[31mred", b"after"];
    assert_eq!(messages(script, "default"), raw);
    assert_eq!(messages(script, "text"), raw);
    // JSON has no way to write a byte that is no character.
    let replaced = ["a\u{fffd}\u{fffd}b".as_bytes(), b"c\0d", b"\x1b[31mred", b"after"];
    assert_eq!(messages(script, "json"), replaced);
}

#[test]
fn a_line_of_200_kib_is_split_and_marked_and_the_job_lives_on() {
    let script = "head -c 204800 /dev/zero | tr '\\0' x; echo; echo after";
    for format in FORMATS {
        let mut pieces = messages(script, format);
        assert_eq!(pieces.pop().unwrap(), b"after", "{format}");
        let last = pieces.pop().unwrap();
        let mut whole = Vec::new();
        for piece in &pieces {
            let piece = piece.strip_suffix(b" [continued]").expect("a piece that is not the last is marked");
            assert_eq!(piece.len(), 64 * 1024, "{format}");
            whole.extend_from_slice(piece);
        }
        whole.extend_from_slice(&last);
        assert_eq!((pieces.len(), whole.len()), (3, 204_800), "{format}");
        assert!(whole.iter().all(|byte| *byte == b'x'), "{format}");
    }
}

#[test]
fn a_hundred_thousand_lines_are_complete_and_in_order() {
    for format in FORMATS {
        let seen = messages("seq 100000", format);
        let expected: Vec<Vec<u8>> = (1..=100_000).map(|number| number.to_string().into_bytes()).collect();
        assert!(seen == expected, "{format}: {} lines", seen.len());
    }
}

#[test]
fn two_jobs_that_write_at_once_never_meet_within_a_line() {
    let job = |name: &str| {
        let padding = name.repeat(150);
        format!(r#"{{ name: "{name}", exec: ["seq", "-f", "%g {padding}", "5000"] }}"#)
    };
    let mut bare = Bare::start(&format!("{{ jobs: [{}, {}] }}", job("x"), job("y")), |_| {});
    assert_eq!(bare.wait_exit(), Exit::Code(0));
    let seen = lines(&bare.bytes("out"), "default");
    for name in ["x", "y"] {
        let own: Vec<&Line> = seen.iter().filter(|line| line.job == name).collect();
        assert_eq!(own.len(), 5000);
        for (index, line) in own.iter().enumerate() {
            let expected = format!("{} {}", index + 1, name.repeat(150));
            assert_eq!(text(line.message.clone()), expected);
        }
    }
}

#[test]
fn all_output_of_a_process_is_logged_before_its_end_is_told() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [{
            name: "app",
            exec: ["sh", "-c", "seq 2000; echo on stderr >&2; printf last"],
            restarts: 9,
            backoff: { max: "0s" },
        }] }"#,
    );
    assert_eq!(exit, Exit::Code(0));
    // The next run may begin before the end of the last one is told; its lines come in addition.
    let (mut lines, mut ends) = (0, 0);
    for record in pilot.log().records() {
        if record.event() == Some("app exitSuccess") {
            ends += 1;
            assert!(lines >= 2002 * ends, "{lines} lines before end {ends}");
        } else if record.job == "app"
            && record.level == "info"
            && !tells_of_process(record.message.as_bytes())
        {
            lines += 1;
        }
    }
    assert_eq!((lines, ends), (20_020, 10));
}

#[test]
fn a_background_process_that_holds_the_pipe_does_not_delay_the_end_of_its_job() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "app", exec: ["sh", "-c", "mkfifo {dir}/left {dir}/gate; env -u CONTAINERPILOT_JOB setsid bash -c 'echo > {dir}/left; read _ < {dir}/gate; echo late' & read _ < {dir}/left"] },
            { name: "other", exec: "sleep 1000" },
        ] }"#,
    );
    pilot.wait_for_event("app stopped");
    assert_eq!(pilot.lines_of("app"), [""; 0]);
    // It still lives, since it hides whose it is, and is heard.
    pilot.eventually("the gate opens", || open_gate(&pilot.path("gate")).is_ok());
    pilot.wait_for_line("app", "late");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

/// A program whose stdout nobody reads, once the pipe and all buffers are full. Its job `flood` counts.
fn stalled(settings: &str) -> (Bare, PipeReader) {
    let (reader, writer) = pipe();
    let config = format!(
        r#"{{ {settings} jobs: [
            {MARKS},
            {{ name: "flood", exec: ["sh", "-c", "echo $$ > {{dir}}/pid; exec seq 1 200000"] }},
        ] }}"#
    );
    let bare = Bare::start(&config, |command| {
        command.stdout(writer);
    });
    wait_for_flood(&bare);
    (bare, reader)
}

/// Waits until the job `flood` stands still: it is about to write, and has written nothing since we last looked.
fn wait_for_flood(bare: &Bare) {
    let before = Cell::new(String::new());
    bare.eventually("the flood stands still", || {
        let of = |file| fs::read_to_string(format!("/proc/{}/{file}", bare.text("pid").trim()));
        let (written, place) = (of("io").unwrap_or_default(), of("wchan").unwrap_or_default());
        before.replace(written.clone()) == written && place.contains("pipe_write")
    });
}

/// Reads all that a program writes until it ends.
fn read_all(mut reader: PipeReader) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// What the flood counted; without the last number, which it may not have written to its end.
fn counted(log: &[u8]) -> Vec<u32> {
    let flood = lines(log, "default").into_iter().filter(|line| line.job == "flood");
    let mut all: Vec<u32> = flood.map(|line| number(&text(line.message))).collect();
    all.pop();
    all
}

fn assert_counts_from_one(counted: &[u32]) {
    assert!(
        counted.iter().copied().eq(1..=u32::try_from(counted.len()).unwrap()),
        "a gap in what was counted"
    );
}

#[test]
fn a_log_that_nobody_reads_slows_the_jobs_but_not_the_program_and_nothing_is_lost() {
    let (mut bare, reader) = stalled("");
    bare.wait_for_more_lines("marks", 20);
    let flood = bare.text("pid").trim().parse().unwrap();
    assert_eq!(state(flood), Some('S'), "the flood should wait");
    let log = read_all(reader);
    bare.eventually("the flood ends", || state(flood).is_none());
    assert_eq!(bare.stop(), Exit::Code(0));
    let counted = counted(&log.join().unwrap());
    assert_counts_from_one(&counted);
    assert_eq!(counted.len(), 199_999);
}

#[test]
fn a_log_that_nobody_reads_does_not_keep_the_program_from_ending() {
    let (mut bare, reader) = stalled(r#"stopTimeout: "20s","#);
    let began = Instant::now();
    assert_eq!(bare.stop(), Exit::Code(0));
    // The jobs end at once, and the last records get a second.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let mut log = read_all(reader).join().unwrap();
    log.truncate(log.iter().rposition(|byte| *byte == b'\n').unwrap());
    assert_counts_from_one(&counted(&log));
}

#[test]
fn what_waits_in_the_log_is_written_if_the_reader_comes_back_while_we_end() {
    let (mut bare, reader) = stalled("");
    bare.signal(Signal::SIGTERM);
    let log = read_all(reader);
    assert_eq!(bare.wait_exit(), Exit::Code(0));
    let log = log.join().unwrap();
    assert_counts_from_one(&counted(&log));
    assert!(String::from_utf8_lossy(&log).contains("shutdown took"));
}

#[test]
fn what_waits_in_the_log_is_written_if_the_machine_stood_still_while_we_end() {
    // On a busy machine, the program may end before it is stopped: then once more.
    let (mut bare, reader) = std::iter::repeat_with(|| stalled(""))
        .find(|(bare, _)| {
            bare.signal(Signal::SIGTERM);
            bare.eventually("only the log is left", || children(bare.pid()).is_empty());
            bare.signal(Signal::SIGSTOP);
            state(bare.pid()) == Some('T')
        })
        .unwrap();
    let log = read_all(reader);
    thread::sleep(Duration::from_millis(1500)); // longer than it waits for a reader
    bare.signal(Signal::SIGCONT);
    assert_eq!(bare.wait_exit(), Exit::Code(0));
    let log = log.join().unwrap();
    assert_counts_from_one(&counted(&log));
    assert!(String::from_utf8_lossy(&log).contains("shutdown took"));
}

#[test]
fn a_job_that_ends_again_and_again_does_not_fill_the_memory_while_nobody_reads() {
    let (reader, writer) = pipe();
    let config = format!(
        r#"{{ jobs: [
            {RAW_MARKS},
            {{ name: "loop", exec: ["seq", "10000"], restarts: "unlimited", backoff: {{ max: "0s" }} }},
        ] }}"#
    );
    let mut bare = Bare::start(&config, |command| {
        command.stdout(writer);
    });
    // The buffers fill up, and then no more.
    let is_full = (0..100).any(|_| {
        let before = resident_kib(bare.pid());
        bare.wait_for_more_lines("marks", 25);
        resident_kib(bare.pid()) < before + 256
    });
    assert!(is_full && resident_kib(bare.pid()) < 96 << 10, "{} KiB", resident_kib(bare.pid()));
    drop(reader);
    assert_eq!(bare.stop(), Exit::Code(0));
}

#[test]
fn processes_that_outlive_their_job_leave_no_pipe_open_while_nobody_reads() {
    let (reader, writer) = pipe();
    let config = r#"{ jobs: [
            { name: "loop", exec: ["perl", "-e", "if (!fork) { $SIG{TERM} = sub { select undef, undef, undef, 0.1; exit }; sleep 1000; exit } select undef, undef, undef, 0.05; open RUNS, '>>{dir}/runs'; print RUNS qq(run\\n)"], restarts: "unlimited", backoff: { max: "0s" } },
            { name: "flood", exec: ["sh", "-c", "echo $$ > {dir}/pid; exec yes"] },
        ] }"#;
    let mut bare = Bare::start(config, |command| {
        command.stdout(writer);
    });
    wait_for_flood(&bare);
    bare.wait_for_more_lines("runs", 2);
    let before = open_files(bare.pid());
    bare.wait_for_more_lines("runs", 15);
    let after = open_files(bare.pid());
    assert!(after < before + 10, "{before} descriptors, then {after}");
    drop(reader);
    assert_eq!(bare.stop(), Exit::Code(0));
}

/// Marks go on, a chatty job comes to its end, and so does the program.
fn assert_runs_without_a_log(mut bare: Bare) {
    bare.wait_for_more_lines("marks", 10);
    bare.eventually("the chatty job ends", || bare.path("done").exists());
    assert_eq!(bare.stop(), Exit::Code(0));
}

fn chatty(logging: &str) -> String {
    format!(
        r#"{{ {logging} jobs: [
            {MARKS},
            {{ name: "chatty", exec: ["sh", "-c", "seq 1 200000; touch {{dir}}/done"] }},
        ] }}"#
    )
}

#[test]
fn a_reader_that_goes_away_stops_nothing() {
    let (reader, writer) = pipe();
    drop(reader);
    assert_runs_without_a_log(Bare::start(&chatty(""), |command| {
        command.stdout(writer);
    }));
}

#[test]
fn a_stdout_that_is_closed_stops_nothing() {
    let words = ["sh", "-c", "exec {program} -config {config} >&- 2>&-"];
    assert_runs_without_a_log(Bare::start_in(&words, &chatty(""), |command| {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }));
}

#[test]
fn a_full_disk_stops_nothing_and_is_told_once() {
    let mut bare = Bare::start(&chatty(r#"logging: { output: "/dev/full" },"#), |_| {});
    bare.wait_for_more_lines("marks", 10);
    bare.eventually("the chatty job ends", || bare.path("done").exists());
    assert_eq!(bare.stop(), Exit::Code(0));
    assert_eq!(bare.count_lines("err"), 1, "{}", bare.text("err"));
    assert!(bare.text("err").contains("cannot write the log to \"/dev/full\": No space left"));
}

#[test]
fn a_disk_that_gets_space_again_gets_records_again_and_the_loss_is_told() {
    if !can_be_pid_one() {
        return;
    }
    let mount =
        "mkdir {dir}/disk && mount -t tmpfs -o size=4m none {dir}/disk && exec {program} -config {config}";
    let words = ["unshare", "--mount", "sh", "-c", mount];
    let mut bare = Bare::start_in(&words, &chatty(r#"logging: { output: "{dir}/disk/log" },"#), |_| {});
    let log = seen_by(bare.pid(), &bare.path("disk/log"));
    bare.eventually("the chatty job ends", || bare.path("done").exists());
    bare.wait_for_more_lines("marks", 10);
    fs::File::options().write(true).open(&log).unwrap().set_len(0).unwrap();
    bare.signal(Signal::SIGHUP); // something to say
    bare.eventually("the loss is told", || {
        fs::read_to_string(&log).unwrap_or_default().contains("works again after")
    });
    assert_eq!(bare.stop(), Exit::Code(0));
}

#[test]
fn a_log_that_is_rotated_while_its_disk_is_full_begins_with_a_whole_record() {
    if !can_be_pid_one() {
        return;
    }
    let mount =
        "mkdir {dir}/disk && mount -t tmpfs -o size=64k none {dir}/disk && exec {program} -config {config}";
    let words = ["unshare", "--mount", "sh", "-c", mount];
    let config = r#"{ logging: { output: "{dir}/disk/log" }, jobs: [
        { name: "app", exec: ["sh", "-c", "seq 2000; exec sleep 1000"] }] }"#;
    let mut bare = Bare::start_in(&words, config, |_| {});
    bare.eventually("the disk is full", || bare.text("err").contains("No space left on device"));
    let log = seen_by(bare.pid(), &bare.path("disk/log"));
    fs::remove_file(&log).unwrap();
    bare.signal(Signal::SIGUSR1);
    let text = || fs::read_to_string(&log).unwrap_or_default();
    bare.eventually("the rest is written", || text().contains(" 2000\n"));
    let text = text();
    let time = text.split(' ').next().unwrap();
    assert_eq!(time.len(), "2026-11-15T06:19:09.511350810Z".len(), "{}", &text[..100]);
    assert_eq!(bare.stop(), Exit::Code(0));
}

#[test]
fn raw_output_reaches_our_stdout_and_stderr_untouched() {
    let mut bare = Bare::start(
        r#"{ logging: { level: "ERROR" }, jobs: [{
            name: "app",
            exec: ["sh", "-c", "printf 'a\\r\\n\\001b'; printf problem >&2; readlink /proc/self/fd/0 > {dir}/stdin"],
            logging: { raw: true },
        }] }"#,
        |_| {},
    );
    assert_eq!(bare.wait_exit(), Exit::Code(0));
    assert_eq!(bare.bytes("out"), b"a\r\n\x01b");
    assert_eq!(bare.bytes("err"), b"problem");
    assert_eq!(bare.text("stdin"), "/dev/null\n");
}

#[test]
fn the_lines_of_jobs_are_informational() {
    // Beside them, its start and its end.
    for (level, expected) in [("INFO", 200_002), ("WARN", 0)] {
        let mut bare = Bare::start(
            &format!(
                r#"{{ logging: {{ level: "{level}" }}, jobs: [{{ name: "app", exec: "seq 200000" }}] }}"#
            ),
            |_| {},
        );
        assert_eq!(bare.wait_exit(), Exit::Code(0));
        assert_eq!(bare.count_lines("out"), expected, "{level}");
    }
}
