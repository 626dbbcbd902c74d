//! One attempt of an http check: sends a request on a new connection and decides whether the response passes. URLs are
//! taken apart here: `http::Uri` was weighed, and refuses blanks, which are encoded here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use awc::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use memchr::memmem;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::config::spec::{HttpProbe, TlsSpec};
use crate::consul::{SetupError, Stream, Target, Tls, encryption, open};
use crate::http_client::{Request, Response, send};
use crate::reason::reason;

/// Characters that are percent-encoded in a request's target, besides those that are not ASCII.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
/// Headers that a check cannot set: its request has no body.
const BODY_HEADERS: [&str; 2] = ["content-length", "transfer-encoding"];
/// This much of a body is searched for the text of `contains`.
const LONGEST_BODY: usize = 4 << 20;
/// When the verdict is known, this much of the rest is read, for this long: a server whose connection ends while it still sends
/// logs an error at each try.
const LONGEST_REST: usize = 64 << 10;
const REST_LIMIT: Duration = Duration::from_secs(1);

/// The TLS settings of all http checks, read when a check first needs them.
#[derive(Clone, Default)]
pub struct Http(Rc<RefCell<HashMap<TlsSpec, Tls>>>);

impl Http {
    fn encryption(&self, spec: &TlsSpec) -> Result<Tls, SetupError> {
        if let Some(tls) = self.0.borrow().get(spec) {
            return Ok(tls.clone());
        }
        let tls = encryption(spec)?;
        self.0.borrow_mut().insert(spec.clone(), tls.clone());
        Ok(tls)
    }

    /// Makes the next attempt read the certificates again: they may have been renewed.
    fn forget(&self, spec: &TlsSpec) {
        self.0.borrow_mut().remove(spec);
    }
}

/// Sends one request; the error is the reason why the check does not pass. The caller bounds the time.
pub async fn attempt(http: &Http, probe: &HttpProbe) -> Result<(), String> {
    let url = Url::split(&probe.url);
    let tls = url.is_encrypted.then(|| http.encryption(&probe.tls)).transpose();
    let tls = tls.map_err(|error| reason(&error))?;
    let mut response = exchange(&url, tls, probe).await.inspect_err(|_| {
        if url.is_encrypted {
            http.forget(&probe.tls);
        }
    })?;
    let verdict = judge(&mut response, probe).await;
    actix_rt::spawn(finish(response)); // nobody waits for it
    verdict
}

/// Lets the server send the rest of its response, within limits, and closes the connection.
async fn finish<S>(mut response: Response<S>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let finished = async move {
        let mut read = 0;
        while let Ok(Some(piece)) = response.chunk().await {
            read += piece.len();
            if read > LONGEST_REST {
                break;
            }
        }
        response.close().await;
    };
    let _ = tokio::time::timeout(REST_LIMIT, finished).await; // too slow: it is dropped, and closed by that
}

async fn exchange(url: &Url<'_>, tls: Option<Tls>, probe: &HttpProbe) -> Result<Response<Stream>, String> {
    let exchanged = async {
        let stream = open(Target::Tcp(url.host.into(), url.port, tls)).await?;
        send(stream, &request(url, probe)).await
    };
    exchanged.await.map_err(|error| reason(&error))
}

/// Decides whether a response passes; the error is the reason why it does not.
pub async fn judge<S>(response: &mut Response<S>, probe: &HttpProbe) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if !is_expected(response.status, probe.status) {
        return Err(format!("answered {}", describe(response.status)));
    }
    let Some(wanted) = &probe.contains else { return Ok(()) };
    if contains(response, wanted.as_bytes()).await? {
        return Ok(());
    }
    Err(format!("the answer does not contain {wanted:?}"))
}

/// Does the body contain this text? Reads no further than its end.
async fn contains<S>(response: &mut Response<S>, wanted: &[u8]) -> Result<bool, String>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // Begins with the last bytes of the piece before: the text may begin there.
    let mut text = Vec::new();
    let mut searched = 0;
    while let Some(piece) = response.chunk().await.map_err(|error| reason(&error))? {
        searched += piece.len();
        text.extend(piece);
        if memmem::find(&text, wanted).is_some() {
            return Ok(true);
        }
        if searched > LONGEST_BODY {
            return Err(format!("the first {LONGEST_BODY} bytes of the answer do not contain the text"));
        }
        text.drain(..text.len().saturating_sub(wanted.len().saturating_sub(1)));
    }
    Ok(wanted.is_empty())
}

/// The parts of a URL that the configuration has validated.
#[derive(Debug, PartialEq, Eq)]
struct Url<'a> {
    is_encrypted: bool,
    /// `NAME` or `NAME:PASSWORD`, percent-encoded; may be empty.
    credentials: &'a str,
    /// The value of the Host header: the default port is left out.
    authority: &'a str,
    /// Without brackets.
    host: &'a str,
    port: u16,
    /// Path and query; may lack the slash.
    path: &'a str,
}

impl<'a> Url<'a> {
    fn split(url: &'a str) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (credentials, authority) = authority.rsplit_once('@').unwrap_or(("", authority));
        let is_encrypted = scheme.eq_ignore_ascii_case("https");
        let usual = if is_encrypted { 443 } else { 80 };
        // The last colon, unless it is one of an IPv6 address.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().unwrap_or(usual)),
            Some(_) | None => (authority, usual),
        };
        let authority = if port == usual { host } else { authority };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Self { is_encrypted, credentials, authority, host, port, path }
    }
}

/// The request of a check. A header that the user sets replaces ours of the same name.
fn request(url: &Url<'_>, probe: &HttpProbe) -> Request {
    let is_set = |name: &str| probe.headers.iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
    let mut headers = vec![
        ("host", url.authority.to_owned()),
        ("user-agent", concat!("containerpilot/", env!("CARGO_PKG_VERSION")).to_owned()),
        ("accept", "*/*".to_owned()),
        ("connection", "close".to_owned()),
    ];
    if !url.credentials.is_empty() {
        headers.push(("authorization", basic_authorization(url.credentials)));
    }
    headers.retain(|(name, _)| !is_set(name));
    let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value));
    let allowed = |name: &str| !BODY_HEADERS.iter().any(|header| name.eq_ignore_ascii_case(header));
    let set = probe.headers.iter().filter(|(name, _)| allowed(name)).cloned();
    let slash = if url.path.starts_with('/') { "" } else { "/" };
    Request {
        method: probe.method.clone(),
        target: format!("{slash}{}", utf8_percent_encode(url.path, ENCODED)),
        headers: headers.chain(set).collect(),
        body: String::new(),
    }
}

/// The credentials of a URL as HTTP Basic authentication (RFC 7617).
fn basic_authorization(credentials: &str) -> String {
    let (name, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let plain: Vec<u8> = percent_decode_str(name).chain([b':']).chain(percent_decode_str(password)).collect();
    format!("Basic {}", BASE64.encode(plain))
}

fn is_expected(status: u16, wanted: Option<u16>) -> bool {
    wanted.map_or((200..300).contains(&status), |wanted| status == wanted)
}

fn describe(status: u16) -> String {
    StatusCode::from_u16(status).map_or_else(|_| status.to_string(), |status| status.to_string())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn probe(url: &str, method: &str, headers: &[(&str, &str)]) -> HttpProbe {
        HttpProbe {
            url: url.to_owned(),
            method: method.to_owned(),
            status: None,
            headers: headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
            contains: None,
            tls: TlsSpec {
                ca_file: None,
                ca_path: None,
                client_cert: None,
                client_key: None,
                server_name: None,
                verify: true,
            },
        }
    }

    /// The request line and the headers.
    fn sent(url: &str, method: &str, headers: &[(&str, &str)]) -> Vec<String> {
        let Request { method, target, headers, body } =
            request(&Url::split(url), &probe(url, method, headers));
        assert_eq!(body, "");
        let headers = headers.iter().map(|(name, value)| format!("{name}: {value}"));
        [format!("{method} {target}")].into_iter().chain(headers).collect()
    }

    /// Does the body of this response contain the text, when it arrives in pieces of at most this size?
    async fn found(body: &str, piece: usize, wanted: &str) -> Result<bool, String> {
        let (stream, server) = tokio::io::duplex(piece);
        let (mut requests, mut responses) = tokio::io::split(server);
        let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let serves = async {
            let sent = responses.write_all(response.as_bytes());
            let mut ignored = tokio::io::sink();
            let _ = tokio::join!(sent, tokio::io::copy(&mut requests, &mut ignored));
        };
        let asks = async {
            let probe = probe("http://db", "GET", &[]);
            let mut response = send(stream, &request(&Url::split(&probe.url), &probe)).await.unwrap();
            contains(&mut response, wanted.as_bytes()).await
        };
        tokio::join!(asks, serves).0
    }

    #[tokio::test]
    async fn a_text_is_found_however_the_body_is_cut_into_pieces() {
        for piece in [1, 2, 3, 7, 1000] {
            for (wanted, expected) in
                [("is well", true), ("all is well.", true), ("is ill", false), ("\r\n", false)]
            {
                assert_eq!(
                    found("all is well.", piece, wanted).await,
                    Ok(expected),
                    "{wanted:?} in pieces of {piece}"
                );
            }
        }
    }

    #[tokio::test]
    async fn the_search_for_a_text_ends_after_four_mebibytes() {
        let body = "x".repeat(LONGEST_BODY + (1 << 20));
        let reason = "the first 4194304 bytes of the answer do not contain the text";
        assert_eq!(found(&body, 1 << 20, "none").await, Err(reason.to_owned()));
    }

    /// Can a server that sends this body after the verdict is known send it all? And how long was the connection open?
    async fn finished(announced: usize, body: &[u8]) -> (bool, Duration) {
        let (stream, mut server) = tokio::io::duplex(1024);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {announced}\r\n\r\n");
        let serves = async {
            server.write_all(head.as_bytes()).await.unwrap();
            let is_sent = server.write_all(body).await.is_ok();
            let mut ignored = tokio::io::sink();
            let _ = tokio::io::copy(&mut server, &mut ignored).await;
            is_sent
        };
        let asks = async {
            let probe = probe("http://db", "GET", &[]);
            let mut response = send(stream, &request(&Url::split(&probe.url), &probe)).await.unwrap();
            assert_eq!(judge(&mut response, &probe).await, Ok(()));
            finish(response).await;
        };
        let began = tokio::time::Instant::now();
        let ((), is_sent) = tokio::join!(asks, serves);
        (is_sent, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_can_send_the_rest_of_its_answer_within_limits() {
        assert_eq!(finished(60_000, &[b'x'; 60_000]).await, (true, Duration::ZERO));
        assert_eq!(finished(1 << 20, &[b'x'; 1 << 20]).await, (false, Duration::ZERO));
        assert_eq!(finished(60_000, b"x").await, (true, REST_LIMIT));
    }

    #[test]
    fn any_2xx_passes_unless_a_status_is_asked_for() {
        assert!(is_expected(204, None));
        assert!(!is_expected(302, None) && !is_expected(199, None));
        assert!(is_expected(302, Some(302)));
        assert!(!is_expected(200, Some(302)));
    }

    #[test]
    fn a_url_is_split_into_where_to_connect_and_what_to_ask_for() {
        for (url, host, port, path) in [
            ("http://db", "db", 80, ""),
            ("HTTPS://db?x#y", "db", 443, "?x"),
            ("http://10.0.0.1:8080/a/b?c=http://d:1@e", "10.0.0.1", 8080, "/a/b?c=http://d:1@e"),
            ("http://[::1]/", "::1", 80, "/"),
            ("https://me:secret@[::1]:8443/", "::1", 8443, "/"),
        ] {
            let split = Url::split(url);
            assert_eq!((split.host, split.port, split.path), (host, port, path), "{url}");
        }
    }

    #[test]
    fn a_request_names_the_host_and_keeps_nothing_open() {
        let user_agent = concat!("user-agent: containerpilot/", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            sent("http://db:81/x?y=1", "GET", &[]),
            ["GET /x?y=1", "host: db:81", user_agent, "accept: */*", "connection: close"],
        );
        assert_eq!(sent("http://[::1]:81", "GET", &[])[..2], ["GET /", "host: [::1]:81"]);
        assert_eq!(sent("http://db?café", "GET", &[])[0], "GET /?caf%C3%A9");
        assert_eq!(sent("http://db/a<b>?%20=\"{}", "GET", &[])[0], "GET /a%3Cb%3E?%20=%22%7B%7D");
        for (url, host) in
            [("http://db:80", "db"), ("https://db:80", "db:80"), ("https://[::1]:443", "[::1]")]
        {
            assert_eq!(sent(url, "GET", &[])[1], format!("host: {host}"));
        }
    }

    #[test]
    fn a_check_cannot_announce_a_body() {
        let lines = sent("http://db", "POST", &[("Content-Length", "5"), ("Transfer-Encoding", "chunked")]);
        let announces = |line: &String| BODY_HEADERS.iter().any(|name| line.to_lowercase().starts_with(name));
        assert!(!lines.iter().any(announces), "{lines:?}");
    }

    #[test]
    fn a_header_of_the_user_takes_the_place_of_ours() {
        let lines = sent("http://db", "GET", &[("Host", "other"), ("X-A", "1"), ("X-A", "2")]);
        assert_eq!(lines.iter().filter(|line| line.to_lowercase().starts_with("host:")).count(), 1);
        assert_eq!(lines[lines.len() - 3..], ["Host: other", "X-A: 1", "X-A: 2"]);
    }

    #[test]
    fn name_and_password_of_a_url_are_sent_as_such() {
        let lines = sent("http://me:p%40ss@db", "GET", &[]);
        assert!(lines.contains(&"authorization: Basic bWU6cEBzcw==".to_owned()), "{lines:?}");
        assert!(lines.contains(&"host: db".to_owned()));
        let lines = sent("http://token@db", "GET", &[]);
        assert!(lines.contains(&"authorization: Basic dG9rZW46".to_owned()), "{lines:?}");
        let lines = sent("http://@db", "GET", &[]);
        assert!(!lines.iter().any(|line| line.starts_with("authorization")), "{lines:?}");
    }
}
