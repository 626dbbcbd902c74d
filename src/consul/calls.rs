//! The calls: register, update, deregister, and blocking queries.

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::hash::{Hash, Hasher};
use std::io;
use std::time::Duration;

use awc::error::{ConnectError, PayloadError, SendRequestError};
use awc::http::{Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::connect::{CONNECTING, consul_client};
use super::error::{CallError, SetupError};
use crate::config::spec::{ConsulAddress, ConsulSpec, Secret};
use crate::messages::discovery::{Found, Query, QueryReply, QueryTarget, Registration, ServiceStatus};
use crate::reason::reason;

/// The longest response that is read; a large catalogue fits.
const LONGEST_RESPONSE: usize = 16 << 20;
/// The number of characters of an error response that are logged.
const LONGEST_MESSAGE: usize = 200;
/// The characters that are escaped in a path segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');
/// As in a segment, but keys of the KV store may contain slashes.
const KEY: &AsciiSet = &SEGMENT.remove(b'/');

/// A client of one Consul agent.
#[derive(Clone)]
pub struct Client {
    http: awc::Client,
    base: String,
    address: ConsulAddress,
    token: Option<Secret>,
}

/// A part of the catalogue that has one index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All checks.
    Checks,
    /// All services.
    Services,
}

/// A response with any status.
struct Reply {
    status: StatusCode,
    index: Option<u64>,
    body: Vec<u8>,
}

impl Reply {
    /// Consul's 404 has no body, and an index. Another one comes from a proxy, and does not say that a key is gone.
    const fn is_of_consul(&self) -> bool {
        self.index.is_some() || self.body.is_empty()
    }
}

impl Client {
    /// A client with those settings. Reads certificates, but does not connect yet.
    pub fn new(spec: &ConsulSpec) -> Result<Self, SetupError> {
        let (http, base) = consul_client(spec)?;
        Ok(Self { http, base, address: spec.address.clone(), token: spec.token.clone() })
    }

    /// The address of its Consul.
    pub const fn address(&self) -> &ConsulAddress {
        &self.address
    }

    /// Registers a service with its check; replaces a service with the same id.
    pub async fn register(
        &self,
        service: &Registration,
        status: ServiceStatus,
        limit: Duration,
    ) -> Result<(), CallError> {
        let path = "/v1/agent/service/register?replace-existing-checks=true";
        self.put(path, &registration(service, status), limit).await
    }

    /// Sets the status of a registered service.
    pub async fn update(&self, id: &str, status: ServiceStatus, limit: Duration) -> Result<(), CallError> {
        let path = format!("/v1/agent/check/update/{}", escape(&check_id(id), SEGMENT));
        self.put(&path, &json!({ "Status": status.to_string(), "Output": output(status) }), limit).await
    }

    /// Deregisters a service and its check.
    pub async fn deregister(&self, id: &str, limit: Duration) -> Result<(), CallError> {
        let path = format!("/v1/agent/service/deregister/{}", escape(id, SEGMENT));
        self.put(&path, &Value::Null, limit).await
    }

    /// Queries a service or keys. With `newer_than` it is a blocking query, and `limit` starts when its wait is over.
    pub async fn query(&self, query: &Query, limit: Duration) -> Result<QueryReply, CallError> {
        let limit = limit + patience(query.newer_than);
        let reply = self.exchange(Method::GET, &query_path(query), None, limit).await?;
        let found = match (&query.target, reply.status) {
            (QueryTarget::Key(_) | QueryTarget::Prefix(_), StatusCode::NOT_FOUND) if reply.is_of_consul() => {
                Vec::new()
            }
            (QueryTarget::Service { .. }, StatusCode::OK) => instances(&reply.body)?,
            (QueryTarget::Key(_) | QueryTarget::Prefix(_), StatusCode::OK) => entries(&reply.body)?,
            (QueryTarget::Service { .. } | QueryTarget::Key(_) | QueryTarget::Prefix(_), _) => {
                return Err(self.failure(&reply));
            }
        };
        Ok(QueryReply { found, index: reply.index })
    }

    /// The index of the latest change in a scope; blocking and `limit` as for [`query`](Self::query).
    pub async fn newest(
        &self,
        scope: Scope,
        newer_than: Option<(u64, Duration)>,
        limit: Duration,
    ) -> Result<Option<u64>, CallError> {
        let mut path = match scope {
            // The filter matches no check: only the index is of interest, not the list.
            Scope::Checks => "/v1/health/state/any?filter=CheckID+==+%22%22".to_owned(),
            Scope::Services => "/v1/catalog/services?".to_owned(),
        };
        path += &blocking(newer_than);
        let reply = self.exchange(Method::GET, &path, None, limit + patience(newer_than)).await?;
        if reply.status == StatusCode::OK { Ok(reply.index) } else { Err(self.failure(&reply)) }
    }

    async fn put(&self, path: &str, body: &Value, limit: Duration) -> Result<(), CallError> {
        let reply = self.exchange(Method::PUT, path, Some(body), limit).await?;
        if reply.status != StatusCode::OK {
            return Err(self.failure(&reply));
        }
        // Consul responds with an empty body. Anything else comes from another server at this address.
        match reply.body.trim_ascii() {
            b"" | b"true" | b"null" => Ok(()),
            _ => Err(CallError::Garbled("expected nothing, found a text".to_owned())),
        }
    }

    /// One request and its complete response, within `limit`.
    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        limit: Duration,
    ) -> Result<Reply, CallError> {
        tokio::time::timeout(limit, self.send(method, path, body))
            .await
            .unwrap_or(Err(CallError::TimedOut(limit)))
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Reply, CallError> {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.insert_header(("X-Consul-Token", token.expose()));
        }
        let sent = match body {
            Some(body) => request.send_json(body).await,
            None => request.send().await,
        };
        let mut response = sent.map_err(|error| not_sent(&error))?;
        let index = response.headers().get("X-Consul-Index");
        let index = index.and_then(|value| value.to_str().ok()?.parse().ok());
        let status = response.status();
        let body = response.body().limit(LONGEST_RESPONSE).await.map_err(|error| not_read(&error))?;
        Ok(Reply { status, index, body: body.to_vec() })
    }

    fn failure(&self, reply: &Reply) -> CallError {
        let text = String::from_utf8_lossy(&reply.body);
        let text = match &self.token {
            Some(token) if !token.expose().is_empty() => text.replace(token.expose(), "[hidden]"),
            Some(_) | None => text.into_owned(),
        };
        let printable = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
        CallError::Answered {
            status: reply.status.as_u16(),
            message: printable.take(LONGEST_MESSAGE).collect(),
        }
    }
}

/// Takes the reason from the cause, since awc's own texts say little.
fn not_sent(error: &SendRequestError) -> CallError {
    if let SendRequestError::Connect(ConnectError::Io(error)) = error {
        return CallError::Unreachable(reason(error));
    }
    if let SendRequestError::Connect(ConnectError::Disconnected) = error {
        return CallError::Unreachable("it closed the connection".to_owned());
    }
    if let SendRequestError::Connect(ConnectError::Timeout) = error {
        return CallError::Unreachable(format!("no connection within {}s", CONNECTING.as_secs()));
    }
    if let SendRequestError::Response(answer) = error
        && !comes_from_the_network(answer)
    {
        return CallError::Garbled(answer.to_string());
    }
    CallError::Unreachable(reason(error))
}

fn comes_from_the_network(error: &impl Error) -> bool {
    error.source().is_some_and(|cause| cause.is::<io::Error>())
}

fn not_read(error: &PayloadError) -> CallError {
    if let PayloadError::Overflow = error {
        return CallError::Garbled(format!("it is longer than {LONGEST_RESPONSE} bytes"));
    }
    if let PayloadError::Incomplete(_) | PayloadError::Io(_) = error {
        return CallError::Unreachable("it closed the connection early".to_owned());
    }
    CallError::Garbled(error.to_string())
}

fn escape(text: &str, allowed: &'static AsciiSet) -> String {
    utf8_percent_encode(text, allowed).to_string()
}

fn check_id(id: &str) -> String {
    format!("service:{id}")
}

/// The same text at each heartbeat: a new one would end the blocking queries of all who watch.
fn output(status: ServiceStatus) -> &'static str {
    match status {
        ServiceStatus::Passing => "containerpilot: healthy",
        ServiceStatus::Warning => "containerpilot: not checked yet",
        ServiceStatus::Critical => "containerpilot: not healthy",
    }
}

fn registration(service: &Registration, status: ServiceStatus) -> Value {
    let mut check = json!({
        "CheckID": check_id(&service.id),
        "TTL": milliseconds(service.ttl),
        "Status": status.to_string(),
        "Notes": format!("TTL for {} set by containerpilot", service.name),
    });
    if let (Some(after), Some(check)) = (service.deregister_critical_after, check.as_object_mut()) {
        check.insert("DeregisterCriticalServiceAfter".to_owned(), milliseconds(after).into());
    }
    json!({
        "ID": &*service.id,
        "Name": service.name,
        "Address": service.address.to_string(),
        "Port": service.port,
        "Tags": service.tags,
        "Meta": service.meta.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect::<Map<_, _>>(),
        "EnableTagOverride": service.enable_tag_override,
        "Check": check,
    })
}

fn milliseconds(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

fn query_path(query: &Query) -> String {
    let mut path = match &query.target {
        QueryTarget::Service { name, tag } => {
            let tag = tag.as_ref().map(|tag| format!("&tag={}", escape(tag, SEGMENT))).unwrap_or_default();
            format!("/v1/health/service/{}?passing=1{tag}", escape(name, SEGMENT))
        }
        QueryTarget::Key(key) => format!("/v1/kv/{}?", escape(key, KEY)),
        QueryTarget::Prefix(prefix) => format!("/v1/kv/{}?recurse=1", escape(prefix, KEY)),
    };
    if let Some(datacentre) = &query.datacentre {
        path += &format!("&dc={}", escape(datacentre, SEGMENT));
    }
    path + &blocking(query.newer_than)
}

fn blocking(newer_than: Option<(u64, Duration)>) -> String {
    newer_than.map_or_else(String::new, |(index, wait)| format!("&index={index}&wait={}", milliseconds(wait)))
}

/// The time that Consul may hold a query: it adds up to a sixteenth to the wait, to spread the load.
fn patience(newer_than: Option<(u64, Duration)>) -> Duration {
    newer_than.map_or(Duration::ZERO, |(_, wait)| wait + wait / 16)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HealthEntry {
    node: Node,
    service: Service,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
    address: String,
}

#[derive(Deserialize)]
struct Service {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "Address", default)]
    address: String,
    /// Consul accepts any number.
    #[serde(rename = "Port", default)]
    port: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KeyValue {
    key: String,
    value: Option<String>,
    #[serde(default)]
    flags: u64,
}

fn instances(body: &[u8]) -> Result<Vec<Found>, CallError> {
    let entries: Vec<HealthEntry> = parse(body)?;
    let mut found: Vec<Found> = entries
        .into_iter()
        .map(|HealthEntry { node, service }| Found::Instance {
            id: service.id,
            // A service without an address has that of its node.
            address: if service.address.is_empty() { node.address } else { service.address },
            // Zero means no port in Consul. One instance with an invalid port must not hide the others.
            port: u16::try_from(service.port).unwrap_or(0),
        })
        .collect();
    found.sort();
    Ok(found)
}

fn entries(body: &[u8]) -> Result<Vec<Found>, CallError> {
    let entries: Vec<KeyValue> = parse(body)?;
    let mut found: Vec<Found> = entries
        .into_iter()
        .map(|KeyValue { key, value, flags }| {
            let mut hasher = DefaultHasher::new();
            (value, flags).hash(&mut hasher);
            Found::Entry { key, digest: hasher.finish() }
        })
        .collect();
    found.sort();
    Ok(found)
}

fn parse<T: for<'a> Deserialize<'a>>(body: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(body).map_err(|error| CallError::Garbled(error.to_string()))
}

#[cfg(test)]
mod tests;
