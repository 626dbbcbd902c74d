//! The last lines of one job, in a ring of bytes. Pure.

use std::collections::VecDeque;

use memchr::memchr;

/// If one read brings more than a ring can hold, this part of the ring is filled. To copy 64 KiB of each read of 64 KiB would
/// make the log slower by a tenth and more.
const FLOOD_SHARE: usize = 4;

/// Where a piece of output comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Its number among the pieces of all jobs.
    pub number: u64,
    /// When it was printed, in nanoseconds since 1970.
    pub time: u64,
    /// The process that printed it.
    pub pid: u32,
}

/// What one read of a process' output became: whole records.
#[derive(Debug)]
struct Piece {
    origin: Origin,
    /// Where it ends, in bytes since the first one of the job.
    end: u64,
}

/// The last lines of one job.
#[derive(Debug, Default)]
pub struct Ring {
    text: VecDeque<u8>,
    pieces: VecDeque<Piece>,
    /// Where the text begins, in bytes since the first one of the job.
    start: u64,
    /// The number of the last piece of which something is forgotten.
    forgotten: u64,
}

impl Ring {
    /// The memory that it occupies.
    pub fn size(&self) -> usize {
        self.text.capacity() + self.pieces.capacity() * size_of::<Piece>()
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
        self.pieces.partition_point(|piece| piece.origin.number <= number)
    }

    /// The piece at this index.
    pub fn get(&self, index: usize) -> Option<(Origin, [&[u8]; 2])> {
        let piece = self.pieces.get(index)?;
        let before = index.checked_sub(1).and_then(|before| self.pieces.get(before));
        let begin = self.place(before.map_or(self.start, |before| before.end));
        Some((piece.origin, self.slices(begin, self.place(piece.end))))
    }

    /// Adds whole records. The oldest lines are forgotten, so that about `limit` bytes are kept; a quarter of that if the
    /// records alone are more. A record that is longer than that is not kept at all.
    pub fn push(&mut self, origin: Origin, records: &[u8], limit: usize) {
        let room = limit.saturating_sub(size_of::<Piece>());
        // Of a flood, most of which the next read would overwrite, only a part is copied.
        let wanted = if records.len() > room { room / FLOOD_SHARE } else { room };
        let cut = records.len().saturating_sub(wanted);
        let records =
            if cut == 0 { records } else { records.get(next_line(records, cut)..).unwrap_or_default() };
        if cut > 0 {
            self.forgotten = origin.number;
        }
        if records.is_empty() {
            return;
        }
        if cut > 0 {
            // Between what is kept and these lines, others are missing.
            self.forget_all();
        }
        self.forget(room - records.len());
        self.grow(records.len(), limit);
        self.text.extend(records);
        self.pieces.push_back(Piece { origin, end: self.start + self.text.len() as u64 });
    }

    /// Forgets the oldest lines, so that it occupies at most `size` bytes.
    pub fn shrink(&mut self, size: usize) {
        self.forget(size);
        self.text.shrink_to_fit();
        self.pieces.shrink_to_fit();
    }

    /// The last lines of this process: at most so many, and at most so many bytes.
    pub fn last_lines(&self, pid: u32, lines: usize, bytes: usize) -> Vec<u8> {
        let mut parts: Vec<[&[u8]; 2]> = Vec::new();
        let (mut found, mut length) = (0, 0);
        for index in (0..self.pieces.len()).rev() {
            let Some((_, part)) = self.get(index).filter(|(origin, _)| origin.pid == pid) else { continue };
            found += count_lines(part);
            length += part.iter().map(|slice| slice.len()).sum::<usize>();
            parts.push(part);
            if found >= lines || length >= bytes {
                break;
            }
        }
        let text: Vec<u8> = parts.into_iter().rev().flatten().flatten().copied().collect();
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

    /// Forgets the oldest lines until text and pieces fit into `limit` bytes.
    fn forget(&mut self, limit: usize) {
        loop {
            let used = self.text.len() + self.pieces.len() * size_of::<Piece>();
            let excess = used.saturating_sub(limit);
            let Some(first) = self.pieces.front().filter(|_| excess > 0) else { return };
            self.forgotten = first.origin.number;
            let (length, end) = (self.place(first.end), first.end);
            let cut = if excess < length { self.next_line(excess) } else { length };
            if cut < length {
                self.text.drain(..cut);
                self.start += cut as u64;
            } else {
                self.text.drain(..length);
                self.start = end;
                self.pieces.pop_front();
            }
        }
    }

    fn forget_all(&mut self) {
        self.start += self.text.len() as u64;
        self.text.clear();
        self.pieces.clear();
    }

    /// Makes room for so many bytes more. A ring grows as a vector does, but not beyond its limit.
    fn grow(&mut self, more: usize, limit: usize) {
        let needed = self.text.len() + more;
        if needed > self.text.capacity() {
            let wanted = (2 * self.text.capacity()).clamp(needed, limit.max(needed));
            self.text.reserve_exact(wanted - self.text.len());
        }
    }

    /// The index in the text of a place in the job's output.
    fn place(&self, at: u64) -> usize {
        usize::try_from(at.saturating_sub(self.start)).unwrap_or(usize::MAX)
    }

    /// Where the first line begins at or after this index.
    fn next_line(&self, at: usize) -> usize {
        let [front, back] = self.slices(at.saturating_sub(1), self.text.len());
        let newline = memchr(b'\n', front).or_else(|| memchr(b'\n', back).map(|found| front.len() + found));
        newline.map_or(self.text.len(), |found| at.saturating_sub(1) + found + 1)
    }

    fn slices(&self, begin: usize, end: usize) -> [&[u8]; 2] {
        let (front, back) = self.text.as_slices();
        let within = |slice: &'_ [u8], at: usize| at.min(slice.len());
        let (first, last) = (within(front, begin), within(front, end));
        let rest = |at: usize| at.saturating_sub(front.len()).min(back.len());
        [front.get(first..last).unwrap_or_default(), back.get(rest(begin)..rest(end)).unwrap_or_default()]
    }
}

/// The number of lines in whole records.
pub fn count_lines(part: [&[u8]; 2]) -> usize {
    part.into_iter().map(|slice| memchr::memchr_iter(b'\n', slice).count()).sum()
}

/// Where the text goes on after so many lines.
pub fn after_lines(text: &[u8], lines: usize) -> usize {
    let last = lines.checked_sub(1).and_then(|last| memchr::memchr_iter(b'\n', text).nth(last));
    last.map_or(0, |newline| newline + 1)
}

/// Where the first line begins at or after `at`, which is not 0.
fn next_line(text: &[u8], at: usize) -> usize {
    let before = text.get(..at).and_then(|before| before.last());
    if before == Some(&b'\n') {
        return at;
    }
    memchr(b'\n', text.get(at..).unwrap_or_default()).map_or(text.len(), |found| at + found + 1)
}
