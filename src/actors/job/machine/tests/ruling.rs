//! The restart rules: what is a success, after which ends a job runs again, how often, and when it is unhealthy.

use super::*;
use crate::config::spec::{EndOfRun, OnUnhealthy, RestartOn, RestartRule};

/// A job with unlimited restarts under a rule.
fn ruled(on: RestartOn, except: Vec<EndOfRun>) -> JobSpec {
    JobSpec { restart_rule: RestartRule { on, except, per: None }, ..restarting() }
}

/// A job that may be restarted so often within ten seconds, without delays.
fn rated(limit: u32) -> JobSpec {
    let mut spec = JobSpec { restarts: Limit::Finite(limit), ..spec() };
    spec.restart_rule.per = Some(ms(10_000));
    spec.backoff.max = Duration::ZERO;
    spec
}

fn killed_by(job: &mut Job, signal: Signal) -> Vec<Action> {
    let ended = ProcessEnded { status: ExitStatus::Signal { signal, core_dumped: false }, ..job.ended(0) };
    job.on(Input::Ended(ended))
}

fn codes(actions: &[Action]) -> Vec<EventCode> {
    published(actions).into_iter().map(|(code, _)| code).collect()
}

fn runs_again(mut job: Job, code: u8) -> bool {
    is_launched(&job.ends(code))
}

#[test]
fn what_counts_as_a_success_is_one_for_everybody() {
    let success = vec![EndOfRun::Code(3), EndOfRun::Signal(Signal::TERM)];
    let spec = || JobSpec { success: success.clone(), ..spec() };
    let outcome = |job: &Job| job.state.changed(None).last_status;
    for (code, event, status) in
        [(3, EventCode::ExitSuccess, 0), (1, EventCode::ExitFailed, 1), (0, EventCode::ExitFailed, 1)]
    {
        let mut job = Job::running(spec());
        assert_eq!(codes(&job.ends(code))[0], event, "{code}");
        assert_eq!(outcome(&job), Some(status), "{code}");
        assert_eq!(job.state.status().succeeded, status == 0, "{code}");
        assert_eq!(job.state.status().last_exit.unwrap().0, code, "users see the status as it was");
    }
    let mut job = Job::running(spec());
    assert_eq!(codes(&killed_by(&mut job, Signal::TERM))[0], EventCode::ExitSuccess);
    assert_eq!(outcome(&job), Some(0));
    let mut job = Job::running(spec());
    assert_eq!(codes(&killed_by(&mut job, Signal::KILL))[0], EventCode::ExitFailed);
    assert_eq!(outcome(&job), Some(137));
}

#[test]
fn a_run_that_we_end_because_it_takes_too_long_has_failed_whatever_it_returns() {
    let rule = RestartRule { on: RestartOn::Failure, except: vec![], per: None };
    let spec = JobSpec { timeout: Some(ms(100)), restart_rule: rule, ..restarting() };
    let mut job = Job::running(spec.clone());
    job.on(Input::TimerElapsed);
    assert_eq!(codes(&job.ends(0))[0], EventCode::ExitFailed);
    assert_eq!(job.state.changed(None).last_status, Some(1));
    let mut job = Job::running(spec);
    assert_eq!(codes(&job.ends(0))[0], EventCode::ExitSuccess, "in time it is a success");
    assert_eq!(job.state.changed(None).last_status, Some(0));
}

#[test]
fn a_success_is_no_warning_in_the_log() {
    let mut job = Job::running(JobSpec { success: vec![EndOfRun::Code(3)], ..spec() });
    assert_eq!(logged(&job.ends(3))[0], (Severity::Info, "exited with status 3"));
    let mut job = Job::running(JobSpec { success: vec![EndOfRun::Code(3)], ..spec() });
    assert_eq!(logged(&job.ends(0))[0], (Severity::Warning, "exited with status 0"));
}

#[test]
fn the_rule_decides_by_the_end_whether_a_job_runs_again() {
    for (on, after_success, after_failure) in [
        (RestartOn::Always, true, true),
        (RestartOn::Failure, false, true),
        (RestartOn::Success, true, false),
    ] {
        assert_eq!(runs_again(Job::running(ruled(on, vec![])), 0), after_success, "{on:?}");
        assert_eq!(runs_again(Job::running(ruled(on, vec![])), 1), after_failure, "{on:?}");
    }
    let except = vec![EndOfRun::Code(78)];
    assert!(runs_again(Job::running(ruled(RestartOn::Always, except.clone())), 77));
    assert!(!runs_again(Job::running(ruled(RestartOn::Always, except)), 78));
}

#[test]
fn the_last_run_says_why_it_is_the_last() {
    for (spec, code, expected) in [
        (
            ruled(RestartOn::Always, vec![EndOfRun::Code(78)]),
            78,
            "is not restarted: `restarts.except` has this end",
        ),
        (ruled(RestartOn::Failure, vec![]), 0, "is not restarted: `restarts.on` is for failures only"),
        (ruled(RestartOn::Success, vec![]), 1, "is not restarted: `restarts.on` is for successes only"),
    ] {
        let mut job = Job::running(spec);
        assert_eq!(logged(&job.ends(code))[1].1, expected);
        assert_eq!(job.state.life.phase, Phase::Complete);
    }
}

#[test]
fn a_run_that_no_rule_makes_the_last_one_says_nothing_of_rules() {
    let rule = RestartRule { on: RestartOn::Failure, except: vec![], per: None };
    let never = Job::running(JobSpec { restarts: Limit::Finite(0), restart_rule: rule.clone(), ..spec() });
    let mut stopping = Job::running(ruled(RestartOn::Failure, vec![]));
    stopping.told(JobCommand::Halt);
    assert!(stopping.state.life.phase.is_stopping());
    let each = with_trigger(Trigger::Each(db_stopping()));
    let mut triggered = Job::of(JobSpec { restarts: Limit::Finite(3), restart_rule: rule, ..each });
    triggered.happens(db_stopping());
    triggered.starts();
    triggered.happens(db_stopping());
    for mut job in [never, stopping, triggered] {
        let actions = job.ends(0);
        let told = logged(&actions);
        assert!(!told.iter().any(|(_, text)| text.starts_with("is not restarted")), "{told:?}");
    }
}

#[test]
fn a_program_that_cannot_be_executed_has_the_status_of_a_shell() {
    let unstarted = |job: &mut Job| {
        let failed = Some(crate::messages::process::Unstarted::Failed("cannot execute".into()));
        let ended = ProcessEnded { unstarted: failed, pid: None, ..job.ended(127) };
        job.on(Input::Ended(ended))
    };
    let mut job = Job::running(ruled(RestartOn::Always, vec![EndOfRun::Code(127)]));
    assert!(!is_launched(&unstarted(&mut job)));
    let mut job =
        Job::running(JobSpec { success: vec![EndOfRun::Code(127)], ..ruled(RestartOn::Failure, vec![]) });
    assert!(is_launched(&unstarted(&mut job)), "that it did not run is a failure");
}

#[test]
fn an_end_by_hand_or_by_a_trigger_is_not_ruled_out() {
    let mut job = Job::running(ruled(RestartOn::Failure, vec![]));
    job.ends(0);
    assert!(is_launched(&job.told(JobCommand::Start)));
    job.starts();
    job.after(60_000);
    assert!(is_launched(&job.ends(1)), "the rule judges each end anew");

    let each = Trigger::Each(db_stopping());
    let mut job = Job::of(JobSpec { restarts: Limit::Finite(3), ..with_trigger(each) });
    Arc::make_mut(&mut job.state.spec).restart_rule.on = RestartOn::Failure;
    job.happens(db_stopping());
    job.starts();
    assert!(!is_launched(&job.ends(0)));
    assert_eq!(job.state.life.phase, Phase::Waiting);
    assert!(is_launched(&job.happens(db_stopping())));
}

#[test]
fn a_periodic_job_completes_at_an_end_that_the_rule_excludes() {
    let mut spec = with_trigger(Trigger::Interval(ms(500)));
    spec.restarts = Limit::Unlimited;
    spec.restart_rule.on = RestartOn::Failure;
    let mut job = Job::running(spec);
    job.ends(1);
    assert_eq!(job.state.life.phase, Phase::Waiting);
    job.on(Input::ScheduleElapsed);
    job.starts();
    job.ends(0);
    assert_eq!(job.state.life.phase, Phase::Complete);
}

#[test]
fn only_the_restarts_of_the_last_time_count() {
    let mut job = Job::running(rated(2));
    for _ in 0..10 {
        job.after(5_001);
        assert!(is_launched(&job.ends(1)), "never more than two in ten seconds");
        job.starts();
    }
    job.after(1);
    assert!(!is_launched(&job.ends(1)));
    assert_eq!(job.state.life.phase, Phase::Complete);
}

#[test]
fn a_job_that_is_restarted_too_often_says_so() {
    let mut job = Job::running(rated(1));
    assert!(is_launched(&job.ends(1)));
    job.starts();
    let lines = job.ends(1);
    assert_eq!(logged(&lines)[1].1, "is not restarted: it was restarted 1 times within 10s");
    assert!(is_launched(&job.told(JobCommand::Start)));
    job.starts();
    assert!(is_launched(&job.ends(1)), "a start by hand begins anew");
}

#[test]
fn a_trigger_does_not_empty_the_window() {
    let each = Trigger::Each(db_stopping());
    let mut job = Job::of(JobSpec { when: with_trigger(each).when, ..rated(1) });
    job.happens(db_stopping());
    job.starts();
    assert!(is_launched(&job.ends(1)));
    job.starts();
    assert!(!is_launched(&job.ends(1)));
    assert!(is_launched(&job.happens(db_stopping())), "an event is no restart");
    job.starts();
    assert!(!is_launched(&job.ends(1)), "but its run has none left");
    job.happens(db_stopping());
    job.starts();
    job.after(10_000);
    assert!(is_launched(&job.ends(1)));
}

/// A job with a check that is restarted when it is unhealthy.
fn watched(restarts: Limit) -> JobSpec {
    JobSpec { restarts, on_unhealthy: OnUnhealthy::Restart, ..checked() }
}

/// Lets a job that has become unhealthy end with this status.
fn stops(job: &mut Job, code: u8) -> Vec<Action> {
    job.on(Input::HoldReleased(job.state.holds));
    job.ends(code)
}

#[test]
fn an_unhealthy_job_is_stopped_and_runs_again() {
    let mut job = Job::running(watched(Limit::Finite(1)));
    job.is_checked(Verdict::Passing);
    let actions = job.is_checked(Verdict::Failing);
    let events = published(&actions);
    assert_eq!(codes(&actions), [EventCode::Unhealthy, EventCode::Stopping]);
    assert_eq!(events[1].1.reason.as_deref(), Some("it is unhealthy"));
    let actions = stops(&mut job, 0);
    assert_eq!(codes(&actions), [EventCode::ExitFailed, EventCode::Stopped], "whatever it returned");
    assert!(is_launched(&actions));
    job.starts();
    let lines = job.is_checked(Verdict::Failing);
    let told = "is stopped because it is unhealthy, and has no restart left";
    assert!(logged(&lines).contains(&(Severity::Warning, told)));
    let actions = stops(&mut job, 0);
    assert!(!is_launched(&actions));
    assert_eq!((job.state.life.phase, job.state.changed(None).last_status), (Phase::Complete, Some(1)));
}

#[test]
fn neither_status_nor_rule_keeps_an_unhealthy_job_from_its_restart() {
    let mut spec = watched(Limit::Unlimited);
    spec.restart_rule.except = vec![EndOfRun::Code(143)];
    spec.restart_rule.on = RestartOn::Success;
    let mut job = Job::running(spec);
    job.is_checked(Verdict::Failing);
    assert!(is_launched(&stops(&mut job, 143)));
}

#[test]
fn restarts_for_health_are_slowed_by_backoff_and_counted_in_the_window() {
    let mut job = Job::running(watched(Limit::Unlimited));
    for is_immediate in [true, false] {
        job.is_checked(Verdict::Failing);
        assert_eq!(is_launched(&stops(&mut job, 0)), is_immediate);
        job.on(Input::TimerElapsed);
        job.starts();
    }
    let mut job =
        Job::running(JobSpec { health: checked().health, on_unhealthy: OnUnhealthy::Restart, ..rated(1) });
    job.is_checked(Verdict::Failing);
    stops(&mut job, 0);
    job.starts();
    job.after(9_999);
    job.is_checked(Verdict::Failing);
    assert!(!is_launched(&stops(&mut job, 0)));
}

#[test]
fn a_job_that_stops_already_is_not_restarted_for_its_health() {
    let mut job = Job::running(watched(Limit::Unlimited));
    job.is_checked(Verdict::Passing);
    job.told(STOP);
    job.is_checked(Verdict::Failing);
    stops(&mut job, 0);
    assert_eq!(job.state.life.phase, Phase::Complete);
}

#[test]
fn by_default_ill_health_is_only_told() {
    let mut job = Job::running(checked());
    assert_eq!(codes(&job.is_checked(Verdict::Failing)), [EventCode::Unhealthy]);
    assert_eq!(job.state.life.phase, Phase::Running);
}
