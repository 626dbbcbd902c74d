//! `/v3/logs`: the last output of jobs, as it stands in the log, and what they print from now on. A stream keeps only a
//! cursor: a client that does not read costs no memory, and loses what is no longer kept.

use std::time::SystemTime;

use actix_web::http::StatusCode;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use percent_encoding::percent_decode_str;

use super::AppState;
use super::connection::ConnectionTracker;
use super::reply::{Failure, Reply, chunks, streamed};
use crate::config::duration::GoDuration;
use crate::logging::{Cursor, KeptOutput, Wanted};
use crate::messages::control::Refusal;

/// The number of lines, if the client does not say how many it wants.
const DEFAULT_LINES: usize = 100;
/// About the number of bytes in one chunk of a response.
const CHUNK: usize = 64 << 10;

/// The last lines of one job, as they stand in the log, for the page. They cannot be followed there, so that the number of
/// streams stays limited.
pub async fn of_one(state: Data<AppState>, request: HttpRequest, job: Path<String>) -> Reply {
    let wanted = Wanted { jobs: vec![job.into_inner()], lines: DEFAULT_LINES, since: None, follow: false };
    respond(&state, &request, wanted)
}

pub async fn logs(state: Data<AppState>, request: HttpRequest) -> Reply {
    let wanted = wanted(request.query_string(), SystemTime::now()).map_err(Failure::bad_value)?;
    let response = respond(&state, &request, wanted)?;
    ConnectionTracker::begin_stream(&request);
    Ok(response)
}

fn respond(state: &AppState, request: &HttpRequest, wanted: Wanted) -> Reply {
    for job in &wanted.jobs {
        if !state.board.read().jobs.contains_key(job.as_str()) {
            return Err(Refusal::NoSuchJob(job.clone()).into());
        }
        if let Some(why) = state.kept.why_unkept(job) {
            let message = format!("the output of job {job:?} is not kept: {why}");
            return Err(Failure::new(StatusCode::CONFLICT, message));
        }
    }
    let (kept, follow) = (state.kept.clone(), wanted.follow);
    let stream = LogStream { cursor: kept.find(wanted), kept, follow };
    let chunks = chunks(stream, LogStream::next);
    Ok(streamed(request, HttpResponse::Ok().content_type("text/plain; charset=utf-8"), chunks))
}

/// Reads `job=NAME&n=NUMBER&since=DURATION&follow=1`; an error says what was expected.
fn wanted(query: &str, now: SystemTime) -> Result<Wanted, String> {
    let mut wanted = Wanted { jobs: Vec::new(), lines: DEFAULT_LINES, since: None, follow: false };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode_str(value).decode_utf8_lossy();
        match (key, &*value) {
            ("job", job) => wanted.jobs.push(job.to_owned()),
            ("n", number) => {
                let wrong = |_| format!("n: expected a number of lines, found {number:?}");
                wanted.lines = number.parse().map_err(wrong)?;
            }
            ("since", text) => {
                let age = GoDuration::parse_config(text).ok().and_then(GoDuration::as_std);
                let wrong = || format!("since: expected a duration such as 5m, found {text:?}");
                // Before 1970: everything.
                wanted.since = now.checked_sub(age.ok_or_else(wrong)?);
            }
            ("follow", "0") => wanted.follow = false,
            ("follow", "1") => wanted.follow = true,
            ("follow", other) => return Err(format!("follow: expected 0 or 1, found {other:?}")),
            (other, _) => {
                return Err(format!(
                    "expected job=NAME, n=NUMBER, since=DURATION or follow=1, found {other:?}"
                ));
            }
        }
    }
    Ok(wanted)
}

/// The output for one client.
struct LogStream {
    kept: KeptOutput,
    cursor: Cursor,
    follow: bool,
}

impl LogStream {
    /// The next output; waits for it if the client follows. `None` at the end.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let text = self.kept.read(&mut self.cursor, CHUNK);
            if !text.is_empty() {
                return Some(text);
            }
            if self.cursor.is_at_end() || !self.follow || !self.kept.more().await {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_query_says_which_jobs_and_how_much() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let default = Wanted { jobs: vec![], lines: 100, since: None, follow: false };
        assert_eq!(wanted("", now), Ok(default.clone()));
        let since = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(700));
        let all = Wanted { jobs: vec!["a".into(), "/bin/b c".into()], lines: 7, since, follow: true };
        assert_eq!(wanted("job=a&job=%2Fbin%2Fb%20c&n=7&since=5m&follow=1", now), Ok(all));
        let before_1970 = now.checked_sub(Duration::from_secs(3600));
        assert_eq!(wanted("since=1h", now), Ok(Wanted { since: before_1970, ..default }));
    }

    #[test]
    fn a_wrong_query_is_told_what_was_expected() {
        for (query, expected) in [
            ("n=many", "n: expected a number of lines, found \"many\""),
            ("since=yesterday", "since: expected a duration such as 5m, found \"yesterday\""),
            ("follow=yes", "follow: expected 0 or 1, found \"yes\""),
            ("lines=3", "expected job=NAME, n=NUMBER, since=DURATION or follow=1, found \"lines\""),
        ] {
            assert_eq!(wanted(query, SystemTime::now()), Err(expected.to_owned()));
        }
    }
}
