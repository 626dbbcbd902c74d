//! The status of the program as JSON. Pure: from the board to JSON values.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::readiness::reason_not_ready;
use crate::explain;
use crate::logging::TimeText;
use crate::messages::health::Verdict;
use crate::messages::job::Phase;
use crate::messages::status::{GroupStatus, JobStatus, Overview, WatchStatus};
use crate::offload::Pauses;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A time as text, in UTC.
pub fn time(time: SystemTime) -> String {
    String::from_utf8_lossy(TimeText::new(time).as_bytes()).into_owned()
}

/// The whole status, for the control socket, in JSON.
pub fn whole(overview: &Overview, uptime: Duration, now: SystemTime) -> String {
    let program = json!({
        "version": VERSION,
        "uptime": uptime.as_secs_f64(),
        "maintenance": overview.maintenance,
        "shuttingDown": overview.shutting_down,
        "groups": overview.groups.iter().map(group).collect::<Vec<_>>(),
        "consul": { "trouble": overview.discovery.trouble },
    });
    let jobs = overview.jobs_in_order().into_iter().map(|(name, status)| {
        let reason = explain::reason(overview, name, now);
        job(name, status, reason.as_deref())
    });
    let watches = overview.watches_in_order().into_iter().map(|(name, status)| watch(name, status));
    // One after the other becomes text: a thousand jobs as values need ten times the memory of their text.
    let mut text = program.to_string();
    text.pop();
    text.push_str(",\"jobs\":");
    push_list(&mut text, jobs);
    text.push_str(",\"watches\":");
    push_list(&mut text, watches);
    text.push_str("}\n");
    text
}

fn push_list(text: &mut String, values: impl Iterator<Item = Value>) {
    let mut pauses = Pauses::default();
    text.push('[');
    for (index, value) in values.enumerate() {
        let separator = if index == 0 { "" } else { "," };
        let _ = write!(text, "{separator}{value}");
        pauses.at(text.len());
    }
    text.push(']');
}

/// A job, with the reason why it is not ready or does not run.
pub fn job(name: &str, job: &JobStatus, reason: Option<&str>) -> Value {
    let check =
        |(name, verdict): &(Arc<str>, Verdict)| json!({ "name": &**name, "status": verdict_name(*verdict) });
    json!({
        "name": name,
        "state": job.state(),
        "since": time(job.since),
        "ready": job.ready,
        "statusText": job.status_text,
        "health": job.health.to_string(),
        "checks": job.checks.iter().map(check).collect::<Vec<_>>(),
        "pid": job.pid,
        "restarts": job.restarts,
        "runs": job.account.runs,
        "lastExit": job.last_exit.as_ref().map(|(status, words)| {
            json!({ "status": status, "success": job.succeeded, "reason": words })
        }),
        "advertised": job.advertised.as_ref().map(|(address, port)| json!({ "address": address, "port": port })),
        "group": job.group.as_deref(),
        "essential": job.essential,
        "required": job.required,
        "hasRun": job.has_run,
        "neverRan": job.never_ran,
        "nextRun": job.next_run.map(time),
        "nextTry": next_try(job).map(time),
        "reason": reason,
    })
}

/// When a job that does not run is started next.
fn next_try(job: &JobStatus) -> Option<SystemTime> {
    job.account.until.filter(|_| job.phase == Phase::Delayed).or(job.next_run)
}

fn group(group: &GroupStatus) -> Value {
    json!({
        "name": &*group.name,
        "jobs": group.jobs.iter().map(|job| &**job).collect::<Vec<_>>(),
        "ready": group.ready,
        "restarts": group.restarts,
        "gaveUp": group.has_given_up,
    })
}

pub fn watch(name: &str, watch: &WatchStatus) -> Value {
    let instance =
        |(id, address, port): &(String, String, u16)| json!({ "id": id, "address": address, "port": port });
    json!({
        "name": name,
        "known": watch.known,
        "instances": watch.instances.iter().map(instance).collect::<Vec<_>>(),
    })
}

/// A verdict as users see it.
pub fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unknown => "unknown",
        Verdict::Passing => "passing",
        Verdict::Failing => "failing",
    }
}

/// The status in the form of ContainerPilot: jobs with a port are services, our own service is the last of them and always
/// healthy, and a job without checks is `unknown`.
pub fn in_containerpilots_form(overview: &Overview) -> Value {
    let (mut jobs, mut services) = (Vec::new(), Vec::new());
    for (name, job) in overview.jobs_in_order() {
        let status = job.health.to_string();
        if let Some((address, port)) = &job.advertised {
            let service = json!({ "Name": &**name, "Address": address, "Port": port, "Status": status });
            services.push(service);
        } else {
            jobs.push(json!({ "Name": &**name, "Status": status }));
        }
    }
    services.extend(overview.layout.telemetry.as_ref().map(
        |(address, port)| json!({ "Name": "containerpilot", "Address": address, "Port": port, "Status": "healthy" }),
    ));
    let watches: Vec<&str> = overview.watches_in_order().into_iter().map(|(name, _)| &**name).collect();
    json!({ "Version": VERSION, "Jobs": jobs, "Services": services, "Watches": watches })
}

/// The required jobs that are not ready, each with the reason. An orchestrator should send no traffic while there are any.
pub fn not_ready(overview: &Overview, now: SystemTime) -> Vec<Value> {
    let required = overview.jobs_in_order().into_iter().filter(|(_, job)| job.required);
    required.filter_map(|(name, job)| not_ready_entry(name, job, now)).collect()
}

/// A job with the reason why it is not ready; `None` if it is.
pub fn not_ready_entry(name: &str, job: &JobStatus, now: SystemTime) -> Option<Value> {
    let reason = reason_not_ready(job, now)?;
    let (state, health) = (job.state(), job.health.to_string());
    Some(json!({ "name": name, "state": state, "health": health, "reason": reason }))
}
