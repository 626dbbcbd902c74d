//! Every subscriber sees events in the same order.

use super::*;
use crate::actors::registry::{PilotAddress, Registry};
use crate::messages::bus::{BarrierReached, Bus, Report};

/// Writes down the sequence numbers it sees.
struct Witness(Rc<RefCell<Vec<u64>>>);

impl Actor for Witness {
    type Context = Context<Self>;
}

impl Handler<Notice> for Witness {
    type Result = ();

    fn handle(&mut self, notice: Notice, _: &mut Context<Self>) {
        self.0.borrow_mut().push(notice.event.sequence);
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

/// A registry with witnesses, and the length of its queue.
fn registry(witnesses: &[Rc<RefCell<Vec<u64>>>]) -> (Bus, Rc<Cell<usize>>) {
    let nobody = Nobody.start();
    let pilot_address = PilotAddress { reports: nobody.clone().recipient(), barriers: nobody.recipient() };
    let depth = Rc::new(Cell::new(0));
    let log = slog::Logger::root(slog::Discard, slog::o!());
    let registry = Registry::new(log, pilot_address, Rc::clone(&depth)).start();
    for seen in witnesses {
        let witness = Witness(Rc::clone(seen)).start();
        registry.do_send(Subscribe { interest: Interest::Everything, recipient: witness.recipient() });
    }
    let bus = Bus::new(registry.recipient());
    (bus, depth)
}

#[test]
fn every_subscriber_sees_events_in_the_order_of_their_numbers() {
    System::new().block_on(async {
        let witnesses: Vec<Rc<RefCell<Vec<u64>>>> = (0..3).map(|_| Rc::default()).collect();
        let (bus, depth) = registry(&witnesses);
        let publishers: Vec<_> = (0..10)
            .map(|number| {
                let bus = bus.clone();
                actix_rt::spawn(async move {
                    for _ in 0..100 {
                        bus.publish(event(&format!("job{number}"), EventCode::Changed), None);
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for publisher in publishers {
            publisher.await.unwrap();
        }
        while witnesses.iter().any(|seen| seen.borrow().len() < 1000) {
            tokio::task::yield_now().await;
        }
        let expected: Vec<u64> = (1..=1000).collect();
        assert!(witnesses.iter().all(|seen| *seen.borrow() == expected));
        assert_eq!(depth.get(), 0);
    });
}

#[test]
fn a_flood_of_events_leaves_other_tasks_their_turn() {
    System::new().block_on(async {
        let seen = Rc::<RefCell<Vec<u64>>>::default();
        let (bus, depth) = registry(&[Rc::clone(&seen)]);
        for _ in 0..10_000 {
            bus.publish(event("noisy", EventCode::Changed), None);
        }
        // The most events between two turns of this task, which waits for nothing.
        let (mut most, mut before) = (0, 0);
        while seen.borrow().len() < 10_000 {
            tokio::task::yield_now().await;
            let delivered = seen.borrow().len();
            most = most.max(delivered - before);
            before = delivered;
        }
        assert!(most <= 1000, "this task waited for {most} events");
        assert_eq!(depth.get(), 0);
    });
}

#[test]
fn a_flood_that_nobody_can_follow_is_thinned_out_and_the_queue_stays_bounded() {
    System::new().block_on(async {
        let seen = Rc::<RefCell<Vec<u64>>>::default();
        let (bus, depth) = registry(&[Rc::clone(&seen)]);
        for _ in 0..100_000 {
            bus.publish(event("noisy", EventCode::Changed), None);
        }
        bus.publish(event("rare", EventCode::Healthy), None);
        tokio::task::yield_now().await;
        assert!(depth.get() <= 16 * 1024 + 1, "{} wait", depth.get());
        while depth.get() > 0 || seen.borrow().is_empty() {
            tokio::task::yield_now().await;
        }
        while seen.borrow().last() != Some(&100_001) {
            tokio::task::yield_now().await;
        }
        assert!(seen.borrow().is_sorted(), "what is told is told in order, the rare event included");
    });
}
