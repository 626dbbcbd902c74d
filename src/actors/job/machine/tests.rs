//! The rules around a job's lifecycle: inputs in, actions out. Every step is also taken by a copy of the state that was
//! written down and read back.

mod crashing;
mod executing;
mod random;
mod ready;
mod ruling;
mod scheduled;
mod shown;
mod telling;
mod waiting;
mod watched;

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::config::spec::{AdvertiseSpec, CheckSpec, CommandLine, Limit, Probe, Trigger};
use crate::messages::event::Source;
use crate::messages::health::Verdict;
use crate::messages::job::StopOccasion;
use crate::messages::process::{ExitStatus, Pid};

/// A machine with the least of an engine: it answers what must be answered at once.
#[derive(Clone)]
struct Job {
    state: State,
    now: Moment,
    is_flooded: bool,
    executions: u64,
    events: u64,
    /// The execution that is checked.
    round: u64,
    /// What was done since it was asked last.
    done: Vec<Action>,
    /// What the clocks say.
    clocks: ClockReading,
}

impl Job {
    fn of(spec: JobSpec) -> Self {
        let state = State::new(Arc::new(spec), 1, "host");
        let (now, done) = (Moment::default(), vec![]);
        let clocks = ClockReading { wall: WallTime::default(), since_boot: Duration::ZERO, chance: 0.0 };
        Self { state, now, is_flooded: false, executions: 0, events: 0, round: 0, done, clocks }
    }

    /// A job whose process runs.
    fn running(spec: JobSpec) -> Self {
        let mut job = Self::of(spec);
        job.on(Input::Created);
        job.happens(startup());
        job.starts();
        job
    }

    fn on(&mut self, input: Input) -> Vec<Action> {
        self.feed(input);
        std::mem::take(&mut self.done)
    }

    fn feed(&mut self, input: Input) {
        let (mut copy, same_input) = (written_and_read(&self.state), written_and_read(&input));
        let actions = self.state.step(self.now, input);
        assert_eq!(copy.step(self.now, same_input), actions);
        assert_eq!(copy, self.state);
        for action in actions {
            self.done.push(action.clone());
            self.answer(&action);
        }
    }

    fn answer(&mut self, action: &Action) {
        if *action == Action::CheckLog {
            self.feed(Input::LogChecked { is_flooded: self.is_flooded });
        } else if *action == Action::ReadClock {
            self.feed(Input::ClockRead(self.clocks));
        } else if *action == Action::DrawJitter {
            self.feed(Input::JitterDrawn(0.75));
        } else if matches!(action, Action::Launch(_)) {
            self.executions += 1;
            self.feed(Input::Launched(ExecutionId(self.executions)));
        } else if matches!(action, Action::Publish { .. }) {
            self.events += 1;
            self.feed(Input::Published(self.events));
        } else if let Action::Check(CheckCommand::Begin(round)) = action {
            self.round = *round;
        }
    }

    fn after(&mut self, milliseconds: u64) {
        self.now = self.now.plus(ms(milliseconds));
    }

    fn happens(&mut self, key: EventKey) -> Vec<Action> {
        self.on(Input::Happened { key, cause: Some(90), has_hold: false })
    }

    fn happens_with_hold(&mut self, key: EventKey) -> Vec<Action> {
        self.on(Input::Happened { key, cause: Some(90), has_hold: true })
    }

    fn told(&mut self, command: JobCommand) -> Vec<Action> {
        self.on(Input::Commanded(command))
    }

    fn starts(&mut self) -> Vec<Action> {
        let execution = ExecutionId(self.executions);
        self.on(Input::Started(ProcessStarted { execution, pid: Pid::new(7).unwrap() }))
    }

    fn ends(&mut self, code: u8) -> Vec<Action> {
        let ended = self.ended(code);
        self.on(Input::Ended(ended))
    }

    /// The end of the present execution, with nothing left of it.
    fn ended(&self, code: u8) -> ProcessEnded {
        ProcessEnded {
            execution: ExecutionId(self.executions),
            pid: Pid::new(7),
            status: ExitStatus::Code(code),
            unstarted: None,
            for_memory: false,
            daemons: vec![],
            leftover: false,
        }
    }

    /// The job's only check says this of the present execution.
    fn is_checked(&mut self, verdict: Verdict) -> Vec<Action> {
        self.on(Input::CheckChanged(CheckChanged { check: 0, round: self.round, verdict }))
    }
}

fn written_and_read<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A job that runs once, at startup.
fn spec() -> JobSpec {
    JobSpec::new("app".into(), Some(CommandLine { program: "true".into(), args: vec![] }))
}

fn with_trigger(trigger: Trigger) -> JobSpec {
    let mut spec = spec();
    spec.when.trigger = trigger;
    spec
}

fn restarting() -> JobSpec {
    JobSpec { restarts: Limit::Unlimited, ..spec() }
}

/// A job with one check.
fn checked() -> JobSpec {
    let check = CheckSpec {
        name: "check".into(),
        probe: Probe::Tcp("127.0.0.1:1".into()),
        interval: ms(1000),
        timeout: ms(1000),
        failures: 1,
        raw_output: false,
    };
    JobSpec { health: vec![check], ..spec() }
}

/// A job with one check that is in Consul.
fn advertised() -> JobSpec {
    let advertise = AdvertiseSpec {
        address: [127, 0, 0, 1].into(),
        port: 80,
        tags: vec![],
        meta: vec![],
        enable_tag_override: false,
        heartbeat: ms(1000),
        ttl: ms(3000),
        deregister_critical_after: None,
        initial_status: None,
    };
    JobSpec { advertise: Some(Box::new(advertise)), ..checked() }
}

fn startup() -> EventKey {
    EventKey { code: EventCode::Startup, source: Source::Global }
}

/// `stopping` of another job.
fn db_stopping() -> EventKey {
    EventKey { code: EventCode::Stopping, source: Source::Job("db".into()) }
}

const STOP: JobCommand = JobCommand::Stop { cause: None, occasion: StopOccasion::Reload };

/// The events that were published, with their details.
fn published(actions: &[Action]) -> Vec<(EventCode, Detail)> {
    let mut events = Vec::new();
    for action in actions {
        if let Action::Publish { code, detail, .. } = action {
            events.push((*code, detail.clone()));
        }
    }
    events
}

/// What was told to the checks.
fn commands(actions: &[Action]) -> Vec<CheckCommand> {
    let mut commands = Vec::new();
    for action in actions {
        if let Action::Check(command) = action {
            commands.push(*command);
        }
    }
    commands
}

/// What was written into the log.
fn logged(actions: &[Action]) -> Vec<(Severity, &str)> {
    let mut lines = Vec::new();
    for action in actions {
        if let Action::Log(severity, text, _) = action {
            lines.push((*severity, text.as_str()));
        }
    }
    lines
}

fn is_launched(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Launch(_)))
}
