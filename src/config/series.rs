//! The names that a metric takes: no other metric can have one of them.

use super::spec::MetricKind;

/// The name of the metric, those of its parts, and in OpenMetrics that of the family of a counter, which lacks `_total`.
pub fn names(name: &str, kind: MetricKind) -> Vec<String> {
    let parts: &[&str] = match kind {
        MetricKind::Counter | MetricKind::Gauge => &[],
        MetricKind::Histogram => &["_bucket", "_sum", "_count"],
        MetricKind::Summary => &["_sum", "_count"],
    };
    let family = name.strip_suffix("_total").filter(|_| kind == MetricKind::Counter);
    let parts = parts.iter().map(|part| format!("{name}{part}"));
    [name.to_owned()].into_iter().chain(parts).chain(family.map(ToOwned::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_takes_the_names_of_its_parts_and_of_its_family() {
        assert_eq!(names("jobs", MetricKind::Gauge), ["jobs"]);
        assert_eq!(names("jobs_total", MetricKind::Counter), ["jobs_total", "jobs"]);
        assert_eq!(names("s", MetricKind::Summary), ["s", "s_sum", "s_count"]);
        assert_eq!(names("h", MetricKind::Histogram), ["h", "h_bucket", "h_sum", "h_count"]);
    }
}
