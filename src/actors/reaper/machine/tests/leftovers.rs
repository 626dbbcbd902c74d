use std::slice;

use super::*;

fn orphan(number: i32, job: Option<&str>, program: &str) -> Orphan {
    Orphan {
        pid: pid(number),
        group: Some(pid(number)),
        program: program.to_owned(),
        job: job.map(str::to_owned),
        has_environment: job.is_some(),
        is_becoming: false,
    }
}

fn exited(state: &mut State, status: ExitStatus, survey: Survey) -> Vec<Action> {
    state.step(ms(1), Input::ChildExited(pid(7), status));
    state.step(ms(1), Input::Looked(survey))
}

fn ask(number: i32) -> [Action; 2] {
    [Signal::TERM, Signal::CONT].map(|signal| Action::SignalProcess(pid(number), signal))
}

#[test]
fn the_rest_of_a_group_is_asked_to_end_while_its_leader_is_a_zombie() {
    let actions = running().step(ms(1), Input::ChildExited(pid(7), ExitStatus::Code(3)));
    assert_eq!(
        actions,
        [
            Action::DrainOutput(id(1), ExitStatus::Code(3)),
            Action::SignalGroup(pid(7), Signal::TERM),
            Action::SignalGroup(pid(7), Signal::CONT),
        ]
    );
    assert_eq!(running().step(ms(1), Input::ChildExited(pid(8), ExitStatus::Code(0))), [], "an orphan");
}

#[test]
fn an_execution_of_which_nothing_is_left_is_over_at_once() {
    let mut state = running();
    let actions = exited(&mut state, ExitStatus::Code(0), Survey::default());
    assert_eq!((ended(&actions).leftover, actions.len()), (false, 1));
    assert_eq!(state, State::new(Some(0)));
}

#[test]
fn its_owner_hears_once_that_a_group_is_gone() {
    let mut state = remaining();
    assert_eq!(state.step(ms(20), Input::Looked(group_alive())), []);
    let actions = state.step(ms(30), Input::Looked(Survey::default()));
    assert_eq!(actions, [Action::TellGone(id(1))]);
    assert_eq!(state.step(ms(40), Input::Swept(Survey::default())), [], "the last sweep");
    assert_eq!(state, State::new(Some(0)));
}

#[test]
fn what_is_left_is_killed_after_a_second_and_given_up_three_later() {
    let mut state = remaining();
    let again = Action::SweepAfter(Duration::from_millis(25));
    assert_eq!(state.step(ms(999), Input::Swept(group_alive())), slice::from_ref(&again));
    let kill = Action::SignalGroup(pid(7), Signal::KILL);
    assert_eq!(state.step(ms(1000), Input::Swept(group_alive())), [kill, again.clone()]);
    assert_eq!(state.step(ms(3999), Input::Swept(group_alive())), [again]);
    let actions = state.step(ms(4000), Input::Swept(group_alive()));
    let [Action::Log(Severity::Error, Some(label), _), Action::TellGone(_)] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(&**label, "app");
}

#[test]
fn a_group_is_not_signalled_once_it_was_seen_empty() {
    let daemon = Survey { orphans: vec![orphan(9, Some("app"), "d")], ..Survey::default() };
    let mut seen = remaining();
    seen.step(ms(10), Input::Looked(daemon.clone()));
    let mut told = remaining();
    told.step(ms(10), Input::GroupIsEmpty(id(1)));
    for mut state in [seen, told] {
        assert_eq!(state.step(ms(20), end(Signal::KILL, false, None)), []);
        assert_eq!(state.step(ms(20), Input::SignalAsked(id(1), Signal::USR1)), []);
        let mut late = daemon.clone();
        late.groups.insert(pid(7));
        let actions = state.step(ms(1000), Input::Swept(late));
        assert_eq!(actions[0], Action::SignalProcess(pid(9), Signal::KILL), "only what is known to be ours");
    }
    assert_eq!(
        remaining().step(ms(20), Input::SignalAsked(id(1), Signal::USR1)),
        [signal(Signal::USR1, false)]
    );
}

#[test]
fn what_a_job_put_into_the_background_ends_with_it_and_is_told() {
    let mut orphans: Vec<Orphan> = (20..24).map(|number| orphan(number, Some("app"), "worker")).collect();
    orphans.push(orphan(30, Some("other"), "app"));
    orphans.push(Orphan { group: Some(pid(7)), ..orphan(31, Some("app"), "in the group") });
    orphans.push(Orphan { group: None, ..orphan(32, Some("app"), "gone meanwhile") });
    let mut state = running();
    let actions =
        exited(&mut state, ExitStatus::Code(0), Survey { orphans: orphans.clone(), ..Survey::default() });
    let told = ["worker (pid 20)", "worker (pid 21)", "worker (pid 22)", "1 more"];
    assert_eq!(
        (&ended(&actions).daemons[..], ended(&actions).leftover),
        (&told.map(str::to_owned)[..], true)
    );
    assert_eq!(actions[..8], (20..24).flat_map(ask).collect::<Vec<Action>>());
    orphans.truncate(1);
    let left = Survey { orphans, ..Survey::default() };
    assert_eq!(state.step(ms(30), Input::Swept(left.clone()))[..2], ask(20), "again in each sweep");
    assert_eq!(state.step(ms(1001), Input::Swept(left))[0], Action::SignalProcess(pid(20), Signal::KILL));
    let actions = state.step(ms(1030), Input::Swept(Survey::default()));
    assert_eq!(actions, [Action::TellGone(id(1))]);
}

#[test]
fn an_orphan_in_the_group_of_another_job_that_runs_is_that_jobs_whatever_it_is_called() {
    for (group, is_apps) in [(8, false), (20, true)] {
        let mut state = running();
        state.step(ms(0), Input::LaunchAsked(id(2), job("other")));
        state.step(ms(0), settled(2, StartOutcome::Started(pid(8))));
        let child = Orphan { group: Some(pid(group)), ..orphan(20, None, "app") };
        let survey = Survey { orphans: vec![child], ..Survey::default() };
        let actions = exited(&mut state, ExitStatus::Code(0), survey.clone());
        assert_eq!(ended(&actions).leftover, is_apps, "in group {group}");
        let is_signalled = state.step(ms(26), Input::Swept(survey)).contains(&ask(20)[0]);
        assert_eq!(is_signalled, is_apps, "in group {group}");
    }
}

#[test]
fn an_orphan_in_the_middle_of_its_execve_is_waited_for_by_jobs_and_not_by_checks() {
    let becoming = Orphan { is_becoming: true, ..orphan(9, None, "sh") };
    let survey = Survey { orphans: vec![becoming], ..Survey::default() };
    assert!(ended(&exited(&mut running(), ExitStatus::Code(0), survey.clone())).leftover);
    let mut state = State::new(None);
    state.step(ms(0), Input::LaunchAsked(id(1), check("check.app")));
    state.step(ms(0), settled(1, StartOutcome::Started(pid(7))));
    assert!(!ended(&exited(&mut state, ExitStatus::Code(0), survey)).leftover);
}

#[test]
fn nothing_is_gone_while_an_orphan_is_in_the_middle_of_its_execve() {
    let becoming = Orphan { is_becoming: true, ..orphan(9, None, "sh") };
    let survey = Survey { orphans: vec![becoming], ..Survey::default() };
    let mut state = running();
    assert!(ended(&exited(&mut state, ExitStatus::Code(0), survey.clone())).leftover);
    let gone = Action::TellGone(id(1));
    assert!(!state.step(ms(0), Input::Looked(survey)).contains(&gone), "it may be its own");
    assert!(state.step(ms(1), Input::Looked(Survey::default())).contains(&gone));
}

#[test]
fn an_orphan_that_seems_to_be_nobodys_is_believed_at_the_second_look() {
    let (own, strange) = (orphan(9, Some("app"), "d"), orphan(10, None, "d"));
    let survey = |orphan: &Orphan| Survey { orphans: vec![orphan.clone()], ..Survey::default() };
    let gone = [Action::TellGone(id(1))];
    let mut state = running();
    assert!(state.is_settled(&own) && !state.is_settled(&strange), "before any look");
    assert!(
        ended(&exited(&mut state, ExitStatus::Code(0), survey(&strange))).leftover,
        "it may be the job's"
    );
    assert!(state.is_settled(&strange));
    assert!(!state.is_settled(&Orphan { is_becoming: true, ..strange.clone() }), "it executes something now");
    let sweep = state.step(ms(26), Input::Swept(survey(&strange)));
    assert_eq!(sweep, gone, "it is not");
    // Its number is given to another process, of which nothing is known.
    state.step(ms(27), Input::ChildExited(pid(10), ExitStatus::Code(0)));
    assert!(!state.is_settled(&strange));
    assert_eq!(state, State::new(Some(0)));
}

#[test]
fn an_orphan_that_names_its_job_only_at_the_second_look_is_ended_with_it() {
    let mut state = running();
    let strange = Survey { orphans: vec![orphan(9, None, "sh")], ..Survey::default() };
    let named = Survey { orphans: vec![orphan(9, Some("app"), "d")], ..Survey::default() };
    assert!(ended(&exited(&mut state, ExitStatus::Code(0), strange)).leftover);
    assert_eq!(state.step(ms(26), Input::Swept(named))[..2], ask(9));
}

#[test]
fn only_a_death_by_sigkill_that_we_did_not_send_can_be_for_memory() {
    let survey = Survey { memory_kills: Some(1), ..Survey::default() };
    let for_memory = |mut state: State, status| ended(&exited(&mut state, status, survey.clone())).for_memory;
    assert!(for_memory(running(), killed()));
    assert!(for_memory(running(), ExitStatus::Code(137)), "a shell hands it on");
    assert!(!for_memory(running(), ExitStatus::Code(1)));
    let mut by_us = running();
    by_us.step(ms(0), end(Signal::KILL, false, None));
    assert!(!for_memory(by_us, killed()));
}

#[test]
fn only_what_must_be_known_is_asked_for() {
    let mut state = running();
    assert_eq!((state.groups(), state.wants_orphans(), state.wants_memory_kills()), (vec![], false, false));
    state.step(ms(1), Input::ChildExited(pid(7), killed()));
    assert_eq!(
        (state.groups(), state.wants_orphans(), state.wants_memory_kills()),
        (vec![pid(7)], true, true)
    );
    let state = remaining();
    assert_eq!(
        (state.groups(), state.wants_orphans(), state.wants_memory_kills()),
        (vec![pid(7)], true, false)
    );
}

#[test]
fn what_is_left_of_an_execution_that_is_killed_has_no_time_to_end() {
    let daemon = Survey { orphans: vec![orphan(9, Some("app"), "d")], ..Survey::default() };
    let mut state = remaining();
    assert_eq!(state.step(ms(10), Input::Looked(daemon.clone())), []);
    state.step(ms(20), end(Signal::KILL, false, None));
    let actions = state.step(ms(35), Input::Swept(daemon));
    assert_eq!(actions[0], Action::SignalProcess(pid(9), Signal::KILL));
}
