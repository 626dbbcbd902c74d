//! The metrics that users define in the configuration and set through the control socket.

use std::time::Instant;

use super::digest::Window;
use super::exposition::Exposition;
use super::histogram::Histogram;
use crate::config::spec::{MetricKind, MetricSpec};
use crate::config::suggest::nearest;

const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// Every user metric, in the order of the configuration.
#[derive(Debug, Clone, Default)]
pub struct UserMetrics(Vec<UserMetric>);

#[derive(Debug, Clone)]
struct UserMetric {
    name: String,
    help: String,
    value: Value,
}

#[derive(Debug, Clone)]
enum Value {
    Counter(f64),
    Gauge(f64),
    Histogram(Histogram),
    Summary { window: Window, sum: f64, count: u64 },
}

impl Value {
    fn new(kind: MetricKind) -> Self {
        match kind {
            MetricKind::Counter => Self::Counter(0.0),
            MetricKind::Gauge => Self::Gauge(0.0),
            MetricKind::Histogram => Self::Histogram(Histogram::default()),
            MetricKind::Summary => Self::Summary { window: Window::default(), sum: 0.0, count: 0 },
        }
    }

    fn kind(&self) -> MetricKind {
        match self {
            Self::Counter(_) => MetricKind::Counter,
            Self::Gauge(_) => MetricKind::Gauge,
            Self::Histogram(_) => MetricKind::Histogram,
            Self::Summary { .. } => MetricKind::Summary,
        }
    }
}

impl UserMetrics {
    /// Takes over the metrics of a configuration; one of the same name and type keeps its values.
    pub fn reconfigure(&mut self, specs: &[&MetricSpec]) {
        let old = std::mem::take(&mut self.0);
        let value = |spec: &MetricSpec| {
            let same =
                old.iter().find(|metric| metric.name == spec.full_name && metric.value.kind() == spec.kind);
            same.map_or_else(|| Value::new(spec.kind), |metric| metric.value.clone())
        };
        for spec in specs {
            self.0.push(UserMetric {
                name: spec.full_name.clone(),
                help: spec.help.clone(),
                value: value(spec),
            });
        }
    }

    /// Records values: all of them, or none if one is wrong.
    pub fn record(&mut self, values: &[(String, f64)], now: Instant) -> Result<(), String> {
        for (name, value) in values {
            self.refuse(name, *value)?;
        }
        for (name, value) in values {
            if let Some(metric) = self.0.iter_mut().find(|metric| metric.name == *name) {
                metric.observe(*value, now);
            }
        }
        Ok(())
    }

    fn refuse(&self, name: &str, value: f64) -> Result<(), String> {
        let Some(metric) = self.0.iter().find(|metric| metric.name == name) else {
            let known = self.0.iter().map(|metric| metric.name.as_str());
            let hint = nearest(name, known).map(|known| format!("; did you mean {known:?}?"));
            let hint = hint.unwrap_or_default();
            return Err(format!("{name}: telemetry.metrics defines no metric of this name{hint}"));
        };
        if !value.is_finite() {
            return Err(format!("{name}: expected a finite number, found {value}"));
        }
        match metric.value {
            Value::Counter(_) if value < 0.0 => {
                Err(format!("{name}: a counter only grows: expected a number ≥ 0, found {value}"))
            }
            Value::Counter(_) | Value::Gauge(_) | Value::Histogram(_) | Value::Summary { .. } => Ok(()),
        }
    }

    /// Writes every family.
    pub fn expose(&self, out: &mut Exposition, now: Instant) {
        for metric in &self.0 {
            metric.expose(out, now);
        }
    }
}

impl UserMetric {
    fn observe(&mut self, value: f64, now: Instant) {
        match &mut self.value {
            Value::Counter(total) => *total += value,
            Value::Gauge(current) => *current = value,
            Value::Histogram(histogram) => histogram.observe(value),
            Value::Summary { window, sum, count } => {
                window.observe(value, now);
                *sum += value;
                *count += 1;
            }
        }
    }

    fn expose(&self, out: &mut Exposition, now: Instant) {
        out.family(&self.name, &self.help, self.value.kind());
        match &self.value {
            Value::Counter(value) | Value::Gauge(value) => out.sample(&[], *value),
            Value::Histogram(histogram) => histogram.expose(out, &[]),
            Value::Summary { window, sum, count } => {
                for (share, value) in QUANTILES.into_iter().zip(window.quantiles(QUANTILES, now)) {
                    let share = out.bound(share);
                    out.sample(&[("quantile", &share)], value);
                }
                out.part("_sum", &[], *sum);
                out.part("_count", &[], *count as f64);
            }
        }
    }
}
