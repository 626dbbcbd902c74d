//! The defaults of all settings, and the job that a command line adds.

use std::sync::Arc;
use std::time::Duration;

use super::spec::{
    BackoffSpec, CommandLine, ControlSpec, EndOfRun, ExecutionSpec, JobKind, JobSpec, Limit, LoggingSpec,
    MAIN, OnUnhealthy, ReadySpec, RestartRule, Spec, StopBudget, StopSpec, Trigger, When,
};
use super::validate::{DEFAULT_MODE, DEFAULT_SOCKET, DEFAULT_STOP_BUDGET, PRE_START, after, startup};
use crate::messages::signal::Signal;

impl Default for Spec {
    /// The configuration of a program that was given none.
    fn default() -> Self {
        Self {
            consul: None,
            logging: LoggingSpec::default(),
            jobs: Vec::new(),
            groups: Vec::new(),
            watches: Vec::new(),
            control: ControlSpec { socket: DEFAULT_SOCKET.into(), mode: DEFAULT_MODE },
            telemetry: None,
            stop_timeout: StopBudget::Within(DEFAULT_STOP_BUDGET),
            shutdown_signals: Vec::new(),
            env: Vec::new(),
            variable_files: Vec::new(),
        }
    }
}

impl Default for BackoffSpec {
    fn default() -> Self {
        Self {
            min: Duration::ZERO,
            max: Duration::from_secs(30),
            factor: 2.0,
            jitter: 0.1,
            reset_after: Duration::from_secs(10),
        }
    }
}

impl Default for StopSpec {
    fn default() -> Self {
        Self { wait: None, drain: Duration::ZERO, signal: Signal::TERM, kill_timeout: None }
    }
}

impl JobSpec {
    /// A job that runs once, at startup.
    pub fn new(name: Arc<str>, exec: Option<CommandLine>) -> Self {
        Self {
            name,
            kind: JobKind::Job,
            exec,
            when: When::new(Trigger::Once(startup())),
            ready: ReadySpec::default(),
            watchdog: None,
            restarts: Limit::Finite(0),
            restart_rule: RestartRule::default(),
            success: vec![EndOfRun::Code(0)],
            on_unhealthy: OnUnhealthy::default(),
            timeout: None,
            stop: StopSpec::default(),
            backoff: BackoffSpec::default(),
            health: Vec::new(),
            advertise: None,
            raw_output: false,
            keep: None,
            tty: false,
            forward: Vec::new(),
            essential: false,
            required: false,
            execution: ExecutionSpec::default(),
            group: None,
        }
    }
}

impl Spec {
    /// Adds a command as the essential job `main`, of which there must be none.
    pub fn add_main(&mut self, command: CommandLine) {
        let mut main = JobSpec::new(MAIN.into(), Some(command));
        main.essential = true;
        main.required = true;
        let has_coprocess = self.jobs.iter().any(|job| job.kind == JobKind::Coprocess);
        let pre_start = self.jobs.iter().find(|job| &*job.name == PRE_START && job.kind == JobKind::Job);
        if let (true, Some(pre_start)) = (has_coprocess, pre_start) {
            main.when.trigger = after(&pre_start.name);
        }
        self.jobs.push(Arc::new(main));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleep() -> CommandLine {
        CommandLine { program: "sleep".into(), args: vec!["1".into()] }
    }

    #[test]
    fn a_command_becomes_the_essential_job_main() {
        let mut spec = Spec::default();
        spec.add_main(sleep());
        assert_eq!(&*spec.jobs[0].name, "main");
        assert!(spec.jobs[0].essential && spec.jobs[0].required);
    }

    #[test]
    fn main_waits_for_pre_start_when_there_are_coprocesses() {
        let mut spec = Spec::default();
        let agent = JobSpec::new("agent".into(), Some(sleep()));
        spec.jobs.push(Arc::new(JobSpec { kind: JobKind::Coprocess, ..agent }));
        spec.jobs.push(Arc::new(JobSpec::new("preStart".into(), Some(sleep()))));
        spec.add_main(sleep());
        assert!(matches!(spec.jobs[2].when.trigger, Trigger::Any(_)));

        let coprocess =
            JobSpec { kind: JobKind::Coprocess, ..JobSpec::new("preStart".into(), Some(sleep())) };
        let job = JobSpec::new("preStart".into(), Some(sleep()));
        for jobs in [vec![coprocess], vec![job]] {
            let mut spec = Spec { jobs: jobs.into_iter().map(Arc::new).collect(), ..Spec::default() };
            spec.add_main(sleep());
            assert!(matches!(spec.jobs[1].when.trigger, Trigger::Once(_)), "one of both is not enough");
        }
    }
}
