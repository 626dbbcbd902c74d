//! What a scrape costs: the text for a program with few jobs and with many, and the counting of one event.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use containerpilot::config::spec::{MetricKind, MetricSpec};
use containerpilot::messages::event::{EventCode, EventKey, Source};
use containerpilot::messages::health::{Health, Verdict};
use containerpilot::messages::job::Phase;
use containerpilot::messages::status::{JobStatus, Overview};
use containerpilot::metrics::exposition::Format;
use containerpilot::metrics::process::ProcessUse;
use containerpilot::metrics::{Metrics, Scene};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

fn status(check: &Arc<str>) -> JobStatus {
    JobStatus {
        health: Health::Healthy,
        checks: vec![(Arc::clone(check), Verdict::Passing)],
        starting: false,
        pid: Some(7),
        restarts: 3,
        last_exit: Some((0, "exited with 0".to_owned())),
        ..JobStatus::new(Phase::Running)
    }
}

/// A program with that many jobs, each with a check and some events, and one metric of each type.
fn program(jobs: usize) -> (Metrics, Overview) {
    let mut metrics = Metrics::default();
    let kinds = [MetricKind::Counter, MetricKind::Gauge, MetricKind::Histogram, MetricKind::Summary];
    let specs = kinds.map(|kind| MetricSpec {
        full_name: format!("bench_{kind:?}").to_lowercase(),
        help: "For the bench.".to_owned(),
        kind,
    });
    metrics.reconfigure(&specs);
    let check: Arc<str> = Arc::from("check");
    let mut overview = Overview::default();
    for index in 0..jobs {
        let name: Arc<str> = Arc::from(format!("job-{index}"));
        for code in [EventCode::Healthy, EventCode::ExitSuccess] {
            metrics.event_published(&EventKey { code, source: Source::Job(Arc::clone(&name)) });
        }
        metrics.check_took(&name, &check, Duration::from_millis(3));
        overview.jobs.insert(name, Arc::new(status(&check)));
    }
    (metrics, overview)
}

fn exposition(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("exposition");
    for jobs in [10, 1000] {
        let (metrics, overview) = program(jobs);
        let process = ProcessUse::read();
        group.bench_with_input(BenchmarkId::from_parameter(format!("{jobs} jobs")), &jobs, |bencher, _| {
            bencher.iter(|| {
                let scene = Scene {
                    overview: &overview,
                    queued: 0,
                    process: process.clone(),
                    now: Instant::now(),
                    log: None,
                };
                black_box(metrics.expose(Format::Prometheus, &scene)).len()
            });
        });
    }
    group.finish();
    criterion.bench_function("exposition/read /proc", |bencher| bencher.iter(ProcessUse::read));
}

fn counting(criterion: &mut Criterion) {
    let (mut metrics, _) = program(1000);
    let key = EventKey { code: EventCode::ExitSuccess, source: Source::Job(Arc::from("job-500")) };
    criterion.bench_function("count an event of 1,000 jobs", |bencher| {
        bencher.iter(|| metrics.event_published(black_box(&key)));
    });
}

criterion_group!(benches, exposition, counting);
criterion_main!(benches);
