//! What starts a job: events, ticks, hands; and the holds of others that it keeps.

use super::*;
use crate::messages::job::Missing;

const INTERVAL: Trigger = Trigger::Interval(ms(500));

fn on_each_stop_of_db() -> Job {
    Job::of(with_trigger(Trigger::Each(db_stopping())))
}

#[test]
fn a_hold_is_kept_until_the_process_that_acts_on_the_event_has_ended() {
    let mut job = on_each_stop_of_db();
    assert_eq!(job.happens_with_hold(db_stopping()).last(), Some(&Action::KeepHold));
    job.starts();
    assert!(job.ends(0).contains(&Action::ReleaseHold));
}

#[test]
fn the_hold_of_an_event_that_starts_nothing_is_not_kept() {
    let mut job = Job::of(with_trigger(Trigger::Once(db_stopping())));
    assert!(job.happens_with_hold(db_stopping()).contains(&Action::KeepHold));
    assert_eq!(job.happens_with_hold(db_stopping()), []);
    let mut stopping = Job::running(spec());
    stopping.told(STOP);
    assert!(!stopping.happens_with_hold(startup()).contains(&Action::KeepHold));
}

#[test]
fn an_event_without_a_hold_keeps_none() {
    let mut job = Job::of(with_trigger(Trigger::Each(db_stopping())));
    job.on(Input::Created);
    assert!(!job.happens(db_stopping()).contains(&Action::KeepHold));
}

#[test]
fn a_hold_that_comes_while_the_job_runs_is_kept_for_the_run_that_follows() {
    let mut job = on_each_stop_of_db();
    job.happens_with_hold(db_stopping());
    job.starts();
    assert!(job.happens_with_hold(db_stopping()).contains(&Action::KeepHold));
    let actions = job.ends(0);
    assert!(is_launched(&actions) && !actions.contains(&Action::ReleaseHold));
    job.starts();
    assert!(job.ends(0).contains(&Action::ReleaseHold));
}

#[test]
fn a_job_that_is_over_keeps_no_hold() {
    let mut job = on_each_stop_of_db();
    job.happens_with_hold(db_stopping());
    job.starts();
    assert!(!job.told(JobCommand::Kill).contains(&Action::ReleaseHold));
    assert!(job.ends(137).contains(&Action::ReleaseHold));
}

#[test]
fn only_the_latest_hold_of_its_own_ends_the_wait_for_others() {
    let mut job = Job::running(restarting());
    job.told(JobCommand::Restart);
    job.on(Input::HoldReleased(1));
    job.ends(0);
    job.starts();
    job.told(STOP);
    assert_eq!(job.on(Input::HoldReleased(1)), []);
    assert_eq!(job.state.life.phase, Phase::Holding);
    job.on(Input::HoldReleased(2));
    assert_eq!(job.state.life.phase, Phase::Terminating);
}

#[test]
fn the_ticks_of_an_interval_are_counted_from_startup() {
    let mut job = Job::of(with_trigger(INTERVAL));
    let actions = job.happens(startup());
    assert!(is_launched(&actions) && actions.contains(&Action::StartSchedule(ms(500))));
    job.after(520);
    assert_eq!(job.on(Input::ScheduleElapsed).first(), Some(&Action::StartSchedule(ms(480))));
}

#[test]
fn a_start_by_hand_begins_the_ticks_of_a_job_that_is_over_anew() {
    let mut job = Job::running(with_trigger(INTERVAL));
    assert!(job.ends(0).contains(&Action::CancelSchedule), "it has no restarts");
    job.after(10_200);
    assert_eq!(job.told(JobCommand::Start).last(), Some(&Action::StartSchedule(ms(500))));
    assert!(!job.told(JobCommand::Restart).contains(&Action::StartSchedule(ms(500))), "they have begun");
}

#[test]
fn a_job_gives_up_when_its_trigger_has_not_come_in_time() {
    let mut waits = with_trigger(Trigger::Once(db_stopping()));
    waits.when.timeout = Some(ms(3000));
    let mut job = Job::of(waits);
    assert_eq!(job.happens(startup()), [Action::StartSchedule(ms(3000)), Action::Show]);
    let actions = job.on(Input::ScheduleElapsed);
    let reason = "\"db stopping\" has not come within 3.0s";
    assert_eq!(logged(&actions), [(Severity::Warning, &*format!("gives up: {reason}"))]);
    let why = Detail::reason(format!("will not run: {reason}"));
    assert_eq!(published(&actions), [(EventCode::Stopping, why), (EventCode::Stopped, Detail::default())]);
    assert_eq!(job.state.status().never_ran.as_deref(), Some(reason));
}

#[test]
fn a_trigger_that_comes_ends_the_wait_for_it() {
    let mut waits = with_trigger(Trigger::Once(db_stopping()));
    waits.when.timeout = Some(ms(3000));
    let mut job = Job::of(waits);
    job.happens(startup());
    assert_eq!(job.happens(db_stopping()).first(), Some(&Action::CancelSchedule));
}

#[test]
fn a_start_by_hand_ends_the_wait_for_a_trigger_too() {
    let mut waits = with_trigger(Trigger::Each(db_stopping()));
    waits.when.timeout = Some(ms(3000));
    for order in [JobCommand::Start, JobCommand::Restart] {
        let mut job = Job::of(waits.clone());
        job.happens(startup());
        assert!(job.told(order).contains(&Action::CancelSchedule));
        job.starts();
        assert_eq!(job.on(Input::ScheduleElapsed), [], "it does not give up");
    }
}

#[test]
fn startup_is_an_interest_of_jobs_with_a_timer() {
    let mut waits = with_trigger(Trigger::Any(vec![db_stopping(), db_stopping()]));
    assert_eq!(trigger::interests(&waits), [db_stopping()], "each once");
    waits.when.timeout = Some(ms(3000));
    assert_eq!(trigger::interests(&waits), [db_stopping(), startup()]);
    assert_eq!(trigger::interests(&with_trigger(INTERVAL)), [startup()]);
}

#[test]
fn only_a_job_that_never_ran_says_that_it_will_not_run() {
    let give_up = JobCommand::GiveUp { in_shutdown: false };
    let mut lost = on_each_stop_of_db();
    let text = "will not run: \"db stopping\" can no longer come";
    assert_eq!(logged(&lost.told(give_up)), [(Severity::Warning, text)]);
    let in_shutdown = on_each_stop_of_db().told(JobCommand::GiveUp { in_shutdown: true });
    assert_eq!(logged(&in_shutdown), []);
    let mut served = on_each_stop_of_db();
    served.happens(db_stopping());
    served.starts();
    served.ends(0);
    assert_eq!(logged(&served.told(give_up)), []);
}

#[test]
fn of_several_events_that_were_all_needed_it_is_not_said_that_each_cannot_come() {
    let db_ready = EventKey { code: EventCode::Ready, source: Source::Job("db".into()) };
    let keys = vec![db_stopping(), db_ready];
    for (trigger, text) in [
        (
            Trigger::All(keys.clone()),
            "will not run: at least one of \"db stopping\" and \"db ready\" can no longer come",
        ),
        (Trigger::Any(keys), "will not run: \"db stopping\" or \"db ready\" can no longer come"),
    ] {
        let lost = Job::of(with_trigger(trigger)).told(JobCommand::GiveUp { in_shutdown: false });
        assert_eq!(logged(&lost), [(Severity::Warning, text)]);
    }
}

#[test]
fn users_see_which_of_several_events_are_still_missing() {
    let mut job = Job::of(with_trigger(Trigger::All(vec![db_stopping(), startup()])));
    assert_eq!(job.happens(startup()), [Action::Show]);
    assert_eq!(job.state.status().account.missing, Missing::AllOf(vec![db_stopping()]));
    assert_eq!(job.happens(startup()), [], "that is no news");
}
