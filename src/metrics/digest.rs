//! Quantiles over a sliding window in bounded memory: a merging t-digest (Dunning) per slice of time. Exact for up to
//! 500 values per slice; beyond that, most precise near the quantiles 0 and 1.
//!
//! Written by hand: `prometheus` and `prometheus-client` have no summary, and a DDSketch (`metrics-util`) does not
//! give a few values back exactly.

use std::collections::VecDeque;
use std::f64::consts::PI;
use std::time::{Duration, Instant};

/// How far back the window reaches.
pub const WINDOW: Duration = Duration::from_secs(600);
/// The window moves in steps of this share of it.
const SLICES: u32 = 10;
/// The compression of the t-digest: about as many centroids are kept.
const COMPRESSION: f64 = 200.0;
/// A slice is merged when it has this many centroids.
const PENDING: usize = 500;

/// A group of neighbouring values: their mean and their number.
#[derive(Debug, Clone, Copy)]
struct Centroid {
    mean: f64,
    weight: f64,
}

/// The values of one slice of time.
#[derive(Debug, Clone)]
struct Slice {
    since: Instant,
    centroids: Vec<Centroid>,
}

/// The values of the last ten minutes.
#[derive(Debug, Clone, Default)]
pub struct Window {
    slices: VecDeque<Slice>,
}

impl Window {
    /// Adds a value.
    pub fn observe(&mut self, value: f64, now: Instant) {
        self.slices.retain(|slice| now.saturating_duration_since(slice.since) < WINDOW);
        let is_current = |slice: &Slice| now.saturating_duration_since(slice.since) < WINDOW / SLICES;
        if !self.slices.back().is_some_and(is_current) {
            self.slices.push_back(Slice { since: now, centroids: Vec::new() });
        }
        if let Some(slice) = self.slices.back_mut() {
            slice.centroids.push(Centroid { mean: value, weight: 1.0 });
            if slice.centroids.len() >= PENDING {
                merge(&mut slice.centroids);
            }
        }
    }

    /// The values at these shares of the whole, in order; NaN if the window is empty.
    pub fn quantiles<const N: usize>(&self, shares: [f64; N], now: Instant) -> [f64; N] {
        let live = self.slices.iter().filter(|slice| now.saturating_duration_since(slice.since) < WINDOW);
        let mut centroids: Vec<Centroid> = live.flat_map(|slice| slice.centroids.iter().copied()).collect();
        sort(&mut centroids);
        shares.map(|share| quantile(&centroids, share))
    }
}

fn sort(centroids: &mut [Centroid]) {
    centroids.sort_by(|a, b| a.mean.total_cmp(&b.mean));
}

/// The value that `share` of all values do not exceed.
fn quantile(sorted: &[Centroid], share: f64) -> f64 {
    let total: f64 = sorted.iter().map(|centroid| centroid.weight).sum();
    let rank = (share * total).ceil();
    let mut passed = 0.0;
    for centroid in sorted {
        passed += centroid.weight;
        if passed >= rank {
            return centroid.mean;
        }
    }
    f64::NAN
}

/// Merges neighbours whose weight together is at most one step of the t-digest's scale function k₁ (arcsine).
fn merge(centroids: &mut Vec<Centroid>) {
    sort(centroids);
    let total: f64 = centroids.iter().map(|centroid| centroid.weight).sum();
    let scale = |passed: f64| COMPRESSION / (2.0 * PI) * (2.0 * passed / total - 1.0).clamp(-1.0, 1.0).asin();
    let mut merged: Vec<Centroid> = Vec::new();
    let mut before = 0.0; // the weight of all centroids before the last one in `merged`
    for next in centroids.drain(..) {
        match merged.last_mut() {
            Some(last) if scale(before + last.weight + next.weight) - scale(before) <= 1.0 => {
                let weight = last.weight + next.weight;
                last.mean += (next.mean - last.mean) * next.weight / weight;
                last.weight = weight;
            }
            Some(last) => {
                before += last.weight;
                merged.push(next);
            }
            None => merged.push(next),
        }
    }
    *centroids = merged;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_exact() {
        let (mut window, now) = (Window::default(), Instant::now());
        for value in [5.0, 1.0, 3.0, 2.0, 4.0] {
            window.observe(value, now);
        }
        assert_eq!(window.quantiles([0.0, 0.5, 0.9, 0.99], now), [1.0, 3.0, 5.0, 5.0]);
    }

    #[test]
    fn an_empty_window_has_no_quantiles() {
        assert!(Window::default().quantiles([0.5], Instant::now())[0].is_nan());
    }

    #[test]
    fn many_values_take_bounded_memory_and_stay_precise() {
        let (mut window, now) = (Window::default(), Instant::now());
        for index in 0..100_000_u64 {
            window.observe((index * 7919 % 100_000) as f64, now);
        }
        assert!(window.slices.iter().all(|slice| slice.centroids.len() <= PENDING));
        let [half, nine, high] = window.quantiles([0.5, 0.9, 0.99], now);
        assert!((half - 50_000.0).abs() < 2_000.0, "{half}");
        assert!((nine - 90_000.0).abs() < 1_000.0, "{nine}");
        assert!((high - 99_000.0).abs() < 300.0, "{high}");
    }

    #[test]
    fn values_leave_after_ten_minutes() {
        let (mut window, start) = (Window::default(), Instant::now());
        window.observe(100.0, start);
        let later = start + Duration::from_secs(400);
        window.observe(1.0, later);
        assert_eq!(window.quantiles([0.99], later), [100.0]);
        assert_eq!(window.quantiles([0.99], start + WINDOW), [1.0]);
        assert!(window.quantiles([0.99], later + WINDOW)[0].is_nan());
        window.observe(2.0, later + WINDOW);
        assert_eq!(window.slices.len(), 1);
    }
}
