//! The old file: its values as they were written, with the template actions in and around them.

use std::ops::Range;

use super::mask::{Block, Masked};
use crate::config::diagnostic::{Problem, Problems};
use crate::config::document::{Kind, Node};
use crate::config::source::{Span, position};

/// The old file, and which of its template blocks the new one has.
pub struct Old<'a> {
    text: &'a str,
    masked: &'a Masked,
    problems: &'a mut Problems,
    /// The parts that were copied as a whole, and the headers and ends of blocks that were carried over.
    carried: Vec<Range<usize>>,
}

/// An entry of a list, with the blocks around it.
#[derive(Debug)]
pub struct Item<'a> {
    pub node: &'a Node,
    /// Its position in the list.
    pub index: usize,
    /// The actions that open the blocks around it, outermost first.
    pub opening: String,
    /// One `{{ end }}` for each.
    pub closing: String,
}

impl<'a> Old<'a> {
    pub fn new(text: &'a str, masked: &'a Masked, problems: &'a mut Problems) -> Self {
        Self { text, masked, problems, carried: Vec::new() }
    }

    /// A value as it was written; whatever is in it is carried over.
    pub fn source(&mut self, node: &Node) -> &'a str {
        self.carried.push(node.span.range());
        self.written(node)
    }

    fn written(&self, node: &Node) -> &'a str {
        self.text.get(node.span.range()).unwrap_or_default()
    }

    /// The characters of a string as they were written between its quotes, or those of any other value.
    pub fn inner(&mut self, node: &Node) -> &'a str {
        let source = self.source(node);
        if matches!(node.kind, Kind::String(_)) { unquoted(source) } else { source }
    }

    /// The words of a command: the entries of an array, or a string split at its spaces, as version 2 did.
    pub fn words(&mut self, node: &Node) -> Vec<String> {
        if let Some(words) = node.as_array() {
            return words.iter().map(|word| self.source(word).to_owned()).collect();
        }
        let quote = match self.written(node).chars().next() {
            Some(quote @ ('"' | '\'')) => quote,
            // A template action alone.
            Some(_) | None => return vec![self.source(node).to_owned()],
        };
        let inner = self.inner(node);
        let mut words = Vec::new();
        let mut start = 0;
        for part in self.without_actions(node).split(' ') {
            let word = inner.get(start..start + part.len()).unwrap_or_default();
            start += part.len() + 1;
            if !word.is_empty() {
                words.push(format!("{quote}{word}{quote}"));
            }
        }
        words
    }

    /// `inner` of a string in quotes, with every template action replaced by as many letters.
    pub fn without_actions(&self, node: &Node) -> &'a str {
        unquoted(self.masked.text.get(node.span.range()).unwrap_or_default())
    }

    /// Whether anything in the file is a comment.
    pub fn has_comments(&self) -> bool {
        self.masked.has_comments
    }

    /// The line of a place, counted from 1.
    pub fn line(&self, span: Span) -> usize {
        position(self.text, span.range().start).0
    }

    /// Reports that a value is not what it must be.
    pub fn wrong(&mut self, path: &str, node: &Node, expected: &str) {
        let message = format!("{path}: expected {expected}");
        self.problems.add(Problem::error("wrong-type", node.span, message));
    }

    /// The entries of a list, each with the template blocks around it.
    pub fn items<'n>(&mut self, path: &str, list: &'n Node) -> Vec<Item<'n>> {
        let Some(nodes) = list.as_array() else {
            self.wrong(path, list, "an array");
            return Vec::new();
        };
        let within = |block: &&Block| {
            let span = list.span.range();
            block.headers.first().is_some_and(|open| open.start >= span.start) && block.end.end <= span.end
        };
        // They end in the order of the list, inner ones first.
        let masked = self.masked;
        let blocks: Vec<&Block> = masked.blocks.iter().filter(within).collect();
        let item = |(index, node): (usize, &'n Node)| {
            let around: Vec<&&Block> = blocks.iter().filter(|block| surrounds(block, node)).rev().collect();
            let opening = around.iter().map(|block| self.opening(block, node)).collect();
            let closing = around.iter().map(|_| "{{ end }}").collect();
            Item { node, index, opening, closing }
        };
        nodes.iter().enumerate().map(item).collect()
    }

    /// The headers of a block's branches up to the one that an entry is in.
    fn opening(&mut self, block: &Block, node: &Node) -> String {
        let before = |header: &&Range<usize>| header.end <= node.span.range().start;
        self.carried.extend(block.headers.iter().cloned());
        self.carried.push(block.end.clone());
        let headers = block.headers.iter().filter(before);
        headers.map(|header| self.text.get(header.clone()).unwrap_or_default()).collect()
    }

    /// Template actions that the new file would be without.
    pub fn unhandled(&self) -> Vec<Range<usize>> {
        let is_carried = |range: &Range<usize>| {
            self.carried.iter().any(|it| it.start <= range.start && range.end <= it.end)
        };
        let blocks = self.masked.blocks.iter().filter(|block| !self.is_separator(block));
        let headers = blocks.filter_map(|block| block.headers.first());
        headers.chain(&self.masked.strays).filter(|range| !is_carried(range)).cloned().collect()
    }

    /// Whether a block prints commas at most, of which we have our own.
    fn is_separator(&self, block: &Block) -> bool {
        let start = block.headers.last().map_or(0, |header| header.end);
        let inside = self.masked.text.get(start..block.end.start).unwrap_or_default();
        block.headers.len() == 1 && inside.chars().all(|c| c == ',' || c.is_whitespace())
    }
}

fn surrounds(block: &Block, node: &Node) -> bool {
    let span = node.span.range();
    block.headers.first().is_some_and(|open| open.end <= span.start)
        && span.end <= block.end.start
        && block.headers.iter().all(|header| header.end <= span.start || span.end <= header.start)
}

fn unquoted(source: &str) -> &str {
    match source.as_bytes() {
        [b'"' | b'\'', .., b'"' | b'\''] => source.get(1..source.len() - 1).unwrap_or_default(),
        _ => source,
    }
}

/// A value that was given: neither absent nor null nor empty.
pub fn given<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    node.get(key).filter(|value| {
        !matches!(value.kind, Kind::Null)
            && value.as_str() != Some("")
            && value.as_array().is_none_or(|it| !it.is_empty())
    })
}
