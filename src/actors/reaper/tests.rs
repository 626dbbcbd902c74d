//! The engine over a fake kernel.

use std::time::Duration;

use super::*;
use crate::actors::tests::fake::Fake;
use crate::config::spec::{CommandLine, JobSpec, LogOutput, LoggingSpec};
use crate::process::Launcher;

/// Hears of executions, and does nothing.
struct Owner;

impl Actor for Owner {
    type Context = Context<Self>;
}

impl Handler<ExecutionReport> for Owner {
    type Result = ();

    fn handle(&mut self, _: ExecutionReport, _: &mut Context<Self>) {}
}

impl Handler<OrphansGone> for Owner {
    type Result = ();

    fn handle(&mut self, _: OrphansGone, _: &mut Context<Self>) {}
}

#[actix::test]
async fn a_job_at_the_terminal_that_was_stopped_before_its_start_was_known_goes_on() {
    let (fake, owner) = (Fake::new(vec![]), Owner.start());
    fake.stop_next();
    let output = LogOutput::File("/dev/null".into());
    let log = Log::open(&LoggingSpec { output, ..LoggingSpec::default() }).unwrap();
    let environ = Arc::new(Environ::new([]));
    let output = (log, KeptOutput::default());
    let gone = owner.clone().recipient();
    let mut reaper = Reaper::new(Box::new(fake.clone()), environ, gone, &Clock::start(None), output).unwrap();
    // Here is no terminal; the first execution is as one that has it.
    reaper.at_terminal = Some(ExecutionId(0));
    let command = CommandLine { program: "app".to_owned(), args: vec![] };
    let job = Arc::new(JobSpec::new(Arc::from("app"), Some(command)));
    let order = Order { job, kind: Kind::Job, raw_output: false, occasion: None };
    Launcher::new(reaper.start().recipient()).launch(order, owner.recipient());
    let continued = async {
        while !fake.is_continued("app") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), continued).await.expect("it goes on");
}
