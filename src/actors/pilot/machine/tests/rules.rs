//! Which jobs are told to stop, which are given up, when the program ends and with which status.

use std::sync::Arc;

use super::super::member::Member;
use super::super::review::{Reason, Review, exit_status, review};
use super::super::shutdown::{Orders, orders};
use super::{checked, coprocess, ended, essential, event, job, needing, shutdown, waits, with};
use crate::config::spec::OnUnhealthy;
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::health::Health;
use crate::messages::job::{Missing, Phase};
use crate::messages::moment::Moment;
use crate::messages::signal::Signal;

/// Jobs in a shutdown that began while those ran that do not wait; `already` were told to stop.
fn in_shutdown(jobs: &[Member], already: &[&str]) -> Vec<Member> {
    let mut jobs = jobs.to_vec();
    for job in &mut jobs {
        job.ran_before = job.phase != Phase::Waiting;
        job.told = already.contains(&&**job.name()).then(Moment::default);
    }
    jobs
}

/// Who is told to stop now, by name.
fn told(jobs: &[Member], already: &[&str]) -> Vec<String> {
    let stop = orders(&in_shutdown(jobs, already), |_| true).stop;
    stop.into_iter().map(|index| jobs[index].name().to_string()).collect()
}

#[test]
fn a_running_job_keeps_the_program_alive() {
    assert_eq!(review(&[job("app", Phase::Running)]), Review::default());
}

#[test]
fn when_every_job_is_complete_the_program_ends() {
    let jobs = [ended("a", 0, 1), ended("b", 0, 2)];
    assert_eq!(review(&jobs).end, Some(Reason::Completed));
}

#[test]
fn a_job_ends_the_program_by_ill_health_only_if_it_is_configured_so() {
    let mut db = checked("db", Phase::Running);
    db.health = Health::Unhealthy;
    for (on_unhealthy, reason) in [
        (OnUnhealthy::Nothing, None),
        (OnUnhealthy::Restart, None),
        (OnUnhealthy::Shutdown, Some(Reason::Unhealthy("db".into()))),
    ] {
        Arc::make_mut(&mut db.spec).on_unhealthy = on_unhealthy;
        assert_eq!(review(std::slice::from_ref(&db)).end, reason);
    }
    assert_eq!(exit_status(std::slice::from_ref(&db), &Reason::Unhealthy("db".into())), 1);
    db.phase = Phase::Terminating;
    assert_eq!(review(&[db]).end, None, "a job that stops is not expected to be healthy");
}

#[test]
fn a_job_whose_event_can_no_longer_come_is_given_up_before_the_program_ends() {
    let jobs = [ended("a", 1, 1), waits("b", event("a", EventCode::ExitSuccess))];
    assert_eq!(review(&jobs), Review { lost: vec![1], ..Review::default() });
}

#[test]
fn a_job_that_waits_for_the_shutdown_does_not_keep_the_program_alive() {
    let jobs = [ended("a", 0, 1), waits("last", shutdown())];
    assert_eq!(review(&jobs), Review { end: Some(Reason::Completed), dormant: vec![1], lost: vec![] });
}

#[test]
fn only_coprocesses_left_means_the_end() {
    let coprocess = coprocess(job("agent", Phase::Running));
    let alarm = waits("alarm", event("agent", EventCode::ExitFailed));
    assert_eq!(review(&[coprocess, alarm, ended("a", 0, 1)]).end, Some(Reason::Completed));
}

#[test]
fn a_job_that_waits_for_a_signal_keeps_the_program_alive() {
    let key = EventKey { code: EventCode::Signal, source: Source::Signal(Signal::HUP) };
    assert_eq!(review(&[ended("a", 0, 1), waits("hup", key)]), Review::default());
}

#[test]
fn a_job_that_something_else_runs_keeps_the_program_alive() {
    let external = with(job("external", Phase::Running), |spec| spec.exec = None);
    assert_eq!(review(std::slice::from_ref(&external)).end, None);
    assert_eq!(review(&[external, ended("a", 0, 1)]).end, None);
}

#[test]
fn a_job_stopped_by_hand_keeps_the_program_alive() {
    assert_eq!(review(&[job("a", Phase::Halted)]), Review::default());
}

#[test]
fn an_essential_job_that_completes_ends_the_program_with_its_status() {
    let jobs = [essential(ended("main", 7, 1)), job("other", Phase::Running)];
    let reason = review(&jobs).end.unwrap();
    assert_eq!(reason, Reason::Essential(Arc::from("main"), Some(7)));
    assert_eq!(exit_status(&jobs, &reason), 7);
}

#[test]
fn an_essential_job_that_never_ran_is_no_success() {
    let reason = Reason::Essential(Arc::from("main"), None);
    let main = essential(job("main", Phase::Complete));
    assert_eq!(exit_status(&[ended("migrate", 3, 1), main.clone()], &reason), 3);
    assert_eq!(exit_status(&[main], &reason), 1);
}

#[test]
fn a_job_that_waits_for_the_end_of_a_lost_one_has_its_turn_when_that_is_given_up() {
    let lost = waits("b", event("a", EventCode::ExitSuccess));
    let cleanup = waits("cleanup", event("b", EventCode::Stopped));
    assert_eq!(review(&[ended("a", 1, 1), lost, cleanup]).lost, [1]);
    let circle = [waits("a", event("b", EventCode::Stopped)), waits("b", event("a", EventCode::Stopped))];
    assert_eq!(review(&circle).lost, [0, 1]);
}

#[test]
fn what_the_end_of_a_lost_job_can_start_through_others_is_waited_for() {
    let app = waits("app", event("db", EventCode::Healthy));
    let db = with(waits("db", event("gone", EventCode::Stopping)), |spec| {
        spec.health = checked("db", Phase::Waiting).spec.health.clone();
    });
    let gone = waits("gone", event("nobody", EventCode::Healthy));
    assert_eq!(review(&[app, db, gone]).lost, [2]);
}

#[test]
fn without_dependencies_all_are_told_at_once() {
    assert_eq!(told(&[job("a", Phase::Running), job("b", Phase::Delayed)], &[]), ["a", "b"]);
}

#[test]
fn a_job_is_told_once_the_running_jobs_that_waited_for_its_health_are_gone() {
    let agent = job("agent", Phase::Running);
    assert_eq!(told(&[agent.clone(), needing("app", Phase::Running, "agent")], &[]), ["app"]);
    assert!(told(&[agent.clone(), needing("app", Phase::Terminating, "agent")], &["app"]).is_empty());
    assert_eq!(told(&[agent, needing("app", Phase::Complete, "agent")], &["app"]), ["agent"]);
}

#[test]
fn a_job_that_never_started_holds_nobody_up() {
    let jobs = [job("agent", Phase::Running), needing("app", Phase::Waiting, "agent")];
    assert_eq!(told(&jobs, &[]), ["agent", "app"]);
}

#[test]
fn jobs_that_need_each_other_are_told_together() {
    let jobs = [needing("a", Phase::Running, "b"), needing("b", Phase::Running, "a")];
    assert_eq!(told(&jobs, &[]), ["a", "b"]);
}

#[test]
fn a_job_that_waits_for_the_end_of_another_gets_to_run() {
    let post_stop = waits("postStop", event("app", EventCode::Stopped));
    assert_eq!(told(&[job("app", Phase::Running), post_stop.clone()], &[]), ["app"]);
    let mut jobs = in_shutdown(&[job("app", Phase::Complete), post_stop], &["app"]);
    jobs[1].phase = Phase::Running;
    assert_eq!(orders(&jobs, |_| true), Orders::default());
}

#[test]
fn a_closing_job_whose_event_can_no_longer_come_is_given_up() {
    let jobs = [job("app", Phase::Complete), waits("postStop", event("app", EventCode::Stopped))];
    let orders = orders(&in_shutdown(&jobs, &["app"]), |_| true);
    assert_eq!(orders, Orders { stop: vec![], lost: vec![1] });
}

#[test]
fn what_a_closing_job_needs_is_kept_until_it_is_certain_that_it_will_not_run() {
    let closer =
        Member { needs: vec![Arc::from("agent")], ..waits("postStop", event("app", EventCode::Stopped)) };
    let jobs = [job("agent", Phase::Running), job("app", Phase::Complete), closer];
    let jobs = in_shutdown(&jobs, &["app"]);
    assert_eq!(orders(&jobs, |_| false), Orders { stop: vec![], lost: vec![2] });
    assert_eq!(orders(&jobs, |_| true), Orders { stop: vec![0], lost: vec![2] });
}

#[test]
fn a_job_started_by_an_end_long_before_the_shutdown_is_like_any_other() {
    let fallback = Member { phase: Phase::Running, ..waits("fallback", event("app", EventCode::Stopped)) };
    assert_eq!(told(&[job("app", Phase::Complete), fallback], &[]), ["fallback"]);
}

#[test]
fn what_a_closing_job_needs_outlives_it() {
    let closer = Member {
        needs: vec![Arc::from("agent")],
        missing: Missing::AllOf(vec![event("app", EventCode::Stopped)]),
        ..waits("postStop", event("app", EventCode::Stopped))
    };
    let jobs = [job("agent", Phase::Running), job("app", Phase::Running), closer];
    assert_eq!(told(&jobs, &[]), ["app"]);
}

#[test]
fn the_status_is_that_of_the_first_job_to_fail_last() {
    let jobs = [ended("late", 5, 9), ended("fine", 0, 1), ended("early", 3, 4)];
    assert_eq!(exit_status(&jobs, &Reason::Completed), 3);
    assert_eq!(exit_status(&[ended("fine", 0, 1)], &Reason::Completed), 0);
    assert_eq!(exit_status(&jobs, &Reason::Signal), 0);
}

#[test]
fn a_coprocess_that_failed_does_not_count() {
    let jobs = [coprocess(ended("agent", 2, 1)), ended("app", 0, 2)];
    assert_eq!(exit_status(&jobs, &Reason::Completed), 0);
}

/// All events that jobs publish.
const JOB_EVENTS: [EventCode; 6] = [
    EventCode::ExitSuccess,
    EventCode::ExitFailed,
    EventCode::Healthy,
    EventCode::Unhealthy,
    EventCode::Stopping,
    EventCode::Stopped,
];

/// A job that is being stopped, in each way and at each step of it.
fn stopping_views(returns: bool) -> Vec<Member> {
    let phases = Phase::ALL.into_iter().filter(|phase| phase.is_stopping());
    phases.map(|phase| Member { returns, ..checked("db", phase) }).collect()
}

#[test]
fn a_job_that_is_stopped_or_restarted_by_hand_can_still_emit_all_that_it_ever_could() {
    let idle = || ended("idle", 0, 1);
    for db in stopping_views(true) {
        for code in JOB_EVENTS {
            let key = event("db", code);
            let once = essential(waits("app", key.clone()));
            let all = Member { missing: Missing::AllOf(vec![key.clone()]), ..once.clone() };
            let hook = waits("hook", key);
            let jobs = [db.clone(), once, all, hook, idle()];
            assert_eq!(review(&jobs), Review::default(), "{} while {}", code.config_name(), db.phase);
        }
    }
}

#[test]
fn a_job_that_stops_for_good_is_given_up_only_by_those_whose_event_is_past() {
    for db in stopping_views(false) {
        let lost: Vec<&str> = JOB_EVENTS
            .into_iter()
            .filter(|code| !review(&[db.clone(), waits("app", event("db", *code))]).lost.is_empty())
            .map(EventCode::config_name)
            .collect();
        let mut expected = vec!["healthy", "unhealthy", "stopping"];
        if db.phase == Phase::Ending {
            expected.splice(0..0, ["exitSuccess", "exitFailed"]);
        }
        assert_eq!(lost, expected, "{}", db.phase);
    }
}

mod certainty {
    //! Against the state machine of jobs: an event that the Pilot holds for impossible comes on no path.
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::actors::job::machine::lifecycle::{
        Action, Afterwards, Ended, Input, Policy, Process, State, step,
    };
    use crate::config::spec::{CommandLine, JobSpec, Limit};
    use std::time::Duration;

    const INPUTS: [Input; 19] = [
        Input::Triggered,
        Input::TriggerExpired,
        Input::IntervalElapsed,
        Input::SpawnFailed,
        Input::Exited(Ended { success: true, lasted: Duration::ZERO }),
        Input::Exited(Ended { success: false, lasted: Duration::ZERO }),
        Input::GroupGone,
        Input::RunTimeoutElapsed,
        Input::IllHealth,
        Input::DelayElapsed,
        Input::HoldEnded,
        Input::DeregistrationEnded,
        Input::DrainElapsed,
        Input::KillTimeoutElapsed,
        Input::StopRequested,
        Input::HaltRequested,
        Input::StartRequested,
        Input::RestartRequested,
        Input::KillRequested,
    ];

    fn policies() -> Vec<Policy> {
        let command = CommandLine { program: "true".into(), args: vec![] };
        let mut plain = JobSpec::new(Arc::from("db"), Some(command));
        plain.timeout = Some(Duration::from_secs(1));
        let mut restarting = plain.clone();
        restarting.restarts = Limit::Unlimited;
        let mut drained = restarting.clone();
        drained.stop.drain = Duration::from_secs(1);
        let advertised = Policy { advertised: true, ..Policy::from(&drained) };
        vec![Policy::from(&plain), Policy::from(&restarting), Policy::from(&drained), advertised]
    }

    /// Counters that grow without end are cut, so that there are few states.
    fn small(state: State) -> State {
        State { restarts: state.restarts.min(1), early_ends: state.early_ends.min(2), ..state }
    }

    fn is_over(state: State) -> bool {
        state.phase == Phase::Complete
            || (state.phase.is_stopping() && state.afterwards == Afterwards::Complete)
    }

    /// A process ends once, and its group after it; nobody counts on a user who starts by hand what is over.
    fn may_come(state: State, input: Input) -> bool {
        match input {
            Input::Exited(_) | Input::SpawnFailed => state.process == Process::Live,
            Input::GroupGone => state.process == Process::Leftover,
            Input::StartRequested | Input::RestartRequested | Input::HaltRequested => !is_over(state),
            Input::Triggered
            | Input::TriggerExpired
            | Input::IntervalElapsed
            | Input::RunTimeoutElapsed
            | Input::IllHealth
            | Input::DelayElapsed
            | Input::HoldEnded
            | Input::DeregistrationEnded
            | Input::DrainElapsed
            | Input::KillTimeoutElapsed
            | Input::StopRequested
            | Input::QueueRequested
            | Input::TurnCame
            | Input::KillRequested => true,
        }
    }

    fn published(actions: &[Action]) -> impl Iterator<Item = EventCode> + '_ {
        actions.iter().filter_map(|action| match action {
            Action::Publish(code) => Some(*code),
            Action::PublishStoppingAndHold => Some(EventCode::Stopping),
            Action::Spawn | Action::Arm(_) | Action::Deregister | Action::Signal | Action::Kill => None,
        })
    }

    #[test]
    fn no_event_that_is_held_for_impossible_comes_on_any_path() {
        for policy in policies() {
            let mut ways: BTreeMap<State, Vec<(State, BTreeSet<&str>)>> = BTreeMap::new();
            let mut open = vec![State::new()];
            while let Some(state) = open.pop() {
                if ways.contains_key(&state) {
                    continue;
                }
                let steps = INPUTS.into_iter().filter(|input| may_come(state, *input)).map(|input| {
                    let (next, actions) = step(&policy, state, input);
                    (small(next), published(&actions).map(EventCode::config_name).collect())
                });
                let steps: Vec<(State, BTreeSet<&str>)> = steps.collect();
                open.extend(steps.iter().map(|(next, _)| *next));
                ways.insert(state, steps);
            }
            assert!(ways.len() > 30, "{} states", ways.len());
            // The events on all paths from each state: a least fixed point.
            let mut ahead: BTreeMap<State, BTreeSet<&str>> = BTreeMap::new();
            loop {
                let mut grew = false;
                for (state, steps) in &ways {
                    let mut events = ahead.get(state).cloned().unwrap_or_default();
                    let before = events.len();
                    for (next, published) in steps {
                        events.extend(published);
                        events.extend(ahead.get(next).into_iter().flatten());
                    }
                    grew |= events.len() > before;
                    ahead.insert(*state, events);
                }
                if !grew {
                    break;
                }
            }
            for (state, events) in &ahead {
                let returns = state.phase.is_stopping() && state.afterwards != Afterwards::Complete;
                let view = Member { returns, ..checked("db", state.phase) };
                for code in JOB_EVENTS.into_iter().filter(|code| !view.can_emit(*code)) {
                    let code = code.config_name();
                    assert!(!events.contains(code), "{code} can come after {state:?}");
                }
            }
        }
    }
}
