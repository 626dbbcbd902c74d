//! Stories of what users do to members and whole groups.

use super::*;
use crate::messages::job::GroupOrder;

#[test]
fn a_member_that_is_started_by_hand_has_those_after_it_restarted() {
    let mut story = Story::running(standard(Strategy::RestForOne));
    story.group.stop_by_hand("app");
    story.report("app", Phase::Halted, false, false);
    story.text.clear();
    story.group.start_by_hand("app");
    story.go_on();
    assert_eq!(story.told()[..3], ["web stops", "app starts, and is ready", "web starts, and is ready"]);
}

#[test]
fn a_restart_by_hand_is_not_counted() {
    let mut story = Story::running(group(Strategy::OneForAll, Limit::Finite(0), OnExhausted::Shutdown));
    story.group.restart_by_hand("db");
    story.go_on();
    let stops: Vec<&str> = story.told().into_iter().filter(|line| line.ends_with("stops")).collect();
    assert_eq!(stops, ["web stops", "app stops", "db stops"]);
    assert!(!story.text.contains("gives up"));
}

#[test]
fn a_whole_group_is_stopped_last_first_and_started_first_first() {
    let mut story = Story::running(standard(Strategy::OneForOne));
    story.group.stop_all();
    story.go_on();
    let stops = ["web stops, by hand", "app stops, by hand", "db stops, by hand", "group.all stopped"];
    assert_eq!(story.told(), stops);
    story.text.clear();
    story.group.start_all();
    story.go_on();
    assert!(story.told()[0].starts_with("db starts"));
    assert_eq!(story.told().last(), Some(&"group.all ready"));
}

#[test]
fn the_start_of_a_whole_group_leaves_members_that_run_alone() {
    let mut story = Story::running(standard(Strategy::OneForOne));
    story.group.stop_by_hand("app");
    story.report("app", Phase::Halted, false, false);
    story.text.clear();
    story.group.start_all();
    story.go_on();
    assert_eq!(story.told(), ["app starts, and is ready", "group.all ready"]);
}

#[test]
fn a_member_whose_turn_to_stop_has_not_come_is_about_to_change() {
    let mut group = Story::running(standard(Strategy::OneForOne)).group;
    assert!(!group.is_about_to_change("db"));
    group.stop_all();
    assert!(group.is_about_to_change("db"));
}

#[test]
fn a_whole_group_is_restarted_last_first_and_what_was_stopped_starts_too() {
    let mut story = Story::running(standard(Strategy::OneForOne));
    story.group.stop_by_hand("app");
    story.report("app", Phase::Halted, false, false);
    story.text.clear();
    story.group.restart_all();
    story.go_on();
    let starts = NAMES.map(|name| format!("{name} starts, and is ready"));
    let stops = ["web stops", "db stops"].map(str::to_owned);
    assert_eq!(story.told(), [&stops[..], &starts[..], &["group.all ready".to_owned()]].concat());
}

#[test]
fn a_member_that_was_stopped_before_its_turn_in_a_restart_is_started() {
    let running = Place { phase: Phase::Running, ready: true, ..place(true) };
    let mut group = Group::new(Arc::new(standard(Strategy::OneForOne)), vec![running; 3]);
    let told = |group: &mut Group, name: &str, phase: Phase| {
        let change = JobChanged { last_status: Some(0), ..changed(name, 0, phase) };
        group.note(Moment::default(), &change);
        let tell =
            |action| if let Action::Tell(name, command) = action { Some((name, command)) } else { None };
        group.go_on().into_iter().find_map(tell)
    };
    group.restart_all();
    assert_eq!(told(&mut group, "app", Phase::Halted), Some(("web".into(), JobCommand::Restart)));
    assert_eq!(told(&mut group, "web", Phase::Queued), Some(("app".into(), JobCommand::Start)));
    assert!(group.place("app").is_some_and(|place| place.succeeded));
}

#[test]
fn a_member_that_is_started_while_it_stops_or_waits_for_a_restart_runs_again() {
    for phase in [Phase::Terminating, Phase::Ending, Phase::Sweeping, Phase::Delayed] {
        let mut story = Story::running(standard(Strategy::OneForOne));
        story.report("app", phase, false, false);
        story.text.clear();
        story.group.start_by_hand("app");
        story.go_on();
        assert_eq!(story.told()[..2], ["app stops", "app starts, and is ready"], "{phase}");
    }
}

#[test]
fn a_member_that_is_stopped_and_started_while_it_is_queued_runs() {
    let mut story = Story::of(standard(Strategy::OneForOne));
    story.report("app", Phase::Queued, false, false);
    story.group.stop_by_hand("app");
    story.group.start_by_hand("app");
    story.report("app", Phase::Halted, false, false);
    story.text.clear();
    story.report("db", Phase::Queued, false, false);
    assert_eq!(story.told()[..2], ["db starts, and is ready", "app starts, and is ready"]);
}

#[test]
fn a_member_that_is_started_before_the_stop_of_its_group_comes_to_it_runs() {
    let ended = |group: &mut Group, name: &str| {
        group.note(Moment::default(), &changed(name, 0, Phase::Halted));
    };
    let order = GroupOrder { number: 1, cause: None };
    let commands = [(Phase::Queued, JobCommand::Proceed(order)), (Phase::Running, JobCommand::Restart)];
    for (phase, command) in commands {
        let running = Place { phase: Phase::Running, ready: true, ..place(true) };
        let places = vec![Place { phase, ..running }, running, running];
        let mut group = Group::new(Arc::new(standard(Strategy::OneForOne)), places);
        group.stop_all();
        assert_eq!(told(&mut group), [("web".into(), JobCommand::Halt)]);
        group.start_by_hand("db");
        ended(&mut group, "web");
        assert_eq!(told(&mut group), [("app".into(), JobCommand::Halt)]);
        ended(&mut group, "app");
        assert_eq!(told(&mut group), [("db".into(), command)], "{phase}");
    }
}

#[test]
fn a_group_that_is_started_while_it_is_stopped_starts_anew_in_its_order() {
    for strategy in [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne] {
        let mut story = Story::running(standard(strategy));
        story.report("db", Phase::Complete, false, false);
        story.text.clear();
        story.group.stop_all();
        story.group.start_all();
        story.go_on();
        let starts = NAMES.map(|name| format!("{name} starts, and is ready"));
        let stops = ["web stops", "app stops"].map(str::to_owned);
        assert_eq!(story.told()[..5], [&stops[..], &starts[..]].concat(), "{strategy:?}");
    }
}

/// The members that are told something, and what.
fn told(group: &mut Group) -> Vec<(Arc<str>, JobCommand)> {
    let tell = |action| if let Action::Tell(name, command) = action { Some((name, command)) } else { None };
    group.go_on().into_iter().filter_map(tell).collect()
}

#[test]
fn a_stop_of_a_group_takes_back_the_start_of_a_member() {
    let running = Place { phase: Phase::Running, ready: true, ..place(true) };
    let halted = Place { phase: Phase::Halted, ..place(true) };
    // A start that is due: the stop of another member is waited for.
    let mut group = Group::new(Arc::new(standard(Strategy::OneForOne)), vec![halted, running, running]);
    assert!(group.stop_by_hand("web"));
    group.start_by_hand("db");
    assert!(told(&mut group).is_empty() && group.is_about_to_change("db"));
    group.stop_all();
    assert!(!group.is_about_to_change("db"));
    group.note(Moment::default(), &changed("web", 0, Phase::Halted));
    assert_eq!(told(&mut group), [("app".into(), JobCommand::Halt)]);
    group.note(Moment::default(), &changed("app", 0, Phase::Halted));
    assert!(told(&mut group).is_empty() && !group.is_occupied());
    // A start that it was told of.
    let mut group = Group::new(Arc::new(standard(Strategy::OneForOne)), vec![halted; 3]);
    group.start_all();
    assert_eq!(told(&mut group), [("web".into(), JobCommand::Start)]);
    group.stop_all();
    group.note(Moment::default(), &changed("web", 0, Phase::Queued));
    assert_eq!(told(&mut group), [("web".into(), JobCommand::Halt)]);
    group.note(Moment::default(), &changed("web", 0, Phase::Halted));
    assert!(told(&mut group).is_empty() && !group.is_occupied());
}

#[test]
fn a_stop_of_a_member_takes_back_its_start() {
    let running = Place { phase: Phase::Running, ready: true, ..place(true) };
    let halted = Place { phase: Phase::Halted, ..place(true) };
    let mut group = Group::new(Arc::new(standard(Strategy::OneForOne)), vec![halted, running, running]);
    group.stop_by_hand("web");
    group.start_by_hand("db");
    assert!(!group.stop_by_hand("db"), "it was not told to start yet");
    group.note(Moment::default(), &changed("web", 0, Phase::Halted));
    assert!(told(&mut group).is_empty() && !group.is_occupied());
    group.start_by_hand("db");
    assert_eq!(told(&mut group), [("db".into(), JobCommand::Start)]);
    assert!(group.stop_by_hand("db"), "it has to be told");
    group.note(Moment::default(), &changed("db", 0, Phase::Queued));
    assert!(told(&mut group).is_empty(), "it was told");
    group.note(Moment::default(), &changed("db", 0, Phase::Halted));
    assert!(told(&mut group).is_empty() && !group.is_occupied());
}
