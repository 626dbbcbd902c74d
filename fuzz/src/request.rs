//! Makes what clients send to our servers: requests, half of one, several at once, and bytes that are none.

use arbitrary::{Result, Unstructured};
use containerpilot::actors::web_server::Api;

use crate::delivery::Cuts;

/// The most bytes that one client sends.
const MOST_SENT: usize = 128 << 10;

const METHODS: [&str; 10] =
    ["GET", "PUT", "POST", "HEAD", "DELETE", "OPTIONS", "CONNECT", "PATCH", "get", "A/B"];
const CONTROL_PATHS: [&str; 20] = [
    "/v3/ping",
    "/v3/status",
    "/v3/events",
    "/v3/events?wait=0",
    "/v3/events?since=1&wait=1",
    "/v3/environ",
    "/v3/env",
    "/v3/metric",
    "/v3/reload",
    "/v3/maintenance/enable",
    "/v3/maintenance/disable",
    "/v3/jobs/app/start",
    "/v3/jobs/ghost/stop",
    "/v3/jobs/busy/restart",
    "/v3/jobs//bin/app/signal",
    "/v3/jobs/%2e%2e/%00/start",
    "/",
    "*",
    "http://x/v3/ping",
    "/v3/jobs/a/start/stop",
];
const TELEMETRY_PATHS: [&str; 6] = ["/metrics", "/status", "/healthz", "/readyz", "/nothing", "/metrics?x=y"];
const HEADERS: [&str; 22] = [
    "Host: x",
    "Connection: close",
    "Connection: keep-alive",
    "Connection: upgrade",
    "Upgrade: websocket",
    "Expect: 100-continue",
    "Content-Type: application/json",
    "Content-Length: 0",
    "Content-Length: 5",
    "Content-Length: 1048577",
    "Content-Length: 18446744073709551616",
    "Content-Length: -1",
    "Content-Length: 5, 5",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: identity",
    "Last-Event-ID: 1",
    "Accept: application/openmetrics-text",
    "Accept: text/plain;q=0.5,*/*;q=NaN",
    "X: \u{7f}\u{80}",
    "Cookie: a=b; c",
    "X-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];
const BODIES: [&str; 12] = [
    "",
    "{}",
    r#"{"NAME": "value", "GONE": null}"#,
    r#"{"count_total": 1.5, "level": -2, "time": "1e3"}"#,
    r#"{"summary": 1e308, "level": "NaN"}"#,
    r#"{"restart": "all"}"#,
    r#"{"dryRun": true}"#,
    r#"{"signal": "SIGHUP"}"#,
    r#"{"signal": 9}"#,
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "{\"a\u{0}\": \"\u{0}\"}",
    "\u{feff}{}",
];

/// What a client does about the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Reads them as they come.
    Always,
    /// Sends everything first.
    AtTheEnd,
    /// Reads nothing.
    Never,
}

/// A client of one of our servers.
#[derive(Debug)]
pub struct Client {
    /// All that it sends.
    pub bytes: Vec<u8>,
    /// How it sends that.
    pub cuts: Cuts,
    /// What it reads.
    pub reads: Reads,
    /// Whether it says, when it has sent everything, that nothing follows.
    pub half_closes: bool,
    /// The answers that it must get to its first requests: nothing is wrong or special about these.
    pub expected: Vec<Expected>,
}

/// An answer that must come.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// Its request was a HEAD: it has no body.
    pub is_head: bool,
    /// Its status, where there is only one.
    pub status: Option<u16>,
}

impl Client {
    /// Any client of this server.
    pub fn arbitrary(u: &mut Unstructured<'_>, api: Api) -> Result<Self> {
        let (mut bytes, mut expected, mut is_plain) = (Vec::new(), Vec::new(), true);
        for _ in 0..u.int_in_range(1..=6)? {
            let message = match u.int_in_range(0..=9)? {
                0..4 => plain(u, api)?,
                4..8 => (half_valid(u, api)?, None),
                8 => (raw(u, 300)?.to_vec(), None),
                _ => {
                    let (once, _) = plain(u, api)?;
                    let times = u.int_in_range(1..=100)?;
                    (once.repeat(times), None)
                }
            };
            is_plain &= message.1.is_some();
            expected.extend(message.1.filter(|_| is_plain));
            bytes.extend(message.0);
        }
        bytes.truncate(MOST_SENT);
        let reads = *u.choose(&[Reads::Always, Reads::Always, Reads::AtTheEnd, Reads::Never])?;
        Ok(Self { bytes, cuts: Cuts::arbitrary(u)?, reads, half_closes: u.arbitrary()?, expected })
    }
}

/// A request that is answered whatever comes before and after it.
fn plain(u: &mut Unstructured<'_>, api: Api) -> Result<(Vec<u8>, Option<Expected>)> {
    let (method, path, body, status) = match (api, u.int_in_range(0..=6)?) {
        (Api::Control, 0) => ("GET", "/v3/ping", "", Some(200)),
        (Api::Control, 1) => ("HEAD", "/v3/ping", "", Some(200)),
        (Api::Control, 2) => ("GET", "/v3/status", "", Some(200)),
        (Api::Control, 3) => ("PUT", "/v3/environ", *u.choose(&BODIES)?, None),
        (Api::Control, 4) => ("POST", "/v3/metric", *u.choose(&BODIES)?, None),
        (Api::Control, 5) => ("PUT", "/v3/jobs/ghost/start", "", Some(404)),
        (Api::Control, _) => ("GET", "/v3/reload", "", Some(405)),
        (Api::Telemetry, 0) => ("GET", "/metrics", "", Some(200)),
        (Api::Telemetry, 1) => ("HEAD", "/metrics", "", Some(200)),
        (Api::Telemetry, 2) => ("GET", "/status", "", Some(200)),
        (Api::Telemetry, 3) => ("GET", "/readyz", "", Some(503)),
        (Api::Telemetry, 4) => ("GET", "/nothing", "", Some(404)),
        (Api::Telemetry, _) => ("GET", "/healthz", "", Some(200)),
    };
    let length = body.len();
    let framing = if body.is_empty() { String::new() } else { format!("Content-Length: {length}\r\n") };
    let text = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{framing}\r\n{body}");
    Ok((text.into_bytes(), Some(Expected { is_head: method == "HEAD", status })))
}

/// A request of which any part may be wrong.
fn half_valid(u: &mut Unstructured<'_>, api: Api) -> Result<Vec<u8>> {
    let paths = if api == Api::Control { &CONTROL_PATHS[..] } else { &TELEMETRY_PATHS[..] };
    let line_end = if u.ratio(1, 8)? { "\n" } else { "\r\n" };
    let version = *u.choose(&["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1", ""])?;
    let path = if u.ratio(1, 8)? { text(u)? } else { (*u.choose(paths)?).to_owned() };
    let mut request = format!("{} {path} {version}{line_end}", u.choose(&METHODS)?);
    for _ in 0..u.int_in_range(0..=4)? {
        request += u.choose(&HEADERS)?;
        request += line_end;
    }
    let body = if u.ratio(1, 4)? { text(u)? } else { (*u.choose(&BODIES)?).to_owned() };
    match u.int_in_range(0..=5)? {
        0 => request += &format!("{line_end}{body}"),
        1 => request += &format!("Transfer-Encoding: chunked{line_end}{line_end}{}", chunked(u, &body)?),
        2 => request += body.as_str(), // within the head
        _ => request += &format!("Content-Length: {}{line_end}{line_end}{body}", body.len()),
    }
    Ok(request.into_bytes())
}

fn chunked(u: &mut Unstructured<'_>, body: &str) -> Result<String> {
    let size = match u.int_in_range(0..=7)? {
        0 => "ffffffffffffffff".to_owned(),
        1 => "-1".to_owned(),
        2 => format!("{:x};extension=\"\r", body.len()),
        _ => format!("{:x}", body.len()),
    };
    let end = *u.choose(&["0\r\n\r\n", "0\r\n\r\n", "0\r\nTrailer: x\r\n\r\n", "0\r\n", ""])?;
    Ok(format!("{size}\r\n{body}\r\n{end}"))
}

/// A short text of any characters.
fn text(u: &mut Unstructured<'_>) -> Result<String> {
    Ok(String::from_utf8_lossy(raw(u, 60)?).into_owned())
}

/// Any bytes, at most so many.
fn raw<'a>(u: &mut Unstructured<'a>, most: usize) -> Result<&'a [u8]> {
    let length = u.int_in_range(0..=most)?;
    u.bytes(length.min(u.len()))
}
