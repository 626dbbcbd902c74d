//! The actors together, over a fake kernel and paused time: stories of several jobs, in milliseconds.

pub(super) mod fake;
mod health;
mod order;
mod recorded;
mod reloading;
mod running;
mod simulation;
mod stopping;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use tokio::time::Instant;

use self::fake::{Fake, Manner};
use super::assembly::{Program, Setup, assemble};
use super::pilot::SignalArrived;
use crate::config::spec::{CommandLine, JobSpec, LogOutput, LoggingSpec, Spec, Trigger};
use crate::logging::Log;
use crate::messages::bus::{Interest, Notice, Subscribe};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::signal::Signal;
use crate::messages::status::Board;
use crate::process::Environ;
use crate::recording::Recording;

/// A job that executes a program of its own name.
fn job(name: &str) -> JobSpec {
    let command = CommandLine { program: name.into(), args: vec![] };
    JobSpec::new(Arc::from(name), Some(command))
}

/// A job that an event starts.
fn triggered(name: &str, trigger: Trigger) -> JobSpec {
    let mut job = job(name);
    job.when.trigger = trigger;
    job
}

fn event(source: &str, code: EventCode) -> EventKey {
    EventKey { code, source: Source::Job(Arc::from(source)) }
}

fn spec(jobs: Vec<JobSpec>) -> Spec {
    let logging = LoggingSpec { output: LogOutput::File("/dev/null".into()), ..LoggingSpec::default() };
    let jobs = jobs.into_iter().map(Arc::new).collect();
    Spec { jobs, logging, ..Spec::default() }
}

/// A program under test: what it published, and the processes that it believes to have.
#[derive(Clone)]
struct Scene {
    fake: Fake,
    pilot: Addr<super::pilot::Pilot>,
    board: Board,
    /// What the next reload finds.
    next: Arc<Mutex<Spec>>,
    events: Rc<RefCell<Vec<String>>>,
    began: Instant,
    took: Rc<Cell<Duration>>,
    /// What must never happen and did.
    violations: Rc<RefCell<Vec<String>>>,
}

/// Writes down every event, and what must not be so at that moment.
struct Scribe {
    events: Rc<RefCell<Vec<String>>>,
    violations: Rc<RefCell<Vec<String>>>,
    fake: Fake,
}

impl Actor for Scribe {
    type Context = Context<Self>;
}

impl Handler<Notice> for Scribe {
    type Result = ();

    fn handle(&mut self, notice: Notice, _: &mut Context<Self>) {
        let key = &notice.event.key;
        if let (EventCode::Stopped, Source::Job(name)) = (key.code, &key.source)
            && self.fake.lived_before(name)
        {
            self.violations.borrow_mut().push(format!("{name} is stopped and lives"));
        }
        self.events.borrow_mut().push(key.to_string());
    }
}

impl Scene {
    fn signal(&self, signal: Signal) {
        self.pilot.do_send(SignalArrived(signal));
    }

    /// Lets everything happen that needs no time to pass.
    async fn settle(&self) {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    async fn wait(&self, milliseconds: u64) {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        self.settle().await;
    }

    fn events(&self) -> Vec<String> {
        self.events.borrow().clone()
    }

    /// The events of one source, without its name.
    fn events_of(&self, source: &str) -> Vec<String> {
        let prefix = format!("{source} ");
        self.events().iter().filter_map(|event| event.strip_prefix(&prefix)).map(str::to_owned).collect()
    }

    fn at(&self, event: &str) -> usize {
        let events = self.events();
        events.iter().position(|seen| seen == event).unwrap_or_else(|| panic!("no {event} in {events:?}"))
    }

    /// How long the whole program took.
    fn elapsed(&self) -> Duration {
        self.took.get()
    }
}

/// Runs a story against a program to its end; returns the exit status and what was published.
fn play<Story, Told>(spec: Spec, manners: &[(&str, Manner)], story: Story) -> (u8, Scene)
where
    Story: FnOnce(Scene) -> Told,
    Told: Future<Output = ()> + 'static,
{
    if recorded::are_all_recorded() {
        let (ended, record) = recorded::play_recorded(spec, manners, story);
        recorded::assert_same_actions(&record);
        return ended;
    }
    play_into(None, spec, manners, story)
}

/// The same, with a record of it.
fn play_into<Story, Told>(
    recording: Option<Recording>,
    spec: Spec,
    manners: &[(&str, Manner)],
    story: Story,
) -> (u8, Scene)
where
    Story: FnOnce(Scene) -> Told,
    Told: Future<Output = ()> + 'static,
{
    let manners: Vec<(String, Manner)> =
        manners.iter().map(|(name, manner)| ((*name).into(), *manner)).collect();
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    System::with_tokio_rt(runtime).block_on(async move {
        let output = LogOutput::File("/dev/null".into());
        let log = Log::open(&LoggingSpec { output, ..LoggingSpec::default() }).unwrap();
        let fake = Fake::new(manners);
        let events = Rc::<RefCell<Vec<String>>>::default();
        let environ = Environ::new([]);
        let next = Arc::new(Mutex::new(spec.clone()));
        let found = Arc::clone(&next);
        let load = Arc::new(move |_: &BTreeMap<String, String>| Ok(found.lock().unwrap().clone()));
        let setup = Setup { spec, load, log, kernel: Box::new(fake.clone()), environ, recording };
        let Program { pilot, registry, board, exited, .. } = assemble(setup, None).unwrap();
        let violations = Rc::<RefCell<Vec<String>>>::default();
        let scribe =
            Scribe { events: Rc::clone(&events), violations: Rc::clone(&violations), fake: fake.clone() }
                .start();
        registry.do_send(Subscribe { interest: Interest::Everything, recipient: scribe.recipient() });
        let (began, took) = (Instant::now(), Rc::default());
        let scene = Scene { fake, pilot, board, next, events, began, took, violations };
        actix_rt::spawn(story(scene.clone()));
        let status = tokio::time::timeout(Duration::from_secs(86_400), exited).await;
        let status = status.expect("the program never ended").expect("the program died");
        scene.took.set(scene.began.elapsed());
        assert_eq!(scene.fake.living(), 0, "processes survived the program");
        assert_eq!(*scene.violations.borrow(), Vec::<String>::new());
        (status, scene)
    })
}
