//! The last events, and streams of them to clients (server-sent events). A stream keeps only the number of the last event
//! that it has sent. A client that reads too slowly loses the events that are no longer kept, and is told so. In crates for
//! server-sent events, such as actix-web-lab, each client has a queue of its own.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::http::header::HeaderMap;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;

use super::status::time;
use crate::messages::event::{Detail, Event};

/// The number of events that are kept.
const KEPT: usize = 10_000;
/// The number of events in one chunk of a response.
const PER_CHUNK: usize = 20;
/// The number of events that are looked at for a chain of causes.
const CHAIN_SEARCH: usize = 1000;

/// The last events.
#[derive(Debug, Clone, Default)]
pub struct EventLog(Rc<Log>);

#[derive(Debug, Default)]
struct Log {
    kept: RefCell<Kept>,
    /// Wakes the streams.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Arc<Event>>,
    /// The sequence number of the last event that was published.
    newest: u64,
    /// The sequence number of the last event that is no longer kept.
    forgotten: u64,
    closed: bool,
}

impl EventLog {
    /// Adds an event.
    pub fn push(&self, event: Arc<Event>) {
        let mut kept = self.0.kept.borrow_mut();
        kept.newest = event.sequence;
        kept.events.push_back(event);
        if kept.events.len() > KEPT
            && let Some(oldest) = kept.events.pop_front()
        {
            kept.forgotten = oldest.sequence;
        }
        self.0.changed.notify_waiters();
    }

    /// The last events, oldest first; at most `most`.
    pub fn last(&self, most: usize) -> Vec<Arc<Event>> {
        let kept = self.0.kept.borrow();
        kept.events.iter().skip(kept.events.len().saturating_sub(most)).cloned().collect()
    }

    /// The events with these numbers and those that led to them, oldest first; at most `most`, the newest.
    pub fn chain(&self, numbers: &[u64], most: usize) -> Vec<Arc<Event>> {
        let kept = self.0.kept.borrow();
        let mut found: BTreeMap<u64, Arc<Event>> = BTreeMap::new();
        for number in numbers {
            let mut next = Some(*number);
            // A cause is older than its effect, so this ends.
            while let Some(number) = next.filter(|number| !found.contains_key(number)) {
                let Ok(at) = kept.events.binary_search_by_key(&number, |event| event.sequence) else { break };
                let Some(event) = kept.events.get(at).filter(|_| found.len() < CHAIN_SEARCH) else { break };
                found.insert(number, Arc::clone(event));
                next = event.cause;
            }
        }
        let surplus = found.len().saturating_sub(most);
        found.into_values().skip(surplus).collect()
    }

    /// There will be no more events: every stream ends after the last one.
    pub fn close(&self) {
        self.0.kept.borrow_mut().closed = true;
        self.0.changed.notify_waiters();
    }

    /// The number of the last event that a client has received, if it connects again: browsers send it. A number that is not
    /// reached yet is of a program that ran before this one, of which the client has received nothing.
    pub fn resumed(&self, headers: &HeaderMap) -> Option<u64> {
        let number = headers.get("last-event-id")?.to_str().ok()?.parse().ok()?;
        Some(if number <= self.0.kept.borrow().newest { number } else { 0 })
    }

    /// The events after a sequence number, or after now; with `follow`, also those that are still to come.
    pub fn stream(&self, since: Option<u64>, follow: bool) -> EventStream {
        let sent = since.unwrap_or_else(|| self.0.kept.borrow().newest);
        EventStream { log: self.clone(), sent, follow }
    }
}

/// Events for one client.
#[derive(Debug)]
pub struct EventStream {
    log: EventLog,
    /// The sequence number of the last event that was sent.
    sent: u64,
    follow: bool,
}

impl EventStream {
    /// The next events as text; waits for them if the stream follows. `None` at its end.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            let text = self.unsent();
            if !text.is_empty() {
                return Some(text);
            }
            if !self.follow || self.log.0.kept.borrow().closed {
                return None;
            }
            self.log.0.changed.notified().await;
        }
    }

    /// Whether no more events will come.
    pub fn is_over(&self) -> bool {
        self.log.0.kept.borrow().closed
    }

    /// Waits until there may be more events.
    pub async fn changed(&self) {
        self.log.0.changed.notified().await;
    }

    /// The events that are kept and have not been sent; empty if there are none.
    pub fn unsent(&mut self) -> String {
        let kept = self.log.0.kept.borrow();
        let mut text = String::new();
        if self.sent < kept.forgotten {
            let _ = write!(text, ": the events up to {} are no longer known\n\n", kept.forgotten);
            self.sent = kept.forgotten;
        }
        let first = kept.events.partition_point(|event| event.sequence <= self.sent);
        for event in kept.events.iter().skip(first).take(PER_CHUNK) {
            let json = serde_json::to_string(&ShownEvent::of(event)).unwrap_or_default();
            let _ = write!(text, "id: {}\ndata: {json}\n\n", event.sequence);
            self.sent = event.sequence;
        }
        text
    }
}

/// An event as clients read it.
#[derive(Serialize)]
pub struct ShownEvent<'a> {
    sequence: u64,
    time: String,
    code: &'static str,
    source: String,
    cause: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> ShownEvent<'a> {
    /// The form of this event.
    pub fn of(event: &'a Event) -> Self {
        let Detail { pid, status, signal, reason } = &event.detail;
        Self {
            sequence: event.sequence,
            time: time(event.time),
            code: event.key.code.config_name(),
            source: event.key.source.to_string(),
            cause: event.cause,
            pid: *pid,
            status: *status,
            signal: signal.map(|signal| signal.to_string()),
            reason: reason.as_deref(),
        }
    }
}

/// An event as a value.
pub fn to_json(event: &Event) -> Value {
    serde_json::to_value(ShownEvent::of(event)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use futures_util::FutureExt;

    use super::*;
    use crate::messages::event::{EventCode, EventKey, Source};
    use crate::messages::signal::Signal;

    fn event(sequence: u64) -> Arc<Event> {
        let key = EventKey { code: EventCode::Healthy, source: Source::Job("app".into()) };
        let (time, detail) = (SystemTime::UNIX_EPOCH, Detail::default());
        Arc::new(Event { sequence, time, cause: Some(7), key, detail })
    }

    fn log(count: u64) -> EventLog {
        let log = EventLog::default();
        (1..=count).for_each(|sequence| log.push(event(sequence)));
        log
    }

    fn text(mut stream: EventStream) -> String {
        let mut text = String::new();
        while let Some(Some(part)) = stream.next().now_or_never() {
            text.push_str(&part);
        }
        text
    }

    #[test]
    fn an_event_is_told_with_its_number_time_and_cause() {
        assert_eq!(
            text(log(1).stream(Some(0), false)),
            "id: 1\ndata: {\"sequence\":1,\"time\":\"1970-01-01T00:00:00.000000000Z\",\"code\":\"healthy\",\
             \"source\":\"app\",\"cause\":7}\n\n"
        );
    }

    #[test]
    fn an_end_is_told_with_process_status_and_reason() {
        let mut ended = Arc::unwrap_or_clone(event(1));
        ended.detail = Detail {
            pid: Some(7),
            status: Some(137),
            signal: Some(Signal::KILL),
            reason: Some("killed by SIGKILL after killTimeout".to_owned()),
        };
        let end = ",\"pid\":7,\"status\":137,\"signal\":\"SIGKILL\",\"reason\":\"killed by SIGKILL after killTimeout\"}";
        assert!(to_json(&ended).to_string().ends_with(end), "{}", to_json(&ended));
    }

    #[test]
    fn a_stream_begins_after_the_number_asked_for_or_now() {
        assert_eq!(text(log(250).stream(Some(0), true)).matches("data: ").count(), 250);
        assert_eq!(text(log(250).stream(Some(248), true)).matches("data: ").count(), 2);
        assert_eq!(text(log(250).stream(None, true)), "");
        assert_eq!(text(log(250).stream(Some(9999), true)), "");
    }

    #[test]
    fn ten_thousand_events_are_kept_and_a_gap_is_told() {
        let log = log(10_500);
        let all = text(log.stream(Some(0), false));
        assert!(all.starts_with(": the events up to 500 are no longer known\n\nid: 501\n"), "{all:.100}");
        assert_eq!(all.matches("data: ").count(), 10_000);
        assert!(text(log.stream(Some(500), false)).starts_with("id: 501\n"));
    }

    #[test]
    fn a_chain_goes_back_from_an_event_to_its_first_cause() {
        let log = EventLog::default();
        for (sequence, cause) in
            [(1, None), (2, Some(1)), (3, None), (4, Some(2)), (5, Some(3)), (6, Some(99))]
        {
            log.push(Arc::new(Event { cause, ..Arc::unwrap_or_clone(event(sequence)) }));
        }
        let chain = |numbers: &[u64], most| -> Vec<u64> {
            log.chain(numbers, most).iter().map(|event| event.sequence).collect()
        };
        assert_eq!(chain(&[4], 10), [1, 2, 4]);
        assert_eq!(chain(&[4, 5, 2], 10), [1, 2, 3, 4, 5]);
        assert_eq!(chain(&[4, 5], 2), [4, 5], "the newest");
        assert_eq!(chain(&[6, 77], 10), [6], "what is no longer known ends it");
    }

    #[tokio::test]
    async fn a_stream_waits_for_more_and_ends_with_the_log() {
        let log = log(1);
        let mut stream = log.stream(None, true);
        assert_eq!(stream.next().now_or_never(), None);
        let (text, ()) = tokio::join!(stream.next(), async { log.push(event(2)) });
        assert!(text.unwrap().starts_with("id: 2\n"));
        assert_eq!(stream.next().now_or_never(), None);
        let (end, ()) = tokio::join!(stream.next(), async { log.close() });
        assert_eq!(end, None);
        assert_eq!(log.stream(Some(2), false).next().now_or_never(), Some(None));
    }
}
