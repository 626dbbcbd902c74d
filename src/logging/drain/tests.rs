//! Our own records, from slog's macros to bytes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use slog::{crit, debug, error, info, o, trace, warn};

use crate::config::spec::{LogFormat, LogLevel, LogOutput, LoggingSpec};
use crate::logging::Log;

const LONG: Duration = Duration::from_secs(20);

fn spec(path: &Path, level: LogLevel, format: LogFormat) -> LoggingSpec {
    LoggingSpec { level, format, output: LogOutput::File(path.to_owned()), ..LoggingSpec::default() }
}

/// The records that `record` writes into a log, without their times.
fn logged(level: LogLevel, format: LogFormat, record: impl FnOnce(&Log)) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = Log::open(&spec(&path, level, format)).unwrap();
    record(&log);
    assert!(log.flush(LONG));
    let own_pid = format!(" {} ", std::process::id());
    let text = fs::read_to_string(path).unwrap().replace(&own_pid, " OWN ");
    let without_time = |line: &str| match format {
        LogFormat::Default => line.split_once(' ').unwrap().1.to_owned(),
        LogFormat::Text => line.split_once(' ').unwrap().1.to_owned(),
        LogFormat::Json => line.to_owned(),
    };
    text.lines().map(without_time).collect()
}

fn default(record: impl FnOnce(&Log)) -> Vec<String> {
    logged(LogLevel::Debug, LogFormat::Default, record)
}

#[test]
fn own_records_name_us_and_our_process() {
    assert_eq!(
        default(|log| info!(log.logger(), "control socket {}", "ready")),
        ["containerpilot OWN control socket ready"]
    );
}

#[test]
fn job_and_pid_keys_say_who_a_record_is_about() {
    let lines = default(|log| {
        let job = log.logger().new(o!("job" => "app"));
        info!(job, "started"; "pid" => 7);
        info!(job, "exited"; "pid" => 7, "job" => "other");
    });
    assert_eq!(lines, ["app 7 started", "other 7 exited"]);
}

#[test]
fn other_keys_are_appended_in_the_order_of_their_names() {
    let record = |log: &Log| {
        let logger = log.logger().new(o!("zone" => "b", "code" => 1, "job" => "app", "pid" => 7));
        let none = Option::<u32>::None;
        info!(logger, "over"; "restarts" => 3, "code" => "last wins", "ok" => true, "none" => none,
            "ratio" => 0.5, "unit" => ());
    };
    assert_eq!(
        logged(LogLevel::Info, LogFormat::Default, record),
        ["app 7 over code=\"last wins\" none=null ok=true ratio=0.5 restarts=3 unit=null zone=b"]
    );
    assert_eq!(
        logged(LogLevel::Info, LogFormat::Text, record),
        [
            "level=info msg=over job=app pid=7 code=\"last wins\" none=null ok=true ratio=0.5 restarts=3 unit=null \
             zone=b"
        ]
    );
    let json = logged(LogLevel::Info, LogFormat::Json, record);
    assert!(
        json[0].starts_with(
            "{\"code\":\"last wins\",\"job\":\"app\",\"level\":\"info\",\"msg\":\"over\",\"none\":null,\
             \"ok\":true,\"pid\":7,\"ratio\":0.5,\"restarts\":3,\"time\":\"20"
        ),
        "{json:?}"
    );
}

#[test]
fn json_stays_valid_with_numbers_that_json_does_not_have() {
    let lines = logged(LogLevel::Info, LogFormat::Json, |log| {
        info!(log.logger(), "x"; "a" => f64::NAN, "b" => f32::INFINITY, "c" => -0.25f32, "d" => u128::MAX);
    });
    let json: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&json["a"], &json["b"], &json["c"]), (&"NaN".into(), &"inf".into(), &(-0.25).into()));
}

#[test]
fn only_records_of_the_level_and_above_are_written() {
    let all = |log: &Log| {
        trace!(log.logger(), "trace");
        debug!(log.logger(), "debug");
        info!(log.logger(), "info");
        warn!(log.logger(), "warn");
        error!(log.logger(), "error");
        crit!(log.logger(), "crit");
    };
    let levels = |level| {
        let lines = logged(level, LogFormat::Text, all);
        lines.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let names = ["level=debug", "level=debug", "level=info", "level=warning", "level=error", "level=fatal"];
    assert_eq!(levels(LogLevel::Debug), names);
    assert_eq!(levels(LogLevel::Info), names[2..]);
    assert_eq!(levels(LogLevel::Warn), names[3..]);
    assert_eq!(levels(LogLevel::Error), names[4..]);
    assert_eq!(levels(LogLevel::Fatal), names[5..]);
    assert_eq!(levels(LogLevel::Panic), names[5..]);
}

#[test]
fn repeated_records_are_summed_up() {
    let lines = default(|log| {
        for pid in 0..1000 {
            warn!(log.logger(), "cannot start"; "job" => "app", "pid" => pid);
        }
    });
    assert!(lines.len() < 50, "{}", lines.len());
    let single = lines.iter().filter(|line| line.ends_with(" cannot start")).count();
    let summed: usize = lines
        .iter()
        .filter_map(|line| line.split_once("cannot start (repeated ")?.1.strip_suffix(" times)"))
        .map(|count| count.parse::<usize>().unwrap())
        .sum();
    assert_eq!(single + summed, 1000);
    assert!(lines.iter().all(|line| line.starts_with("app ")));
}

#[test]
fn records_that_differ_in_a_value_are_not_repetitions() {
    let lines = default(|log| {
        for sequence in 0..20 {
            debug!(log.logger(), "event"; "sequence" => sequence);
        }
    });
    assert_eq!(lines.len(), 20);
}

#[test]
fn a_value_that_logs_while_it_is_rendered_does_no_harm() {
    struct Talkative<'a>(&'a slog::Logger);
    impl std::fmt::Display for Talkative<'_> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            info!(self.0, "inner");
            f.write_str("value")
        }
    }
    let lines = default(|log| info!(log.logger(), "outer {}", Talkative(log.logger())));
    assert_eq!(lines, ["containerpilot OWN inner", "containerpilot OWN outer value"]);
}

#[test]
fn a_reload_changes_level_format_and_output() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let log = Log::open(&spec(&first, LogLevel::Info, LogFormat::Default)).unwrap();
    debug!(log.logger(), "hidden");
    info!(log.logger(), "shown"; "job" => "app", "pid" => 7);
    log.adopt(log.prepare(&spec(&second, LogLevel::Debug, LogFormat::Text)).unwrap());
    debug!(log.logger(), "shown"; "job" => "app", "pid" => 7);
    let bad = spec(&folder.path().join("missing/log"), LogLevel::Error, LogFormat::Json);
    assert!(log.prepare(&bad).unwrap_err().to_string().contains("missing/log"));
    debug!(log.logger(), "unchanged"; "job" => "app", "pid" => 7);
    assert!(log.flush(LONG));
    assert!(fs::read_to_string(first).unwrap().ends_with("Z app 7 shown\n"));
    let text = fs::read_to_string(second).unwrap();
    let lines: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(lines, ["level=debug msg=shown job=app pid=7", "level=debug msg=unchanged job=app pid=7"]);
}

#[test]
fn a_rotated_log_file_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let [path, rotated] = ["log", "log.1"].map(|name| folder.path().join(name));
    let log = Log::open(&spec(&path, LogLevel::Info, LogFormat::Default)).unwrap();
    info!(log.logger(), "before");
    fs::rename(&path, &rotated).unwrap();
    log.reopen();
    info!(log.logger(), "after");
    assert!(log.flush(LONG));
    assert!(fs::read_to_string(rotated).unwrap().ends_with(" before\n"));
    assert!(fs::read_to_string(path).unwrap().ends_with(" after\n"));
}
