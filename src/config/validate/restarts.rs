//! Restart rules: how often and after which ends a job is restarted, which ends are a success, what ill health leads to.

use super::context::{Context, items, key, value};
use super::health::Health;
use crate::config::diagnostic::Problem;
use crate::config::raw::{Ending, OneOrMany, Opt, RawJob, RawRestartRule, RawRestarts};
use crate::config::spec::{EndOfRun, Limit, OnUnhealthy, RestartOn, RestartRule, Trigger};

/// With `per`, the time of each restart that counts is kept, so there cannot be any number of them.
pub(super) const MOST_WITH_PER: u32 = 1000;

/// How often a job is restarted, and the rule for it.
pub(super) fn restarts(
    context: &mut Context<'_>,
    field: &Opt<RawRestarts>,
    default: Limit,
) -> (Limit, RestartRule) {
    match value(field) {
        None => (default, RestartRule::default()),
        Some(RawRestarts::Number(limit) | RawRestarts::Text(limit)) => (limit.0, RestartRule::default()),
        Some(RawRestarts::Rule(raw)) => context.within(".restarts", |context| rule(context, raw)),
    }
}

fn rule(context: &mut Context<'_>, raw: &RawRestartRule) -> (Limit, RestartRule) {
    let limit = value(&raw.limit).map_or(Limit::Unlimited, |limit| limit.0);
    let per = context.at_least_1ms("per", &raw.per);
    match (limit, &raw.limit, per) {
        (Limit::Unlimited, _, Some(_)) => {
            context.no_effect(&[("per", key(&raw.per))], "without a `limit`");
        }
        (Limit::Finite(number), Some(field), Some(_)) if number > MOST_WITH_PER => {
            let message =
                format!(".limit: expected at most {MOST_WITH_PER} together with `per`, found {number}");
            context.error("out-of-range", field.span, message);
        }
        (Limit::Finite(0), _, _) => {
            let unused = [("on", key(&raw.on)), ("except", key(&raw.except)), ("per", key(&raw.per))];
            context.no_effect(&unused, "with a `limit` of 0");
        }
        (Limit::Finite(_) | Limit::Unlimited, _, _) => {}
    }
    let on = value(&raw.on).copied().unwrap_or_default();
    (limit, RestartRule { on, except: endings(&raw.except), per: per.filter(|_| limit != Limit::Unlimited) })
}

/// Refuses endless restarts of a job that runs at each event anyway.
pub(super) fn check_each(context: &mut Context<'_>, raw: &RawJob, trigger: &Trigger, limit: Limit) {
    if let (Trigger::Each(_), Some(field), Limit::Unlimited) = (trigger, &raw.restarts, limit) {
        let message = ".restarts: \"unlimited\" cannot be combined with `when.each`";
        let help = match &field.value {
            Some(RawRestarts::Rule(_)) => "set `limit` to a number",
            Some(RawRestarts::Number(_) | RawRestarts::Text(_)) | None => {
                "`each` runs the job at every event already; remove `restarts`, or use `once`"
            }
        };
        context.add(Problem::error("unlimited-each", field.span, message).help(help));
    }
}

/// The ends that are a success.
pub(super) fn success(context: &mut Context<'_>, field: &Opt<OneOrMany<Ending>>) -> Vec<EndOfRun> {
    let Some(given) = field else { return vec![EndOfRun::Code(0)] };
    if given.value.as_ref().is_some_and(|list| list.0.is_empty()) {
        let message = ".success: expected at least one exit status or signal, found none";
        context.error("no-success", given.span, message);
    }
    endings(field)
}

fn endings(field: &Opt<OneOrMany<Ending>>) -> Vec<EndOfRun> {
    let mut endings = Vec::new();
    for Ending(ending) in items(field).iter().filter_map(|field| field.value) {
        if !endings.contains(&ending) {
            endings.push(ending);
        }
    }
    endings
}

pub(super) fn on_unhealthy(
    context: &mut Context<'_>,
    raw: &RawJob,
    health: &Health,
    restarts: Limit,
) -> OnUnhealthy {
    let Some((field, wanted)) = raw.on_unhealthy.as_ref().zip(value(&raw.on_unhealthy).copied()) else {
        return OnUnhealthy::default();
    };
    if health.checks.is_empty() && raw.health.is_none() {
        context.no_effect(&[("onUnhealthy", Some(field.key))], "without `health`");
    }
    match wanted {
        OnUnhealthy::Restart if raw.exec.is_none() => {
            let message = ".onUnhealthy: \"restart\" needs an `exec`: something else runs this job's process";
            context.error("missing-exec", field.span, message);
        }
        OnUnhealthy::Restart if restarts == Limit::Finite(0) => {
            let message = ".onUnhealthy: the job has no restarts: it is stopped when it becomes unhealthy, and completes";
            let help = "set `restarts`, for example to \"unlimited\" or `{limit: 5, per: \"1h\"}`";
            context.add(Problem::warning("no-restarts", field.span, message).help(help));
        }
        OnUnhealthy::Nothing | OnUnhealthy::Restart | OnUnhealthy::Shutdown => {}
    }
    wanted
}

/// Whether a job is there to run all the time: every end is followed by a restart.
pub(super) fn runs_always(limit: Limit, rule: &RestartRule) -> bool {
    limit == Limit::Unlimited && rule.on == RestartOn::Always
}
