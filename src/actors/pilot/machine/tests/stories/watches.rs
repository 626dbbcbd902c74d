//! When watches begin.

use super::*;
use crate::actors::pilot::machine::Report;
use crate::config::spec::{
    ConsulAddress, ConsulSpec, JobKind, PageSpec, TelemetrySpec, TlsSpec, WatchSpec, WatchTarget,
};
use crate::messages::discovery::WatchChanged;

fn watch(name: &str, after_coprocesses: bool) -> WatchSpec {
    let target = WatchTarget::Service { service: name.to_owned(), tag: None };
    let interval = Duration::from_secs(1);
    WatchSpec { name: name.into(), target, interval, datacentre: None, after_coprocesses }
}

fn coprocess(name: &str) -> JobSpec {
    JobSpec { kind: JobKind::Coprocess, ..spec(name) }
}

fn watching(jobs: Vec<JobSpec>, watches: Vec<WatchSpec>) -> Arc<Spec> {
    let tls = TlsSpec {
        ca_file: None,
        ca_path: None,
        client_cert: None,
        client_key: None,
        server_name: None,
        verify: true,
    };
    let consul = Some(ConsulSpec { address: ConsulAddress::Unix("consul".into()), token: None, tls });
    Arc::new(Spec { consul, watches, ..(*whole(jobs)).clone() })
}

fn started(name: &str, generation: u64) -> Input {
    Input::Reported(JobChanged { ready: true, ..changed(name, generation, Phase::Running) }.into())
}

fn begun_by(action: &Action) -> Option<&str> {
    if let Action::BeginWatch(name) = action { Some(name) } else { None }
}

fn begun(actions: &[Action]) -> Vec<&str> {
    actions.iter().filter_map(begun_by).collect()
}

fn reload(scene: &mut Scene, spec: Arc<Spec>) {
    scene.step(Input::ReloadAsked(None, RELOAD));
    scene.step(Input::Loaded(Purpose::Reload, Ok(spec)));
    scene.step(Input::Prepared(Ok(())));
}

#[test]
fn without_coprocesses_watches_begin_after_startup_is_published() {
    let mut state = State::new(watching(vec![spec("app")], vec![watch("db", false)]));
    let actions = state.step(Moment::default(), Input::Started);
    let place = |wanted: &Action| actions.iter().position(|action| action == wanted).unwrap();
    let startup = EventKey { code: EventCode::Startup, source: Source::Global };
    assert!(place(&Action::Publish(startup)) < place(&Action::BeginWatch("db".into())));
}

#[test]
fn watches_begin_once_every_coprocess_is_started_or_cannot_be() {
    let jobs = vec![coprocess("agent"), coprocess("bad"), spec("app")];
    let mut scene = Scene::new(watching(jobs, vec![watch("db", true), watch("first", false)]));
    assert_eq!(begun(&scene.actions), ["first"]);
    for phase in [Phase::Waiting, Phase::Running] {
        assert!(begun(&scene.report("agent", 0, phase)).is_empty(), "it is only being started");
    }
    assert!(begun(&scene.step(started("agent", 0))).is_empty());
    assert!(begun(&scene.step(started("app", 0))).is_empty());
    let failed = JobChanged { last_status: Some(127), ..changed("bad", 0, Phase::Delayed) };
    assert_eq!(begun(&scene.step(Input::Reported(failed.into()))), ["db"]);
    assert!(begun(&scene.step(started("bad", 0))).is_empty(), "a watch begins once");
}

#[test]
fn a_coprocess_that_is_stopped_by_hand_or_over_is_not_waited_for() {
    for phase in [Phase::Halted, Phase::Complete] {
        let mut scene = Scene::new(watching(vec![coprocess("agent"), spec("app")], vec![watch("db", true)]));
        scene.report("app", 0, Phase::Running);
        let actions = scene.step(Input::Reported(changed("agent", 0, phase).into()));
        assert_eq!(begun(&actions), ["db"], "{phase}");
    }
}

#[test]
fn a_watch_that_a_reload_adds_waits_for_the_coprocesses_that_it_starts_anew() {
    let jobs = || vec![coprocess("agent"), spec("app")];
    let mut scene = Scene::new(watching(jobs(), vec![watch("db", true)]));
    scene.report("app", 0, Phase::Running);
    assert_eq!(begun(&scene.step(started("agent", 0))), ["db"]);
    scene.actions.clear();
    reload(&mut scene, watching(jobs(), vec![watch("db", true), watch("other", true)]));
    scene.report("agent", 0, Phase::Complete);
    assert!(begun(&scene.actions).is_empty(), "the end of the old coprocess is no start");
    assert_eq!(begun(&scene.step(started("agent", 1))), ["other"]);
}

#[test]
fn a_watch_that_waits_for_a_coprocess_begins_when_a_reload_removes_that() {
    let mut scene = Scene::new(watching(vec![coprocess("agent"), spec("app")], vec![watch("db", true)]));
    scene.report("app", 0, Phase::Running);
    reload(&mut scene, watching(vec![spec("app")], vec![watch("db", false)]));
    assert!(begun(&scene.actions).is_empty());
    assert_eq!(begun(&scene.report("agent", 0, Phase::Complete)), ["db"]);
}

#[test]
fn in_a_shutdown_no_watch_begins() {
    let mut scene = Scene::new(watching(vec![coprocess("agent"), spec("app")], vec![watch("db", true)]));
    scene.report("app", 0, Phase::Running);
    scene.step(Input::Signal(Signal::TERM));
    assert!(begun(&scene.report("agent", 0, Phase::Complete)).is_empty());
}

#[test]
fn the_report_of_a_watch_that_was_replaced_says_nothing() {
    let mut scene = Scene::new(watching(vec![spec("app")], vec![watch("db", false)]));
    let found = |generation: u64| WatchChanged { name: "db".into(), generation, found: Some(true) };
    scene.step(Input::Reported(Report::Watch(found(5))));
    assert_eq!(scene.state.watches.get("db").unwrap().found, None);
    scene.step(Input::Reported(Report::Watch(found(0))));
    assert_eq!(scene.state.watches.get("db").unwrap().found, Some(true));
    assert_eq!(scene.state.name(), "", "there is one Pilot");
}

#[test]
fn a_job_that_a_reload_adds_knows_of_a_watch_that_goes_on_as_it_was() {
    let healthy = EventKey { code: EventCode::Healthy, source: Source::Watch("db".into()) };
    let added = |interval: u64| {
        let mut scene = Scene::new(watching(vec![spec("app")], vec![watch("db", false), watch("mq", false)]));
        scene.report("app", 0, Phase::Running);
        let found = WatchChanged { name: "db".into(), generation: 0, found: Some(true) };
        scene.step(Input::Reported(Report::Watch(found)));
        let mut new = spec("new");
        new.when.trigger = Trigger::Once(healthy.clone());
        let watches = vec![
            watch("mq", false),
            WatchSpec { interval: Duration::from_secs(interval), ..watch("db", false) },
        ];
        scene.actions.clear();
        reload(&mut scene, watching(vec![spec("app"), new], watches));
        scene.actions.contains(&Action::TellJobEvent("new".into(), healthy.clone()))
    };
    assert!(added(1));
    assert!(!added(2), "it is another watch now, which has seen nothing yet");
}

#[test]
fn telemetry_is_advertised_again_when_it_changed_and_only_then() {
    let advertised = |port: Option<u16>| {
        let mut scene = Scene::new(watching(vec![spec("app")], vec![]));
        scene.report("app", 0, Phase::Running);
        let telemetry = port.map(|port| TelemetrySpec {
            port,
            address: [127, 0, 0, 1].into(),
            tags: vec![],
            metrics: vec![],
            page: PageSpec::default(),
        });
        let spec = Spec { telemetry, ..(*watching(vec![spec("app")], vec![])).clone() };
        reload(&mut scene, Arc::new(spec));
        scene.actions.iter().any(|action| matches!(action, Action::AdvertiseTelemetry(_)))
    };
    assert!(advertised(Some(9090)));
    assert!(!advertised(None));
}
