//! The last events, and streams of them to clients. A client that reads slowly keeps nothing in memory but its
//! place: what it missed for too long is gone, and it is told so.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use actix_web::body::{BodySize, MessageBody};
use actix_web::web::Bytes;
use serde_json::{Value, json};

use super::connection::{ConnectionState, ConnectionTracker};
use super::status::time;
use crate::messages::event::{Detail, Event};

/// How many events can be replayed.
const KEPT: usize = 1000;
/// More than there are connections: whoever waits beyond that number has gone.
const MOST_WAITING: usize = 256;
/// How many are written at once.
const PER_CHUNK: usize = 100;

/// The last events.
#[derive(Debug, Clone, Default)]
pub struct EventLog(Rc<RefCell<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Arc<Event>>,
    /// The last event that was published, and the last one that is no longer kept.
    newest: u64,
    forgotten: u64,
    closed: bool,
    waiting: Vec<Waker>,
}

impl Kept {
    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

impl EventLog {
    /// Adds an event and wakes those who follow.
    pub fn push(&self, event: Arc<Event>) {
        let mut kept = self.0.borrow_mut();
        kept.newest = event.sequence;
        kept.events.push_back(event);
        if kept.events.len() > KEPT
            && let Some(oldest) = kept.events.pop_front()
        {
            kept.forgotten = oldest.sequence;
        }
        kept.wake();
    }

    /// No more events will come: every stream ends once it has told all.
    pub fn close(&self) {
        let mut kept = self.0.borrow_mut();
        kept.closed = true;
        kept.wake();
    }

    /// The events after a sequence number, or only those to come; `follow` waits for more.
    pub fn stream(&self, since: Option<u64>, follow: bool) -> EventStream {
        let told = since.unwrap_or_else(|| self.0.borrow().newest);
        EventStream { log: self.clone(), told, follow, tracker: None }
    }
}

/// Events as a response's body, in the form of server-sent events.
#[derive(Debug)]
pub struct EventStream {
    log: EventLog,
    told: u64,
    follow: bool,
    tracker: Option<ConnectionTracker>,
}

impl EventStream {
    /// The same stream on this connection, which counts as streaming for as long as the stream lasts.
    pub fn over(mut self, tracker: Option<&ConnectionTracker>) -> Self {
        self.tracker = tracker.cloned();
        if let Some(tracker) = tracker {
            tracker.set_state(ConnectionState::Streaming);
        }
        self
    }

    /// The next piece of text; `None` if there is nothing to tell at the moment.
    fn next_text(&mut self) -> Option<String> {
        let kept = self.log.0.borrow();
        let mut text = String::new();
        if self.told < kept.forgotten {
            let _ = write!(text, ": the events up to {} are no longer known\n\n", kept.forgotten);
            self.told = kept.forgotten;
        }
        let first = kept.events.partition_point(|event| event.sequence <= self.told);
        for event in kept.events.iter().skip(first).take(PER_CHUNK) {
            let _ = write!(text, "id: {}\ndata: {}\n\n", event.sequence, described(event));
            self.told = event.sequence;
        }
        (!text.is_empty()).then_some(text)
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        if let Some(tracker) = &self.tracker {
            tracker.set_state(ConnectionState::Idle);
        }
    }
}

/// An event as JSON.
fn described(event: &Event) -> Value {
    let mut described = json!({
        "sequence": event.sequence,
        "time": time(event.time),
        "code": event.key.code.config_name(),
        "source": event.key.source.to_string(),
        "cause": event.cause,
    });
    let Detail { pid, status, signal, reason } = &event.detail;
    let known = [
        ("pid", pid.map(Value::from)),
        ("status", status.map(Value::from)),
        ("signal", signal.map(|signal| signal.to_string().into())),
        ("reason", reason.as_deref().map(Value::from)),
    ];
    if let Some(object) = described.as_object_mut() {
        object.extend(known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    }
    described
}

impl MessageBody for EventStream {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let stream = self.get_mut();
        if let Some(text) = stream.next_text() {
            return Poll::Ready(Some(Ok(text.into())));
        }
        let mut kept = stream.log.0.borrow_mut();
        if !stream.follow || kept.closed {
            return Poll::Ready(None);
        }
        if kept.waiting.len() >= MOST_WAITING {
            kept.wake(); // those of streams that are gone do not come back
        }
        if !kept.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            kept.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;
    use std::time::SystemTime;

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
        while let Some(part) = stream.next_text() {
            text.push_str(&part);
        }
        text
    }

    struct Sleeper;

    impl Wake for Sleeper {
        fn wake(self: Arc<Self>) {}
    }

    fn poll(stream: &mut EventStream, waker: &Waker) -> Poll<Option<Result<Bytes, Infallible>>> {
        Pin::new(stream).poll_next(&mut Context::from_waker(waker))
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
        assert!(described(&ended).to_string().ends_with(end), "{}", described(&ended));
    }

    #[test]
    fn a_stream_begins_after_the_number_asked_for_or_now() {
        assert_eq!(text(log(250).stream(Some(0), true)).matches("data: ").count(), 250);
        assert_eq!(text(log(250).stream(Some(248), true)).matches("data: ").count(), 2);
        assert_eq!(text(log(250).stream(None, true)), "");
        assert_eq!(text(log(250).stream(Some(9999), true)), "");
    }

    #[test]
    fn a_thousand_events_are_kept_and_a_gap_is_told() {
        let log = log(1500);
        let all = text(log.stream(Some(0), false));
        assert!(all.starts_with(": the events up to 500 are no longer known\n\nid: 501\n"), "{all:.100}");
        assert_eq!(all.matches("data: ").count(), 1000);
        assert!(text(log.stream(Some(500), false)).starts_with("id: 501\n"));
    }

    #[test]
    fn a_stream_waits_for_more_and_ends_with_the_log() {
        let log = log(1);
        let waker = Waker::from(Arc::new(Sleeper));
        let mut stream = log.stream(None, true);
        assert!(poll(&mut stream, &waker).is_pending());
        log.push(event(2));
        assert!(matches!(poll(&mut stream, &waker), Poll::Ready(Some(Ok(_)))));
        assert!(poll(&mut stream, &waker).is_pending());
        assert!(poll(&mut stream, &waker).is_pending());
        assert_eq!(log.0.borrow().waiting.len(), 1);
        log.close();
        assert!(matches!(poll(&mut stream, &waker), Poll::Ready(None)));
        assert!(matches!(poll(&mut log.stream(Some(2), false), &waker), Poll::Ready(None)));
    }
    #[test]
    fn streams_that_have_gone_leave_nothing_behind() {
        let log = log(1);
        for _ in 0..1000 {
            let waker = Waker::from(Arc::new(Sleeper));
            assert!(poll(&mut log.stream(None, true), &waker).is_pending());
        }
        assert!(log.0.borrow().waiting.len() <= MOST_WAITING);
    }
}
