//! The job's process: its start, its end, its timers and its checks.

use super::*;
use crate::config::spec::{EndOfRun, ReadyBy};
use crate::messages::process::{CrashReason, Unstarted};

const FLOODED: (Severity, &str) = (Severity::Debug, "waits for the log, which is not read fast enough");

#[test]
fn a_start_waits_until_the_log_has_room() {
    let mut job = Job::of(spec());
    job.is_flooded = true;
    let actions = job.happens(startup());
    assert_eq!(logged(&actions), [FLOODED]);
    assert!(actions.contains(&Action::AwaitLog) && !is_launched(&actions));
    assert!(!is_launched(&job.on(Input::LogChecked { is_flooded: true })), "it was filled again");
    let actions = job.on(Input::LogChecked { is_flooded: false });
    assert_eq!(actions, [Action::Launch(Some(startup())), Action::Show]);
    assert_eq!(job.on(Input::LogChecked { is_flooded: false }), [], "it is started once");
}

#[test]
fn a_job_that_writes_past_the_log_needs_no_room_in_it() {
    let mut job = Job::of(JobSpec { raw_output: true, ..spec() });
    job.is_flooded = true;
    assert!(is_launched(&job.happens(startup())));
}

#[test]
fn a_job_that_stops_while_its_start_waits_for_the_log_never_runs() {
    let mut job = Job::of(restarting());
    job.is_flooded = true;
    job.happens(startup());
    let actions = job.told(STOP);
    assert!(actions.contains(&Action::CancelAwaitLog));
    let unstarted = Detail::reason("stopped before it was started");
    assert_eq!(published(&actions).get(1), Some(&(EventCode::ExitFailed, unstarted)));
    assert_eq!(job.on(Input::LogChecked { is_flooded: false }), []);
    assert_eq!((job.state.life.phase, job.state.runs), (Phase::Complete, 0));
}

#[test]
fn a_signal_is_forwarded_only_while_the_main_process_lives() {
    let mut job = Job::running(spec());
    let forward = |job: &mut Job| job.told(JobCommand::Forward(Signal::USR1));
    assert!(forward(&mut job).contains(&Action::Forward(ExecutionId(1), None, Signal::USR1)));
    job.tells(Notification { main_process: Pid::new(9), ..Notification::default() });
    assert!(forward(&mut job).contains(&Action::Forward(ExecutionId(1), Pid::new(9), Signal::USR1)));
    job.ends(1);
    let actions = forward(&mut job);
    assert_eq!(logged(&actions), [(Severity::Debug, "has no process to forward SIGUSR1 to")]);
    assert_eq!(actions.len(), 1, "{actions:?}");
}

#[test]
fn a_crash_is_a_failure_that_nobody_asked_for() {
    let mut job =
        Job::running(JobSpec { success: vec![EndOfRun::Code(0), EndOfRun::Code(3)], ..restarting() });
    let signal = ExitStatus::Signal { signal: Signal::SEGV, core_dumped: false };
    for (status, for_memory, expected) in [
        (ExitStatus::Code(0), false, None),
        (ExitStatus::Code(3), false, None),
        (ExitStatus::Code(1), false, Some(CrashReason::Status)),
        (ExitStatus::Code(137), true, Some(CrashReason::Memory)),
        (signal, false, Some(CrashReason::Signal)),
        (signal, true, Some(CrashReason::Memory)),
    ] {
        let ended = ProcessEnded { status, for_memory, ..job.ended(0) };
        assert_eq!(job.state.crash(&ended), expected, "{status:?} {for_memory}");
    }
    let unstarted = Some(Unstarted::Failed("cannot execute it".to_owned()));
    assert_eq!(job.state.crash(&ProcessEnded { unstarted, ..job.ended(0) }), Some(CrashReason::Start));
    job.told(STOP);
    assert_eq!(job.state.crash(&job.ended(143)), None, "it was asked to end");
}

#[test]
fn an_end_by_a_signal_that_a_user_asked_for_is_no_crash() {
    let mut job = Job::running(restarting());
    let killed = |signal| ExitStatus::Signal { signal, core_dumped: false };
    let ended = |status, for_memory| ProcessEnded { status, for_memory, ..job.ended(0) };
    let (asked, other) = (ended(killed(Signal::KILL), false), ended(killed(Signal::SEGV), false));
    let for_memory = ended(killed(Signal::KILL), true);
    assert_eq!(job.state.crash(&asked), Some(CrashReason::Signal), "nobody has asked yet");
    job.told(JobCommand::Signal(Signal::KILL));
    assert_eq!(job.state.crash(&asked), None);
    assert_eq!(job.state.crash(&other), Some(CrashReason::Signal));
    assert_eq!(job.state.crash(&for_memory), Some(CrashReason::Memory));
}

#[test]
fn what_is_told_of_another_execution_is_ignored() {
    let mut job = Job::running(restarting());
    let earlier = ExecutionId(job.executions + 1);
    assert_eq!(job.on(Input::GroupGone(earlier)), []);
    assert_eq!(job.on(Input::Ended(ProcessEnded { execution: earlier, ..job.ended(0) })), []);
    let started = ProcessStarted { execution: earlier, pid: Pid::new(8).unwrap() };
    assert_eq!(job.on(Input::Started(started)), []);
    assert_eq!(job.state.pid(), Some(7));
}

#[test]
fn a_run_that_lasted_starts_the_backoff_over() {
    let mut job = Job::running(restarting());
    for early_ends in [1, 2] {
        job.after(9_999);
        job.ends(1);
        assert_eq!(job.state.life.early_ends, early_ends);
        job.on(Input::TimerElapsed);
        job.starts();
    }
    job.after(10_000);
    job.ends(1);
    assert_eq!(job.state.life.early_ends, 1);
}

#[test]
fn the_time_of_a_start_does_not_count_as_running() {
    let mut job = Job::of(restarting());
    job.happens(startup());
    job.after(60_000);
    job.starts();
    job.ends(1);
    assert_eq!(job.state.life.early_ends, 1);
    job.after(60_000);
    job.ends(1);
    assert_eq!(job.state.life.early_ends, 2, "it ended before it was told of its start");
}

#[test]
fn a_delay_is_spread_by_chance_and_told() {
    let mut spec = restarting();
    spec.backoff.jitter = 0.5;
    let mut job = Job::running(spec);
    job.ends(1);
    job.starts();
    let actions = job.ends(1);
    assert!(actions.contains(&Action::StartTimer(ms(125))), "{actions:?}");
    assert!(logged(&actions).contains(&(Severity::Info, "restarts in 125ms")));
    assert!(is_launched(&job.on(Input::TimerElapsed)));
    assert_eq!(job.on(Input::TimerElapsed), [], "it elapses once");
}

#[test]
fn in_a_shutdown_only_configured_limits_bound_the_steps_of_a_stop() {
    let starts_timer = |spec: JobSpec, occasion| {
        let mut job = Job::running(spec);
        let mut actions = job.told(JobCommand::Stop { cause: None, occasion });
        actions.extend(job.on(Input::HoldReleased(1)));
        actions.retain(|action| matches!(action, Action::StartTimer(_)));
        actions
    };
    let five_seconds = Action::StartTimer(ms(5000));
    assert_eq!(starts_timer(spec(), StopOccasion::Reload), [five_seconds.clone(), five_seconds]);
    assert_eq!(starts_timer(spec(), StopOccasion::Shutdown), []);
    let mut bounded = spec();
    (bounded.stop.wait, bounded.stop.kill_timeout) = (Some(ms(10)), Some(ms(20)));
    assert_eq!(
        starts_timer(bounded, StopOccasion::Shutdown),
        [Action::StartTimer(ms(10)), Action::StartTimer(ms(20))]
    );
}

#[test]
fn a_timer_ends_with_its_phase() {
    let mut job = Job::running(JobSpec { timeout: Some(ms(100)), ..restarting() });
    assert!(job.ends(0).contains(&Action::CancelTimer));
}

#[test]
fn a_process_that_does_not_end_in_time_is_killed_and_the_log_says_why() {
    let mut slow = Job::running(JobSpec { timeout: Some(ms(100)), ..spec() });
    let actions = slow.on(Input::TimerElapsed);
    let expected = [
        (Severity::Warning, "ran longer than its timeout of 100ms: it is killed"),
        (Severity::Debug, "sends SIGKILL"),
    ];
    assert_eq!(logged(&actions), expected);
    assert!(actions.contains(&Action::End(ExecutionId(1), Signal::KILL)));
    let mut stubborn = Job::running(spec());
    stubborn.told(STOP);
    stubborn.on(Input::HoldReleased(1));
    let actions = stubborn.on(Input::TimerElapsed);
    let text = "did not end within 5.0s of SIGTERM: it is killed";
    assert_eq!(logged(&actions).first(), Some(&(Severity::Warning, text)));
}

#[test]
fn what_a_process_leaves_behind_has_time_to_end_unless_the_program_has_none_left() {
    let kill = Action::End(ExecutionId(1), Signal::KILL);
    let mut job = Job::running(spec());
    let leaving = Input::Ended(ProcessEnded { leftover: true, ..job.ended(137) });
    assert!(!job.on(leaving.clone()).contains(&kill));
    let mut job = Job::running(spec());
    job.told(JobCommand::Kill);
    assert!(job.on(leaving).contains(&kill));
}

#[test]
fn a_start_that_takes_too_long_is_no_run() {
    let mut job = Job::of(JobSpec { timeout: Some(ms(100)), ..spec() });
    job.happens(startup());
    let text = "was being started longer than its timeout of 100ms: it is killed";
    assert_eq!(logged(&job.on(Input::TimerElapsed)).first(), Some(&(Severity::Warning, text)));
    let cancelled = ProcessEnded { pid: None, unstarted: Some(Unstarted::Cancelled), ..job.ended(0) };
    let actions = job.on(Input::Ended(cancelled));
    let failed = (EventCode::ExitFailed, Detail::reason("was not started within its timeout"));
    assert_eq!(published(&actions).first(), Some(&failed));
    assert_eq!((job.state.runs, &job.state.last_exit), (0, &None));
}

#[test]
fn a_program_that_cannot_be_executed_has_an_exit_status_and_a_reason() {
    let mut job = Job::of(spec());
    job.happens(startup());
    let reason = "cannot execute it".to_owned();
    let failed =
        ProcessEnded { pid: None, unstarted: Some(Unstarted::Failed(reason.clone())), ..job.ended(127) };
    let actions = job.on(Input::Ended(failed));
    assert_eq!(logged(&actions), [(Severity::Error, &*reason)]);
    assert_eq!(job.state.last_exit, Some((127, reason)));
}

#[test]
fn what_a_start_left_that_was_killed_ends_before_the_next_run() {
    let mut job = Job::of(restarting());
    job.happens(startup());
    let unstarted = Some(Unstarted::Failed("killed while it was being started".to_owned()));
    let ended = ProcessEnded { unstarted, leftover: true, ..job.ended(126) };
    let actions = job.on(Input::Ended(ended.clone()));
    assert!(!is_launched(&actions) && job.state.life.phase == Phase::Sweeping);
    assert!(is_launched(&job.on(Input::GroupGone(ended.execution))));
}

#[test]
fn checks_run_while_the_process_does_and_is_not_asked_to_end() {
    let mut job = Job::of(checked());
    assert_eq!(commands(&job.happens(startup())), []);
    assert_eq!(commands(&job.starts()), [CheckCommand::Begin(1)]);
    assert_eq!(commands(&job.told(STOP)), [], "those who act on its stop may need it");
    assert_eq!(commands(&job.on(Input::HoldReleased(1))), [CheckCommand::Pause]);
    assert_eq!(commands(&job.ends(0)), [CheckCommand::Pause]);
}

#[test]
fn a_job_without_a_process_is_checked_while_it_serves() {
    let mut job = Job::of(JobSpec { exec: None, ..advertised() });
    assert_eq!(commands(&job.happens(startup())), [CheckCommand::Begin(1)]);
    assert_eq!(commands(&job.told(STOP)), [CheckCommand::Pause]);
}

#[test]
fn nothing_is_checked_in_maintenance() {
    let mut job = Job::running(JobSpec { restarts: Limit::Unlimited, ..checked() });
    assert_eq!(commands(&job.told(JobCommand::Maintain(true))), [CheckCommand::Pause]);
    assert_eq!(commands(&job.told(JobCommand::Maintain(true))), []);
    job.ends(1);
    assert_eq!(commands(&job.starts()), []);
    assert!(matches!(*commands(&job.told(JobCommand::Maintain(false))), [CheckCommand::Begin(_)]));
}

#[test]
fn a_time_limit_that_elapses_late_is_given_once_more() {
    let spec = || JobSpec { timeout: Some(ms(1000)), ..restarting() };
    let mut job = Job::running(spec());
    job.after(1100);
    assert_eq!(job.on(Input::TimerElapsed), [Action::StartTimer(ms(1000))], "as after a pause");
    assert_eq!(job.state.life.phase, Phase::Running);
    job.after(1500);
    job.on(Input::TimerElapsed);
    assert_eq!(job.state.life.phase, Phase::TimedOut, "once");
    let mut job = Job::running(spec());
    job.after(1099);
    job.on(Input::TimerElapsed);
    assert_eq!(job.state.life.phase, Phase::TimedOut, "we are never on time to the millisecond");
    let mut job = Job::running(spec());
    job.told(STOP);
    job.on(Input::HoldReleased(1));
    assert_eq!(job.state.life.phase, Phase::Terminating);
    job.after(9000);
    assert_eq!(job.on(Input::TimerElapsed), [Action::StartTimer(ms(5000))]);
    assert_eq!(job.state.life.phase, Phase::Terminating, "it could not end while the container was paused");
}

#[test]
fn a_process_that_is_not_ready_has_its_time_once_more_if_we_are_late() {
    let mut spec = spec();
    (spec.ready.by, spec.ready.timeout) = (Some(ReadyBy::Log("READY".into())), Some(ms(1000)));
    let mut job = Job::running(spec);
    job.after(5000);
    assert_eq!(
        job.on(Input::DeadlineElapsed(Deadline::Ready)),
        [Action::StartDeadline(Deadline::Ready, ms(1000))]
    );
    job.after(5000);
    job.on(Input::DeadlineElapsed(Deadline::Ready));
    assert_eq!(job.state.life.phase, Phase::TimedOut, "once");
}

#[test]
fn a_job_that_runs_because_others_stop_does_not_wait_for_the_log() {
    for (code, waits) in
        [(EventCode::Stopping, false), (EventCode::Stopped, false), (EventCode::Healthy, true)]
    {
        let key = EventKey { code, source: Source::Job("db".into()) };
        let mut job = Job::of(with_trigger(Trigger::Once(key.clone())));
        job.is_flooded = true;
        assert_eq!(is_launched(&job.happens(key)), !waits, "{code:?}");
    }
}
