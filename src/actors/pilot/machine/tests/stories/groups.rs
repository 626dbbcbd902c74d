//! Orders to groups, and the end of one.

use super::*;

/// A program with the group `all` of db and app, and the job `last` beside it, which waits for the end of the group.
fn grouped() -> Scene {
    let in_group = |name: &str, after: &[&str]| {
        let after = after.iter().map(|name| Arc::from(*name)).collect();
        JobSpec { group: Some(GroupPlace { group: Arc::from("all"), after }), ..spec(name) }
    };
    let mut last = spec("last");
    last.when.trigger = Trigger::Once(end_of_group());
    let jobs = vec![in_group("db", &[]), in_group("app", &["db"]), last];
    let group = GroupSpec {
        name: Arc::from("all"),
        jobs: vec![Arc::from("db"), Arc::from("app")],
        strategy: GroupStrategy::OneForOne,
        limit: Limit::Finite(3),
        per: Duration::from_secs(30),
        on_exhausted: OnExhausted::Stop,
    };
    let jobs = jobs.into_iter().map(Arc::new).collect();
    Scene::new(Arc::new(Spec { jobs, groups: vec![Arc::new(group)], ..Spec::default() }))
}

fn end_of_group() -> EventKey {
    EventKey { code: EventCode::Stopped, source: Source::Group(Arc::from("all")) }
}

fn orders(actions: &[Action]) -> Vec<String> {
    let command = |action: &Action| {
        if let Action::Tell(name, command) = action { Some(format!("{name} {command:?}")) } else { None }
    };
    actions.iter().filter_map(command).collect()
}

#[test]
fn nobody_is_given_up_before_the_end_of_its_group_is_heard() {
    let mut scene = grouped();
    scene.report("db", 0, Phase::Complete);
    scene.step(Input::Reported(changed("app", 0, Phase::Complete).into()));
    let published = Action::Publish(end_of_group());
    assert!(scene.actions.contains(&published), "{:?}", scene.actions);
    assert_eq!(orders(&scene.step(Input::DecisionDue)), [""; 0], "the event is on its way to those who wait");
    scene.step(Input::Delivered);
    let actions = scene.step(Input::DecisionDue);
    assert!(orders(&actions).iter().all(|order| order.starts_with("last Answer(")), "{actions:?}");
}

#[test]
fn an_order_to_a_group_means_all_its_members_and_nobody_else() {
    let ordered = |scene: &mut Scene, target: &str, order| {
        let control = ControlJob { name: target.to_owned(), order };
        let actions = scene.step(Input::JobOrdered(1, control));
        let refused = actions.iter().any(|action| matches!(action, Action::Reply(_, Reply::Order(Err(_)))));
        (orders(&actions), refused)
    };
    let mut scene = grouped();
    for name in ["db", "app", "last"] {
        scene.report(name, 0, Phase::Running);
    }
    let (told, _) = ordered(&mut scene, "group.all", JobOrder::Stop);
    assert_eq!(told, ["app Halt"], "the last one first");
    assert_eq!(ordered(&mut scene, "group.other", JobOrder::Stop), (vec![], true));
    assert_eq!(ordered(&mut scene, "all", JobOrder::Stop), (vec![], true));
    assert_eq!(ordered(&mut scene, "group.all", JobOrder::Signal(Signal::HUP)), (vec![], true));
}

fn running() -> Scene {
    let mut scene = grouped();
    for name in ["db", "app"] {
        let ready = JobChanged { ready: true, ..changed(name, 0, Phase::Running) };
        scene.step(Input::Reported(ready.into()));
    }
    scene
}

fn reload(scene: &mut Scene, change: impl FnOnce(&mut Spec)) -> Vec<Action> {
    let mut spec = (**scene.state.spec()).clone();
    change(&mut spec);
    scene.step(Input::ReloadAsked(None, RELOAD));
    scene.step(Input::Loaded(Purpose::Reload, Ok(Arc::new(spec))));
    scene.step(Input::Prepared(Ok(())))
}

#[test]
fn users_see_each_group_with_its_jobs() {
    let statuses = running().state.group_statuses();
    assert_eq!(statuses.len(), 1);
    assert_eq!((&*statuses[0].name, statuses[0].jobs.len(), statuses[0].ready), ("all", 2, true));
    assert!(!grouped().state.group_statuses()[0].ready);
}

#[test]
fn a_restart_by_hand_of_a_member_goes_through_its_group() {
    let order = |scene: &mut Scene, name: &str, order: JobOrder| {
        orders(&scene.step(Input::JobOrdered(1, ControlJob { name: name.to_owned(), order })))
    };
    let mut scene = running();
    assert_eq!(order(&mut scene, "db", JobOrder::Restart), ["db Restart"]);
    assert!(scene.state.has_ordered_group(), "the group told it");
    assert_eq!(order(&mut running(), "last", JobOrder::Restart), ["last Restart"]);
}

#[test]
fn a_reload_of_its_settings_alone_leaves_a_group_as_it_is() {
    let mut scene = running();
    let ended = JobChanged { is_restart: true, ..changed("db", 0, Phase::Queued) };
    scene.step(Input::Reported(ended.into()));
    let other = GroupSpec { name: "other".into(), jobs: vec![], ..(*scene.state.spec().groups[0]).clone() };
    reload(&mut scene, |spec| {
        let group = GroupSpec { limit: Limit::Finite(9), ..(*spec.groups[0]).clone() };
        spec.groups = vec![Arc::new(other), Arc::new(group)];
    });
    let group = scene.state.groups.iter().find(|group| *group.spec().name == *"all").unwrap();
    assert_eq!(group.spec().limit, Limit::Finite(9));
    assert_eq!(group.status().restarts, 1, "it remembers");
}

#[test]
fn a_job_that_a_reload_adds_knows_that_a_group_is_ready() {
    let ready = EventKey { code: EventCode::Ready, source: Source::Group(Arc::from("all")) };
    let mut scene = running();
    let mut new = spec("new");
    new.when.trigger = Trigger::Once(ready.clone());
    let actions = reload(&mut scene, |spec| spec.jobs.push(Arc::new(new)));
    assert!(actions.contains(&Action::TellJobEvent("new".into(), ready)), "{actions:?}");
}

/// Reloads with a group that has `db` alone; `app` is gone.
fn without_app(scene: &mut Scene, new: Option<JobSpec>) -> Vec<Action> {
    reload(scene, |spec| {
        spec.jobs.remove(1);
        spec.jobs.extend(new.map(Arc::new));
        Arc::make_mut(&mut spec.groups[0]).jobs.truncate(1);
    });
    scene.report("app", 0, Phase::Complete)
}

#[test]
fn a_group_that_a_reload_makes_ready_by_taking_a_member_out_says_so() {
    let ready = EventKey { code: EventCode::Ready, source: Source::Group(Arc::from("all")) };
    let mut scene = grouped();
    let db = JobChanged { ready: true, ..changed("db", 0, Phase::Running) };
    scene.step(Input::Reported(db.into()));
    scene.report("app", 0, Phase::Running);
    let mut new = spec("new");
    new.when.trigger = Trigger::Once(ready.clone());
    let actions = without_app(&mut scene, Some(new));
    assert!(actions.contains(&Action::Publish(ready.clone())), "{actions:?}");
    assert!(!actions.contains(&Action::TellJobEvent("new".into(), ready)), "it hears the event");
}

#[test]
fn a_group_that_was_ready_and_stays_so_says_it_to_new_jobs_alone() {
    let ready = EventKey { code: EventCode::Ready, source: Source::Group(Arc::from("all")) };
    let mut new = spec("new");
    new.when.trigger = Trigger::Once(ready.clone());
    let actions = without_app(&mut running(), Some(new));
    assert!(actions.contains(&Action::TellJobEvent("new".into(), ready.clone())), "{actions:?}");
    assert!(!actions.contains(&Action::Publish(ready)), "{actions:?}");
}

#[test]
fn what_members_report_during_a_reload_is_answered_when_it_is_over() {
    let mut scene = running();
    reload(&mut scene, |spec| {
        let last = Arc::make_mut(&mut spec.jobs[2]);
        last.essential = true;
    });
    let ended = JobChanged { is_restart: true, ..changed("db", 0, Phase::Queued) };
    assert_eq!(orders(&scene.step(Input::Reported(ended.into()))), [""; 0], "who is in the group may change");
    let actions = scene.report("last", 0, Phase::Complete);
    assert_eq!(orders(&actions), ["db Proceed(GroupOrder { number: 1, cause: None })"]);
}

#[test]
fn when_a_group_has_carried_out_an_order_the_others_are_looked_at_again() {
    let mut scene = running();
    scene.step(Input::JobOrdered(1, ControlJob { name: "db".to_owned(), order: JobOrder::Restart }));
    let actions = scene.step(Input::Reported(changed("db", 0, Phase::Queued).into()));
    assert!(actions.contains(&Action::DecideSoon), "{actions:?}");
}

#[test]
fn at_the_end_of_the_program_a_group_says_that_it_has_stopped() {
    let mut scene = running();
    scene.step(Input::Signal(Signal::TERM));
    scene.report("app", 0, Phase::Complete);
    scene.step(Input::Reported(changed("db", 0, Phase::Complete).into()));
    assert!(scene.actions.contains(&Action::Publish(end_of_group())), "{:?}", scene.actions);
}

#[test]
fn at_the_end_of_the_program_no_member_is_started_or_restarted() {
    for phase in [Phase::Waiting, Phase::Running] {
        let mut scene = grouped();
        scene.report("db", 0, Phase::Running);
        scene.report("app", 0, phase);
        scene.step(Input::Signal(Signal::TERM));
        scene.step(Input::Reported(changed("app", 0, Phase::Queued).into()));
        let told = orders(&scene.actions);
        assert!(!told.iter().any(|order| order.contains("Proceed")), "{phase:?} {told:?}");
    }
}
