//! How fast lines of a child become records, in each format: 100-byte lines in chunks as large as a pipe.

use std::hint::black_box;
use std::sync::Arc;
use std::time::SystemTime;

use containerpilot::config::spec::LogFormat;
use containerpilot::logging::{Keep, KeptOutput, Label, LineFormatter, OutputStream, TimeText};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// 100 bytes that need no escape, and 100 that do.
const LINES: [(&str, &[u8]); 2] = [
    (
        "clean",
        b"10.0.0.1 - - [15/Nov/2026:02:43:00 +0000] GET /index.html HTTP/1.1 200 612 curl/8.5.0 rt=0.001 up=0\n",
    ),
    (
        "quoted",
        b"10.0.0.1 - - [15/Nov/2026:02:43:00 +0000] \"GET /index.html HTTP/1.1\" 200 612 \"-\" \"curl/8.5.0\" 0.1\n",
    ),
];

fn formats(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lines");
    for (name, line) in LINES {
        let chunk = line.repeat(64 * 1024 / line.len());
        group.throughput(Throughput::Bytes(chunk.len() as u64));
        for format in [LogFormat::Default, LogFormat::Text, LogFormat::Json] {
            let mut lines =
                LineFormatter::new(Label { job: Arc::from("app"), pid: 7, stream: OutputStream::Stdout });
            let mut out = Vec::new();
            group.bench_function(format!("{name}/{format:?}"), |bencher| {
                bencher.iter(|| {
                    out.clear();
                    let time = TimeText::new(SystemTime::now());
                    lines.feed(black_box(&chunk), format, &time, &mut out);
                    black_box(&out);
                });
            });
        }
    }
    group.finish();
}

/// The same with the records kept in memory, as `logging.keep` has it, beside the record of the same lines alone.
fn keeping(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("keeping");
    let [(_, line), _] = LINES;
    let chunk = line.repeat(64 * 1024 / line.len());
    group.throughput(Throughput::Bytes(chunk.len() as u64));
    for (name, keep) in [("off", 0), ("64KiB", 64 << 10), ("1MiB", 1 << 20)] {
        let (kept, keep, job) = (KeptOutput::default(), Keep::Bytes(keep), Arc::from("app"));
        let label = Label { job: Arc::from("app"), pid: 7, stream: OutputStream::Stdout };
        let mut lines = LineFormatter::new(label);
        let mut out = Vec::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                let time = TimeText::new(SystemTime::now());
                lines.feed(black_box(&chunk), LogFormat::Default, &time, &mut out);
                kept.add(&job, 7, keep, black_box(&out));
            });
        });
    }
    group.finish();
}

criterion_group!(benches, formats, keeping);
criterion_main!(benches);
