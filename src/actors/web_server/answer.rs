//! When the answer to a request ends: only then is the connection idle, and may be closed or read from.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::web::Bytes;

use super::connection::{ConnectionState, ConnectionTracker};

/// Ends the answer to a request: its connection is idle from then on.
#[derive(Debug)]
pub struct AnswerGuard(Option<ConnectionTracker>);

impl AnswerGuard {
    /// The guard of this connection, if it is known.
    pub const fn new(tracker: Option<ConnectionTracker>) -> Self {
        Self(tracker)
    }
}

impl Drop for AnswerGuard {
    fn drop(&mut self) {
        if let Some(tracker) = &self.0 {
            tracker.set_state(ConnectionState::Idle);
        }
    }
}

/// The body of a response. A request is being answered until actix-http has taken all of it: a long one takes as long as its
/// client reads.
pub struct GuardedBody {
    body: BoxBody,
    _guard: AnswerGuard,
}

impl GuardedBody {
    /// This body, with what ends when it is sent.
    pub fn new(body: impl MessageBody + 'static, guard: AnswerGuard) -> Self {
        Self { body: body.boxed(), _guard: guard }
    }
}

impl MessageBody for GuardedBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_answers_or_streams_until_the_body_is_sent() {
        for state in [ConnectionState::Answering, ConnectionState::Streaming] {
            let tracker = ConnectionTracker::default();
            tracker.set_state(state);
            let body = GuardedBody::new("text", AnswerGuard::new(Some(tracker.clone())));
            assert_eq!(tracker.state(), state);
            drop(body);
            assert_eq!(tracker.state(), ConnectionState::Idle);
        }
    }
}
