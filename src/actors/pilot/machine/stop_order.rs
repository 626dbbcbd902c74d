//! In which order jobs are told to stop: a job outlives those that need it. The same for a reload and a shutdown.

use std::collections::BTreeSet;
use std::sync::Arc;

/// A job that is to stop, or is over.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its name.
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

/// The indices of the jobs to be told now. If nobody can be told and nobody `progresses`, jobs need each other and no order
/// satisfies all: then all are told.
pub fn next(candidates: &[Candidate<'_>]) -> Vec<usize> {
    let needed: BTreeSet<&str> = candidates
        .iter()
        .filter(|candidate| candidate.may_run)
        .flat_map(|candidate| candidate.needs.iter().map(|name| &**name))
        .collect();
    let remaining = || candidates.iter().enumerate().filter(|(_, candidate)| candidate.remains);
    let free = remaining().filter(|(_, candidate)| candidate.waits || !needed.contains(candidate.name));
    let free: Vec<usize> = free.map(|(index, _)| index).collect();
    if free.is_empty() && !candidates.iter().any(|candidate| candidate.progresses) {
        return remaining().map(|(index, _)| index).collect();
    }
    free
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
    fn a_job_that_only_waits_is_stopped_at_once_and_keeps_nobody() {
        let needs = [Arc::from("agent")];
        let waiting = |candidate| Candidate { waits: true, may_run: false, ..candidate };
        assert_eq!(next(&[waiting(runs("agent", &[])), runs("app", &needs)]), [0, 1]);
        assert_eq!(next(&[runs("agent", &[]), waiting(runs("app", &needs))]), [0, 1]);
    }
}
