//! Who waits for a group, and watches.

use super::*;

/// `app` waits for an event of the group `all`, of `db` and `web`.
fn waits_for_group(code: EventCode, db: JobStatus, web: JobStatus) -> World {
    let key = EventKey { code, source: Source::Group("all".into()) };
    let mut world = World::new().job("app", waits(Missing::AnyOf(vec![key]))).job("db", db).job("web", web);
    world.overview.groups.push(GroupStatus {
        name: "all".into(),
        jobs: vec!["db".into(), "web".into()],
        ready: true,
        restarts: 0,
        has_given_up: false,
    });
    world
}

#[test]
fn who_waits_for_a_group_is_told_of_the_member_that_lacks_what_the_event_needs() {
    let ready = || JobStatus { ready: true, ..job(Phase::Running) };
    let checked = || JobStatus { checks: vec![("http".into(), Verdict::Failing)], ..ready() };
    for (code, web, expected) in [
        (EventCode::Healthy, checked(), "web runs since"),
        (EventCode::Stopped, ready(), "web has not ended."),
        (EventCode::Unhealthy, ready(), "No job of the group all is unhealthy."),
        (EventCode::ExitFailed, ready(), "The group all has not given up."),
    ] {
        let db = if code == EventCode::Stopped { ended(Phase::Complete, 0) } else { ready() };
        let summary = waits_for_group(code, db, web).summary("app");
        assert!(summary.contains(expected), "{code:?}: {summary}");
        assert!(!summary.contains("db "), "{code:?}: {summary}");
    }
}

#[test]
fn who_waits_for_a_group_is_told_of_the_member_that_is_not_ready() {
    let db = JobStatus { ready: true, ..job(Phase::Running) };
    let summary = waits_for_group(EventCode::Ready, db, ended(Phase::Delayed, 3)).summary("app");
    assert!(summary.starts_with("app waits for the group all to be ready. web "), "{summary}");
    assert!(summary.contains("exited with status 3") && !summary.contains("db"), "{summary}");
}

#[test]
fn a_watch_that_waits_for_a_coprocess_says_so() {
    let key = EventKey { code: EventCode::Healthy, source: Source::Watch("db".into()) };
    let world = |coprocess: JobStatus| {
        let mut world = World::new().job("app", waits(Missing::AnyOf(vec![key.clone()])));
        world = world.job("agent", coprocess).with(|spec| spec.kind = JobKind::Coprocess);
        world.spec.watches.push(WatchSpec {
            name: "db".into(),
            target: WatchTarget::Key("db".to_owned()),
            interval: Duration::from_secs(1),
            datacentre: None,
            after_coprocesses: true,
        });
        world.overview.watches.insert("db".into(), WatchStatus { known: false, instances: vec![] });
        world.summary("app")
    };
    let summary = world(waits(Missing::AnyOf(vec![event("preStart", EventCode::Stopped)])));
    let expected = "The watch db has not begun: it waits until the coprocess agent has been started.";
    assert!(summary.contains(expected), "{summary}");
    let summary = world(job(Phase::Running));
    assert!(summary.contains("Consul has not answered yet about db."), "{summary}");
}

#[test]
fn a_watch_tells_what_consul_knows() {
    let key = EventKey { code: EventCode::Healthy, source: Source::Watch("db".into()) };
    let world = |watch: Option<WatchStatus>, trouble: Option<&str>| {
        let mut world = World::new().job("app", waits(Missing::AnyOf(vec![key.clone()])));
        world.overview.watches.extend(watch.map(|watch| ("db".into(), watch)));
        let failure = trouble.map(|reason| failure(reason, false));
        world.overview.discovery.failures.extend(failure.map(|failure| ("watch.db".into(), failure)));
        world.summary("app")
    };
    let known = |known| Some(WatchStatus { known, instances: vec![] });
    assert!(world(known(false), None).contains("Consul has not answered yet about db."));
    assert!(world(known(true), None).contains("Consul knows no healthy instance of db."));
    assert!(world(known(true), Some("Connection refused")).contains("Consul is in trouble"));
    assert!(world(None, None).contains("There is no watch db."));
}
