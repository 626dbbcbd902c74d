//! `/v3/report`: what a bug report needs and no other endpoint tells: the configuration without secrets, limits, metrics.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use actix_web::HttpResponse;
use actix_web::http::{StatusCode, header};
use actix_web::web::Data;
use serde::Serialize;

use super::AppState;
use super::inquiry::Inquire;
use super::reply::{Failure, Reply, elsewhere, long};
use super::status::VERSION;
use super::telemetry::exposition;
use crate::config::spec::Spec;
use crate::masking::masked;
use crate::metrics::exposition::Format;
use crate::offload::Draft;

/// The git commit that this program was built from, or `unknown`.
const GIT_HASH: &str = env!("CONTAINERPILOT_GIT_HASH");
/// The kernel's files about limits, of both versions of control groups; those that exist are told.
const LIMITS: [&str; 15] = [
    "/proc/version",
    "/proc/self/limits",
    "/proc/self/cgroup",
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory.high",
    "/sys/fs/cgroup/memory.current",
    "/sys/fs/cgroup/memory.events",
    "/sys/fs/cgroup/cpu.max",
    "/sys/fs/cgroup/pids.max",
    "/sys/fs/cgroup/pids.current",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    "/sys/fs/cgroup/memory/memory.oom_control",
    "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
    "/sys/fs/cgroup/pids/pids.max",
];
/// The most that is read of one of them.
const LONGEST_FILE: u64 = 16 << 10;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    version: &'static str,
    git_hash: &'static str,
    pid: u32,
    uptime: f64,
    configuration: &'a Spec,
    limits: BTreeMap<&'static str, String>,
    metrics: &'a str,
}

/// Answers with the report. A large configuration takes a while, so that is done on a thread of its own.
pub async fn report(state: Data<AppState>) -> Reply {
    let knowledge = state.pilot.inquiry.send(Inquire(None)).await?;
    let metrics = exposition(&state, Format::Prometheus).await;
    let uptime = state.started.elapsed().as_secs_f64();
    let text = elsewhere(move || {
        let report = Report {
            version: VERSION,
            git_hash: GIT_HASH,
            pid: std::process::id(),
            uptime,
            configuration: &knowledge.spec,
            limits: LIMITS.into_iter().filter_map(|path| Some((path, beginning(path)?))).collect(),
            metrics: &metrics,
        };
        let mut draft = Draft::default();
        // Writing into memory cannot fail.
        let _ = masked(|| serde_json::to_writer(&mut draft, &report));
        draft.text.push(b'\n');
        draft.text
    });
    let unable = |error| Failure::new(StatusCode::SERVICE_UNAVAILABLE, format!("cannot report: {error}"));
    Ok(HttpResponse::Ok()
        .content_type("application/json")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .body(long(text.await.map_err(unable)?)))
}

/// The beginning of a file of the kernel; `None` if there is none.
fn beginning(path: &str) -> Option<String> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(LONGEST_FILE).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}
