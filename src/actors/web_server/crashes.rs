//! `/v3/crashes` and `/v3/jobs/NAME/crashes`: the dossiers of the last failures. Each dossier is a chunk of the response, made
//! when the client has read those before, so that thousands of them do not hold up the event loop.

use std::rc::Rc;
use std::sync::Arc;

use actix_web::http::header;
use actix_web::web::{Bytes, Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::{Value, json};

use super::AppState;
use super::connection::StreamGuard;
use super::event_log::to_json;
use super::reply::{Reply, in_turns};
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
    let guard = StreamGuard::new(request.conn_data());
    let dossiers = dossiers.into_iter().enumerate().map(|(index, (job, dossier))| {
        let separator = if index == 0 { "" } else { "," };
        format!("{separator}{}", render(&job, &dossier))
    });
    let begin = [r#"{"crashes":["#.to_owned()].into_iter();
    let chunks = begin.chain(dossiers).chain(["]}\n".to_owned()]);
    let chunks = in_turns(chunks.map(move |text| {
        let _ = &guard;
        Bytes::from(text)
    }));
    HttpResponse::Ok()
        .content_type("application/json")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(chunks)
}

fn render(job: &str, dossier: &Dossier) -> Value {
    let Dossier { failure, usage, lines, checks, events, decision, .. } = dossier;
    let lines = String::from_utf8_lossy(lines);
    let checks = checks.iter().map(|(name, verdict, reason)| {
        json!({ "name": &**name, "status": verdict_name(*verdict), "reason": reason })
    });
    json!({
        "job": job,
        "time": time(dossier.time),
        "status": failure.status,
        "signal": failure.signal.map(|signal| signal.to_string()),
        "coreDumped": failure.core_dumped,
        "killedBy": failure.killed_by,
        "reason": failure.reason,
        "pid": failure.pid,
        "seconds": failure.lasted.as_secs_f64(),
        "decision": decision,
        "rusage": usage.as_ref().map(used),
        "checks": checks.collect::<Vec<_>>(),
        "lines": lines.lines().collect::<Vec<_>>(),
        "events": events.iter().flatten().map(|event| to_json(event)).collect::<Vec<_>>(),
    })
}

fn used(usage: &Usage) -> Value {
    json!({
        "userSeconds": usage.user.as_secs_f64(),
        "systemSeconds": usage.system.as_secs_f64(),
        "maxResidentKiB": usage.max_resident,
        "majorFaults": usage.major_faults,
        "blocksIn": usage.blocks_in,
        "blocksOut": usage.blocks_out,
    })
}
