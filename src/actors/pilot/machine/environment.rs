//! Changes of the environment through the control socket: one with which no process could be started is refused.

use serde::{Deserialize, Serialize};

use super::{Action, Reply, State};
use crate::messages::control::Refusal;

/// The strings that execve(2) would get with a changed environment, and how many it takes; all in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecStrings {
    /// The name and the length of the longest variable that is set; `None` if variables are only unset.
    pub longest: Option<(String, usize)>,
    /// The longest variable that it takes.
    pub string_limit: usize,
    /// All variables, and what the largest job adds to them.
    pub total: usize,
    /// The most that it takes of all together.
    pub total_limit: usize,
}

impl State {
    /// Has the changed environment used from now on, or refuses it. The reply follows once it is used.
    pub(super) fn change_environment(&self, request: u64, strings: &ExecStrings) -> Vec<Action> {
        match strings.check() {
            Ok(()) => vec![Action::UseEnvironment(request)],
            Err(reason) => vec![reply(request, Err(Refusal::TooLarge(reason)))],
        }
    }

    pub(super) fn environment_used(&self, request: u64) -> Vec<Action> {
        vec![reply(request, Ok(()))]
    }
}

fn reply(request: u64, outcome: Result<(), Refusal>) -> Action {
    Action::Reply(request, Reply::Environment(outcome))
}

impl ExecStrings {
    /// Whether processes can still be started.
    fn check(&self) -> Result<(), String> {
        let Some((name, longest)) = &self.longest else { return Ok(()) };
        let Self { string_limit, total, total_limit, .. } = self;
        if longest > string_limit {
            return Err(format!(
                "{name}: it would take {longest} bytes; no process can be started with a variable of more than {string_limit}"
            ));
        }
        if total > total_limit {
            return Err(format!(
                "{name}: with it all variables would take {total} bytes; no process can be started with more than {total_limit}"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Input;
    use super::*;
    use crate::actors::machine::Machine;
    use crate::messages::moment::Moment;

    fn strings(longest: Option<usize>, total: usize) -> ExecStrings {
        let longest = longest.map(|length| ("A".to_owned(), length));
        ExecStrings { longest, string_limit: 100, total, total_limit: 1000 }
    }

    #[test]
    fn a_change_of_the_environment_is_answered_once_it_is_used_or_refused_with_the_reason() {
        let mut state = State::new(Arc::default());
        let now = Moment::default();
        let mut ask = |request, strings| state.step(now, Input::EnvironmentAsked(request, strings));
        assert_eq!(ask(1, strings(Some(1), 1)), [Action::UseEnvironment(1)]);
        let refused = ask(2, strings(Some(101), 1));
        let [Action::Reply(2, Reply::Environment(Err(Refusal::TooLarge(_))))] = &refused[..] else {
            panic!("{refused:?}")
        };
        assert_eq!(state.step(now, Input::EnvironmentUsed(1)), [reply(1, Ok(()))]);
    }

    #[test]
    fn variables_that_would_keep_processes_from_starting_are_refused() {
        assert_eq!(strings(Some(100), 1000).check(), Ok(()));
        let refused = |longest, total| strings(Some(longest), total).check().unwrap_err();
        assert!(refused(101, 0).starts_with("A: it would take 101 bytes; "));
        assert!(refused(1, 1001).starts_with("A: with it all variables would take 1001 bytes; "));
        assert_eq!(strings(None, 1001).check(), Ok(()), "it gets better");
    }
}
