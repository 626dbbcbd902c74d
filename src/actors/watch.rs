//! The Watch actor: observes one service or key in Consul and publishes what changes. It runs nothing.
//! What an answer means is decided in [`mod@diff`], how to ask next in [`Cursor`].

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use slog::{Logger, debug, o};
use tokio::time::Instant;

use crate::config::spec::{WatchSpec, WatchTarget};
use crate::consul::{Cursor, Reply};
use crate::messages::bus::{Bus, Notice};
use crate::messages::discovery::{Answer, Found, Query, Sought, Unanswered};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::status::{Board, WatchStatus};

pub mod diff;

use diff::diff;

/// Command: it is not needed any more.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Retire;

/// Observes one thing in Consul.
pub struct Watch {
    spec: WatchSpec,
    bus: Bus,
    board: Board,
    agent: Recipient<Query>,
    log: Logger,
    /// Its name among those who ask.
    asker: Arc<str>,
    cursor: Cursor,
    /// The last known state; an outage does not change it.
    found: Option<Vec<Found>>,
    failures: u32,
    asking: bool,
}

impl Watch {
    /// A watch that begins at the first event that it is told of.
    pub fn new(spec: WatchSpec, bus: Bus, board: Board, agent: Recipient<Query>, log: &Logger) -> Self {
        let asker = asker(&spec.name);
        board.write().watches.insert(spec.name.clone(), WatchStatus::default());
        Self {
            log: log.new(o!("job" => asker.to_string())),
            spec,
            bus,
            board,
            agent,
            asker,
            cursor: Cursor::new(),
            found: None,
            failures: 0,
            asking: false,
        }
    }

    fn ask(&mut self, ctx: &mut Context<Self>) {
        self.asking = true;
        let query = Query {
            asker: Arc::clone(&self.asker),
            sought: match &self.spec.target {
                WatchTarget::Service { service, tag } => {
                    Sought::Service { name: service.clone(), tag: tag.clone() }
                }
                WatchTarget::Key(key) => Sought::Key(key.clone()),
                WatchTarget::Prefix(prefix) => Sought::Prefix(prefix.clone()),
            },
            datacentre: self.spec.datacentre.clone(),
            newer_than: self.cursor.newer_than(self.spec.interval),
            interval: self.spec.interval,
            failures: self.failures,
        };
        let asked = Instant::now();
        ctx.spawn(fut::wrap_future(self.agent.send(query)).map(move |result, watch: &mut Self, ctx| {
            let wait = match result {
                Ok(Ok(answer)) => watch.learn(answer, asked.elapsed()),
                Ok(Err(Unanswered::Failed)) => {
                    // The next answer may be of another Consul, to which the index means nothing.
                    watch.cursor = watch.cursor.anew();
                    watch.failures = watch.failures.saturating_add(1);
                    Duration::ZERO
                }
                Ok(Err(Unanswered::Cut(after))) => {
                    let (cursor, wait) = watch.cursor.after_cut(after, watch.spec.interval);
                    watch.cursor = cursor;
                    wait
                }
                Ok(Err(Unanswered::Interrupted)) => {
                    watch.cursor = watch.cursor.anew();
                    Duration::ZERO
                }
                Err(_) => return, // the agent is gone, and so are we soon
            };
            watch.ask_later(wait, ctx);
        }));
    }

    fn ask_later(&mut self, wait: Duration, ctx: &mut Context<Self>) {
        if wait.is_zero() {
            return self.ask(ctx);
        }
        ctx.run_later(wait, Self::ask);
    }

    /// Takes an answer into account; returns how long to wait before the next query.
    fn learn(&mut self, answer: Answer, took: Duration) -> Duration {
        self.failures = 0;
        let events = diff(self.found.as_deref(), &answer.found);
        let reply = Reply { index: answer.index, took, is_news: !events.is_empty() };
        let (cursor, pause) = self.cursor.after(reply, self.spec.interval);
        self.cursor = cursor;
        self.found = Some(answer.found);
        self.show();
        for code in events {
            debug!(self.log, "{}", code.config_name());
            self.publish(code);
        }
        pause
    }

    fn publish(&self, code: EventCode) {
        self.bus.publish(EventKey { code, source: Source::Watch(self.spec.name.clone()) }, None);
    }

    fn show(&self) {
        let instances = self.found.iter().flatten().map(|found| match found {
            Found::Instance { id, address, port } => (id.clone(), address.clone(), *port),
            Found::Entry { key, .. } => (key.clone(), String::new(), 0),
        });
        let status = WatchStatus { instances: instances.collect(), known: self.found.is_some() };
        self.board.write().watches.insert(self.spec.name.clone(), status);
    }
}

/// The name of a watch among those who ask.
pub fn asker(watch: &str) -> Arc<str> {
    format!("watch.{watch}").into()
}

impl Actor for Watch {
    type Context = Context<Self>;
}

impl Handler<Notice> for Watch {
    type Result = ();

    /// What it is told of is when to begin.
    fn handle(&mut self, _: Notice, ctx: &mut Context<Self>) {
        if !self.asking {
            self.ask(ctx);
        }
    }
}

impl Handler<Retire> for Watch {
    type Result = ();

    fn handle(&mut self, _: Retire, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}
