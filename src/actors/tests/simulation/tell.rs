//! Tells a story to people.

use std::fmt::Write;

use super::run::Outcome;
use super::story::{Operation, Program, Story};
use crate::config::spec::{JobSpec, Trigger};
use crate::messages::event::EventKey;

/// What happens, in a few words.
pub fn operation(operation: &Operation) -> String {
    match operation {
        Operation::Order(name, order) => format!("a client: {order} {name}"),
        Operation::Maintain(on) => format!("a client: maintenance {}", if *on { "on" } else { "off" }),
        Operation::Environ(value) => format!("a client: sets a variable to {value}"),
        Operation::Reload { program, restart_all } => {
            let names: Vec<&str> = program.jobs.iter().map(|job| &*job.name).collect();
            let all = if *restart_all { ", all anew" } else { "" };
            format!("a client: reload to {}{all}", names.join(" "))
        }
        Operation::BadReload => "a client: reload of a bad configuration".to_owned(),
        Operation::Edit(_) => "somebody edits the configuration".to_owned(),
        Operation::Signal(signal) => format!("{signal} arrives"),
        Operation::Kill(name, signal) => format!("somebody sends {signal} to {name}"),
        Operation::Behave(name, manner) => format!("{name} behaves differently: {manner:?}"),
        Operation::FailStarts { errno, times } => format!("the next {times} starts fail, error {errno}"),
        Operation::Consul(mood) => format!("Consul: {mood:?}"),
        Operation::ConsulForgets => "Consul forgets all services".to_owned(),
        Operation::Instances(number) => format!("Consul: {number} instances of the observed service"),
        Operation::Key(value) => format!("Consul: the observed key is {value:?}"),
        Operation::Log(flow) => format!("the log: {flow:?}"),
        Operation::SetClock(by) => format!("the clock on the wall is set by {by} ms"),
        Operation::Suspend(milliseconds) => format!("the machine sleeps for {milliseconds} ms"),
    }
}

/// The configuration, how programs behave, what happened, and which rule was broken.
pub fn tell(story: &Story, outcome: &Outcome) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "seed {}, stops within {:?}", story.seed, story.program.budget);
    let mut text = text + &program(&story.program, story);
    for (index, step) in story.steps.iter().enumerate() {
        if let Operation::Reload { program: next, .. } | Operation::Edit(next) = &step.operation {
            let changed = next.jobs.iter().filter(|job| !story.program.jobs.contains(job)).cloned().collect();
            let changed = Program { jobs: changed, ..(**next).clone() };
            let _ = write!(text, "  step {index} reloads, with these changed:\n{}", program(&changed, story));
        }
    }
    for entry in &outcome.trace {
        let _ = writeln!(text, "{entry}");
    }
    if let Some(broken) = &outcome.broken {
        let _ = writeln!(text, "broken: {}: {}", broken.rule, broken.how);
    }
    text
}

fn program(program: &Program, story: &Story) -> String {
    let mut text = String::new();
    for group in &program.groups {
        let _ = writeln!(text, "  {group:?}");
    }
    for job in &program.jobs {
        let _ = writeln!(text, "  job {}: {}, timeout {:?}", job.name, trigger(job), job.when.timeout);
        let _ = writeln!(
            text,
            "    restarts {:?}, timeout {:?}, stop {:?}, {} checks, advertised {}, essential {}, {:?}",
            job.restarts,
            job.timeout,
            job.stop,
            job.health.len(),
            job.advertise.is_some(),
            job.essential,
            job.kind,
        );
        let _ = writeln!(
            text,
            "    success {:?}, {:?}, when unhealthy {:?}, ready {:?}, watchdog {:?}",
            job.success, job.restart_rule, job.on_unhealthy, job.ready, job.watchdog,
        );
        if let Some(manner) = story.manners.get(&*job.name) {
            let _ = writeln!(text, "    {manner:?}");
        }
        for check in &job.health {
            let _ = writeln!(
                text,
                "    {} every {:?}: {:?}",
                check.name,
                check.interval,
                story.manners.get(&*check.name)
            );
        }
    }
    text
}

/// When a job runs, in a few words.
fn trigger(job: &JobSpec) -> String {
    let keys: Vec<String> = job.when.keys().iter().map(EventKey::to_string).collect();
    match &job.when.trigger {
        Trigger::Once(_) => format!("once {}", keys.join("")),
        Trigger::Each(_) => format!("each {}", keys.join("")),
        Trigger::All(_) => format!("all of {}", keys.join(", ")),
        Trigger::Any(_) => format!("any of {}", keys.join(", ")),
        Trigger::Interval(interval) if keys.is_empty() => format!("every {interval:?}"),
        Trigger::Interval(interval) => format!("every {interval:?} after {}", keys.join(", ")),
        Trigger::Cron(cron) => format!("at {:?}", cron.text),
    }
}
