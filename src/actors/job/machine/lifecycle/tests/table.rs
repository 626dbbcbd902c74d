//! The transition table as a text file that a reader has on one page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use super::INPUTS;
use super::explore::{can_happen, every_state};
use crate::actors::job::machine::lifecycle::{Action, Input, Timer, step};
use crate::messages::job::Phase;

const HEADER: &str = "\
The life of a job, printed from actors::job::machine::lifecycle::step over every reachable state and every kind of job.
Each line: input → next phase: actions. Several outcomes of one input depend on the job's settings.
Inputs that are not listed under a phase change neither phase nor anything outside.
After a change of `step`, write it anew with: UPDATE_TABLE=1 cargo test --lib lifecycle_table
";

fn input_name(input: Input) -> &'static str {
    match input {
        Input::Triggered => "triggered",
        Input::TriggerExpired => "trigger expired",
        Input::IntervalElapsed => "interval elapsed",
        Input::SpawnFailed => "spawn failed",
        Input::Exited(_) => "exited",
        Input::GroupGone => "group gone",
        Input::RunTimeoutElapsed => "run timeout elapsed",
        Input::IllHealth => "ill health",
        Input::DelayElapsed => "delay elapsed",
        Input::HoldEnded => "hold ended",
        Input::DeregistrationEnded => "deregistration ended",
        Input::DrainElapsed => "drain elapsed",
        Input::KillTimeoutElapsed => "kill timeout elapsed",
        Input::StopRequested => "stop requested",
        Input::HaltRequested => "halt requested",
        Input::StartRequested => "start requested",
        Input::RestartRequested => "restart requested",
        Input::QueueRequested => "queue requested",
        Input::TurnCame => "turn came",
        Input::KillRequested => "kill requested",
    }
}

fn action_name(action: Action) -> String {
    match action {
        Action::Spawn => "spawn".into(),
        Action::Publish(code) => format!("publish {}", code.config_name()),
        Action::PublishStoppingAndHold => "publish stopping and hold".into(),
        Action::Arm(timer) => format!("arm {}", timer_name(timer)),
        Action::Deregister => "deregister".into(),
        Action::Signal => "signal".into(),
        Action::Kill => "kill".into(),
    }
}

fn timer_name(timer: Timer) -> &'static str {
    match timer {
        Timer::RunTimeout => "run timeout",
        Timer::Delay(_) => "delay",
        Timer::Hold => "hold",
        Timer::Deregistration => "deregistration",
        Timer::Drain => "drain",
        Timer::KillTimeout => "kill timeout",
    }
}

/// Outcomes that change something, by phase and input.
type Outcomes = BTreeMap<(Phase, &'static str), BTreeSet<String>>;

fn outcomes() -> Outcomes {
    let mut found = Outcomes::new();
    every_state(|policy, state| {
        for input in INPUTS.into_iter().filter(|input| can_happen(state, *input)) {
            let (next, actions) = step(policy, state, input);
            if next.phase == state.phase && actions.is_empty() {
                continue;
            }
            let actions: Vec<String> = actions.into_iter().map(action_name).collect();
            let separator = if actions.is_empty() { "" } else { ": " };
            let outcome = format!("→ {}{separator}{}", next.phase, actions.join(", "));
            found.entry((state.phase, input_name(input))).or_default().insert(outcome);
        }
    });
    found
}

fn print() -> String {
    let mut text = String::from(HEADER);
    let outcomes = outcomes();
    let mut names: Vec<&str> = INPUTS.into_iter().map(input_name).collect();
    names.dedup();
    for phase in Phase::ALL {
        let _ = write!(text, "\n{phase}\n");
        for name in &names {
            for (index, outcome) in outcomes.get(&(phase, *name)).into_iter().flatten().enumerate() {
                let label = if index == 0 { name } else { "" };
                let _ = writeln!(text, "    {label:<21} {outcome}");
            }
        }
    }
    text
}

#[test]
fn the_committed_lifecycle_table_is_what_step_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/lifecycle-table.txt");
    let printed = print();
    if std::env::var_os("UPDATE_TABLE").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(committed, printed, "run: UPDATE_TABLE=1 cargo test --lib lifecycle_table");
}
