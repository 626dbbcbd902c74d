//! When an execution is ready, and what waits for that.

use super::*;
use crate::config::spec::{ReadyBy, ReadySpec};
use crate::messages::job::Missing;

/// How often `ready` was published.
fn times_ready(actions: &[Action]) -> usize {
    published(actions).iter().filter(|(code, _)| *code == EventCode::Ready).count()
}

/// What the Pilot was told last of the readiness.
pub(super) fn reported(actions: &[Action]) -> Option<bool> {
    let report =
        |action: &Action| if let Action::Report(changed) = action { Some(changed.ready) } else { None };
    actions.iter().rev().find_map(report)
}

fn db_ready() -> EventKey {
    EventKey { code: EventCode::Ready, source: Source::Job("db".into()) }
}

#[test]
fn without_checks_a_job_is_ready_when_its_program_was_executed() {
    let mut job = Job::of(restarting());
    assert_eq!(times_ready(&job.happens(startup())), 0);
    let actions = job.starts();
    assert_eq!(published(&actions), [(EventCode::Ready, Detail { pid: Some(7), ..Detail::default() })]);
    assert_eq!(reported(&actions), Some(true));
    assert!(job.state.status().ready);
    assert_eq!(reported(&job.ends(1)), Some(false));
    assert_eq!(times_ready(&job.starts()), 1, "each execution is ready once");
}

#[test]
fn with_checks_a_job_is_ready_when_it_is_first_healthy() {
    let mut job = Job::running(checked());
    assert!(!job.state.is_ready());
    let codes: Vec<_> = published(&job.is_checked(Verdict::Passing)).iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [EventCode::Healthy, EventCode::Ready]);
    job.is_checked(Verdict::Failing);
    assert!(job.state.is_ready(), "a job that is unhealthy is ready all the same");
    assert_eq!(times_ready(&job.is_checked(Verdict::Passing)), 0);
}

#[test]
fn a_job_that_something_else_executes_is_ready_when_it_is_first_healthy_since_it_runs() {
    let mut job = Job::of(JobSpec { exec: None, ..advertised() });
    job.happens(startup());
    assert_eq!(times_ready(&job.is_checked(Verdict::Passing)), 1);
    job.told(JobCommand::Restart);
    job.on(Input::HoldReleased(1));
    job.on(Input::Withdrawn);
    assert_eq!((job.state.life.phase, job.state.is_ready()), (Phase::Running, false));
    assert_eq!(times_ready(&job.is_checked(Verdict::Passing)), 1);
}

#[test]
fn a_job_that_stops_does_not_become_ready() {
    let mut job = Job::of(spec());
    job.happens(startup());
    job.told(STOP);
    assert_eq!(times_ready(&job.starts()), 0);
    let mut checked = Job::running(checked());
    checked.told(STOP);
    assert_eq!(times_ready(&checked.is_checked(Verdict::Passing)), 0);
}

#[test]
fn a_job_that_was_killed_while_it_started_is_never_ready() {
    let mut job = Job::of(JobSpec { timeout: Some(ms(100)), ..spec() });
    job.happens(startup());
    job.on(Input::TimerElapsed);
    assert_eq!(job.state.life.phase, Phase::TimedOut);
    assert_eq!(times_ready(&job.starts()), 0);
}

#[test]
fn the_clock_of_an_interval_starts_when_the_jobs_in_after_are_ready() {
    let mut spec = with_trigger(Trigger::Interval(ms(1000)));
    spec.when.after = vec![db_ready()];
    assert_eq!(trigger::interests(&spec), [db_ready()]);
    let mut job = Job::of(spec);
    assert_eq!(job.state.changed(None).missing, Missing::AllOf(vec![db_ready()]));
    assert!(!is_launched(&job.happens(startup())), "startup alone starts nothing");
    job.after(400);
    let actions = job.happens(db_ready());
    assert!(is_launched(&actions));
    assert!(actions.contains(&Action::StartSchedule(ms(1000))), "{actions:?}");
    assert!(!is_launched(&job.happens(db_ready())), "the clock starts once");
}

#[test]
fn an_interval_that_leaves_out_its_first_run_waits_once_the_jobs_in_after_are_ready() {
    let mut spec = with_trigger(Trigger::Interval(ms(1000)));
    (spec.when.after, spec.when.skips_startup) = (vec![db_ready()], true);
    let mut job = Job::of(spec);
    job.happens(startup());
    job.after(400);
    let actions = job.happens(db_ready());
    assert!(!is_launched(&actions) && actions.contains(&Action::StartSchedule(ms(1000))), "{actions:?}");
    job.after(1000);
    assert!(is_launched(&job.on(Input::ScheduleElapsed)));
}

#[test]
fn the_clock_of_a_schedule_starts_when_the_jobs_in_after_are_ready() {
    let mut spec = scheduled::cron("0 * * * *");
    spec.when.after = vec![db_ready()];
    let mut job = Job::of(spec);
    assert!(!job.happens(startup()).contains(&Action::ReadClock));
    assert!(job.happens(db_ready()).contains(&Action::ReadClock));
    assert!(job.state.calendar.is_some());
}

/// A job whose process tells by systemd's protocol that it is ready.
pub(super) fn notifying() -> JobSpec {
    JobSpec { ready: ReadySpec { by: Some(ReadyBy::Notify), timeout: Some(ms(3000)) }, ..restarting() }
}

pub(super) fn nothing() -> Notification {
    Notification::default()
}

impl Job {
    pub(super) fn tells(&mut self, news: Notification) -> Vec<Action> {
        self.on(Input::Notified(ExecutionId(self.executions), Box::new(news)))
    }

    pub(super) fn tells_ready(&mut self) -> Vec<Action> {
        self.tells(Notification { ready: true, ..nothing() })
    }

    pub(super) fn deadline(&mut self, deadline: Deadline) -> Vec<Action> {
        self.on(Input::DeadlineElapsed(deadline))
    }
}

pub(super) fn deadlines(actions: &[Action]) -> Vec<(Deadline, Option<Duration>)> {
    let mut found = Vec::new();
    for action in actions {
        if let Action::StartDeadline(deadline, time) = action {
            found.push((*deadline, Some(*time)));
        } else if let Action::CancelDeadline(deadline) = action {
            found.push((*deadline, None));
        }
    }
    found
}

#[test]
fn a_job_that_tells_is_starting_until_it_has_told() {
    let mut job = Job::running(notifying());
    assert_eq!((job.state.status().state(), job.state.is_ready()), ("starting", false));
    job.after(250);
    assert_eq!(times_ready(&job.tells_ready()), 1);
    let status = job.state.status();
    assert_eq!((status.state(), status.ready, status.ready_after), ("running", true, Some(ms(250))));
    assert_eq!(times_ready(&job.tells_ready()), 0);
    assert_eq!(job.on(Input::ReadyTold(ExecutionId(1))), [], "that is not its way");
}

#[test]
fn a_word_of_an_earlier_execution_means_nothing() {
    let mut job = Job::running(notifying());
    job.ends(1);
    job.starts();
    let late = Input::Notified(ExecutionId(1), Box::new(Notification { ready: true, ..nothing() }));
    assert_eq!(job.on(late), []);
    assert!(!job.state.is_ready());
}

#[test]
fn ready_by_a_descriptor_or_the_log_is_not_told_by_the_socket() {
    let by = Some(ReadyBy::Descriptor(3));
    let mut job = Job::running(JobSpec { ready: ReadySpec { by, timeout: None }, ..restarting() });
    assert_eq!(times_ready(&job.tells_ready()), 0);
    assert_eq!(times_ready(&job.on(Input::ReadyTold(ExecutionId(1)))), 1);
}

#[test]
fn checks_begin_when_the_process_has_told_that_it_is_ready() {
    let mut job = Job::of(JobSpec { health: checked().health, ..notifying() });
    job.happens(startup());
    assert_eq!(commands(&job.starts()), []);
    assert!(matches!(commands(&job.tells_ready())[..], [CheckCommand::Begin(_)]));
}

#[test]
fn a_job_with_a_port_and_no_checks_is_registered_while_it_is_ready() {
    let spec = JobSpec { advertise: advertised().advertise, ..notifying() };
    let mut job = Job::running(spec);
    let told = |actions: &[Action]| {
        let status =
            |action: &Action| if let Action::Advertise(_, status) = action { Some(*status) } else { None };
        actions.iter().find_map(status)
    };
    assert_eq!(told(&job.tells_ready()), Some(ServiceStatus::Passing));
    assert_eq!(told(&job.ends(1)), Some(ServiceStatus::Critical));
    job.starts();
    assert_eq!(told(&job.tells_ready()), Some(ServiceStatus::Passing));
}

#[test]
fn an_execution_that_is_not_ready_in_time_is_killed_and_has_failed() {
    let mut job = Job::of(notifying());
    assert_eq!(deadlines(&job.happens(startup())), [(Deadline::Ready, Some(ms(3000)))]);
    job.starts();
    job.after(3000);
    let actions = job.deadline(Deadline::Ready);
    assert!(actions.contains(&Action::End(ExecutionId(1), Signal::KILL)));
    assert_eq!(job.state.life.phase, Phase::TimedOut);
    assert_eq!(times_ready(&job.tells_ready()), 0);
    let status = ExitStatus::Signal { signal: Signal::KILL, core_dumped: false };
    let actions = job.on(Input::Ended(ProcessEnded { status, ..job.ended(0) }));
    let (code, detail) = published(&actions)[0].clone();
    assert_eq!(code, EventCode::ExitFailed);
    assert_eq!(detail.reason.as_deref(), Some("was not ready within its ready.timeout: killed by SIGKILL"));
    assert!(is_launched(&actions), "the restart rules apply");
}

#[test]
fn a_process_can_ask_for_more_time_to_become_ready() {
    let mut job = Job::running(notifying());
    job.after(2900);
    job.tells(Notification { extension: Some(ms(1000)), ..nothing() });
    job.after(100);
    assert_eq!(deadlines(&job.deadline(Deadline::Ready)), [(Deadline::Ready, Some(ms(900)))]);
    assert_eq!(deadlines(&job.tells_ready()), [(Deadline::Ready, None)]);
}

#[test]
fn a_process_can_ask_for_more_time_to_stop() {
    let mut spec = notifying();
    spec.stop.kill_timeout = Some(ms(1000));
    let mut job = Job::running(spec);
    job.told(STOP);
    job.on(Input::HoldReleased(1));
    assert_eq!(job.state.life.phase, Phase::Terminating);
    job.after(900);
    job.tells(Notification { extension: Some(ms(500)), ..nothing() });
    job.after(100);
    assert_eq!(job.on(Input::TimerElapsed), [Action::StartTimer(ms(400))]);
    job.after(400);
    job.on(Input::TimerElapsed);
    assert_eq!(job.state.life.phase, Phase::Killing);
}

#[test]
fn time_that_a_process_asked_for_before_it_was_told_to_stop_is_none_to_stop() {
    for stopping in [false, true] {
        let mut spec = notifying();
        spec.stop.kill_timeout = Some(ms(1000));
        let mut job = Job::running(spec);
        job.tells(Notification { extension: Some(ms(60_000)), stopping, ..nothing() });
        job.told(STOP);
        job.on(Input::HoldReleased(1));
        job.after(1000);
        job.on(Input::TimerElapsed);
        let expected = if stopping { Phase::Terminating } else { Phase::Killing };
        assert_eq!(job.state.life.phase, expected, "unless it has said that it stops");
    }
}

#[test]
fn users_see_what_a_process_tells_of_itself() {
    let mut job = Job::running(notifying());
    let seen = |job: &Job| job.state.status().status_text;
    job.tells(Notification { status: Some("loading 3 of 4".into()), main_process: Pid::new(9), ..nothing() });
    assert_eq!((seen(&job).as_deref(), job.state.status().pid), (Some("loading 3 of 4"), Some(9)));
    job.tells(Notification { error: Some("No such file".into()), ..nothing() });
    let actions = job.ends(1);
    assert_eq!(published(&actions)[0].1.reason.as_deref(), Some("exited with status 1: No such file"));
    assert_eq!(seen(&job), None, "that was another process");
}

#[test]
fn a_process_that_says_that_it_stops_is_not_ready_any_more() {
    let mut job = Job::running(notifying());
    job.tells_ready();
    let actions = job.tells(Notification { stopping: true, ..nothing() });
    assert_eq!((reported(&actions), published(&actions)), (Some(false), vec![]));
    assert_eq!(times_ready(&job.tells_ready()), 0);
    let mut reloads = Job::running(notifying());
    reloads.tells_ready();
    reloads.tells(Notification { reloading: true, ..nothing() });
    assert!(reloads.state.is_ready(), "a process that reloads is ready");
    assert_eq!(logged(&reloads.tells_ready()), [(Severity::Info, "has reloaded")]);
}

#[test]
fn a_reload_is_told_once_and_other_news_are_none() {
    let mut job = Job::running(notifying());
    job.tells_ready();
    let reloads = || Notification { reloading: true, ..nothing() };
    assert_eq!(logged(&job.tells(reloads())), [(Severity::Info, "reloads")]);
    assert_eq!(logged(&job.tells(reloads())), []);
    job.tells_ready();
    assert_eq!(logged(&job.tells(Notification { status: Some("works".into()), ..nothing() })), []);
}

#[test]
fn a_process_that_stops_before_it_was_ready_was_never_ready() {
    let mut job = Job::running(notifying());
    let actions = job.tells(Notification { stopping: true, ..nothing() });
    assert_eq!(logged(&actions), [(Severity::Info, "says that it stops")]);
    let mut stopped = Job::running(notifying());
    stopped.told(STOP);
    assert_eq!(logged(&stopped.tells(Notification { stopping: true, ..nothing() })), [], "it was told to");
    assert_eq!((job.state.status().ready, job.state.status().starting), (false, true));
}

#[test]
fn in_maintenance_no_job_has_to_become_ready_by_checks_that_are_off() {
    let timeout = Some(ms(3000));
    let by_checks = JobSpec { ready: ReadySpec { by: None, timeout }, ..checked() };
    let mut job = Job::running(by_checks.clone());
    assert_eq!(deadlines(&job.told(JobCommand::Maintain(true))), [(Deadline::Ready, None)]);
    assert_eq!(job.deadline(Deadline::Ready), [], "one that has elapsed meanwhile");
    assert_eq!(deadlines(&job.told(JobCommand::Maintain(false))), [(Deadline::Ready, timeout)]);
    let mut job = Job::of(by_checks.clone());
    job.told(JobCommand::Maintain(true));
    assert_eq!(deadlines(&job.happens(startup())), [], "started in maintenance");
    job.starts();
    job.after(10_000);
    assert_eq!(deadlines(&job.told(JobCommand::Maintain(false))), [(Deadline::Ready, timeout)]);
    let mut job = Job::running(by_checks);
    job.is_checked(Verdict::Passing);
    assert_eq!(deadlines(&job.told(JobCommand::Maintain(true))), [], "it is ready");
    let mut job = Job::running(notifying());
    assert_eq!(deadlines(&job.told(JobCommand::Maintain(true))), [], "it can tell");
}
