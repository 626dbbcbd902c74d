//! One try of an http check: a request on a connection of its own, and what its answer must be like.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::rc::Rc;

use awc::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use tokio::io::AsyncWriteExt;

use crate::config::spec::{HttpProbe, TlsSpec};
use crate::consul::{SetupError, Stream, Target, Tls, encryption, open};
use crate::dial;
use crate::reason::reason;

mod answer;

use answer::Answer;

/// What a path cannot hold as it is, besides what is not ASCII.
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
/// A request of ours has no body, whatever a check says.
const ABOUT_THE_BODY: [&str; 2] = ["content-length", "transfer-encoding"];

/// What all http checks share: the settings of TLS, read when they are first needed.
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

    /// The next try reads the certificates anew: they may have been renewed.
    fn forget(&self, spec: &TlsSpec) {
        self.0.borrow_mut().remove(spec);
    }
}

/// Tries once; the reason if it does not pass. Whoever calls bounds the time.
pub async fn attempt(http: &Http, probe: &HttpProbe) -> Result<(), String> {
    let url = Url::split(&probe.url);
    let tls = url.is_encrypted.then(|| http.encryption(&probe.tls)).transpose();
    let tls = tls.map_err(|error| reason(&error))?;
    let mut answer = exchange(&url, tls, probe).await.inspect_err(|_| {
        if url.is_encrypted {
            http.forget(&probe.tls);
        }
    })?;
    let verdict = judge(&mut answer, probe).await;
    if url.is_encrypted {
        answer.close().await;
    }
    verdict
}

async fn judge(answer: &mut Answer<Stream>, probe: &HttpProbe) -> Result<(), String> {
    if !is_expected(answer.status, probe.status) {
        return Err(format!("answered {}", describe(answer.status)));
    }
    let Some(wanted) = &probe.contains else { return Ok(()) };
    if answer.contains(wanted.as_bytes()).await? {
        return Ok(());
    }
    Err(format!("the answer does not contain {wanted:?}"))
}

async fn exchange(url: &Url<'_>, tls: Option<Tls>, probe: &HttpProbe) -> Result<Answer<Stream>, String> {
    let stream = ask(url, tls, request(url, probe).as_bytes()).await.map_err(|error| reason(&error))?;
    Answer::read(stream, &probe.method).await
}

async fn ask(url: &Url<'_>, tls: Option<Tls>, request: &[u8]) -> io::Result<Stream> {
    if tls.is_none() {
        return dial::send(url.host, url.port, request).await.map(Stream::Tcp);
    }
    let mut stream = open(Target::Tcp(url.host.into(), url.port, tls)).await?;
    stream.write_all(request).await?;
    stream.flush().await?;
    Ok(stream)
}

/// The parts of a URL that was found to be one.
#[derive(Debug, PartialEq, Eq)]
struct Url<'a> {
    is_encrypted: bool,
    /// `NAME` or `NAME:PASSWORD`, percent-encoded; may be empty.
    credentials: &'a str,
    /// Host and port as servers like to be named: without the usual port.
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

/// The request; a header that is asked for takes the place of the one that we would send.
fn request(url: &Url<'_>, probe: &HttpProbe) -> String {
    let method = &probe.method;
    let slash = if url.path.starts_with('/') { "" } else { "/" };
    let path = utf8_percent_encode(url.path, ENCODED);
    let mut request = String::with_capacity(256);
    // Cannot fail: a string takes all.
    let _ = write!(request, "{method} {slash}{path} HTTP/1.1\r\n");
    let mut add = |name: &str, value: &str| {
        if !probe.headers.iter().any(|(asked, _)| asked.eq_ignore_ascii_case(name)) {
            push(&mut request, name, value);
        }
    };
    add("host", url.authority);
    add("user-agent", concat!("containerpilot/", env!("CARGO_PKG_VERSION")));
    add("accept", "*/*");
    add("connection", "close");
    if !url.credentials.is_empty() {
        let (name, password) = url.credentials.split_once(':').unwrap_or((url.credentials, ""));
        let plain: Vec<u8> =
            percent_decode_str(name).chain([b':']).chain(percent_decode_str(password)).collect();
        add("authorization", &format!("Basic {}", BASE64.encode(plain)));
    }
    for (name, value) in &probe.headers {
        if !ABOUT_THE_BODY.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
            push(&mut request, name, value);
        }
    }
    if !matches!(method.as_str(), "GET" | "HEAD") {
        push(&mut request, "content-length", "0");
    }
    request.push_str("\r\n");
    request
}

fn push(request: &mut String, name: &str, value: &str) {
    let _ = write!(request, "{name}: {value}\r\n");
}

fn is_expected(status: u16, wanted: Option<u16>) -> bool {
    wanted.map_or((200..300).contains(&status), |wanted| status == wanted)
}

fn describe(status: u16) -> String {
    StatusCode::from_u16(status).map_or_else(|_| status.to_string(), |status| status.to_string())
}

#[cfg(test)]
mod tests {
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

    fn sent(url: &str, method: &str, headers: &[(&str, &str)]) -> Vec<String> {
        let probe = probe(url, method, headers);
        let request = request(&Url::split(url), &probe);
        let request = request.strip_suffix("\r\n\r\n").unwrap();
        request.split("\r\n").map(str::to_owned).collect()
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
            ["GET /x?y=1 HTTP/1.1", "host: db:81", user_agent, "accept: */*", "connection: close"],
        );
        assert_eq!(sent("http://[::1]:81", "GET", &[])[..2], ["GET / HTTP/1.1", "host: [::1]:81"]);
        assert_eq!(sent("http://db?café", "GET", &[])[0], "GET /?caf%C3%A9 HTTP/1.1");
        assert_eq!(sent("http://db/a<b>?%20=\"{}", "GET", &[])[0], "GET /a%3Cb%3E?%20=%22%7B%7D HTTP/1.1");
        for (url, host) in
            [("http://db:80", "db"), ("https://db:80", "db:80"), ("https://[::1]:443", "[::1]")]
        {
            assert_eq!(sent(url, "GET", &[])[1], format!("host: {host}"));
        }
    }

    #[test]
    fn a_request_says_that_it_has_no_body() {
        let headers = [("Content-Length", "5"), ("Transfer-Encoding", "chunked")];
        for (method, wanted) in [("POST", ["content-length: 0"].as_slice()), ("GET", &[])] {
            let lines = sent("http://db", method, &headers);
            let about: Vec<_> = lines
                .iter()
                .filter(|line| ABOUT_THE_BODY.iter().any(|name| line.to_lowercase().starts_with(name)))
                .collect();
            assert_eq!(about, wanted);
        }
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
