//! Keeps pages up to date: server-sent events with everything that the page shows, and then with every change.
//!
//! The texts are made once for all clients, and only while there are clients. A client has only two numbers here, of the last
//! change and of the last event that it was sent, and is sent more when it has read that: one that reads nothing costs the same.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio::time::{Instant, timeout};

use super::graph::graph;
use crate::actors::web_server::event_log::EventStream;
use crate::actors::web_server::reply::make;
use crate::actors::web_server::status;
use crate::config::spec::{PageSpec, Spec};
use crate::explain;
use crate::messages::status::{Board, Overview};

/// How many clients may look at the same time.
pub const MOST_CLIENTS: usize = 32;
/// How often the board is looked at while there are clients.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A look may take this part of the time: with many jobs it is rarer.
const LOOKING_SHARE: u32 = 50;
/// One client looks at the board for all of them; if it goes away, another one takes over after this time.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// The bytes of one chunk, roughly.
const CHUNK: usize = 32 << 10;
/// How often a client hears something, so that one that is gone is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The content of pages; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Feed(Rc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    level: Cell<PageSpec>,
    clients: Cell<usize>,
    shown: RefCell<Shown>,
}

/// Each part as it was last seen, with the number of its change.
#[derive(Debug, Default)]
struct Shown {
    parts: BTreeMap<Part, (u64, String)>,
    changes: u64,
    /// When the program began.
    started: Option<SystemTime>,
    next_look: Option<Instant>,
}

/// A part of the page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Program,
    Graph,
    Job(String),
    Watch(String),
}

impl Part {
    const fn event(&self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Graph => "graph",
            Self::Job(_) => "job",
            Self::Watch(_) => "watch",
        }
    }
}

impl Shown {
    fn set(&mut self, part: Part, text: String) {
        if self.parts.get(&part).is_none_or(|(_, known)| *known != text) {
            self.changes += 1;
            self.parts.insert(part, (self.changes, text));
        }
    }

    /// Nobody looks any more: only what the configuration says is kept.
    fn forget(&mut self) {
        self.parts.retain(|part, _| *part == Part::Graph);
        self.next_look = None;
    }

    /// Has the parts that a look has found, and no others.
    fn update(&mut self, found: Vec<(Part, String)>) {
        let names: BTreeSet<&Part> = found.iter().map(|(part, _)| part).collect();
        self.parts.retain(|part, _| *part == Part::Graph || names.contains(part));
        for (part, text) in found {
            self.set(part, text);
        }
    }
}

/// All that the page shows except the graph, as text. The program comes last, since it names the others.
fn look(overview: &Overview, level: PageSpec, started: SystemTime) -> Vec<(Part, String)> {
    let now = SystemTime::now();
    let mut parts = Vec::new();
    let (mut order, mut watches) = (Vec::new(), Vec::new());
    for (name, job) in overview.jobs_in_order() {
        let reason = explain::reason(overview, name, now);
        let mut told = status::job(name, job, reason.as_deref());
        if let Some(object) = told.as_object_mut() {
            object.insert("failed".to_owned(), job.account.failed.into());
        }
        parts.push((Part::Job(name.to_string()), told.to_string()));
        order.push(name.to_string());
    }
    for (name, watch) in overview.watches_in_order() {
        parts.push((Part::Watch(name.to_string()), status::watch(name, watch).to_string()));
        watches.push(name.to_string());
    }
    let program = json!({
        "version": status::VERSION,
        "started": status::time(started),
        "maintenance": overview.maintenance,
        "shuttingDown": overview.shutting_down,
        "consul": { "trouble": overview.discovery.trouble },
        "order": order,
        "watches": watches,
        "full": level == PageSpec::Full,
    });
    parts.push((Part::Program, program.to_string()));
    parts
}

impl Feed {
    /// How much the page shows.
    pub fn level(&self) -> PageSpec {
        self.0.level.get()
    }

    /// Follows a configuration from now on.
    pub fn configure(&self, spec: &Spec, uptime: Duration) {
        let level = spec.telemetry.as_ref().map_or(PageSpec::Off, |telemetry| telemetry.page);
        self.0.level.set(level);
        let mut shown = self.0.shown.borrow_mut();
        if level == PageSpec::Off {
            shown.parts = BTreeMap::new();
            return;
        }
        shown.started.get_or_insert_with(|| SystemTime::now() - uptime);
        shown.set(Part::Graph, graph(spec).to_string());
    }

    /// A stream for one more client; `None` if there are too many.
    pub fn stream(&self, board: Board, events: EventStream) -> Option<FeedStream> {
        let clients = self.0.clients.get();
        if clients >= MOST_CLIENTS {
            return None;
        }
        self.0.clients.set(clients + 1);
        Some(FeedStream { feed: self.clone(), board, events, sent: 0 })
    }

    /// Looks at the board if nobody has done so lately.
    async fn look(&self, board: &Board) {
        let began = Instant::now();
        let started = {
            let mut shown = self.0.shown.borrow_mut();
            if shown.next_look.is_some_and(|next| began < next) {
                return;
            }
            shown.next_look = Some(began + LONGEST_LOOK);
            *shown.started.get_or_insert_with(SystemTime::now)
        };
        let (overview, level) = (board.read().clone(), self.level());
        let found = make(overview.jobs.len(), move || look(&overview, level, started)).await;
        let mut shown = self.0.shown.borrow_mut();
        shown.update(found);
        shown.next_look = Some(began + LOOK_EVERY.max(began.elapsed() * LOOKING_SHARE));
    }
}

/// The stream of one client.
#[derive(Debug)]
pub struct FeedStream {
    feed: Feed,
    board: Board,
    events: EventStream,
    /// The number of the last change that was sent.
    sent: u64,
}

impl FeedStream {
    /// The next chunk of the response; waits until there is something to tell. `None` at its end.
    pub async fn next(&mut self) -> Option<String> {
        let began = Instant::now();
        loop {
            if self.feed.level() == PageSpec::Off {
                return None;
            }
            self.feed.look(&self.board).await;
            let mut text = self.changes();
            // The page begins its list of events anew when it is told which program this is.
            if !self.has_changes() {
                text.push_str(&self.events.unsent());
            }
            if !text.is_empty() {
                return Some(text);
            }
            if self.events.is_over() {
                return None;
            }
            if began.elapsed() >= KEEP_ALIVE {
                return Some(": still there\n\n".to_owned());
            }
            let _ = timeout(LOOK_EVERY, self.events.changed()).await;
        }
    }

    /// Whether there are changes that were not sent.
    fn has_changes(&self) -> bool {
        let shown = self.feed.0.shown.borrow();
        shown.parts.values().any(|(number, _)| *number > self.sent)
    }

    /// The next changes, about as many as fit into a chunk.
    fn changes(&mut self) -> String {
        let shown = self.feed.0.shown.borrow();
        let mut unsent: Vec<(u64, &Part, &String)> = shown
            .parts
            .iter()
            .filter(|(_, (number, _))| *number > self.sent)
            .map(|(part, (number, text))| (*number, part, text))
            .collect();
        unsent.sort_unstable_by_key(|(number, ..)| *number);
        let mut chunk = String::new();
        for (number, part, text) in unsent {
            let _ = write!(chunk, "event: {}\ndata: {text}\n\n", part.event());
            self.sent = number;
            if chunk.len() >= CHUNK {
                break;
            }
        }
        chunk
    }
}

impl Drop for FeedStream {
    fn drop(&mut self) {
        let left = self.feed.0.clients.get().saturating_sub(1);
        self.feed.0.clients.set(left);
        if left == 0 {
            self.feed.0.shown.borrow_mut().forget();
        }
    }
}
