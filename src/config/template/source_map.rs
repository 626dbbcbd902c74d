//! From a place in the rendered text back to the source: a sorted list of segments, each either literal text,
//! which maps byte by byte, or what an action printed, which maps to the whole action.

use std::collections::BTreeMap;
use std::ops::Range;

use super::span::Span;

/// Where each part of a rendered text came from.
#[derive(Debug, Clone, Default)]
pub struct SourceMap {
    segments: Vec<Segment>,
    /// Actions that printed nothing, by their place in the rendered text; one per place.
    holes: BTreeMap<usize, Hole>,
    rendered: usize,
}

/// An action that printed nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// Its bytes of the source.
    pub span: Range<usize>,
    /// The variable that it would have printed, if that is not set.
    pub unset: Option<String>,
}

/// The place in the source that a range of rendered text came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The bytes of the source.
    pub span: Range<usize>,
    /// True when the source holds exactly the rendered text there; false when an action produced part of it.
    pub verbatim: bool,
}

/// It ends where the next one starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    rendered: usize,
    source: Span,
    literal: bool,
}

impl Segment {
    /// The part of the source that stands for the rendered bytes from `from` to `to`, as far as this segment reaches.
    fn part(&self, from: usize, to: usize) -> Range<usize> {
        let Span { start, end } = self.source;
        if !self.literal {
            return start..end;
        }
        let place = |position: usize| (start + position.saturating_sub(self.rendered)).min(end);
        place(from)..place(to)
    }
}

impl SourceMap {
    /// The map of a text that was not changed.
    pub(super) fn identity(length: usize) -> SourceMap {
        let mut map = SourceMap::default();
        map.add_literal(0, length);
        map
    }

    /// Notes that `length` bytes of the source, from `start` on, were written next.
    pub(super) fn add_literal(&mut self, start: usize, length: usize) {
        self.add(Span { start, end: start + length }, length, true);
    }

    /// Notes that the action at `span` wrote the next `length` bytes.
    pub(super) fn add_action(&mut self, span: Span, length: usize) {
        self.add(span, length, false);
    }

    /// Notes that the action at `span` wrote nothing, because the variable `unset` is not set or for a reason of
    /// its own.
    pub(super) fn add_nothing(&mut self, span: Span, unset: Option<&str>) {
        let hole = || Hole { span: span.start..span.end, unset: unset.map(str::to_owned) };
        self.holes.entry(self.rendered).or_insert_with(hole);
    }

    /// The action that printed nothing where an empty range of the rendered text is.
    pub fn hole(&self, rendered: &Range<usize>) -> Option<&Hole> {
        self.holes.get(&rendered.start).filter(|_| rendered.is_empty())
    }

    /// Where in the rendered text the last action before or at `offset` printed nothing.
    pub fn last_hole(&self, offset: usize) -> Option<usize> {
        self.holes.range(..=offset).next_back().map(|(place, _)| *place)
    }

    fn add(&mut self, source: Span, length: usize, literal: bool) {
        if length == 0 {
            return;
        }
        let rendered = self.rendered;
        self.rendered += length;
        match self.segments.last_mut().filter(|last| last.literal == literal) {
            Some(last) if literal && last.source.end == source.start => last.source.end = source.end,
            Some(last) if !literal && last.source == source => {}
            Some(_) | None => self.segments.push(Segment { rendered, source, literal }),
        }
    }

    /// The place in the unrendered source that a range of the rendered text came from.
    ///
    /// A range beyond the end is clamped. A range on the character boundaries of the rendered text yields a span on
    /// the character boundaries of the source.
    pub fn locate(&self, rendered: Range<usize>) -> Origin {
        let start = rendered.start.min(self.rendered);
        let end = rendered.end.clamp(start, self.rendered);
        let Some(first) = self.segment_at(start) else {
            return Origin { span: 0..0, verbatim: true };
        };
        if start == self.rendered {
            let after = first.source.end;
            return Origin { span: after..after, verbatim: first.literal };
        }
        let last = if start == end { first } else { self.segment_at(end - 1).unwrap_or(first) };
        let (head, tail) = (first.part(start, end), last.part(start, end));
        let span = head.start.min(tail.start)..head.end.max(tail.end);
        Origin { span, verbatim: first.literal && std::ptr::eq(first, last) }
    }

    /// The segment that holds the byte at `position`; the last one for the end of the text.
    fn segment_at(&self, position: usize) -> Option<&Segment> {
        let after = self.segments.partition_point(|segment| segment.rendered <= position);
        self.segments.get(after.checked_sub(1)?)
    }

    #[cfg(test)]
    pub(super) fn literal_segments(&self) -> Vec<(Range<usize>, Range<usize>)> {
        let literal = self.segments.iter().filter(|segment| segment.literal);
        literal
            .map(|segment| {
                let Span { start, end } = segment.source;
                (segment.rendered..segment.rendered + (end - start), start..end)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ab{{ x }}cd`, where the action printed `123`.
    fn sample() -> SourceMap {
        let mut map = SourceMap::default();
        map.add_literal(0, 2);
        map.add_action(Span { start: 2, end: 9 }, 3);
        map.add_literal(9, 2);
        map
    }

    fn verbatim(span: Range<usize>) -> Origin {
        Origin { span, verbatim: true }
    }

    fn produced(span: Range<usize>) -> Origin {
        Origin { span, verbatim: false }
    }

    #[test]
    fn literal_text_maps_byte_by_byte() {
        assert_eq!(sample().locate(1..2), verbatim(1..2));
        assert_eq!(sample().locate(5..7), verbatim(9..11));
        assert_eq!(sample().locate(6..7), verbatim(10..11));
    }

    #[test]
    fn what_an_action_printed_maps_to_the_action() {
        assert_eq!(sample().locate(3..4), produced(2..9));
        assert_eq!(sample().locate(2..5), produced(2..9));
    }

    #[test]
    fn a_range_across_segments_spans_from_the_first_to_the_last() {
        assert_eq!(sample().locate(1..6), produced(1..10));
        assert_eq!(sample().locate(0..3), produced(0..9));
        assert_eq!(sample().locate(4..7), produced(2..11));
    }

    #[test]
    fn an_empty_range_is_a_point_of_literal_text_or_a_whole_action() {
        assert_eq!(sample().locate(1..1), verbatim(1..1));
        assert_eq!(sample().locate(2..2), produced(2..9));
        assert_eq!(sample().locate(5..5), verbatim(9..9));
    }

    #[test]
    fn the_end_and_what_is_beyond_map_to_the_end_of_the_last_segment() {
        assert_eq!(sample().locate(7..7), verbatim(11..11));
        assert_eq!(sample().locate(70..90), verbatim(11..11));
        assert_eq!(sample().locate(6..90), verbatim(10..11));
        let mut action = SourceMap::default();
        action.add_action(Span { start: 0, end: 7 }, 4);
        assert_eq!(action.locate(4..4), produced(7..7));
    }

    #[test]
    #[expect(clippy::reversed_empty_ranges, reason = "a caller's mistake must not panic")]
    fn a_reversed_range_counts_as_empty() {
        assert_eq!(sample().locate(6..1), verbatim(10..10));
    }

    #[test]
    fn an_action_that_printed_nothing_is_found_at_its_place() {
        let mut map = SourceMap::default();
        map.add_literal(0, 2);
        map.add_nothing(Span { start: 2, end: 9 }, Some("X"));
        map.add_nothing(Span { start: 9, end: 12 }, None);
        map.add_literal(12, 2);
        let hole = Hole { span: 2..9, unset: Some("X".to_owned()) };
        assert_eq!((map.hole(&(2..2)), map.hole(&(2..3))), (Some(&hole), None));
        assert_eq!((map.last_hole(1), map.last_hole(2), map.last_hole(4)), (None, Some(2), Some(2)));
    }

    #[test]
    fn an_empty_text_maps_to_the_start() {
        assert_eq!(SourceMap::default().locate(0..0), verbatim(0..0));
        assert_eq!(SourceMap::identity(0).locate(3..9), verbatim(0..0));
    }

    #[test]
    fn text_that_moved_backwards_still_yields_an_ordered_span() {
        let mut map = SourceMap::default();
        map.add_literal(20, 5);
        map.add_literal(3, 5);
        assert_eq!(map.locate(4..6), Origin { span: 3..25, verbatim: false });
    }

    #[test]
    fn neighbours_of_one_origin_are_one_segment() {
        let mut map = SourceMap::default();
        map.add_literal(0, 2);
        map.add_literal(2, 2);
        map.add_action(Span { start: 4, end: 9 }, 1);
        map.add_action(Span { start: 4, end: 9 }, 1);
        assert_eq!(map.segments.len(), 2);
    }
}
