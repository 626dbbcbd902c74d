//! The graph as a picture. No styles and no scripts, so that a strict content security policy allows it; text and lines have the
//! colour of the page around it.
//!
//! Written by hand: Graphviz is a program that the container may not have, and layout-rs has 280 kB of sources.

use super::diagram::{colour, lines};
use super::layers::places;
use super::{Edge, Graph, Kind};
use crate::offload::Pauses;
use crate::printable::cut;

const BOX: (usize, usize) = (200, 56);
const STEP: (usize, usize) = (330, 84);
const MARGIN: usize = 20;
/// Longer names are cut.
const LONGEST: usize = 28;

pub fn render(graph: &Graph) -> String {
    let places = places(graph);
    let columns = places.iter().map(|(column, _)| column + 1).max().unwrap_or(1);
    let rows = places.iter().map(|(_, row)| row + 1).max().unwrap_or(1);
    let (width, height) = (columns * STEP.0 + 2 * MARGIN, rows * STEP.1 + 2 * MARGIN);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" font-family=\"sans-serif\" font-size=\"13\" color=\"#777\">\n<title>What waits for what</title>\n\
         <defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#777\"/></marker></defs>\n"
    );
    for edge in &graph.edges {
        if let (Some(from), Some(to)) = (places.get(edge.from), places.get(edge.to)) {
            text.push_str(&arrow(edge, corner(*from), corner(*to)));
        }
    }
    let mut pauses = Pauses::default();
    for (node, place) in graph.nodes.iter().zip(&places) {
        pauses.at(text.len());
        let (x, y) = corner(*place);
        let stroke = colour(node.tone).unwrap_or("#777");
        let dashes = if node.kind == Kind::Outside { " stroke-dasharray=\"4 3\"" } else { "" };
        let radius = if node.kind == Kind::Watch { 28 } else { 8 };
        text.push_str(&format!(
            "<g><rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"{radius}\" fill=\"none\" stroke=\"{stroke}\" \
             stroke-width=\"2\"{dashes}/>",
            BOX.0, BOX.1
        ));
        for (number, line) in lines(node).iter().enumerate() {
            let (middle, base) = (x + BOX.0 / 2, y + 18 + number * 15);
            let weight = if number == 0 { " font-weight=\"bold\"" } else { "" };
            text.push_str(&format!(
                "<text x=\"{middle}\" y=\"{base}\" text-anchor=\"middle\" fill=\"#777\"{weight}>{}</text>",
                escaped(&cut(line, LONGEST))
            ));
        }
        text.push_str(&format!("<title>{}</title></g>\n", escaped(&lines(node).join(", "))));
    }
    text.push_str("</svg>\n");
    text
}

fn corner((column, row): (usize, usize)) -> (usize, usize) {
    (MARGIN + column * STEP.0, MARGIN + row * STEP.1)
}

fn arrow(edge: &Edge, from: (usize, usize), to: (usize, usize)) -> String {
    let (x1, y1, x2, y2) = (from.0 + BOX.0, from.1 + BOX.1 / 2, to.0, to.1 + BOX.1 / 2);
    let (bend1, bend2) = (x1 + 60, x2.saturating_sub(60));
    let width = if edge.is_critical { 3 } else { 1 };
    let dashes = if edge.is_alternative { " stroke-dasharray=\"6 4\"" } else { "" };
    // Beside the arrow's end, where arrows from several sources are apart.
    let (middle, base) = ((x1 + x2) / 2, (y1 + y2) / 2 - 5.min((y1 + y2) / 2));
    format!(
        "<path d=\"M{x1} {y1}C{bend1} {y1} {bend2} {y2} {x2} {y2}\" fill=\"none\" stroke=\"#777\" stroke-width=\"{width}\"{dashes} \
         marker-end=\"url(#arrow)\"/><text x=\"{middle}\" y=\"{base}\" text-anchor=\"middle\" fill=\"#777\" \
         font-size=\"11\">{}</text>\n",
        escaped(&edge.event)
    )
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no control characters, not even as entities.
            other if other.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
