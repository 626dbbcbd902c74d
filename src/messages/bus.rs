//! How events travel: published once, given one place in the order of all, delivered to those who listen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use actix::prelude::{Message, Recipient};
use serde::{Deserialize, Serialize};

use super::discovery::WatchChanged;
use super::event::{Detail, Event, EventKey};
use super::job::JobChanged;

/// Command to the Registry: deliver this to everybody who listens.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Publish(pub Notice);

/// An event on its way to a subscriber.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Notice {
    /// What happened.
    pub event: Arc<Event>,
    /// To be kept by whoever acts on the event, for as long as it acts.
    pub hold: Option<Arc<Hold>>,
    /// False if it is told to a newcomer only, of something that happened before: then it is not among all events.
    is_published: bool,
}

impl Notice {
    /// The number to name as the cause of what comes of the event, if it is among all events.
    pub fn cause(&self) -> Option<u64> {
        self.is_published.then_some(self.event.sequence)
    }
}

/// Command to the Registry: from now on deliver these events to that recipient, in the order of subscription.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Subscribe {
    /// What to deliver.
    pub interest: Interest,
    /// Whom to deliver it to.
    pub recipient: Recipient<Notice>,
}

/// What a subscriber listens for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interest {
    /// These events.
    Keys(Vec<EventKey>),
    /// Every event.
    Everything,
}

/// Command to the Registry: deliver nothing more to that recipient.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Unsubscribe(pub Recipient<Notice>);

/// What jobs and watches tell the Pilot. The Registry passes it on once all that was published before is delivered.
#[derive(Debug, Clone, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub enum Report {
    /// About a job.
    Job(JobChanged),
    /// About a watch.
    Watch(WatchChanged),
}

impl From<JobChanged> for Report {
    fn from(change: JobChanged) -> Self {
        Self::Job(change)
    }
}

impl From<WatchChanged> for Report {
    fn from(change: WatchChanged) -> Self {
        Self::Watch(change)
    }
}

/// Command to the Registry: tell the Pilot once all that was published before is delivered.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Mark;

/// Everything that was published before the last [`Mark`] is delivered.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Marked;

/// Keeps a stopping job from being signalled while somebody acts on its `stopping` event.
///
/// The last one to drop it tells the job. Nobody can forget to: a panic drops it too.
#[derive(Debug)]
pub struct Hold {
    job: Recipient<HoldReleased>,
    number: u64,
}

impl Hold {
    /// A hold whose end is told to `job`, with a number to know it by.
    pub fn new(job: Recipient<HoldReleased>, number: u64) -> Arc<Self> {
        Arc::new(Self { job, number })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.job.do_send(HoldReleased(self.number));
    }
}

/// Nobody acts on that `stopping` event of the receiving job any more.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct HoldReleased(pub u64);

/// The publishing side of the Registry; numbers events in the order in which they are published.
#[derive(Clone)]
pub struct Bus {
    publish: Recipient<Publish>,
    report: Recipient<Report>,
    mark: Recipient<Mark>,
    last: Arc<AtomicU64>,
}

impl Bus {
    /// A bus to the Registry that these recipients belong to.
    pub fn new(publish: Recipient<Publish>, report: Recipient<Report>, mark: Recipient<Mark>) -> Self {
        Self { publish, report, mark, last: Arc::default() }
    }

    /// Publishes an event of which nothing more is known, and returns its place in the order of all.
    pub fn publish(&self, key: EventKey, cause: Option<u64>) -> u64 {
        self.publish_with(key, cause, Detail::default(), None)
    }

    /// Publishes an event with what is known of it, and with a hold for those who act on it.
    pub fn publish_with(
        &self,
        key: EventKey,
        cause: Option<u64>,
        detail: Detail,
        hold: Option<Arc<Hold>>,
    ) -> u64 {
        let sequence = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let event = Event { sequence, time: SystemTime::now(), cause, key, detail };
        self.publish.do_send(Publish(Notice { event: Arc::new(event), hold, is_published: true }));
        sequence
    }

    /// Tells the Pilot about a job or watch, after everything published before.
    pub fn report(&self, report: impl Into<Report>) {
        self.report.do_send(report.into());
    }

    /// Has the Pilot told when everything published before is delivered.
    pub fn mark(&self) {
        self.mark.do_send(Mark);
    }

    /// An event that only some are told: `startup`, to jobs that come later. It has no place of its own in the order,
    /// but that of the last event before it.
    pub fn private(&self, key: EventKey) -> Notice {
        let (sequence, time) = (self.last.load(Ordering::Relaxed), SystemTime::now());
        let event = Event { sequence, time, cause: None, key, detail: Detail::default() };
        Notice { event: Arc::new(event), hold: None, is_published: false }
    }
}
