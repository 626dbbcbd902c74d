//! The page for people on the telemetry port, if the configuration asks for it: one HTML file with everything in it, and the
//! stream that keeps it up to date. It shows, and changes nothing.
//!
//! Whether there is a page is looked up at each request, since a reload can change it while the port stays.

pub mod feed;
mod graph;

use actix_web::guard::{Guard, fn_guard};
use actix_web::http::{Method, StatusCode, header};
use actix_web::web::{Data, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};

use feed::FeedStream;

use super::connection::ConnectionTracker;
use super::reply::{Failure, Reply, chunks, resource, streamed};
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
        .service(resource("/", QUERY, page).guard(shows(PageSpec::Overview)))
        .service(resource("/page/events", STREAM, events).guard(shows(PageSpec::Overview)))
        .service(
            resource("/page/why/{name:.+}", QUERY, insight::why_without_output)
                .guard(shows(PageSpec::Overview)),
        )
        .service(resource("/page/logs/{name:.+}", QUERY, logs::of_one).guard(shows(PageSpec::Full)))
        .service(resource("/page/crashes/{name:.+}", QUERY, crashes::of_one).guard(shows(PageSpec::Full)));
}

/// Whether the configuration asks for a page that shows so much; otherwise there is nothing at the path.
fn shows(level: PageSpec) -> impl Guard {
    fn_guard(move |request| {
        request.app_data::<Data<AppState>>().is_some_and(|state| state.feed.level() >= level)
    })
}

async fn page() -> HttpResponse {
    let policy = format!(
        "default-src 'none'; style-src '{STYLE_HASH}'; script-src '{SCRIPT_HASH}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    );
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header((header::CONTENT_SECURITY_POLICY, policy))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .insert_header((header::CACHE_CONTROL, "no-cache"))
        .body(PAGE)
}

async fn events(state: Data<AppState>, request: HttpRequest) -> Reply {
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

#[cfg(test)]
mod tests;
