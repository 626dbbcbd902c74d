//! The routes of the telemetry port: metrics for Prometheus, ContainerPilot's status, and probes for orchestrators.

use std::time::{Instant, SystemTime};

use actix_web::http::{Method, StatusCode, header};
use actix_web::web::{Data, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};

use super::reply::{alive, are_few, json, long, make, resource};
use super::status;
use super::{AppState, insight, page};
use crate::logging::LogSink;
use crate::messages::status::Overview;
use crate::metrics::exposition::Format;
use crate::metrics::process::ProcessUse;
use crate::metrics::{Metrics, Scene};

/// Some load balancers send HEAD.
const QUERY: &[Method] = &[Method::GET, Method::HEAD];

pub fn routes(config: &mut ServiceConfig) {
    config
        .service(resource("/metrics", QUERY, metrics))
        .service(resource("/status", QUERY, containerpilots_status))
        .service(resource("/healthz", QUERY, alive))
        .service(resource("/readyz", QUERY, ready))
        .configure(page::routes);
}

async fn metrics(state: Data<AppState>, request: HttpRequest) -> HttpResponse {
    let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::preferred(accept.unwrap_or_default());
    HttpResponse::Ok().content_type(format.content_type()).body(long(exposition(&state, format).await))
}

/// All metrics in that format.
pub async fn exposition(state: &AppState, format: Format) -> String {
    let queued = state.queued.get();
    let log = state.sink.as_ref().map(LogSink::usage);
    let expose = move |overview: &Overview, metrics: &Metrics| {
        let (process, now) = (ProcessUse::read(), Instant::now());
        metrics.expose(format, &Scene { overview, queued, process, now, log })
    };
    let jobs = state.board.read().jobs.len();
    // Nothing need be copied for another thread. Summaries are large, however few jobs there are.
    if are_few(jobs) {
        return expose(&state.board.read(), &state.recorder.metrics());
    }
    let (overview, metrics) = (state.board.read().clone(), state.recorder.metrics().clone());
    make(jobs, move || expose(&overview, &metrics)).await
}

async fn containerpilots_status(state: Data<AppState>) -> HttpResponse {
    json(StatusCode::OK, &status::in_containerpilots_form(&state.board.read()))
}

async fn ready(state: Data<AppState>) -> HttpResponse {
    let overview = state.board.read();
    insight::readiness(&overview, &status::not_ready(&overview, SystemTime::now()))
}
