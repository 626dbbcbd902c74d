//! Starts what jobs and health checks execute: the environment, the settings and the table of children at once.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::children::{Children, Owner};
use super::environment::Environ;
use super::pace::{Pace, Turn};
use super::{Launch, Output, SpawnError, login_environment};
use crate::config::spec::{CommandLine, ExecutionSpec};
use crate::messages::event::EventKey;
use crate::messages::process::Pid;

/// Starts processes; clones share the environment and the table of children.
#[derive(Clone)]
pub struct Launcher {
    /// Every live child.
    pub children: Children,
    /// What processes start with.
    pub environ: Rc<RefCell<Environ>>,
    /// Who may start one next.
    pub pace: Pace,
}

/// One process to start.
pub struct Order<'a> {
    /// Whose output it is.
    pub name: &'a Arc<str>,
    /// What to execute.
    pub command: &'a CommandLine,
    /// How.
    pub execution: &'a ExecutionSpec,
    /// Whether it writes to our own stdout and stderr.
    pub raw_output: bool,
    /// The event that started it.
    pub occasion: Option<&'a EventKey>,
}

impl Launcher {
    /// A launcher into that table, with that environment.
    pub fn new(children: Children, environ: Environ) -> Self {
        Self { children, environ: Rc::new(RefCell::new(environ)), pace: Pace::new() }
    }

    /// Starts a process, now that it is its turn; `owner` hears of its end.
    pub fn launch(&self, turn: Turn, order: &Order<'_>, owner: Owner) -> Result<Pid, SpawnError> {
        let goes_on = self.pace.has_company();
        turn.pass_on();
        let login = order.execution.user.as_ref().map(login_environment).unwrap_or_default();
        let environ = self.environ.borrow();
        let environment = environ.build(&login, &order.execution.env, order.occasion);
        let launch = Launch {
            command: order.command,
            execution: order.execution,
            environment: &environment,
            output: if order.raw_output { Output::Inherited } else { Output::Piped },
            goes_on,
        };
        self.children.spawn(&launch, order.name, owner)
    }
}
