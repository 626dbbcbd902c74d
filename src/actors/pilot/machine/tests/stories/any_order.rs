//! Inputs in any order.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn any_phase() -> impl Strategy<Value = Phase> {
    proptest::sample::select(Phase::ALL.to_vec())
}

fn any_input() -> impl Strategy<Value = Input> {
    let name = proptest::sample::select(vec!["a", "b", "c"]);
    let configuration = proptest::sample::subsequence(vec!["a", "b", "c"], 0..=3)
        .prop_map(|names| whole(names.into_iter().map(spec).collect()));
    prop_oneof![
        4 => (name, 0u64..3, any_phase())
            .prop_map(|(name, generation, phase)| Input::Reported(changed(name, generation, phase).into())),
        2 => Just(Input::DecisionDue),
        1 => Just(Input::Delivered),
        1 => (0u64..9).prop_map(|request| Input::ReloadAsked(Some(request), RELOAD)),
        2 => configuration.prop_map(|spec| Input::Loaded(Purpose::Reload, Ok(spec))),
        2 => any::<bool>().prop_map(|ok| Input::Prepared(if ok { Ok(()) } else { Err("no".into()) })),
        1 => Just(Input::Signal(Signal::TERM)),
        1 => proptest::sample::select(vec![Timer::LastCall, Timer::StopBudget, Timer::Patience])
            .prop_map(Input::Elapsed),
        1 => Just(Input::OrphansGone),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_happens_jobs_exist_once_requests_are_answered_once_and_the_program_ends_once(
        inputs in proptest::collection::vec(any_input(), 0..60),
    ) {
        let mut scene = Scene::new(whole(vec![spec("a"), spec("b")]));
        let mut asked: BTreeMap<u64, i32> = BTreeMap::new();
        for input in inputs {
            if let Input::ReloadAsked(Some(request), _) = &input {
                *asked.entry(*request).or_default() += 1;
            }
            scene.wait(40);
            scene.step(input);
        }
        let mut alive: BTreeSet<&str> = BTreeSet::new();
        for action in &scene.actions {
            if let Action::StartJob(spec, _) = action {
                prop_assert!(alive.insert(&spec.name), "{} twice", spec.name);
            } else if let Action::EndJob(name) = action {
                prop_assert!(alive.remove(&**name), "{name} never began");
            } else if let Action::Tell(name, _) | Action::TellJobEvent(name, _) = action {
                prop_assert!(alive.contains(&**name), "{name} is told and not there");
            } else if let Action::Reply(request, _) = action {
                *asked.entry(*request).or_default() -= 1;
            }
        }
        let exits = scene.actions.iter().filter(|action| matches!(action, Action::Exit(_))).count();
        prop_assert!(asked.values().all(|open| *open >= 0), "answered more often than asked: {asked:?}");
        prop_assert!(exits <= 1);
    }
}
