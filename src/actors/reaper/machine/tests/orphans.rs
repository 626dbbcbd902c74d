use super::*;

const KILL: Action = Action::SignalAll(Signal::KILL);
const SOON: Action = Action::LookForOrphansAfter(Duration::from_millis(10));
const LEFT: Input = Input::OrphansLookedFor { are_left: true };

fn end_orphans(grace: u64, patience: u64) -> Input {
    let (grace, patience) = (Duration::from_millis(grace), Duration::from_millis(patience));
    Input::EndOrphansAsked(EndOrphans { grace, patience })
}

fn ending() -> State {
    let mut state = State::new(None);
    assert_eq!(
        state.step(ms(0), end_orphans(1000, 3000)),
        [
            Action::SignalAll(Signal::TERM),
            Action::SignalAll(Signal::CONT),
            Action::LookForOrphansAfter(Duration::ZERO),
        ]
    );
    state
}

#[test]
fn the_end_is_told_once_as_soon_as_no_orphan_is_left() {
    for now in [0, 500, 2000] {
        let mut state = ending();
        let none = Input::OrphansLookedFor { are_left: false };
        assert_eq!(state.step(ms(now), none.clone()), [Action::TellOrphansGone]);
        assert_eq!(state.step(ms(now), none), []);
    }
}

#[test]
fn orphans_are_killed_again_and_again_after_their_grace_and_given_up_in_the_end() {
    let mut state = ending();
    assert_eq!(state.step(ms(0), LEFT), [SOON]);
    assert_eq!(state.step(ms(999), LEFT), [SOON]);
    assert_eq!(state.step(ms(1000), LEFT), [KILL, SOON]);
    assert_eq!(state.step(ms(3999), LEFT), [KILL, SOON]);
    assert_eq!(state.step(ms(4000), LEFT), [Action::TellOrphansGone]);
}

#[test]
fn a_second_command_shortens_the_grace_and_never_lengthens_it() {
    let mut state = ending();
    assert_eq!(state.step(ms(100), end_orphans(5000, 3000)), []);
    assert_eq!(state.step(ms(1000), LEFT), [KILL, SOON]);
    let mut state = ending();
    assert_eq!(state.step(ms(100), end_orphans(0, 3000)), []);
    assert_eq!(state.step(ms(110), LEFT), [KILL, SOON]);
    assert_eq!(state.step(ms(3110), LEFT), [Action::TellOrphansGone]);
}

#[test]
fn orphans_are_killed_before_they_are_given_up_also_if_the_machine_slept_meanwhile() {
    let mut state = ending();
    assert_eq!(state.step(ms(0), LEFT), [SOON]);
    assert_eq!(state.step(ms(60_000), LEFT), [KILL, SOON]);
    assert_eq!(state.step(ms(62_999), LEFT), [KILL, SOON]);
    assert_eq!(state.step(ms(63_000), LEFT), [Action::TellOrphansGone]);
}

#[test]
fn without_grace_and_patience_orphans_are_killed_once_and_not_waited_for() {
    assert_eq!(ending().step(ms(100), end_orphans(0, 0)), [KILL, Action::TellOrphansGone]);
    let actions = State::new(None).step(ms(0), end_orphans(0, 0));
    assert_eq!(actions[2..], [KILL, Action::TellOrphansGone]);
}

#[test]
fn orphans_that_cannot_be_found_are_left_behind_after_a_moment() {
    let mut state = ending();
    assert_eq!(state.step(ms(500), Input::OrphansAreUnknown), [], "nobody is killed yet");
    assert_eq!(state.step(ms(1099), Input::OrphansAreUnknown), []);
    let actions = state.step(ms(1100), Input::OrphansAreUnknown);
    assert!(matches!(actions[..], [Action::Log(Severity::Warning, None, _), Action::TellOrphansGone]));
    assert_eq!(state.step(ms(1110), LEFT), [], "the timer that was set before");
}
