use super::*;
use crate::messages::process::Unstarted;

mod leftovers;
mod model;
mod orphans;
mod starts;

fn ms(milliseconds: u64) -> Moment {
    Moment::after(Duration::from_millis(milliseconds))
}

fn id(number: u64) -> ExecutionId {
    ExecutionId(number)
}

fn pid(number: i32) -> Pid {
    Pid::new(number).unwrap()
}

fn job(name: &str) -> Name {
    Name { label: name.into(), job: Some((name.into(), name.to_owned())) }
}

fn check(label: &str) -> Name {
    Name { label: label.into(), job: None }
}

fn killed() -> ExitStatus {
    ExitStatus::Signal { signal: Signal::KILL, core_dumped: false }
}

/// The execution 1 of the job `app`, whose start is under way.
fn starting() -> State {
    let mut state = State::new(Some(0));
    assert_eq!(state.step(ms(0), Input::LaunchAsked(id(1), job("app"))), [Action::Spawn(id(1))]);
    state
}

/// The same, running as process 7.
fn running() -> State {
    let mut state = starting();
    let told = Action::TellStarted(ProcessStarted { execution: id(1), pid: pid(7) });
    assert_eq!(state.step(ms(0), settled(1, StartOutcome::Started(pid(7)))), [told]);
    state
}

/// The same, whose process has ended and left others in its group.
fn remaining() -> State {
    let mut state = running();
    state.step(ms(0), Input::ChildExited(pid(7), ExitStatus::Code(0)));
    assert!(ended(&state.step(ms(0), Input::Looked(group_alive()))).leftover);
    state
}

fn settled(number: u64, outcome: StartOutcome) -> Input {
    Input::SpawnSettled(id(number), outcome)
}

fn end(signal: Signal, is_cancelled: bool, pid: Option<Pid>) -> Input {
    Input::EndAsked { execution: id(1), signal, is_cancelled, pid }
}

fn group_alive() -> Survey {
    Survey { groups: [pid(7)].into(), ..Survey::default() }
}

fn signal(signal: Signal, leader_lives: bool) -> Action {
    Action::Signal { execution: id(1), group: pid(7), signal, leader_lives }
}

fn ended(actions: &[Action]) -> &ProcessEnded {
    let end =
        actions.iter().find_map(|action| if let Action::TellEnded(end) = action { Some(end) } else { None });
    end.unwrap_or_else(|| panic!("no end is told: {actions:?}"))
}

fn was_cancelled(actions: &[Action]) -> bool {
    let ended = ended(actions);
    (ended.pid, &ended.unstarted) == (None, &Some(Unstarted::Cancelled))
}

#[test]
fn a_job_that_ctrl_z_stopped_goes_on_since_no_shell_could_continue_it() {
    let mut state = running();
    let actions = state.step(ms(0), Input::ChildStopped(pid(7), Signal::TSTP));
    assert_eq!(actions.first(), Some(&Action::SignalGroup(pid(7), Signal::CONT)));
    assert!(matches!(actions.get(1), Some(Action::Log(Severity::Info, Some(label), _)) if **label == *"app"));
    assert_eq!(state.step(ms(0), Input::ChildStopped(pid(7), Signal::CONT)), []);
    assert_eq!(state.step(ms(0), Input::ChildStopped(pid(8), Signal::TSTP)), [], "it is none of ours");
}

#[test]
fn the_group_of_an_execution_is_known_from_its_start_until_its_end_is_told() {
    assert_eq!(starting().group_of(id(1)), None);
    let mut state = running();
    assert_eq!((state.group_of(id(1)), state.group_of(id(2))), (Some(pid(7)), None));
    state.step(ms(0), Input::ChildExited(pid(7), ExitStatus::Code(0)));
    assert_eq!((state.group_of(id(1)), state.group_of(id(2))), (Some(pid(7)), None));
}
