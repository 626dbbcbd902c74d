//! Which jobs a job needs, so that they stop after it: those that it waited for to be ready or healthy; those before it in its
//! group; and if it waited for the success of another job, all that that one needs. So a database stops after the application
//! that was started after its migration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::member::Member;
use super::members::Members;
use crate::messages::event::EventCode;

/// The names of the members of each group.
type Groups<'a> = BTreeMap<&'a str, Vec<&'a Arc<str>>>;

/// The needs of each job, in the order of the jobs.
pub fn resolve(members: &Members) -> Vec<Vec<Arc<str>>> {
    let mut groups = Groups::new();
    for job in members.list() {
        if let Some(place) = &job.spec.group {
            groups.entry(&place.group).or_default().push(job.name());
        }
    }
    members.list().iter().map(|job| needs_of(job, members, &groups)).collect()
}

fn needs_of(job: &Member, members: &Members, groups: &Groups<'_>) -> Vec<Arc<str>> {
    let mut needs: Vec<Arc<str>> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::from([&**job.name()]);
    let mut chain = vec![job];
    while let Some(link) = chain.pop() {
        let used = used_by(link, groups);
        for name in &used {
            if *name != job.name() && !needs.contains(name) {
                needs.push(Arc::clone(name));
            }
        }
        let before = used.into_iter().chain(link.awaits(EventCode::ExitSuccess));
        chain.extend(before.filter(|name| seen.insert(name)).filter_map(|name| members.get(name)));
    }
    needs
}

/// The jobs that a job uses itself.
fn used_by<'a>(job: &'a Member, groups: &Groups<'a>) -> Vec<&'a Arc<str>> {
    let of_groups = job.awaited_groups().filter_map(|group| groups.get(group)).flatten().copied();
    let ends = [EventCode::Stopping, EventCode::Stopped, EventCode::ExitSuccess, EventCode::ExitFailed];
    let awaits_end = |name: &Arc<str>| ends.iter().any(|code| job.awaits(*code).any(|other| other == name));
    let before = job.spec.group.iter().flat_map(|place| &place.after);
    let used = job.awaits_service().chain(before).chain(of_groups);
    // A job that waits for the end of another does not need it while it runs.
    used.filter(|name| !awaits_end(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::spec::{CommandLine, GroupPlace, JobSpec, Trigger};
    use crate::messages::event::{EventKey, Source};

    fn job(name: &str, waits: &[(&str, EventCode)]) -> Member {
        let command = CommandLine { program: "true".into(), args: vec![] };
        let key = |(source, code): &(&str, EventCode)| EventKey {
            code: *code,
            source: Source::Job(Arc::from(*source)),
        };
        let mut spec = JobSpec::new(Arc::from(name), Some(command));
        spec.when.trigger = Trigger::All(waits.iter().map(key).collect());
        Member::new(Arc::new(spec), 0)
    }

    fn in_group(job: &Member, after: &[&str]) -> Member {
        let after = after.iter().map(|name| Arc::from(*name)).collect();
        let place = GroupPlace { group: Arc::from("g"), after };
        Member::new(Arc::new(JobSpec { group: Some(place), ..(*job.spec).clone() }), 0)
    }

    fn resolved(jobs: Vec<Member>) -> Vec<String> {
        let order: Vec<Arc<JobSpec>> = jobs.iter().map(|job| Arc::clone(&job.spec)).collect();
        let mut members = Members::default();
        members.change(|_| true, jobs, &order);
        members.begin_to_stop();
        members.list().iter().map(|job| format!("{}: {}", job.name(), job.needs.join(" "))).collect()
    }

    #[test]
    fn a_database_outlives_the_application_that_was_started_after_its_migration() {
        let jobs = vec![
            job("db", &[]),
            job("migrate", &[("db", EventCode::Healthy)]),
            job("seed", &[("migrate", EventCode::ExitSuccess)]),
            job("app", &[("seed", EventCode::ExitSuccess)]),
        ];
        assert_eq!(resolved(jobs), ["db: ", "migrate: db", "seed: db", "app: db"]);
    }

    #[test]
    fn a_chain_of_healthy_jobs_needs_all_of_them() {
        let jobs = vec![
            job("consul", &[]),
            job("db", &[("consul", EventCode::Healthy)]),
            job("app", &[("db", EventCode::Healthy)]),
        ];
        assert_eq!(resolved(jobs), ["consul: ", "db: consul", "app: db consul"]);
    }

    #[test]
    fn other_ends_are_no_needs() {
        let jobs = vec![
            job("db", &[]),
            job("backup", &[("db", EventCode::Healthy)]),
            job("alarm", &[("backup", EventCode::ExitFailed)]),
        ];
        assert_eq!(resolved(jobs), ["db: ", "backup: db", "alarm: "]);
    }

    #[test]
    fn who_waits_for_the_end_of_one_before_it_in_its_group_does_not_need_that_one() {
        let jobs = vec![
            job("db", &[]),
            in_group(&job("app", &[]), &["db"]),
            in_group(&job("cleanup", &[("app", EventCode::Stopped)]), &["db", "app"]),
        ];
        assert_eq!(resolved(jobs), ["db: ", "app: db", "cleanup: db"]);
    }

    #[test]
    fn who_also_waits_for_the_end_of_a_job_does_not_need_it() {
        let jobs = vec![
            job("db", &[]),
            job("app", &[("db", EventCode::Healthy)]),
            job("tidy", &[("app", EventCode::Healthy), ("app", EventCode::Stopped)]),
        ];
        assert_eq!(resolved(jobs), ["db: ", "app: db", "tidy: "]);
    }

    #[test]
    fn a_circle_ends() {
        let jobs = vec![job("a", &[("b", EventCode::ExitSuccess)]), job("b", &[("a", EventCode::Healthy)])];
        assert_eq!(resolved(jobs), ["a: ", "b: a"]);
    }
}
