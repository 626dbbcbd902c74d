//! One try of an http check: a request on a connection of its own, and what its answer must be like.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use awc::Client;
use awc::error::{ConnectError, SendRequestError};
use awc::http::{Method, StatusCode};

use crate::config::spec::{HttpProbe, TlsSpec};
use crate::consul::{SetupError, web_client};

/// Of a body that must contain something, this much is read.
const LONGEST_BODY: usize = 4 << 20;

/// What all http checks send with: a client for each kind of TLS, and one without, made when it is first needed.
#[derive(Clone, Default)]
pub struct Http(Rc<RefCell<HashMap<Option<TlsSpec>, Client>>>);

impl Http {
    fn client(&self, tls: Option<&TlsSpec>) -> Result<Client, SetupError> {
        if let Some(client) = self.0.borrow().get(&tls.cloned()) {
            return Ok(client.clone());
        }
        let client = web_client(tls)?;
        self.0.borrow_mut().insert(tls.cloned(), client.clone());
        Ok(client)
    }

    /// The next try reads the certificates anew: they may have been renewed.
    fn forget(&self, tls: &TlsSpec) {
        self.0.borrow_mut().remove(&Some(tls.clone()));
    }
}

/// Tries once; the reason if it does not pass. Whoever calls bounds the time.
pub async fn attempt(http: &Http, probe: &HttpProbe) -> Result<(), String> {
    let (url, tls) = split(probe);
    let client = http.client(tls).map_err(|error| error.to_string())?;
    let method = Method::from_bytes(probe.method.as_bytes()).map_err(|error| error.to_string())?;
    let mut request = client.request(method, url).force_close();
    for (name, value) in &probe.headers {
        request = request.append_header((name.as_str(), value.as_str()));
    }
    let mut response = request.send().await.map_err(|error| {
        tls.into_iter().for_each(|tls| http.forget(tls));
        not_sent(&error)
    })?;
    let status = response.status();
    if !is_expected(status, probe.status) {
        return Err(format!("answered {status}"));
    }
    let Some(wanted) = &probe.contains else { return Ok(()) };
    let body = response.body().limit(LONGEST_BODY).await.map_err(|error| error.to_string())?;
    if memchr::memmem::find(&body, wanted.as_bytes()).is_none() {
        return Err(format!("the answer does not contain {wanted:?}"));
    }
    Ok(())
}

/// TLS is made beneath HTTP: what is asked for is a plain URL, and the settings of TLS if there are to be any.
fn split(probe: &HttpProbe) -> (String, Option<&TlsSpec>) {
    match probe.url.split_at_checked(6) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https:") => {
            (format!("http:{rest}"), Some(&probe.tls))
        }
        Some(_) | None => (probe.url.clone(), None),
    }
}

/// awc's words for errors can be poor: the cause is what helps.
fn not_sent(error: &SendRequestError) -> String {
    if let SendRequestError::Connect(ConnectError::Io(error)) = error {
        return error.to_string();
    }
    error.to_string()
}

fn is_expected(status: StatusCode, wanted: Option<u16>) -> bool {
    wanted.map_or(status.is_success(), |wanted| status.as_u16() == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_2xx_passes_unless_a_status_is_asked_for() {
        assert!(is_expected(StatusCode::NO_CONTENT, None));
        assert!(!is_expected(StatusCode::FOUND, None));
        assert!(is_expected(StatusCode::FOUND, Some(302)));
        assert!(!is_expected(StatusCode::OK, Some(302)));
    }
}
