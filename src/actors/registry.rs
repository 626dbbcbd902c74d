//! The Registry: one order of events for all subscribers, delivered to those who listen.
//!
//! It decides nothing. A flood of events is delivered in turns, so that timers and control stay served. While the queue is full,
//! an event that waits in it already is left out: jobs do not notice, metrics and `/v3/events` miss it, and the log says how many.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use actix::prelude::*;
use slog::{Logger, debug, warn};

use crate::messages::bus::{BarrierReached, Deliver, Interest, Notice, Report, Subscribe, Unsubscribe};
use crate::messages::event::EventKey;

/// Events that are delivered before other actors have their turn.
const PER_TURN: usize = 128;

/// Events that may wait; beyond that, one that waits already does not wait twice. So the queue is bounded by this
/// and the number of different events, which the configuration bounds.
const LONGEST_QUEUE: usize = 16 * 1024;

/// Broadcasts events.
pub struct Registry {
    log: Logger,
    /// Subscribers by what they listen for, in the order of subscription.
    listeners: HashMap<EventKey, Vec<Recipient<Notice>>>,
    /// Subscribers to everything.
    observers: Vec<Recipient<Notice>>,
    pilot: PilotAddress,
    /// Messages that wait to be delivered, in the order in which they came.
    queue: VecDeque<Deliver>,
    /// How many of each event wait.
    waiting: HashMap<EventKey, usize>,
    /// Events left out since the queue was last empty.
    left_out: u64,
    delivering: bool,
    depth: Rc<Cell<usize>>,
}

/// Where reports about jobs go.
pub struct PilotAddress {
    /// Takes the reports of jobs and watches.
    pub reports: Recipient<Report>,
    /// That everything up to a mark is delivered.
    pub barriers: Recipient<BarrierReached>,
}

impl Registry {
    /// A registry without subscribers that passes reports on to `pilot`; `depth` shows the length of its queue.
    pub fn new(log: Logger, pilot: PilotAddress, depth: Rc<Cell<usize>>) -> Self {
        Self {
            log,
            listeners: HashMap::new(),
            observers: Vec::new(),
            pilot,
            queue: VecDeque::new(),
            waiting: HashMap::new(),
            left_out: 0,
            delivering: false,
            depth,
        }
    }

    fn enqueue(&mut self, item: Deliver, ctx: &mut Context<Self>) {
        if let Deliver::Notice(notice) = &item {
            if self.is_redundant(notice) {
                self.left_out += 1;
                return;
            }
            *self.waiting.entry(notice.event.key.clone()).or_default() += 1;
        }
        self.queue.push_back(item);
        self.depth.set(self.queue.len());
        if !self.delivering {
            self.delivering = true;
            self.deliver_in_next_turn(ctx);
        }
    }

    fn is_redundant(&self, notice: &Notice) -> bool {
        self.queue.len() >= LONGEST_QUEUE
            && notice.hold.is_none()
            && self.waiting.contains_key(&notice.event.key)
    }

    fn deliver_in_next_turn(&self, ctx: &mut Context<Self>) {
        ctx.spawn(fut::wrap_future(tokio::task::yield_now()).map(|(), registry: &mut Self, ctx| {
            registry.deliver(ctx);
        }));
    }

    fn deliver(&mut self, ctx: &mut Context<Self>) {
        for item in self.queue.drain(..self.queue.len().min(PER_TURN)).collect::<Vec<_>>() {
            match item {
                Deliver::Notice(notice) => {
                    self.forget(&notice.event.key);
                    self.broadcast(&notice);
                }
                Deliver::Report(report) => self.pilot.reports.do_send(report),
                Deliver::Barrier => self.pilot.barriers.do_send(BarrierReached),
            }
        }
        self.depth.set(self.queue.len());
        self.delivering = !self.queue.is_empty();
        if self.delivering {
            return self.deliver_in_next_turn(ctx);
        }
        // After a start of a thousand jobs, say, it would keep room for all their events forever.
        self.queue.shrink_to(PER_TURN);
        if self.left_out > 0 {
            warn!(self.log, "{} events came faster than they could be told and were left out", self.left_out);
            self.left_out = 0;
        }
    }

    fn forget(&mut self, key: &EventKey) {
        if let Some(waiting) = self.waiting.get_mut(key) {
            *waiting -= 1;
            if *waiting == 0 {
                self.waiting.remove(key);
            }
        }
    }

    fn broadcast(&self, notice: &Notice) {
        let event = &notice.event;
        debug!(self.log, "event {}: {}", event.sequence, event.key; "cause" => event.cause);
        for recipient in self.listeners.get(&event.key).into_iter().flatten().chain(&self.observers) {
            recipient.do_send(notice.clone());
        }
    }
}

impl Actor for Registry {
    type Context = Context<Self>;
}

impl Handler<Deliver> for Registry {
    type Result = ();

    fn handle(&mut self, item: Deliver, ctx: &mut Context<Self>) {
        self.enqueue(item, ctx);
    }
}

impl Handler<Subscribe> for Registry {
    type Result = ();

    fn handle(&mut self, subscribe: Subscribe, _: &mut Context<Self>) {
        match subscribe.interest {
            Interest::Everything => self.observers.push(subscribe.recipient),
            Interest::Keys(keys) => {
                for key in keys {
                    self.listeners.entry(key).or_default().push(subscribe.recipient.clone());
                }
            }
        }
    }
}

impl Handler<Unsubscribe> for Registry {
    type Result = ();

    fn handle(&mut self, Unsubscribe(recipient): Unsubscribe, _: &mut Context<Self>) {
        self.observers.retain(|observer| *observer != recipient);
        self.listeners.retain(|_, listeners| {
            listeners.retain(|listener| *listener != recipient);
            !listeners.is_empty()
        });
    }
}
