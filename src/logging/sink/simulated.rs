//! A sink whose writer is a test: no thread, so that the same test takes the same course each time.

use std::mem;
use std::sync::Arc;

use super::{Closer, LogSink, Shared};
use crate::config::spec::LogOutput;
use crate::logging::Settings;

/// Plays the part of the thread that writes the log.
#[derive(Debug)]
pub struct SimulatedWriter {
    shared: Arc<Shared>,
    /// The number of queued bytes that were returned by [`SimulatedWriter::news`].
    seen: usize,
}

/// A sink for that output with room for about `bound` bytes, and its writer.
pub fn sink(
    target: LogOutput,
    settings: Settings,
    bound: usize,
    margin: usize,
) -> (LogSink, SimulatedWriter) {
    let shared = Arc::new(Shared::new(target, settings, (bound, margin)));
    let sink = LogSink { _closer: Arc::new(Closer(Arc::clone(&shared))), shared: Arc::clone(&shared) };
    (sink, SimulatedWriter { shared, seen: 0 })
}

impl SimulatedWriter {
    /// What was queued since the last call; it stays queued.
    pub fn news(&mut self) -> Vec<u8> {
        let queue = self.shared.lock();
        let news = queue.pending.get(self.seen..).unwrap_or_default().to_vec();
        self.seen = queue.pending.len();
        news
    }

    /// Takes what is queued, as one write does. Call [`news`](Self::news) before.
    pub fn write(&mut self) {
        let mut queue = self.shared.lock();
        if mem::take(&mut queue.pending).is_empty() {
            return;
        }
        queue.own = 0;
        drop(queue);
        self.seen = 0;
        self.shared.room.notify_waiters();
    }

    /// Whether children have to wait for room.
    pub fn is_nearly_full(&self) -> bool {
        self.shared.is_nearly_full(&self.shared.lock())
    }
}
