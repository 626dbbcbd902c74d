//! The Registry: one order of events for all subscribers, delivered to those who listen.
//!
//! It decides nothing. A flood of events is delivered in turns, so that timers and control stay served.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use actix::prelude::*;
use slog::{Logger, debug};

use crate::messages::bus::{Interest, Mark, Marked, Notice, Publish, Report, Subscribe, Unsubscribe};
use crate::messages::event::EventKey;
use crate::messages::job::JobChanged;

/// Events that are delivered before other actors have their turn.
const PER_TURN: usize = 128;

/// Broadcasts events.
pub struct Registry {
    log: Logger,
    /// Subscribers by what they listen for, in the order of subscription.
    listeners: HashMap<EventKey, Vec<Recipient<Notice>>>,
    /// Subscribers to everything.
    observers: Vec<Recipient<Notice>>,
    pilot: Overseer,
    queue: VecDeque<Queued>,
    delivering: bool,
    depth: Rc<Cell<usize>>,
}

/// What waits for its turn, in the order in which it came.
enum Queued {
    Notice(Notice),
    Report(JobChanged),
    Mark,
}

/// Where reports about jobs go.
pub struct Overseer {
    /// What jobs report.
    pub reports: Recipient<JobChanged>,
    /// That everything up to a mark is delivered.
    pub marks: Recipient<Marked>,
}

impl Registry {
    /// A registry without subscribers that passes reports on to `pilot`; `depth` shows the length of its queue.
    pub fn new(log: Logger, pilot: Overseer, depth: Rc<Cell<usize>>) -> Self {
        Self {
            log,
            listeners: HashMap::new(),
            observers: Vec::new(),
            pilot,
            queue: VecDeque::new(),
            delivering: false,
            depth,
        }
    }

    fn enqueue(&mut self, item: Queued, ctx: &mut Context<Self>) {
        self.queue.push_back(item);
        self.depth.set(self.queue.len());
        if !self.delivering {
            self.delivering = true;
            self.deliver_in_next_turn(ctx);
        }
    }

    fn deliver_in_next_turn(&self, ctx: &mut Context<Self>) {
        ctx.spawn(fut::wrap_future(tokio::task::yield_now()).map(|(), registry: &mut Self, ctx| {
            registry.deliver(ctx);
        }));
    }

    fn deliver(&mut self, ctx: &mut Context<Self>) {
        for item in self.queue.drain(..self.queue.len().min(PER_TURN)).collect::<Vec<_>>() {
            match item {
                Queued::Notice(notice) => self.broadcast(&notice),
                Queued::Report(change) => self.pilot.reports.do_send(change),
                Queued::Mark => self.pilot.marks.do_send(Marked),
            }
        }
        self.depth.set(self.queue.len());
        self.delivering = !self.queue.is_empty();
        if self.delivering {
            self.deliver_in_next_turn(ctx);
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

impl Handler<Publish> for Registry {
    type Result = ();

    fn handle(&mut self, Publish(notice): Publish, ctx: &mut Context<Self>) {
        self.enqueue(Queued::Notice(notice), ctx);
    }
}

impl Handler<Report> for Registry {
    type Result = ();

    fn handle(&mut self, Report(change): Report, ctx: &mut Context<Self>) {
        self.enqueue(Queued::Report(change), ctx);
    }
}

impl Handler<Mark> for Registry {
    type Result = ();

    fn handle(&mut self, _: Mark, ctx: &mut Context<Self>) {
        self.enqueue(Queued::Mark, ctx);
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
