//! The graph as a tree for people. What waits for several events is told in full once, and only named elsewhere.

use std::collections::BTreeSet;

use super::{Graph, Node};
use crate::offload::Pauses;

/// Lines are not indented further than this: a chain of thousands of jobs would become megabytes of blanks.
const DEEPEST_INDENT: usize = 120;

pub fn render(graph: &Graph) -> String {
    let is_told = vec![false; graph.nodes.len()];
    let mut tree =
        Tree { graph, text: String::new(), pauses: Pauses::default(), is_told, after: after(graph) };
    let waiting: BTreeSet<usize> = graph.edges.iter().map(|edge| edge.to).collect();
    let roots = (0..graph.nodes.len()).filter(|node| !waiting.contains(node));
    roots.for_each(|root| tree.root(root));
    // The remaining nodes are in circles.
    (0..graph.nodes.len()).for_each(|node| tree.root(node));
    tree.text.push_str(&critical_path(graph));
    tree.text
}

/// For each node, the edges that leave it.
fn after(graph: &Graph) -> Vec<Vec<usize>> {
    let mut after = vec![Vec::new(); graph.nodes.len()];
    for (index, edge) in graph.edges.iter().enumerate() {
        if let Some(list) = after.get_mut(edge.from) {
            list.push(index);
        }
    }
    after
}

struct Tree<'a> {
    graph: &'a Graph,
    text: String,
    pauses: Pauses,
    is_told: Vec<bool>,
    after: Vec<Vec<usize>>,
}

impl Tree<'_> {
    /// Marks a node as told; true if it was not.
    fn mark(&mut self, node: usize) -> bool {
        self.is_told.get_mut(node).is_some_and(|told| !std::mem::replace(told, true))
    }

    fn root(&mut self, root: usize) {
        let Some(node) = self.graph.nodes.get(root) else { return };
        if !self.mark(root) {
            return;
        }
        self.pauses.at(self.text.len());
        self.text.push_str(&format!("{}\n", label(node)));
        self.branches(root);
    }

    /// All that waits for a node, without recursion: a chain may have a thousand jobs.
    fn branches(&mut self, root: usize) {
        let edges = |tree: &Self, node: usize| tree.after.get(node).cloned().unwrap_or_default();
        let mut stack: Vec<(Vec<usize>, String)> = vec![(edges(self, root), String::new())];
        while let Some((mut open, indent)) = stack.pop() {
            if open.is_empty() {
                continue;
            }
            self.pauses.at(self.text.len());
            let next = open.remove(0);
            let is_last = open.is_empty();
            stack.push((open, indent.clone()));
            let Some(edge) = self.graph.edges.get(next) else { continue };
            let Some(node) = self.graph.nodes.get(edge.to) else { continue };
            let is_new = self.mark(edge.to);
            let branch = if is_last { "└─" } else { "├─" };
            let name = if is_new { label(node) } else { format!("{} (told above)", node.name) };
            let mark = if edge.is_critical { " *" } else { "" };
            let or = if edge.is_alternative { " (or another)" } else { "" };
            self.text.push_str(&format!("{indent}{branch} {}{or} → {name}{mark}\n", edge.event));
            if is_new {
                let is_deep = indent.chars().count() >= DEEPEST_INDENT;
                let step = if is_last { "   " } else { "│  " };
                let deeper = if is_deep { indent } else { format!("{indent}{step}") };
                stack.push((edges(self, edge.to), deeper));
            }
        }
    }
}

fn label(node: &Node) -> String {
    let details: Vec<&str> = node.schedule.iter().chain(&node.state).map(String::as_str).collect();
    if details.is_empty() { node.name.clone() } else { format!("{}: {}", node.name, details.join(", ")) }
}

fn critical_path(graph: &Graph) -> String {
    let Some(last) = graph.path.last() else { return String::new() };
    let took = last.done.as_secs_f64();
    let mut text = if graph.is_starting {
        format!("\nThe start is not over. Its critical path (*) after {took:.1} s:\n")
    } else {
        format!("\nThe start took {took:.1} s. Its critical path (*):\n")
    };
    for step in &graph.path {
        let took = step.done.saturating_sub(step.started);
        let event = step.event.unwrap_or("can be used");
        text.push_str(&format!(
            "  {:>6.1} s  {} started, {event} after {:.1} s\n",
            step.started.as_secs_f64(),
            step.job,
            took.as_secs_f64()
        ));
    }
    text
}
