//! The watchdog of a job.

use super::ready::{deadlines, nothing, notifying, reported};
use super::*;
use crate::messages::notify::WatchdogSign;
use crate::messages::process::CrashReason;

#[test]
fn a_process_that_is_silent_for_too_long_gets_sigabrt_then_sigkill() {
    let mut spec = JobSpec { watchdog: Some(ms(1000)), ..restarting() };
    spec.stop.kill_timeout = Some(ms(200));
    let mut job = Job::of(spec);
    job.happens(startup());
    assert_eq!(deadlines(&job.starts()), [(Deadline::Watchdog, Some(ms(1000)))]);
    job.after(600);
    let sign = Notification { watchdog: Some(WatchdogSign::Alive), ..nothing() };
    assert_eq!(job.tells(sign), [], "a sign of life sets no timer");
    job.after(400);
    assert_eq!(job.deadline(Deadline::Watchdog), [Action::StartDeadline(Deadline::Watchdog, ms(600))]);
    job.after(600);
    let actions = job.deadline(Deadline::Watchdog);
    assert!(actions.contains(&Action::Signal(ExecutionId(1), Signal::ABRT)));
    assert_eq!(deadlines(&actions), [(Deadline::Abort, Some(ms(200)))]);
    assert_eq!(reported(&actions), Some(false), "it is not ready any more");
    assert_eq!(job.state.status().state(), "timed-out");
    assert_eq!(job.state.crash(&job.ended(0)), Some(CrashReason::Status), "whatever its status is");
    assert!(job.deadline(Deadline::Abort).contains(&Action::End(ExecutionId(1), Signal::KILL)));
    let actions = job.ends(0);
    let (code, detail) = published(&actions)[0].clone();
    assert_eq!(
        (code, detail.reason.as_deref()),
        (EventCode::ExitFailed, Some("ended by its watchdog: exited with status 0"))
    );
    assert_eq!(job.state.status().watchdog_kills, Some(1));
}

#[test]
fn a_process_that_slept_with_the_machine_has_its_time_once_more() {
    let mut job = Job::running(JobSpec { watchdog: Some(ms(1000)), ..restarting() });
    job.after(60_000);
    assert_eq!(job.deadline(Deadline::Watchdog), [Action::StartDeadline(Deadline::Watchdog, ms(1000))]);
    let mut alive = job.clone();
    alive.tells(Notification { watchdog: Some(WatchdogSign::Alive), ..nothing() });
    alive.after(60_000);
    assert_eq!(alive.deadline(Deadline::Watchdog), [Action::StartDeadline(Deadline::Watchdog, ms(1000))]);
    for late in [1000, 60_000] {
        let mut silent = job.clone();
        silent.after(late);
        let actions = silent.deadline(Deadline::Watchdog);
        assert!(actions.contains(&Action::Signal(ExecutionId(1), Signal::ABRT)), "once only");
    }
}

#[test]
fn a_process_can_trigger_change_and_end_its_watchdog() {
    let watched = || Job::running(JobSpec { watchdog: Some(ms(1000)), ..restarting() });
    let trigger = Notification { watchdog: Some(WatchdogSign::Trigger), ..nothing() };
    let mut unwatched = Job::running(notifying());
    assert_eq!(unwatched.state.status().watchdog_kills, None);
    for job in [&mut watched(), &mut unwatched] {
        assert!(job.tells(trigger.clone()).contains(&Action::Signal(ExecutionId(1), Signal::ABRT)));
        assert_eq!(job.state.status().watchdog_kills, Some(1));
    }
    let period = |milliseconds| Notification { watchdog_period: Some(ms(milliseconds)), ..nothing() };
    let set = deadlines(&watched().tells(period(50)));
    assert_eq!(set, [(Deadline::Watchdog, None), (Deadline::Watchdog, Some(ms(50)))]);
    assert_eq!(deadlines(&watched().tells(period(0))), [(Deadline::Watchdog, None)]);
    let stopping = Notification { stopping: true, ..nothing() };
    assert_eq!(deadlines(&watched().tells(stopping)), [(Deadline::Watchdog, None)]);
}

#[test]
fn a_process_that_has_yet_to_say_that_it_is_ready_is_not_watched_whatever_it_says() {
    let mut job = Job::running(JobSpec { watchdog: Some(ms(1000)), ..notifying() });
    let sign = Notification { watchdog: Some(WatchdogSign::Alive), ..nothing() };
    job.tells(sign);
    let period = Notification { watchdog_period: Some(ms(50)), ..nothing() };
    assert_eq!(deadlines(&job.tells(period)), [], "its silence does not count yet");
    assert_eq!(job.deadline(Deadline::Watchdog), []);
    assert!(deadlines(&job.tells_ready()).contains(&(Deadline::Watchdog, Some(ms(50)))));
}

#[test]
fn who_is_being_ended_cannot_trigger_or_change_its_watchdog() {
    let trigger = || Notification { watchdog: Some(WatchdogSign::Trigger), ..nothing() };
    let period = || Notification { watchdog_period: Some(ms(50)), ..nothing() };
    let watched = || Job::running(JobSpec { watchdog: Some(ms(1000)), ..restarting() });
    let stops_itself = |job: &mut Job| drop(job.tells(Notification { stopping: true, ..nothing() }));
    let is_stopped = |job: &mut Job| drop(job.told(STOP));
    let is_aborted = |job: &mut Job| drop(job.tells(trigger()));
    for end in [&stops_itself as &dyn Fn(&mut Job), &is_stopped, &is_aborted] {
        let mut job = watched();
        end(&mut job);
        let signals =
            |actions: &[Action]| actions.iter().filter(|action| matches!(action, Action::Signal(..))).count();
        assert_eq!(signals(&job.tells(trigger())), 0);
        assert!(deadlines(&job.tells(period())).iter().all(|(_, time)| time.is_none()));
    }
}

#[test]
fn a_stop_ends_the_watch() {
    let mut job = Job::running(JobSpec { watchdog: Some(ms(1000)), ..restarting() });
    assert_eq!(deadlines(&job.told(STOP)), [(Deadline::Watchdog, None)]);
    assert_eq!(job.deadline(Deadline::Watchdog), []);
}

#[test]
fn a_watchdog_whose_time_the_process_sets_begins_at_once_unless_its_word_is_awaited() {
    let period = || Notification { watchdog_period: Some(ms(500)), ..nothing() };
    let begins = |actions: &[Action]| deadlines(actions).contains(&(Deadline::Watchdog, Some(ms(500))));
    assert!(begins(&Job::running(checked()).tells(period())), "its checks do not matter");
    let mut job = Job::running(notifying());
    assert!(!begins(&job.tells(period())));
    job.tells_ready();
    assert!(begins(&job.tells(period())));
}

#[test]
fn a_sign_of_life_before_the_watchdog_begins_counts_for_nothing() {
    let mut job = Job::running(JobSpec { watchdog: Some(ms(1000)), ..notifying() });
    job.tells(Notification { watchdog: Some(WatchdogSign::Alive), ..nothing() });
    assert_eq!(job.state.told.last_sign, None);
}
