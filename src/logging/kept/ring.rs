//! The last lines of one job, as the pieces in which they came. Pure.
//!
//! Each piece owns its text, which is small. One buffer of bytes for each job would copy less, but has to grow: the memory
//! that it leaves behind at each step is too small for the next one, and all together need twice of what they hold.

use std::collections::VecDeque;

use memchr::{memchr, memchr_iter, memrchr};

/// If one read brings more than is kept, this part of it is kept. To copy 64 KiB of each read of 64 KiB would make the log
/// slower by a tenth and more.
const FLOOD_SHARE: usize = 4;
/// No piece has a larger part of what is kept, unless it is a single record: whole pieces are forgotten.
const PIECE_SHARE: usize = 8;
/// The memory for a piece besides its text, with what the allocator needs.
const PIECE: usize = size_of::<Piece>() + 16;

/// Where a piece of output comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// When it was printed, in nanoseconds since 1970.
    pub time: u64,
    /// The process that printed it.
    pub pid: u32,
}

/// Whole records that one read from a process brought, or a part of them.
#[derive(Debug)]
pub struct Piece {
    /// Its number among the pieces of all jobs.
    pub number: u64,
    /// Where it comes from.
    pub origin: Origin,
    /// The records.
    pub text: Box<[u8]>,
}

/// The last lines of one job.
#[derive(Debug, Default)]
pub struct Ring {
    pieces: VecDeque<Piece>,
    /// The length of all texts.
    length: usize,
    /// The number of the last piece of which something is forgotten.
    forgotten: u64,
}

impl Ring {
    /// The memory that it occupies.
    pub fn size(&self) -> usize {
        let unused = self.pieces.capacity() - self.pieces.len();
        self.used() + unused * size_of::<Piece>()
    }

    /// The number of the last piece of which something is forgotten.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The number of pieces.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// How many pieces there are up to this number.
    pub fn up_to(&self, number: u64) -> usize {
        self.pieces.partition_point(|piece| piece.number <= number)
    }

    /// The piece at this index.
    pub fn get(&self, index: usize) -> Option<&Piece> {
        self.pieces.get(index)
    }

    /// Adds whole records; `newest` counts the pieces. The oldest ones are forgotten, so that at most `limit` bytes are kept.
    ///
    /// If the records alone are more, those are kept at their end that fit into a quarter of `limit`; if not even the last
    /// one does, that one alone, unless it is longer than `limit`. Everything older is forgotten, since others are missing
    /// between that and these.
    pub fn push(&mut self, newest: &mut u64, origin: Origin, records: &[u8], limit: usize) {
        let room = limit.saturating_sub(PIECE);
        // Of a flood, most of which the next read would replace, only a part is copied.
        let wanted = if records.len() > room { room / FLOOD_SHARE } else { room };
        let cut = records.len().saturating_sub(wanted);
        let mut rest = records;
        if cut > 0 {
            rest = records.get(next_line(records, cut)..).unwrap_or_default();
            if rest.is_empty() {
                rest = Some(last_record(records)).filter(|last| last.len() <= room).unwrap_or_default();
            }
            *newest += 1;
            self.forgotten = *newest;
            self.pieces.clear();
            self.length = 0;
        }
        while !rest.is_empty() {
            let (text, later) = rest.split_at(first_records(rest, limit / PIECE_SHARE));
            rest = later;
            *newest += 1;
            self.forget(limit.saturating_sub(text.len() + PIECE));
            self.length += text.len();
            self.pieces.push_back(Piece { number: *newest, origin, text: text.into() });
        }
    }

    /// Forgets the oldest lines, so that it occupies at most `size` bytes.
    pub fn shrink(&mut self, size: usize) {
        self.forget(size);
        self.pieces.shrink_to_fit();
    }

    /// The last lines of this process: at most so many, and at most so many bytes.
    pub fn last_lines(&self, pid: u32, lines: usize, bytes: usize) -> Vec<u8> {
        let mut parts: Vec<&[u8]> = Vec::new();
        let (mut found, mut length) = (0, 0);
        for piece in self.pieces.iter().rev().filter(|piece| piece.origin.pid == pid) {
            found += count_lines(&piece.text);
            length += piece.text.len();
            parts.push(&piece.text);
            if found >= lines || length >= bytes {
                break;
            }
        }
        parts.reverse();
        let text = parts.concat();
        let text = text.get(after_lines(&text, found.saturating_sub(lines))..).unwrap_or_default();
        let cut = text.len().saturating_sub(bytes);
        // Of a single line that is too long, the end is kept.
        let begin = if cut == 0 {
            0
        } else {
            Some(next_line(text, cut)).filter(|at| *at < text.len()).unwrap_or(cut)
        };
        text.get(begin..).unwrap_or_default().to_vec()
    }

    /// Forgets the oldest pieces until the others fit into `limit` bytes.
    fn forget(&mut self, limit: usize) {
        while self.used() > limit
            && let Some(first) = self.pieces.pop_front()
        {
            self.forgotten = first.number;
            self.length -= first.text.len();
        }
    }

    fn used(&self) -> usize {
        self.length + self.pieces.len() * PIECE
    }
}

/// The number of lines in whole records.
pub fn count_lines(text: &[u8]) -> usize {
    memchr_iter(b'\n', text).count()
}

/// Where the text goes on after so many lines.
pub fn after_lines(text: &[u8], lines: usize) -> usize {
    let last = lines.checked_sub(1).and_then(|last| memchr_iter(b'\n', text).nth(last));
    last.map_or(0, |newline| newline + 1)
}

/// The length of the first whole records, at most so many bytes of them unless the first one is longer.
fn first_records(text: &[u8], most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    let last = text.get(..most).and_then(|part| memrchr(b'\n', part));
    last.or_else(|| memchr(b'\n', text)).map_or(text.len(), |newline| newline + 1)
}

/// The last of whole records.
fn last_record(records: &[u8]) -> &[u8] {
    let before = records.len().checked_sub(1).and_then(|end| memrchr(b'\n', records.get(..end)?));
    records.get(before.map_or(0, |newline| newline + 1)..).unwrap_or_default()
}

/// Where the first line begins at or after `at`, which is not 0.
fn next_line(text: &[u8], at: usize) -> usize {
    let before = text.get(..at).and_then(|before| before.last());
    if before == Some(&b'\n') {
        return at;
    }
    memchr(b'\n', text.get(at..).unwrap_or_default()).map_or(text.len(), |found| at + found + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring to which these records were added.
    fn ring(limit: usize, additions: &[&[u8]]) -> Ring {
        let (mut ring, mut newest) = (Ring::default(), 0);
        for records in additions {
            ring.push(&mut newest, Origin { time: 0, pid: 1 }, records, limit);
        }
        ring
    }

    fn text(ring: &Ring) -> Vec<u8> {
        ring.pieces.iter().flat_map(|piece| piece.text.iter().copied()).collect()
    }

    #[test]
    fn what_fits_exactly_is_kept() {
        let two_pieces = 2 * (3 + PIECE);
        let additions: [&[u8]; 3] = [b"a1\n", b"a2\n", b"a3\n"];
        assert_eq!(text(&ring(two_pieces, &additions)), b"a2\na3\n");
        assert_eq!(text(&ring(two_pieces - 1, &additions)), b"a3\n");
    }

    #[test]
    fn records_that_are_more_than_the_room_have_a_quarter_of_it() {
        let line = [b"x".repeat(99), b"\n".to_vec()].concat();
        let ring_with = |lines| ring(2000 + PIECE, &[b"old\n", &line.repeat(lines)]);
        assert!(text(&ring_with(20)).len() > 1000);
        assert_eq!(text(&ring_with(21)), line.repeat(5));
    }

    #[test]
    fn a_last_record_of_more_than_a_quarter_is_kept_alone_and_one_of_more_than_the_room_forgets_all() {
        let record = |length: usize| [b"y".repeat(length - 1), b"\n".to_vec()].concat();
        for (length, is_kept) in [(501, true), (2000, true), (2001, false)] {
            let last = record(length);
            let flood = [record(2000), last.clone()].concat();
            let expected = if is_kept { last } else { Vec::new() };
            assert_eq!(text(&ring(2000 + PIECE, &[b"old\n", &flood])), expected, "{length}");
        }
        assert_eq!(
            text(&ring(2000 + PIECE, &[b"old\n", &record(2001)])),
            b"",
            "nothing older looks like the last"
        );
    }

    #[test]
    fn the_size_includes_the_memory_for_further_pieces() {
        let mut ring = ring(1000, &[b"a1\n"]);
        let (before, unused) = (ring.size(), ring.pieces.capacity() - 1);
        ring.shrink(1000);
        assert_eq!(ring.size(), 3 + PIECE);
        assert_eq!(before, 3 + PIECE + unused * size_of::<Piece>());
        assert!(unused > 0);
    }

    #[test]
    fn a_piece_has_all_records_that_fit_or_the_first() {
        for (most, expected) in [(0, 3), (2, 3), (3, 3), (5, 3), (6, 6), (8, 6), (9, 9), (10, 9)] {
            assert_eq!(first_records(b"ab\ncd\nef\n", most), expected, "{most}");
        }
    }
}
