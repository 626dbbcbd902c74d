//! Every phase, and every reason that a machine can have, has its sentence.

use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::config::spec::{
    CheckSpec, CommandLine, HttpProbe, JobKind, Limit, Probe, TlsSpec, Trigger, WatchSpec, WatchTarget,
};
use crate::messages::account::{Exceeded, FailingCheck};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::health::{Health, Verdict};
use crate::messages::job::{Missing, Phase};
use crate::messages::signal::Signal;
use crate::messages::status::{DiscoveryFailure, GroupStatus, WatchStatus};

mod groups;
mod moments;

/// A program with jobs, 7 s after they came where they are.
struct World {
    overview: Overview,
    spec: Spec,
    is_log_full: bool,
}

impl World {
    fn new() -> Self {
        Self { overview: Overview::default(), spec: Spec::default(), is_log_full: false }
    }

    fn job(mut self, name: &str, status: JobStatus) -> Self {
        let command = CommandLine { program: "true".to_owned(), args: vec![] };
        let mut spec = JobSpec::new(name.into(), Some(command));
        for (check, _) in &status.checks {
            spec.health.push(check_spec(check));
        }
        self.spec.jobs.push(Arc::new(spec));
        self.overview.jobs.insert(name.into(), Arc::new(status));
        self
    }

    fn with(mut self, change: impl FnOnce(&mut JobSpec)) -> Self {
        change(Arc::make_mut(self.spec.jobs.last_mut().unwrap()));
        self
    }

    fn why(&self, name: &str) -> Why {
        let awaited = BTreeMap::new();
        let (overview, spec, now) = (&self.overview, &self.spec, begin() + Duration::from_secs(7));
        let is_log_full = self.is_log_full;
        why(&Scene { overview, spec, awaited: &awaited, is_log_full, now }, name).unwrap()
    }

    fn summary(&self, name: &str) -> String {
        self.why(name).summary
    }

    fn reason(&self, name: &str) -> String {
        reason(&self.overview, name, begin() + Duration::from_secs(7)).unwrap_or_default()
    }
}

/// 1970-01-01 02:13:00 UTC.
fn begin() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(7980)
}

fn in_seconds(seconds: u64) -> SystemTime {
    begin() + Duration::from_secs(7 + seconds)
}

fn job(phase: Phase) -> JobStatus {
    JobStatus { since: begin(), has_run: true, ..JobStatus::new(phase) }
}

fn ended(phase: Phase, status: u8) -> JobStatus {
    let mut job =
        JobStatus { last_exit: Some((status, format!("exited with status {status}"))), ..job(phase) };
    (job.account.failed, job.account.runs) = (status != 0, 1);
    job
}

fn event(name: &str, code: EventCode) -> EventKey {
    EventKey { code, source: Source::Job(name.into()) }
}

fn waits(missing: Missing) -> JobStatus {
    let mut job = JobStatus { has_run: false, ..job(Phase::Waiting) };
    job.account.missing = missing;
    job
}

fn never_ran(missing: Missing, reason: &str) -> JobStatus {
    JobStatus { phase: Phase::Complete, never_ran: Some(reason.to_owned()), ..waits(missing) }
}

fn check_spec(name: &str) -> CheckSpec {
    let probe = HttpProbe {
        url: "http://user:hunter2@127.0.0.1:5432/live?token=hunter2".to_owned(),
        method: "GET".to_owned(),
        status: None,
        headers: vec![("Authorization".to_owned(), "hunter2".to_owned())],
        contains: None,
        tls: TlsSpec {
            ca_file: None,
            ca_path: None,
            client_cert: None,
            client_key: None,
            server_name: None,
            verify: true,
        },
    };
    CheckSpec {
        name: name.into(),
        probe: Probe::Http(Arc::new(probe)),
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        failures: 1,
        raw_output: false,
    }
}

fn unhealthy(mut world: World, name: &str) -> World {
    let job = Arc::make_mut(world.overview.jobs.get_mut(name).unwrap());
    job.health = Health::Unhealthy;
    job.checks = vec![("http".into(), Verdict::Failing)];
    let failing = FailingCheck {
        reason: "Connection refused".to_owned(),
        times: 14,
        since: begin(),
        next: Some(in_seconds(3)),
    };
    world.overview.failing.insert((name.into(), "http".into()), failing);
    let spec = world.spec.jobs.iter_mut().find(|job| &*job.name == name).unwrap();
    Arc::make_mut(spec).health = vec![check_spec("http")];
    world
}

#[test]
fn the_chain_goes_down_to_the_root_cause() {
    let world = World::new()
        .job("app", waits(Missing::AnyOf(vec![event("db", EventCode::Healthy)])))
        .job("db", job(Phase::Running));
    let why = unhealthy(world, "db").why("app");
    assert_eq!(
        why.summary,
        "app waits for db to be healthy. db runs since 02:13:00 UTC but is unhealthy: GET http://127.0.0.1:5432/live: \
         Connection refused (14 times since 02:13:00 UTC); tried again in 3 s. What to do: see what db prints with \
         `containerpilot logs db`, and try its check by hand."
    );
    assert_eq!(why.next_try, Some(in_seconds(3)));
}

#[test]
fn a_job_that_never_ran_names_the_one_that_failed() {
    let lost = |job: &str| Missing::AnyOf(vec![event(job, EventCode::ExitSuccess)]);
    let world = World::new()
        .job("app", never_ran(lost("seed"), "\"seed exitSuccess\" can no longer come"))
        .job("seed", never_ran(lost("migrate"), "\"migrate exitSuccess\" can no longer come"))
        .job("migrate", ended(Phase::Complete, 3))
        .with(|spec| spec.restarts = Limit::Finite(2));
    assert_eq!(
        world.summary("app"),
        "app never ran and gave up at 02:13:00 UTC: it waited for seed to succeed, which can no longer come. seed never ran \
         and gave up at 02:13:00 UTC: it waited for migrate to succeed, which can no longer come. migrate has failed: at \
         02:13:00 UTC it exited with status 3. It is not restarted: all of its 2 restarts are used. What to do: see how \
         migrate ended and what it printed last with `containerpilot crashes migrate`; when that is repaired, run \
         `containerpilot start migrate`; then run `containerpilot start seed`."
    );
    assert_eq!(world.why("app").state, "never ran");
    assert_eq!(world.reason("app"), "never ran: seed never ran");
    assert_eq!(world.reason("seed"), "never ran: migrate failed");
}

#[test]
fn a_circle_is_told_as_one() {
    let waits = |on: &str| waits(Missing::AnyOf(vec![event(on, EventCode::ExitSuccess)]));
    let world = World::new().job("a", waits("b")).job("b", waits("c")).job("c", waits("a"));
    let summary = world.summary("a");
    assert!(summary.contains("a, b and c wait for each other in a circle"), "{summary}");
    assert!(summary.ends_with("What to do: change `when` of one of them, and reload."), "{summary}");
    let alone = World::new().job("a", waits("a"));
    assert!(alone.summary("a").contains("a waits for itself"), "{}", alone.summary("a"));
}

#[test]
fn jobs_that_something_else_can_start_are_no_circle() {
    let on = |name: &str| event(name, EventCode::ExitSuccess);
    let one = |name: &str| waits(Missing::AnyOf(vec![on(name)]));
    let either = waits(Missing::AnyOf(vec![on("a"), on("c")]));
    let other_way = World::new().job("a", one("b")).job("b", either).job("c", job(Phase::Running));
    let limit = World::new()
        .job("a", one("b"))
        .job("b", one("a"))
        .with(|spec| spec.when.timeout = Some(Duration::from_secs(60)));
    let has_run = World::new().job("a", one("b")).job("b", JobStatus { has_run: true, ..one("a") });
    for world in [other_way, limit, has_run] {
        assert!(!world.summary("a").contains("circle"), "{}", world.summary("a"));
    }
}

#[test]
fn several_events_that_cannot_come_are_told_as_what_was_needed_of_them() {
    let keys = || vec![event("a", EventCode::Healthy), event("b", EventCode::ExitSuccess)];
    let reason = "\"a healthy\" can no longer come";
    let any = World::new().job("app", never_ran(Missing::AnyOf(keys()), reason));
    let text = "it waited for a to be healthy or b to succeed, none of which can come any more";
    assert!(any.summary("app").contains(text), "{}", any.summary("app"));
    let all = World::new().job("app", never_ran(Missing::AllOf(keys()), reason));
    let text = "it waited for a to be healthy and b to succeed, not all of which can come any more";
    assert!(all.summary("app").contains(text), "{}", all.summary("app"));
}

#[test]
fn reasons_fit_into_a_column() {
    let delayed = |seconds| {
        let mut job = ended(Phase::Delayed, 1);
        job.account.until = Some(in_seconds(seconds));
        job
    };
    let scheduled = |seconds| JobStatus { next_run: Some(in_seconds(seconds)), ..job(Phase::Waiting) };
    let db = || event("db", EventCode::Healthy);
    let signal = EventKey { code: EventCode::Signal, source: Source::Signal(Signal::HUP) };
    for (status, expected) in [
        (waits(Missing::AnyOf(vec![db()])), "waits for db healthy"),
        (
            waits(Missing::AllOf(vec![db(), event("m", EventCode::ExitSuccess)])),
            "waits for db healthy, m exitSuccess",
        ),
        (waits(Missing::AnyOf(vec![signal])), "waits for SIGHUP"),
        (delayed(12), "restarts in 12 s"),
        (scheduled(7 * 3600 - 787), "next 09:00"),
        (scheduled(20), "next in 20 s"),
        (job(Phase::Running), ""),
        (job(Phase::Halted), "stopped by hand"),
        (ended(Phase::Complete, 0), ""),
        (ended(Phase::Complete, 1), "failed, and has no restart left"),
        (
            never_ran(Missing::AnyOf(vec![db()]), "\"db healthy\" has not come within 5.0s"),
            "never ran: \"db healthy\" has not come within 5.0s",
        ),
    ] {
        assert_eq!(World::new().job("app", status).reason("app"), expected);
    }
    let world = unhealthy(World::new().job("app", job(Phase::Running)), "app");
    assert_eq!(world.reason("app"), "http: Connection refused");
}

#[test]
fn a_process_that_exceeded_a_limit_is_said_to_whatever_it_still_does() {
    for (phase, exceeded, reason, told) in [
        (Phase::Running, Exceeded::Watchdog, "is being ended by its watchdog", "its process got SIGABRT"),
        (
            Phase::TimedOut,
            Exceeded::ReadyTimeout,
            "was not ready within its ready.timeout",
            "was not ready within its `ready.timeout` and is being killed since",
        ),
        (
            Phase::TimedOut,
            Exceeded::Timeout,
            "ran longer than its timeout",
            "ran longer than its `timeout` and is being killed since",
        ),
    ] {
        let mut status = job(phase);
        status.account.exceeded = Some(exceeded);
        assert_eq!(status.state(), "timed-out");
        let world = World::new().job("app", status);
        assert_eq!(world.reason("app"), reason);
        assert!(world.summary("app").contains(told), "{}", world.summary("app"));
    }
}

/// The states that a job can be shown in, with all that its machine may say of each.
fn every_state() -> Vec<JobStatus> {
    let mut states = Vec::new();
    for phase in Phase::ALL {
        for health in [Health::Unknown, Health::Healthy, Health::Unhealthy, Health::Maintenance] {
            for bits in 0..64_u32 {
                let is = |bit: u32| bits & (1 << bit) != 0;
                let mut status = JobStatus { health, has_run: is(0), starting: is(1), ..job(phase) };
                status.checks = if is(2) { vec![("http".into(), Verdict::Failing)] } else { vec![] };
                status.pid = is(3).then_some(7);
                status.last_exit = is(3).then(|| (1, "exited with status 1".to_owned()));
                status.never_ran = (!is(0)).then(|| "its schedule never comes".to_owned());
                status.account.awaits_log = is(4);
                status.account.until = is(5).then(|| in_seconds(3));
                status.account.gives_up = is(5).then(|| in_seconds(3));
                status.account.stop_reason = is(4).then(|| "the program shuts down".to_owned());
                status.account.failed = is(5);
                status.account.runs = u64::from(bits);
                states.push(status);
            }
        }
    }
    states
}

#[test]
fn a_full_log_holds_up_those_whose_output_it_carries() {
    let running = || JobStatus { pid: Some(7), ..job(Phase::Running) };
    let mut world =
        World::new().job("app", running()).job("raw", running()).with(|spec| spec.raw_output = true);
    assert!(!world.summary("app").contains("the log is full"));
    world.is_log_full = true;
    assert!(world.summary("app").contains("waits whenever it prints: the log is full"));
    assert!(!world.summary("raw").contains("the log is full"));
}

#[test]
fn every_phase_and_reason_has_its_sentence() {
    for status in every_state() {
        let phase = status.phase;
        let summary = World::new().job("app", status.clone()).summary("app");
        assert!(summary.starts_with("app "), "{status:?}: {summary}");
        assert!(summary.ends_with('.'), "{status:?}: {summary}");
        for flaw in ["  ", "..", " .", ": .", "None", "Some("] {
            assert!(!summary.contains(flaw), "{flaw:?} of {phase}: {summary}");
        }
    }
}

/// Every event that a job can wait for.
fn every_key() -> Vec<EventKey> {
    let sources = [
        Source::Global,
        Source::Job("db".into()),
        Source::Check("db".into()),
        Source::Watch("db".into()),
        Source::Signal(Signal::HUP),
    ];
    let keys = |source: &Source| EventCode::ALL.map(|code| EventKey { code, source: source.clone() });
    sources.iter().flat_map(keys).collect()
}

#[test]
fn every_awaited_event_has_its_words_whatever_its_source_does() {
    for key in every_key() {
        for status in every_state().into_iter().step_by(7) {
            let missing = Missing::AllOf(vec![key.clone()]);
            let world = World::new().job("app", waits(missing)).job("db", status);
            let summary = world.summary("app");
            assert!(summary.starts_with("app waits for "), "{summary}");
            assert!(summary.ends_with('.') && !summary.contains(".."), "{summary}");
        }
    }
}

fn failure(reason: &str, is_answer: bool) -> DiscoveryFailure {
    DiscoveryFailure { reason: reason.to_owned(), is_answer }
}

#[test]
fn a_job_that_consul_refuses_tells_its_own_reason_and_another_one_tells_nothing() {
    let advertised = || JobStatus { advertised: Some(("::1".into(), 80)), ..job(Phase::Running) };
    let mut world = World::new().job("app", advertised()).job("other", advertised());
    let reason = "it answered 400: Invalid Service Meta";
    world.overview.discovery.trouble = Some(reason.to_owned());
    world.overview.discovery.failures.insert("app".into(), failure(reason, true));
    let summary = world.summary("app");
    assert!(summary.contains(reason) && summary.contains("mend what Consul complains of"), "{summary}");
    let summary = world.summary("other");
    assert!(!summary.contains("Consul"), "{summary}");
}

#[test]
fn what_holds_for_the_whole_program_is_told_too() {
    let mut world =
        World::new().job("app", JobStatus { advertised: Some(("::1".into(), 80)), ..job(Phase::Running) });
    world.overview.refused_reload = Some(begin());
    world.overview.shutting_down = true;
    world.overview.discovery.failures.insert("app".into(), failure("it cannot be reached", false));
    let summary = world.summary("app");
    for part in
        ["Consul may not know app", "The program is shutting down.", "The reload at 02:13:00 UTC was refused"]
    {
        assert!(summary.contains(part), "{part}: {summary}");
    }
}

#[test]
fn a_job_that_acts_on_a_stop_is_named() {
    let mut stopping = job(Phase::Holding);
    stopping.account.stop_reason = Some("it is stopped by hand".to_owned());
    stopping.account.until = Some(in_seconds(4));
    let world = World::new()
        .job("app", stopping)
        .job("hook", job(Phase::Running))
        .with(|spec| spec.when.trigger = Trigger::Each(event("app", EventCode::Stopping)));
    assert_eq!(
        world.summary("app"),
        "app is being stopped because it is stopped by hand: it waits for hook, for at most 4 s more, since 02:13:00 UTC. \
         What to do: wait, or have those jobs end sooner."
    );
}

#[test]
fn no_explanation_has_a_secret_of_a_check() {
    for status in every_state() {
        let world = unhealthy(World::new().job("app", status), "app");
        let text = format!("{} {}", world.summary("app"), world.reason("app"));
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn the_root_of_a_long_chain_is_told_and_not_all_between() {
    let name = |number: usize| format!("j{number}");
    let mut world = World::new().job("j0", ended(Phase::Complete, 3));
    for number in 1..1000 {
        let missing = Missing::AnyOf(vec![event(&name(number - 1), EventCode::ExitSuccess)]);
        world = world.job(&name(number), waits(missing));
    }
    let why = world.why("j999");
    assert!(
        why.summary.starts_with("j999 waits for j998 to succeed. j998 waits for j997"),
        "{}",
        why.summary
    );
    assert!(
        why.summary.contains("j0 has failed: at 02:13:00 UTC it exited with status 3."),
        "{}",
        why.summary
    );
    assert!(why.summary.contains("994 more jobs are in this chain."), "{}", why.summary);
    assert!(why.summary.len() < 1000, "{}", why.summary);
    assert_eq!(why.failed.as_deref(), Some("j0"));
}
