//! The status of a job as users see it, and the account that explains it.

use super::*;
use crate::config::spec::{EndOfRun, GroupPlace, ReadyBy, RestartOn, RestartRule};
use crate::messages::health::Health;
use crate::messages::job::Missing;

#[test]
fn the_status_tells_what_a_job_is() {
    let mut spec = JobSpec { essential: true, required: true, ..advertised() };
    spec.group = Some(GroupPlace { group: "web".into(), after: vec![] });
    spec.ready.by = Some(ReadyBy::Notify);
    spec.backoff.reset_after = ms(7000);
    let status = Job::running(spec).state.status();
    assert_eq!(status.checks, [("check".into(), Verdict::Unknown)]);
    assert_eq!(status.advertised, Some(("127.0.0.1".to_owned(), 80)));
    assert_eq!(status.group.as_deref(), Some("web"));
    assert_eq!((status.essential, status.required, status.tells_ready), (true, true, true));
    assert_eq!(status.settles_after, ms(7000));
    let plain = Job::running(JobSpec { required: false, ..super::spec() }).state.status();
    assert_eq!((plain.essential, plain.required, plain.tells_ready), (false, false, false));
    assert_eq!((plain.advertised, plain.group, plain.checks), (None, None, vec![]));
}

#[test]
fn the_status_counts_runs_that_end_early() {
    let mut job = Job::running(restarting());
    assert_eq!(job.state.status().early_ends, 0);
    job.ends(1);
    assert_eq!(job.state.status().early_ends, 1);
}

#[test]
fn a_job_starts_until_its_checks_or_its_word_tell_whether_it_can_be_used() {
    let starting = |job: &Job| job.state.status().starting;
    let mut job = Job::running(checked());
    assert!(starting(&job));
    job.is_checked(Verdict::Failing);
    assert!(!starting(&job), "its checks have judged it");

    let mut spec = checked();
    spec.ready.by = Some(ReadyBy::Notify);
    let mut job = Job::running(spec);
    job.is_checked(Verdict::Failing);
    assert!(starting(&job), "only its word counts");
}

#[test]
fn the_account_tells_what_a_job_waits_for_and_what_it_waited_for_in_vain() {
    let mut job = Job::of(with_trigger(Trigger::Once(db_stopping())));
    job.on(Input::Created);
    let missing = |job: &Job| job.state.account().missing;
    assert_eq!(missing(&job), Missing::AnyOf(vec![db_stopping()]));
    let mut lost = job.clone();
    lost.told(JobCommand::GiveUp { in_shutdown: false });
    assert_eq!(lost.state.life.phase, Phase::Complete);
    assert_eq!(missing(&lost), Missing::AnyOf(vec![db_stopping()]));
    job.happens(db_stopping());
    assert_eq!(missing(&job), Missing::Nothing);
    job.starts();
    job.ends(0);
    assert_eq!((job.state.life.phase, missing(&job)), (Phase::Complete, Missing::Nothing));

    let mut again = Job::of(with_trigger(Trigger::Each(db_stopping())));
    again.on(Input::Created);
    again.happens(db_stopping());
    again.starts();
    assert_eq!(missing(&again), Missing::Nothing, "while it runs it waits for nothing");
    again.told(STOP);
    again.on(Input::HoldReleased(1));
    again.ends(0);
    assert_eq!((again.state.life.phase, missing(&again)), (Phase::Complete, Missing::Nothing));
}

#[test]
fn the_account_tells_what_started_a_job_and_how_it_ended() {
    let mut job = Job::running(restarting());
    let account = job.state.account();
    assert_eq!((account.runs, account.occasion, account.failed), (1, Some(startup()), false));
    assert!(account.cause.is_some());
    job.ends(1);
    assert!(job.state.account().failed);
    job.told(JobCommand::Halt);
    assert_eq!(job.state.account().stop_reason.as_deref(), Some("it is stopped by hand"));
    let mut job = Job::running(spec());
    job.ends(0);
    assert!(!job.state.account().failed);
}

#[test]
fn the_account_tells_that_a_job_waits_for_the_log() {
    let mut job = Job::of(spec());
    job.on(Input::Created);
    job.is_flooded = true;
    job.happens(startup());
    assert!(job.state.account().awaits_log);
    assert!(!Job::running(spec()).state.account().awaits_log);
}

#[test]
fn the_account_tells_why_a_job_is_not_restarted_where_its_settings_alone_do_not() {
    let ruled = |on, except, per| JobSpec { restart_rule: RestartRule { on, except, per }, ..restarting() };
    let reason = |mut job: Job, code: u8| {
        job.ends(code);
        job.state.account().no_restart
    };
    let except = ruled(RestartOn::Always, vec![EndOfRun::Code(3)], None);
    assert_eq!(reason(Job::running(except.clone()), 3).as_deref(), Some("`restarts.except` has this end"));
    assert_eq!(reason(Job::running(except), 4), None);
    let failures = ruled(RestartOn::Failure, vec![], None);
    assert_eq!(reason(Job::running(failures), 0).as_deref(), Some("`restarts.on` is for failures only"));
    let once = JobSpec { restarts: Limit::Finite(1), ..ruled(RestartOn::Always, vec![], Some(ms(60_000))) };
    let once = || {
        let mut spec = once.clone();
        spec.backoff.max = Duration::ZERO;
        spec
    };
    let logged_at_its_end =
        logged(&Job::running(once()).ends(1)).iter().any(|(_, text)| text.starts_with("is not restarted"));
    assert!(!logged_at_its_end, "it has one restart");
    let mut job = Job::running(once());
    job.ends(1);
    job.starts();
    assert_eq!(reason(job, 1).as_deref(), Some("it was restarted 1 times within 1m0s"));
    let never =
        JobSpec { restarts: Limit::Finite(0), ..ruled(RestartOn::Always, vec![EndOfRun::Code(3)], None) };
    assert_eq!(reason(Job::running(never), 3), None, "its settings tell");
    let mut job = Job::running(ruled(RestartOn::Always, vec![EndOfRun::Code(3)], None));
    job.told(STOP);
    assert_eq!(reason(job, 3), None, "it was told to stop");
    let mut job = Job::running(JobSpec {
        restart_rule: RestartRule { on: RestartOn::Always, except: vec![EndOfRun::Code(3)], per: None },
        restarts: Limit::Unlimited,
        ..with_trigger(Trigger::Each(startup()))
    });
    job.happens(startup());
    assert_eq!(reason(job, 3), None, "the next event has come already");
}

#[test]
fn a_job_that_something_else_executes_runs_from_its_event_on() {
    let mut job = Job::of(JobSpec { exec: None, ..checked() });
    job.on(Input::Created);
    assert!(!job.state.status().has_run);
    job.happens(startup());
    assert!(job.state.status().has_run);
    assert_eq!(job.state.status().health, Health::Unknown);
}

#[test]
fn an_advertised_job_has_an_id_in_consul() {
    assert_eq!(Job::of(advertised()).state.service_id().map(|id| &**id), Some("app-host"));
    assert_eq!(Job::of(spec()).state.service_id(), None);
}

#[test]
fn only_a_process_that_is_not_being_killed_is_said_to_be_killed() {
    let warnings = |actions: &[Action]| {
        logged(actions).iter().filter(|(severity, _)| *severity == Severity::Warning).count()
    };
    let mut job = Job::running(spec());
    assert_eq!(warnings(&job.told(JobCommand::Kill)), 1);
    assert_eq!(warnings(&job.told(JobCommand::Kill)), 0);
    let mut idle = Job::of(with_trigger(Trigger::Once(db_stopping())));
    idle.on(Input::Created);
    assert_eq!(warnings(&idle.told(JobCommand::Kill)), 0);
}

#[test]
fn a_job_that_ran_does_not_say_that_it_will_never_run() {
    let mut job = Job::of(with_trigger(Trigger::Each(db_stopping())));
    job.on(Input::Created);
    job.happens(db_stopping());
    job.starts();
    job.ends(3);
    let actions = job.told(JobCommand::GiveUp { in_shutdown: false });
    let stopping = published(&actions).into_iter().find(|(code, _)| *code == EventCode::Stopping).unwrap().1;
    assert_eq!(stopping.reason.as_deref(), Some("will not run again: exited with status 3"));
}
