//! The laws of merging, over small generated configurations.

use proptest::prelude::*;

use super::*;
use crate::config::raw::{Dictionary, RawConsul, RawRestarts, RawVariable, Restarts, Scalar, StopTime};
use crate::config::source::FileId;
use crate::config::spec::{Limit, StopBudget};

fn field<T>(value: T, start: u32) -> Field<T> {
    let span = Span { file: FileId::default(), start, end: start + 1 };
    Field { span, key: span, index: 0, value: Some(value) }
}

fn boxed<T>(value: T, start: u32) -> Box<Field<T>> {
    Box::new(field(value, start))
}

fn job() -> impl Strategy<Value = Field<RawJob>> {
    (prop::option::of("[abc]"), prop::option::of("[abc] x"), 0..9u32, any::<u32>()).prop_map(
        |(name, exec, restarts, at)| {
            let at = at >> 1;
            let job = RawJob {
                name: name.map(|name| boxed(name, at)),
                exec: exec.map(|line| boxed(RawCommand::Line(line), at)),
                restarts: Some(boxed(RawRestarts::Number(Restarts(Limit::Finite(restarts))), at)),
                ..RawJob::default()
            };
            field(job, at)
        },
    )
}

fn metric() -> impl Strategy<Value = Field<RawMetric>> {
    ("[ab]?", "[ab]", 0..99u32).prop_map(|(namespace, name, at)| {
        let metric = RawMetric {
            namespace: Some(boxed(namespace, at)),
            name: Some(boxed(name, at)),
            ..RawMetric::default()
        };
        field(metric, at)
    })
}

fn telemetry() -> impl Strategy<Value = Field<RawTelemetry>> {
    (prop::option::of(prop::collection::vec(metric(), 0..4)), 0..99u32).prop_map(|(metrics, at)| {
        let metrics = metrics.map(|metrics| boxed(metrics, at));
        field(RawTelemetry { metrics, ..RawTelemetry::default() }, at)
    })
}

fn config() -> impl Strategy<Value = Merged> {
    (
        prop::option::of(prop::collection::vec(job(), 0..5)),
        prop::option::of(telemetry()),
        prop::option::of("[a-z]{1,3}:1"),
        prop::option::of(0..99u32),
    )
        .prop_map(|(jobs, telemetry, consul, at)| {
            RawConfig {
                jobs: jobs.map(|jobs| boxed(jobs, 7)),
                telemetry: telemetry.map(Box::new),
                consul: consul.map(|address| boxed(RawConsul::Address(address), 3)),
                stop_timeout: at.map(|at| boxed(StopTime(StopBudget::Immediate), at)),
                env: at.map(|at| {
                    boxed(
                        Dictionary(vec![(
                            "A".into(),
                            field(Some(RawVariable::Text(Scalar("b".into()))), at),
                        )]),
                        at,
                    )
                }),
                ..RawConfig::default()
            }
            .into()
        })
}

proptest! {
    #[test]
    fn merging_is_associative(a in config(), b in config(), c in config()) {
        let left = merge(merge(a.clone(), b.clone()), c.clone());
        let right = merge(a, merge(b, c));
        prop_assert_eq!(left, right);
    }

    #[test]
    fn merging_with_nothing_changes_nothing(a in config()) {
        let after = merge(a.clone(), Merged::default());
        let before = merge(Merged::default(), a.clone());
        prop_assert_eq!(&after.config, &a.config);
        prop_assert_eq!(&before.config, &a.config);
    }
}

fn named(name: &str, at: u32) -> Field<RawJob> {
    field(RawJob { name: Some(boxed(name.to_owned(), at)), ..RawJob::default() }, at)
}

fn with_jobs(jobs: Vec<Field<RawJob>>) -> Merged {
    RawConfig { jobs: Some(boxed(jobs, 0)), ..RawConfig::default() }.into()
}

#[test]
fn a_later_job_takes_the_place_of_the_earlier_one_of_its_name() {
    let merged =
        merge(with_jobs(vec![named("a", 1), named("b", 2)]), with_jobs(vec![named("c", 3), named("a", 4)]));
    let jobs = merged.config.jobs.unwrap().value.unwrap();
    let order: Vec<_> =
        jobs.iter().map(|job| (job.value.as_ref().unwrap().identity(), job.span.start)).collect();
    assert_eq!(order, [(Some("a".into()), 4), (Some("b".into()), 2), (Some("c".into()), 3)]);
    assert_eq!(merged.shadowed.len(), 1);
    assert_eq!(merged.shadowed[0].what, "job \"a\"");
    assert_eq!(merged.shadowed[0].span.start, 1);
}

#[test]
fn two_jobs_of_one_name_in_one_file_are_an_error() {
    let mut problems = Problems::default();
    report_duplicates(&with_jobs(vec![named("a", 1), named("a", 2)]).config, &mut problems);
    assert_eq!(problems.found()[0].message, "duplicate job \"a\"");
}

#[test]
fn a_name_is_suggested_if_one_of_two_equal_ones_was_not_given() {
    let unnamed = |at: u32| {
        let exec = Some(boxed(RawCommand::Line("a".to_owned()), at));
        field(RawJob { exec, ..RawJob::default() }, at)
    };
    let help = |jobs: Vec<Field<RawJob>>| {
        let mut problems = Problems::default();
        report_duplicates(&with_jobs(jobs).config, &mut problems);
        problems.found()[0].help.clone()
    };
    assert_eq!(help(vec![named("a", 1), named("a", 2)]), None);
    for jobs in [[named("a", 1), unnamed(2)], [unnamed(1), named("a", 2)], [unnamed(1), unnamed(2)]] {
        assert_eq!(help(jobs.into()).as_deref(), Some("give one of them a `name`"));
    }
}
