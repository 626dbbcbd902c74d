//! The page for people on the telemetry port, if the configuration asks for it: one HTML file with everything in it, and the
//! stream that keeps it up to date. It shows, and changes nothing.
//!
//! Whether there is a page is looked up at each request, since a reload can change it while the port stays.

pub mod feed;
mod graph;

use actix_web::http::{Method, StatusCode, header};
use actix_web::web::{self, Data, Path, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};

use feed::FeedStream;

use super::connection::ConnectionTracker;
use super::reply::{Failure, Reply, chunks, not_found, streamed, wrong_method};
use super::{AppState, crashes, insight, logs};
use crate::config::spec::PageSpec;

/// The whole page.
const PAGE: &str = include_str!("page/page.html");
/// The hashes of its style and its script: a browser runs nothing else. A test compares them with the file.
const STYLE_HASH: &str = "sha256-NB/9osbchQdVxSJ45ovrxSgXQXg8t0kTXRC7+2W8R5M=";
const SCRIPT_HASH: &str = "sha256-fgvErV6Wdas3p34qbkDC315opcq+DWVTZhZ3AMpkvaE=";

const QUERY: &[Method] = &[Method::GET, Method::HEAD];
/// To the head alone of a stream there is no end.
const STREAM: &[Method] = &[Method::GET];

/// The routes of the page.
pub fn routes(config: &mut ServiceConfig) {
    config
        .service(web::resource("/").default_service(web::to(page)))
        .service(web::resource("/page/events").default_service(web::to(events)))
        .service(web::resource("/page/why/{name:.+}").default_service(web::to(why)))
        .service(web::resource("/page/logs/{name:.+}").default_service(web::to(logs)))
        .service(web::resource("/page/crashes/{name:.+}").default_service(web::to(crashes)));
}

/// Refuses a request for which nothing is there, or whose method is none of these.
async fn refused(
    state: &AppState,
    request: &HttpRequest,
    needed: PageSpec,
    methods: &'static [Method],
) -> Option<Reply> {
    if state.feed.level() < needed {
        return Some(not_found(request.clone()).await);
    }
    let is_allowed = methods.contains(request.method());
    if is_allowed { None } else { Some(Ok(wrong_method(methods, request.clone()).await)) }
}

async fn page(state: Data<AppState>, request: HttpRequest) -> Reply {
    if let Some(refusal) = refused(&state, &request, PageSpec::Overview, QUERY).await {
        return refusal;
    }
    let policy = format!(
        "default-src 'none'; style-src '{STYLE_HASH}'; script-src '{SCRIPT_HASH}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    );
    Ok(HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header((header::CONTENT_SECURITY_POLICY, policy))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .insert_header((header::CACHE_CONTROL, "no-cache"))
        .body(PAGE))
}

async fn events(state: Data<AppState>, request: HttpRequest) -> Reply {
    if let Some(refusal) = refused(&state, &request, PageSpec::Overview, STREAM).await {
        return refusal;
    }
    let resumed = state.events.resumed(request.headers());
    let events = state.events.stream(Some(resumed.unwrap_or(0)), true);
    let Some(stream) = state.feed.stream(state.board.clone(), events) else {
        let message = format!("{} clients look at the page already", feed::MOST_CLIENTS);
        return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, message));
    };
    ConnectionTracker::begin_stream(&request);
    let mut response = HttpResponse::Ok();
    response.content_type("text/event-stream").insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"));
    Ok(streamed(&request, &mut response, chunks(stream, FeedStream::next)))
}

async fn why(state: Data<AppState>, request: HttpRequest, name: Path<String>) -> Reply {
    match refused(&state, &request, PageSpec::Overview, QUERY).await {
        Some(refusal) => refusal,
        None => insight::why_without_output(state, name).await,
    }
}

/// The last lines of a job, as they stand in the log. It cannot be followed here, so that the number
/// of streams stays limited.
async fn logs(state: Data<AppState>, request: HttpRequest, name: Path<String>) -> Reply {
    match refused(&state, &request, PageSpec::Full, QUERY).await {
        Some(refusal) => refusal,
        None => logs::of_one(&state, &request, name.into_inner()),
    }
}

async fn crashes(state: Data<AppState>, request: HttpRequest, name: Path<String>) -> Reply {
    match refused(&state, &request, PageSpec::Full, QUERY).await {
        Some(refusal) => refusal,
        None => crashes::of_one(state, name, request).await,
    }
}

#[cfg(test)]
mod tests;
