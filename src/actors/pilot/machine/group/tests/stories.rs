//! Stories of each strategy: a member ends, and this is what the others are told. `docs/groups-table.txt` is printed from
//! here and kept equal by a test.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use super::super::{Action, Group, Place};
use crate::actors::pilot::machine::tests::changed;
use crate::config::spec::{GroupSpec, Limit, OnExhausted, Strategy};
use crate::messages::event::EventCode;
use crate::messages::health::Health;
use crate::messages::job::{JobChanged, JobCommand, Missing, Phase};
use crate::messages::moment::Moment;

mod by_hand;

/// A group of three whose jobs do at once what they are told; it writes down what happens.
struct Story {
    group: Group,
    now: Moment,
    orders: [u64; 3],
    text: String,
}

const NAMES: [&str; 3] = ["db", "app", "web"];

fn group(strategy: Strategy, limit: Limit, on_exhausted: OnExhausted) -> GroupSpec {
    let (name, jobs, per) = (Arc::from("all"), NAMES.map(Arc::from).to_vec(), Duration::from_secs(30));
    GroupSpec { name, jobs, strategy, limit, per, on_exhausted }
}

fn place(starts_at_once: bool) -> Place {
    Place {
        phase: Phase::Waiting,
        ready: false,
        health: Health::Unknown,
        is_checked: false,
        succeeded: false,
        starts_at_once,
        ordered: 0,
        due: None,
        told: None,
    }
}

impl Story {
    fn of(spec: GroupSpec) -> Self {
        let places = vec![place(true); 3];
        let group = Group::new(Arc::new(spec), places);
        Self { group, now: Moment::default(), orders: [0; 3], text: String::new() }
    }

    /// One whose members all run and are ready.
    fn running(spec: GroupSpec) -> Self {
        let mut story = Self::of(spec);
        for name in NAMES {
            story.report(name, Phase::Queued, false, false);
        }
        story.text.clear();
        story
    }

    fn report(&mut self, name: &str, phase: Phase, ready: bool, is_restart: bool) {
        let index = NAMES.iter().position(|it| *it == name).unwrap();
        let change = JobChanged {
            name: Arc::from(name),
            generation: 0,
            phase,
            returns: false,
            health: Health::Unknown,
            ready,
            missing: Missing::Nothing,
            last_status: Some(1),
            answers: None,
            is_restart,
            group_order: self.orders[index],
            cause: None,
        };
        let mut actions = self.group.note(self.now, &change);
        actions.extend(self.group.go_on());
        self.perform(actions);
    }

    fn go_on(&mut self) {
        let actions = self.group.go_on();
        self.perform(actions);
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Tell(name, command) => self.obey(&name, command),
                Action::Publish(code) => self.write(&format!("group.all {}", code.config_name())),
                Action::Note(text) => self.write(&format!("log: {text}")),
                Action::GiveUp { chain, shuts_down, .. } => {
                    let what = if shuts_down { "the program shuts down" } else { "the members complete" };
                    self.write(&format!("gives up, {what}: {chain}"));
                }
            }
        }
    }

    fn obey(&mut self, name: &str, command: JobCommand) {
        let index = NAMES.iter().position(|it| *it == name).unwrap();
        match command {
            JobCommand::Requeue(order) => {
                self.orders[index] = order.number;
                self.write(&format!("{name} stops"));
                self.report(name, Phase::Queued, false, false);
            }
            JobCommand::Proceed(order) => {
                self.orders[index] = order.number;
                self.write(&format!("{name} starts, and is ready"));
                self.report(name, Phase::Running, true, false);
            }
            JobCommand::Restart => {
                self.write(&format!("{name} stops"));
                self.report(name, Phase::Queued, false, false);
            }
            JobCommand::Start => self.report(name, Phase::Queued, false, false),
            JobCommand::Halt => {
                self.write(&format!("{name} stops, by hand"));
                self.report(name, Phase::Halted, false, false);
            }
            JobCommand::Stop { .. } => {
                self.write(&format!("{name} completes"));
                self.report(name, Phase::Complete, false, false);
            }
            JobCommand::Answer(_)
            | JobCommand::GiveUp { .. }
            | JobCommand::Hurry
            | JobCommand::Kill
            | JobCommand::Signal(_)
            | JobCommand::Forward(_)
            | JobCommand::Maintain(_)
            | JobCommand::Retire => panic!("a group does not say {command:?}"),
        }
    }

    fn write(&mut self, line: &str) {
        writeln!(self.text, "  {line}").unwrap();
    }

    fn ends(&mut self, name: &str) {
        self.write(&format!("{name} ends with status 1"));
        self.report(name, Phase::Queued, false, true);
    }

    fn told(&self) -> Vec<&str> {
        self.text.lines().map(str::trim).collect()
    }
}

fn standard(strategy: Strategy) -> GroupSpec {
    group(strategy, Limit::Finite(3), OnExhausted::Shutdown)
}

#[test]
fn members_start_in_the_order_of_the_list_whoever_is_triggered_first() {
    let mut story = Story::of(standard(Strategy::OneForAll));
    story.report("web", Phase::Queued, false, false);
    story.report("app", Phase::Queued, false, false);
    assert_eq!(story.told(), [""; 0]);
    story.report("db", Phase::Queued, false, false);
    let starts = ["db starts, and is ready", "app starts, and is ready", "web starts, and is ready"];
    assert_eq!(story.told(), [starts.as_slice(), &["group.all ready"]].concat());
}

#[test]
fn a_member_that_waits_for_an_event_lets_the_others_pass() {
    let spec = Arc::new(standard(Strategy::OneForAll));
    let group = Group::new(spec, vec![place(false), place(true), place(true)]);
    let mut story = Story { group, now: Moment::default(), orders: [0; 3], text: String::new() };
    story.report("app", Phase::Queued, false, false);
    assert_eq!(story.told(), ["app starts, and is ready"]);
}

#[test]
fn a_member_that_stops_lets_nobody_pass_until_it_is_over() {
    let stops = Place { phase: Phase::Draining, ready: true, ..place(true) };
    let queued = Place { phase: Phase::Queued, ..place(true) };
    let begun = |next| {
        let group = Group::new(Arc::new(standard(Strategy::RestForOne)), vec![stops, queued, place(true)]);
        let mut story = Story { group, now: Moment::default(), orders: [0; 3], text: String::new() };
        story.go_on();
        assert_eq!(story.told(), [""; 0]);
        story.report("db", next, false, false);
        story.text
    };
    let restarted = begun(Phase::Queued);
    assert!(restarted.contains("db starts") && restarted.find("db starts") < restarted.find("app starts"));
    let halted = begun(Phase::Halted);
    assert!(halted.contains("app starts") && !halted.contains("db starts"), "{halted}");
}

#[test]
fn one_for_one_restarts_the_member_alone() {
    let mut story = Story::running(standard(Strategy::OneForOne));
    story.ends("app");
    let told = story.told();
    assert_eq!(told[1], "log: restarts app, which ended with status 1");
    assert_eq!(told[2..], ["app starts, and is ready", "group.all ready"]);
}

#[test]
fn one_for_all_stops_all_last_first_and_starts_all_first_first() {
    let mut story = Story::running(standard(Strategy::OneForAll));
    story.ends("app");
    let told = story.told();
    assert_eq!(told[1], "log: restarts app, which ended with status 1, and with it db, web");
    assert_eq!(told[2..4], ["web stops", "db stops"]);
    assert!(told[4].starts_with("db starts") && told[5].starts_with("app starts"));
    assert!(told[6].starts_with("web starts"));
}

#[test]
fn rest_for_one_restarts_those_listed_after_it() {
    let mut story = Story::running(standard(Strategy::RestForOne));
    story.ends("app");
    let told = story.told();
    assert_eq!(told[2..5], ["web stops", "app starts, and is ready", "web starts, and is ready"]);
}

#[test]
fn a_group_gives_up_at_the_restart_after_the_last_one_within_the_time() {
    let spec = group(Strategy::OneForOne, Limit::Finite(2), OnExhausted::Shutdown);
    let mut story = Story::running(spec.clone());
    for _ in 0..2 {
        story.ends("db");
    }
    assert!(!story.text.contains("gives up"));
    story.now = story.now.plus(Duration::from_secs(29));
    story.ends("app");
    assert!(
        story.text.contains("gives up, the program shuts down: db ended with status 1 (29s ago), then db")
    );
    assert!(story.text.contains("group.all exitFailed"));
    let mut patient = Story::running(spec);
    for _ in 0..5 {
        patient.ends("db");
        patient.now = patient.now.plus(Duration::from_secs(15));
    }
    assert!(!patient.text.contains("gives up"));
}

#[test]
fn a_group_that_stops_completes_all_its_members_last_first() {
    let mut story = Story::running(group(Strategy::OneForOne, Limit::Finite(0), OnExhausted::Stop));
    story.ends("db");
    let told = story.told();
    assert_eq!(told[3..], ["web completes", "app completes", "db completes", "group.all stopped"]);
}

#[test]
fn members_that_were_stopped_anyway_are_not_said_to_be_restarted_with_another() {
    let mut story = Story::running(standard(Strategy::OneForAll));
    story.group.stop_by_hand("db");
    story.report("db", Phase::Halted, false, false);
    story.text.clear();
    story.ends("app");
    assert_eq!(story.told()[1], "log: restarts app, which ended with status 1, and with it web");
}

#[test]
fn the_end_of_a_member_counts_once_even_if_it_is_stopped_before_its_turn() {
    let mut story = Story::running(standard(Strategy::OneForOne));
    let ended = |phase| JobChanged { is_restart: true, ..changed("app", 0, phase) };
    story.group.note(Moment::default(), &JobChanged { group_order: 1, ..ended(Phase::Queued) });
    for phase in [Phase::Halted, Phase::Halted, Phase::Complete] {
        story.group.note(Moment::default(), &JobChanged { group_order: 1, ..ended(phase) });
    }
    assert_eq!(story.group.status().restarts, 1);
}

#[test]
fn a_group_that_gave_up_has_all_its_restarts_again_when_somebody_starts_it() {
    let mut story = Story::running(group(Strategy::OneForOne, Limit::Finite(1), OnExhausted::Stop));
    story.ends("db");
    story.ends("db");
    assert!(story.text.contains("gives up") && story.group.status().has_given_up);
    story.group.start_all();
    story.go_on();
    assert!(!story.group.status().has_given_up);
    story.text.clear();
    story.ends("db");
    assert!(!story.text.contains("gives up"), "{}", story.text);
    story.ends("db");
    assert!(story.text.contains("gives up"), "{}", story.text);
}

#[test]
fn the_printed_stories_are_those_of_the_machine() {
    let mut table = String::from("What a group of the jobs db, app and web does. Printed from the code.\n");
    let strategies = [
        (Strategy::OneForOne, "oneForOne"),
        (Strategy::OneForAll, "oneForAll"),
        (Strategy::RestForOne, "restForOne"),
    ];
    for (strategy, name) in strategies {
        for job in NAMES {
            let mut story = Story::running(standard(strategy));
            story.ends(job);
            write!(table, "\n{name}:\n{}", story.text).unwrap();
        }
    }
    for (on_exhausted, name) in [(OnExhausted::Shutdown, "shutdown"), (OnExhausted::Stop, "stop")] {
        let mut story = Story::running(group(Strategy::OneForOne, Limit::Finite(1), on_exhausted));
        story.ends("app");
        story.now = story.now.plus(Duration::from_secs(2));
        story.ends("db");
        write!(table, "\noneForOne, limit: 1, onExhausted: \"{name}\":\n{}", story.text).unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/groups-table.txt");
    if std::env::var_os("UPDATE_TABLE").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(path).unwrap_or_default(),
        table,
        "run: UPDATE_TABLE=1 cargo test --lib printed_stories"
    );
}

#[test]
fn the_events_of_a_group_tell_what_became_true_of_all() {
    let checked = Place { is_checked: true, ..place(true) };
    let spec = Arc::new(standard(Strategy::OneForOne));
    let facts = |places: &[Place]| {
        let mut group = Group::new(Arc::clone(&spec), vec![place(true); 3]);
        group.places = places.to_vec();
        group
            .go_on()
            .into_iter()
            .filter_map(|action| match action {
                Action::Publish(code) => Some(code),
                Action::Tell(..) | Action::Note(_) | Action::GiveUp { .. } => None,
            })
            .collect::<Vec<_>>()
    };
    let runs = |health| Place { phase: Phase::Running, ready: true, health, ..checked };
    assert_eq!(
        facts(&[runs(Health::Healthy), runs(Health::Healthy), runs(Health::Healthy)]),
        [EventCode::Ready, EventCode::Healthy]
    );
    assert_eq!(
        facts(&[runs(Health::Healthy), runs(Health::Unhealthy), runs(Health::Unknown)]),
        [EventCode::Ready, EventCode::Unhealthy]
    );
    let waits = Place { phase: Phase::Waiting, ..place(true) };
    assert_eq!(facts(&[runs(Health::Healthy), waits, runs(Health::Healthy)]), [EventCode::Healthy]);
    let done = Place { phase: Phase::Complete, succeeded: true, ..place(true) };
    assert_eq!(
        facts(&[done, runs(Health::Healthy), runs(Health::Healthy)]),
        [EventCode::Ready, EventCode::Healthy]
    );
    let over = Place { phase: Phase::Halted, ..place(true) };
    assert_eq!(facts(&[done, over, over]), [EventCode::Stopped]);
}
