//! The two text formats of Prometheus: its own 0.0.4, and OpenMetrics 1.0. Written by hand, since the `prometheus` crate
//! writes only the first, and `prometheus-client` only the second.
//!
//! OpenMetrics demands that the name of a counter ends in `_total`. Many names of ContainerPilot and of users do not,
//! and a name must be the same in both formats. So such a counter has the type `unknown` in OpenMetrics.

use std::fmt::Write;

use memchr::memchr3;

use crate::config::spec::MetricKind;
use crate::offload::Pauses;

/// A text format for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text 0.0.4.
    Prometheus,
    /// OpenMetrics text 1.0.0.
    OpenMetrics,
}

impl Format {
    /// What a scraper's `Accept` header prefers; Prometheus' own format if it has no preference.
    pub fn preferred(accept: &str) -> Self {
        let (mut open_metrics, mut text) = (0.0, 0.0);
        for entry in accept.split(',') {
            let mut parts = entry.split(';').map(str::trim);
            let quality = entry.split(';').filter_map(|part| part.trim().strip_prefix("q=")).next();
            let quality: f64 = quality.map_or(1.0, |quality| quality.trim().parse().unwrap_or(0.0));
            match parts.next() {
                Some("application/openmetrics-text") => open_metrics = quality.max(open_metrics),
                Some("text/plain" | "text/*" | "*/*") => text = quality.max(text),
                Some(_) | None => {}
            }
        }
        if open_metrics > text { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The `Content-Type` of the response.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Labels of one series: names and values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// An exposition that is being written: families, each followed by its samples.
#[derive(Debug)]
pub struct Exposition {
    format: Format,
    text: String,
    family: String,
    pauses: Pauses,
}

impl Exposition {
    /// An empty exposition.
    pub fn new(format: Format) -> Self {
        Self { format, text: String::new(), family: String::new(), pauses: Pauses::default() }
    }

    /// Begins a family; its samples follow.
    pub fn family(&mut self, name: &str, help: &str, kind: MetricKind) {
        name.clone_into(&mut self.family);
        let (shown, kind) = match (self.format, kind) {
            (Format::OpenMetrics, MetricKind::Counter) => match name.strip_suffix("_total") {
                Some(stem) => (stem, "counter"),
                None => (name, "unknown"),
            },
            (Format::Prometheus, MetricKind::Counter) => (name, "counter"),
            (_, MetricKind::Gauge) => (name, "gauge"),
            (_, MetricKind::Histogram) => (name, "histogram"),
            (_, MetricKind::Summary) => (name, "summary"),
        };
        if !help.is_empty() {
            self.line_about("# HELP ", shown);
            escape(help, self.format == Format::OpenMetrics, &mut self.text);
            self.text.push('\n');
        }
        self.line_about("# TYPE ", shown);
        self.text.push_str(kind);
        self.text.push('\n');
    }

    /// Begins a family of counters.
    pub fn counter(&mut self, name: &str, help: &str) {
        self.family(name, help, MetricKind::Counter);
    }

    /// Begins a family of gauges.
    pub fn gauge(&mut self, name: &str, help: &str) {
        self.family(name, help, MetricKind::Gauge);
    }

    fn line_about(&mut self, what: &str, name: &str) {
        self.text.push_str(what);
        self.text.push_str(name);
        self.text.push(' ');
    }

    /// One sample of the family begun last.
    pub fn sample(&mut self, labels: Labels<'_>, value: f64) {
        self.part("", labels, value);
    }

    /// One sample of a histogram or summary: `_bucket`, `_sum`, `_count`.
    pub fn part(&mut self, suffix: &str, labels: Labels<'_>, value: f64) {
        self.pauses.at(self.text.len());
        self.text.push_str(&self.family);
        self.text.push_str(suffix);
        for (index, (name, value)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            self.text.push_str(name);
            self.text.push('=');
            self.text.push('"');
            escape(value, true, &mut self.text);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        self.text.push(' ');
        write_number(value, &mut self.text);
        self.text.push('\n');
    }

    /// A number as a label's value, `le` or `quantile`: OpenMetrics wants `1.0` where Prometheus writes `1`.
    pub fn bound(&self, value: f64) -> String {
        let text = number(value);
        let is_whole = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        if self.format == Format::OpenMetrics && is_whole { format!("{text}.0") } else { text }
    }

    /// The finished text.
    pub fn finish(mut self) -> String {
        match self.format {
            Format::Prometheus => {}
            Format::OpenMetrics => self.text.push_str("# EOF\n"),
        }
        self.text
    }
}

fn number(value: f64) -> String {
    let mut text = String::new();
    write_number(value, &mut text);
    text
}

/// A number as both formats write it.
fn write_number(value: f64, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = if value.is_nan() {
        out.write_str("NaN")
    } else if value.is_infinite() {
        out.write_str(if value > 0.0 { "+Inf" } else { "-Inf" })
    } else if value.fract() == 0.0 && value.abs() < 1e15 {
        // Most values are whole, and those are formatted many times faster.
        out.write_str(itoa::Buffer::new().format(value as i64))
    } else if !(1e-5..1e17).contains(&value.abs()) {
        write!(out, "{value:e}")
    } else {
        write!(out, "{value}")
    };
}

fn escape(text: &str, quotes: bool, out: &mut String) {
    if memchr3(b'\\', b'\n', b'"', text.as_bytes()).is_none() {
        return out.push_str(text);
    }
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_served_to_those_who_prefer_it() {
        for (accept, expected) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/plain", Format::Prometheus),
            ("application/openmetrics-text", Format::OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Format::OpenMetrics,
            ),
            ("application/openmetrics-text; version=1.0.0; q=0.2, text/plain;q=0.5", Format::Prometheus),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            ("application/json, */*;q=0.1", Format::Prometheus),
        ] {
            assert_eq!(Format::preferred(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn a_name_does_not_depend_on_the_format() {
        for format in [Format::Prometheus, Format::OpenMetrics] {
            let mut out = Exposition::new(format);
            out.family("jobs", "Jobs.", MetricKind::Counter);
            out.sample(&[("job", "a")], 1.0);
            out.family("runs_total", "Runs.", MetricKind::Counter);
            out.sample(&[], 2.0);
            let text = out.finish();
            assert!(text.contains("\njobs{job=\"a\"} 1\n"), "{text}");
            assert!(text.contains("\nruns_total 2\n"), "{text}");
        }
    }

    #[test]
    fn open_metrics_names_a_counter_without_its_suffix_and_ends_with_a_mark() {
        let mut out = Exposition::new(Format::OpenMetrics);
        out.family("runs_total", "", MetricKind::Counter);
        out.sample(&[], 2.0);
        assert_eq!(out.finish(), "# TYPE runs counter\nruns_total 2\n# EOF\n");
    }

    #[test]
    fn help_and_labels_are_escaped() {
        let mut out = Exposition::new(Format::Prometheus);
        out.family("a", "one\ntwo \\ \"three\"", MetricKind::Gauge);
        out.sample(&[("l", "x\"\\\n")], 1.0);
        assert_eq!(
            out.finish(),
            "# HELP a one\\ntwo \\\\ \"three\"\n# TYPE a gauge\na{l=\"x\\\"\\\\\\n\"} 1\n"
        );
    }

    #[test]
    fn numbers_are_written_as_prometheus_reads_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (9.0, "9"),
            (9.5, "9.5"),
            (10.0, "10"),
            (-1.5, "-1.5"),
            (1e9, "1000000000"),
            (1e300, "1e300"),
            (1e-7, "1e-7"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(number(value), expected);
        }
    }
}
