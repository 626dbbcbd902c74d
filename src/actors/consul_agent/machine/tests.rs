use super::*;
use crate::messages::discovery::{Found, QueryTarget, RemoveWatch};

mod asking;
mod outages;
mod registering;

const HEARTBEAT: Duration = Duration::from_secs(5);

fn ms(milliseconds: u64) -> Moment {
    Moment::after(Duration::from_millis(milliseconds))
}

fn address(port: u16) -> Option<ConsulAddress> {
    Some(ConsulAddress::Tcp { tls: false, host: "127.0.0.1".to_owned(), port })
}

fn agent() -> State {
    State::new(Link { number: 0, address: address(1) }, None)
}

fn registration(id: &str) -> Registration {
    Registration {
        id: id.into(),
        name: id.to_owned(),
        address: "127.0.0.1".parse().unwrap(),
        port: 80,
        tags: vec![],
        meta: vec![],
        enable_tag_override: false,
        heartbeat: HEARTBEAT,
        ttl: 3 * HEARTBEAT,
        deregister_critical_after: None,
    }
}

fn advertised(id: &str, status: ServiceStatus) -> Input {
    Input::Advertised(Arc::new(registration(id)), status)
}

fn failure(trouble: Trouble) -> CallFailure {
    CallFailure { trouble, is_unknown: trouble == Trouble::Answered(404), reason: format!("{trouble:?}") }
}

/// The call that is to be made, if one is.
fn call(actions: &[Action]) -> Option<(Arc<str>, Call, u64)> {
    actions.iter().find_map(|action| {
        if let Action::Call(registration, call, link) = action {
            Some((Arc::clone(&registration.id), *call, *link))
        } else {
            None
        }
    })
}

fn calls(actions: &[Action]) -> Vec<Call> {
    let call = |action: &Action| {
        if let Action::Call(_, call, _) = action { Some(*call) } else { None }
    };
    actions.iter().filter_map(call).collect()
}

/// Ends the call that these actions ask for.
fn end(state: &mut State, now: Moment, actions: &[Action], result: Result<(), Trouble>) -> Vec<Action> {
    let (id, call, link) = call(actions).expect("a call");
    state.step(now, Input::CallEnded { id, call, link, result: result.map_err(failure), random: 1.0 })
}

/// Ends every call with success, until none follows; returns the last actions.
fn settle(state: &mut State, now: Moment, mut actions: Vec<Action>) -> Vec<Action> {
    while call(&actions).is_some() {
        actions = end(state, now, &actions, Ok(()));
    }
    actions
}

/// An agent that has registered the service `a` as passing.
fn registered() -> State {
    let mut state = agent();
    let actions = state.step(ms(0), advertised("a", ServiceStatus::Passing));
    settle(&mut state, ms(10), actions);
    state
}

fn query(watch: &str, index: Option<u64>) -> Query {
    Query {
        caller: watch.into(),
        generation: 1,
        target: QueryTarget::Key("k".to_owned()),
        datacentre: None,
        newer_than: index.map(|index| (index, Duration::from_secs(300))),
        interval: HEARTBEAT,
    }
}

fn removed(watch: &str) -> Input {
    Input::WatchRemoved(RemoveWatch { caller: watch.into(), generation: 1 })
}

fn requested(number: u64, watch: &str, index: Option<u64>) -> Input {
    Input::QueryRequested { number, query: query(watch, index), random: 1.0 }
}

fn ended(number: u64, watch: &str, result: Result<u64, Trouble>) -> Input {
    let reply = |index| QueryReply {
        found: vec![Found::Entry { key: "k".to_owned(), digest: 1 }],
        index: Some(index),
    };
    Input::QueryEnded {
        caller: watch.into(),
        number,
        result: result.map(reply).map_err(failure),
        random: 1.0,
    }
}

fn replies(actions: &[Action]) -> Vec<(u64, Result<(), QueryFailure>)> {
    let reply = |action: &Action| {
        if let Action::Reply(number, reply) = action {
            Some((*number, reply.clone().map(drop)))
        } else {
            None
        }
    };
    actions.iter().filter_map(reply).collect()
}

fn released(actions: &[Action]) -> Vec<u64> {
    let waiter = |action: &Action| {
        if let Action::Release(waiter) = action { Some(*waiter) } else { None }
    };
    actions.iter().filter_map(waiter).collect()
}

fn remarks(actions: &[Action]) -> Vec<Remark> {
    let remark = |action: &Action| {
        if let Action::Log(remark @ (Remark::InTrouble(..) | Remark::Recovered(_) | Remark::NoTroubleLeft)) =
            action
        {
            Some(remark.clone())
        } else {
            None
        }
    };
    actions.iter().filter_map(remark).collect()
}

#[test]
fn an_agent_that_is_written_down_and_read_back_goes_on_the_same() {
    let mut state = registered();
    let calling = state.step(ms(20), advertised("b", ServiceStatus::Critical));
    let (id, call, link) = call(&calling).unwrap();
    state.step(ms(20), advertised("c", ServiceStatus::Warning));
    state.step(ms(20), Input::Withdrawn { id: "c".into(), waiter: Some(3) });
    state.step(ms(20), requested(1, "watch.a", Some(7)));
    state.step(ms(20), requested(2, "watch.b", None));
    state.step(ms(30), ended(2, "watch.b", Err(Trouble::Unreachable)));
    let own = Some(registration("own"));
    let call_ended = |result| Input::CallEnded { id: Arc::clone(&id), call, link, result, random: 0.5 };
    let inputs = [
        advertised("a", ServiceStatus::Critical),
        Input::Withdrawn { id: "a".into(), waiter: Some(4) },
        Input::AllWithdrawn { waiter: 5 },
        Input::WithdrawalLimitElapsed("c".into(), 1),
        Input::TimerElapsed { id: "a".into(), is_heartbeat: true },
        call_ended(Ok(())),
        call_ended(Err(failure(Trouble::Answered(404)))),
        call_ended(Err(failure(Trouble::Garbled))),
        Input::StartedUp,
        Input::ShuttingDown,
        Input::MaintenanceChanged(true),
        Input::OwnServiceChanged(own),
        Input::Reconnected(Link { number: 9, address: address(2) }),
        Input::Reconnected(Link { number: 9, address: None }),
        requested(6, "watch.a", None),
        ended(1, "watch.a", Ok(8)),
        ended(1, "watch.a", Err(Trouble::Unreachable)),
        Input::PauseElapsed { caller: "watch.b".into(), number: 2 },
        removed("watch.b"),
    ];
    for input in inputs {
        let text = serde_json::to_string(&(&state, &input)).unwrap();
        let (mut read, input_read): (State, Input) = serde_json::from_str(&text).unwrap();
        let mut state = state.clone();
        assert_eq!(state.step(ms(2000), input), read.step(ms(2000), input_read), "{text}");
        assert_eq!(state, read);
    }
}
