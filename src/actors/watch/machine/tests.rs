use super::*;
use EventCode::{Changed, Healthy, Unhealthy};

const INTERVAL: Duration = Duration::from_secs(1);

fn spec() -> WatchSpec {
    WatchSpec {
        name: "db".into(),
        target: WatchTarget::Service { service: "db".to_owned(), tag: None },
        interval: INTERVAL,
        datacentre: None,
        after_coprocesses: false,
    }
}

fn second(number: u64) -> Moment {
    Moment::after(Duration::from_secs(number))
}

fn reply(ids: &[&str], index: Option<u64>) -> Input {
    let instance = |id: &&str| Found::Instance { id: (*id).to_owned(), address: "::1".to_owned(), port: 1 };
    Input::Replied(Ok(QueryReply { found: ids.iter().map(instance).collect(), index }))
}

fn failure(failure: QueryFailure) -> Input {
    Input::Replied(Err(failure))
}

/// A watch with an open query, whose last reply had one instance and index 7.
fn asking() -> State {
    let mut state = State::new(spec(), 3);
    state.step(second(0), Input::Begun);
    state.step(second(0), reply(&["a"], Some(7)));
    state
}

/// A watch whose next query waits for a timer: its server has no index.
fn pausing() -> State {
    let mut state = asking();
    state.step(second(1), reply(&["a"], None));
    assert_eq!(state.phase, Phase::Pausing);
    state
}

fn retired() -> State {
    let mut state = asking();
    state.step(second(1), Input::Retired);
    state
}

fn every_input() -> Vec<Input> {
    vec![
        Input::Begun,
        reply(&[], Some(8)),
        failure(QueryFailure::Failed),
        failure(QueryFailure::Cut(INTERVAL)),
        failure(QueryFailure::Interrupted),
        Input::PauseElapsed,
        Input::Retired,
    ]
}

fn published(actions: &[Action]) -> Vec<EventCode> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Publish(code) => Some(*code),
            Action::Ask(_) | Action::Pause(_) | Action::Show(_) | Action::Remove(_) | Action::Stop => None,
        })
        .collect()
}

fn query(actions: &[Action]) -> &Query {
    match actions.last() {
        Some(Action::Ask(query)) => query,
        other => panic!("expected a query, found {other:?}"),
    }
}

#[test]
fn a_watch_asks_nothing_before_it_is_told_to_begin_and_then_for_an_immediate_reply() {
    let mut state = State::new(spec(), 3);
    for input in [Input::PauseElapsed, reply(&["a"], Some(7))] {
        assert_eq!(state.step(second(0), input), []);
    }
    let actions = state.step(second(0), Input::Begun);
    assert_eq!((&*query(&actions).caller, query(&actions).newer_than), ("watch.db", None));
}

#[test]
fn a_watch_that_is_told_to_begin_again_starts_no_second_query() {
    for mut state in [asking(), pausing()] {
        assert_eq!(state.step(second(2), Input::Begun), []);
    }
}

#[test]
fn a_reply_is_shown_then_published_then_followed_by_the_next_query() {
    let mut state = State::new(spec(), 3);
    state.step(second(0), Input::Begun);
    let actions = state.step(second(0), reply(&["a"], Some(7)));
    assert!(
        matches!(actions.first(), Some(Action::Show(status)) if status.known && status.instances.len() == 1)
    );
    assert_eq!(published(&actions), [Changed, Healthy]);
    assert_eq!(query(&actions).newer_than.map(|(index, _)| index), Some(7));
    assert_eq!(published(&state.step(second(9), reply(&[], Some(8)))), [Changed, Unhealthy]);
}

#[test]
fn the_time_that_a_reply_took_counts_from_its_query() {
    let mut state = asking();
    // Early twice, after 100 s each: Consul held the query, so the next one follows at once.
    for seconds in [100, 200] {
        let actions = state.step(second(seconds), reply(&["a"], Some(7)));
        assert_eq!(query(&actions).newer_than.map(|(index, _)| index), Some(7));
    }
    // Early without any wait: the next query waits for the interval.
    let actions = state.step(second(200), reply(&["a"], Some(7)));
    assert_eq!(actions.last(), Some(&Action::Pause(INTERVAL)));
}

#[test]
fn a_query_without_a_reply_forgets_the_index_but_not_the_last_reply() {
    for why in [QueryFailure::Failed, QueryFailure::Interrupted, QueryFailure::Cut(INTERVAL)] {
        let mut state = asking();
        let actions = state.step(second(1), failure(why));
        assert_eq!(query(&actions).newer_than, None, "{why:?}");
        let actions = state.step(second(1), reply(&["a"], Some(7)));
        assert_eq!(published(&actions), [], "nothing changed meanwhile");
    }
}

#[test]
fn a_pause_ends_with_the_next_query() {
    let mut state = pausing();
    assert_eq!(state.step(second(1), reply(&[], Some(8))), [], "there is no open query");
    let actions = state.step(second(2), Input::PauseElapsed);
    assert_eq!(query(&actions).newer_than, None);
    assert_eq!(state.phase, Phase::Asking { since: second(2) });
}

#[test]
fn a_removed_watch_ends_once_and_a_late_reply_or_timer_changes_nothing() {
    for mut state in [State::new(spec(), 3), asking(), pausing()] {
        let remove = RemoveWatch { caller: caller(state.name()), generation: 3 };
        assert_eq!(state.step(second(1), Input::Retired), [Action::Remove(remove), Action::Stop]);
        for input in every_input() {
            let before = state.clone();
            assert_eq!(state.step(second(2), input), []);
            assert_eq!(state, before);
        }
    }
}

#[test]
fn a_watch_that_is_written_down_and_read_back_goes_on_the_same() {
    for state in [State::new(spec(), 3), asking(), pausing(), retired()] {
        for input in every_input() {
            let text = serde_json::to_string(&(&state, &input)).unwrap();
            let (mut read, input_read): (State, Input) = serde_json::from_str(&text).unwrap();
            let mut state = state.clone();
            assert_eq!(state.step(second(3), input), read.step(second(3), input_read));
            assert_eq!(state, read);
        }
    }
}

#[test]
fn an_early_reply_without_news_is_followed_by_the_next_query_at_once() {
    let mut state = asking();
    let soon = Moment::after(Duration::from_millis(10));
    assert_eq!(query(&state.step(soon, reply(&["a"], Some(7)))).newer_than.map(|(index, _)| index), Some(7));
}
