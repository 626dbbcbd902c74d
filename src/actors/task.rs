//! Work that an actor waits for and may give up: a timer, or a future.
//!
//! A future that `Context::cancel_future` cancels may still run once: actix looks for cancelled ones after it has polled those
//! that are due. So a timer that is due when another message cancels it would be taken for the next timer. A [`Task`] that is
//! cancelled says nothing more.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use actix::prelude::*;

/// Something that an actor waits for.
pub struct Task {
    handle: SpawnHandle,
    is_cancelled: Rc<Cell<bool>>,
}

impl Task {
    /// Calls `done` with what the future returns.
    pub fn spawn<A, F>(
        future: F,
        ctx: &mut Context<A>,
        done: impl FnOnce(F::Output, &mut A, &mut Context<A>) + 'static,
    ) -> Self
    where
        A: Actor<Context = Context<A>>,
        F: Future + 'static,
    {
        let is_cancelled = Rc::new(Cell::new(false));
        let is_over = Rc::clone(&is_cancelled);
        let handle = ctx.spawn(fut::wrap_future(future).map(move |output, actor: &mut A, ctx| {
            if !is_over.get() {
                done(output, actor, ctx);
            }
        }));
        Self { handle, is_cancelled }
    }

    /// Calls `elapsed` after this time.
    pub fn later<A>(
        wait: Duration,
        ctx: &mut Context<A>,
        elapsed: impl FnOnce(&mut A, &mut Context<A>) + 'static,
    ) -> Self
    where
        A: Actor<Context = Context<A>>,
    {
        Self::spawn(tokio::time::sleep(wait), ctx, |(), actor, ctx| elapsed(actor, ctx))
    }

    /// Gives it up.
    pub fn cancel<A>(self, ctx: &mut Context<A>)
    where
        A: Actor<Context = Context<A>>,
    {
        self.is_cancelled.set(true);
        ctx.cancel_future(self.handle);
    }
}

/// Gives up what an actor waits for, if it waits.
pub fn cancel<A>(task: &mut Option<Task>, ctx: &mut Context<A>)
where
    A: Actor<Context = Context<A>>,
{
    if let Some(task) = task.take() {
        task.cancel(ctx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a timer at each message, and cancels the one before.
    #[derive(Default)]
    struct Impatient {
        timer: Option<Task>,
        elapsed: Vec<u32>,
    }

    impl Actor for Impatient {
        type Context = Context<Self>;
    }

    #[derive(Message)]
    #[rtype(result = "()")]
    struct Begin(u32);

    #[derive(Message)]
    #[rtype(result = "Vec<u32>")]
    struct Elapsed;

    impl Handler<Begin> for Impatient {
        type Result = ();

        fn handle(&mut self, Begin(number): Begin, ctx: &mut Context<Self>) {
            cancel(&mut self.timer, ctx);
            let timer = Task::later(Duration::ZERO, ctx, move |actor, _| actor.elapsed.push(number));
            self.timer = Some(timer);
        }
    }

    impl Handler<Elapsed> for Impatient {
        type Result = Vec<u32>;

        fn handle(&mut self, _: Elapsed, _: &mut Context<Self>) -> Vec<u32> {
            self.elapsed.clone()
        }
    }

    #[test]
    fn a_timer_that_is_cancelled_when_it_is_due_does_not_elapse() {
        System::new().block_on(async {
            let actor = Impatient::default().start();
            (1..=3).for_each(|number| actor.do_send(Begin(number)));
            while actor.send(Elapsed).await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
            assert_eq!(actor.send(Elapsed).await.unwrap(), [3]);
        });
    }
}
