use super::*;
use crate::messages::health::Verdict;

const INTERVAL: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(2);
const EXECUTION: ExecutionId = ExecutionId(4);

fn state(probe: Probe) -> State {
    let spec = CheckSpec {
        name: "check".into(),
        probe,
        interval: INTERVAL,
        timeout: TIMEOUT,
        failures: 1,
        raw_output: false,
    };
    State::new(spec, 1)
}

fn exec() -> Probe {
    Probe::Exec(Arc::new(CommandLine { program: "true".into(), args: vec![] }))
}

fn tcp() -> Probe {
    Probe::Tcp("127.0.0.1:1".into())
}

fn ms(milliseconds: u64) -> Moment {
    Moment::after(Duration::from_millis(milliseconds))
}

fn wait(milliseconds: u64) -> Action {
    Action::Schedule(Duration::from_millis(milliseconds))
}

const DUE: Input = Input::TryDue;

fn ended(execution: ExecutionId, code: u8, leftover: bool) -> Input {
    Input::ProcessEnded { execution, status: ExitStatus::Code(code), unstarted: None, leftover }
}

/// A check in round 7, whose job started at second 1.
fn waiting(probe: Probe) -> State {
    let mut state = state(probe);
    assert_eq!(state.step(ms(1000), Input::Started(7)), [wait(50)]);
    state
}

/// The same, with the first try under way.
fn trying(probe: Probe) -> State {
    let mut state = waiting(probe);
    state.step(ms(1050), DUE);
    if matches!(state.spec.probe, Probe::Exec(_)) {
        assert_eq!(state.step(ms(1050), Input::Launched(EXECUTION)), [Action::StartTimeout(TIMEOUT)]);
    }
    state
}

/// The same, with a process of the try left.
fn ending() -> State {
    let mut state = trying(exec());
    state.step(ms(1060), ended(EXECUTION, 0, true));
    assert!(matches!(state.phase, Phase::Ending(_)));
    state
}

/// A check whose outcomes are published, and whose last try failed.
fn failing() -> State {
    let mut state = trying(tcp());
    state.step(ms(1060), Input::OutcomesAwaited(true));
    state.step(ms(1100), Input::Probed(ProbeOutcome::Failed("refused".to_owned())));
    state
}

fn every_state() -> Vec<State> {
    vec![
        state(exec()),
        waiting(exec()),
        waiting(tcp()),
        waiting(Probe::Running),
        trying(exec()),
        trying(tcp()),
        ending(),
        failing(),
    ]
}

fn every_input() -> Vec<Input> {
    let unstarted = |unstarted| Input::ProcessEnded {
        execution: EXECUTION,
        status: ExitStatus::Code(127),
        unstarted: Some(unstarted),
        leftover: false,
    };
    vec![
        Input::Started(8),
        Input::Paused,
        Input::Retired,
        DUE,
        Input::Probed(ProbeOutcome::Passed),
        Input::Probed(ProbeOutcome::Failed("refused".to_owned())),
        Input::Probed(ProbeOutcome::TimedOut),
        ended(EXECUTION, 1, false),
        ended(ExecutionId(5), 0, false),
        unstarted(Unstarted::Failed("no such file".to_owned())),
        unstarted(Unstarted::Cancelled),
        Input::GroupGone(EXECUTION),
        Input::TimeoutElapsed,
        Input::OutcomesAwaited(true),
    ]
}

fn verdicts(actions: &[Action]) -> Vec<(u64, Verdict)> {
    let report = |action: &Action| {
        if let Action::Report(changed) = action { Some((changed.round, changed.verdict)) } else { None }
    };
    actions.iter().filter_map(report).collect()
}

#[test]
fn nothing_is_tried_before_the_jobs_process_starts() {
    let mut state = state(exec());
    for input in
        every_input().into_iter().filter(|input| !matches!(input, Input::Started(_) | Input::Retired))
    {
        assert_eq!(state.step(ms(0), input), []);
    }
}

#[test]
fn a_try_is_carried_out_as_the_check_says() {
    let http = Arc::new(HttpProbe {
        url: "http://127.0.0.1/".to_owned(),
        method: "GET".to_owned(),
        status: None,
        headers: vec![],
        contains: None,
        tls: crate::config::spec::TlsSpec {
            ca_file: None,
            ca_path: None,
            client_cert: None,
            client_key: None,
            server_name: None,
            verify: true,
        },
    });
    let due = |probe| waiting(probe).step(ms(1050), DUE);
    assert!(matches!(due(exec()).as_slice(), [Action::Launch(command)] if command.program == "true"));
    assert_eq!(due(tcp()), [Action::Connect("127.0.0.1:1".into(), TIMEOUT)]);
    assert_eq!(due(Probe::Http(Arc::clone(&http))), [Action::Request(http, TIMEOUT)]);
}

#[test]
fn a_check_of_the_process_alone_passes_once_and_is_not_tried_again() {
    let mut state = waiting(Probe::Running);
    let actions = state.step(ms(1050), DUE);
    assert_eq!(verdicts(&actions), [(7, Verdict::Passing)]);
    assert!(!actions.iter().any(|action| matches!(action, Action::Schedule(_))));
    assert_eq!(state.phase, Phase::Idle);
}

#[test]
fn a_passed_try_is_measured_and_reported_and_the_next_one_scheduled() {
    let actions = trying(exec()).step(ms(1100), ended(EXECUTION, 0, false));
    assert_eq!(
        actions,
        [
            Action::CancelTimeout,
            Action::Measure(Duration::from_millis(50)),
            Action::Log(Severity::Debug, "check is Passing".to_owned()),
            Action::Report(CheckChanged { check: 1, round: 7, verdict: Verdict::Passing }),
            wait(4950),
        ]
    );
}

#[test]
fn outcomes_are_published_while_a_job_waits_for_them() {
    let published = |actions: Vec<Action>| {
        let outcome = |action: &Action| {
            if let Action::PublishOutcome { passed } = action { Some(*passed) } else { None }
        };
        actions.iter().filter_map(outcome).collect::<Vec<bool>>()
    };
    let mut state = trying(tcp());
    state.step(ms(1060), Input::OutcomesAwaited(true));
    let refused = || Input::Probed(ProbeOutcome::Failed("refused".to_owned()));
    assert_eq!(published(state.step(ms(1100), refused())), [false]);
    state.step(ms(1550), DUE);
    assert_eq!(published(state.step(ms(1600), Input::Probed(ProbeOutcome::Passed))), [true]);
    state.step(ms(6000), DUE);
    state.step(ms(6010), Input::OutcomesAwaited(false));
    assert_eq!(published(state.step(ms(6020), refused())), [false; 0]);
}

fn shown<'a>(actions: &'a [Action]) -> Vec<Option<&'a Failing>> {
    let show =
        |action: &'a Action| if let Action::Show(failing) = action { Some(failing.as_ref()) } else { None };
    actions.iter().filter_map(show).collect()
}

#[test]
fn users_see_how_many_tries_in_a_row_failed_and_when_the_next_one_is() {
    let refused = || Input::Probed(ProbeOutcome::Failed("refused".to_owned()));
    let failing = |times, next| Failing { reason: "refused".to_owned(), times, next: Some(ms(next)) };
    let mut state = trying(tcp());
    assert_eq!(shown(&state.step(ms(1100), refused())), [Some(&failing(1, 1550))]);
    assert_eq!(shown(&state.step(ms(1550), DUE)), [], "nothing new");
    assert_eq!(shown(&state.step(ms(1560), refused())), [Some(&failing(2, 2050))]);
    state.step(ms(2050), DUE);
    assert_eq!(shown(&state.step(ms(2060), Input::Probed(ProbeOutcome::Passed))), [None]);
    state.step(ms(6050), DUE);
    assert_eq!(shown(&state.step(ms(6060), Input::Probed(ProbeOutcome::Passed))), [], "nothing new");
}

#[test]
fn why_the_last_run_was_unhealthy_is_shown_until_the_next_one() {
    for (input, last) in [(Input::Started(8), wait(50)), (Input::Retired, Action::Stop)] {
        let mut state = trying(tcp());
        state.step(ms(1100), Input::Probed(ProbeOutcome::Failed("refused".to_owned())));
        let paused = Failing { reason: "refused".to_owned(), times: 1, next: None };
        assert_eq!(shown(&state.step(ms(1200), Input::Paused)), [Some(&paused)], "none is to come");
        let actions = state.step(ms(1300), input);
        assert_eq!((shown(&actions), actions.last()), (vec![None], Some(&last)));
    }
}

#[test]
fn every_way_to_fail_says_why() {
    let reason = |probe: Probe, input| {
        let mut state = trying(probe);
        state.progress.passed = true;
        let actions = state.step(ms(1100), input);
        assert_eq!(verdicts(&actions), [(7, Verdict::Failing)]);
        let texts = actions.into_iter().filter_map(|action| {
            if let Action::Log(Severity::Info | Severity::Error, text) = action { Some(text) } else { None }
        });
        texts.collect::<Vec<String>>()
    };
    let unstarted = |why| Input::ProcessEnded {
        execution: EXECUTION,
        status: ExitStatus::Code(127),
        unstarted: Some(why),
        leftover: false,
    };
    assert_eq!(reason(exec(), ended(EXECUTION, 3, false)), ["check is Failing: exited with status 3"]);
    assert_eq!(
        reason(exec(), unstarted(Unstarted::Failed("no such file".to_owned()))),
        ["no such file", "check is Failing: no such file"]
    );
    let timed_out = "check is Failing: took longer than its timeout";
    assert_eq!(reason(exec(), Input::TimeoutElapsed), [timed_out]);
    assert_eq!(reason(tcp(), Input::Probed(ProbeOutcome::TimedOut)), [timed_out]);
    let refused = Input::Probed(ProbeOutcome::Failed("refused".to_owned()));
    assert_eq!(reason(tcp(), refused), ["check is Failing: refused"]);
}

#[test]
fn a_process_that_outlives_its_timeout_is_killed_and_has_failed_and_its_end_is_waited_for() {
    let outlived = || {
        let mut state = trying(exec());
        let actions = state.step(ms(3050), Input::TimeoutElapsed);
        assert!(actions.contains(&Action::Kill(EXECUTION)));
        assert_eq!(state.failing.as_ref().unwrap().reason, TIMED_OUT, "even if it never ends");
        state
    };
    let mut state = outlived();
    assert_eq!(shown(&state.step(ms(3060), ended(EXECUTION, 0, false))).len(), 1, "the next try");
    assert_eq!(state.phase, Phase::Waiting);
    assert_eq!(state.failing.unwrap().times, 1, "it has failed once");
    let mut state = outlived();
    assert_eq!(state.step(ms(3060), ended(EXECUTION, 0, true)), []);
    assert!(matches!(state.phase, Phase::Ending(_)));
    state.step(ms(3090), Input::GroupGone(EXECUTION));
    assert_eq!(state.phase, Phase::Waiting);
}

#[test]
fn a_process_that_was_never_started_as_the_round_ended_counts_as_nothing() {
    let mut state = trying(exec());
    state.step(ms(1100), Input::Paused);
    let cancelled = Input::ProcessEnded {
        execution: EXECUTION,
        status: ExitStatus::Code(127),
        unstarted: Some(Unstarted::Cancelled),
        leftover: false,
    };
    assert_eq!(state.step(ms(1110), cancelled), [Action::CancelTimeout]);
    assert_eq!(state.phase, Phase::Idle);
}

#[test]
fn the_next_try_waits_until_every_process_of_the_last_one_is_gone() {
    let mut state = ending();
    assert_eq!(state.step(ms(2000), DUE), []);
    assert_eq!(state.step(ms(2000), Input::GroupGone(ExecutionId(5))), []);
    assert_eq!(state.step(ms(2050), Input::GroupGone(EXECUTION)), [wait(4000)]);
}

#[test]
fn a_pause_cancels_the_next_try_and_ends_the_one_that_runs() {
    assert_eq!(waiting(exec()).step(ms(1100), Input::Paused), [Action::CancelNext]);
    assert_eq!(trying(tcp()).step(ms(1100), Input::Paused), [Action::Abandon]);
    for mut state in [trying(exec()), ending()] {
        assert_eq!(state.step(ms(1100), Input::Paused), [Action::Kill(EXECUTION)]);
    }
}

#[test]
fn a_try_that_ends_after_its_round_changes_no_verdict_and_schedules_nothing() {
    let mut state = trying(exec());
    state.step(ms(1100), Input::Paused);
    let actions = state.step(ms(1200), ended(EXECUTION, 0, false));
    assert_eq!(actions, [Action::CancelTimeout]);
    assert_eq!(state.phase, Phase::Idle);
}

#[test]
fn a_new_round_waits_for_the_process_of_the_last_one_and_does_not_count_its_outcome() {
    let mut state = trying(exec());
    assert_eq!(state.step(ms(1100), Input::Started(8)), [Action::Kill(EXECUTION)]);
    assert_eq!(state.step(ms(1120), ended(EXECUTION, 0, false)), [Action::CancelTimeout, wait(30)]);
    let mut state = trying(tcp());
    assert_eq!(state.step(ms(1100), Input::Started(8)), [Action::Abandon, wait(50)]);
}

#[test]
fn a_check_that_is_not_needed_any_more_ends_whatever_it_does() {
    for mut state in every_state() {
        assert_eq!(state.step(ms(1100), Input::Retired).last(), Some(&Action::Stop));
        assert_eq!(state.round, None);
    }
}

#[test]
fn a_check_that_is_written_down_and_read_back_goes_on_the_same() {
    for state in every_state() {
        for input in every_input() {
            let text = serde_json::to_string(&(&state, &input)).unwrap();
            let (mut read, input_read): (State, Input) = serde_json::from_str(&text).unwrap();
            let mut state = state.clone();
            assert_eq!(state.step(ms(1500), input), read.step(ms(1500), input_read));
            assert_eq!(state, read);
        }
    }
}

#[test]
fn a_check_is_known_by_its_name() {
    assert_eq!(state(tcp()).name(), "check");
}

#[test]
fn a_try_whose_time_is_over_too_late_has_it_once_more() {
    let late = ms(1050).plus(TIMEOUT).plus(Duration::from_millis(100));
    let mut state = trying(exec());
    assert_eq!(state.step(late, Input::TimeoutElapsed), [Action::StartTimeout(TIMEOUT)], "as after a pause");
    assert_eq!(verdicts(&state.step(late, ended(EXECUTION, 0, false))), [(7, Verdict::Passing)]);
    let mut state = trying(exec());
    state.step(late, Input::TimeoutElapsed);
    let actions = state.step(late.plus(TIMEOUT).plus(TIMEOUT), Input::TimeoutElapsed);
    assert!(actions.contains(&Action::Kill(EXECUTION)), "once: {actions:?}");
}
