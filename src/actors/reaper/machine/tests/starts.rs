use std::slice;

use super::*;

fn spawns(actions: &[Action]) -> Vec<u64> {
    let spawned = |action: &Action| if let Action::Spawn(id) = action { Some(id.0) } else { None };
    actions.iter().filter_map(spawned).collect()
}

/// Twenty jobs that were asked for at once: the first eight are being started.
fn twenty() -> State {
    let mut state = State::new(None);
    let begun: Vec<u64> = (1..=20)
        .flat_map(|number| {
            spawns(&state.step(ms(0), Input::LaunchAsked(id(number), job(&format!("job{number}")))))
        })
        .collect();
    assert_eq!(begun, [1, 2, 3, 4, 5, 6, 7, 8]);
    state
}

#[test]
fn a_few_starts_are_under_way_at_a_time_in_the_order_of_the_requests() {
    let mut state = twenty();
    assert_eq!(spawns(&state.step(ms(1), settled(3, StartOutcome::Started(pid(7))))), [9]);
    let failure = Failure { reason: "cannot".to_owned(), status: 127 };
    let actions = state.step(ms(1), settled(1, StartOutcome::Failed { failure, child: None }));
    assert_eq!((spawns(&actions), ended(&actions).status), (vec![10], ExitStatus::Code(127)));
}

#[test]
fn a_slow_start_lets_the_next_begin_beside_it() {
    let mut state = twenty();
    let actions = state.step(ms(100), Input::StartIsSlow(id(1), None));
    assert_eq!(actions, [Action::HelpSlowStarts, Action::Spawn(id(9))]);
    assert_eq!(state.step(ms(200), settled(1, StartOutcome::Started(pid(7)))).len(), 1, "it does not count");
}

#[test]
fn while_a_start_hangs_even_cancelled_the_next_of_its_label_waits_and_others_do_not() {
    let mut state = starting();
    state.step(ms(100), Input::StartIsSlow(id(1), None));
    assert!(was_cancelled(&state.step(ms(200), end(Signal::TERM, true, None))));
    assert_eq!(state.step(ms(200), Input::LaunchAsked(id(2), job("app"))), []);
    assert_eq!(state.step(ms(200), Input::LaunchAsked(id(3), job("db"))), [Action::Spawn(id(3))]);
    assert_eq!(state.step(ms(300), settled(1, StartOutcome::Cancelled)), [Action::Spawn(id(2))]);
}

#[test]
fn a_start_that_hangs_is_told_in_the_log_even_if_it_was_cancelled() {
    let mut state = starting();
    state.step(ms(100), Input::StartIsSlow(id(1), None));
    state.step(ms(200), end(Signal::TERM, true, None));
    let actions = state.step(ms(5100), Input::StartHangs(id(1)));
    assert!(matches!(&actions[..], [Action::Log(Severity::Warning, Some(label), _)] if &**label == "app"));
    state.step(ms(5200), settled(1, StartOutcome::Cancelled));
    assert_eq!(state.step(ms(5300), Input::StartHangs(id(1))), []);
}

#[test]
fn what_waits_in_the_queue_is_cancelled_at_once_and_never_started() {
    let mut state = twenty();
    let asked = Input::EndAsked { execution: id(9), signal: Signal::TERM, is_cancelled: false, pid: None };
    assert!(was_cancelled(&state.step(ms(1), asked)));
    assert_eq!(spawns(&state.step(ms(1), settled(1, StartOutcome::Started(pid(7))))), [10]);
}

#[test]
fn signals_are_kept_until_the_program_runs() {
    let mut state = twenty();
    state.step(ms(1), Input::SignalAsked(id(9), Signal::HUP));
    for _ in 0..2 {
        assert_eq!(state.step(ms(1), Input::SignalAsked(id(1), Signal::HUP)), []);
    }
    assert_eq!(state.step(ms(1), end(Signal::TERM, false, Some(pid(7)))), []);
    let mut actions = state.step(ms(2), settled(1, StartOutcome::Started(pid(7))));
    assert_eq!(
        actions.split_off(1),
        [
            signal(Signal::HUP, true),
            signal(Signal::TERM, true),
            signal(Signal::CONT, true),
            Action::Spawn(id(9)),
        ]
    );
    let actions = state.step(ms(3), settled(9, StartOutcome::Started(pid(8))));
    let kept = |action: &Action| matches!(action, Action::Signal { signal: Signal::HUP, .. });
    assert!(actions.iter().any(kept), "those of a queued one, too: {actions:?}");
}

#[test]
fn a_forwarded_signal_goes_to_the_main_process_alone_once_its_program_runs() {
    let mut state = starting();
    assert_eq!(state.step(ms(1), Input::ForwardAsked(id(1), None, Signal::HUP)), []);
    let actions = state.step(ms(2), settled(1, StartOutcome::Started(pid(7))));
    assert!(actions.contains(&signal(Signal::HUP, true)), "it is alone in its group: {actions:?}");
    for (main, receiver) in [(None, pid(7)), (Some(pid(9)), pid(9))] {
        let forwarded = state.step(ms(3), Input::ForwardAsked(id(1), main, Signal::USR1));
        assert_eq!(forwarded, [Action::SignalProcess(receiver, Signal::USR1)]);
    }
    state.step(ms(4), Input::ChildExited(pid(7), ExitStatus::Code(0)));
    let forwarded = state.step(ms(5), Input::ForwardAsked(id(1), None, Signal::USR1));
    assert_eq!(forwarded, [], "its main process is gone");
}

#[test]
fn a_start_that_is_killed_never_ran_its_program_however_it_is_settled() {
    let kill = Action::SignalProcess(pid(7), Signal::KILL);
    let mut at_once = starting();
    assert_eq!(at_once.step(ms(1), end(Signal::KILL, false, Some(pid(7)))), slice::from_ref(&kill));
    let mut once_slow = starting();
    assert_eq!(once_slow.step(ms(1), end(Signal::TERM, false, Some(pid(7)))), []);
    let actions = once_slow.step(ms(100), Input::StartIsSlow(id(1), Some(pid(7))));
    assert_eq!(actions, [kill.clone(), Action::HelpSlowStarts]);
    let mut slow = starting();
    slow.step(ms(100), Input::StartIsSlow(id(1), Some(pid(7))));
    assert_eq!(slow.step(ms(101), end(Signal::TERM, false, Some(pid(7)))), [kill]);
    for mut state in [at_once, once_slow, slow] {
        assert_eq!(state.step(ms(200), settled(1, StartOutcome::Started(pid(7)))), []);
        state.step(ms(200), Input::ChildExited(pid(7), killed()));
        let actions =
            state.step(ms(200), Input::Looked(Survey { memory_kills: Some(1), ..Survey::default() }));
        let reason = "cannot execute its program: it was killed while it was being started".to_owned();
        assert_eq!(ended(&actions).unstarted, Some(Unstarted::Failed(reason)));
        assert_eq!((ended(&actions).status, ended(&actions).for_memory), (ExitStatus::Code(126), false));
    }
}

#[test]
fn a_child_that_failed_to_become_its_program_is_told_when_it_is_reaped() {
    let mut state = starting();
    let failure = Failure { reason: "cannot execute it".to_owned(), status: 127 };
    let outcome = StartOutcome::Failed { failure, child: Some(pid(7)) };
    assert_eq!(state.step(ms(1), settled(1, outcome)), []);
    state.step(ms(1), Input::ChildExited(pid(7), ExitStatus::Code(127)));
    let actions = state.step(ms(1), Input::Looked(Survey::default()));
    assert_eq!(ended(&actions).unstarted, Some(Unstarted::Failed("cannot execute it".to_owned())));
}

#[test]
fn a_stopped_process_is_woken_to_act_on_the_signal_that_ends_it() {
    let asked = |signal| end(signal, false, None);
    assert_eq!(
        running().step(ms(1), asked(Signal::TERM)),
        [signal(Signal::TERM, true), signal(Signal::CONT, true)]
    );
    assert_eq!(running().step(ms(1), asked(Signal::KILL)), [signal(Signal::KILL, true)]);
}
