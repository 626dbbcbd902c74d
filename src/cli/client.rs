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
mod stream;
mod table;
mod watch;

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use exchange::{TimedRequest, TimedResponse};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

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
) -> Result<(), CommandError> {
    let socket = match socket {
        Some(socket) => socket,
        None => configured_socket(config)?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| CommandError::new(format!("cannot ask {}: {}", socket.display(), reason(&error))))?;
    runtime.block_on(perform(config, &socket, request))
}

async fn perform(config: Option<&Path>, socket: &Path, request: &ClientRequest) -> Result<(), CommandError> {
    match request {
        ClientRequest::Ping => {
            let mut response = ask(socket, &get("/v3/ping", Some(TIMEOUT))).await?;
            output::print(&printable_lines(&text(&mut response).await?))?;
        }
        ClientRequest::Ready { jobs, wait } => ready::run(socket, jobs, *wait).await?,
        ClientRequest::Status { jobs, watch: true, .. } => watch::run(socket, jobs).await?,
        ClientRequest::Status { jobs, format, watch: false } => {
            let status = outlook::only(status(socket).await?, jobs)?;
            output::print(&match format {
                Format::Json => format!("{status:#}\n"),
                Format::Human => table::render(&status, output::width()),
            })?;
        }
        ClientRequest::Why { job, format } => {
            let answer = answer(socket, &job_path(job, "why")).await?;
            output::print(&match format {
                Format::Json => format!("{answer:#}\n"),
                Format::Human => outlook::why(&answer, output::width()),
            })?;
        }
        ClientRequest::When { jobs } => {
            let status = outlook::only(status(socket).await?, jobs)?;
            output::print(&outlook::when(&status, !jobs.is_empty(), output::width()))?;
        }
        ClientRequest::Graph { format, main } => {
            outlook::graph(config, main.as_ref(), socket, *format).await?;
        }
        ClientRequest::Events { since, follow } => events::run(socket, *since, *follow).await?,
        ClientRequest::Logs { jobs, follow, lines, since } => {
            logs::run(socket, jobs, *follow, *lines, since.as_deref()).await?;
        }
        ClientRequest::Crashes { job, format } => {
            let target = job.as_ref().map_or("/v3/crashes".to_owned(), |job| job_path(job, "crashes"));
            let answer = answer(socket, &target).await?;
            output::print(&match format {
                Format::Json => format!("{answer:#}\n"),
                Format::Human => crashes::render(&answer, job.is_some()),
            })?;
        }
        ClientRequest::Report { out } => report::run(socket, out.as_deref()).await?,
        ClientRequest::Reload(reload) => {
            // Old processes may take as long to stop as they are configured to.
            let request = TimedRequest { timeout: None, ..put("/v3/reload", reload_body(*reload)) };
            let summary = value(&mut ask(socket, &request).await?).await?;
            output::print(&reload_summary(&summary, reload.dry_run))?;
        }
        ClientRequest::Maintenance(direction) => {
            let target = match direction {
                Maintenance::Enable => "/v3/maintenance/enable",
                Maintenance::Disable => "/v3/maintenance/disable",
            };
            ask(socket, &put(target, None)).await?;
        }
        ClientRequest::PutEnvironment(changes) => {
            let changes: Map<String, Value> =
                changes.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            ask(socket, &put("/v3/environ", Some(changes.into()))).await?;
        }
        ClientRequest::PutMetrics(values) => {
            for values in one_per_name(values) {
                let values: Map<String, Value> =
                    values.into_iter().map(|(name, value)| (name, json!(value))).collect();
                ask(socket, &put("/v3/metric", Some(values.into()))).await?;
            }
        }
        ClientRequest::Job(ControlJob { name, order }) => drop(ask(socket, &job_order(name, *order)).await?),
        ClientRequest::Orders { names, order, wait } => orders::run(socket, names, *order, *wait).await?,
    }
    Ok(())
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
    Err(match message {
        Some(message) => CommandError::new(printable_lines(message.trim_end())),
        None => answered(socket, status, &text),
    })
}

/// The error for a response that is not ours.
fn answered(socket: &Path, status: u16, text: &str) -> CommandError {
    let text = printable(text.trim());
    CommandError::new(format!("the control socket {} answered {status}: {text}", socket.display()))
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
    answer(socket, "/v3/status").await
}

/// The answer to a GET, which must be JSON.
async fn answer(socket: &Path, target: &str) -> Result<Value, CommandError> {
    value(&mut ask(socket, &get(target, Some(TIMEOUT))).await?).await
}

fn get(target: &str, timeout: Option<Duration>) -> TimedRequest {
    TimedRequest { request: http_request("GET", target, None), timeout }
}

fn put(target: &str, body: Option<Value>) -> TimedRequest {
    TimedRequest { request: http_request("PUT", target, body), timeout: Some(TIMEOUT) }
}

/// The path of a job, with what follows its name.
fn job_path(name: &str, verb: &str) -> String {
    format!("/v3/jobs/{}/{verb}", utf8_percent_encode(name, RESERVED))
}

/// The request that gives an order to a job, or to the jobs of a group.
fn job_order(name: &str, order: JobOrder) -> TimedRequest {
    let (verb, body) = match order {
        JobOrder::Start => ("start", None),
        JobOrder::Stop => ("stop", None),
        JobOrder::Restart => ("restart", None),
        JobOrder::Signal(signal) => ("signal", Some(json!({ "signal": signal.to_string() }))),
    };
    put(&job_path(name, verb), body)
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

fn http_request(method: &str, target: &str, body: Option<Value>) -> Request {
    let headers = [("host", "control"), ("connection", "close"), ("content-type", "application/json")];
    Request {
        method: method.to_owned(),
        target: target.to_owned(),
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

/// The summary of a reload for people.
fn reload_summary(summary: &Value, dry_run: bool) -> String {
    let would = if dry_run { "would be " } else { "" };
    let line = |key: &str| {
        let names: Vec<&str> = list(summary, key).iter().filter_map(Value::as_str).collect();
        (!names.is_empty()).then(|| format!("{would}{key}: {}\n", printable(&names.join(", "))))
    };
    ["stopped", "started", "kept"].into_iter().filter_map(line).collect()
}

/// A text of a JSON object, for people; `?` if there is none.
fn word(object: &Value, key: &str) -> String {
    printable(object[key].as_str().unwrap_or("?"))
}

/// The elements of an array in a JSON object; none if there is no such array.
fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object[key].as_array().map(Vec::as_slice).unwrap_or_default()
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
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread;

    use super::*;
    use crate::messages::signal::Signal;

    /// The method and target, and the body, of what a request sends. The answer is a failure, so that nothing is printed.
    fn sent(request: &ClientRequest) -> (String, String) {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 4096];
            let length = stream.read(&mut buffer).unwrap();
            stream.write_all(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n").unwrap();
            String::from_utf8(buffer[..length].to_vec()).unwrap()
        });
        run(None, Some(socket.clone()), request).unwrap_err();
        // Had the request not been sent, the server would wait for ever.
        drop(UnixStream::connect(socket));
        let text = server.join().unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split_once(" HTTP/1.1\r\n").unwrap().0.to_owned(), body.to_owned())
    }

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
            assert_eq!(sent(&request), (format!("{method} {target}"), body.to_owned()));
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
