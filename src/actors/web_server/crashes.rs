//! `/v3/crashes` and `/v3/jobs/NAME/crashes`: the dossiers of the last failures. Each dossier is a chunk of the response, made
//! when the client has read those before, so that thousands of them do not hold up the event loop.

use std::rc::Rc;
use std::sync::Arc;

use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;

use super::AppState;
use super::connection::ConnectionTracker;
use super::event_log::ShownEvent;
use super::reply::{Reply, chunks, streamed};
use super::status::{time, verdict_name};
use crate::messages::control::Refusal;
use crate::messages::crashes::{Dossier, Usage};

/// The dossiers of all jobs.
pub async fn of_all(state: Data<AppState>, request: HttpRequest) -> HttpResponse {
    respond(state.dossiers.newest_first(None), &request)
}

/// The dossiers of one job.
pub async fn of_one(state: Data<AppState>, name: Path<String>, request: HttpRequest) -> Reply {
    let name = name.into_inner();
    if !state.board.read().jobs.contains_key(name.as_str()) {
        return Err(Refusal::NoSuchJob(name).into());
    }
    Ok(respond(state.dossiers.newest_first(Some(&name)), &request))
}

fn respond(dossiers: Vec<(Arc<str>, Rc<Dossier>)>, request: &HttpRequest) -> HttpResponse {
    ConnectionTracker::begin_stream(request);
    let dossiers = dossiers.into_iter().enumerate().map(|(index, (job, dossier))| {
        let separator = if index == 0 { "" } else { "," };
        format!("{separator}{}", render(&job, &dossier))
    });
    let begin = [r#"{"crashes":["#.to_owned()].into_iter();
    let texts = begin.chain(dossiers).chain(["]}\n".to_owned()]);
    let chunks = chunks(texts, async |texts| texts.next());
    streamed(request, HttpResponse::Ok().content_type("application/json"), chunks)
}

/// A dossier as clients read it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    job: &'a str,
    time: String,
    status: u8,
    signal: Option<String>,
    core_dumped: bool,
    killed_by: Option<&'a str>,
    reason: &'a str,
    pid: Option<i32>,
    seconds: f64,
    decision: &'a str,
    rusage: Option<Used>,
    checks: Vec<Checked<'a>>,
    lines: Vec<&'a str>,
    events: Vec<ShownEvent<'a>>,
}

#[derive(Serialize)]
struct Checked<'a> {
    name: &'a str,
    status: &'static str,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Used {
    user_seconds: f64,
    system_seconds: f64,
    #[serde(rename = "maxResidentKiB")]
    max_resident: u64,
    major_faults: u64,
    blocks_in: u64,
    blocks_out: u64,
}

fn render(job: &str, dossier: &Dossier) -> String {
    let Dossier { failure, usage, lines, checks, events, decision, .. } = dossier;
    let lines = String::from_utf8_lossy(lines);
    let checks = checks.iter().map(|(name, verdict, reason)| Checked {
        name,
        status: verdict_name(*verdict),
        reason: reason.as_deref(),
    });
    let shown = Shown {
        job,
        time: time(dossier.time),
        status: failure.status,
        signal: failure.signal.map(|signal| signal.to_string()),
        core_dumped: failure.core_dumped,
        killed_by: failure.killed_by.as_deref(),
        reason: &failure.reason,
        pid: failure.pid,
        seconds: failure.lasted.as_secs_f64(),
        decision,
        rusage: usage.as_ref().map(used),
        checks: checks.collect(),
        lines: lines.lines().collect(),
        events: events.iter().flatten().map(|event| ShownEvent::of(event)).collect(),
    };
    serde_json::to_string(&shown).unwrap_or_default()
}

fn used(usage: &Usage) -> Used {
    Used {
        user_seconds: usage.user.as_secs_f64(),
        system_seconds: usage.system.as_secs_f64(),
        max_resident: usage.max_resident,
        major_faults: usage.major_faults,
        blocks_in: usage.blocks_in,
        blocks_out: usage.blocks_out,
    }
}
