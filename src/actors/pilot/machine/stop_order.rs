//! In which order jobs are told to stop: a job outlives those that need it. The same for a reload and a shutdown.

use std::collections::BTreeSet;
use std::sync::Arc;

/// A job that is to stop, or is over.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    pub name: &'a str,
    /// The jobs that must outlive it.
    pub needs: &'a [Arc<str>],
    /// It is still to be told to stop.
    pub remains: bool,
    /// It runs, or can come to run before the stop is over: what it needs has to stay.
    pub may_run: bool,
    /// It runs nothing now: others that need it do not lose anything.
    pub waits: bool,
    /// It will end without being told anything more.
    pub progresses: bool,
}

/// The indices of the jobs to be told now. If no job can be told and none `progresses`, no order satisfies all: then the jobs are
/// told that only waiting jobs need, or all jobs if running ones need each other.
pub fn next(candidates: &[Candidate<'_>]) -> Vec<usize> {
    let free = not_needed(candidates, |candidate| candidate.may_run);
    if !free.is_empty() || candidates.iter().any(|candidate| candidate.progresses) {
        return free;
    }
    let free = not_needed(candidates, |candidate| candidate.may_run && !candidate.waits);
    if free.is_empty() { not_needed(candidates, |_| false) } else { free }
}

/// The jobs still to be told that run nothing, or that none of those `by` needs.
fn not_needed(candidates: &[Candidate<'_>], by: impl Fn(&Candidate<'_>) -> bool) -> Vec<usize> {
    let by = candidates.iter().filter(|candidate| by(candidate));
    let needed: BTreeSet<&str> =
        by.flat_map(|candidate| candidate.needs.iter().map(|name| &**name)).collect();
    let remaining = candidates.iter().enumerate().filter(|(_, candidate)| candidate.remains);
    let free = remaining.filter(|(_, candidate)| candidate.waits || !needed.contains(candidate.name));
    free.map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs<'a>(name: &'a str, needs: &'a [Arc<str>]) -> Candidate<'a> {
        Candidate { name, needs, remains: true, may_run: true, waits: false, progresses: false }
    }

    fn told(candidate: Candidate<'_>) -> Candidate<'_> {
        Candidate { remains: false, progresses: true, ..candidate }
    }

    fn over(candidate: Candidate<'_>) -> Candidate<'_> {
        Candidate { remains: false, may_run: false, ..candidate }
    }

    #[test]
    fn a_job_is_stopped_after_those_that_need_it() {
        let needs = [Arc::from("agent")];
        let (agent, app) = (runs("agent", &[]), runs("app", &needs));
        assert_eq!(next(&[agent, app]), [1]);
        assert_eq!(next(&[agent, told(app)]), [0; 0]);
        assert_eq!(next(&[agent, over(app)]), [0]);
    }

    #[test]
    fn jobs_that_need_each_other_are_stopped_together() {
        let (a, b) = ([Arc::from("b")], [Arc::from("a")]);
        assert_eq!(next(&[runs("a", &a), runs("b", &b)]), [0, 1]);
    }

    #[test]
    fn who_waits_for_an_end_and_needs_others_does_not_spoil_their_order() {
        let (of_app, of_tidy) = ([Arc::from("db")], [Arc::from("app")]);
        let tidy = Candidate { remains: false, waits: true, ..runs("tidy", &of_tidy) };
        let (db, app) = (runs("db", &[]), runs("app", &of_app));
        assert_eq!(next(&[db, app, tidy]), [1]);
        assert_eq!(next(&[db, told(app), tidy]), [0; 0]);
        assert_eq!(next(&[db, over(app), tidy]), [0]);
    }

    #[test]
    fn a_job_that_only_waits_is_stopped_at_once_and_keeps_nobody() {
        let needs = [Arc::from("agent")];
        let waiting = |candidate| Candidate { waits: true, may_run: false, ..candidate };
        assert_eq!(next(&[waiting(runs("agent", &[])), runs("app", &needs)]), [0, 1]);
        assert_eq!(next(&[runs("agent", &[]), waiting(runs("app", &needs))]), [0, 1]);
    }
}
