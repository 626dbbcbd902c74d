//! Whatever a service answers to an http check: the verdict does not depend on how the answer is cut into pieces, it is
//! right where the answer is, its reason is printable, and memory stays bounded.
#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use containerpilot::actors::health_check::http::judge;
use containerpilot::config::spec::{HttpProbe, TlsSpec};
use containerpilot::http_client::{Request, send};
use containerpilot::reason::reason;
use containerpilot_fuzz::answer::{Answer, Script, run};
use containerpilot_fuzz::delivery::Cuts;
use containerpilot_fuzz::memory;
use libfuzzer_sys::fuzz_target;

const MOST_MEMORY: usize = 8 << 20;

#[derive(Debug)]
struct Input {
    answer: Answer,
    cuts: Cuts,
    is_head: bool,
    status: Option<u16>,
    contains: Option<String>,
}

impl<'a> Arbitrary<'a> for Input {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let is_head = u.ratio(1, 8)?;
        let status = if u.ratio(1, 4)? { Some(*u.choose(&[200, 404, 503])?) } else { None };
        let contains =
            if u.arbitrary()? { Some((*u.choose(&["ok", "", "aab", "\r\n", "is well"])?).to_owned()) } else { None };
        let mut body = Vec::new();
        for _ in 0..u.int_in_range(0..=6)? {
            body.extend(u.choose(&["ok", "a", "aa", "b", "\r\n", "is ", "well", "0\r\n\r\n", "é"])?.bytes());
        }
        if u.ratio(1, 6)? {
            body = body.repeat(u.int_in_range(0..=2000)?);
        }
        Ok(Self { answer: Answer::arbitrary(u, body, &[])?, cuts: Cuts::arbitrary(u)?, is_head, status, contains })
    }
}

fuzz_target!(|input: Input| {
    let whole = verdict(&input, [&input.answer.bytes[..]]);
    let cut = verdict(&input, input.cuts.pieces(&input.answer.bytes).into_iter().map(|(piece, _)| piece));
    assert_eq!(whole, cut, "{input:?}");
    if let Err(reason) = &whole {
        assert!(!reason.is_empty() && reason.len() < 500, "{reason:?}");
        assert!(!reason.contains(char::is_control), "{reason:?}");
    }
    if let Some((status, body)) = &input.answer.meaning {
        let body = if input.is_head { &[] } else { &body[..] };
        let has = |wanted: &str| wanted.is_empty() || memchr::memmem::find(body, wanted.as_bytes()).is_some();
        let passes = input.status.is_none_or(|wanted| wanted == *status)
            && input.contains.as_ref().is_none_or(|wanted| has(wanted));
        assert_eq!(whole.is_ok(), passes, "{whole:?}: {input:?}");
    }
    drop((whole, cut, input));
    memory::assert_bounded(MOST_MEMORY);
});

fn verdict<'a>(input: &Input, pieces: impl IntoIterator<Item = &'a [u8]>) -> std::result::Result<(), String> {
    let method = if input.is_head { "HEAD" } else { "GET" }.to_owned();
    let tls = TlsSpec {
        ca_file: None,
        ca_path: None,
        client_cert: None,
        client_key: None,
        server_name: None,
        verify: true,
    };
    let probe = HttpProbe {
        url: "http://db/".to_owned(),
        method: method.clone(),
        status: input.status,
        headers: Vec::new(),
        contains: input.contains.clone(),
        tls,
    };
    let request = Request { method, target: "/".to_owned(), headers: Vec::new(), body: String::new() };
    run(async {
        let mut response = send(Script::new(pieces), &request).await.map_err(|error| reason(&error))?;
        judge(&mut response, &probe).await
    })
}
