//! How many events a second the Registry delivers: a thousand of one job, with 10, 100 and 1,000 jobs, to the one
//! that listens or to all of them. Every delivery is handled by an actor of its own before the time is taken.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use containerpilot::actors::registry::{PilotAddress, Registry};
use containerpilot::messages::bus::{BarrierReached, Bus, Interest, Notice, Report, Subscribe};
use containerpilot::messages::event::{EventCode, EventKey, Source};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const EVENTS: u64 = 1000;

/// Counts what it is told.
struct Listener(Rc<Cell<u64>>);

impl Actor for Listener {
    type Context = Context<Self>;
}

impl Handler<Notice> for Listener {
    type Result = ();

    fn handle(&mut self, _: Notice, _: &mut Context<Self>) {
        self.0.set(self.0.get() + 1);
    }
}

struct Nobody;

impl Actor for Nobody {
    type Context = Context<Self>;
}

impl Handler<Report> for Nobody {
    type Result = ();

    fn handle(&mut self, _: Report, _: &mut Context<Self>) {}
}

impl Handler<BarrierReached> for Nobody {
    type Result = ();

    fn handle(&mut self, _: BarrierReached, _: &mut Context<Self>) {}
}

fn key(job: usize) -> EventKey {
    EventKey { code: EventCode::ExitSuccess, source: Source::Job(Arc::from(format!("job-{job}"))) }
}

/// A registry with that many jobs that listen each for an event of its own, or all for that of the first.
fn registry(jobs: usize, all: bool, seen: &Rc<Cell<u64>>) -> Bus {
    let nobody = Nobody.start();
    let pilot_address = PilotAddress { reports: nobody.clone().recipient(), barriers: nobody.recipient() };
    let log = slog::Logger::root(slog::Discard, slog::o!());
    let registry = Registry::new(log, pilot_address, Rc::default()).start();
    for job in 0..jobs {
        let interest = Interest::Keys(vec![key(if all { 0 } else { job })]);
        let recipient = Listener(Rc::clone(seen)).start().recipient();
        registry.do_send(Subscribe { interest, recipient });
    }
    Bus::new(registry.recipient())
}

fn delivery(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("registry");
    group.throughput(Throughput::Elements(EVENTS));
    for (all, name) in [(false, "one listener"), (true, "all listen")] {
        for jobs in [10, 100, 1000] {
            let system = System::new();
            let seen = Rc::new(Cell::new(0));
            let bus = system.block_on(async { registry(jobs, all, &seen) });
            let each = if all { jobs as u64 } else { 1 };
            if all && jobs == 1000 {
                group.sample_size(10);
            }
            group.bench_function(format!("{jobs} jobs, {name}"), |bencher| {
                bencher.iter(|| {
                    system.block_on(async {
                        seen.set(0);
                        for _ in 0..EVENTS {
                            bus.publish(key(0), None);
                        }
                        while seen.get() < EVENTS * each {
                            tokio::task::yield_now().await;
                        }
                    });
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, delivery);
criterion_main!(benches);
