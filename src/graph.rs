//! The graph of dependencies: the jobs and watches of a configuration, the events between them, and, if the program runs, their
//! states and the critical path of its start. Pure: from a configuration and the board to text.

mod critical;
mod diagram;
mod json;
mod layers;
mod svg;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::Serialize;

use crate::config::duration::GoDuration;
use crate::config::spec::{GroupSpec, JobKind, JobSpec, Spec, Trigger};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::health::Health;
use crate::messages::job::Phase;
use crate::messages::status::{JobStatus, NEVER_RAN, Overview};

pub use critical::Step;

/// The forms of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A tree for people.
    Text,
    /// Graphviz.
    Dot,
    /// Mermaid, for Markdown.
    Mermaid,
    /// A picture.
    Svg,
    /// For programs.
    Json,
}

impl Format {
    /// Every form.
    pub const ALL: [Self; 5] = [Self::Text, Self::Dot, Self::Mermaid, Self::Svg, Self::Json];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Dot => "dot",
            Self::Mermaid => "mermaid",
            Self::Svg => "svg",
            Self::Json => "json",
        }
    }

    /// The form of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Its media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text | Self::Dot | Self::Mermaid => "text/plain; charset=utf-8",
            Self::Svg => "image/svg+xml",
            Self::Json => "application/json",
        }
    }
}

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A job.
    Job,
    /// A coprocess.
    Coprocess,
    /// A watch of Consul.
    Watch,
    /// A group of jobs.
    Group,
    /// Something that happens to the whole program: a signal, the shutdown, maintenance.
    Outside,
}

/// How a job or watch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it should.
    Good,
    /// Not yet.
    Waiting,
    /// It has failed, is unhealthy or crashes.
    Bad,
    /// Over, or not known.
    Neutral,
}

/// A job, a watch, or something outside that jobs wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its name, as a source of events.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its schedule, if it has one.
    pub schedule: Option<String>,
    /// Its state and health, if the program runs.
    pub state: Option<String>,
    /// How it does.
    #[serde(skip)]
    pub tone: Tone,
}

/// A job waits for an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The index of the event's source.
    pub from: usize,
    /// The index of the job that waits.
    pub to: usize,
    /// The event.
    pub event: String,
    /// Another event can take its place.
    pub is_alternative: bool,
    /// It is on the critical path of the start.
    pub is_critical: bool,
}

/// The graph of dependencies.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Graph {
    /// Jobs in the order of the configuration, then watches, then groups, then what is outside.
    pub nodes: Vec<Node>,
    /// Each event that a job waits for.
    pub edges: Vec<Edge>,
    /// The critical path of the start, first step first; empty if the program does not run.
    pub path: Vec<Step>,
    /// Some job has not been started, or cannot be used yet, though it is to be from the start on.
    pub is_starting: bool,
}

impl Graph {
    /// The graph of a configuration.
    pub fn of(spec: &Spec) -> Self {
        let mut graph = Self::default();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for job in &spec.jobs {
            let kind = if job.kind == JobKind::Coprocess { Kind::Coprocess } else { Kind::Job };
            graph.place(&mut places, &job.name, kind, schedule(job));
        }
        for watch in &spec.watches {
            graph.place(&mut places, &format!("watch.{}", watch.name), Kind::Watch, None);
        }
        for group in &spec.groups {
            graph.add_group(&mut places, group);
        }
        for (to, job) in spec.jobs.iter().enumerate() {
            let (is_each, is_alternative) = match &job.when.trigger {
                Trigger::Each(_) => (true, false),
                Trigger::Any(keys) => (false, keys.len() > 1),
                Trigger::Once(_) | Trigger::All(_) | Trigger::Interval(_) | Trigger::Cron(_) => {
                    (false, false)
                }
            };
            for key in job.when.keys().iter().filter(|key| key.code != EventCode::Startup) {
                let (name, kind, event) = source(key);
                let from = graph.place(&mut places, &name, kind, None);
                let event = if is_each { format!("each {event}") } else { event };
                graph.edges.push(Edge { from, to, event, is_alternative, is_critical: false });
            }
        }
        graph
    }

    /// Adds a group: its members start one after the other, and make up the group.
    fn add_group(&mut self, places: &mut BTreeMap<String, usize>, group: &GroupSpec) {
        let whole = self.place(places, &format!("group.{}", group.name), Kind::Group, None);
        let members: Vec<usize> = group.jobs.iter().filter_map(|job| places.get(&**job).copied()).collect();
        let mut connect = |from, to, event: &str| {
            let (is_alternative, is_critical) = (false, false);
            self.edges.push(Edge { from, to, event: event.to_owned(), is_alternative, is_critical });
        };
        for (before, after) in members.iter().zip(members.iter().skip(1)) {
            connect(*before, *after, "before");
        }
        members.iter().for_each(|member| connect(*member, whole, "member"));
    }

    /// The place of a node, which is added if it is new.
    fn place(
        &mut self,
        places: &mut BTreeMap<String, usize>,
        name: &str,
        kind: Kind,
        schedule: Option<String>,
    ) -> usize {
        *places.entry(name.to_owned()).or_insert_with(|| {
            self.nodes.push(Node { name: name.to_owned(), kind, schedule, state: None, tone: Tone::Neutral });
            self.nodes.len() - 1
        })
    }

    /// The same graph with the states of a running program, and the critical path of its start.
    #[must_use]
    pub fn with_status(mut self, overview: &Overview) -> Self {
        for node in &mut self.nodes {
            let state = match node.kind {
                Kind::Job | Kind::Coprocess => {
                    overview.jobs.get(node.name.as_str()).map(|job| job_state(job))
                }
                Kind::Watch => {
                    let name = node.name.strip_prefix("watch.").unwrap_or(&node.name);
                    overview.watches.get(name).map(|watch| match (watch.known, watch.instances.len()) {
                        (false, _) => ("unknown".to_owned(), Tone::Waiting),
                        (true, 0) => ("no instances".to_owned(), Tone::Bad),
                        (true, 1) => ("1 instance".to_owned(), Tone::Good),
                        (true, number) => (format!("{number} instances"), Tone::Good),
                    })
                }
                Kind::Group => {
                    let name = node.name.strip_prefix("group.").unwrap_or(&node.name);
                    let group = overview.groups.iter().find(|group| &*group.name == name);
                    group.map(|group| match (group.has_given_up, group.ready) {
                        (true, _) => ("gave up".to_owned(), Tone::Bad),
                        (false, true) => ("ready".to_owned(), Tone::Good),
                        (false, false) => ("not ready".to_owned(), Tone::Waiting),
                    })
                }
                Kind::Outside => None,
            };
            if let Some((state, tone)) = state {
                (node.state, node.tone) = (Some(state), tone);
            }
        }
        self.path = critical::path(overview);
        self.is_starting = overview.jobs.values().any(|job| critical::is_starting(job));
        for pair in self.path.windows(2) {
            let [before, after] = pair else { continue };
            let (from, to) = (self.index(&before.job), self.index(&after.job));
            let edges = self.edges.iter_mut().filter(|edge| Some(edge.from) == from && Some(edge.to) == to);
            edges.for_each(|edge| edge.is_critical = true);
        }
        self
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// The graph in that form.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Text => tree::render(self),
            Format::Dot => diagram::dot(self),
            Format::Mermaid => diagram::mermaid(self),
            Format::Svg => svg::render(self),
            Format::Json => json::render(self),
        }
    }
}

/// The node that an event comes from, and the event's name there.
fn source(key: &EventKey) -> (String, Kind, String) {
    let event = key.code.config_name().to_owned();
    match &key.source {
        Source::Job(name) => (name.to_string(), Kind::Job, event),
        Source::Check(name) => (name.to_string(), Kind::Job, format!("check {event}")),
        Source::Watch(_) => (key.source.to_string(), Kind::Watch, event),
        Source::Group(_) => (key.source.to_string(), Kind::Group, event),
        Source::Global => ("the program".to_owned(), Kind::Outside, event),
        Source::Signal(signal) => (signal.to_string(), Kind::Outside, event),
    }
}

fn schedule(job: &JobSpec) -> Option<String> {
    match &job.when.trigger {
        Trigger::Interval(interval) => Some(format!("every {}", GoDuration::from(*interval))),
        Trigger::Cron(cron) => Some(format!("cron {}", cron.text)),
        Trigger::Once(_) | Trigger::Each(_) | Trigger::All(_) | Trigger::Any(_) => None,
    }
}

/// State and health of a job in words, and how it does.
fn job_state(job: &JobStatus) -> (String, Tone) {
    let failed = job.account.failed;
    let tone = match (job.phase, job.health) {
        (_, Health::Unhealthy) => Tone::Bad,
        (Phase::Running, Health::Healthy) => Tone::Good,
        (Phase::Running, Health::Unknown) if !job.starting && job.checks.is_empty() => Tone::Good,
        (Phase::Running, _) => Tone::Waiting,
        (Phase::Complete, _) if !job.has_run || failed => Tone::Bad,
        (Phase::Waiting | Phase::Queued, _) => Tone::Waiting,
        (Phase::Delayed | Phase::Sweeping | Phase::TimedOut, _) => Tone::Bad,
        (
            Phase::Complete
            | Phase::Halted
            | Phase::Holding
            | Phase::Deregistering
            | Phase::Draining
            | Phase::Terminating
            | Phase::Killing
            | Phase::Ending,
            _,
        ) => Tone::Neutral,
    };
    let words = match (job.phase, job.health) {
        (Phase::Complete, _) if job.has_never_run() => NEVER_RAN.to_owned(),
        (Phase::Complete, _) if failed => "failed".to_owned(),
        (_, Health::Healthy | Health::Unhealthy) => format!("{}, {}", job.state(), job.health),
        (_, _) => job.state().to_owned(),
    };
    (words, tone)
}
