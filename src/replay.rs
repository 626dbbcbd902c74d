//! Runs the machines of a record ([`crate::recording`]) again, and compares their actions with the recorded ones.
//!
//! A record comes from outside. Whatever is in it, the result is a summary or a [`Failure`] that names the line.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde_json::value::RawValue;

use crate::actors::machine::{self, Kind, Machine};
use crate::actors::{consul_agent, health_check, job, pilot, reaper, watch};
use crate::messages::moment::Moment;
use crate::printable::printable;
use crate::reason::reason;
use crate::recording::{FORMAT, Line, PROGRAM};

/// The longest line that is read. A state of a program with 10,000 jobs has less.
const LONGEST_LINE: u64 = 64 << 20;
/// Of an input or action that is shown, this many characters.
const SHOWN: usize = 2000;

/// A record whose machines came to the recorded actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// How many inputs they got.
    pub steps: u64,
    /// How many machines there were.
    pub machines: u64,
    /// Why the record ends, in its own words; `None` if it does not say, because the program was killed.
    pub end: Option<String>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, machines, end } = self;
        writeln!(f, "{steps} steps of {machines} machines: the same actions")?;
        match end {
            Some(end) => write!(f, "the record ends: {}", printable(end)),
            None => f.write_str("the record was cut off: the program was killed, or it still runs"),
        }
    }
}

/// Why a replay ended early.
#[derive(Debug)]
pub struct Failure {
    /// The line of the record.
    line: u64,
    problem: Problem,
    /// The program that wrote the record, if it was of another version.
    other_program: Option<String>,
}

#[derive(Debug)]
enum Problem {
    /// The record cannot be read, or is wrong.
    Bad(String),
    /// A machine came to other actions.
    Different(Box<Difference>),
}

/// A step that led to other actions than the recorded ones.
#[derive(Debug)]
struct Difference {
    step: Step,
    recorded: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, problem, other_program } = self;
        match problem {
            Problem::Bad(problem) => write!(f, "line {line}: {}", printable(problem))?,
            Problem::Different(difference) => write!(f, "line {line}: {difference}")?,
        }
        match other_program {
            Some(other) => {
                write!(f, "\nthe record is of containerpilot {}, this is {PROGRAM}", printable(other))
            }
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step: Step { machine, at, input, actions: now }, recorded } = self;
        let seconds = at.since_beginning().as_secs_f64();
        write!(f, "{} decides otherwise, {seconds:.6}s after the start", printable(machine))?;
        write!(f, "\ninput: {}", shown(input))?;
        write!(f, "\nactions (- recorded, + now):")?;
        let same = recorded.iter().zip(now).take_while(|(recorded, now)| recorded == now).count();
        let lines = |sign, actions: &'_ [String], from| {
            let lines = actions.iter().skip(from).map(move |action| format!("\n{sign} {}", shown(action)));
            lines.collect::<String>()
        };
        let common = recorded.get(..same).unwrap_or_default();
        write!(f, "{}{}{}", lines(' ', common, 0), lines('-', recorded, same), lines('+', now, same))
    }
}

fn shown(json: &str) -> String {
    let mut text: String = json.chars().take(SHOWN).collect();
    if text.len() < json.len() {
        text.push('…');
    }
    printable(&text)
}

/// Replays one record, or several one after the other.
pub fn run(mut record: impl BufRead) -> Result<Summary, Failure> {
    let mut replay = Replay::default();
    let mut text = Vec::new();
    loop {
        replay.line += 1;
        text.clear();
        let read = record.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut text);
        let outcome = match read {
            Err(error) => Err(Problem::bad(format!("cannot read: {}", reason(&error)))),
            Ok(0) => break,
            Ok(_) if text.last() == Some(&b'\n') => replay.take(&text),
            Ok(length) if length as u64 == LONGEST_LINE => {
                Err(Problem::bad("longer than a line of a record can be"))
            }
            // The program was killed while it wrote.
            Ok(_) => break,
        };
        outcome.map_err(|problem| replay.failure(problem))?;
    }
    if !replay.is_begun {
        return Err(replay.failure(Problem::bad("this is no record: it has no whole line")));
    }
    Ok(Summary { steps: replay.steps, machines: replay.count, end: replay.end })
}

impl Problem {
    fn bad(text: impl Into<String>) -> Self {
        Self::Bad(text.into())
    }
}

/// A replay in progress.
#[derive(Default)]
struct Replay {
    /// The number of the line.
    line: u64,
    /// The header was read.
    is_begun: bool,
    other_program: Option<String>,
    /// The machines that live, by their number.
    machines: BTreeMap<u64, Replayed>,
    /// The step whose recorded actions follow.
    open: Option<Step>,
    steps: u64,
    count: u64,
    end: Option<String>,
}

/// A machine that is run again.
struct Replayed {
    label: String,
    machine: Box<dyn Steps>,
}

/// A step that was run again.
#[derive(Debug)]
struct Step {
    machine: String,
    at: Moment,
    input: String,
    actions: Vec<String>,
}

impl Replay {
    fn failure(&self, problem: Problem) -> Failure {
        Failure { line: self.line, problem, other_program: self.other_program.clone() }
    }

    fn take(&mut self, text: &[u8]) -> Result<(), Problem> {
        let line: Line<'_, &RawValue> = serde_json::from_slice(text).map_err(|error| {
            Problem::bad(match self.is_begun {
                true => format!("not a line of a record: {error}"),
                false => format!("this is no record: {error}"),
            })
        })?;
        if !self.is_begun && !matches!(line, Line::Record { .. }) {
            return Err(Problem::bad("this is no record: it does not begin with its version"));
        }
        let open = self.open.take();
        match line {
            Line::Record { format, program } => self.begin(format, &program),
            Line::Machine { number, kind, name, state } => self.create(number, kind, &name, state),
            Line::Input { number, at, input } => self.step(number, at, input),
            Line::Actions(recorded) => self.compare(open, recorded),
            Line::Gone(number) => match self.machines.remove(&number) {
                Some(_) => Ok(()),
                None => Err(unknown(number)),
            },
            Line::End(why) => {
                self.end = Some(why.into_owned());
                Ok(())
            }
        }
    }

    fn begin(&mut self, format: u32, program: &str) -> Result<(), Problem> {
        if format != FORMAT {
            let text = format!(
                "the record has format {format}, of containerpilot {program}; this program reads format {FORMAT}"
            );
            return Err(Problem::bad(text));
        }
        self.is_begun = true;
        self.other_program = (program != PROGRAM).then(|| program.to_owned());
        self.machines.clear();
        self.end = None;
        Ok(())
    }

    fn create(&mut self, number: u64, kind: Kind, name: &str, state: &RawValue) -> Result<(), Problem> {
        let label = if name.is_empty() { kind.to_string() } else { format!("{kind} \"{name}\"") };
        let machine = read(kind, state.get())
            .map_err(|error| Problem::bad(format!("cannot read the state of {label}: {error}")))?;
        if self.machines.insert(number, Replayed { label, machine }).is_some() {
            return Err(Problem::bad(format!("there is a machine {number} already")));
        }
        self.count += 1;
        Ok(())
    }

    fn step(&mut self, number: u64, at: u64, input: &RawValue) -> Result<(), Problem> {
        let Replayed { label, machine } = self.machines.get_mut(&number).ok_or_else(|| unknown(number))?;
        let at = Moment::after(Duration::from_nanos(at));
        let actions = machine.step(at, input.get()).map_err(|problem| {
            Problem::bad(format!("{label}, with the input {}: {problem}", shown(input.get())))
        })?;
        self.steps += 1;
        self.open = Some(Step { machine: label.clone(), at, input: input.get().to_owned(), actions });
        Ok(())
    }

    fn compare(&mut self, open: Option<Step>, recorded: &RawValue) -> Result<(), Problem> {
        let Some(step) = open else {
            return Err(Problem::bad("actions without an input"));
        };
        let recorded: Vec<&RawValue> = serde_json::from_slice(recorded.get().as_bytes())
            .map_err(|error| Problem::bad(format!("cannot read the actions: {error}")))?;
        if recorded.iter().map(|action| action.get()).eq(&step.actions) {
            return Ok(());
        }
        let recorded = recorded.into_iter().map(|action| action.get().to_owned()).collect();
        Err(Problem::Different(Box::new(Difference { step, recorded })))
    }
}

fn unknown(number: u64) -> Problem {
    Problem::bad(format!("there is no machine {number}"))
}

/// A machine of any kind, over text.
trait Steps {
    /// Runs one step; the actions are JSON, as in a record.
    fn step(&mut self, at: Moment, input: &str) -> Result<Vec<String>, String>;
}

impl<M: Machine> Steps for M {
    fn step(&mut self, at: Moment, input: &str) -> Result<Vec<String>, String> {
        let input: M::Input =
            serde_json::from_slice(input.as_bytes()).map_err(|error| format!("cannot read it: {error}"))?;
        // A machine that panicked when the record was written does so again, and that is worth telling.
        let actions = catch_unwind(AssertUnwindSafe(|| machine::step(self, at, input)))
            .map_err(|panic| format!("panicked: {}", message(&*panic)))?;
        actions.iter().map(serde_json::to_string).collect::<Result<_, _>>().map_err(|error| error.to_string())
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default()
}

/// From bytes, as all JSON is read here: `from_str` would add a second copy of serde_json's code for each type.
fn read(kind: Kind, state: &str) -> Result<Box<dyn Steps>, serde_json::Error> {
    let state = state.as_bytes();
    Ok(match kind {
        Kind::Pilot => Box::new(serde_json::from_slice::<pilot::machine::State>(state)?),
        Kind::Job => Box::new(serde_json::from_slice::<job::machine::State>(state)?),
        Kind::HealthCheck => Box::new(serde_json::from_slice::<health_check::machine::State>(state)?),
        Kind::Watch => Box::new(serde_json::from_slice::<watch::machine::State>(state)?),
        Kind::ConsulAgent => Box::new(serde_json::from_slice::<consul_agent::machine::State>(state)?),
        Kind::Reaper => Box::new(serde_json::from_slice::<reaper::machine::State>(state)?),
    })
}

#[cfg(test)]
mod tests;
