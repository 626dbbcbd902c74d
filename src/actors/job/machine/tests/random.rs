//! Random inputs against what an observer outside must see.

use proptest::prelude::*;

use super::*;
use crate::config::spec::{InitialStatus, OnUnhealthy, ReadyBy, ReadySpec, RestartOn};
use crate::messages::notify::WatchdogSign;
use crate::messages::process::Unstarted;

fn specs() -> Vec<JobSpec> {
    let mut interval = with_trigger(Trigger::Interval(ms(500)));
    (interval.timeout, interval.restarts) = (Some(ms(500)), Limit::Unlimited);
    let mut each = with_trigger(Trigger::Each(db_stopping()));
    (each.raw_output, each.when.timeout) = (true, Some(ms(900)));
    let itself = EventKey { code: EventCode::ExitFailed, source: Source::Job("app".into()) };
    let mut served = JobSpec { restarts: Limit::Finite(2), ..advertised() };
    served.stop.drain = ms(100);
    let mut early = served.clone();
    early.exec = None;
    early.advertise.as_mut().unwrap().initial_status = Some(InitialStatus::Passing);
    let mut ill = JobSpec { restarts: Limit::Finite(3), on_unhealthy: OnUnhealthy::Restart, ..checked() };
    (ill.restart_rule.on, ill.restart_rule.per) = (RestartOn::Failure, Some(ms(2000)));
    let mut later = interval.clone();
    later.when.skips_startup = true;
    let cron = scheduled::cron("*/2 * * * *");
    let itself = with_trigger(Trigger::Each(itself));
    let mut told = JobSpec { restarts: Limit::Finite(4), watchdog: Some(ms(700)), ..advertised() };
    told.ready = ReadySpec { by: Some(ReadyBy::Notify), timeout: Some(ms(900)) };
    let mut printed = JobSpec { restarts: Limit::Unlimited, health: vec![], ..told.clone() };
    printed.ready.by = Some(ReadyBy::Log("ready".into()));
    let watched = JobSpec { watchdog: Some(ms(300)), ..restarting() };
    vec![
        spec(),
        restarting(),
        interval,
        each,
        itself,
        served,
        early,
        ill,
        later,
        cron,
        told,
        printed,
        watched,
    ]
}

/// What a process tells, chosen by a number.
fn news(choice: u8) -> Notification {
    let nothing = Notification::default();
    match choice % 8 {
        0 | 1 => Notification { ready: true, ..nothing },
        2 => Notification { reloading: true, ..nothing },
        3 => Notification { stopping: true, ..nothing },
        4 => Notification { watchdog: Some(WatchdogSign::Alive), ..nothing },
        5 => Notification { watchdog: Some(WatchdogSign::Trigger), ..nothing },
        6 => Notification { watchdog_period: Some(ms(u64::from(choice / 64) * 200)), ..nothing },
        _ => Notification { extension: Some(ms(u64::from(choice))), status: Some("busy".into()), ..nothing },
    }
}

/// An observer of one job, who knows what its engine and the kernel know.
struct Observer {
    job: Job,
    /// The execution that was requested and has not ended.
    is_live: bool,
    is_started: bool,
    is_leftover: bool,
    has_timer: bool,
    has_schedule: bool,
    has_clock: bool,
    awaits_log: bool,
    keeps_hold: bool,
    /// `stopping` was published, and `stopped` was not.
    is_stopping: bool,
    /// `ready` was published of the present execution.
    is_ready: bool,
    deadlines: Vec<Deadline>,
    last_report: Option<JobChanged>,
    is_retired: bool,
}

impl Observer {
    fn of(spec: JobSpec) -> Self {
        let mut observer = Self {
            job: Job::of(spec),
            is_live: false,
            is_started: false,
            is_leftover: false,
            has_timer: false,
            has_schedule: false,
            has_clock: false,
            awaits_log: false,
            keeps_hold: false,
            is_stopping: false,
            is_ready: false,
            deadlines: vec![],
            last_report: None,
            is_retired: false,
        };
        observer.on(Input::Created);
        observer
    }

    /// An input that can come now, chosen by two numbers; `None` where the chosen kind cannot.
    fn choose(&self, kind: u8, choice: u8) -> Option<Input> {
        let key = [
            startup(),
            db_stopping(),
            EventKey { code: EventCode::ExitFailed, source: db_stopping().source },
        ];
        let commands = [
            STOP,
            JobCommand::Stop { cause: Some(3), occasion: StopOccasion::Shutdown },
            JobCommand::Answer(4),
            JobCommand::GiveUp { in_shutdown: false },
            JobCommand::Hurry,
            JobCommand::Kill,
            JobCommand::Halt,
            JobCommand::Start,
            JobCommand::Restart,
            JobCommand::Signal(Signal::HUP),
            JobCommand::Forward(Signal::USR1),
            JobCommand::Maintain(choice >= 128),
        ];
        let place = usize::from(choice);
        let execution = ExecutionId(self.job.executions);
        Some(match kind % 18 {
            0 | 1 => {
                let key = key[place % 3].clone();
                Input::Happened { key, cause: Some(u64::from(choice)), has_hold: choice >= 128 }
            }
            2 | 3 => Input::Commanded(commands[place % commands.len()]),
            4 if choice == 0 => Input::Commanded(JobCommand::Retire),
            5 if self.awaits_log => Input::LogChecked { is_flooded: choice >= 128 },
            6 if self.is_live && !self.is_started => Input::Started(ProcessStarted {
                execution: ExecutionId(self.job.executions),
                pid: Pid::new(7)?,
            }),
            7 if self.is_live => Input::Ended(self.end(choice)),
            8 if self.is_leftover => Input::GroupGone(ExecutionId(self.job.executions)),
            9 => {
                let verdict = [Verdict::Passing, Verdict::Failing][place % 2];
                Input::CheckChanged(CheckChanged { check: 0, round: self.job.round, verdict })
            }
            10 => Input::Withdrawn,
            11 => Input::HoldReleased(u64::from(choice % 4)),
            12 if self.has_timer => Input::TimerElapsed,
            13 if self.has_schedule => Input::ScheduleElapsed,
            14 if self.has_clock => {
                let since_boot = self.job.now.since_beginning() * 60;
                // Now and then somebody sets the clock.
                let wall = WallTime::from_seconds(i64::from(choice % 8) * 1000).plus(since_boot);
                Input::ClockRead(ClockReading { wall, since_boot, chance: 0.5 })
            }
            15 if self.is_live => Input::ReadyTold(execution),
            16 if self.is_live => Input::Notified(execution, Box::new(news(choice))),
            17 if !self.deadlines.is_empty() => {
                Input::DeadlineElapsed(self.deadlines[place % self.deadlines.len()])
            }
            _ => return None,
        })
    }

    fn end(&self, choice: u8) -> ProcessEnded {
        let unstarted = match choice % 3 {
            0 if !self.is_started => Some(Unstarted::Cancelled),
            1 if !self.is_started => Some(Unstarted::Failed("cannot execute it".into())),
            _ => None,
        };
        let leftover = unstarted.is_none() && choice >= 128;
        ProcessEnded { unstarted, leftover, ..self.job.ended(choice % 2) }
    }

    fn on(&mut self, input: Input) {
        if let Input::Ended(ended) = &input {
            (self.is_live, self.is_started, self.is_leftover) = (false, false, ended.leftover);
        }
        if let Input::DeadlineElapsed(deadline) = &input {
            self.deadlines.retain(|known| known != deadline);
        }
        self.is_started |= matches!(input, Input::Started(_));
        self.is_leftover &= !matches!(input, Input::GroupGone(_));
        self.has_timer &= input != Input::TimerElapsed;
        self.has_schedule &= input != Input::ScheduleElapsed;
        self.awaits_log &= !matches!(input, Input::LogChecked { .. });
        let actions = self.job.on(input);
        for action in &actions {
            self.sees(action);
        }
        assert_eq!(self.is_stopping, self.job.state.life.phase.is_stopping());
    }

    fn sees(&mut self, action: &Action) {
        assert!(!self.is_retired, "after Retire: {action:?}");
        let is_gone = !self.is_live && !self.is_leftover;
        match action {
            Action::Launch(_) => {
                assert!(is_gone && !self.is_stopping, "two executions at once");
                (self.is_live, self.is_ready) = (true, false);
            }
            Action::Publish { code: EventCode::Ready, .. } => {
                let has_process = self.job.state.spec.exec.is_some();
                assert!(!has_process || self.is_live, "ready without a process");
                let was_ready = std::mem::replace(&mut self.is_ready, has_process);
                assert!(!was_ready && !self.is_stopping, "ready twice, or while it stops");
            }
            Action::StartDeadline(deadline, time) => {
                assert!(!time.is_zero());
                self.deadlines.retain(|known| known != deadline);
                self.deadlines.push(*deadline);
            }
            Action::CancelDeadline(deadline) => {
                assert!(self.deadlines.contains(deadline), "{deadline:?} is not set");
                self.deadlines.retain(|known| known != deadline);
            }
            Action::Forward(id, _, _) => assert!(self.is_live && id.0 == self.job.executions),
            Action::End(id, _) | Action::Signal(id, _) => assert_eq!(id.0, self.job.executions),
            Action::Publish { code: EventCode::Stopping, .. } => {
                assert!(!std::mem::replace(&mut self.is_stopping, true), "stopping twice");
            }
            Action::Publish { code: EventCode::Stopped, .. } => {
                assert!(std::mem::replace(&mut self.is_stopping, false), "stopped without stopping");
                assert!(is_gone, "stopped while a process lives");
            }
            Action::StartTimer(_) => assert!(!std::mem::replace(&mut self.has_timer, true), "two timers"),
            Action::CancelTimer => self.has_timer = false,
            Action::StartSchedule(_) => {
                assert!(!std::mem::replace(&mut self.has_schedule, true), "two timers of the schedule");
            }
            Action::CancelSchedule => assert!(std::mem::replace(&mut self.has_schedule, false)),
            Action::StartClock(_) => self.has_clock = true,
            Action::StopClock => self.has_clock = false,
            Action::AwaitLog => assert!(!std::mem::replace(&mut self.awaits_log, true)),
            Action::CancelAwaitLog => assert!(std::mem::replace(&mut self.awaits_log, false)),
            Action::KeepHold => self.keeps_hold = true,
            Action::ReleaseHold => assert!(std::mem::replace(&mut self.keeps_hold, false)),
            Action::Report(changed) => {
                let is_news = self.last_report.as_ref() != Some(changed);
                assert!(is_news || changed.answers.is_some(), "told twice: {changed:?}");
                self.last_report = Some(changed.clone());
            }
            Action::Stop => self.is_retired = true,
            Action::NotePhase { from, to } => assert_ne!(from, to),
            Action::NoteFailure(failure) => assert!(!failure.reason.is_empty()),
            Action::CheckLog
            | Action::ReadClock
            | Action::Publish { .. }
            | Action::DrawJitter
            | Action::Check(_)
            | Action::Advertise(..)
            | Action::Withdraw { .. }
            | Action::Show
            | Action::Log(..) => {}
        }
    }

    /// Kills the job; its processes end.
    fn kill(&mut self) {
        self.on(Input::Commanded(JobCommand::Kill));
        if self.is_live {
            self.on(Input::Ended(self.end(2)));
        }
        if self.is_leftover {
            self.on(Input::GroupGone(ExecutionId(self.job.executions)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_a_job_keeps_its_promises_and_leaves_nothing_behind(
        spec in proptest::sample::select(specs()),
        choices in proptest::collection::vec(any::<(u8, u8, bool)>(), 0..80),
    ) {
        let mut observer = Observer::of(spec);
        for (kind, choice, is_flooded) in choices {
            observer.job.is_flooded = is_flooded;
            observer.job.after(u64::from(choice) * 10);
            if let Some(input) = observer.choose(kind, choice) {
                observer.on(input);
            }
        }
        if !observer.is_retired {
            observer.kill();
            let is_over = matches!(observer.job.state.life.phase, Phase::Complete | Phase::Halted);
            prop_assert!(is_over, "{}", observer.job.state.life.phase);
            let timers = (observer.has_timer, observer.has_schedule, observer.has_clock);
            prop_assert_eq!(timers, (false, false, false));
            prop_assert!(!observer.awaits_log && !observer.keeps_hold && observer.deadlines.is_empty());
        }
    }
}
