//! Which ends are noted as failures, what is told of them, and what is decided after them.

use super::*;
use crate::messages::process::Unstarted;

fn failure(actions: &[Action]) -> Option<&Failure> {
    actions
        .iter()
        .find_map(|action| if let Action::NoteFailure(failure) = action { Some(failure) } else { None })
}

fn killed(job: &Job, signal: Signal) -> ProcessEnded {
    ProcessEnded { status: ExitStatus::Signal { signal, core_dumped: false }, ..job.ended(0) }
}

/// Who is said to have ended the process, if its end is a failure.
fn killer(actions: &[Action]) -> Option<&str> {
    failure(actions)?.killed_by.as_deref()
}

/// A job that was stopped by hand and got its stop signal.
fn stopping() -> Job {
    let mut job = Job::running(spec());
    job.told(JobCommand::Halt);
    job.on(Input::HoldReleased(1));
    assert_eq!(job.state.life.phase, Phase::Terminating);
    job
}

const ELSEWHERE: &str = "not containerpilot; the kernel does not tell a parent who sent SIGKILL";

#[test]
fn an_exit_that_is_no_success_is_a_failure() {
    let mut job = Job::running(spec());
    job.after(1500);
    let actions = job.ends(3);
    let expected = Failure {
        pid: Some(7),
        status: 3,
        signal: None,
        core_dumped: false,
        killed_by: None,
        reason: "exited with status 3".to_owned(),
        lasted: ms(1500),
    };
    assert_eq!(failure(&actions), Some(&expected));
    assert_eq!(failure(&Job::running(spec()).ends(0)), None);
    let lenient = JobSpec { success: vec![crate::config::spec::EndOfRun::Code(3)], ..spec() };
    assert_eq!(failure(&Job::running(lenient).ends(3)), None);
}

#[test]
fn a_program_that_could_not_be_executed_has_failed_and_a_cancelled_start_has_not() {
    let mut job = Job::of(spec());
    job.on(Input::Created);
    job.happens(startup());
    let ended = |unstarted| ProcessEnded { unstarted: Some(unstarted), pid: None, ..job.ended(127) };
    let (failed, cancelled) = (ended(Unstarted::Failed("no such file".into())), ended(Unstarted::Cancelled));
    let actions = job.on(Input::Ended(failed));
    let noted = failure(&actions).unwrap();
    assert_eq!((noted.pid, noted.status, noted.reason.as_str()), (None, 127, "no such file"));
    let mut job = Job::of(spec());
    job.on(Input::Created);
    job.happens(startup());
    assert_eq!(failure(&job.on(Input::Ended(cancelled))), None);
}

#[test]
fn it_is_told_who_sent_the_signal_as_far_as_anybody_knows() {
    let mut job = Job::running(spec());
    let ended = killed(&job, Signal::KILL);
    assert_eq!(killer(&job.on(Input::Ended(ended))), Some(ELSEWHERE));

    let mut job = Job::running(spec());
    let ended = ProcessEnded { for_memory: true, ..killed(&job, Signal::KILL) };
    assert_eq!(killer(&job.on(Input::Ended(ended))), Some("the kernel, for lack of memory"));

    let mut job = Job::running(spec());
    job.told(JobCommand::Signal(Signal::HUP));
    let ended = killed(&job, Signal::HUP);
    assert_eq!(
        killer(&job.on(Input::Ended(ended))),
        Some("containerpilot: the signal was asked for by hand")
    );

    let mut job = Job::running(JobSpec { timeout: Some(ms(10)), ..spec() });
    job.on(Input::TimerElapsed);
    let ended = killed(&job, Signal::KILL);
    let actions = job.on(Input::Ended(ended));
    assert_eq!(killer(&actions), Some("containerpilot: its time was over"));
    assert_eq!(failure(&actions).unwrap().reason, "ran longer than its timeout: killed by SIGKILL");
}

#[test]
fn a_job_that_ends_because_it_was_told_to_has_not_failed_unless_it_had_to_be_killed() {
    let mut job = stopping();
    let ended = killed(&job, Signal::TERM);
    assert_eq!(failure(&job.on(Input::Ended(ended))), None);
    assert_eq!(failure(&stopping().ends(1)), None);
    let mut job = stopping();
    job.on(Input::TimerElapsed);
    let ended = killed(&job, Signal::KILL);
    let actions = job.on(Input::Ended(ended));
    assert_eq!(killer(&actions), Some("containerpilot: it is stopped by hand"));
    assert_eq!(failure(&actions).unwrap().reason, "killed by SIGKILL after killTimeout");
    let mut job = Job::running(spec());
    job.told(JobCommand::Halt);
    assert!(failure(&job.ends(1)).is_some(), "it was not asked yet");
}

#[test]
fn what_follows_a_failure_is_said() {
    let decision = |job: &Job| job.state.decision();
    let mut job = Job::running(restarting());
    job.ends(1);
    let (text, is_final) = decision(&job);
    assert!(text.starts_with("restart") && text.ends_with("(restart 1)") && is_final, "{text}");
    let mut job = Job::running(JobSpec { restarts: Limit::Finite(5), ..spec() });
    job.ends(1);
    assert!(decision(&job).0.ends_with("(restart 1 of 5)"), "{}", decision(&job).0);
    let mut job = Job::running(spec());
    job.ends(1);
    assert_eq!(decision(&job), ("is not restarted: `restarts` is \"never\"".to_owned(), true));
    let mut job = Job::running(restarting());
    let ended = ProcessEnded { leftover: true, ..job.ended(1) };
    job.on(Input::Ended(ended));
    assert_eq!(decision(&job), ("the rest of its processes is being ended".to_owned(), false));
    job.on(Input::GroupGone(ExecutionId(1)));
    assert!(decision(&job).1);
}

#[test]
fn a_violent_end_is_a_failure_even_if_the_job_was_told_to_stop() {
    let ends_as = |status: ExitStatus, for_memory: bool| {
        let mut job = stopping();
        let ended = ProcessEnded { status, for_memory, ..job.ended(0) };
        failure(&job.on(Input::Ended(ended))).is_some()
    };
    let signal = |signal: Signal, core_dumped: bool| ExitStatus::Signal { signal, core_dumped };
    assert!(!ends_as(ExitStatus::Code(1), false));
    assert!(ends_as(ExitStatus::Code(1), true), "for lack of memory");
    assert!(ends_as(signal(Signal::TERM, true), false), "it crashed");
    assert!(ends_as(signal(Signal::KILL, false), false), "somebody killed it");
    assert!(ends_as(ExitStatus::Code(137), false), "a shell tells of SIGKILL");
}

#[test]
fn a_job_that_is_not_ready_in_time_is_told_from_one_that_runs_too_long() {
    let mut spec = spec();
    spec.ready.by = Some(crate::config::spec::ReadyBy::Notify);
    spec.ready.timeout = Some(ms(100));
    let mut job = Job::running(spec);
    job.after(100);
    job.on(Input::DeadlineElapsed(Deadline::Ready));
    let ended = killed(&job, Signal::KILL);
    assert_eq!(killer(&job.on(Input::Ended(ended))), Some("containerpilot: it was not ready in time"));
}

#[test]
fn why_a_job_is_over_is_said() {
    let decision = |job: &Job| job.state.decision().0;
    let mut job = Job::running(restarting());
    job.told(STOP);
    job.on(Input::HoldReleased(1));
    job.ends(1);
    assert!(decision(&job).starts_with("is over: "), "{}", decision(&job));

    let mut spec = JobSpec { restarts: Limit::Finite(1), ..spec() };
    spec.backoff.max = Duration::ZERO;
    let mut job = Job::running(spec.clone());
    job.ends(1);
    job.starts();
    job.ends(1);
    assert_eq!(decision(&job), "is not restarted: its 1 restarts are used up");
    spec.restart_rule.except = vec![crate::config::spec::EndOfRun::Code(3)];
    let mut job = Job::running(spec);
    job.ends(3);
    assert_eq!(decision(&job), "is not restarted: its `restarts` exclude this end");
}

#[test]
fn a_job_that_is_restarted_because_it_is_unhealthy_has_failed() {
    let on_unhealthy = crate::config::spec::OnUnhealthy::Restart;
    let mut job = Job::running(JobSpec { on_unhealthy, restarts: Limit::Unlimited, ..checked() });
    job.is_checked(Verdict::Passing);
    job.is_checked(Verdict::Failing);
    job.on(Input::HoldReleased(1));
    assert_eq!(job.state.life.phase, Phase::Terminating);
    assert!(failure(&job.ends(0)).is_some());
}

#[test]
fn the_signal_that_stops_a_job_is_ours_and_another_is_not() {
    let ended_by = |signal: Signal| {
        let mut job = stopping();
        let ended = ProcessEnded { status: ExitStatus::Signal { signal, core_dumped: true }, ..job.ended(0) };
        let actions = job.on(Input::Ended(ended));
        killer(&actions).map(str::to_owned)
    };
    assert_eq!(ended_by(Signal::TERM).as_deref(), Some("containerpilot: it is stopped by hand"));
    assert!(ended_by(Signal::HUP).unwrap().starts_with("not containerpilot"));
}
