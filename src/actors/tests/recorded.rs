//! Records of stories, replayed: as they are, and with values in them that nobody would write.

use std::fs;

use proptest::prelude::*;
use proptest::sample::Index;
use serde::Serialize;
use serde_json::{Value, json};

use super::health::exec_check;
use super::*;
use crate::actors::machine::Kind;
use crate::config::spec::{ConsulAddress, Limit, StopBudget, WatchSpec, WatchTarget};
use crate::messages::control::{ControlJob, JobOrder, Reload, SetMaintenance};
use crate::messages::discovery::{
    Found, Query, QueryFailure, QueryReply, QueryTarget, Registration, RemoveWatch, ServiceStatus,
};
use crate::replay;

/// Whether every story is recorded and replayed.
pub fn are_all_recorded() -> bool {
    std::env::var_os("CONTAINERPILOT_RECORD_TESTS").is_some_and(|value| value == "1")
}

/// Plays a story, and returns its record too.
pub fn play_recorded<Story, Told>(
    spec: Spec,
    manners: &[(&str, Manner)],
    story: Story,
) -> ((u8, Scene), Vec<u8>)
where
    Story: FnOnce(Scene) -> Told,
    Told: Future<Output = ()> + 'static,
{
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("record");
    let recording = Recording::create(&path, &slog::Logger::root(slog::Discard, slog::o!())).unwrap();
    let ended = play_into(Some(recording.clone()), spec, manners, story);
    recording.close(Duration::from_secs(30));
    (ended, fs::read(path).unwrap())
}

/// Fails if the machines of a record decide otherwise now.
pub fn assert_same_actions(record: &[u8]) {
    if let Err(failure) = replay::run(record) {
        panic!("{failure}");
    }
}

/// A story with something of everything that needs no Consul.
fn whole_story() -> Vec<u8> {
    let mut app = job("app");
    (app.restarts, app.health) = (Limit::Unlimited, vec![exec_check("check", 300)]);
    app.stop.drain = Duration::from_millis(20);
    let mut hook = triggered("hook", Trigger::Each(event("app", EventCode::Stopping)));
    hook.when.timeout = Some(Duration::from_secs(50));
    let mut timed = triggered("timed", Trigger::Interval(Duration::from_millis(700)));
    timed.timeout = Some(Duration::from_millis(100));
    let mut first = spec(vec![app.clone(), hook.clone(), timed, job("crash"), job("gone")]);
    first.stop_timeout = StopBudget::Within(Duration::from_secs(4));
    app.execution.env = vec![("MODE".into(), Some("blue".into()))];
    let next = spec(vec![app, hook, triggered("late", Trigger::Once(event("app", EventCode::Healthy)))]);
    let manners = [
        ("app", Manner::Litters(200)),
        ("check", Manner::Ends(0, 1)),
        ("hook", Manner::Ends(0, 50)),
        ("timed", Manner::Stubborn),
        ("crash", Manner::Ends(3, 10)),
        ("gone", Manner::Missing),
    ];
    let (_, record) = play_recorded(first, &manners, |scene| async move {
        scene.wait(1500).await;
        let order = |order| ControlJob { name: "app".into(), order };
        for order in [order(JobOrder::Restart), order(JobOrder::Signal(Signal::HUP)), order(JobOrder::Stop)] {
            let _ = scene.pilot.send(order).await;
            scene.wait(500).await;
        }
        let _ = scene.pilot.send(order(JobOrder::Start)).await;
        scene.pilot.send(SetMaintenance(true)).await.unwrap();
        scene.wait(400).await;
        scene.pilot.send(SetMaintenance(false)).await.unwrap();
        *scene.next.lock().unwrap() = next;
        for dry_run in [true, false] {
            scene.pilot.send(Reload { restart_all: false, dry_run }).await.unwrap().unwrap();
        }
        scene.wait(1000).await;
        scene.signal(Signal::TERM);
        scene.wait(10).await;
        scene.signal(Signal::TERM);
    });
    record
}

#[test]
fn the_record_of_a_story_replays_to_the_same_actions() {
    let record = whole_story();
    let summary = replay::run(&record[..]).unwrap();
    assert!(summary.steps > 200 && summary.machines >= 8, "{summary:?}");
    assert_eq!(summary.end.as_deref(), Some("the program ended"));
}

#[test]
fn a_record_that_was_cut_off_anywhere_replays_up_to_there() {
    let record = whole_story();
    let first_line = record.iter().position(|byte| *byte == b'\n').unwrap();
    for end in (first_line + 1..record.len()).step_by(499) {
        let summary = replay::run(&record[..end]).unwrap();
        assert_eq!(summary.end, None);
    }
}

/// Everything in a value that has no parts of its own.
fn parts<'a>(value: &'a mut Value, found: &mut Vec<&'a mut Value>) {
    let is_leaf = !matches!(value, Value::Object(_)) && value.as_array().is_none_or(Vec::is_empty);
    match value {
        leaf if is_leaf => found.push(leaf),
        Value::Object(fields) => fields.values_mut().for_each(|field| parts(field, found)),
        Value::Array(items) => items.iter_mut().for_each(|item| parts(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Numbers at the edges of types, and values of other types.
fn odd_values() -> Vec<Value> {
    let numbers = [0, 1, -1, i64::from(u8::MAX), i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX];
    let mut values: Vec<Value> = numbers.into_iter().map(Value::from).collect();
    values.extend([json!(u64::MAX), json!(u32::MAX), json!(999_999_999), json!(1e308), json!(-1e308)]);
    values.extend([json!(1e-308), json!(null), json!(true), json!(""), json!("x"), json!([]), json!({})]);
    values
}

/// How many records are tried; `HOSTILE_RECORDS=100000` tries more.
fn tries() -> u32 {
    std::env::var("HOSTILE_RECORDS").ok().and_then(|number| number.parse().ok()).unwrap_or(256)
}

/// The lines of each machine: its state and its inputs. Without the recorded actions, nothing differs, and the replay goes on
/// to the end.
fn lines_by_machine() -> Vec<Vec<Value>> {
    let mut machines: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for line in String::from_utf8(whole_story()).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let number = line.get("machine").or_else(|| line.get("input")).map(|line| &line["number"]);
        if let Some(number) = number {
            machines.entry(number.as_u64().unwrap()).or_default().push(line);
        }
    }
    machines.into_values().chain([consul_agent_lines(), watch_lines()]).collect()
}

/// The lines of a machine with this state and these inputs.
fn lines(kind: Kind, state: &impl Serialize, inputs: &[impl Serialize]) -> Vec<Value> {
    let machine = json!({"machine": {"number": 1, "kind": kind, "name": "", "state": state}});
    let inputs = inputs.iter().zip(1..).map(|(input, second): (_, u64)| {
        json!({"input": {"number": 1, "at": second * 1_000_000_000, "input": input}})
    });
    [machine].into_iter().chain(inputs).collect()
}

fn consul_agent_lines() -> Vec<Value> {
    use crate::actors::consul_agent::machine::outage::Trouble;
    use crate::actors::consul_agent::machine::reconcile::Call;
    use crate::actors::consul_agent::machine::{CallFailure, Input, Link, State};
    let id: Arc<str> = "app-1".into();
    let second = Duration::from_secs(1);
    let registration = Registration {
        id: Arc::clone(&id),
        name: "app".into(),
        address: [127, 0, 0, 1].into(),
        port: 80,
        tags: vec![],
        meta: vec![],
        enable_tag_override: false,
        heartbeat: second,
        ttl: second,
        deregister_critical_after: None,
    };
    let caller: Arc<str> = "watch.db".into();
    let query = Query {
        caller: Arc::clone(&caller),
        generation: 0,
        target: QueryTarget::Key("k".into()),
        datacentre: None,
        newer_than: Some((1, second)),
        interval: second,
    };
    let failure = CallFailure { trouble: Trouble::Unreachable, is_unknown: false, reason: "refused".into() };
    let reply = QueryReply { found: vec![], index: Some(1) };
    let address = ConsulAddress::Tcp { tls: false, host: "consul".into(), port: 8500 };
    let link = |number| Link { number, address: Some(address.clone()) };
    let called = |call, result| Input::CallEnded { id: Arc::clone(&id), call, link: 0, result, random: 0.5 };
    let asked =
        |number, result| Input::QueryEnded { caller: Arc::clone(&caller), number, result, random: 0.5 };
    let inputs = [
        Input::StartedUp,
        Input::Advertised(Arc::new(registration.clone()), ServiceStatus::Passing),
        called(Call::Register(0, ServiceStatus::Passing), Err(failure.clone())),
        Input::TimerElapsed { id: Arc::clone(&id), is_heartbeat: false },
        called(Call::Register(0, ServiceStatus::Passing), Ok(())),
        Input::QueryRequested { number: 1, query: query.clone(), random: 0.5 },
        asked(1, Err(failure)),
        Input::PauseElapsed { caller: Arc::clone(&caller), number: 1 },
        Input::QueryRequested { number: 2, query, random: 0.5 },
        asked(2, Ok(reply)),
        Input::MaintenanceChanged(true),
        called(Call::Deregister, Ok(())),
        Input::MaintenanceChanged(false),
        Input::Reconnected(link(1)),
        Input::OwnServiceChanged(Some(registration)),
        Input::Withdrawn { id: Arc::clone(&id), waiter: Some(1) },
        Input::WithdrawalLimitElapsed(Arc::clone(&id), 1),
        Input::AllWithdrawn { waiter: 2 },
        Input::WatchRemoved(RemoveWatch { caller, generation: 0 }),
        Input::ShuttingDown,
    ];
    lines(Kind::ConsulAgent, &State::new(link(0), None), &inputs)
}

fn watch_lines() -> Vec<Value> {
    use crate::actors::watch::machine::{Input, State};
    let second = Duration::from_secs(1);
    let target = WatchTarget::Service { service: "db".into(), tag: None };
    let spec =
        WatchSpec { name: "db".into(), target, interval: second, datacentre: None, after_coprocesses: false };
    let found = |port| Found::Instance { id: "db-1".into(), address: "10.0.0.1".into(), port };
    let replied = |found, index| Input::Replied(Ok(QueryReply { found, index }));
    let mut inputs = vec![Input::Begun];
    for round in 0..20 {
        inputs.push(replied(vec![found(round % 3)], Some(u64::from(round / 2))));
        inputs.push(Input::PauseElapsed);
    }
    inputs.extend([
        replied(vec![], None),
        Input::PauseElapsed,
        Input::Replied(Err(QueryFailure::Cut(second))),
        Input::Replied(Err(QueryFailure::Failed)),
        Input::Retired,
    ]);
    lines(Kind::Watch, &State::new(spec, 0), &inputs)
}

#[test]
fn no_value_in_a_record_makes_a_machine_panic() {
    let (machines, odd) = (lines_by_machine(), odd_values());
    let header = json!({"record": {"format": 1, "program": "0"}});
    let text = |lines: &[Value]| -> String {
        [&header].into_iter().chain(lines).map(|line| format!("{line}\n")).collect()
    };
    for lines in &machines {
        replay::run(text(lines).as_bytes()).unwrap();
    }
    let change = (any::<bool>(), any::<Index>(), any::<Index>(), any::<Index>());
    let changes = proptest::collection::vec(change, 1..4);
    proptest!(ProptestConfig::with_cases(tries()), |(machine in any::<Index>(), changes in changes)| {
        let mut lines = machine.get(&machines).clone();
        for (in_state, line, part, value) in changes {
            let line = if in_state { &mut lines[0] } else { line.get_mut(&mut lines) };
            let mut found = Vec::new();
            parts(line, &mut found);
            **part.get_mut(&mut found) = value.get(&odd).clone();
        }
        if let Err(failure) = replay::run(text(&lines).as_bytes()) {
            prop_assert!(!failure.to_string().contains("panicked"), "{failure}");
        }
    });
}
