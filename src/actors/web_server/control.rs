//! The routes of the control socket.

use std::time::{Duration, Instant, SystemTime};

use actix_web::http::{Method, StatusCode};
use actix_web::web::{Data, Path, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::{Value, json};

use super::connection::ConnectionTracker;
use super::event_log::EventStream;
use super::reply::{
    Failure, Reply, alive, chunks, done, json, json_text, kind, make, object, resource, streamed,
};
use super::{AppState, crashes, insight, logs, report, status};
use crate::messages::control::{ChangeEnvironment, ControlJob, JobOrder, Reload, SetMaintenance};
use crate::messages::signal::Signal;

/// The pattern of a job's name in a path. A job without a name of its own has the path of its program, with slashes.
pub const ANY: &str = ":.+";

const COMMAND: &[Method] = &[Method::PUT, Method::POST];
const QUERY: &[Method] = &[Method::GET];
/// ContainerPilot answered a ping of any method.
const PING: &[Method] = &[Method::GET, Method::HEAD, Method::POST];

/// While more than this is to be told to jobs and by them, a request that concerns all of them waits.
const MOST_QUEUED: usize = 1000;

pub fn routes(config: &mut ServiceConfig) {
    let job = |order| move |state, name| control(state, name, order);
    let maintenance = |on| move |state| set_maintenance(state, on);
    config
        .service(resource("/v3/ping", PING, alive))
        .service(resource("/v3/status", QUERY, whole_status))
        .service(resource("/v3/ready", QUERY, insight::ready))
        .service(resource("/v3/events", QUERY, events))
        .service(resource("/v3/logs", QUERY, logs::logs))
        .service(resource("/v3/crashes", QUERY, crashes::of_all))
        .service(resource("/v3/report", QUERY, report::report))
        .service(resource("/v3/jobs/{name:.+}/crashes", QUERY, crashes::of_one))
        .service(resource("/v3/environ", COMMAND, change_environment))
        .service(resource("/v3/env", COMMAND, change_environment))
        .service(resource("/v3/metric", COMMAND, record_metrics))
        .service(resource("/v3/reload", COMMAND, reload))
        .service(resource("/v3/maintenance/enable", COMMAND, maintenance(true)))
        .service(resource("/v3/maintenance/disable", COMMAND, maintenance(false)))
        .service(resource("/v3/jobs/{name:.+}/start", COMMAND, job(JobOrder::Start)))
        .service(resource("/v3/jobs/{name:.+}/stop", COMMAND, job(JobOrder::Stop)))
        .service(resource("/v3/jobs/{name:.+}/restart", COMMAND, job(JobOrder::Restart)))
        .service(resource("/v3/jobs/{name:.+}/signal", COMMAND, signal))
        .service(resource("/v3/jobs/{name:.+}/why", QUERY, insight::why))
        .service(resource("/v3/graph", QUERY, insight::graph));
}

async fn whole_status(state: Data<AppState>) -> Reply {
    let (overview, uptime) = (state.board.read().clone(), state.started.elapsed());
    let text = make(overview.jobs.len(), move || status::whole(&overview, uptime, SystemTime::now()));
    Ok(json_text(StatusCode::OK, text.await))
}

async fn events(state: Data<AppState>, request: HttpRequest) -> Reply {
    let (mut since, mut follow) = (None, true);
    for pair in request.query_string().split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("since", number) => {
                let wrong = || format!("since: expected the number of an event, found {number:?}");
                since = Some(number.parse().map_err(|_| Failure::bad_value(wrong()))?);
            }
            ("wait", "0") => follow = false,
            ("wait", "1") => follow = true,
            ("wait", other) => {
                return Err(Failure::bad_value(format!("wait: expected 0 or 1, found {other:?}")));
            }
            (other, _) => {
                return Err(Failure::bad_value(format!("expected since=NUMBER or wait=0, found {other:?}")));
            }
        }
    }
    let resumed = state.events.resumed(request.headers());
    let since = since.or(resumed).or(if follow { None } else { Some(0) });
    ConnectionTracker::begin_stream(&request);
    let chunks = chunks(state.events.stream(since, follow), EventStream::next);
    Ok(streamed(&request, HttpResponse::Ok().content_type("text/event-stream"), chunks))
}

async fn change_environment(state: Data<AppState>, request: HttpRequest, payload: Payload) -> Reply {
    let object = object(&request, payload, false, r#"{"NAME": "value", "GONE": null}"#).await?;
    let changes = object.into_iter().map(|(name, value)| change(name, value)).collect::<Result<_, _>>()?;
    state.pilot.environment.send(ChangeEnvironment(changes)).await??;
    Ok(done())
}

fn change(name: String, value: Value) -> Result<(String, Option<String>), Failure> {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    if !name.bytes().next().is_some_and(is_letter)
        || !name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
    {
        return Err(Failure::bad_value(format!(
            "{name:?} is not a variable's name: letters, digits and _, no digit first"
        )));
    }
    match value {
        Value::Null => Ok((name, None)),
        Value::String(text) if text.is_empty() => Ok((name, None)),
        Value::String(text) if text.contains('\0') => {
            Err(Failure::bad_value(format!("{name}: a variable cannot contain a NUL byte")))
        }
        Value::String(text) => Ok((name, Some(text))),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(Failure::bad_value(format!("{name}: expected a string or null, found {}", kind(&value))))
        }
    }
}

async fn record_metrics(state: Data<AppState>, request: HttpRequest, payload: Payload) -> Reply {
    let object = object(&request, payload, false, r#"{"name": 1.5}"#).await?;
    let values = object.into_iter().map(measurement).collect::<Result<Vec<_>, _>>()?;
    state.recorder.metrics().record(&values, Instant::now()).map_err(Failure::bad_value)?;
    Ok(done())
}

fn measurement((name, value): (String, Value)) -> Result<(String, f64), Failure> {
    let number = match &value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    match number {
        Some(number) => Ok((name, number)),
        None => Err(Failure::bad_value(format!("{name}: expected a number, found {}", kind(&value)))),
    }
}

async fn reload(state: Data<AppState>, request: HttpRequest, payload: Payload) -> Reply {
    let object = object(&request, payload, true, r#"{"restart": "all"} or {"dryRun": true}"#).await?;
    let mut reload = Reload { restart_all: false, dry_run: false };
    for (key, value) in object {
        match (key.as_str(), &value) {
            ("restart", Value::String(all)) if all == "all" => reload.restart_all = true,
            ("restart", Value::Null) => {}
            ("restart", other) => {
                return Err(Failure::malformed(format!("restart: expected \"all\", found {}", kind(other))));
            }
            ("dryRun", Value::Bool(dry_run)) => reload.dry_run = *dry_run,
            ("dryRun", other) => {
                return Err(Failure::malformed(format!(
                    "dryRun: expected true or false, found {}",
                    kind(other)
                )));
            }
            (other, _) => {
                return Err(Failure::malformed(format!("expected `restart` or `dryRun`, found {other:?}")));
            }
        }
    }
    let summary = state.pilot.reload.send(reload).await??;
    Ok(json(StatusCode::OK, &json!(summary)))
}

async fn set_maintenance(state: Data<AppState>, on: bool) -> Reply {
    // Every job reports what it has changed. A client cannot ask faster than that is told.
    while state.queued.get() > MOST_QUEUED {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let updated = state.pilot.maintenance.send(SetMaintenance(on)).await?;
    Ok(json(StatusCode::OK, &json!({ "updated": updated })))
}

async fn control(state: Data<AppState>, name: Path<String>, order: JobOrder) -> Reply {
    let control = ControlJob { name: name.into_inner(), order };
    state.pilot.job.send(control).await??;
    Ok(done())
}

async fn signal(state: Data<AppState>, name: Path<String>, request: HttpRequest, payload: Payload) -> Reply {
    let example = r#"{"signal": "SIGHUP"}"#;
    let object = object(&request, payload, false, example).await?;
    let signal = match object.get("signal") {
        Some(Value::String(text)) => Signal::parse(text),
        Some(Value::Number(number)) => Signal::parse(&number.to_string()),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => None,
    };
    let Some(signal) = signal else {
        let found = object.get("signal").map_or("nothing".to_owned(), kind);
        let message = format!("signal: expected a name or number as in {example}, found {found}");
        return Err(Failure::malformed(message));
    };
    control(state, name, JobOrder::Signal(signal)).await
}
