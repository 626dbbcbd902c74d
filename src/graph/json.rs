//! The graph for programs.

use serde::Serialize;

use super::{Graph, Node, Step};
use crate::offload::Draft;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    nodes: &'a [Node],
    edges: Vec<ShownEdge<'a>>,
    starting: bool,
    critical_path: &'a [Step],
}

/// An edge with the names of its ends.
#[derive(Serialize)]
struct ShownEdge<'a> {
    from: Option<&'a str>,
    to: Option<&'a str>,
    event: &'a str,
    alternative: bool,
    critical: bool,
}

pub fn render(graph: &Graph) -> String {
    let name = |index: usize| graph.nodes.get(index).map(|node| node.name.as_str());
    let edges = graph.edges.iter().map(|edge| ShownEdge {
        from: name(edge.from),
        to: name(edge.to),
        event: &edge.event,
        alternative: edge.is_alternative,
        critical: edge.is_critical,
    });
    let shown = Shown {
        nodes: &graph.nodes,
        edges: edges.collect(),
        starting: graph.is_starting,
        critical_path: &graph.path,
    };
    let mut draft = Draft::default();
    // Writing into memory cannot fail, and JSON is UTF-8.
    let _ = serde_json::to_writer(&mut draft, &shown);
    draft.text.push(b'\n');
    String::from_utf8(draft.text).unwrap_or_default()
}
