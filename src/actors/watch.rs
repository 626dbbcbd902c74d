//! The Watch actor: observes one service or key in Consul and publishes changes. It runs nothing. The decisions are in
//! [`machine`].

use actix::prelude::*;
use slog::{Logger, debug, o};

use super::machine::{Clock, Driver};
use crate::messages::bus::Bus;
use crate::messages::discovery::{Query, RemoveWatch, WatchChanged};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::status::{Board, WatchStatus};

pub mod machine;

use machine::{Action, Input, State};

/// Command: ask Consul from now on.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Begin;

/// Command: the watch was removed from the configuration.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Retire;

/// Where the ConsulAgent listens.
pub struct Agent {
    /// Takes the queries of watches.
    pub queries: Recipient<Query>,
    /// Is told of watches that are removed.
    pub removals: Recipient<RemoveWatch>,
}

/// Observes one service or key in Consul.
pub struct Watch {
    driver: Driver<State>,
    bus: Bus,
    board: Board,
    agent: Agent,
    log: Logger,
}

impl Watch {
    /// A watch that asks nothing before [`Begin`].
    pub fn new(state: State, bus: Bus, board: Board, agent: Agent, (clock, log): (&Clock, &Logger)) -> Self {
        let log = log.new(o!("job" => machine::caller(state.name()).to_string()));
        let watch = Self { driver: Driver::new(state, clock), bus, board, agent, log };
        watch.show(WatchStatus::default());
        watch
    }

    fn advance(&mut self, input: Input, ctx: &mut Context<Self>) {
        for action in self.driver.step(input) {
            self.perform(action, ctx);
        }
    }

    fn perform(&mut self, action: Action, ctx: &mut Context<Self>) {
        match action {
            Action::Ask(query) => self.ask(query, ctx),
            Action::Pause(pause) => {
                ctx.run_later(pause, |watch, ctx| watch.advance(Input::PauseElapsed, ctx));
            }
            Action::Show(status) => self.show(status),
            Action::Publish(code) => self.publish(code),
            Action::Remove(watch) => self.agent.removals.do_send(watch),
            Action::Stop => ctx.stop(),
        }
    }

    fn ask(&self, query: Query, ctx: &mut Context<Self>) {
        let reply = fut::wrap_future(self.agent.queries.send(query));
        ctx.spawn(reply.map(|reply, watch: &mut Self, ctx| {
            // Otherwise the agent's mailbox is closed: the program ends.
            if let Ok(reply) = reply {
                watch.advance(Input::Replied(reply), ctx);
            }
        }));
    }

    fn publish(&self, code: EventCode) {
        debug!(self.log, "{}", code.config_name());
        let source = Source::Watch(self.driver.machine().name().clone());
        self.bus.publish(EventKey { code, source }, None);
    }

    fn show(&self, status: WatchStatus) {
        let name = self.driver.machine().name().clone();
        let found = status.known.then_some(!status.instances.is_empty());
        self.bus.report(WatchChanged {
            name: name.clone(),
            generation: self.driver.machine().generation(),
            found,
        });
        self.board.write().watches.insert(name, status);
    }
}

impl Actor for Watch {
    type Context = Context<Self>;
}

impl Handler<Begin> for Watch {
    type Result = ();

    fn handle(&mut self, _: Begin, ctx: &mut Context<Self>) {
        self.advance(Input::Begun, ctx);
    }
}

impl Handler<Retire> for Watch {
    type Result = ();

    fn handle(&mut self, _: Retire, ctx: &mut Context<Self>) {
        self.advance(Input::Retired, ctx);
    }
}
