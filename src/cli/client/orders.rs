//! `start`, `stop` and `restart`: gives the orders, waits until each is carried out, and says how it went.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::changes::{Changes, Exit, Woken};
use super::{CommandError, ask, job_order, list, output, printable, status, table};
use crate::explain::words::ending;
use crate::messages::control::JobOrder;

/// The first pause before the status is looked at again without an event; the pauses double.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How far an order is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    /// It is being carried out; what the job does now.
    Pending(String),
    /// It is done.
    Done(String),
    /// It went wrong.
    Failed(String),
}

/// Gives the order to every job, and waits for at most that long.
pub async fn run(
    socket: &Path,
    names: &[String],
    order: JobOrder,
    wait: Option<Duration>,
) -> Result<(), CommandError> {
    let before = jobs(&status(socket).await?);
    // Before the orders, so that nothing is missed.
    let mut changes = Changes::follow(socket).await?;
    let mut failures = Vec::new();
    let mut pending: Vec<String> = Vec::new();
    for name in names {
        match ask(socket, &job_order(name, order)).await {
            Ok(_) => pending.extend(members(name, &before)),
            Err(error) => failures.push(error.to_string()),
        }
    }
    if let Some(wait) = wait {
        failures.extend(settle(socket, &mut changes, &before, pending, order, Instant::now() + wait).await?);
    }
    match failures.as_slice() {
        [] => Ok(()),
        failures => Err(CommandError::new(failures.join("\ncontainerpilot: "))),
    }
}

/// The jobs that an order to this name is for: one, or the members of a group.
fn members(name: &str, before: &BTreeMap<String, Value>) -> Vec<String> {
    let Some(group) = name.strip_prefix("group.").filter(|_| !before.contains_key(name)) else {
        return vec![name.to_owned()];
    };
    before.iter().filter(|(_, job)| job["group"] == group).map(|(name, _)| name.clone()).collect()
}

/// Waits until every order is carried out, and prints how it went; the failures.
async fn settle(
    socket: &Path,
    changes: &mut Changes,
    before: &BTreeMap<String, Value>,
    mut pending: Vec<String>,
    order: JobOrder,
    deadline: Instant,
) -> Result<Vec<String>, CommandError> {
    let (mut failures, mut pause) = (Vec::new(), FIRST_PAUSE);
    // One listener for the whole wait, so that no signal falls between two.
    let mut interrupts = signal(SignalKind::interrupt())?;
    loop {
        let now = match changes.status(socket).await {
            Ok(status) => jobs(&status),
            Err(error) => return Ok(told_by_events(failures, &pending, order, before, changes, &error)?),
        };
        let mut open = Vec::new();
        for name in pending {
            match progress(order, before.get(&name), now.get(&name)) {
                Progress::Done(words) => output::print(&format!("{}: {words}\n", printable(&name)))?,
                Progress::Failed(words) => failures.push(format!("{}: {words}", printable(&name))),
                Progress::Pending(words) => open.push((name, words)),
            }
        }
        if open.is_empty() {
            return Ok(failures);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let woken = tokio::select! {
            woken = changes.next(pause.min(left)) => woken,
            _ = interrupts.recv() => return Ok(unfinished(failures, open, order, "interrupted")),
        };
        match woken {
            Woken::Ended => {
                let pending: Vec<String> = open.into_iter().map(|(name, _)| name).collect();
                let ended = Changes::ended();
                return Ok(told_by_events(failures, &pending, order, before, changes, &ended)?);
            }
            Woken::Elapsed if left.is_zero() => {
                return Ok(unfinished(failures, open, order, "the time to wait is over"));
            }
            Woken::Elapsed => pause = (pause * 2).min(LONGEST_PAUSE),
            Woken::News => pause = FIRST_PAUSE,
        }
        pending = open.into_iter().map(|(name, _)| name).collect();
    }
}

/// The failures when the program can no longer be asked for its status: what a job was started for may have ended it, and
/// its last events tell how that went.
fn told_by_events(
    mut failures: Vec<String>,
    pending: &[String],
    order: JobOrder,
    before: &BTreeMap<String, Value>,
    changes: &Changes,
    error: &CommandError,
) -> io::Result<Vec<String>> {
    let mut is_unknown = false;
    for name in pending {
        let progress = changes.exit(name).map(|exit| ended(order, before.get(name), &exit));
        match progress {
            Some(Progress::Done(words)) => output::print(&format!("{}: {words}\n", printable(name)))?,
            Some(Progress::Failed(words)) => failures.push(format!("{}: {words}", printable(name))),
            Some(Progress::Pending(_)) | None => is_unknown = true,
        }
    }
    failures.extend(is_unknown.then(|| error.to_string()));
    Ok(failures)
}

/// How far an order was when this exit, the last one of its job, came.
fn ended(order: JobOrder, before: Option<&Value>, exit: &Exit) -> Progress {
    let words = printable(&ending(&exit.reason));
    let is_of_run_before = exit.pid.is_some() && exit.pid == before.and_then(|job| job["pid"].as_i64());
    match (order, exit.is_success) {
        (JobOrder::Stop, _) => Progress::Done(format!("stopped; its last run {words}")),
        (JobOrder::Start | JobOrder::Restart, _) if is_of_run_before => Progress::Pending(words),
        (JobOrder::Start | JobOrder::Restart, true) => Progress::Done(format!("{order}ed, and {words}")),
        (JobOrder::Start | JobOrder::Restart, false) => Progress::Failed(format!("{order}ed, but {words}")),
        (JobOrder::Signal(_), _) => Progress::Done("was signalled".to_owned()),
    }
}

/// The failures, and what is not done when nobody waits any more.
fn unfinished(
    mut failures: Vec<String>,
    open: Vec<(String, String)>,
    order: JobOrder,
    why: &str,
) -> Vec<String> {
    failures.extend(
        open.into_iter()
            .map(|(name, words)| format!("{why}; the {order} of {} goes on: it {words}", printable(&name))),
    );
    failures
}

fn jobs(status: &Value) -> BTreeMap<String, Value> {
    let jobs = list(status, "jobs").iter();
    jobs.filter_map(|job| Some((job["name"].as_str()?.to_owned(), job.clone()))).collect()
}

/// How far an order to a job is, whose status was and is this.
fn progress(order: JobOrder, before: Option<&Value>, now: Option<&Value>) -> Progress {
    let Some(now) = now else { return Progress::Done("is not configured any more".to_owned()) };
    let is_past = |key: &str| before.is_none_or(|before| before[key] != now[key]);
    // Another order was given after this one, and this one's end was too short to be seen.
    if let Some(progress) = overtaken(order, now, is_past("runs"), is_past("since")) {
        return progress;
    }
    match order {
        JobOrder::Stop => stopping(now),
        JobOrder::Start => starting("started", now, is_past("runs"), true),
        JobOrder::Restart => starting("restarted", now, is_past("runs"), is_past("since")),
        JobOrder::Signal(_) => Progress::Done("was signalled".to_owned()),
    }
}

/// How an order ended that another one has overtaken; `None` if none has.
fn overtaken(order: JobOrder, now: &Value, has_run: bool, has_moved: bool) -> Option<Progress> {
    match (order, now["state"].as_str().unwrap_or_default()) {
        (JobOrder::Stop, "starting" | "running") if has_moved => {
            Some(Progress::Done("stopped, and started again since".to_owned()))
        }
        (JobOrder::Stop, "waiting" | "delayed") if has_run => {
            Some(Progress::Done("stopped, and started again since".to_owned()))
        }
        (JobOrder::Start | JobOrder::Restart, "halted") if has_moved && !has_run => {
            Some(Progress::Failed("was stopped by hand meanwhile".to_owned()))
        }
        (JobOrder::Stop | JobOrder::Start | JobOrder::Restart | JobOrder::Signal(_), _) => None,
    }
}

fn stopping(now: &Value) -> Progress {
    match now["state"].as_str().unwrap_or_default() {
        "halted" | "complete" => Progress::Done(match last_exit(now) {
            Some((_, words)) => format!("stopped; its last run {words}"),
            None => "stopped".to_owned(),
        }),
        _ => Progress::Pending(doing(now)),
    }
}

/// A start, whether by itself or after a stop.
fn starting(done: &str, now: &Value, has_run: bool, has_moved: bool) -> Progress {
    match (now["state"].as_str().unwrap_or_default(), has_run) {
        ("running", _) if has_moved && now["health"] == "unhealthy" => {
            let why = now["reason"].as_str().map(|reason| format!(": {}", printable(reason)));
            Progress::Failed(format!("{done}, but is unhealthy{}", why.unwrap_or_default()))
        }
        ("running", _) if has_moved => Progress::Done(match now["pid"].as_i64() {
            Some(pid) => format!("{done}, runs as process {pid}"),
            None => done.to_owned(),
        }),
        // It was started and does not run any more.
        ("waiting" | "delayed" | "halted" | "complete", true) => match last_exit(now) {
            Some((true, words)) => Progress::Done(format!("{done}, and {words}")),
            Some((_, words)) => {
                let next = now["reason"].as_str().map(|reason| format!("; {}", printable(reason)));
                Progress::Failed(format!("{done}, but {words}{}", next.unwrap_or_default()))
            }
            None => Progress::Pending(doing(now)),
        },
        (_, _) => Progress::Pending(doing(now)),
    }
}

/// What a job does now, after "it".
fn doing(now: &Value) -> String {
    let state = format!("is {}", table::word(&now["state"]));
    match now["reason"].as_str() {
        Some(reason) => format!("{state} ({})", printable(reason)),
        None => state,
    }
}

/// How its last run ended: whether it was a success, and in words.
fn last_exit(now: &Value) -> Option<(bool, String)> {
    let exit = now.get("lastExit").filter(|exit| !exit.is_null())?;
    Some((
        exit["success"].as_bool().unwrap_or(exit["status"] == 0),
        printable(&ending(exit["reason"].as_str().unwrap_or("ended"))),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(state: &str, runs: u64, status: Option<u64>) -> Value {
        let exit = status
            .map(|status| json!({ "status": status, "reason": format!("exited with status {status}") }));
        json!({ "name": "app", "state": state, "runs": runs, "since": format!("{state}{runs}"), "pid": 7,
                "lastExit": exit, "reason": null })
    }

    fn told(order: JobOrder, before: &Value, now: &Value) -> String {
        match progress(order, Some(before), Some(now)) {
            Progress::Pending(words) => format!("… {words}"),
            Progress::Done(words) => words,
            Progress::Failed(words) => format!("! {words}"),
        }
    }

    #[test]
    fn a_stop_is_done_when_the_job_is_halted_or_over() {
        let before = job("running", 1, None);
        for (now, expected) in [
            (job("halted", 1, Some(0)), "stopped; its last run exited with status 0"),
            (job("complete", 1, None), "stopped"),
            (job("terminating", 1, None), "… is terminating"),
            (job("running", 1, None), "… is running"),
        ] {
            assert_eq!(told(JobOrder::Stop, &before, &now), expected);
        }
        assert_eq!(
            progress(JobOrder::Stop, Some(&before), None),
            Progress::Done("is not configured any more".to_owned())
        );
    }

    #[test]
    fn an_order_that_another_one_overtakes_ends_at_once() {
        let before = job("running", 1, None);
        for (order, now, expected) in [
            (JobOrder::Stop, job("running", 2, Some(0)), "stopped, and started again since"),
            (JobOrder::Stop, job("starting", 2, Some(0)), "stopped, and started again since"),
            (JobOrder::Stop, job("delayed", 2, Some(1)), "stopped, and started again since"),
            (JobOrder::Stop, job("terminating", 2, None), "… is terminating"),
            (JobOrder::Restart, job("halted", 1, Some(0)), "! was stopped by hand meanwhile"),
            (JobOrder::Restart, job("halted", 2, Some(0)), "restarted, and exited with status 0"),
        ] {
            assert_eq!(told(order, &before, &now), expected, "{order} {now}");
        }
        let halted = job("halted", 1, Some(0));
        assert_eq!(told(JobOrder::Restart, &halted, &halted), "… is halted", "it is about to be started");
    }

    #[test]
    fn a_run_is_a_success_if_its_job_says_so() {
        let before = job("halted", 1, Some(0));
        let exit = |status: u8, success: bool| {
            let mut now = job("complete", 2, Some(0));
            now["lastExit"] = json!({ "status": status, "success": success, "reason": "exited" });
            told(JobOrder::Start, &before, &now)
        };
        assert_eq!(exit(3, true), "started, and exited");
        assert_eq!(exit(0, false), "! started, but exited");
    }

    #[test]
    fn a_start_is_done_when_the_job_runs_or_has_run() {
        let before = job("halted", 1, Some(0));
        for (now, expected) in [
            (job("running", 2, None), "started, runs as process 7"),
            (job("starting", 2, None), "… is starting"),
            (job("halted", 1, Some(0)), "… is halted"),
            (job("complete", 2, Some(0)), "started, and exited with status 0"),
            (job("delayed", 2, Some(3)), "! started, but exited with status 3"),
        ] {
            assert_eq!(told(JobOrder::Start, &before, &now), expected);
        }
    }

    #[test]
    fn a_start_whose_checks_have_failed_has_failed() {
        let before = job("halted", 1, Some(0));
        let mut now = job("running", 2, None);
        now["health"] = json!("unhealthy");
        now["reason"] = json!("http: refused");
        assert_eq!(told(JobOrder::Start, &before, &now), "! started, but is unhealthy: http: refused");
    }

    #[test]
    fn a_restart_is_done_only_by_the_next_run() {
        let before = job("running", 1, None);
        assert_eq!(told(JobOrder::Restart, &before, &before), "… is running", "that is the old one");
        assert_eq!(
            told(JobOrder::Restart, &before, &job("running", 2, None)),
            "restarted, runs as process 7"
        );
        let waits = json!({ "state": "draining", "reason": "it is restarted by hand", "runs": 1 });
        assert_eq!(told(JobOrder::Restart, &before, &waits), "… is draining (it is restarted by hand)");
    }

    #[test]
    fn the_exit_of_the_run_that_was_ordered_decides_when_the_program_has_ended() {
        let before = json!({ "pid": 7 });
        let told = |order, pid, is_success| {
            let exit = Exit { is_success, reason: "exited with status 3".to_owned(), pid: Some(pid) };
            ended(order, Some(&before), &exit)
        };
        let started = "started, and exited with status 3".to_owned();
        assert_eq!(told(JobOrder::Start, 8, true), Progress::Done(started));
        let restarted = "restarted, but exited with status 3".to_owned();
        assert_eq!(told(JobOrder::Restart, 8, false), Progress::Failed(restarted));
        assert!(matches!(told(JobOrder::Restart, 7, true), Progress::Pending(_)), "it is the run before");
        let stopped = "stopped; its last run exited with status 3".to_owned();
        assert_eq!(told(JobOrder::Stop, 7, false), Progress::Done(stopped));
    }

    #[test]
    fn an_order_to_a_group_is_one_to_its_members() {
        let job = |group: &str| json!({ "group": group });
        let before =
            BTreeMap::from([("a".into(), job("web")), ("b".into(), job("db")), ("c".into(), job("web"))]);
        assert_eq!(members("group.web", &before), ["a", "c"]);
        assert_eq!(members("b", &before), ["b"]);
    }

    #[test]
    fn what_is_not_done_goes_on() {
        let open = vec![("app".to_owned(), "is terminating".to_owned())];
        let failures = unfinished(vec![], open, JobOrder::Stop, "interrupted");
        assert_eq!(failures, ["interrupted; the stop of app goes on: it is terminating"]);
    }
}
