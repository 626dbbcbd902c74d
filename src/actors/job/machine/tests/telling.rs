//! What a job tells others: Consul, the Pilot, users, the log.

use super::*;
use crate::config::spec::InitialStatus;

/// What Consul was told: a status, or `None` for a withdrawal.
fn told_consul(actions: &[Action]) -> Vec<Option<ServiceStatus>> {
    let mut told = Vec::new();
    for action in actions {
        if let Action::Advertise(_, status) = action {
            told.push(Some(*status));
        } else if let Action::Withdraw { .. } = action {
            told.push(None);
        }
    }
    told
}

/// The phases that the Pilot was told of.
fn reported(actions: &[Action]) -> Vec<Phase> {
    let mut phases = Vec::new();
    for action in actions {
        if let Action::Report(changed) = action {
            phases.push(changed.phase);
        }
    }
    phases
}

#[test]
fn a_job_that_becomes_unhealthy_tells_consul_at_once() {
    let mut job = Job::running(advertised());
    assert_eq!(told_consul(&job.is_checked(Verdict::Passing)), [Some(ServiceStatus::Passing)]);
    assert_eq!(told_consul(&job.is_checked(Verdict::Failing)), [Some(ServiceStatus::Critical)]);
    assert_eq!(told_consul(&job.is_checked(Verdict::Failing)), []);
}

#[test]
fn a_job_is_registered_at_once_if_it_has_an_initial_status() {
    let mut spec = advertised();
    spec.advertise.as_mut().unwrap().initial_status = Some(InitialStatus::Warning);
    let mut job = Job::of(spec.clone());
    assert_eq!(told_consul(&job.on(Input::Created)), [Some(ServiceStatus::Warning)]);
    assert_eq!(told_consul(&Job::of(advertised()).on(Input::Created)), []);
    job.told(JobCommand::Halt);
    job.on(Input::Withdrawn);
    assert_eq!(job.state.life.phase, Phase::Halted);
    assert_eq!(told_consul(&job.told(JobCommand::Start)), [Some(ServiceStatus::Warning)]);
}

#[test]
fn a_job_that_stops_keeps_its_status_in_consul_until_it_is_withdrawn() {
    let mut job = Job::running(advertised());
    job.is_checked(Verdict::Passing);
    assert_eq!(told_consul(&job.told(STOP)), []);
    let actions = job.on(Input::HoldReleased(1));
    assert!(actions.contains(&Action::Withdraw { id: "app-host".into(), is_awaited: true }));
    assert_eq!(told_consul(&actions), [None]);
    assert_eq!(told_consul(&job.on(Input::Withdrawn)), []);
    assert_eq!(told_consul(&job.ends(0)), []);
}

#[test]
fn a_job_without_a_process_that_stops_keeps_its_status_though_it_is_not_checked_any_more() {
    let mut job = Job::of(JobSpec { exec: None, ..advertised() });
    job.happens(startup());
    assert_eq!(told_consul(&job.is_checked(Verdict::Passing)), [Some(ServiceStatus::Passing)]);
    assert_eq!(told_consul(&job.told(STOP)), []);
    assert_eq!(told_consul(&job.on(Input::HoldReleased(1))), [None]);
}

#[test]
fn a_process_that_is_started_again_is_critical_until_it_is_healthy() {
    let mut job = Job::running(JobSpec { restarts: Limit::Unlimited, ..advertised() });
    job.is_checked(Verdict::Passing);
    assert_eq!(told_consul(&job.ends(1)), [Some(ServiceStatus::Critical)]);
    job.starts();
    assert_eq!(told_consul(&job.is_checked(Verdict::Passing)), [Some(ServiceStatus::Passing)]);
}

#[test]
fn the_pilot_is_told_of_every_phase_once() {
    let mut job = Job::of(checked());
    assert_eq!(reported(&job.on(Input::Created)), []);
    assert_eq!(reported(&job.happens(startup())), [Phase::Running]);
    assert_eq!(reported(&job.starts()), []);
    assert_eq!(reported(&job.is_checked(Verdict::Passing)), [Phase::Running], "its health changed");
    assert_eq!(reported(&job.is_checked(Verdict::Passing)), []);
    assert_eq!(reported(&job.ends(0)), [Phase::Sweeping, Phase::Complete]);
}

#[test]
fn the_pilot_is_told_when_a_stop_will_not_be_followed_by_a_run() {
    let mut job = Job::running(spec());
    let returns = |actions: &[Action]| {
        actions.iter().any(|action| matches!(action, Action::Report(JobChanged { returns: true, .. })))
    };
    assert!(returns(&job.told(JobCommand::Restart)));
    let actions = job.told(STOP);
    assert_eq!((reported(&actions), returns(&actions)), (vec![Phase::Holding], false));
}

#[test]
fn a_question_is_answered_with_its_number_though_nothing_changed() {
    let mut job = Job::running(spec());
    let expected = JobChanged { answers: Some(5), ..job.state.changed(None) };
    assert_eq!(job.told(JobCommand::Answer(5)), [Action::Report(expected)]);
}

#[test]
fn each_event_is_the_cause_of_the_next() {
    let mut job = Job::of(spec());
    job.happens(startup());
    assert_eq!(job.state.cause(), Some(90));
    job.starts();
    job.ends(0);
    assert_eq!(job.state.cause(), Some(4), "ready, exitSuccess, stopping, stopped");
    let mut told = Job::running(spec());
    told.feed(Input::Commanded(JobCommand::Stop { cause: None, occasion: StopOccasion::Shutdown }));
    assert_eq!(told.state.cause(), Some(2), "ready, stopping");
}

#[test]
fn stopping_tells_why() {
    let why = |job: &mut Job, command| published(&job.told(command)).first().cloned();
    let expected = |text: &str| Some((EventCode::Stopping, Detail { pid: Some(7), ..Detail::reason(text) }));
    for (command, text) in [
        (JobCommand::Stop { cause: None, occasion: StopOccasion::Shutdown }, "the program shuts down"),
        (STOP, "a reload changed or removed the job"),
        (
            JobCommand::Stop { cause: None, occasion: StopOccasion::Group },
            "its group gave up: it had used up its restarts",
        ),
        (JobCommand::Kill, "it is killed, together with the program"),
        (JobCommand::Halt, "it is stopped by hand"),
        (JobCommand::Restart, "it is restarted by hand"),
    ] {
        assert_eq!(why(&mut Job::running(spec()), command), expected(text));
    }
    let mut ended = Job::running(spec());
    let events = published(&ended.ends(3));
    assert_eq!(events[1], (EventCode::Stopping, Detail::reason("will not run again: exited with status 3")));
}

#[test]
fn an_end_that_nobody_asked_for_is_a_warning_unless_it_is_a_success() {
    let level = |job: &mut Job, code| logged(&job.ends(code)).first().map(|(severity, _)| *severity);
    assert_eq!(level(&mut Job::running(spec()), 1), Some(Severity::Warning));
    assert_eq!(level(&mut Job::running(spec()), 0), Some(Severity::Info));
    let mut asked = Job::running(spec());
    asked.told(STOP);
    assert_eq!(level(&mut asked, 1), Some(Severity::Debug));
    let mut routine = Job::running(with_trigger(Trigger::Interval(ms(59_999))));
    assert_eq!(level(&mut routine, 0), Some(Severity::Debug));
    let mut daemon = Job::running(spec());
    let ended = ProcessEnded { daemons: vec!["nginx (pid 8)".into()], ..daemon.ended(0) };
    let actions = daemon.on(Input::Ended(ended));
    assert!(logged(&actions).iter().all(|(severity, _)| *severity == Severity::Warning));
    assert_eq!(logged(&actions).len(), 2);
}

#[test]
fn a_job_that_runs_often_starts_without_a_word() {
    let mut seldom = Job::of(with_trigger(Trigger::Interval(ms(60_000))));
    seldom.happens(startup());
    assert_eq!(logged(&seldom.starts()), [(Severity::Info, "started")]);
    let mut often = Job::of(with_trigger(Trigger::Interval(ms(59_999))));
    often.happens(startup());
    assert_eq!(logged(&often.starts()), [(Severity::Debug, "started")]);
}

#[test]
fn users_see_a_process_from_its_start_to_its_end() {
    let mut job = Job::of(restarting());
    let seen = |job: &Job| (job.state.status().state(), job.state.status().pid, job.state.status().has_run);
    assert_eq!(seen(&job), ("waiting", None, false));
    job.happens(startup());
    assert_eq!(seen(&job), ("starting", None, true));
    job.starts();
    assert_eq!(seen(&job), ("running", Some(7), true));
    job.on(Input::Ended(ProcessEnded { leftover: true, ..job.ended(1) }));
    assert_eq!(seen(&job), ("sweeping", None, true));
    job.on(Input::GroupGone(ExecutionId(1)));
    let status = job.state.status();
    assert_eq!((status.restarts, status.last_exit), (1, Some((1, "exited with status 1".into()))));
}

#[test]
fn a_job_that_is_not_needed_any_more_does_nothing() {
    let mut job = Job::running(checked());
    let retired = [Action::Check(CheckCommand::Retire), Action::Stop];
    assert_eq!(job.told(JobCommand::Retire), retired);
    assert_eq!(job.told(JobCommand::Start), []);
    assert_eq!(job.ends(0), []);
}

#[test]
fn a_job_that_stops_publishes_no_health_but_tells_consul() {
    let mut job = Job::running(advertised());
    job.is_checked(Verdict::Passing);
    job.told(STOP);
    let actions = job.is_checked(Verdict::Failing);
    assert_eq!(published(&actions), []);
    assert_eq!(told_consul(&actions), [Some(ServiceStatus::Critical)]);
}

/// The first run as users see it: what started it, and the milliseconds of its start, readiness and end.
fn first_run(job: &Job) -> (Option<EventKey>, [Option<u64>; 3]) {
    let run = job.state.account().first_run;
    let millisecond = |time: Option<Duration>| time.map(|time| u64::try_from(time.as_millis()).unwrap());
    (run.occasion, [run.started, run.up, run.ended].map(millisecond))
}

#[test]
fn the_first_run_is_remembered_and_no_later_one() {
    let mut job = Job::of(restarting());
    job.on(Input::Created);
    job.after(10);
    job.happens(startup());
    assert_eq!(first_run(&job), (None, [None; 3]), "it is only being started");
    job.after(10);
    job.starts();
    assert_eq!(first_run(&job), (Some(startup()), [Some(20), Some(20), None]));
    job.after(10);
    job.told(JobCommand::Answer(5));
    assert_eq!(first_run(&job), (Some(startup()), [Some(20), Some(20), None]));
    job.ends(1);
    assert_eq!(first_run(&job), (Some(startup()), [Some(20), Some(20), Some(30)]));
    job.after(5000);
    job.on(Input::TimerElapsed);
    job.starts();
    job.ends(1);
    assert_eq!(first_run(&job), (Some(startup()), [Some(20), Some(20), Some(30)]));
}

#[test]
fn the_first_run_of_a_job_with_readiness_is_up_when_it_is_ready() {
    let mut job = Job::running(checked());
    assert_eq!(first_run(&job).1, [Some(0), None, None]);
    job.after(50);
    job.is_checked(Verdict::Passing);
    assert_eq!(first_run(&job).1, [Some(0), Some(50), None]);
}

#[test]
fn a_job_without_a_process_runs_from_its_event_on() {
    let mut job = Job::of(JobSpec { exec: None, ..checked() });
    job.on(Input::Created);
    assert_eq!(first_run(&job), (None, [None; 3]));
    job.after(10);
    job.happens(startup());
    assert_eq!(first_run(&job).1[0], Some(10));
}

#[test]
fn a_job_is_known_by_its_name() {
    assert_eq!(Job::of(spec()).state.name(), "app");
}
