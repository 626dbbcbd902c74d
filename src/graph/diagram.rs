//! The graph for Graphviz and for Mermaid.

use super::{Graph, Kind, Node, Tone};
use crate::offload::Pauses;

pub fn dot(graph: &Graph) -> String {
    let quoted =
        |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
    let mut text =
        String::from("digraph containerpilot {\n  rankdir=LR;\n  node [shape=box, style=rounded];\n");
    let mut pauses = Pauses::default();
    for (index, node) in graph.nodes.iter().enumerate() {
        pauses.at(text.len());
        let shape = match node.kind {
            Kind::Job | Kind::Coprocess => "",
            Kind::Watch => ", shape=cylinder, style=\"\"",
            Kind::Group => ", shape=folder, style=\"\"",
            Kind::Outside => ", shape=plaintext, style=\"\"",
        };
        let colour =
            colour(node.tone).map(|colour| format!(", color={}", quoted(colour))).unwrap_or_default();
        text.push_str(&format!("  n{index} [label={}{shape}{colour}];\n", quoted(&lines(node).join("\n"))));
    }
    for edge in &graph.edges {
        let style = if edge.is_alternative { ", style=dashed" } else { "" };
        let width = if edge.is_critical { ", penwidth=3" } else { "" };
        text.push_str(&format!(
            "  n{} -> n{} [label={}{style}{width}];\n",
            edge.from,
            edge.to,
            quoted(&edge.event)
        ));
    }
    text.push_str("}\n");
    text
}

pub fn mermaid(graph: &Graph) -> String {
    // Mermaid has entities without an ampersand.
    let quoted = |text: &str| {
        let text = text.replace('#', "#35;").replace('"', "#quot;").replace('<', "#lt;").replace('>', "#gt;");
        format!("\"{}\"", text.replace('\n', "<br/>"))
    };
    let mut text = String::from("flowchart LR\n");
    let mut pauses = Pauses::default();
    for (index, node) in graph.nodes.iter().enumerate() {
        pauses.at(text.len());
        let label = quoted(&lines(node).join("\n"));
        text.push_str(&match node.kind {
            Kind::Job | Kind::Coprocess => format!("  n{index}({label})\n"),
            Kind::Watch => format!("  n{index}[({label})]\n"),
            Kind::Group => format!("  n{index}[[{label}]]\n"),
            Kind::Outside => format!("  n{index}[{label}]\n"),
        });
        if let Some(colour) = colour(node.tone) {
            text.push_str(&format!("  style n{index} stroke:{colour}\n"));
        }
    }
    for edge in &graph.edges {
        let arrow = match (edge.is_critical, edge.is_alternative) {
            (true, _) => "==>",
            (false, true) => "-.->",
            (false, false) => "-->",
        };
        text.push_str(&format!("  n{} {arrow}|{}| n{}\n", edge.from, quoted(&edge.event), edge.to));
    }
    text
}

/// The words in a node, line by line.
pub fn lines(node: &Node) -> Vec<String> {
    std::iter::once(node.name.clone()).chain(node.schedule.clone()).chain(node.state.clone()).collect()
}

/// Colours that can be told apart on a light and on a dark ground; what they say is also said in words.
pub const fn colour(tone: Tone) -> Option<&'static str> {
    match tone {
        Tone::Good => Some("#2e8b57"),
        Tone::Waiting => Some("#b8860b"),
        Tone::Bad => Some("#d9534f"),
        Tone::Neutral => None,
    }
}
