//! The common parts of all routes: methods, reading a body, responding. Every error is `{"error": "…"}` with a message
//! that its reader can act on.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix::MailboxError;
use actix_web::body::{BoxBody, SizedStream};
use actix_web::guard::fn_guard;
use actix_web::http::{ConnectionType, Method, StatusCode, Version, header};
use actix_web::web::{self, Bytes, Payload};
use actix_web::{
    FromRequest, Handler, HttpRequest, HttpResponse, HttpResponseBuilder, Resource, Responder, ResponseError,
};
use futures_util::stream::{self, Stream};
use memmap2::MmapMut;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use super::connection::{ConnectionState, ConnectionTracker};
use crate::messages::control::Refusal;
use crate::offload;

const LARGEST_BODY: usize = 1 << 20;
/// So many jobs are told about within a millisecond.
const FEW_JOBS: usize = 30;
/// The size of a piece of a long body.
const PIECE: usize = 16 << 10;
/// A body of this length is kept apart from the heap while the client reads it.
const LONG: usize = 32 << 10;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);
/// So many responses are made at a time on other threads; the next ones wait. A crowd of clients must not use up what a
/// container allows of processes and memory.
static THREADS: Semaphore = Semaphore::const_new(16);

/// The response of a route.
pub type Reply = Result<HttpResponse, Failure>;

/// Why a request is not carried out.
#[derive(Debug)]
pub struct Failure {
    status: StatusCode,
    message: String,
}

impl Failure {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The body does not have the expected form.
    pub fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    /// One of the values in the body cannot be used.
    pub fn bad_value(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl ResponseError for Failure {
    fn status_code(&self) -> StatusCode {
        self.status
    }

    fn error_response(&self) -> HttpResponse {
        json(self.status, &json!({ "error": self.message }))
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let status = match &refusal {
            Refusal::NoSuchJob(_) => StatusCode::NOT_FOUND,
            Refusal::NotNow(_) => StatusCode::CONFLICT,
            Refusal::TooLarge(_) => StatusCode::BAD_REQUEST,
            Refusal::BadConfiguration(_) => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, refusal.to_string())
    }
}

impl From<MailboxError> for Failure {
    fn from(_: MailboxError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the program is about to exit")
    }
}

pub fn json(status: StatusCode, value: &Value) -> HttpResponse {
    json_text(status, format!("{value}\n"))
}

/// A response in JSON whose text is there already.
pub fn json_text(status: StatusCode, text: String) -> HttpResponse {
    HttpResponse::build(status).content_type("application/json").body(long(text))
}

/// A body that may be long: then the server copies a piece of it at a time, as the client reads it. A short one is sent with
/// its head: after a malformed chunk actix-http writes once and no more.
pub fn long(text: impl Into<Bytes>) -> BoxBody {
    let text = text.into();
    if text.len() <= PIECE {
        return BoxBody::new(text);
    }
    let rest = apart_from_the_heap(text);
    let length = rest.len() as u64;
    let pieces = chunks(rest, async |rest: &mut Bytes| {
        (!rest.is_empty()).then(|| rest.split_to(PIECE.min(rest.len())))
    });
    BoxBody::new(SizedStream::new(length, Box::pin(pieces)))
}

/// A response whose length is not known; it is not to be cached.
///
/// A client of HTTP/1.0 does not know chunks: the end of its body is the end of the connection. So it is for a client that
/// offers to change the protocol, which we never do: for a WebSocket, actix-web would announce chunks and send none.
pub fn streamed(
    request: &HttpRequest,
    response: &mut HttpResponseBuilder,
    chunks: impl Stream<Item = Result<Bytes, Infallible>> + 'static,
) -> HttpResponse {
    let mut response = response.insert_header((header::CACHE_CONTROL, "no-store")).streaming(chunks);
    if request.version() < Version::HTTP_11 || request.headers().contains_key(header::UPGRADE) {
        let head = response.head_mut();
        head.no_chunking(true);
        head.set_connection_type(ConnectionType::Close);
    }
    response
}

/// A long text in memory of its own, which the kernel gets back when the client has read it. The allocator has one heap for
/// everything: there, a crowd of slow clients leaves holes between small things, and each crowd makes the program larger.
fn apart_from_the_heap(text: Bytes) -> Bytes {
    if text.len() < LONG {
        return text;
    }
    match MmapMut::map_anon(text.len()) {
        Ok(mut memory) => {
            memory.copy_from_slice(&text);
            Bytes::from_owner(memory)
        }
        Err(_) => text,
    }
}

/// The chunks of a response: what `next` returns, until that is `None`. Each is made when the client has read those before,
/// and others have their turn after it.
pub fn chunks<S, T: Into<Bytes>>(
    source: S,
    next: impl AsyncFn(&mut S) -> Option<T>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((source, next), |(mut source, next)| async move {
        let chunk = next(&mut source).await?;
        yield_now().await;
        Some((Ok(chunk.into()), (source, next)))
    })
}

/// Whether what is told of so many jobs is made within a millisecond.
pub const fn are_few(jobs: usize) -> bool {
    jobs <= FEW_JOBS
}

/// Makes what a response tells. One about many jobs takes milliseconds, and is made on another thread, so that nobody else
/// waits for it. Where no thread can be started, as at a container's limit of processes, it is made here all the same: that
/// is when people ask.
pub async fn make<T: Send + 'static>(jobs: usize, make: impl Fn() -> T + Send + Sync + 'static) -> T {
    if are_few(jobs) {
        return make();
    }
    let make = Arc::new(make);
    let there = Arc::clone(&make);
    match elsewhere(move || there()).await {
        Ok(made) => made,
        Err(_) => make(),
    }
}

/// Makes something on another thread, when it is its turn. The turn ends with the thread, also if nobody waits any more.
pub async fn elsewhere<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let turn = THREADS.acquire().await.map_err(io::Error::other)?;
    let make = move || {
        let made = make();
        drop(turn);
        made
    };
    offload::run(make).await
}

/// The response to a ping.
pub async fn alive() -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain; charset=utf-8").body("ok\n")
}

/// The response to a command that was carried out.
pub fn done() -> HttpResponse {
    json(StatusCode::OK, &json!({}))
}

/// The response for every path that does not exist.
pub async fn not_found(request: HttpRequest) -> Reply {
    Err(Failure::new(StatusCode::NOT_FOUND, format!("there is nothing at {}", request.path())))
}

/// A path, and its handler for requests with one of these methods. Other methods are refused.
pub fn resource<F, Args>(path: &str, methods: &'static [Method], handler: F) -> Resource
where
    F: Handler<Args>,
    F::Output: Responder + 'static,
    Args: FromRequest + 'static,
{
    let is_allowed = fn_guard(move |request| methods.contains(&request.head().method));
    web::resource(path)
        .route(web::route().guard(is_allowed).to(handler))
        .default_service(web::to(move |request| wrong_method(methods, request)))
}

/// The response to a method that a path does not take.
async fn wrong_method(allowed: &'static [Method], request: HttpRequest) -> HttpResponse {
    let allowed = allowed.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
    let message = format!("{} takes {allowed}, not {}", request.path(), request.method());
    let mut response = Failure::new(StatusCode::METHOD_NOT_ALLOWED, message).error_response();
    if let Ok(value) = header::HeaderValue::from_str(&allowed) {
        response.headers_mut().insert(header::ALLOW, value);
    }
    response
}

/// The body as a JSON object; an empty body is an empty object if `may_be_empty`.
pub async fn object(
    request: &HttpRequest,
    payload: Payload,
    may_be_empty: bool,
    example: &str,
) -> Result<Map<String, Value>, Failure> {
    let bytes = body(request, payload).await?;
    if may_be_empty && bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(Failure::malformed(format!(
            "expected a JSON object such as {example}, found {}",
            kind(&other)
        ))),
        Err(error) => Err(Failure::malformed(format!("expected a JSON object such as {example}: {error}"))),
    }
}

/// A JSON value as an error message shows it.
pub fn kind(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

async fn body(request: &HttpRequest, payload: Payload) -> Result<Bytes, Failure> {
    let too_large = || {
        let message = format!("the body is larger than {} MiB", LARGEST_BODY >> 20);
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > LARGEST_BODY as u64) {
        return Err(too_large());
    }
    // A connection that waits for the client counts as idle, so that it may be closed for another one.
    let tracker = request.conn_data::<ConnectionTracker>();
    tracker.inspect(|tracker| tracker.set_state(ConnectionState::Idle));
    let read = tokio::time::timeout(BODY_TIME, payload.to_bytes_limited(LARGEST_BODY)).await;
    tracker.inspect(|tracker| tracker.set_state(ConnectionState::Answering));
    match read {
        Ok(Ok(Ok(bytes))) => Ok(bytes),
        Ok(Ok(Err(_))) => Err(Failure::bad_value("the body is incomplete or malformed".to_owned())),
        Ok(Err(_)) => Err(too_large()),
        Err(_) => {
            let message = format!("the body did not arrive within {} seconds", BODY_TIME.as_secs());
            Err(Failure::new(StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::body::{BodySize, MessageBody, to_bytes};

    use super::*;

    #[tokio::test]
    async fn a_long_body_is_sent_whole_and_its_length_is_told() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7, LONG - 1, LONG, LONG + 1] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            let body = long(text.clone());
            assert_eq!(body.size(), BodySize::Sized(length as u64));
            assert_eq!(to_bytes(body).await.ok(), Some(Bytes::from(text)), "{length}");
        }
    }
}
