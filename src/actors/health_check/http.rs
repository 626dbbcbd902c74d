//! One try of an http check: a request on a connection of its own, and what its answer must be like.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use actix_service::fn_service;
use actix_tls::connect::{ConnectError, ConnectInfo, Connection};
use awc::http::{Method, StatusCode, Uri};
use awc::{Client, Connector};

use crate::config::spec::HttpProbe;
use crate::consul::{SetupError, system_tls};
use crate::offload;

/// Of a body that must contain something, this much is read.
const LONGEST_BODY: usize = 4 << 20;

/// What all http checks send with; each kind of client is made when it is first needed.
#[derive(Clone, Default)]
pub struct Http(Rc<Clients>);

#[derive(Default)]
struct Clients {
    plain: OnceCell<Client>,
    tls: OnceCell<Client>,
}

impl Http {
    /// The client for that URL; with TLS it trusts what the system trusts.
    fn client(&self, url: &str) -> Result<Client, SetupError> {
        let is_tls = url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
        let cell = if is_tls { &self.0.tls } else { &self.0.plain };
        if let Some(client) = cell.get() {
            return Ok(client.clone());
        }
        let connector = Connector::new().connector(fn_service(|request: ConnectInfo<Uri>| async move {
            // The default one panics where no thread can be started to resolve a name.
            let stream = offload::connect(request.hostname(), request.port()).await;
            Ok(Connection::new(request.request().clone(), stream.map_err(ConnectError::Io)?))
        }));
        let connector = if is_tls { connector.rustls_0_23(Arc::new(system_tls()?)) } else { connector };
        let client = Client::builder().connector(connector).disable_redirects().disable_timeout().finish();
        Ok(cell.get_or_init(|| client).clone())
    }
}

/// Tries once; the reason if it does not pass. Whoever calls bounds the time.
pub async fn attempt(http: &Http, probe: &HttpProbe) -> Result<(), String> {
    let client = http.client(&probe.url).map_err(|error| error.to_string())?;
    let method = Method::from_bytes(probe.method.as_bytes()).map_err(|error| error.to_string())?;
    let mut request = client.request(method, &probe.url).force_close();
    for (name, value) in &probe.headers {
        request = request.append_header((name.as_str(), value.as_str()));
    }
    let mut response = request.send().await.map_err(|error| error.to_string())?;
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
