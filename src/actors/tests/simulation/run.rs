//! Runs a story: all actors with their machines and engines, over the simulated kernel, Consul, log and clock, on one
//! thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use tokio::net::UnixListener;
use tokio::time::sleep;

use super::consul::SimulatedConsul;
use super::journal::{Broken, Entry, Journal};
use super::kernel::SimulatedKernel;
use super::rules::{Rules, VARIABLE};
use super::story::{Flow, Mood, Operation, Program, Story};
use crate::actors::assembly::{Program as Assembled, Setup, assemble};
use crate::actors::pilot::machine::BadConfiguration;
use crate::actors::pilot::{Pilot, SignalArrived};
use crate::logging::{Log, LogSink, SimulatedWriter};
use crate::messages::bus::{Interest, Notice, Subscribe};
use crate::messages::control::{ChangeEnvironment, ControlJob, Reload, SetMaintenance};
use crate::messages::discovery::WithdrawAll;
use crate::messages::event::{Event, EventCode, EventKey, Source};
use crate::messages::moment::WallTime;
use crate::messages::signal::Signal;
use crate::process::wall_clock::simulated;
use crate::process::{Environ, set_seed};
use crate::recording::Recording;

/// The room of the log: a few dozen lines fill it.
const LOG_BOUND: usize = 2048;
const LOG_MARGIN: usize = 1024;
/// How often everything is looked at while nothing happens.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long nothing happens before the program is asked to end: longer than Consul has to be well until all is right.
const CALM_WITH_CONSUL: Duration = Duration::from_secs(12);
const CALM: Duration = Duration::from_secs(5);
/// How long a reload may take that is under way then.
const LONGEST_RELOAD: Duration = Duration::from_secs(90);
/// How long a run may take at all.
const LONGEST_RUN: Duration = Duration::from_secs(600);

/// What came out of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub trace: Vec<Entry>,
    pub broken: Option<Broken>,
}

/// The parts of a run.
#[derive(Clone)]
struct Scene {
    rules: Rules,
    journal: Journal,
    kernel: SimulatedKernel,
    consul: SimulatedConsul,
    log: Rc<RefCell<(SimulatedWriter, Flow)>>,
    sink: LogSink,
    files: Arc<Mutex<Files>>,
}

/// The configuration files.
#[derive(Default)]
struct Files {
    /// What a reload finds; `None`: a configuration with errors.
    now: Option<Program>,
    /// What the last reload has found.
    loaded: Option<Program>,
}

std::thread_local! {
    /// The rules of the run of this thread, for the loader, which must be ready for another thread.
    static RULES: RefCell<Option<Rules>> = const { RefCell::new(None) };
}

/// Runs a story to its end.
pub fn run(story: &Story) -> Outcome {
    run_into(story, None)
}

/// Runs a story to its end, and records it.
pub fn run_recorded(story: &Story) -> (Outcome, Vec<u8>) {
    let directory = tempfile::tempdir().expect("a directory for the record");
    let path = directory.path().join("record");
    let recording =
        Recording::create(&path, &slog::Logger::root(slog::Discard, slog::o!())).expect("a record");
    let outcome = run_into(story, Some(recording.clone()));
    recording.close(Duration::from_secs(30));
    (outcome, std::fs::read(path).expect("the record"))
}

fn run_into(story: &Story, recording: Option<Recording>) -> Outcome {
    set_seed(story.seed);
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let system = System::with_tokio_rt(runtime);
    system.block_on(perform(story.clone(), recording))
}

/// Binds the address of Consul. A process that another test starts just now may still have the socket of the run before:
/// between fork and exec, a child has the descriptors of all threads.
fn bind(address: &str) -> UnixListener {
    for _ in 0..1000 {
        match UnixListener::bind(address) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                std::thread::sleep(Duration::from_millis(1));
            }
            bound => return bound.expect("a socket for Consul"),
        }
    }
    panic!("the socket of Consul stays in use");
}

async fn perform(story: Story, recording: Option<Recording>) -> Outcome {
    simulated::begin(WallTime::from_milliseconds(story.wall));
    let journal = Journal::new();
    let consul = SimulatedConsul::new(journal.clone());
    let rules = Rules::new(&story.program, consul.clone(), journal.clone());
    let observer = Rc::new(rules.clone());
    let kernel = SimulatedKernel::new(story.manners.clone(), story.pids, observer, journal.clone());
    let (log, writer) = Log::simulated(LOG_BOUND, LOG_MARGIN);
    let socket = format!("\0simulated-consul-{}-{:?}", std::process::id(), std::thread::current().id());
    let scene = Scene {
        rules: rules.clone(),
        journal: journal.clone(),
        kernel: kernel.clone(),
        consul: consul.clone(),
        log: Rc::new(RefCell::new((writer, Flow::Flows))),
        sink: log.sink().clone(),
        files: Arc::new(Mutex::new(Files { now: Some(story.program.clone()), loaded: None })),
    };
    if story.program.has_consul {
        actix_rt::spawn(consul.serve(bind(&socket)));
    }
    let (files, place) = (Arc::clone(&scene.files), socket.clone());
    RULES.set(Some(rules.clone()));
    let load = Arc::new(move |_: &BTreeMap<String, String>| {
        // Replies to an earlier reload are about what was loaded before.
        RULES.with_borrow(|rules| rules.iter().for_each(Rules::settle_replies));
        let mut files = files.lock().unwrap();
        files.loaded = files.now.clone();
        RULES.with_borrow(|rules| rules.iter().for_each(|rules| rules.loaded(files.loaded.as_ref())));
        let program = files.now.as_ref().map(|program| program.spec(&place));
        program.ok_or_else(|| BadConfiguration::from("it has errors".to_owned()))
    });
    let spec = story.program.spec(&socket);
    let environ = Environ::new([]);
    let setup = Setup { spec, load, log, kernel: Box::new(kernel.clone()), environ, recording };
    let Assembled { pilot, registry, board, exited, consul: agent, .. } =
        assemble(setup, None).expect("all actors");
    rules.read_from(board);
    let (everything, some) = (Rc::<RefCell<Vec<Arc<Event>>>>::default(), Rc::default());
    let wanted = wanted(&story.program);
    let scribe = Scribe { events: Rc::clone(&everything), scene: Some(scene.clone()) }.start().recipient();
    let other = Scribe { events: Rc::clone(&some), scene: None }.start().recipient();
    registry.do_send(Subscribe { interest: Interest::Keys(wanted.clone()), recipient: other });
    registry.do_send(Subscribe { interest: Interest::Everything, recipient: scribe });
    let looking = scene.clone();
    actix_rt::spawn(kernel.clone().run(move || looking.look()));
    let ticking = scene.clone();
    actix_rt::spawn(async move {
        loop {
            sleep(LOOK_EVERY).await;
            ticking.look();
        }
    });
    actix_rt::spawn(scene.clone().tell(story, pilot));
    match tokio::time::timeout(LONGEST_RUN, exited).await {
        Ok(Ok(status)) => {
            journal.note(format!("exits with status {status}"));
            scene.look();
            rules.check_exit(&kernel);
            rules.check_status(status);
            let _ = tokio::time::timeout(Duration::from_millis(500), agent.send(WithdrawAll)).await;
            scene.rules.settle_replies();
            if rules.awaits_replies() {
                journal.break_rule("every client gets a reply", "at the end some have none");
            }
        }
        Ok(Err(_)) => journal.break_rule("no actor dies", "the Pilot did"),
        Err(_) => journal.break_rule("the program ends", "it goes on and on"),
    }
    RULES.set(None);
    simulated::end();
    rules.compare(&everything.borrow(), &some.borrow(), &wanted);
    let (trace, broken) = journal.take();
    Outcome { trace, broken }
}

/// The events that the second subscriber listens for.
fn wanted(program: &Program) -> Vec<EventKey> {
    let codes = [EventCode::Stopping, EventCode::Stopped, EventCode::ExitFailed, EventCode::Healthy];
    let key = |(job, code)| EventKey { code, source: Source::Job(Arc::clone(job)) };
    program.jobs.iter().step_by(2).flat_map(|job| codes.map(|code| key((&job.name, code)))).collect()
}

/// Writes down events as they are delivered.
struct Scribe {
    events: Rc<RefCell<Vec<Arc<Event>>>>,
    scene: Option<Scene>,
}

impl Actor for Scribe {
    type Context = Context<Self>;
}

impl Handler<Notice> for Scribe {
    type Result = ();

    fn handle(&mut self, notice: Notice, _: &mut Context<Self>) {
        self.events.borrow_mut().push(Arc::clone(&notice.event));
        if let Some(scene) = &self.scene {
            scene.rules.settle_replies();
            scene.read_log();
            scene.journal.note(notice.event.key.to_string());
            scene.rules.happened(&notice.event, &scene.kernel);
        }
    }
}

impl Scene {
    /// Looks at everything that must hold at any time.
    fn look(&self) {
        self.rules.settle_replies();
        self.read_log();
        self.rules.inspect(&self.kernel, self.sink.is_flooded());
    }

    fn read_log(&self) {
        let (writer, flow) = &mut *self.log.borrow_mut();
        let news = writer.news();
        if !news.is_empty() {
            self.rules.logged(&news);
        }
        match flow {
            Flow::Flows => writer.write(),
            Flow::Fails if writer.is_nearly_full() => writer.write(),
            Flow::Fails | Flow::Blocks => {}
        }
    }

    async fn tell(self, story: Story, pilot: Addr<Pilot>) {
        let Story { steps, second_signal, program, .. } = story;
        let calm = if program.has_consul { CALM_WITH_CONSUL } else { CALM };
        for step in steps {
            sleep(Duration::from_millis(step.pause)).await;
            self.journal.note(format!("· {}", super::tell::operation(&step.operation)));
            self.carry_out(step.operation, &pilot).await;
            self.look();
        }
        self.journal.note("· all faults cease");
        self.consul.set_mood(Mood::Well);
        self.kernel.fail_starts(0, 0);
        self.log.borrow_mut().1 = Flow::Flows;
        self.look();
        sleep(calm).await;
        let mut waited = Duration::ZERO;
        while self.rules.has_reloads() && waited < LONGEST_RELOAD {
            sleep(calm).await;
            self.rules.settle_replies();
            waited += calm;
        }
        self.look();
        self.rules.check_settled(&self.kernel);
        self.journal.note("· SIGTERM");
        self.end(&pilot);
        if let Some(after) = second_signal {
            sleep(Duration::from_millis(after)).await;
            self.journal.note("· SIGTERM again");
            self.end(&pilot);
        }
    }

    fn end(&self, pilot: &Addr<Pilot>) {
        self.rules.asked_to_end();
        pilot.do_send(SignalArrived(Signal::TERM));
    }

    async fn carry_out(&self, operation: Operation, pilot: &Addr<Pilot>) {
        match operation {
            Operation::Order(name, order) => {
                let (reply, rules) =
                    (pilot.send(ControlJob { name: name.clone(), order }), self.rules.clone());
                self.rules.ordering(&name);
                self.rules.ask(async move {
                    let reply = reply.await;
                    rules.ordered(&name, order, matches!(reply, Ok(Ok(()))));
                });
            }
            Operation::Maintain(on) => {
                let reply = pilot.send(SetMaintenance(on));
                self.rules.ask(async move {
                    let _ = reply.await;
                });
            }
            Operation::Environ(value) => {
                let change = ChangeEnvironment(vec![(VARIABLE.to_owned(), Some(value.to_string()))]);
                let (reply, rules) = (pilot.send(change), self.rules.clone());
                rules.ask_environ(value);
                self.rules.ask(async move {
                    if let Ok(Ok(())) = reply.await {
                        rules.set_environ(value);
                    }
                });
            }
            Operation::Reload { program, restart_all } => self.reload(Some(*program), restart_all, pilot),
            Operation::BadReload => self.reload(None, false, pilot),
            Operation::Edit(program) => self.files.lock().unwrap().now = Some(*program),
            Operation::Signal(signal) => {
                if signal == Signal::HUP {
                    self.rules.blur();
                } else if signal == Signal::TERM {
                    self.rules.asked_to_end();
                }
                pilot.do_send(SignalArrived(signal));
            }
            Operation::Kill(name, signal) => self.kernel.kill(&name, signal),
            Operation::Behave(name, manner) => self.kernel.behave(&name, manner),
            Operation::FailStarts { errno, times } => self.kernel.fail_starts(errno, times),
            Operation::Consul(mood) => self.consul.set_mood(mood),
            Operation::ConsulForgets => self.consul.forget(),
            Operation::Instances(number) => self.consul.set_instances(number),
            Operation::Key(value) => self.consul.set_key(value),
            Operation::SetClock(by) => {
                self.rules.clock_set_by(by);
                simulated::set_by(by);
            }
            Operation::Log(flow) => self.log.borrow_mut().1 = flow,
            Operation::Suspend(milliseconds) => {
                let time = Duration::from_millis(milliseconds);
                self.consul.suspended();
                self.journal.slept(time);
                self.rules.falls_asleep();
                tokio::time::advance(time).await;
            }
        }
    }

    fn reload(&self, program: Option<Program>, restart_all: bool, pilot: &Addr<Pilot>) {
        self.files.lock().unwrap().now = program;
        self.rules.reload_began();
        let (reply, rules) = (pilot.send(Reload { restart_all, dry_run: false }), self.rules.clone());
        let files = Arc::clone(&self.files);
        self.rules.ask(async move {
            let reply = reply.await;
            let outcome = match (reply, files.lock().unwrap().loaded.clone()) {
                (Ok(Ok(summary)), Some(program)) => Some((program, summary.started)),
                (Ok(_) | Err(_), _) => None,
            };
            rules.reloaded(outcome);
        });
    }
}
