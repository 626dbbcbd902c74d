//! How long a large configuration takes: its template, its JSON5, and all the way from text to specification, lints
//! included.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hint::black_box;

use containerpilot::config::diagnostic::Problems;
use containerpilot::config::source::FileId;
use containerpilot::config::{System, document, load_text, template};
use criterion::{Criterion, criterion_group, criterion_main};

/// A chain of jobs with most of the settings that people use.
fn configuration(jobs: usize) -> String {
    let mut text = String::from("{ consul: 'localhost:8500', jobs: [\n");
    for index in 0..jobs {
        let when = match index {
            0 => String::new(),
            _ => format!("when: {{ source: 'job-{}', once: 'healthy', timeout: '60s' }},", index - 1),
        };
        let _ = writeln!(
            text,
            "  {{ name: 'job-{index}', exec: '/usr/bin/server --id {index} --name \"job {index}\"', {when}
    restarts: 'unlimited', port: {}, tags: ['a', 'b'], interfaces: ['static:192.0.2.1'],
    health: {{ http: 'http://127.0.0.1:{}/health', interval: 5, ttl: 15, timeout: '2s' }},
    env: {{ ID: {index}, MODE: 'production' }}, stopTimeout: '5s', logging: {{ raw: false }} }},",
            1 + index % 65_535,
            1 + index % 65_535,
        );
    }
    text.push_str("] }\n");
    text
}

fn validate_1000_jobs(criterion: &mut Criterion) {
    let text = configuration(1000);
    let env = BTreeMap::new();
    let system = System::default();
    criterion.bench_function("load 1,000 jobs", |bencher| {
        bencher.iter(|| {
            load_text("bench", black_box(&text), &env, &system).map(|loaded| loaded.spec.jobs.len())
        });
    });
}

/// The same as a template writes it.
fn render_1000_jobs(criterion: &mut Criterion) {
    let text = "{ jobs: [{{ range $i := loop 1000 }}
  { name: 'job-{{ $i }}', exec: '{{ $.SERVER | default \"/usr/bin/server\" }} --id {{ $i }}',
    {{ if eq $.MODE \"production\" }}restarts: 'unlimited'{{ else }}restarts: 1{{ end }} },{{ end }}
] }";
    let env = BTreeMap::from([("MODE".to_owned(), "production".to_owned())]);
    criterion.bench_function("render 1,000 jobs", |bencher| {
        bencher.iter(|| template::render(black_box(text), &env).map(|rendered| rendered.text.len()));
    });
}

fn parse_1000_jobs(criterion: &mut Criterion) {
    let text = configuration(1000);
    criterion.bench_function("parse 1,000 jobs", |bencher| {
        bencher.iter(|| {
            let mut problems = Problems::default();
            document::parse(FileId::default(), black_box(&text), |_| None, &mut problems).is_some()
        });
    });
}

criterion_group!(benches, render_1000_jobs, parse_1000_jobs, validate_1000_jobs);
criterion_main!(benches);
