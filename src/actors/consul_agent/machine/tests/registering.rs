use super::*;
use ServiceStatus::{Critical, Passing};

fn timer(actions: &[Action]) -> Option<(Duration, bool)> {
    actions.iter().find_map(|action| {
        if let Action::StartTimer { wait, is_heartbeat, .. } = action {
            Some((*wait, *is_heartbeat))
        } else {
            None
        }
    })
}

/// A service is deregistered over a former link.
fn left(state: &mut State, now: Moment, id: &str, link: u64, result: Result<(), Trouble>) -> Vec<Action> {
    let result = result.map_err(failure);
    state.step(now, Input::CallEnded { id: id.into(), call: Call::Deregister, link, result, random: 1.0 })
}

fn elapsed(id: &str, is_heartbeat: bool) -> Input {
    Input::TimerElapsed { id: id.into(), is_heartbeat }
}

#[test]
fn a_service_is_registered_and_then_repeats_its_status_with_each_heartbeat() {
    let mut state = agent();
    let actions = state.step(ms(0), advertised("a", Passing));
    assert_eq!(calls(&actions), [Call::Register(0, Passing)]);
    let actions = end(&mut state, ms(10), &actions, Ok(()));
    assert_eq!(calls(&actions), [Call::Update(0, Passing)]);
    let actions = end(&mut state, ms(30), &actions, Ok(()));
    assert!(actions.contains(&Action::ShowLag(Duration::from_millis(30))));
    assert_eq!(timer(&actions), Some((HEARTBEAT, true)));
    let actions = state.step(ms(5030), elapsed("a", true));
    assert_eq!(calls(&actions), [Call::Update(0, Passing)]);
}

#[test]
fn a_changed_status_is_sent_without_waiting_for_the_heartbeat() {
    let mut state = registered();
    let actions = state.step(ms(100), advertised("a", Critical));
    assert_eq!(actions.first(), Some(&Action::CancelTimer("a".into())));
    assert_eq!(calls(&actions), [Call::Update(0, Critical)]);
}

#[test]
fn there_is_one_call_at_a_time_about_a_service_and_the_next_one_follows_it() {
    let mut state = registered();
    let first = state.step(ms(100), advertised("a", Critical));
    assert_eq!(state.step(ms(110), advertised("a", Passing)), []);
    let actions = end(&mut state, ms(120), &first, Ok(()));
    assert_eq!(calls(&actions), [Call::Update(0, Passing)]);
}

#[test]
fn another_registration_replaces_the_one_before() {
    let mut state = registered();
    let changed = Registration { port: 81, ..registration("a") };
    let actions = state.step(ms(100), Input::Advertised(Arc::new(changed), Passing));
    assert_eq!(calls(&actions), [Call::Register(1, Passing)]);
}

#[test]
fn a_failed_call_is_tried_again_after_a_pause_that_grows() {
    let mut state = agent();
    let mut actions = state.step(ms(0), advertised("a", Passing));
    for wait in [100, 200, 400, 800, 1000] {
        actions = end(&mut state, ms(1), &actions, Err(Trouble::Unreachable));
        assert_eq!(timer(&actions), Some((Duration::from_millis(wait), false)));
        actions = state.step(ms(1), elapsed("a", false));
        assert_eq!(calls(&actions), [Call::Register(0, Passing)]);
    }
}

#[test]
fn a_service_that_consul_forgot_is_registered_again_at_once_unless_that_is_what_it_refused() {
    let mut state = registered();
    let heartbeat = state.step(ms(5000), elapsed("a", true));
    let actions = end(&mut state, ms(5010), &heartbeat, Err(Trouble::Answered(404)));
    assert_eq!(calls(&actions), [Call::Register(0, Passing)]);
    let actions = end(&mut state, ms(5020), &actions, Err(Trouble::Answered(404)));
    assert_eq!((calls(&actions), timer(&actions)), (vec![], Some((Duration::from_millis(200), false))));
    assert!(actions.iter().any(|action| matches!(action, Action::ShowTrouble(Some(_)))), "{actions:?}");
}

/// A service that is well, and that Consul deregisters when it has been critical for a minute; and the input that says how it is.
fn registered_until_critical() -> (State, impl Fn(ServiceStatus) -> Input) {
    let mut state = agent();
    let after = Some(Duration::from_secs(60));
    let app = Arc::new(Registration { deregister_critical_after: after, ..registration("a") });
    let advertised = move |status| Input::Advertised(Arc::clone(&app), status);
    let registering = state.step(ms(0), advertised(Passing));
    settle(&mut state, ms(10), registering);
    (state, advertised)
}

#[test]
fn a_service_that_consul_deregistered_because_it_was_critical_stays_absent_until_it_passes() {
    let (mut state, advertised) = registered_until_critical();
    let critical = state.step(ms(100), advertised(Critical));
    end(&mut state, ms(110), &critical, Ok(()));
    let heartbeat = state.step(ms(90_000), elapsed("a", true));
    let expelled = end(&mut state, ms(90_010), &heartbeat, Err(Trouble::Answered(404)));
    assert_eq!((calls(&expelled), timer(&expelled)), (vec![], None));
    assert_eq!(calls(&state.step(ms(95_000), advertised(Critical))), []);
    assert_eq!(calls(&state.step(ms(99_000), advertised(Passing))), [Call::Register(0, Passing)]);
}

#[test]
fn a_service_that_is_well_is_registered_again_though_consul_may_deregister_a_critical_one() {
    let (mut state, advertised) = registered_until_critical();
    let heartbeat = state.step(ms(5000), elapsed("a", true));
    let forgotten = end(&mut state, ms(5010), &heartbeat, Err(Trouble::Answered(404)));
    assert_eq!(calls(&forgotten), [Call::Register(0, Passing)]);
    settle(&mut state, ms(5020), forgotten);
    let critical = state.step(ms(6000), advertised(Critical));
    assert_eq!(calls(&state.step(ms(6005), advertised(Passing))), []);
    let forgotten = end(&mut state, ms(6010), &critical, Err(Trouble::Answered(404)));
    assert_eq!(calls(&forgotten), [Call::Register(0, Passing)]);
}

#[test]
fn a_consul_that_takes_a_registration_and_does_not_know_it_then_is_asked_again_after_a_pause_that_grows() {
    let mut state = agent();
    let registering = state.step(ms(0), advertised("a", Passing));
    let update = end(&mut state, ms(1), &registering, Ok(()));
    // Somebody may have deregistered it in that moment.
    let mut actions = end(&mut state, ms(1), &update, Err(Trouble::Answered(404)));
    let mut warnings = 0;
    for wait in [200, 400, 800, 1000] {
        assert_eq!(calls(&actions), [Call::Register(0, Passing)]);
        actions = end(&mut state, ms(1), &actions, Ok(()));
        assert_eq!(calls(&actions), [Call::Update(0, Passing)]);
        actions = end(&mut state, ms(1), &actions, Err(Trouble::Answered(404)));
        assert_eq!((calls(&actions), timer(&actions)), (vec![], Some((Duration::from_millis(wait), false))));
        let is_warning = |action: &&Action| matches!(action, Action::Log(Remark::InTrouble(..)));
        warnings += actions.iter().filter(is_warning).count();
        actions = state.step(ms(1), elapsed("a", false));
    }
    assert_eq!(warnings, 1, "one outage");
    actions = end(&mut state, ms(1), &actions, Ok(()));
    actions = end(&mut state, ms(1), &actions, Ok(()));
    assert!(actions.contains(&Action::ShowTrouble(None)), "{actions:?}");
}

#[test]
fn a_waiter_is_released_when_the_service_is_deregistered() {
    let mut state = registered();
    let actions = state.step(ms(100), Input::Withdrawn { id: "a".into(), waiter: Some(3) });
    assert_eq!((calls(&actions), released(&actions)), (vec![Call::Deregister], vec![]));
    let actions = end(&mut state, ms(110), &actions, Ok(()));
    assert_eq!(released(&actions), [3]);
    assert!(state.services.is_empty() && state.waiters.is_empty());
    let unknown = state.step(ms(120), Input::Withdrawn { id: "a".into(), waiter: Some(4) });
    assert_eq!(unknown, [Action::Release(4)]);
}

#[test]
fn a_waiter_waits_no_longer_than_two_failures() {
    let mut state = registered();
    let actions = state.step(ms(100), Input::Withdrawn { id: "a".into(), waiter: Some(3) });
    let actions = end(&mut state, ms(110), &actions, Err(Trouble::Unreachable));
    assert!(released(&actions).is_empty());
    let actions = state.step(ms(210), elapsed("a", false));
    let actions = end(&mut state, ms(220), &actions, Err(Trouble::Unreachable));
    assert_eq!(released(&actions), [3]);
    assert_eq!(timer(&actions).map(|(_, is_heartbeat)| is_heartbeat), Some(false), "but it is tried again");
}

#[test]
fn after_a_withdrawal_that_took_too_long_nobody_waits_for_the_next_until_consul_serves_again() {
    let mut state = registered();
    let registering = state.step(ms(50), advertised("b", Passing));
    settle(&mut state, ms(60), registering);
    let first = state.step(ms(100), Input::Withdrawn { id: "a".into(), waiter: Some(3) });
    assert!(first.contains(&Action::StartWithdrawalLimit("a".into(), 1, services::WITHDRAWAL_LIMIT)));
    assert_eq!(released(&state.step(ms(2000), Input::WithdrawalLimitElapsed("a".into(), 1))), [3]);
    let second = state.step(ms(2010), Input::Withdrawn { id: "b".into(), waiter: Some(4) });
    assert_eq!((released(&second), calls(&second)), (vec![4], vec![Call::Deregister]));
    end(&mut state, ms(2020), &first, Ok(()));
    assert!(!state.is_withdrawal_hopeless);
}

/// The time limit of the withdrawal that is waited for, if one is.
fn limit(actions: &[Action]) -> Option<Duration> {
    actions.iter().find_map(|action| {
        if let Action::StartWithdrawalLimit(_, _, limit) = action { Some(*limit) } else { None }
    })
}

#[test]
fn all_withdrawals_of_a_shutdown_are_waited_for_no_longer_than_one_however_often_consul_serves_between() {
    let mut state = agent();
    for id in ["a", "b", "c"] {
        let registering = state.step(ms(0), advertised(id, Passing));
        settle(&mut state, ms(10), registering);
    }
    state.step(ms(1000), Input::ShuttingDown);
    let withdrawn = |id: &str, waiter| Input::Withdrawn { id: id.into(), waiter: Some(waiter) };
    let first = state.step(ms(5000), withdrawn("a", 3));
    assert_eq!(limit(&first), Some(services::WITHDRAWAL_LIMIT));
    assert_eq!(released(&end(&mut state, ms(6200), &first, Ok(()))), [3]);
    let second = state.step(ms(7000), withdrawn("b", 4));
    assert_eq!(limit(&second), Some(services::WITHDRAWAL_LIMIT - Duration::from_millis(1200)));
    assert_eq!(released(&state.step(ms(7700), Input::WithdrawalLimitElapsed("b".into(), 2))), [4]);
    end(&mut state, ms(8200), &second, Ok(()));
    let third = state.step(ms(8300), withdrawn("c", 5));
    assert_eq!((released(&third), calls(&third)), (vec![5], vec![Call::Deregister]));
}

#[test]
fn a_waiter_for_every_withdrawal_is_released_after_the_last() {
    let mut state = registered();
    let registering = state.step(ms(50), advertised("b", Passing));
    settle(&mut state, ms(60), registering);
    let actions = state.step(ms(100), Input::AllWithdrawn { waiter: 5 });
    let (one, other): (Vec<Action>, Vec<Action>) = actions
        .into_iter()
        .partition(|action| matches!(action, Action::Call(registration, ..) if *registration.id == *"a"));
    assert!(released(&end(&mut state, ms(110), &one, Ok(()))).is_empty());
    assert_eq!(released(&end(&mut state, ms(120), &other, Ok(()))), [5]);
    assert_eq!(state.step(ms(130), Input::AllWithdrawn { waiter: 6 }), [Action::Release(6)]);
}

#[test]
fn a_job_that_wants_the_service_again_releases_whoever_waits_for_its_withdrawal() {
    let mut state = registered();
    state.step(ms(100), Input::Withdrawn { id: "a".into(), waiter: Some(3) });
    assert_eq!(released(&state.step(ms(110), advertised("a", Passing))), [3]);
}

#[test]
fn maintenance_deregisters_every_service_and_its_end_registers_them_again() {
    let mut state = registered();
    let actions = state.step(ms(100), Input::MaintenanceChanged(true));
    assert_eq!(calls(&actions), [Call::Deregister]);
    settle(&mut state, ms(110), actions);
    assert_eq!(calls(&state.step(ms(120), advertised("a", Critical))), []);
    let actions = state.step(ms(130), Input::MaintenanceChanged(false));
    assert_eq!(calls(&actions), [Call::Register(0, Critical)]);
}

#[test]
fn our_own_service_is_registered_from_startup_to_shutdown() {
    let mut state = State::new(Link { number: 0, address: address(1) }, Some(registration("own")));
    let actions = state.step(ms(0), Input::StartedUp);
    assert_eq!(calls(&actions), [Call::Register(0, Passing)]);
    settle(&mut state, ms(10), actions);
    let changed = state.step(ms(20), Input::OwnServiceChanged(Some(registration("other"))));
    assert_eq!(calls(&changed), [Call::Deregister, Call::Register(0, Passing)]);
    let other: Vec<Action> = changed
        .into_iter()
        .filter(|action| matches!(action, Action::Call(service, ..) if *service.id == *"other"))
        .collect();
    settle(&mut state, ms(30), other);
    assert_eq!(calls(&state.step(ms(40), Input::ShuttingDown)), [Call::Deregister]);
}

#[test]
fn without_a_consul_nothing_is_called_and_nobody_waits() {
    let mut state = State::new(Link { number: 0, address: None }, None);
    assert_eq!(calls(&state.step(ms(0), advertised("a", Passing))), []);
    let actions = state.step(ms(10), Input::Withdrawn { id: "a".into(), waiter: Some(3) });
    assert_eq!((calls(&actions), released(&actions)), (vec![], vec![3]));
}

#[test]
fn a_change_of_consul_deregisters_every_service_there_and_then_registers_it_here() {
    for result in [Ok(()), Err(Trouble::Unreachable)] {
        let mut state = registered();
        let actions = state.step(ms(100), Input::Reconnected(Link { number: 1, address: address(2) }));
        assert!(actions.contains(&Action::CancelTimer("a".into())), "{actions:?}");
        assert!(actions.contains(&Action::DeregisterOverFormer("a".into(), 0)), "{actions:?}");
        assert_eq!(calls(&actions), [], "both addresses may be those of one agent");
        let actions = left(&mut state, ms(200), "a", 0, result);
        assert_eq!(call(&actions), Some(("a".into(), Call::Register(0, Passing), 1)));
        assert_eq!(actions.last(), Some(&Action::CloseLink(0)));
        assert_eq!(remarks(&actions), [], "the former Consul is of no interest any more");
    }
}

#[test]
fn a_job_that_stops_while_its_service_leaves_the_former_consul_waits_for_that() {
    let mut state = registered();
    state.step(ms(100), Input::Reconnected(Link { number: 1, address: address(2) }));
    let withdrawn = state.step(ms(110), Input::Withdrawn { id: "a".into(), waiter: Some(3) });
    assert_eq!((calls(&withdrawn), released(&withdrawn)), (vec![], vec![]));
    let actions = left(&mut state, ms(200), "a", 0, Ok(()));
    assert_eq!((calls(&actions), released(&actions)), (vec![], vec![3]));
}

#[test]
fn a_service_that_still_leaves_the_former_consul_is_registered_with_the_one_after_the_next() {
    let mut state = registered();
    state.step(ms(100), Input::Reconnected(Link { number: 1, address: address(2) }));
    let back = state.step(ms(110), Input::Reconnected(Link { number: 2, address: address(1) }));
    assert_eq!((calls(&back), back.last()), (vec![], Some(&Action::CloseLink(1))));
    let actions = left(&mut state, ms(200), "a", 0, Ok(()));
    assert_eq!(call(&actions), Some(("a".into(), Call::Register(0, Passing), 2)));
    assert_eq!(actions.last(), Some(&Action::CloseLink(0)));
}

#[test]
fn the_same_consul_with_another_token_gets_every_registration_again_and_no_deregistration() {
    let mut state = registered();
    let actions = state.step(ms(100), Input::Reconnected(Link { number: 1, address: address(1) }));
    assert_eq!(call(&actions), Some(("a".into(), Call::Register(0, Passing), 1)));
    assert!(!actions.iter().any(|action| matches!(action, Action::DeregisterOverFormer(..))));
}

#[test]
fn a_call_over_a_former_link_is_undone_there_and_says_nothing_about_the_present_one() {
    let mut state = agent();
    let former = state.step(ms(0), advertised("a", Passing));
    let actions = state.step(ms(10), Input::Reconnected(Link { number: 1, address: address(2) }));
    assert_eq!(actions, [], "a call still uses the link");
    let actions = end(&mut state, ms(20), &former, Ok(()));
    assert_eq!(actions, [Action::DeregisterOverFormer("a".into(), 0)]);
    let actions = left(&mut state, ms(30), "a", 0, Ok(()));
    assert_eq!(call(&actions), Some(("a".into(), Call::Register(0, Passing), 1)));
    assert_eq!(actions.last(), Some(&Action::CloseLink(0)));
}

#[test]
fn services_that_failed_are_tried_again_as_soon_as_consul_serves_another() {
    let mut state = registered();
    let actions = state.step(ms(100), advertised("b", Passing));
    let actions = end(&mut state, ms(110), &actions, Err(Trouble::Unreachable));
    assert_eq!(calls(&actions), []);
    let heartbeat = state.step(ms(5000), elapsed("a", true));
    let actions = end(&mut state, ms(5010), &heartbeat, Ok(()));
    assert_eq!(call(&actions), Some(("b".into(), Call::Register(0, Passing), 0)));
}

#[test]
fn the_time_limit_of_an_earlier_withdrawal_does_not_end_a_later_one() {
    let mut state = registered();
    state.step(ms(100), Input::Withdrawn { id: "a".into(), waiter: Some(3) });
    state.step(ms(200), advertised("a", Passing));
    let second = state.step(ms(1900), Input::Withdrawn { id: "a".into(), waiter: Some(4) });
    assert!(second.contains(&Action::StartWithdrawalLimit("a".into(), 2, services::WITHDRAWAL_LIMIT)));
    assert_eq!(released(&state.step(ms(2000), Input::WithdrawalLimitElapsed("a".into(), 1))), [0; 0]);
    assert_eq!(released(&state.step(ms(3800), Input::WithdrawalLimitElapsed("a".into(), 2))), [4]);
}

#[test]
fn the_heartbeat_of_a_service_that_is_well_goes_on_when_consul_serves_another_again() {
    let mut state = registered();
    let actions = state.step(ms(100), advertised("b", Passing));
    end(&mut state, ms(110), &actions, Err(Trouble::Unreachable));
    let again = state.step(ms(9000), elapsed("b", false));
    let actions = end(&mut state, ms(9010), &again, Ok(()));
    assert!(!actions.contains(&Action::CancelTimer("a".into())), "{actions:?}");
}

#[test]
fn a_service_that_consul_never_knew_is_not_deregistered_there() {
    let mut state = agent();
    state.step(ms(0), Input::MaintenanceChanged(true));
    assert_eq!(calls(&state.step(ms(0), advertised("a", Passing))), []);
    let actions = state.step(ms(100), Input::Reconnected(Link { number: 1, address: address(2) }));
    assert!(!actions.contains(&Action::DeregisterOverFormer("a".into(), 0)), "{actions:?}");
}

#[test]
fn a_configuration_without_consul_deregisters_over_the_former_link_only() {
    let mut state = registered();
    let actions = state.step(ms(100), Input::Reconnected(Link { number: 1, address: None }));
    assert!(actions.contains(&Action::DeregisterOverFormer("a".into(), 0)));
    assert_eq!(calls(&actions), []);
    assert_eq!(left(&mut state, ms(110), "a", 0, Ok(())), [Action::CloseLink(0)]);
}
