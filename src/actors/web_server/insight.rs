//! The routes that explain: whether jobs are ready, why a job is where it is, and what waits for what.

use std::time::SystemTime;

use actix_web::http::StatusCode;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::AppState;
use super::event_log::to_json;
use super::inquiry::Inquire;
use super::reply::{Failure, Reply, json, long, make};
use super::status::{self, time};
use crate::explain::{Scene, Why, why as explain};
use crate::graph::{Format, Graph};
use crate::messages::account::Awaited;
use crate::messages::control::Refusal;
use crate::messages::status::Overview;
use crate::offload::pause;

/// The number of events in the chain behind an explanation.
const LONGEST_CHAIN: usize = 20;
/// The number of lines of a failed run beside it.
const LAST_LINES: usize = 5;

/// Whether an orchestrator may send traffic, or whether the jobs that the query names are ready.
pub async fn ready(state: Data<AppState>, request: HttpRequest) -> Reply {
    let names = job_names(&request)?;
    let (overview, now) = (state.board.read(), SystemTime::now());
    let waiting = if names.is_empty() {
        status::not_ready(&overview, now)
    } else {
        let entry = |name: &String| match overview.jobs.get(name.as_str()) {
            Some(job) => Ok(status::not_ready_entry(name, job, now)),
            None => Err(Refusal::NoSuchJob(name.clone())),
        };
        let entries = names.iter().map(entry).collect::<Result<Vec<_>, Refusal>>()?;
        entries.into_iter().flatten().collect()
    };
    Ok(readiness(&overview, &waiting))
}

/// The response about readiness, with the jobs that are waited for.
pub fn readiness(overview: &Overview, waiting: &[Value]) -> HttpResponse {
    let is_ready = waiting.is_empty() && !overview.shutting_down;
    let answer = json!({ "ready": is_ready, "notReady": waiting, "shuttingDown": overview.shutting_down });
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, &answer)
}

/// The jobs that `job=NAME` names, as often as it is there.
fn job_names(request: &HttpRequest) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for pair in request.query_string().split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("job", name)) => names.push(percent_decode_str(name).decode_utf8_lossy().into_owned()),
            Some(_) | None => return Err(Failure::bad_value(format!("expected job=NAME, found {pair:?}"))),
        }
    }
    Ok(names)
}

/// Why a job is where it is.
pub async fn why(state: Data<AppState>, name: Path<String>) -> Reply {
    explained(state, name, true).await
}

/// The same without what jobs have printed, for those who may not see that.
pub async fn why_without_output(state: Data<AppState>, name: Path<String>) -> Reply {
    explained(state, name, false).await
}

async fn explained(state: Data<AppState>, name: Path<String>, with_output: bool) -> Reply {
    let name = name.into_inner();
    let knowledge = state.pilot.inquiry.send(Inquire(Some(name.clone()))).await?;
    let overview = state.board.read();
    let scene = Scene {
        overview: &overview,
        spec: &knowledge.spec,
        awaited: &knowledge.awaited,
        is_log_full: state.sink.as_ref().is_some_and(|sink| sink.usage().is_stalled),
        now: SystemTime::now(),
    };
    let Some(why) = explain(&scene, &name) else { return Err(Refusal::NoSuchJob(name).into()) };
    let mut reply = why_json(&state, &name, &why);
    if let (false, Some(reply)) = (with_output, reply.as_object_mut()) {
        reply.remove("lastFailure");
    }
    Ok(json(StatusCode::OK, &reply))
}

fn why_json(state: &AppState, name: &str, why: &Why) -> Value {
    let awaited = |awaited: &Awaited| {
        json!({
            "source": awaited.key.source.to_string(),
            "event": awaited.key.code.config_name(),
            "happened": awaited.happened,
            "canStillCome": awaited.can_still_come,
        })
    };
    let chain = state.events.chain(&why.causes, LONGEST_CHAIN);
    json!({
        "job": name,
        "state": why.state,
        "summary": why.summary,
        "waitsFor": why.waits_for.iter().map(awaited).collect::<Vec<_>>(),
        "chain": chain.iter().map(|event| to_json(event)).collect::<Vec<_>>(),
        "nextTry": why.next_try.map(time),
        "lastFailure": why.failed.as_deref().and_then(|job| last_failure(state, job)),
    })
}

/// How the last run of a job failed, and what it printed last.
fn last_failure(state: &AppState, job: &str) -> Option<Value> {
    let (job, dossier) = state.dossiers.newest_first(Some(job)).into_iter().next()?;
    let lines = String::from_utf8_lossy(&dossier.lines);
    let lines: Vec<&str> = lines.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default();
    Some(json!({
        "job": &*job,
        "time": time(dossier.time),
        "reason": dossier.failure.reason,
        "killedBy": dossier.failure.killed_by,
        "lines": last,
    }))
}

/// The graph of dependencies, in the format that the query names.
pub async fn graph(state: Data<AppState>, request: HttpRequest) -> Reply {
    let mut format = Format::Text;
    for pair in request.query_string().split('&').filter(|pair| !pair.is_empty()) {
        let wrong = || format!("expected format=text, dot, mermaid, svg or json, found {pair:?}");
        let value = pair.strip_prefix("format=").and_then(Format::parse);
        format = value.ok_or_else(|| Failure::bad_value(wrong()))?;
    }
    let knowledge = state.pilot.inquiry.send(Inquire(None)).await?;
    let overview = state.board.read().clone();
    let text = make(overview.jobs.len(), move || {
        let graph = Graph::of(&knowledge.spec);
        pause();
        let graph = graph.with_status(&overview);
        pause();
        graph.render(format)
    });
    Ok(HttpResponse::Ok().content_type(format.content_type()).body(long(text.await)))
}
