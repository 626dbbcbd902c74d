//! Rules that must hold in every run. Facts come in from the kernel, from the events and from the replies to clients; a rule that
//! is broken is noted in the journal. Of the program itself only the board is looked at: in which phase it says that a job is.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::consul::SimulatedConsul;
use super::journal::Journal;
use super::story::Program;
use crate::config::spec::{JobKind, JobSpec, StopBudget, Trigger};
use crate::messages::control::JobOrder;
use crate::messages::event::{Event, EventCode, EventKey, Source};
use crate::messages::health::Health;
use crate::messages::job::Phase;
use crate::messages::moment::WallTime;
use crate::messages::process::{ExitStatus, Pid};
use crate::messages::status::Board;

mod account;
mod always;
mod due;
mod ending;
mod events;
mod facts;
mod given_up;
mod groups;
mod inspection;
mod needs;
mod restarts;
mod schedules;
mod settled;
mod stop_order;

use account::Account;
use always::ALWAYS;
use ending::Ending;
pub use facts::VARIABLE;
use given_up::GivenUp;

/// How long the program may take for what it does at once.
const AT_ONCE: Duration = Duration::from_millis(150);

/// Whoever stops us may signal us twice in one go.
const REPEAT_AFTER: Duration = Duration::from_millis(250);

/// Shared by all that happens in a run.
#[derive(Clone)]
pub struct Rules {
    ledger: Rc<RefCell<Ledger>>,
    board: Rc<OnceCell<Board>>,
    consul: SimulatedConsul,
    pending: Pending,
    /// A signal has changed the configuration: nobody tells which job is which.
    is_changed: Rc<Cell<bool>>,
    pub journal: Journal,
}

/// What clients asked for and have no reply to. Replies are looked for before every step, so that what follows from an
/// accepted order is not seen before the order.
type Pending = Rc<RefCell<Vec<Pin<Box<dyn Future<Output = ()>>>>>>;

/// What is known of a run.
struct Ledger {
    program: Program,
    jobs: BTreeMap<Arc<str>, Account>,
    /// Every event so far.
    past: HashSet<EventKey>,
    last_sequence: u64,
    /// The events of this moment.
    moment: (Duration, Vec<(u64, EventKey)>),
    /// Jobs that were started in this moment.
    suspects: Vec<Arc<str>>,
    /// When `shutdown` was published.
    shutdown: Option<Duration>,
    /// The same on the clock of the program.
    shutdown_clock: Option<Instant>,
    /// When the first signal asked for the end, on the clock of the program.
    asked_to_end: Option<Instant>,
    /// When a second signal asked for the end.
    killed: Option<Duration>,
    /// A reload was asked for without a reply: which jobs are new is not known.
    is_blurred: bool,
    /// Reloads that are under way.
    reloads: u32,
    /// When the first of these was asked for.
    reload_asked: Option<(Instant, WallTime)>,
    /// A client's reload was refused, and one without a reply may have changed jobs before: which configuration they have is
    /// not known.
    is_uncertain: bool,
    /// When a reload last may have changed a group or its members: it counts anew then.
    groups_since: Option<Instant>,
    /// When the reply to the last reload was heard.
    reloaded: Duration,
    /// Ends of processes that no event has told yet.
    ends: Vec<End>,
    /// The value that a variable was set to last, as a client heard.
    environ: Option<u32>,
    /// The values that clients have asked for since and may have got.
    environ_asked: Vec<u32>,
    given_up: Vec<GivenUp>,
    /// The lines of each execution and stream that are written and not logged.
    lines: HashMap<Stream, Vec<String>>,
    maintenance_since: Option<Duration>,
    /// When nothing was checked last, as in maintenance.
    unchecked: Duration,
    /// When the log was last full.
    flooded: Duration,
    /// How often somebody set the clock on the wall; when it was last, and what it showed before.
    clock_changes: u32,
    clock_was: Option<(Instant, WallTime)>,
    /// The reasons for the end, once a shutdown has begun.
    ending: Option<Ending>,
    /// Since when services are registered that no job has.
    strangers: BTreeMap<String, Duration>,
}

/// The birth of an execution, and whether it is its stderr.
type Stream = (u64, bool);

/// The end of a job's main process.
struct End {
    job: Arc<str>,
    execution: u64,
    /// `None` if it was killed before it was its program.
    pid: Option<Pid>,
    status: ExitStatus,
    at: Duration,
    /// We have sent it a signal that may have ended it, or were about to.
    was_signalled: bool,
}

impl Ledger {
    /// The jobs that an order is about: whoever means a job of a group means the others as well.
    fn meant_by(&self, target: &str) -> Vec<Arc<str>> {
        let is_it = |job: &&Arc<str>| ***job == *target;
        let group = self.program.groups.iter().find(|group| {
            target.strip_prefix("group.") == Some(&*group.name) || group.jobs.iter().any(|job| is_it(&job))
        });
        let alone = || self.jobs.keys().filter(is_it).cloned().collect();
        group.map_or_else(alone, |group| group.jobs.clone())
    }
}

fn startup() -> EventKey {
    EventKey { code: EventCode::Startup, source: Source::Global }
}

impl Rules {
    pub fn new(program: &Program, consul: SimulatedConsul, journal: Journal) -> Self {
        let account = |job: &JobSpec| {
            (Arc::clone(&job.name), Account::new(Arc::new(job.clone()), false, (Duration::ZERO, 0)))
        };
        let ledger = Ledger {
            jobs: program.jobs.iter().map(account).collect(),
            program: program.clone(),
            past: HashSet::new(),
            last_sequence: 0,
            moment: (Duration::ZERO, vec![]),
            suspects: vec![],
            shutdown: None,
            shutdown_clock: None,
            asked_to_end: None,
            killed: None,
            is_blurred: false,
            reloads: 0,
            reload_asked: None,
            is_uncertain: false,
            groups_since: None,
            reloaded: Duration::ZERO,
            ends: vec![],
            environ: None,
            environ_asked: vec![],
            given_up: vec![],
            lines: HashMap::new(),
            maintenance_since: None,
            unchecked: Duration::ZERO,
            flooded: Duration::ZERO,
            clock_changes: 0,
            clock_was: None,
            ending: None,
            strangers: BTreeMap::new(),
        };
        Self {
            ledger: Rc::new(RefCell::new(ledger)),
            board: Rc::default(),
            consul,
            pending: Rc::default(),
            is_changed: Rc::default(),
            journal,
        }
    }

    /// The board of the program, once that is there.
    pub fn read_from(&self, board: Board) {
        let _ = self.board.set(board);
    }

    fn phase_of(&self, job: &str) -> Option<Phase> {
        Some(self.board.get()?.read().jobs.get(job)?.phase)
    }

    fn break_rule(&self, rule: &'static str, how: impl Into<String>) {
        if !self.is_changed.get() || ALWAYS.contains(&rule) {
            self.journal.break_rule(rule, how);
        }
    }

    /// A client waits for a reply.
    pub fn ask(&self, reply: impl Future<Output = ()> + 'static) {
        self.pending.borrow_mut().push(Box::pin(reply));
        // The request is sent when its reply is first asked for.
        self.settle_replies();
    }

    /// Hears the replies that have come.
    pub fn settle_replies(&self) {
        let mut context = Context::from_waker(Waker::noop());
        let mut pending = std::mem::take(&mut *self.pending.borrow_mut());
        pending.retain_mut(|reply| reply.as_mut().poll(&mut context) == Poll::Pending);
        self.pending.borrow_mut().append(&mut pending);
    }

    pub fn awaits_replies(&self) -> bool {
        !self.pending.borrow().is_empty()
    }

    /// A client gives an order to a job or group.
    pub fn ordering(&self, target: &str) {
        let now = self.journal.awake();
        let mut ledger = self.ledger.borrow_mut();
        for job in ledger.meant_by(target) {
            if let Some(account) = ledger.jobs.get_mut(&job) {
                if account.orders == 0 {
                    account.ran_when_ordered = account.lives && !account.is_stopping;
                    (account.ordered_at, account.starts_when_ordered) = (now, account.starts);
                }
                account.orders += 1;
            }
        }
    }

    /// A client has the reply to an order.
    pub fn ordered(&self, target: &str, order: JobOrder, is_accepted: bool) {
        let mut ledger = self.ledger.borrow_mut();
        let meant = ledger.meant_by(target);
        let Ledger { jobs, given_up, .. } = &mut *ledger;
        for job in &meant {
            let Some(account) = jobs.get_mut(job) else { continue };
            account.orders = account.orders.saturating_sub(1);
            // An order to one member may concern the others, too.
            let is_meant = **job == *target || target.starts_with("group.");
            match order {
                _ if !is_accepted => {}
                JobOrder::Start | JobOrder::Restart => {
                    account.by_hand += 1;
                    account.is_told = true;
                    account.returns = order == JobOrder::Restart && account.ran_when_ordered;
                    account.is_owed_a_start = **job == *target;
                    if account.returns && is_meant {
                        account.is_owed_a_restart = Some(account.starts_when_ordered);
                    }
                    account.is_owed_a_stop &= !is_meant;
                    // A job that is complete can be started by hand, and then all can come that could not.
                    given_up.retain(|given_up| given_up.counts_on(job));
                }
                JobOrder::Stop => {
                    (account.is_told, account.returns, account.is_owed_a_start) = (true, false, false);
                    account.is_owed_a_stop |= is_meant;
                }
                JobOrder::Signal(signal) if **job == *target => {
                    account.owed_signal = Some((signal, account.ordered_at, account.starts));
                }
                JobOrder::Signal(_) => {}
            }
        }
    }

    /// The machine is about to sleep.
    pub fn falls_asleep(&self) {
        for account in self.ledger.borrow_mut().jobs.values_mut() {
            account.sleeps += 1;
            // How long its run lasts for the program is not known.
            account.early_ends = 0;
            account.was_in_time = account.is_in_time();
            account.was_due = account.is_due_now();
        }
    }

    /// A client asks for a variable to be set for processes that start from now on.
    pub fn ask_environ(&self, value: u32) {
        self.ledger.borrow_mut().environ_asked.push(value);
    }

    /// The client hears that it is set. Those who asked before had their turn before.
    pub fn set_environ(&self, value: u32) {
        let mut ledger = self.ledger.borrow_mut();
        let Some(at) = ledger.environ_asked.iter().position(|asked| *asked == value) else { return };
        ledger.environ_asked.drain(..=at);
        ledger.environ = Some(value);
    }

    pub fn reload_began(&self) {
        let mut ledger = self.ledger.borrow_mut();
        if ledger.reloads == 0 {
            ledger.reload_asked = Some((Instant::now(), schedules::wall()));
        }
        ledger.reloads += 1;
    }

    /// A reload is over; if it changed anything, these jobs are new.
    pub fn reloaded(&self, outcome: Option<(Program, Vec<String>)>) {
        let mut ledger = self.ledger.borrow_mut();
        let now = (self.journal.awake(), ledger.last_sequence);
        ledger.reloads = ledger.reloads.saturating_sub(1);
        ledger.reloaded = now.0;
        let Some((program, started)) = outcome else {
            ledger.is_uncertain |= ledger.is_blurred;
            return;
        };
        ledger.given_up.clear();
        ledger.jobs.retain(|name, _| program.jobs.iter().any(|job| job.name == *name));
        // A reload that a signal asked for may have changed a job before this one did, which keeps it then.
        let is_other = |job: &&JobSpec| ledger.jobs.get(&job.name).is_some_and(|known| *known.spec != **job);
        let changed = program.jobs.iter().filter(is_other).map(|job| job.name.to_string());
        let started: Vec<String> = started.into_iter().chain(changed).collect();
        let is_new = |name: &str| started.iter().any(|started| *started == *name);
        let kept = ledger.jobs.values().filter(|kept| !kept.is_stopping && !is_new(&kept.spec.name));
        let of = |kept: &Account, code| EventKey { code, source: Source::Job(Arc::clone(&kept.spec.name)) };
        let facts = |kept: &Account| {
            let serves = kept.lives || kept.spec.exec.is_none();
            let healthy = (serves && kept.health == Health::Healthy).then(|| of(kept, EventCode::Healthy));
            // One that its watchdog ends may still live.
            let is_ready = serves && kept.is_ready && !kept.says_stops && !kept.was_signalled;
            let ready = is_ready.then(|| of(kept, EventCode::Ready));
            healthy.into_iter().chain(ready).collect::<Vec<_>>()
        };
        let holding: Vec<EventKey> = kept.flat_map(facts).collect();
        ledger.suspects.retain(|job| !is_new(job));
        for job in program.jobs.iter().filter(|job| is_new(&job.name)) {
            let mut account = Account::new(Arc::new(job.clone()), true, now);
            account.may_have_begun(ledger.reload_asked);
            if !matches!(job.when.trigger, Trigger::Each(_)) {
                // What still holds need not happen again.
                holding.iter().for_each(|key| account.observe(key));
            }
            ledger.jobs.insert(Arc::clone(&job.name), account);
        }
        ledger.groups_since = Some(Instant::now());
        ledger.program = program;
    }

    /// A reload was asked for by a signal: when it happens, and what it changes, is not told.
    pub fn blur(&self) {
        let mut ledger = self.ledger.borrow_mut();
        ledger.is_blurred = true;
        // It may begin anew what others were given up for.
        ledger.given_up.clear();
    }

    /// A reload has read the configuration. If only signals have asked for it, what it changes is known if that is nothing.
    pub fn loaded(&self, program: Option<&Program>) {
        let mut ledger = self.ledger.borrow_mut();
        if ledger.reloads > 0 {
            return;
        }
        // Coprocesses are restarted by every reload, and those started that were stopped by hand.
        let is_left_alone =
            |account: &Account| account.spec.kind == JobKind::Job && !account.is_told && account.orders == 0;
        let is_same =
            |program: &Program| *program == ledger.program && ledger.jobs.values().all(is_left_alone);
        let is_same = program.is_none_or(is_same);
        self.is_changed.set(self.is_changed.get() || !is_same);
        ledger.is_blurred = self.is_changed.get();
    }

    /// A signal asks for the end. One that comes at least 250 ms after the first kills.
    pub fn asked_to_end(&self) {
        let (now, mut ledger) = (self.journal.awake(), self.ledger.borrow_mut());
        let first = *ledger.asked_to_end.get_or_insert(Instant::now());
        if ledger.shutdown.is_some() && first.elapsed() >= REPEAT_AFTER {
            ledger.killed.get_or_insert(now);
        }
    }

    pub fn is_shutting_down(&self) -> bool {
        self.ledger.borrow().shutdown.is_some()
    }

    pub fn has_reloads(&self) -> bool {
        self.ledger.borrow().reloads > 0
    }

    /// Two subscribers see the same events in the same order.
    pub fn compare(&self, all: &[Arc<Event>], some: &[Arc<Event>], wanted: &[EventKey]) {
        let expected = all.iter().filter(|event| wanted.contains(&event.key)).map(|event| event.sequence);
        if !expected.eq(some.iter().map(|event| event.sequence)) {
            self.break_rule("all subscribers see one order", format!("of {wanted:?}"));
        }
    }
}

/// The time that a shutdown may take.
fn budget(budget: StopBudget) -> Duration {
    match budget {
        StopBudget::Immediate => Duration::ZERO,
        StopBudget::Within(time) => time,
    }
}
