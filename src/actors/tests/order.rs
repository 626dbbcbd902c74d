//! Every subscriber sees events in the same order.

use super::*;

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

#[test]
fn every_subscriber_sees_events_in_the_order_of_their_numbers() {
    use crate::actors::registry::{Overseer, Registry};
    use crate::messages::bus::Bus;
    use crate::messages::job::JobChanged;

    struct Nobody;
    impl Actor for Nobody {
        type Context = Context<Self>;
    }
    impl Handler<JobChanged> for Nobody {
        type Result = ();
        fn handle(&mut self, _: JobChanged, _: &mut Context<Self>) {}
    }
    impl Handler<crate::messages::bus::Marked> for Nobody {
        type Result = ();
        fn handle(&mut self, _: crate::messages::bus::Marked, _: &mut Context<Self>) {}
    }

    System::new().block_on(async {
        let nobody = Nobody.start();
        let overseer = Overseer { reports: nobody.clone().recipient(), marks: nobody.recipient() };
        let depth = Rc::new(std::cell::Cell::new(0));
        let log = slog::Logger::root(slog::Discard, slog::o!());
        let registry = Registry::new(log, overseer, Rc::clone(&depth)).start();
        let bus = Bus::new(
            registry.clone().recipient(),
            registry.clone().recipient(),
            registry.clone().recipient(),
        );
        let logs: Vec<Rc<RefCell<Vec<u64>>>> = (0..3).map(|_| Rc::default()).collect();
        for log in &logs {
            let witness = Witness(Rc::clone(log)).start();
            registry.do_send(Subscribe { interest: Interest::Everything, recipient: witness.recipient() });
        }
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
        while logs.iter().any(|log| log.borrow().len() < 1000) {
            tokio::task::yield_now().await;
        }
        let expected: Vec<u64> = (1..=1000).collect();
        assert!(logs.iter().all(|log| *log.borrow() == expected));
        assert_eq!(depth.get(), 0);
    });
}
