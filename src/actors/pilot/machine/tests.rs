mod rules;
mod stories;

use std::sync::Arc;
use std::time::Duration;

use super::member::Member;
use crate::config::spec::{CheckSpec, CommandLine, JobKind, JobSpec, Probe, Trigger};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::health::Health;
use crate::messages::job::{JobChanged, Missing, Phase};

pub(super) fn event(job: &str, code: EventCode) -> EventKey {
    EventKey { code, source: Source::Job(Arc::from(job)) }
}

fn shutdown() -> EventKey {
    EventKey { code: EventCode::Shutdown, source: Source::Global }
}

fn spec(name: &str) -> JobSpec {
    let command = CommandLine { program: "true".into(), args: vec![] };
    JobSpec::new(Arc::from(name), Some(command))
}

/// A job in that phase that waits for nothing.
pub(super) fn job(name: &str, phase: Phase) -> Member {
    Member { phase, missing: Missing::Nothing, ..Member::new(Arc::new(spec(name)), 0) }
}

/// The same job with another configuration.
pub(super) fn with(mut job: Member, change: impl FnOnce(&mut JobSpec)) -> Member {
    change(Arc::make_mut(&mut job.spec));
    job
}

pub(super) fn coprocess(job: Member) -> Member {
    with(job, |spec| spec.kind = JobKind::Coprocess)
}

fn essential(job: Member) -> Member {
    with(job, |spec| spec.essential = true)
}

fn waits(name: &str, key: EventKey) -> Member {
    let job = with(job(name, Phase::Waiting), |spec| spec.when.trigger = Trigger::Once(key.clone()));
    Member { missing: Missing::AnyOf(vec![key]), ..job }
}

fn needing(name: &str, phase: Phase, needed: &str) -> Member {
    Member { needs: vec![Arc::from(needed)], ..job(name, phase) }
}

fn ended(name: &str, status: u8, order: u64) -> Member {
    Member { last_status: Some(status), last_end: order, ..job(name, Phase::Complete) }
}

/// A check, so that a job can be healthy.
fn check() -> CheckSpec {
    let (interval, timeout) = (Duration::from_secs(1), Duration::from_secs(1));
    CheckSpec {
        name: "check".into(),
        probe: Probe::Running,
        interval,
        timeout,
        failures: 1,
        raw_output: false,
    }
}

/// A job with a check.
pub(super) fn checked(name: &str, phase: Phase) -> Member {
    with(job(name, phase), |spec| spec.health.push(check()))
}

/// The report of a job. In the phase `Waiting` it waits for db to be healthy.
pub(super) fn changed(name: &str, generation: u64, phase: Phase) -> JobChanged {
    let missing = if phase == Phase::Waiting {
        Missing::AnyOf(vec![event("db", EventCode::Healthy)])
    } else {
        Missing::Nothing
    };
    JobChanged {
        name: Arc::from(name),
        generation,
        phase,
        returns: false,
        ready: false,
        health: Health::Unknown,
        missing,
        last_status: None,
        answers: None,
        is_restart: false,
        group_order: 0,
        cause: None,
    }
}
