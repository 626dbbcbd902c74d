//! Requests to a running containerpilot, through its control socket.

mod changes;
mod crashes;
mod events;
mod exchange;
mod live;
mod logs;
mod orders;
mod outlook;
mod ready;
mod report;
mod table;
mod watch;

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use exchange::{TimedRequest, TimedResponse};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Number, Value, json};

use super::request::{ClientRequest, Format, Maintenance};
use super::{CommandError, config_path, environment, output};
use crate::config;
use crate::config::spec::Spec;
use crate::http_client::Request;
use crate::messages::control::{ControlJob, JobOrder, Reload};
use crate::printable::{printable, printable_lines};
use crate::reason::reason;

/// How long each step of a request may take; a healthy containerpilot needs milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Characters of a job's name that are percent-encoded in a path: all but the unreserved ones (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Sends the request to a control socket, by default the one that the configuration names, and prints the response.
pub fn run(
    config: Option<&Path>,
    socket: Option<PathBuf>,
    request: &ClientRequest,
) -> Result<ExitCode, CommandError> {
    let socket = match socket {
        Some(socket) => socket,
        None => configured_socket(config)?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| CommandError::new(format!("cannot ask {}: {}", socket.display(), reason(&error))))?;
    runtime.block_on(perform(config, &socket, request))
}

async fn perform(
    config: Option<&Path>,
    socket: &Path,
    request: &ClientRequest,
) -> Result<ExitCode, CommandError> {
    match request {
        ClientRequest::Orders { names, order, wait } => orders::run(socket, names, *order, *wait).await,
        ClientRequest::Ready { jobs, wait } => ready::run(socket, jobs, *wait).await,
        ClientRequest::Status { jobs, watch: true, .. } => watch::run(socket, jobs).await,
        ClientRequest::Report { out } => {
            report::run(socket, out.as_deref()).await?;
            Ok(ExitCode::SUCCESS)
        }
        ClientRequest::Graph { format, main } => outlook::graph(config, main.as_ref(), socket, *format).await,
        ClientRequest::PutMetrics(values) => {
            for values in one_per_name(values) {
                ask(socket, &to_http(&ClientRequest::PutMetrics(values))).await?;
            }
            Ok(ExitCode::SUCCESS)
        }
        ClientRequest::Status { watch: false, .. }
        | ClientRequest::Reload(_)
        | ClientRequest::Ping
        | ClientRequest::Maintenance(_)
        | ClientRequest::PutEnvironment(_)
        | ClientRequest::Why { .. }
        | ClientRequest::When { .. }
        | ClientRequest::Events { .. }
        | ClientRequest::Logs { .. }
        | ClientRequest::Crashes { .. }
        | ClientRequest::Job(_) => {
            let response = ask(socket, &to_http(request)).await?;
            print(request, response).await
        }
    }
}

/// Sends a request; a response that is no success is an error with the server's words.
async fn ask(socket: &Path, request: &TimedRequest) -> Result<TimedResponse, CommandError> {
    let sent = exchange::send(socket, request).await;
    success(socket, sent.map_err(|error| unreachable(socket, &error))?).await
}

/// The response, if it is a success.
async fn success(socket: &Path, mut response: TimedResponse) -> Result<TimedResponse, CommandError> {
    let status = response.status();
    if (200..300).contains(&status) {
        return Ok(response);
    }
    let text = text(&mut response).await?;
    let json = serde_json::from_str::<Value>(&text).ok();
    let message = json.as_ref().and_then(|json| json.get("error")?.as_str());
    Err(CommandError::new(match message {
        Some(message) => printable_lines(message.trim_end()),
        None => {
            let text = printable(text.trim());
            format!("the control socket {} answered {status}: {text}", socket.display())
        }
    }))
}

/// The configured path of the socket, which is found also if the rest of the configuration is wrong; without any
/// configuration, the default path. A configuration that is named and does not exist is a typing error: at the default path
/// another program may listen.
fn configured_socket(config: Option<&Path>) -> Result<PathBuf, CommandError> {
    let default = || Spec::default().control.socket;
    let Ok(path) = config_path(config) else { return Ok(default()) };
    match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let path = path.display();
            Err(CommandError::new(format!(
                "there is no configuration {path}, which would name the control socket"
            )))
        }
        Ok(_) | Err(_) => Ok(config::control_socket(&path, &environment()).unwrap_or_else(default)),
    }
}

fn unreachable(socket: &Path, error: &io::Error) -> CommandError {
    let known = [
        (ErrorKind::NotFound, "there is no such socket"),
        (ErrorKind::ConnectionRefused, "nobody listens"),
        (ErrorKind::PermissionDenied, "permission denied; its owner is who runs containerpilot"),
        (ErrorKind::WouldBlock, "no answer in time"),
        (ErrorKind::TimedOut, "no answer in time"),
        (ErrorKind::UnexpectedEof, "the connection ended without an answer"),
        (ErrorKind::ConnectionReset, "the connection ended without an answer"),
    ];
    let reason = known.iter().find(|(kind, _)| *kind == error.kind());
    let reason = reason.map_or_else(|| error.to_string(), |(_, reason)| (*reason).to_owned());
    let is_absent = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused);
    let hint = if is_absent { hint(&live::sockets(socket)) } else { String::new() };
    CommandError::new(format!("cannot ask {}: {reason}{hint}", socket.display()))
}

/// Advice when nothing listens on the socket: the configuration may have changed since it was loaded.
fn hint(live: &[PathBuf]) -> String {
    let live: Vec<String> = live.iter().map(|path| format!("-socket {}", path.display())).collect();
    if live.is_empty() {
        "; is containerpilot running? If it listens elsewhere, say where: -socket PATH".to_owned()
    } else {
        let list = live.join(" or ");
        format!(". A containerpilot listens elsewhere: if that is the one you mean, add {list}")
    }
}

/// The whole status.
async fn status(socket: &Path) -> Result<Value, CommandError> {
    let request = get("/v3/status".to_owned(), Some(TIMEOUT));
    value(&mut ask(socket, &request).await?).await
}

fn get(target: String, timeout: Option<Duration>) -> TimedRequest {
    TimedRequest { request: http_request("GET", target, None), timeout }
}

/// The path of a job, with what follows its name.
fn job_path(name: &str, verb: &str) -> String {
    format!("/v3/jobs/{}/{verb}", utf8_percent_encode(name, RESERVED))
}

/// The HTTP request that asks for this.
fn to_http(request: &ClientRequest) -> TimedRequest {
    let put = |target: &str, body: Option<Value>| TimedRequest {
        request: http_request("PUT", target.to_owned(), body),
        timeout: Some(TIMEOUT),
    };
    match request {
        ClientRequest::Ping => get("/v3/ping".to_owned(), Some(TIMEOUT)),
        ClientRequest::Status { .. } | ClientRequest::When { .. } | ClientRequest::Orders { .. } => {
            get("/v3/status".to_owned(), Some(TIMEOUT))
        }
        ClientRequest::Ready { jobs, .. } => ready::request(jobs, TIMEOUT),
        ClientRequest::Why { job, .. } => get(job_path(job, "why"), Some(TIMEOUT)),
        ClientRequest::Graph { format, .. } => outlook::request(*format),
        ClientRequest::Events { since, follow } => {
            let since = since.map(|since| format!("&since={since}")).unwrap_or_default();
            let timeout = if *follow { None } else { Some(TIMEOUT) };
            get(format!("/v3/events?wait={}{since}", u8::from(*follow)), timeout)
        }
        ClientRequest::Logs { jobs, follow, lines, since } => {
            let timeout = if *follow { None } else { Some(TIMEOUT) };
            get(logs::target(jobs, *follow, *lines, since.as_deref()), timeout)
        }
        ClientRequest::Report { .. } => get("/v3/report".to_owned(), Some(TIMEOUT)),
        ClientRequest::Crashes { job, .. } => {
            let target = job.as_ref().map_or("/v3/crashes".to_owned(), |job| {
                format!("/v3/jobs/{}/crashes", utf8_percent_encode(job, RESERVED))
            });
            get(target, Some(TIMEOUT))
        }
        // Old processes may take as long to stop as they are configured to.
        ClientRequest::Reload(reload) => {
            TimedRequest { timeout: None, ..put("/v3/reload", reload_body(*reload)) }
        }
        ClientRequest::Maintenance(Maintenance::Enable) => put("/v3/maintenance/enable", None),
        ClientRequest::Maintenance(Maintenance::Disable) => put("/v3/maintenance/disable", None),
        ClientRequest::PutEnvironment(changes) => {
            let changes = changes.iter().map(|(name, value)| (name.clone(), json!(value)));
            put("/v3/environ", Some(Value::Object(changes.collect())))
        }
        ClientRequest::PutMetrics(values) => {
            let number = |value: f64| Number::from_f64(value).map_or(Value::Null, Value::Number);
            let values: Map<String, Value> =
                values.iter().map(|(name, value)| (name.clone(), number(*value))).collect();
            put("/v3/metric", Some(Value::Object(values)))
        }
        ClientRequest::Job(ControlJob { name, order }) => {
            let (verb, body) = match order {
                JobOrder::Start => ("start", None),
                JobOrder::Stop => ("stop", None),
                JobOrder::Restart => ("restart", None),
                JobOrder::Signal(signal) => ("signal", Some(json!({ "signal": signal.to_string() }))),
            };
            put(&job_path(name, verb), body)
        }
    }
}

/// The values in as many requests as they need, since a name can be in a JSON object only once.
fn one_per_name(values: &[(String, f64)]) -> Vec<Vec<(String, f64)>> {
    let mut requests: Vec<Vec<(String, f64)>> = Vec::new();
    for value in values {
        let has_room = requests.iter_mut().find(|request| request.iter().all(|(name, _)| *name != value.0));
        match has_room {
            Some(request) => request.push(value.clone()),
            None => requests.push(vec![value.clone()]),
        }
    }
    requests
}

fn http_request(method: &str, target: String, body: Option<Value>) -> Request {
    let headers = [("host", "control"), ("connection", "close"), ("content-type", "application/json")];
    Request {
        method: method.to_owned(),
        target,
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        body: body.map(|body| body.to_string()).unwrap_or_default(),
    }
}

fn reload_body(Reload { restart_all, dry_run }: Reload) -> Option<Value> {
    match (restart_all, dry_run) {
        (false, false) => None,
        (true, false) => Some(json!({ "restart": "all" })),
        (false, true) => Some(json!({ "dryRun": true })),
        (true, true) => Some(json!({ "restart": "all", "dryRun": true })),
    }
}

async fn print(request: &ClientRequest, mut response: TimedResponse) -> Result<ExitCode, CommandError> {
    match request {
        ClientRequest::Events { .. } => events::print(&mut response).await?,
        ClientRequest::Logs { .. } => logs::print(&mut response).await?,
        ClientRequest::Crashes { format: Format::Json, .. } => {
            output::print(&format!("{:#}\n", value(&mut response).await?))?;
        }
        ClientRequest::Crashes { format: Format::Human, job } => {
            output::print(&crashes::render(&value(&mut response).await?, job.is_some()))?;
        }
        ClientRequest::Ping => output::print(&printable_lines(&text(&mut response).await?))?,
        ClientRequest::Status { jobs, format, .. } => {
            let status = outlook::only(value(&mut response).await?, jobs)?;
            output::print(&match format {
                Format::Json => format!("{status:#}\n"),
                Format::Human => table::render(&status, output::width()),
            })?;
        }
        ClientRequest::Why { format: Format::Json, .. } => {
            output::print(&format!("{:#}\n", value(&mut response).await?))?;
        }
        ClientRequest::Why { format: Format::Human, .. } => {
            output::print(&outlook::why(&value(&mut response).await?, output::width()))?;
        }
        ClientRequest::When { jobs } => {
            let status = outlook::only(value(&mut response).await?, jobs)?;
            output::print(&outlook::when(&status, !jobs.is_empty(), output::width()))?;
        }
        ClientRequest::Reload(Reload { dry_run, .. }) => {
            output::print(&reload_summary(&value(&mut response).await?, *dry_run))?;
        }
        ClientRequest::Maintenance(_)
        | ClientRequest::Report { .. }
        | ClientRequest::PutEnvironment(_)
        | ClientRequest::PutMetrics(_)
        | ClientRequest::Ready { .. }
        | ClientRequest::Graph { .. }
        | ClientRequest::Orders { .. }
        | ClientRequest::Job(_) => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// The summary of a reload for people.
fn reload_summary(summary: &Value, dry_run: bool) -> String {
    let would = if dry_run { "would be " } else { "" };
    let line = |key: &str| {
        let names = summary.get(key).and_then(Value::as_array)?;
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        (!names.is_empty()).then(|| format!("{would}{key}: {}\n", printable(&names.join(", "))))
    };
    ["stopped", "started", "kept"].into_iter().filter_map(line).collect()
}

async fn value(response: &mut TimedResponse) -> Result<Value, CommandError> {
    serde_json::from_str(&text(response).await?).map_err(|error| unreadable(&error))
}

async fn text(response: &mut TimedResponse) -> Result<String, CommandError> {
    response.text().await.map_err(|error| unreadable(&error))
}

fn unreadable(error: &dyn Display) -> CommandError {
    CommandError::new(format!("cannot read the answer: {}", reason(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::signal::Signal;

    #[test]
    fn every_request_has_its_method_path_and_body() {
        let job = |order| ClientRequest::Job(ControlJob { name: "/bin/my app?".to_owned(), order });
        let reload = |restart_all, dry_run| ClientRequest::Reload(Reload { restart_all, dry_run });
        for (request, method, target, body) in [
            (ClientRequest::Ping, "GET", "/v3/ping", ""),
            (reload(false, false), "PUT", "/v3/reload", ""),
            (reload(true, false), "PUT", "/v3/reload", r#"{"restart":"all"}"#),
            (reload(false, true), "PUT", "/v3/reload", r#"{"dryRun":true}"#),
            (ClientRequest::Maintenance(Maintenance::Enable), "PUT", "/v3/maintenance/enable", ""),
            (
                ClientRequest::PutEnvironment(vec![("A".into(), Some("b=c".into())), ("D".into(), None)]),
                "PUT",
                "/v3/environ",
                r#"{"A":"b=c","D":null}"#,
            ),
            (ClientRequest::PutMetrics(vec![("m".into(), 1.5)]), "PUT", "/v3/metric", r#"{"m":1.5}"#),
            (ClientRequest::Events { since: Some(7), follow: false }, "GET", "/v3/events?wait=0&since=7", ""),
            (ClientRequest::Events { since: None, follow: true }, "GET", "/v3/events?wait=1", ""),
            (
                ClientRequest::Logs {
                    jobs: vec!["a b".into(), "c".into()],
                    follow: true,
                    lines: 7,
                    since: Some("5m".into()),
                },
                "GET",
                "/v3/logs?n=7&job=a%20b&job=c&since=5m&follow=1",
                "",
            ),
            (ClientRequest::Crashes { job: None, format: Format::Json }, "GET", "/v3/crashes", ""),
            (
                ClientRequest::Crashes { job: Some("a b".into()), format: Format::Json },
                "GET",
                "/v3/jobs/a%20b/crashes",
                "",
            ),
            (job(JobOrder::Stop), "PUT", "/v3/jobs/%2Fbin%2Fmy%20app%3F/stop", ""),
            (
                job(JobOrder::Signal(Signal::HUP)),
                "PUT",
                "/v3/jobs/%2Fbin%2Fmy%20app%3F/signal",
                r#"{"signal":"SIGHUP"}"#,
            ),
        ] {
            let sent = to_http(&request).request;
            assert_eq!(
                (sent.method.as_str(), sent.target.as_str(), sent.body.as_str()),
                (method, target, body)
            );
        }
    }

    #[test]
    fn a_client_that_finds_no_server_is_told_where_one_listens() {
        assert!(hint(&[]).contains("is containerpilot running?"));
        assert!(hint(&["/a".into(), "/b c".into()]).ends_with("add -socket /a or -socket /b c"));
    }

    #[test]
    fn every_value_of_a_metric_that_is_named_twice_is_sent() {
        let value = |name: &str, value: f64| (name.to_owned(), value);
        let values = [value("c", 1.0), value("d", 5.0), value("c", 2.0), value("c", 1.0)];
        let sent = one_per_name(&values);
        assert_eq!(
            sent,
            [vec![value("c", 1.0), value("d", 5.0)], vec![value("c", 2.0)], vec![value("c", 1.0)]]
        );
    }

    #[test]
    fn a_reload_is_told_in_words() {
        let summary = json!({ "started": ["a", "b"], "stopped": [], "kept": ["c"] });
        assert_eq!(reload_summary(&summary, false), "started: a, b\nkept: c\n");
        assert_eq!(reload_summary(&summary, true), "would be started: a, b\nwould be kept: c\n");
    }
}
