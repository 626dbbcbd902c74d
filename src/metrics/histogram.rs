//! A histogram with Prometheus' default buckets.

use super::exposition::{Exposition, Labels};

/// Upper bounds of the buckets, as Prometheus' own clients have them.
const BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Values counted into buckets.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// The number of values in each bucket alone; `expose` adds them up.
    buckets: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    /// Counts a value.
    pub fn observe(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        let bucket = BOUNDS.iter().position(|bound| value <= *bound);
        if let Some(count) = bucket.and_then(|index| self.buckets.get_mut(index)) {
            *count += 1;
        }
    }

    /// Writes its samples to the family begun last.
    pub fn expose(&self, out: &mut Exposition, labels: Labels<'_>) {
        let mut below = 0;
        for (bound, count) in BOUNDS.iter().zip(self.buckets) {
            below += count;
            let bound = out.bound(*bound);
            out.part("_bucket", &with(labels, ("le", &bound)), below as f64);
        }
        out.part("_bucket", &with(labels, ("le", "+Inf")), self.count as f64);
        out.part("_sum", labels, self.sum);
        out.part("_count", labels, self.count as f64);
    }
}

fn with<'a>(labels: &[(&'a str, &'a str)], one: (&'a str, &'a str)) -> Vec<(&'a str, &'a str)> {
    labels.iter().copied().chain([one]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::spec::MetricKind;
    use crate::metrics::exposition::Format;

    #[test]
    fn a_bucket_holds_everything_up_to_its_bound() {
        let mut histogram = Histogram::default();
        for value in [0.005, 0.3, 1.0, 100.0] {
            histogram.observe(value);
        }
        let mut out = Exposition::new(Format::Prometheus);
        out.family("h", "", MetricKind::Histogram);
        histogram.expose(&mut out, &[]);
        let text = out.finish();
        for line in [
            "h_bucket{le=\"0.005\"} 1",
            "h_bucket{le=\"0.25\"} 1",
            "h_bucket{le=\"0.5\"} 2",
            "h_bucket{le=\"1\"} 3",
            "h_bucket{le=\"10\"} 3",
            "h_bucket{le=\"+Inf\"} 4",
            "h_sum 101.305",
            "h_count 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
