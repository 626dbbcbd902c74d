//! Publishing and subscribing: an event is published once, gets the next sequence number, and is delivered to all
//! subscribers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use actix::prelude::{Message, Recipient};
use serde::{Deserialize, Serialize};

use super::discovery::WatchChanged;
use super::event::{Detail, Event, EventKey};
use super::job::JobChanged;

/// Command to the Registry: deliver this when everything that came before is delivered.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub enum Deliver {
    /// To all subscribers.
    Notice(Notice),
    /// To the Pilot.
    Report(Report),
    /// [`BarrierReached`], to the Pilot.
    Barrier,
}

/// An event on its way to a subscriber.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Notice {
    /// What happened.
    pub event: Arc<Event>,
    /// Kept by each job that the event starts, until its process has ended.
    pub hold: Option<Arc<Hold>>,
    /// False if it was made by [`Bus::private`]: then its sequence number is not its own.
    is_published: bool,
}

impl Notice {
    /// The sequence number to name as the cause of later events; `None` for a private event.
    pub fn cause(&self) -> Option<u64> {
        self.is_published.then_some(self.event.sequence)
    }
}

/// Command to the Registry: deliver these events to that recipient from now on. Recipients of an event get it in the
/// order of their subscription.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Subscribe {
    /// The events to deliver.
    pub interest: Interest,
    /// The recipient.
    pub recipient: Recipient<Notice>,
}

/// The events that a subscriber wants.
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

/// Report of a job or watch to the Pilot. The Registry passes it on when all events published before it are delivered.
#[derive(Debug, Clone, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub enum Report {
    /// Of a job.
    Job(JobChanged),
    /// Of a watch.
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

/// All events published before a [`Deliver::Barrier`] are delivered.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct BarrierReached;

/// Delays the stop signal of a job while other jobs act on its `stopping` event.
///
/// When the last clone of the `Arc` is dropped, also by a panic, the stopping job gets [`HoldReleased`].
#[derive(Debug)]
pub struct Hold {
    job: Recipient<HoldReleased>,
    number: u64,
}

impl Hold {
    /// A hold of `job`, with a number to recognise it by.
    pub fn new(job: Recipient<HoldReleased>, number: u64) -> Arc<Self> {
        Arc::new(Self { job, number })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.job.do_send(HoldReleased(self.number));
    }
}

/// No job acts on the receiver's `stopping` event any more. The number is that of the hold.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct HoldReleased(pub u64);

/// The publishing side of the Registry; numbers events in the order in which they are published.
#[derive(Clone)]
pub struct Bus {
    registry: Recipient<Deliver>,
    last: Arc<AtomicU64>,
}

impl Bus {
    /// A bus to this Registry.
    pub fn new(registry: Recipient<Deliver>) -> Self {
        Self { registry, last: Arc::default() }
    }

    /// Publishes an event without details; returns its sequence number.
    pub fn publish(&self, key: EventKey, cause: Option<u64>) -> u64 {
        self.publish_with(key, cause, Detail::default(), None)
    }

    /// Publishes an event with details, and with a hold for the jobs that it starts; returns its sequence number.
    pub fn publish_with(
        &self,
        key: EventKey,
        cause: Option<u64>,
        detail: Detail,
        hold: Option<Arc<Hold>>,
    ) -> u64 {
        let sequence = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let event = Event { sequence, time: SystemTime::now(), cause, key, detail };
        self.registry.do_send(Deliver::Notice(Notice { event: Arc::new(event), hold, is_published: true }));
        sequence
    }

    /// Sends a report to the Pilot, after all events published before are delivered.
    pub fn report(&self, report: impl Into<Report>) {
        self.registry.do_send(Deliver::Report(report.into()));
    }

    /// Asks for [`BarrierReached`] to the Pilot when all events published before are delivered.
    pub fn barrier(&self) {
        self.registry.do_send(Deliver::Barrier);
    }

    /// An event for one job only, such as `startup` for a job that a reload added. It has the sequence number of the last
    /// published event.
    pub fn private(&self, key: EventKey) -> Notice {
        let (sequence, time) = (self.last.load(Ordering::Relaxed), SystemTime::now());
        let event = Event { sequence, time, cause: None, key, detail: Detail::default() };
        Notice { event: Arc::new(event), hold: None, is_published: false }
    }
}
