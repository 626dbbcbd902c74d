use super::*;

fn pause(actions: &[Action]) -> Option<Duration> {
    actions.iter().find_map(|action| if let Action::Pause { wait, .. } = action { Some(*wait) } else { None })
}

/// An agent with an open blocking query of `watch.a`, number 1.
fn asking() -> State {
    let mut state = agent();
    let actions = state.step(ms(0), requested(1, "watch.a", Some(7)));
    assert_eq!(actions, [Action::Query(1, query("watch.a", Some(7)))]);
    state
}

/// The same, after that query has failed.
fn pausing() -> State {
    let mut state = asking();
    let actions = state.step(ms(10), ended(1, "watch.a", Err(Trouble::Unreachable)));
    assert_eq!((pause(&actions), replies(&actions)), (Some(Duration::from_millis(100)), vec![]));
    state
}

fn elapsed(number: u64) -> Input {
    Input::PauseElapsed { caller: "watch.a".into(), number }
}

#[test]
fn a_reply_goes_to_the_watch() {
    assert_eq!(replies(&asking().step(ms(10), ended(1, "watch.a", Ok(8)))), [(1, Ok(()))]);
}

#[test]
fn a_failure_is_told_to_the_watch_after_a_pause_that_grows_until_a_query_succeeds() {
    let mut state = pausing();
    assert_eq!(replies(&state.step(ms(110), elapsed(1))), [(1, Err(QueryFailure::Failed))]);
    for (number, wait) in [(2, 200), (3, 400)] {
        state.step(ms(110), requested(number, "watch.a", None));
        let actions = state.step(ms(110), ended(number, "watch.a", Err(Trouble::Unreachable)));
        assert_eq!(pause(&actions), Some(Duration::from_millis(wait)));
        state.step(ms(200), elapsed(number));
    }
    state.step(ms(300), requested(4, "watch.a", None));
    state.step(ms(300), ended(4, "watch.a", Ok(7)));
    state.step(ms(300), requested(5, "watch.a", None));
    let actions = state.step(ms(300), ended(5, "watch.a", Err(Trouble::Unreachable)));
    assert_eq!(pause(&actions), Some(Duration::from_millis(100)));
}

#[test]
fn a_blocking_query_that_consul_held_and_then_lost_is_cut_and_no_failure() {
    let cut = asking().step(ms(60_000), ended(1, "watch.a", Err(Trouble::Unreachable)));
    assert_eq!(replies(&cut), [(1, Err(QueryFailure::Cut(Duration::from_secs(60))))]);
    assert!(cut.contains(&Action::Count { answered: true }));
    let mut state = agent();
    state.step(ms(0), requested(1, "watch.a", None));
    let failed = state.step(ms(60_000), ended(1, "watch.a", Err(Trouble::Unreachable)));
    assert!(pause(&failed).is_some(), "without an index it is not held");
}

#[test]
fn a_late_reply_for_a_removed_watch_is_dropped() {
    let mut state = asking();
    assert_eq!(state.step(ms(10), removed("watch.a")), [Action::DropQuery(1)]);
    let before = state.clone();
    for late in [ended(1, "watch.a", Ok(8)), ended(1, "watch.a", Err(Trouble::Unreachable)), elapsed(1)] {
        assert_eq!(state.step(ms(20), late), []);
    }
    assert_eq!(state, before);
}

#[test]
fn a_watch_of_the_same_name_after_a_reload_takes_the_place_of_the_former_one() {
    let mut state = pausing();
    let actions = state.step(ms(20), requested(2, "watch.a", None));
    assert_eq!(actions, [Action::DropQuery(1), Action::Query(2, query("watch.a", None))]);
    assert_eq!(state.step(ms(30), elapsed(1)), []);
    let actions = state.step(ms(40), ended(2, "watch.a", Err(Trouble::Unreachable)));
    assert_eq!(pause(&actions), Some(Duration::from_millis(100)), "it counts its failures from the start");
}

#[test]
fn when_consul_is_back_open_queries_are_interrupted_and_pauses_end() {
    let mut state = pausing();
    state.step(ms(20), requested(2, "watch.b", Some(7)));
    state.step(ms(20), requested(3, "watch.c", None));
    let actions = state.step(ms(1010), ended(3, "watch.c", Ok(7)));
    let expected = [(2, Err(QueryFailure::Interrupted)), (1, Err(QueryFailure::Failed)), (3, Ok(()))];
    assert_eq!(replies(&actions), expected);
}

#[test]
fn a_consul_that_is_late_once_does_not_make_everybody_come_back_at_once() {
    let mut state = pausing();
    state.step(ms(20), requested(2, "watch.b", Some(7)));
    state.step(ms(20), requested(3, "watch.c", None));
    assert_eq!(replies(&state.step(ms(1009), ended(3, "watch.c", Ok(7)))), [(3, Ok(()))]);
}

#[test]
fn a_consul_that_refuses_has_lost_no_reply() {
    let mut state = asking();
    state.step(ms(10), ended(1, "watch.a", Err(Trouble::Answered(500))));
    state.step(ms(20), requested(2, "watch.b", Some(7)));
    state.step(ms(20), requested(3, "watch.c", None));
    let actions = state.step(ms(1010), ended(3, "watch.c", Ok(7)));
    assert_eq!(replies(&actions), [(1, Err(QueryFailure::Failed)), (3, Ok(()))]);
}

#[test]
fn another_link_interrupts_open_queries_and_ends_pauses() {
    let mut state = pausing();
    state.step(ms(20), requested(2, "watch.b", Some(7)));
    let actions = state.step(ms(30), Input::Reconnected(Link { number: 1, address: address(2) }));
    assert_eq!(replies(&actions), [(2, Err(QueryFailure::Interrupted)), (1, Err(QueryFailure::Failed))]);
    assert_eq!(state.step(ms(40), ended(2, "watch.b", Ok(8))), [], "a reply of the former Consul is dropped");
}

#[test]
fn without_a_consul_a_query_fails_after_a_pause() {
    let mut state = State::new(Link { number: 0, address: None }, None);
    let actions = state.step(ms(0), requested(1, "watch.a", None));
    assert_eq!((pause(&actions), actions.len()), (Some(Duration::from_millis(100)), 1));
}

#[test]
fn an_outage_is_logged_and_shown_once_and_its_end_once() {
    let mut state = asking();
    let began = state.step(ms(10), ended(1, "watch.a", Err(Trouble::Unreachable)));
    let reason = "Unreachable".to_owned();
    assert_eq!(remarks(&began), [Remark::InTrouble("watch.a".into(), reason.clone())]);
    assert!(began.contains(&Action::ShowTrouble(Some(reason))));
    state.step(ms(20), requested(2, "watch.b", None));
    assert_eq!(remarks(&state.step(ms(30), ended(2, "watch.b", Err(Trouble::Unreachable)))), []);
    state.step(ms(110), elapsed(1));
    state.step(ms(110), requested(3, "watch.a", None));
    assert_eq!(remarks(&state.step(ms(120), ended(3, "watch.a", Ok(7)))), [], "watch.b is still in trouble");
    let actions = state.step(ms(130), removed("watch.b"));
    assert_eq!(remarks(&actions), [Remark::NoTroubleLeft]);
    assert!(actions.contains(&Action::ShowTrouble(None)));
}

#[test]
fn the_end_of_an_outage_says_how_long_it_lasted() {
    let mut state = pausing();
    state.step(ms(110), elapsed(1));
    state.step(ms(110), requested(2, "watch.a", None));
    let actions = state.step(ms(2510), ended(2, "watch.a", Ok(7)));
    assert_eq!(remarks(&actions), [Remark::Recovered(Duration::from_millis(2500))]);
}

#[test]
fn a_watch_that_was_replaced_by_one_of_its_name_disturbs_that_one_no_more() {
    let mut state = asking();
    let newer = Query { generation: 2, ..query("watch.a", Some(7)) };
    state.step(ms(10), Input::QueryRequested { number: 2, query: newer, random: 1.0 });
    let before = state.clone();
    assert_eq!(state.step(ms(20), requested(3, "watch.a", None)), [Action::DropQuery(3)]);
    assert_eq!(state.step(ms(20), removed("watch.a")), []);
    assert_eq!(state, before);
}
