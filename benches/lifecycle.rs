//! What the pure part of a job costs for each execution: the steps from its trigger through a restart.

use std::hint::black_box;
use std::time::Duration;

use containerpilot::actors::job::machine::lifecycle::{Cadence, Ended, Input, Policy, State, step};
use containerpilot::config::spec::{BackoffSpec, Limit};
use criterion::{Criterion, criterion_group, criterion_main};

fn policy() -> Policy {
    Policy {
        cadence: Cadence::Once,
        has_window: false,
        restarts: Limit::Unlimited,
        timeout: None,
        has_process: true,
        advertised: false,
        drain: Duration::ZERO,
        backoff: BackoffSpec {
            min: Duration::ZERO,
            max: Duration::ZERO,
            factor: 2.0,
            jitter: 0.0,
            reset_after: Duration::from_secs(10),
        },
        triggers_itself: false,
        in_group: false,
    }
}

fn restart(criterion: &mut Criterion) {
    let policy = policy();
    let (running, _) = step(&policy, State::new(), Input::Triggered);
    let ended = Ended { success: true, lasted: Duration::from_millis(1) };
    criterion.bench_function("lifecycle/exit and restart", |bencher| {
        bencher.iter(|| {
            let (swept, ending) = step(&policy, black_box(running), Input::Exited(ended));
            let (again, starting) = step(&policy, swept, Input::GroupGone);
            black_box((again, ending, starting))
        });
    });
}

fn whole_life(criterion: &mut Criterion) {
    let policy = Policy { restarts: Limit::Finite(0), ..policy() };
    let ended = Ended { success: true, lasted: Duration::from_millis(1) };
    criterion.bench_function("lifecycle/trigger to complete", |bencher| {
        bencher.iter(|| {
            let inputs = [Input::Triggered, Input::Exited(ended), Input::GroupGone, Input::HoldEnded];
            inputs.into_iter().fold(State::new(), |state, input| black_box(step(&policy, state, input)).0)
        });
    });
}

criterion_group!(benches, restart, whole_life);
criterion_main!(benches);
