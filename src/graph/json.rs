//! The graph for programs.

use serde::Serialize;

use super::{Graph, Step};
use crate::offload::Draft;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    nodes: Vec<ShownNode<'a>>,
    edges: Vec<ShownEdge<'a>>,
    starting: bool,
    critical_path: Vec<ShownStep<'a>>,
}

#[derive(Serialize)]
struct ShownNode<'a> {
    name: &'a str,
    kind: &'static str,
    schedule: Option<&'a str>,
    state: Option<&'a str>,
}

#[derive(Serialize)]
struct ShownEdge<'a> {
    from: Option<&'a str>,
    to: Option<&'a str>,
    event: &'a str,
    alternative: bool,
    critical: bool,
}

#[derive(Serialize)]
struct ShownStep<'a> {
    job: &'a str,
    started: f64,
    event: Option<&'static str>,
    done: f64,
}

pub fn render(graph: &Graph) -> String {
    let name = |index: usize| graph.nodes.get(index).map(|node| node.name.as_str());
    let nodes = graph.nodes.iter().map(|node| ShownNode {
        name: &node.name,
        kind: node.kind.name(),
        schedule: node.schedule.as_deref(),
        state: node.state.as_deref(),
    });
    let edges = graph.edges.iter().map(|edge| ShownEdge {
        from: name(edge.from),
        to: name(edge.to),
        event: &edge.event,
        alternative: edge.is_alternative,
        critical: edge.is_critical,
    });
    let shown = Shown {
        nodes: nodes.collect(),
        edges: edges.collect(),
        starting: graph.is_starting,
        critical_path: graph.path.iter().map(ShownStep::of).collect(),
    };
    let mut draft = Draft::default();
    // Writing into memory cannot fail, and JSON is UTF-8.
    let _ = serde_json::to_writer(&mut draft, &shown);
    draft.text.push(b'\n');
    String::from_utf8(draft.text).unwrap_or_default()
}

impl<'a> ShownStep<'a> {
    fn of(step: &'a Step) -> Self {
        let (started, done) = (step.started.as_secs_f64(), step.done.as_secs_f64());
        Self { job: &step.job, started, event: step.event, done }
    }
}
