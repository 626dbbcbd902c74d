//! Requests to a running containerpilot, through its control socket.

mod events;
mod http;
mod live;
mod table;

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use http::{Answer, Call, encoded};
use serde_json::{Map, Number, Value, json};

use super::request::{ClientRequest, Format, JobAction, Maintenance};
use super::{CommandError, environment, found, output};
use crate::config;
use crate::config::spec::Spec;
use crate::printable::{printable, printable_lines};
use crate::reason::reason;

/// How long an answer may take that is there at once if all is well.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than the longest answer, so that something that is not ours cannot fill our memory.
const LONGEST_ANSWER: u64 = 64 << 20;

/// Sends the request to a control socket, by default the one that the configuration names, and prints the answer.
pub fn run(
    config: Option<&Path>,
    named: Option<PathBuf>,
    request: &ClientRequest,
) -> Result<ExitCode, CommandError> {
    let socket = named.unwrap_or_else(|| socket(config));
    let mut answer = http::send(&socket, &call(request)).map_err(|error| unreachable(&socket, &error))?;
    if (200..300).contains(&answer.status) {
        print(request, answer)
    } else {
        let text = text(&mut answer)?;
        let said = serde_json::from_str::<Value>(&text).ok();
        let said = said.as_ref().and_then(|said| said.get("error")?.as_str());
        let status = answer.status;
        Err(CommandError::new(match said {
            Some(message) => printable_lines(message.trim_end()),
            None => {
                let said = printable(text.trim());
                format!("the control socket {} answered {status}: {said}", socket.display())
            }
        }))
    }
}

/// Where the socket is: a configuration that is wrong elsewhere still says it, and without any it has its default
/// place.
fn socket(config: Option<&Path>) -> PathBuf {
    let configured = found(config).ok().and_then(|path| config::control_socket(&path, &environment()));
    configured.unwrap_or_else(|| Spec::default().control.socket)
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

/// What to do when nobody is where the configuration says; it may have been changed and not been loaded yet.
fn hint(live: &[PathBuf]) -> String {
    let live: Vec<String> = live.iter().map(|path| format!("-socket {}", path.display())).collect();
    if live.is_empty() {
        "; is containerpilot running? If it listens elsewhere, say where: -socket PATH".to_owned()
    } else {
        let list = live.join(" or ");
        format!(". A containerpilot listens elsewhere: if that is the one you mean, add {list}")
    }
}

fn call(request: &ClientRequest) -> Call {
    let get = |target: String, patience| Call { method: "GET", target, body: String::new(), patience };
    let put = |target: &str, body: Option<Value>| {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        Call { method: "PUT", target: target.to_owned(), body, patience: Some(PATIENCE) }
    };
    match request {
        ClientRequest::Ping => get("/v3/ping".to_owned(), Some(PATIENCE)),
        ClientRequest::Status { .. } => get("/v3/status".to_owned(), Some(PATIENCE)),
        ClientRequest::Events { since, follow } => {
            let since = since.map(|since| format!("&since={since}")).unwrap_or_default();
            let patience = if *follow { None } else { Some(PATIENCE) };
            get(format!("/v3/events?wait={}{since}", u8::from(*follow)), patience)
        }
        // Old processes may take as long to stop as they are configured to.
        ClientRequest::Reload { all, dry_run } => {
            Call { patience: None, ..put("/v3/reload", reload(*all, *dry_run)) }
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
        ClientRequest::Job { name, action } => {
            let (verb, body) = match action {
                JobAction::Start => ("start", None),
                JobAction::Stop => ("stop", None),
                JobAction::Restart => ("restart", None),
                JobAction::Signal(signal) => ("signal", Some(json!({ "signal": signal.to_string() }))),
            };
            put(&format!("/v3/jobs/{}/{verb}", encoded(name)), body)
        }
    }
}

fn reload(all: bool, dry_run: bool) -> Option<Value> {
    match (all, dry_run) {
        (false, false) => None,
        (true, false) => Some(json!({ "restart": "all" })),
        (false, true) => Some(json!({ "dryRun": true })),
        (true, true) => Some(json!({ "restart": "all", "dryRun": true })),
    }
}

fn print(request: &ClientRequest, mut answer: Answer) -> Result<ExitCode, CommandError> {
    match request {
        ClientRequest::Events { .. } => events::print(answer.body)?,
        ClientRequest::Ping => output::print(&printable_lines(&text(&mut answer)?))?,
        ClientRequest::Status { format: Format::Json } => {
            output::print(&format!("{:#}\n", value(&mut answer)?))?;
        }
        ClientRequest::Status { format: Format::Human } => {
            output::print(&table::render(&value(&mut answer)?, output::width()))?;
        }
        ClientRequest::Reload { dry_run, .. } => {
            output::print(&told(&value(&mut answer)?, *dry_run))?;
        }
        ClientRequest::Maintenance(_)
        | ClientRequest::PutEnvironment(_)
        | ClientRequest::PutMetrics(_)
        | ClientRequest::Job { .. } => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// What a reload did or would do, in words.
fn told(summary: &Value, dry_run: bool) -> String {
    let would = if dry_run { "would be " } else { "" };
    let line = |key: &str| {
        let names = summary.get(key).and_then(Value::as_array)?;
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        (!names.is_empty()).then(|| format!("{would}{key}: {}\n", printable(&names.join(", "))))
    };
    ["stopped", "started", "kept"].into_iter().filter_map(line).collect()
}

fn value(answer: &mut Answer) -> Result<Value, CommandError> {
    serde_json::from_str(&text(answer)?)
        .map_err(|error| CommandError::new(format!("cannot read the answer: {error}")))
}

fn text(answer: &mut Answer) -> Result<String, CommandError> {
    let mut text = String::new();
    match (&mut answer.body).take(LONGEST_ANSWER).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(CommandError::new(format!("cannot read the answer: {}", reason(&error)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::signal::Signal;

    #[test]
    fn every_request_goes_to_its_place() {
        let job = |action| ClientRequest::Job { name: "/bin/a".to_owned(), action };
        for (request, method, target, body) in [
            (ClientRequest::Ping, "GET", "/v3/ping", ""),
            (ClientRequest::Reload { all: false, dry_run: false }, "PUT", "/v3/reload", ""),
            (
                ClientRequest::Reload { all: true, dry_run: false },
                "PUT",
                "/v3/reload",
                r#"{"restart":"all"}"#,
            ),
            (ClientRequest::Reload { all: false, dry_run: true }, "PUT", "/v3/reload", r#"{"dryRun":true}"#),
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
            (job(JobAction::Stop), "PUT", "/v3/jobs/%2Fbin%2Fa/stop", ""),
            (
                job(JobAction::Signal(Signal::HUP)),
                "PUT",
                "/v3/jobs/%2Fbin%2Fa/signal",
                r#"{"signal":"SIGHUP"}"#,
            ),
        ] {
            let call = call(&request);
            assert_eq!((call.method, call.target.as_str(), call.body.as_str()), (method, target, body));
        }
    }

    #[test]
    fn who_asks_at_the_wrong_place_is_told_of_the_right_one() {
        assert!(hint(&[]).contains("is containerpilot running?"));
        assert!(hint(&["/a".into(), "/b c".into()]).ends_with("add -socket /a or -socket /b c"));
    }

    #[test]
    fn a_reload_is_told_in_words() {
        let summary = json!({ "started": ["a", "b"], "stopped": [], "kept": ["c"] });
        assert_eq!(told(&summary, false), "started: a, b\nkept: c\n");
        assert_eq!(told(&summary, true), "would be started: a, b\nwould be kept: c\n");
    }
}
