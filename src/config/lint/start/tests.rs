use super::*;
use crate::config::spec::{CheckSpec, CommandLine, OnExhausted, Probe, Strategy};
use EventCode::{ExitFailed, Healthy, Ready, Stopped, Unhealthy};
use std::time::{Duration, Instant};

fn job(name: &str, waits: Trigger) -> JobSpec {
    let mut job = JobSpec::new(name.into(), Some(CommandLine { program: "x".into(), args: vec![] }));
    job.when.trigger = waits;
    job
}

fn of(name: &str, code: EventCode) -> EventKey {
    EventKey { code, source: Source::Job(name.into()) }
}

fn once(name: &str, code: EventCode) -> Trigger {
    Trigger::Once(of(name, code))
}

fn startup() -> Trigger {
    Trigger::Once(EventKey { code: EventCode::Startup, source: Source::Global })
}

fn checked(mut job: JobSpec) -> JobSpec {
    job.health.push(CheckSpec {
        name: "check".into(),
        probe: Probe::Tcp("a:1".into()),
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        failures: 1,
        raw_output: false,
    });
    job
}

fn reasons(jobs: Vec<JobSpec>) -> Vec<(usize, Reason)> {
    let jobs = jobs.into_iter().map(Arc::new).collect();
    never_start(&Spec { jobs, ..Spec::default() })
}

#[test]
fn a_chain_of_events_from_startup_can_start() {
    let jobs = vec![
        job("c", once("b", Healthy)),
        checked(job("b", once("a", EventCode::ExitSuccess))),
        job("a", startup()),
        job("d", Trigger::Interval(Duration::from_secs(1))),
        job("e", once("c", EventCode::Stopping)),
    ];
    assert_eq!(reasons(jobs), []);
}

fn of_group(code: EventCode) -> Trigger {
    Trigger::Once(EventKey { code, source: Source::Group("g".into()) })
}

/// The reasons of jobs of which `b` and `c` are a group.
fn reasons_with_group(jobs: Vec<JobSpec>, limit: Limit) -> Vec<(usize, Reason)> {
    let jobs = jobs.into_iter().map(Arc::new).collect();
    let group = GroupSpec {
        name: "g".into(),
        jobs: vec!["b".into(), "c".into()],
        strategy: Strategy::OneForAll,
        limit,
        per: Duration::from_secs(1),
        on_exhausted: OnExhausted::Stop,
    };
    never_start(&Spec { jobs, groups: vec![Arc::new(group)], ..Spec::default() })
}

#[test]
fn events_of_a_group_come_if_its_jobs_can_bring_them_about() {
    let codes = [Ready, Healthy, Unhealthy, ExitFailed, Stopped];
    for code in codes {
        let jobs = vec![job("a", of_group(code)), checked(job("b", startup())), checked(job("c", startup()))];
        assert_eq!(reasons_with_group(jobs, Limit::Finite(3)), [], "{code:?}");
    }
    let plain = |code| vec![job("a", of_group(code)), job("b", startup()), job("c", startup())];
    for code in [Healthy, Unhealthy] {
        let reason = Reason::NoHealthCheckInGroup("g".into(), code);
        assert_eq!(reasons_with_group(plain(code), Limit::Finite(3)), [(0, reason)]);
    }
    let never = Reason::NeverGivesUp("g".into());
    assert_eq!(reasons_with_group(plain(ExitFailed), Limit::Unlimited), [(0, never)]);
}

#[test]
fn a_group_is_not_ready_without_a_job_that_can_never_start() {
    let stuck = |code| {
        let stuck = checked(job("c", once("b", Healthy)));
        reasons_with_group(vec![job("a", of_group(code)), job("b", startup()), stuck], Limit::Finite(3))
    };
    let no_check = (2, Reason::NoHealthCheck(1, Healthy));
    for code in [Ready, Healthy, Unhealthy] {
        let waits = (0, Reason::WaitsForMember("g".into(), 2, code));
        assert_eq!(stuck(code), [waits, no_check.clone()], "{code:?}");
    }
    assert_eq!(stuck(Stopped), [no_check]);
}

#[test]
fn a_job_and_a_group_that_wait_for_each_other_are_a_cycle() {
    let jobs = vec![job("a", of_group(Ready)), job("b", startup()), job("c", once("a", Ready))];
    assert_eq!(reasons_with_group(jobs, Limit::Finite(3)), [(0, Reason::Cycle(vec![0, 2]))]);
}

#[test]
fn health_of_a_job_without_a_check_never_comes() {
    let jobs = vec![job("a", startup()), job("b", once("a", Healthy))];
    assert_eq!(reasons(jobs), [(1, Reason::NoHealthCheck(0, Healthy))]);
}

#[test]
fn the_outcome_of_a_check_comes_if_there_is_a_check_of_a_job_that_can_start() {
    let check = |name: &str| Trigger::Each(EventKey { code: ExitFailed, source: Source::Check(name.into()) });
    let jobs = vec![
        checked(job("app", startup())),
        job("plain", startup()),
        job("a", check("app")),
        job("b", check("plain")),
        checked(job("stuck", once("plain", Healthy))),
        job("c", check("stuck")),
    ];
    let failed = ExitFailed;
    assert_eq!(
        reasons(jobs),
        [
            (3, Reason::NoHealthCheck(1, failed)),
            (4, Reason::NoHealthCheck(1, Healthy)),
            (5, Reason::WaitsFor(4, failed)),
        ]
    );
}

#[test]
fn the_exit_of_a_job_that_executes_nothing_never_comes_but_its_health_may() {
    let mut external = checked(job("a", startup()));
    external.exec = None;
    let jobs = vec![external, job("b", once("a", EventCode::ExitSuccess)), job("c", once("a", Unhealthy))];
    assert_eq!(reasons(jobs), [(1, Reason::NoProcess(0, EventCode::ExitSuccess))]);
}

#[test]
fn the_health_of_a_job_that_executes_nothing_is_known_even_if_the_job_never_starts() {
    let mut external = checked(job("a", once("plain", Healthy)));
    external.exec = None;
    let jobs = vec![
        external,
        job("plain", startup()),
        job("b", once("a", Healthy)),
        job("c", once("a", Unhealthy)),
        job("d", once("a", Ready)),
    ];
    assert_eq!(reasons(jobs), []);
}

#[test]
fn a_cycle_is_named_once_and_its_followers_refer_to_it() {
    let jobs = vec![
        job("a", once("b", EventCode::ExitSuccess)),
        job("b", once("a", ExitFailed)),
        job("c", once("b", EventCode::ExitSuccess)),
        job("d", once("d", EventCode::ExitSuccess)),
    ];
    assert_eq!(
        reasons(jobs),
        [
            (0, Reason::Cycle(vec![0, 1])),
            (2, Reason::WaitsFor(1, EventCode::ExitSuccess)),
            (3, Reason::Cycle(vec![3])),
        ]
    );
}

#[test]
fn one_way_out_of_any_is_enough_and_all_needs_every_one() {
    let stuck = of("a", Healthy);
    let fine = of("a", EventCode::ExitSuccess);
    let jobs = vec![
        job("a", startup()),
        job("b", Trigger::Any(vec![stuck.clone(), fine.clone()])),
        job("c", Trigger::All(vec![fine, stuck])),
    ];
    assert_eq!(reasons(jobs), [(2, Reason::NoHealthCheck(0, Healthy))]);
}

#[test]
fn every_job_stops_in_the_end_even_one_that_never_starts() {
    let jobs = vec![
        job("a", startup()),
        job("b", once("a", Healthy)),
        job("c", once("b", Stopped)),
        job("d", once("c", EventCode::Stopping)),
    ];
    assert_eq!(reasons(jobs), [(1, Reason::NoHealthCheck(0, Healthy))]);
}

#[test]
fn jobs_that_wait_for_the_end_of_each_other_never_start() {
    let jobs = vec![
        job("a", once("b", Stopped)),
        job("b", once("a", EventCode::Stopping)),
        job("c", once("c", Stopped)),
        job("d", once("e", EventCode::ExitSuccess)),
        job("e", once("d", Stopped)),
    ];
    assert_eq!(
        reasons(jobs),
        [(0, Reason::Cycle(vec![0, 1])), (2, Reason::Cycle(vec![2])), (3, Reason::Cycle(vec![3, 4]))]
    );
}

#[test]
fn a_job_that_gives_up_after_a_time_breaks_the_cycle() {
    let mut hasty = job("a", once("b", Stopped));
    hasty.when.timeout = Some(Duration::from_secs(1));
    assert_eq!(reasons(vec![hasty, job("b", once("a", Stopped))]), []);

    let mut between = job("b", once("c", Ready));
    between.when.timeout = Some(Duration::from_secs(1));
    assert_eq!(reasons(vec![job("a", once("b", Ready)), between, job("c", once("a", Stopped))]), []);
}

#[test]
fn a_thousand_jobs_in_the_worst_order_are_judged() {
    let mut jobs: Vec<JobSpec> = (0..1000)
        .map(|index| job(&format!("j{index}"), once(&format!("j{}", index + 1), EventCode::ExitSuccess)))
        .collect();
    jobs.push(job("j1000", startup()));
    assert_eq!(reasons(jobs), []);
}

#[test]
fn two_hundred_jobs_that_wait_for_each_others_end_are_judged() {
    let names: Vec<String> = (0..200).map(|index| format!("j{index}")).collect();
    let others =
        |name: &String| names.iter().filter(|other| *other != name).map(|other| of(other, Stopped)).collect();
    let jobs: Vec<JobSpec> = names.iter().map(|name| job(name, Trigger::All(others(name)))).collect();
    assert_eq!(reasons(jobs)[0], (0, Reason::Cycle(vec![0, 1])));
}

#[test]
fn every_job_that_can_start_can_become_ready() {
    let mut idle = checked(job("idle", startup()));
    idle.exec = None;
    let jobs = vec![job("a", startup()), job("b", once("a", Ready)), idle, job("c", once("idle", Ready))];
    assert_eq!(reasons(jobs), []);
}

#[test]
fn jobs_that_wait_for_each_other_to_be_ready_never_start() {
    let mut clock = job("clock", Trigger::Interval(Duration::from_secs(1)));
    clock.when.after = vec![of("b", Ready)];
    let jobs = vec![job("a", startup()), job("b", once("clock", Ready)), clock];
    assert_eq!(reasons(jobs), [(1, Reason::Cycle(vec![1, 2]))]);
}

#[test]
fn a_large_circle_and_a_long_way_into_it_are_judged_at_once() {
    const COUNT: usize = 10_000;
    // The first half is the way into the circle, the second half the circle.
    let next = |index: usize| if index + 1 == COUNT { COUNT / 2 } else { index + 1 };
    let waits = |index: usize| once(&next(index).to_string(), EventCode::ExitSuccess);
    let jobs = (0..COUNT).map(|index| job(&index.to_string(), waits(index))).collect();
    let start = Instant::now();
    let found = reasons(jobs);
    // Walking the whole way for each of them takes minutes.
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(found.len(), COUNT / 2 + 1);
    assert_eq!(found[0], (0, Reason::WaitsFor(1, EventCode::ExitSuccess)));
    assert_eq!(found[COUNT / 2], (COUNT / 2, Reason::Cycle((COUNT / 2..COUNT).collect())));
}
