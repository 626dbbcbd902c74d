//! The graph of dependencies, as the page draws it. Pure: from the configuration to JSON.

use serde_json::{Value, json};

use crate::config::spec::{Spec, Trigger};
use crate::messages::event::{EventCode, Source};

/// The jobs and watches of a configuration, and the events that start jobs.
pub fn graph(spec: &Spec) -> Value {
    let jobs = spec.jobs.iter().map(|job| {
        let kind = match &job.when.trigger {
            Trigger::Interval(_) => "by interval",
            Trigger::Cron(_) => "by schedule",
            Trigger::Once(_) | Trigger::Each(_) | Trigger::All(_) | Trigger::Any(_) => "job",
        };
        json!({ "name": &*job.name, "kind": kind })
    });
    let watches =
        spec.watches.iter().map(|watch| json!({ "name": format!("watch.{}", watch.name), "kind": "watch" }));
    let groups =
        spec.groups.iter().map(|group| json!({ "name": format!("group.{}", group.name), "kind": "group" }));
    let nodes: Vec<Value> = jobs.chain(watches).chain(groups).collect();
    let edges: Vec<Value> = spec
        .jobs
        .iter()
        .flat_map(|job| job.when.keys().iter().map(move |key| (job, key)))
        .filter(|(_, key)| key.code != EventCode::Startup)
        .map(|(job, key)| {
            let from = match &key.source {
                Source::Job(name) | Source::Check(name) => name.to_string(),
                Source::Watch(_) | Source::Group(_) => key.source.to_string(),
                Source::Global => "containerpilot".to_owned(),
                Source::Signal(signal) => signal.to_string(),
            };
            json!({ "from": from, "to": &*job.name, "event": key.code.config_name() })
        })
        .collect();
    json!({ "nodes": nodes, "edges": edges })
}
