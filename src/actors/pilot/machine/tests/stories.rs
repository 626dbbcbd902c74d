//! Start, signals, shutdown and reload: inputs into the Pilot's machine, actions out.

mod any_order;
mod ending;
mod groups;
mod hooks;
mod watches;

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use super::super::{Action, Input, Purpose, Reply, State, Timer};
use super::{changed, event, spec};
use crate::actors::machine::{Machine, Severity};
use crate::config::spec::{
    GroupPlace, GroupSpec, JobSpec, Limit, OnExhausted, Spec, StopBudget, Strategy as GroupStrategy, Trigger,
};
use crate::messages::control::{ControlJob, JobOrder, Refusal, Reload};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::health::Health;
use crate::messages::job::{JobChanged, JobCommand, Phase, StopOccasion};
use crate::messages::moment::Moment;
use crate::messages::signal::Signal;

const RELOAD: Reload = Reload { restart_all: false, dry_run: false };

fn whole(jobs: Vec<JobSpec>) -> Arc<Spec> {
    let stop_timeout = StopBudget::Within(Duration::from_secs(5));
    Arc::new(Spec { jobs: jobs.into_iter().map(Arc::new).collect(), stop_timeout, ..Spec::default() })
}

/// A program whose jobs do at once what they are told.
struct Scene {
    state: State,
    now: Moment,
    actions: Vec<Action>,
}

impl Scene {
    fn new(spec: Arc<Spec>) -> Self {
        let mut scene = Self { state: State::new(spec), now: Moment::default(), actions: vec![] };
        scene.step(Input::Started);
        scene.step(Input::Delivered);
        scene.step(Input::DecisionDue);
        scene
    }

    /// Takes a step; the state survives being written down and read back.
    fn step(&mut self, input: Input) -> Vec<Action> {
        let text = serde_json::to_string(&input).unwrap();
        assert_eq!(input, serde_json::from_str(&text).unwrap());
        let actions = self.state.step(self.now, input);
        let text = serde_json::to_string(&self.state).unwrap();
        let read: State = serde_json::from_str(&text).unwrap();
        assert_eq!(read, self.state);
        self.state = read;
        self.actions.extend(actions.clone());
        actions
    }

    fn wait(&mut self, milliseconds: u64) {
        self.now = self.now.plus(Duration::from_millis(milliseconds));
    }

    fn report(&mut self, name: &str, generation: u64, phase: Phase) -> Vec<Action> {
        self.step(Input::Reported(changed(name, generation, phase).into()));
        self.step(Input::DecisionDue)
    }
}

/// Who is told to stop.
fn stopped(actions: &[Action]) -> Vec<&str> {
    let stop = |action: &'_ Action| matches!(action, Action::Tell(_, JobCommand::Stop { .. }));
    actions.iter().filter(|action| stop(action)).filter_map(told).collect()
}

fn told(action: &Action) -> Option<&str> {
    if let Action::Tell(name, _) = action { Some(name) } else { None }
}

fn killed(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action, Action::Tell(_, JobCommand::Kill))).count()
}

fn needing_db(name: &str) -> JobSpec {
    let mut job = spec(name);
    job.when.trigger = Trigger::Once(event("db", EventCode::Healthy));
    job
}

#[test]
fn a_signal_that_comes_with_the_first_one_does_not_kill() {
    let mut scene = Scene::new(whole(vec![spec("app")]));
    scene.report("app", 0, Phase::Running);
    scene.step(Input::Signal(Signal::TERM));
    scene.wait(249);
    assert_eq!(killed(&scene.step(Input::Signal(Signal::TERM))), 0);
    scene.wait(1);
    assert_eq!(killed(&scene.step(Input::Signal(Signal::TERM))), 1);
}

#[test]
fn a_second_signal_kills() {
    let mut scene = Scene::new(whole(vec![spec("app")]));
    scene.report("app", 0, Phase::Running);
    assert!(scene.step(Input::Signal(Signal::TERM)).contains(&Action::PublishShutdown));
    scene.step(Input::Delivered);
    scene.wait(300);
    let actions = scene.step(Input::Signal(Signal::INT));
    assert_eq!(killed(&actions), 1);
    assert!(actions.contains(&Action::StartTimer(Timer::Patience, Duration::from_secs(3))));
    let (grace, patience) = (Duration::ZERO, Duration::from_secs(3));
    let actions = scene.report("app", 0, Phase::Complete);
    assert_eq!(actions.last(), Some(&Action::EndOrphans { grace, patience }), "nor have orphans time to end");
}

#[test]
fn jobs_are_told_to_stop_after_everybody_knows_of_the_shutdown_and_in_their_order() {
    let mut scene = Scene::new(whole(vec![spec("db"), needing_db("app")]));
    scene.report("db", 0, Phase::Running);
    scene.report("app", 0, Phase::Running);
    scene.step(Input::Signal(Signal::TERM));
    assert!(stopped(&scene.step(Input::DecisionDue)).is_empty());
    scene.step(Input::ShutdownPublished(7));
    scene.step(Input::Delivered);
    let stop = JobCommand::Stop { cause: Some(7), occasion: StopOccasion::Shutdown };
    assert_eq!(scene.step(Input::DecisionDue), [Action::Tell("app".into(), stop)]);
    assert_eq!(scene.report("app", 0, Phase::Complete), [Action::Tell("db".into(), stop)]);
    scene.wait(1500);
    let actions = scene.report("db", 0, Phase::Complete);
    let (grace, patience) = (Duration::from_secs(1), Duration::from_secs(3));
    assert_eq!(actions.last(), Some(&Action::EndOrphans { grace, patience }));
    assert_eq!(scene.step(Input::OrphansGone), [Action::Exit(0)]);
    assert_eq!(scene.step(Input::OrphansGone), [], "the program ends once");
}

#[test]
fn everybody_has_heard_of_the_shutdown_before_the_program_leaves() {
    let mut scene = Scene::new(whole(vec![spec("app")]));
    scene.report("app", 0, Phase::Running);
    scene.step(Input::Signal(Signal::TERM));
    let leaves =
        |actions: &[Action]| actions.iter().any(|action| matches!(action, Action::EndOrphans { .. }));
    assert!(!leaves(&scene.report("app", 0, Phase::Complete)));
    scene.step(Input::Delivered);
    assert!(leaves(&scene.step(Input::DecisionDue)));
}

#[test]
fn a_job_that_comes_to_life_after_everything_was_killed_is_killed_too() {
    let mut scene = Scene::new(whole(vec![spec("app"), spec("other")]));
    scene.report("app", 0, Phase::Running);
    scene.report("other", 0, Phase::Complete);
    scene.step(Input::Signal(Signal::TERM));
    scene.step(Input::Delivered);
    scene.wait(300);
    assert_eq!(killed(&scene.step(Input::Signal(Signal::TERM))), 1);
    let actions = scene.report("other", 0, Phase::Running);
    assert!(actions.contains(&Action::Tell("other".into(), JobCommand::Kill)), "{actions:?}");
}

#[test]
fn late_in_the_shutdown_everything_is_told_then_killed_then_left_behind() {
    let mut scene = Scene::new(whole(vec![spec("db"), needing_db("app")]));
    scene.report("db", 0, Phase::Running);
    scene.report("app", 0, Phase::Running);
    scene.step(Input::Signal(Signal::TERM));
    scene.wait(4000);
    assert_eq!(stopped(&scene.step(Input::Elapsed(Timer::LastCall))), ["db", "app"]);
    scene.wait(1000);
    assert_eq!(killed(&scene.step(Input::Elapsed(Timer::StopBudget))), 2);
    scene.wait(3000);
    let actions = scene.step(Input::Elapsed(Timer::Patience));
    let none = Duration::ZERO;
    assert_eq!(actions.last(), Some(&Action::EndOrphans { grace: none, patience: none }));
    assert_eq!(scene.step(Input::OrphansGone), [Action::Exit(0)]);
}

#[test]
fn orphans_have_no_more_time_than_the_shutdown() {
    let mut scene = Scene::new(whole(vec![spec("app")]));
    scene.report("app", 0, Phase::Running);
    scene.step(Input::Signal(Signal::TERM));
    scene.step(Input::Delivered);
    scene.wait(4700);
    let actions = scene.report("app", 0, Phase::Complete);
    let (grace, patience) = (Duration::from_millis(300), Duration::from_secs(3));
    assert_eq!(actions.last(), Some(&Action::EndOrphans { grace, patience }));
    let grace = Duration::ZERO;
    assert_eq!(scene.step(Input::Signal(Signal::TERM)), [Action::EndOrphans { grace, patience }]);
}

#[test]
fn a_bad_configuration_changes_nothing_and_says_why() {
    for (at_prepare, report) in
        [(false, "line 3: no such field\nline 4: no comma"), (true, "port 80: in use")]
    {
        let mut scene = Scene::new(whole(vec![spec("app")]));
        scene.report("app", 0, Phase::Running);
        let before = scene.state.clone();
        assert_eq!(scene.step(Input::ReloadAsked(Some(1), RELOAD)), [Action::Load(Purpose::Reload)]);
        let refused = if at_prepare {
            let new = whole(vec![spec("other")]);
            let loaded = Input::Loaded(Purpose::Reload, Ok(Arc::clone(&new)));
            assert_eq!(scene.step(loaded), [Action::Prepare(new)]);
            scene.step(Input::Prepared(Err(report.into())))
        } else {
            scene.step(Input::Loaded(Purpose::Reload, Err(report.to_owned().into())))
        };
        let text = "the configuration was not reloaded, everything goes on as it was:";
        let told = iter::once(text).chain(report.lines()).map(|line| Action::log(Severity::Warning, line));
        let reply = Action::Reply(1, Reply::Reload(Err(Refusal::BadConfiguration(report.into()))));
        let mut expected: Vec<Action> = told.chain([reply]).collect();
        if at_prepare {
            expected.insert(0, Action::Discard);
        }
        assert_eq!(refused, expected);
        assert_eq!(scene.state, before);
    }
}

#[test]
fn a_reload_stops_what_changed_then_starts_what_is_new_and_tells_it_what_was_before() {
    let mut scene = Scene::new(whole(vec![spec("db"), spec("old")]));
    let healthy = JobChanged { health: Health::Healthy, ..changed("db", 0, Phase::Running) };
    scene.step(Input::Reported(healthy.into()));
    scene.report("old", 0, Phase::Running);
    let new = whole(vec![spec("db"), needing_db("app")]);
    scene.step(Input::ReloadAsked(Some(1), RELOAD));
    scene.step(Input::Loaded(Purpose::Reload, Ok(Arc::clone(&new))));
    assert_eq!(stopped(&scene.step(Input::Prepared(Ok(())))), ["old"]);
    let actions = scene.report("old", 0, Phase::Complete);
    let place = |wanted: &Action| {
        actions
            .iter()
            .position(|action| action == wanted)
            .unwrap_or_else(|| panic!("{wanted:?} in {actions:?}"))
    };
    let order = [
        Action::Adopt(Arc::clone(&new)),
        Action::EndJob("old".into()),
        Action::StartJob(Arc::clone(&new.jobs[1]), 1),
        Action::TellJobEvent("app".into(), event("db", EventCode::Healthy)),
    ];
    assert!(order.iter().map(place).is_sorted());
    assert!(actions.iter().any(|action| matches!(action, Action::Reply(1, Reply::Reload(Ok(_))))));
    let before = scene.state.clone();
    scene.step(Input::Reported(changed("app", 0, Phase::Complete).into()));
    assert_eq!(scene.state, before, "the report of an earlier job of that name says nothing");
}

#[test]
fn reloads_that_are_asked_for_meanwhile_are_one_more_reload() {
    let mut scene = Scene::new(whole(vec![spec("app")]));
    scene.report("app", 0, Phase::Running);
    scene.step(Input::ReloadAsked(Some(1), RELOAD));
    assert_eq!(scene.step(Input::ReloadAsked(Some(2), RELOAD)), []);
    assert_eq!(scene.step(Input::ReloadAsked(Some(3), RELOAD)), []);
    let same = whole(vec![spec("app")]);
    scene.step(Input::Loaded(Purpose::Reload, Ok(Arc::clone(&same))));
    let actions = scene.step(Input::Prepared(Ok(())));
    let replies = |actions: &[Action]| -> Vec<u64> {
        actions
            .iter()
            .filter_map(|action| if let Action::Reply(number, _) = action { Some(*number) } else { None })
            .collect()
    };
    assert_eq!(replies(&actions), [1]);
    assert_eq!(actions.last(), Some(&Action::Load(Purpose::Reload)));
    scene.step(Input::Loaded(Purpose::Reload, Ok(same)));
    assert_eq!(replies(&scene.step(Input::Prepared(Ok(())))), [2, 3]);
}

#[test]
fn a_shutdown_refuses_the_reload_that_is_being_prepared_and_gives_back_what_it_took() {
    let mut scene = Scene::new(whole(vec![spec("app")]));
    scene.report("app", 0, Phase::Running);
    scene.step(Input::ReloadAsked(Some(1), RELOAD));
    scene.step(Input::Loaded(Purpose::Reload, Ok(whole(vec![]))));
    let refused =
        Action::Reply(1, Reply::Reload(Err(Refusal::NotNow("the program is shutting down".into()))));
    assert!(scene.step(Input::Signal(Signal::TERM)).contains(&refused));
    assert_eq!(scene.step(Input::Prepared(Ok(()))), [Action::Discard]);
    assert!(
        scene
            .step(Input::ReloadAsked(Some(2), RELOAD))
            .iter()
            .all(|action| matches!(action, Action::Reply(2, Reply::Reload(Err(_)))))
    );
}

#[test]
fn a_signal_to_a_job_is_sent_even_while_the_program_stops_and_other_orders_are_not() {
    let mut scene = Scene::new(whole(vec![spec("app")]));
    scene.report("app", 0, Phase::Running);
    scene.step(Input::Signal(Signal::TERM));
    let order = |order| ControlJob { name: "app".into(), order };
    let actions = scene.step(Input::JobOrdered(1, order(JobOrder::Signal(Signal::KILL))));
    assert!(actions.contains(&Action::Tell("app".into(), JobCommand::Signal(Signal::KILL))));
    let actions = scene.step(Input::JobOrdered(2, order(JobOrder::Restart)));
    assert!(matches!(actions.as_slice(), [Action::Reply(2, Reply::Order(Err(Refusal::NotNow(_))))]));
}

#[test]
fn a_signal_that_a_job_asks_for_is_passed_on_and_does_nothing_else() {
    let forward = |names: &[Signal]| JobSpec { forward: names.to_vec(), ..spec("app") };
    let every = [Signal::QUIT, Signal::HUP, Signal::USR1, Signal::USR2, Signal::WINCH, Signal::TSTP];
    let mut scene = Scene::new(whole(vec![forward(&every), spec("other")]));
    scene.report("app", 0, Phase::Running);
    for signal in every {
        let told = Action::Tell("app".into(), JobCommand::Forward(signal));
        assert_eq!(scene.step(Input::Signal(signal)), [told], "{signal}");
    }
    let actions = scene.step(Input::Signal(Signal::TERM));
    assert!(actions.contains(&Action::PublishShutdown), "{actions:?}");
    let told = Action::Tell("app".into(), JobCommand::Forward(Signal::QUIT));
    assert_eq!(scene.step(Input::Signal(Signal::QUIT)), [told], "in a shutdown too");
}

#[test]
fn a_forwarded_signal_is_still_the_event_that_a_job_waits_for() {
    let event = EventKey { code: EventCode::Signal, source: Source::Signal(Signal::HUP) };
    let mut hook = spec("hook");
    hook.when.trigger = Trigger::Each(event.clone());
    let app = JobSpec { forward: vec![Signal::HUP], ..spec("app") };
    let mut scene = Scene::new(whole(vec![app, hook]));
    let told = Action::Tell("app".into(), JobCommand::Forward(Signal::HUP));
    assert_eq!(scene.step(Input::Signal(Signal::HUP)), [told, Action::Publish(event)]);
}

#[test]
fn checks_publish_their_outcomes_while_a_job_waits_for_them() {
    let waiting = |name: &str, checked: &str| {
        let source = Source::Check(Arc::from(checked));
        let mut job = spec(name);
        job.when.trigger = Trigger::Each(EventKey { code: EventCode::ExitFailed, source });
        job
    };
    let told = |actions: &[Action]| {
        let publish = |action: &Action| {
            if let Action::PublishOutcomes(name, on) = action { Some((name.to_string(), *on)) } else { None }
        };
        actions.iter().filter_map(publish).collect::<Vec<_>>()
    };
    let tells = |name: &str, on| (name.to_owned(), on);
    let mut scene = Scene::new(whole(vec![spec("a"), spec("b"), spec("c"), waiting("alarm", "a")]));
    assert_eq!(told(&scene.actions), [tells("a", true)]);
    let mut reload = |jobs: Vec<JobSpec>, stopped: &[&str]| {
        scene.step(Input::ReloadAsked(Some(1), RELOAD));
        scene.step(Input::Loaded(Purpose::Reload, Ok(whole(jobs))));
        scene.actions.clear();
        scene.step(Input::Prepared(Ok(())));
        let generation = scene.state.generation;
        for name in stopped {
            let before = scene.state.members.get(name).map_or(generation, |job| job.generation);
            scene.report(name, before, Phase::Complete);
        }
        told(&scene.actions)
    };
    let jobs = |alarm| vec![spec("a"), spec("b"), spec("c"), alarm];
    let others = [tells("a", false), tells("b", true)];
    assert_eq!(reload(jobs(waiting("alarm", "b")), &["alarm"]), others, "of jobs that stay");
    assert_eq!(reload(jobs(waiting("alarm2", "b")), &["alarm"]), [] as [(String, bool); 0], "nothing new");
    let mut anew = spec("b");
    anew.execution.env = vec![("A".to_owned(), None)];
    assert_eq!(reload(vec![spec("a"), anew, waiting("alarm2", "b")], &["b", "c"]), [tells("b", true)]);
    assert_eq!(reload(vec![spec("a")], &["b", "alarm2"]), [] as [(String, bool); 0], "its job is gone");
}

#[test]
fn a_reload_asks_jobs_that_are_over_whether_somebody_has_started_them() {
    let mut scene = Scene::new(whole(vec![spec("app"), spec("other")]));
    scene.report("other", 0, Phase::Running);
    scene.report("app", 0, Phase::Complete);
    scene.step(Input::ReloadAsked(Some(1), RELOAD));
    let order = ControlJob { name: "app".to_owned(), order: JobOrder::Restart };
    assert!(
        scene.step(Input::JobOrdered(2, order)).contains(&Action::Tell("app".into(), JobCommand::Restart))
    );
    scene.step(Input::Loaded(Purpose::Reload, Ok(whole(vec![spec("other")]))));
    let actions = scene.step(Input::Prepared(Ok(())));
    let [Action::Tell(name, JobCommand::Answer(question))] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(&**name, "app", "the only one that is to go");
    scene.report("other", 0, Phase::Delayed);
    let answer = JobChanged { answers: Some(*question), ..changed("app", 0, Phase::Running) };
    scene.step(Input::Reported(answer.into()));
    assert_eq!(stopped(&scene.step(Input::DecisionDue)), ["app"], "it does not run beside its successor");
    let actions = scene.report("app", 0, Phase::Complete);
    assert!(actions.contains(&Action::EndJob("app".into())));
}
