//! Sums up repeated records, so that a crash loop does not fill the log. Pure: the time is an argument. Memory is bounded:
//! beyond `KEYS` different records a second, all are written.

use std::time::{Duration, Instant};

/// The number of different records that are counted at a time.
const KEYS: usize = 64;
/// The number of equal records that are written per window.
const WRITTEN: u32 = 5;
/// The time over which equal records are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// A record that stands for equal ones that were not written.
#[derive(Debug, PartialEq, Eq)]
pub struct Summary<T> {
    /// The last of them.
    pub record: T,
    /// Their number.
    pub times: u32,
}

/// Counts equal records of type `T`; records with the same key are equal.
#[derive(Debug)]
pub struct Repeats<T> {
    seen: Vec<Seen<T>>,
}

#[derive(Debug)]
struct Seen<T> {
    key: u64,
    since: Instant,
    written: u32,
    suppressed: Option<Summary<T>>,
}

impl<T> Default for Repeats<T> {
    fn default() -> Self {
        Self { seen: Vec::new() }
    }
}

impl<T> Repeats<T> {
    /// The summaries of windows that have ended; to be called before each `admit`.
    pub fn ended(&mut self, now: Instant) -> Vec<Summary<T>> {
        self.take(|seen| now.saturating_duration_since(seen.since) >= WINDOW)
    }

    /// The summaries of all windows, ended or not: for the end of the program.
    pub fn all(&mut self) -> Vec<Summary<T>> {
        self.take(|_| true)
    }

    fn take(&mut self, is_over: impl Fn(&Seen<T>) -> bool) -> Vec<Summary<T>> {
        self.seen.extract_if(.., |seen| is_over(seen)).filter_map(|seen| seen.suppressed).collect()
    }

    /// The record, if it is to be written now; else it is counted for a summary.
    pub fn admit(&mut self, now: Instant, key: u64, record: T) -> Option<T> {
        match self.seen.iter_mut().find(|seen| seen.key == key) {
            None => {
                if self.seen.len() < KEYS {
                    self.seen.push(Seen { key, since: now, written: 1, suppressed: None });
                }
                Some(record)
            }
            Some(seen) if seen.written < WRITTEN => {
                seen.written += 1;
                Some(record)
            }
            Some(seen) => {
                let times = seen.suppressed.as_ref().map_or(0, |summary| summary.times).saturating_add(1);
                seen.suppressed = Some(Summary { record, times });
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What reaches the log when each `(milliseconds, key)` is logged: keys, and counts of summaries.
    fn logged(records: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u32)> {
        let start = Instant::now();
        let mut repeats = Repeats::default();
        let mut log = Vec::new();
        for (at, key) in records {
            let now = start + Duration::from_millis(at);
            log.extend(repeats.ended(now).into_iter().map(|summary| (summary.record, summary.times)));
            if let Some(record) = repeats.admit(now, key, key) {
                log.push((record, 0));
            }
        }
        log.extend(repeats.all().into_iter().map(|summary| (summary.record, summary.times)));
        log
    }

    #[test]
    fn five_equal_records_a_second_are_written() {
        assert_eq!(logged((0..5).map(|at| (at, 1))), vec![(1, 0); 5]);
    }

    #[test]
    fn more_are_summed_up_when_the_second_is_over() {
        let records = (0..100).map(|at| (at, 1)).chain([(1000, 1)]);
        assert_eq!(logged(records), [vec![(1, 0); 5], vec![(1, 95), (1, 0)]].concat());
    }

    #[test]
    fn another_record_brings_the_summary_too() {
        let records = (0..7).map(|at| (at, 1)).chain([(500, 2), (1500, 2)]);
        assert_eq!(logged(records), [vec![(1, 0); 5], vec![(2, 0), (1, 2), (2, 0)]].concat());
    }

    #[test]
    fn what_is_still_counted_is_summed_up_at_the_end() {
        assert_eq!(logged((0..8).map(|_| (0, 1))), [vec![(1, 0); 5], vec![(1, 3)]].concat());
    }

    #[test]
    fn slow_repetition_is_not_suppressed() {
        assert_eq!(logged((0..50).map(|n| (n * 250, 1))), vec![(1, 0); 50]);
    }

    #[test]
    fn memory_is_bounded_and_what_is_not_watched_is_written() {
        let start = Instant::now();
        let mut repeats = Repeats::default();
        for key in 0..1000 {
            assert_eq!(repeats.admit(start, key, ()), Some(()));
        }
        assert_eq!(repeats.seen.len(), KEYS);
        for _ in 0..20 {
            assert_eq!(repeats.admit(start, 999, ()), Some(()));
        }
        assert!(repeats.ended(start + WINDOW).is_empty());
        assert!(repeats.seen.is_empty());
    }

    #[test]
    fn no_record_is_lost_or_counted_twice() {
        let records = (0..3000).map(|n| (n / 2, n % 7 % 3));
        let total: u32 = logged(records).into_iter().map(|(_, times)| times.max(1)).sum();
        assert_eq!(total, 3000);
    }
}
