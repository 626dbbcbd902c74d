//! A place in the output that is kept of several jobs, from which it is read in the order of the log. Pure. A cursor holds
//! numbers only: a client that reads slowly costs no memory, and loses what is forgotten meanwhile.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::ring::{Ring, after_lines, count_lines};

/// The output that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Of these jobs; of all if it is empty.
    pub jobs: Vec<String>,
    /// Only the last lines, at most so many.
    pub lines: usize,
    /// Nothing older than this.
    pub since: Option<SystemTime>,
    /// Also what comes later.
    pub follow: bool,
}

/// A place in the output of some jobs.
#[derive(Debug)]
pub struct Cursor {
    /// The jobs; all if it is empty.
    jobs: Vec<String>,
    /// The number of the last piece that was read.
    read: u64,
    /// Of the next piece, so many lines are left out.
    skip: usize,
    /// If a piece with a larger number is forgotten before it was read, that is told.
    told: u64,
    /// The last piece that is wanted.
    end: u64,
}

type Rings = BTreeMap<Arc<str>, Ring>;

/// The cursor before the output that is wanted.
pub fn find(rings: &Rings, newest: u64, wanted: Wanted) -> Cursor {
    let Wanted { jobs, lines, since, follow } = wanted;
    let since = since.and_then(|since| since.duration_since(UNIX_EPOCH).ok());
    let since = since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    let end = if follow { u64::MAX } else { newest };
    let mut cursor = Cursor { jobs, read: newest, skip: 0, told: newest, end };
    let chosen: Vec<&Ring> = cursor.chosen(rings).map(|(_, ring)| ring).collect();
    // Backwards through all rings at once, the newest piece first.
    let last = |(index, ring): (usize, &&Ring)| {
        let piece = ring.len().checked_sub(1)?;
        Some((ring.get(piece)?.number, index, piece))
    };
    let mut heap: BinaryHeap<_> = chosen.iter().enumerate().filter_map(last).collect();
    let (mut found, mut read, mut skip) = (0, newest, 0);
    while found < lines {
        let Some((number, index, piece)) = heap.pop() else { break };
        let Some(ring) = chosen.get(index) else { break };
        let Some(found_piece) = ring.get(piece).filter(|piece| piece.origin.time >= since) else { break };
        found += count_lines(&found_piece.text);
        (read, skip) = (number - 1, found.saturating_sub(lines));
        let before = piece.checked_sub(1).and_then(|before| Some((ring.get(before)?.number, index, before)));
        heap.extend(before);
    }
    (cursor.read, cursor.skip) = (read, skip);
    cursor
}

impl Cursor {
    /// Whether everything that is wanted was read.
    pub fn is_at_end(&self) -> bool {
        self.read >= self.end
    }

    /// What comes next, about `limit` bytes of it; a piece is never cut.
    pub fn read(&mut self, rings: &Rings, newest: u64, limit: usize) -> Vec<u8> {
        let mut text = self.gaps(rings);
        let chosen: Vec<&Ring> = self.chosen(rings).map(|(_, ring)| ring).collect();
        let next = |index: usize, piece: usize| {
            let number = chosen.get(index)?.get(piece)?.number;
            (number <= self.end).then_some(Reverse((number, index, piece)))
        };
        let first = chosen.iter().enumerate().filter_map(|(index, ring)| next(index, ring.up_to(self.read)));
        let mut heap: BinaryHeap<_> = first.collect();
        let read = loop {
            let Some(Reverse((number, index, piece))) = heap.pop() else { break newest.min(self.end) };
            let part = chosen.get(index).and_then(|ring| ring.get(piece));
            let part = part.map(|piece| &*piece.text).unwrap_or_default();
            // The piece whose first lines are to be left out may be forgotten by now.
            let skip = if number == self.read + 1 { self.skip } else { 0 };
            text.extend_from_slice(part.get(after_lines(part, skip)..).unwrap_or_default());
            heap.extend(next(index, piece + 1));
            if text.len() >= limit {
                break number;
            }
        };
        (self.read, self.skip) = (read, 0);
        text
    }

    /// Says of which jobs something was forgotten before it was read.
    fn gaps(&mut self, rings: &Rings) -> Vec<u8> {
        let known = self.read.max(self.told);
        let (mut text, mut told) = (Vec::new(), self.told);
        for (name, ring) in self.chosen(rings).filter(|(_, ring)| ring.forgotten() > known) {
            text.extend_from_slice(format!("[some lines of {name} are no longer kept]\n").as_bytes());
            told = told.max(ring.forgotten());
        }
        self.told = told;
        text
    }

    fn chosen<'a>(&self, rings: &'a Rings) -> impl Iterator<Item = (&'a Arc<str>, &'a Ring)> {
        rings.iter().filter(|(name, _)| self.jobs.is_empty() || self.jobs.iter().any(|job| **job == ***name))
    }
}
