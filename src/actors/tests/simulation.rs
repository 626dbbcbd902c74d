//! Random programs with random faults, from proptest's seeds: all actors with their machines and engines over the fake
//! kernel and paused time. What must always hold is checked while the story goes on and after it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

use super::health::exec_check;
use super::*;
use crate::config::spec::{JobKind, Limit, StopBudget};
use crate::messages::control::{ControlJob, JobOrder, Reload, SetMaintenance};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const BUDGET: Duration = Duration::from_secs(4);
/// After the budget, killed processes have 3 s, and then orphans as much.
const LATEST_END: Duration = Duration::from_secs(4 + 3 + 3 + 1);

/// What happens to the program after a pause of so many milliseconds.
#[derive(Debug, Clone)]
struct Step(u64, Operation);

#[derive(Debug, Clone)]
enum Operation {
    /// By hand.
    Order(&'static str, JobOrder),
    Maintain(bool),
    /// Somebody else kills the process of a job.
    Kill(&'static str),
    /// The program of a job behaves differently when it is started next.
    Behave(&'static str, Manner),
    /// The configuration changes to these jobs.
    Reload(Vec<JobSpec>),
}

fn any_manner() -> impl Strategy<Value = Manner> {
    prop_oneof![
        4 => Just(Manner::Serves),
        2 => (0u8..3, 0u64..800).prop_map(|(status, after)| Manner::Ends(status, after)),
        1 => Just(Manner::Stubborn),
        1 => (0u64..6000).prop_map(Manner::Slow),
        1 => (0u64..500).prop_map(Manner::Hungry),
        1 => Just(Manner::Missing),
        1 => Just(Manner::Broken),
        1 => (0u64..4000).prop_map(Manner::Litters),
    ]
}

fn any_event() -> impl Strategy<Value = EventKey> {
    let codes = [
        EventCode::Healthy,
        EventCode::Unhealthy,
        EventCode::ExitSuccess,
        EventCode::ExitFailed,
        EventCode::Stopping,
        EventCode::Stopped,
    ];
    let global = [EventCode::Shutdown, EventCode::EnterMaintenance];
    prop_oneof![
        8 => (select(NAMES.to_vec()), select(codes.to_vec())).prop_map(|(name, code)| event(name, code)),
        1 => select(global.to_vec()).prop_map(|code| EventKey { code, source: Source::Global }),
    ]
}

fn any_trigger() -> impl Strategy<Value = Trigger> {
    let startup = EventKey { code: EventCode::Startup, source: Source::Global };
    prop_oneof![
        4 => Just(Trigger::Once(startup)),
        2 => any_event().prop_map(Trigger::Once),
        1 => any_event().prop_map(Trigger::Each),
        1 => proptest::collection::vec(any_event(), 1..3).prop_map(Trigger::All),
        1 => proptest::collection::vec(any_event(), 1..3).prop_map(Trigger::Any),
        1 => (100u64..2000).prop_map(|interval| Trigger::Interval(Duration::from_millis(interval))),
    ]
}

prop_compose! {
    fn any_job(name: &'static str)(
        trigger in any_trigger(),
        restarts in prop_oneof![Just(Limit::Finite(0)), Just(Limit::Finite(2)), Just(Limit::Unlimited)],
        timeout in proptest::option::weighted(0.2, 50u64..1500),
        wait in proptest::option::weighted(0.3, 0u64..3000),
        is_checked in proptest::bool::weighted(0.4),
        is_essential in proptest::bool::weighted(0.1),
        is_coprocess in proptest::bool::weighted(0.1),
        has_process in proptest::bool::weighted(0.95),
    ) -> JobSpec {
        let mut job = triggered(name, trigger);
        (job.restarts, job.essential) = (restarts, is_essential && !is_coprocess);
        job.timeout = timeout.map(Duration::from_millis);
        job.when.timeout = wait.map(Duration::from_millis);
        job.kind = if is_coprocess { JobKind::Coprocess } else { JobKind::Job };
        job.exec = job.exec.filter(|_| has_process);
        // The same seed makes the same delays.
        job.backoff.jitter = 0.0;
        if is_checked {
            job.health = vec![exec_check(&format!("check-{name}"), 300)];
        }
        job
    }
}

/// Boxed, since strategies of whole jobs are large.
fn any_jobs() -> BoxedStrategy<Vec<JobSpec>> {
    let jobs = NAMES.map(|name| any_job(name).boxed());
    (jobs, 1usize..=NAMES.len())
        .prop_map(|(jobs, number)| {
            let mut jobs = jobs.to_vec();
            jobs.truncate(number);
            jobs
        })
        .boxed()
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let name = || select(NAMES.to_vec());
    let orders = [JobOrder::Start, JobOrder::Stop, JobOrder::Restart, JobOrder::Signal(Signal::HUP)].to_vec();
    prop_oneof![
        3 => (name(), select(orders)).prop_map(|(name, order)| Operation::Order(name, order)),
        1 => any::<bool>().prop_map(Operation::Maintain),
        1 => name().prop_map(Operation::Kill),
        1 => (name(), any_manner()).prop_map(|(name, manner)| Operation::Behave(name, manner)),
        1 => any_jobs().prop_map(Operation::Reload),
    ]
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0u64..1500, any_operation()).prop_map(|(pause, operation)| Step(pause, operation));
    proptest::collection::vec(step, 0..8)
}

/// How programs behave at first; some checks fail.
fn any_manners() -> impl Strategy<Value = Vec<(String, Manner)>> {
    let jobs = NAMES.map(|_| any_manner());
    let checks = NAMES.map(|_| (0u8..2, 0u64..400).prop_map(|(status, after)| Manner::Ends(status, after)));
    (jobs, checks).prop_map(|(jobs, checks)| {
        let jobs = NAMES.iter().zip(jobs).map(|(name, manner)| ((*name).to_owned(), manner));
        jobs.chain(NAMES.iter().zip(checks).map(|(name, manner)| (format!("check-{name}"), manner))).collect()
    })
}

impl Scene {
    async fn carry_out(&self, operation: Operation) {
        match operation {
            Operation::Order(name, order) => {
                let _ = self.pilot.send(ControlJob { name: name.into(), order }).await;
            }
            Operation::Maintain(on) => drop(self.pilot.send(SetMaintenance(on)).await),
            Operation::Kill(name) if self.fake.runs_now(name) => self.fake.kill(name),
            Operation::Kill(_) => {}
            Operation::Behave(name, manner) => self.fake.set(name, manner),
            Operation::Reload(jobs) => {
                *self.next.lock().unwrap() = whole(jobs);
                // Not waited for: what comes next may come while jobs stop.
                self.pilot.do_send(Reload { restart_all: false, dry_run: false });
            }
        }
    }
}

fn whole(jobs: Vec<JobSpec>) -> Spec {
    Spec { stop_timeout: StopBudget::Within(BUDGET), ..spec(jobs) }
}

/// Runs a program through these steps and then shuts it down: the trace of its events, with times.
fn simulate(jobs: Vec<JobSpec>, manners: &[(String, Manner)], steps: Vec<Step>) -> (u8, Scene) {
    let manners: Vec<(&str, Manner)> =
        manners.iter().map(|(name, manner)| (name.as_str(), *manner)).collect();
    play(whole(jobs), &manners, |scene| async move {
        for Step(pause, operation) in steps {
            scene.wait(pause).await;
            scene.carry_out(operation).await;
        }
        scene.wait(1000).await;
        scene.asked_to_end.set(Some(Instant::now()));
        scene.signal(Signal::TERM);
    })
}

/// The rules about the events of one job: `stopping` comes before `stopped`, each once, and nothing runs in between two.
fn check_order(events: &[String]) -> Result<(), TestCaseError> {
    let mut is_stopping: BTreeMap<&str, bool> = BTreeMap::new();
    for event in events {
        let Some((name, code)) = event.split_once(' ') else { continue };
        let stopping = is_stopping.entry(name).or_default();
        match code {
            "stopping" => {
                prop_assert!(!*stopping, "{name} stops twice: {events:?}");
                *stopping = true;
            }
            "stopped" => {
                prop_assert!(*stopping, "{name} stopped without a word: {events:?}");
                *stopping = false;
            }
            "healthy" | "unhealthy" => prop_assert!(!*stopping, "{name} {code} while it stopped: {events:?}"),
            _ => {}
        }
    }
    Ok(())
}

/// A job that was given up: its event does not come afterwards. Only told where nobody starts, stops or changes jobs by
/// hand, and where a job waits for one event without a time limit.
fn check_given_up(jobs: &[JobSpec], steps: &[Step], scene: &Scene) -> Result<(), TestCaseError> {
    let is_by_hand =
        |Step(_, operation): &Step| matches!(operation, Operation::Order(..) | Operation::Reload(_));
    if steps.iter().any(is_by_hand) {
        return Ok(());
    }
    let events = scene.events();
    let place = |wanted: &str| events.iter().position(|event| event == wanted);
    for job in jobs.iter().filter(|job| job.when.timeout.is_none() && scene.fake.runs(&job.name) == 0) {
        let (Trigger::Once(key), true) = (&job.when.trigger, job.exec.is_some()) else { continue };
        // Those that wait for each other's end are given up together.
        if let Source::Job(name) = &key.source
            && scene.fake.runs(name) == 0
        {
            continue;
        }
        let Some(given_up) = place(&format!("{} stopping", job.name)) else { continue };
        let came = events.iter().skip(given_up).any(|event| *event == key.to_string());
        let before_the_end = place("global shutdown").is_none_or(|end| given_up < end);
        prop_assert!(!(before_the_end && came), "{} did not wait for {key}: {events:?}", job.name);
    }
    Ok(())
}

/// The same programs each time; `SIMULATED=100000 cargo test --lib simulation` tries so many others.
fn cases() -> ProptestConfig {
    let more = std::env::var("SIMULATED").ok().and_then(|number| number.parse().ok());
    let rng_seed = if more.is_some() { RngSeed::Random } else { RngSeed::Fixed(1) };
    ProptestConfig {
        cases: more.unwrap_or(500),
        rng_seed,
        max_shrink_iters: 2000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn whatever_happens_the_program_keeps_its_rules_and_ends_in_time(
        jobs in any_jobs(), manners in any_manners(), steps in any_steps(),
    ) {
        let (_, scene) = simulate(jobs.clone(), &manners, steps.clone());
        prop_assert_eq!(scene.violations.borrow().clone(), Vec::<String>::new());
        prop_assert_eq!(scene.fake.doubled(), Vec::<String>::new(), "two processes of one job");
        check_order(&scene.events())?;
        check_given_up(&jobs, &steps, &scene)?;
        if let Some(asked) = scene.asked_to_end.get() {
            let took = (scene.began + scene.elapsed()).saturating_duration_since(asked);
            prop_assert!(took <= LATEST_END, "the shutdown took {took:?}: {:?}", scene.events());
        }
        let (_, again) = simulate(jobs, &manners, steps);
        prop_assert_eq!(scene.events(), again.events(), "the same seed, another trace");
    }
}
