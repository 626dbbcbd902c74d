//! Outages beside a watch that Consul refuses for good.

use super::*;

const KV: &str = "watch.kv";
const DB: &str = "watch.db";

/// One query after another for these watches.
struct Queries {
    state: State,
    number: u64,
}

impl Queries {
    /// `watch.kv` is refused, and `watch.db` is served.
    fn with_one_refused() -> Self {
        let mut queries = Self { state: agent(), number: 0 };
        let began = queries.ask(0, KV, Err(Trouble::Answered(403)));
        assert_eq!((remarks(&began), shown(&began)), (vec![in_trouble(KV, "Answered(403)")], refused()));
        let served = queries.ask(0, DB, Ok(7));
        assert_eq!((remarks(&served), shown(&served)), (vec![], None));
        queries
    }

    fn ask(&mut self, second: u64, watch: &str, result: Result<u64, Trouble>) -> Vec<Action> {
        self.number += 1;
        self.state.step(ms(1000 * second), requested(self.number, watch, None));
        let actions = self.state.step(ms(1000 * second), ended(self.number, watch, result));
        let elapsed = Input::PauseElapsed { caller: watch.into(), number: self.number };
        self.state.step(ms(1000 * second), elapsed);
        actions
    }
}

fn in_trouble(watch: &str, reason: &str) -> Remark {
    Remark::InTrouble(watch.into(), reason.to_owned())
}

fn shown(actions: &[Action]) -> Option<Option<String>> {
    actions.iter().find_map(|action| {
        if let Action::ShowTrouble(trouble) = action { Some(trouble.clone()) } else { None }
    })
}

fn refused() -> Option<Option<String>> {
    Some(Some("Answered(403)".to_owned()))
}

fn unreachable() -> Option<Option<String>> {
    Some(Some("Unreachable".to_owned()))
}

#[test]
fn each_outage_and_its_end_are_told_and_shown_while_a_watch_is_refused_for_good() {
    let mut queries = Queries::with_one_refused();
    for second in [1000, 2000] {
        let began = queries.ask(second, DB, Err(Trouble::Unreachable));
        assert_eq!((remarks(&began), shown(&began)), (vec![in_trouble(DB, "Unreachable")], unreachable()));
        let other = queries.ask(second + 1, KV, Err(Trouble::Unreachable));
        assert_eq!((remarks(&other), shown(&other)), (vec![], None));
        let answered = queries.ask(second + 5, KV, Err(Trouble::Answered(403)));
        assert_eq!((remarks(&answered), shown(&answered)), (vec![], None));
        let served = queries.ask(second + 6, DB, Ok(8));
        assert_eq!((remarks(&served), shown(&served)), (vec![], refused()));
        let over = queries.ask(second + 7, KV, Err(Trouble::Answered(403)));
        let back = Remark::Recovered(Duration::from_secs(7));
        assert_eq!((remarks(&over), shown(&over)), (vec![back], None));
    }
    let over = queries.ask(3000, KV, Ok(9));
    assert_eq!(remarks(&over), [Remark::Recovered(Duration::from_secs(3000))]);
    assert_eq!(shown(&over), Some(None));
}

#[test]
fn an_outage_is_over_when_the_refused_watch_is_refused_again_after_the_others_were_served() {
    let mut queries = Queries::with_one_refused();
    queries.ask(10, DB, Err(Trouble::Unreachable));
    queries.ask(10, KV, Err(Trouble::Unreachable));
    let served = queries.ask(14, DB, Ok(8));
    assert_eq!((remarks(&served), shown(&served)), (vec![], None));
    let over = queries.ask(15, KV, Err(Trouble::Answered(403)));
    let back = Remark::Recovered(Duration::from_secs(5));
    assert_eq!((remarks(&over), shown(&over)), (vec![back], refused()));
}

#[test]
fn the_failure_of_each_watch_is_shown_until_it_is_served() {
    let mut queries = Queries { state: agent(), number: 0 };
    let failure = |actions: &[Action]| {
        let failure = |action: &Action| {
            let Action::ShowFailure(watch, failure) = action else { return None };
            Some((watch.to_string(), failure.as_ref().map(|failure| failure.reason.clone())))
        };
        actions.iter().find_map(failure)
    };
    let failed = |watch: &str, reason: Option<&str>| Some((watch.to_owned(), reason.map(str::to_owned)));
    let refused = queries.ask(0, KV, Err(Trouble::Answered(403)));
    assert_eq!(failure(&refused), failed(KV, Some("Answered(403)")));
    assert_eq!(failure(&queries.ask(1, KV, Err(Trouble::Answered(403)))), None, "nothing new");
    let away = queries.ask(2, DB, Err(Trouble::Unreachable));
    assert_eq!(failure(&away), failed(DB, Some("Unreachable")));
    assert_eq!(failure(&queries.ask(3, DB, Ok(8))), failed(DB, None));
    assert_eq!(failure(&queries.ask(4, DB, Ok(8))), None);
}

#[test]
fn a_consul_that_answers_with_errors_before_it_serves_is_not_told_to_be_back() {
    let mut queries = Queries { state: agent(), number: 0 };
    queries.ask(10, DB, Err(Trouble::Unreachable));
    let answered = queries.ask(13, DB, Err(Trouble::Answered(500)));
    assert_eq!(remarks(&answered), [in_trouble(DB, "Answered(500)")]);
    assert_eq!(remarks(&queries.ask(14, DB, Ok(8))), [Remark::Recovered(Duration::from_secs(4))]);
}

#[test]
fn the_watch_that_was_served_is_repeated_each_second_and_the_refused_one_is_not() {
    let mut queries = Queries::with_one_refused();
    let pause = |actions: &[Action]| {
        let wait = |action: &Action| if let Action::Pause { wait, .. } = action { Some(*wait) } else { None };
        actions.iter().find_map(wait)
    };
    let mut waits = (None, None);
    for second in 10..20 {
        let db = queries.ask(second, DB, Err(Trouble::Unreachable));
        let kv = queries.ask(second, KV, Err(Trouble::Unreachable));
        waits = (pause(&db), pause(&kv));
    }
    assert_eq!(waits, (Some(Duration::from_secs(1)), Some(HEARTBEAT)));
}
