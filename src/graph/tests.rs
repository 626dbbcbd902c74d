//! Tests of the graph: one configuration in every form.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::config::spec::{CommandLine, Limit, OnExhausted, Strategy, When};
use crate::messages::account::FirstRun;
use crate::messages::status::{GroupStatus, WatchStatus};

fn job(name: &str, trigger: Trigger) -> Arc<JobSpec> {
    let command = CommandLine { program: "true".to_owned(), args: vec!["hunter2".to_owned()] };
    let mut spec = JobSpec::new(name.into(), Some(command));
    spec.when = When::new(trigger);
    Arc::new(spec)
}

fn key(name: &str, code: EventCode) -> EventKey {
    EventKey { code, source: Source::Job(name.into()) }
}

fn startup() -> EventKey {
    EventKey { code: EventCode::Startup, source: Source::Global }
}

fn configuration() -> Spec {
    let watched = EventKey { code: EventCode::Changed, source: Source::Watch("mq".into()) };
    Spec {
        jobs: vec![
            job("db", Trigger::Once(startup())),
            job("migrate", Trigger::Once(key("db", EventCode::Healthy))),
            job(
                "app",
                Trigger::All(vec![key("db", EventCode::Healthy), key("migrate", EventCode::ExitSuccess)]),
            ),
            job("hook", Trigger::Each(watched)),
            job("<b>\"x\"", Trigger::Interval(Duration::from_secs(5))),
        ],
        ..Spec::default()
    }
}

fn ran(phase: Phase, occasion: EventKey, times: [u64; 3]) -> JobStatus {
    let mut status = JobStatus { has_run: true, health: Health::Healthy, ..JobStatus::new(phase) };
    let [started, up, ended] = times.map(|time| (time > 0).then(|| Duration::from_millis(time)));
    status.account.first_run = FirstRun { occasion: Some(occasion), started, up, ended };
    status
}

fn running() -> Overview {
    let mut overview = Overview::default();
    let mut add = |name: &str, status| overview.jobs.insert(name.into(), Arc::new(status));
    add("db", ran(Phase::Running, startup(), [10, 2300, 0]));
    add("migrate", ran(Phase::Complete, key("db", EventCode::Healthy), [2310, 2310, 4000]));
    add("app", ran(Phase::Running, key("migrate", EventCode::ExitSuccess), [4010, 4200, 0]));
    add("hook", JobStatus::new(Phase::Waiting));
    overview.watches.insert("mq".into(), WatchStatus { known: true, instances: vec![] });
    overview
}

#[test]
fn the_tree_tells_each_job_in_full_once() {
    assert_eq!(
        Graph::of(&configuration()).render(Format::Text),
        "\
db
├─ healthy → migrate
│  └─ exitSuccess → app
└─ healthy → app (told above)
<b>\"x\": every 5s
watch.mq
└─ each changed → hook
"
    );
}

#[test]
fn a_running_program_shows_states_and_what_its_start_took_so_long_for() {
    let text = Graph::of(&configuration()).with_status(&running()).render(Format::Text);
    assert_eq!(
        text,
        "\
db: running, healthy
├─ healthy → migrate: complete, healthy *
│  └─ exitSuccess → app: running, healthy *
└─ healthy → app (told above)
<b>\"x\": every 5s
watch.mq: no instances
└─ each changed → hook: waiting

The start took 4.2 s. Its critical path (*):
     0.0 s  db started, healthy after 2.3 s
     2.3 s  migrate started, exitSuccess after 1.7 s
     4.0 s  app started, can be used after 0.2 s
"
    );
}

#[test]
fn a_job_that_a_user_started_is_not_on_the_critical_path() {
    let mut overview = running();
    let mut by_hand = ran(Phase::Running, startup(), [90_000, 90_000, 0]);
    by_hand.account.first_run.occasion = None;
    overview.jobs.insert("hook".into(), Arc::new(by_hand));
    let graph = Graph::of(&configuration()).with_status(&overview);
    assert_eq!(graph.path.last().map(|step| step.job.as_str()), Some("app"));
}

#[test]
fn the_critical_path_goes_through_the_member_that_made_a_group_ready() {
    let mut overview = running();
    let group = EventKey { code: EventCode::Ready, source: Source::Group("all".into()) };
    overview.groups.push(GroupStatus {
        name: "all".into(),
        jobs: vec!["app".into(), "db".into()],
        ready: true,
        restarts: 0,
        has_given_up: false,
    });
    overview.jobs.insert("report".into(), Arc::new(ran(Phase::Running, group, [4210, 5000, 0])));
    let path: Vec<String> = critical::path(&overview).into_iter().map(|step| step.job).collect();
    assert_eq!(path, ["db", "migrate", "app", "report"]);
}

#[test]
fn a_watched_service_that_became_healthy_is_a_root_of_the_start_and_its_changes_are_none() {
    let of_watch = |code| EventKey { code, source: Source::Watch("mq".into()) };
    for (code, last) in [(EventCode::Healthy, "hook"), (EventCode::Changed, "app")] {
        let mut overview = running();
        overview.jobs.insert("hook".into(), Arc::new(ran(Phase::Running, of_watch(code), [5000, 6000, 0])));
        let path = critical::path(&overview);
        assert_eq!(path.last().map(|step| step.job.as_str()), Some(last), "{code:?}");
    }
}

#[test]
fn the_members_of_a_group_come_one_after_the_other_and_make_up_the_group() {
    let group = EventKey { code: EventCode::Ready, source: Source::Group("all".into()) };
    let spec = Spec {
        jobs: vec![
            job("db", Trigger::Once(startup())),
            job("app", Trigger::Once(startup())),
            job("report", Trigger::Once(group)),
        ],
        groups: vec![Arc::new(GroupSpec {
            name: "all".into(),
            jobs: vec!["db".into(), "app".into()],
            strategy: Strategy::RestForOne,
            limit: Limit::Finite(3),
            per: Duration::from_secs(30),
            on_exhausted: OnExhausted::Stop,
        })],
        ..Spec::default()
    };
    let graph = Graph::of(&spec);
    assert_eq!(
        graph.render(Format::Text),
        "\
db
├─ before → app
│  └─ member → group.all
│     └─ ready → report
└─ member → group.all (told above)
"
    );
    for format in Format::ALL {
        assert!(graph.render(format).contains("group.all"), "{format:?}");
    }
}

#[test]
fn a_circle_ends_in_every_form() {
    let spec = Spec {
        jobs: vec![
            job("a", Trigger::Once(key("b", EventCode::ExitSuccess))),
            job("b", Trigger::Any(vec![key("a", EventCode::ExitSuccess), key("b", EventCode::Stopped)])),
        ],
        ..Spec::default()
    };
    let graph = Graph::of(&spec);
    for format in Format::ALL {
        assert!(graph.render(format).contains("exitSuccess"), "{format:?}");
    }
    assert!(graph.render(Format::Text).starts_with("a\n└─ exitSuccess (or another) → b\n"));
}

#[test]
fn every_form_names_every_job_and_escapes_what_means_something_there() {
    let graph = Graph::of(&configuration()).with_status(&running());
    for format in Format::ALL {
        let text = graph.render(format);
        for name in ["db", "migrate", "app", "hook", "watch.mq"] {
            assert!(text.contains(name), "{format:?}: {text}");
        }
        assert!(!text.contains("hunter2"), "arguments may be secrets: {text}");
        assert_eq!(Format::parse(format.name()), Some(format));
    }
    assert!(graph.render(Format::Svg).contains("&lt;b&gt;&quot;x&quot;"));
    assert!(!graph.render(Format::Svg).contains("<b>"));
    assert!(graph.render(Format::Dot).contains("label=\"<b>\\\"x\\\"\\nevery 5s\""));
    assert!(graph.render(Format::Mermaid).contains("(\"#lt;b#gt;#quot;x#quot;<br/>every 5s\")"));
    let json: Value = serde_json::from_str(&graph.render(Format::Json)).unwrap();
    assert_eq!(
        json["nodes"][1],
        json!({ "name": "migrate", "kind": "job", "schedule": null, "state": "complete, healthy" })
    );
    assert_eq!(
        json["criticalPath"][0],
        json!({ "job": "db", "started": 0.01, "event": "healthy", "done": 2.3 })
    );
    assert_eq!(
        json["edges"][0],
        json!({
            "from": "db", "to": "migrate", "event": "healthy", "alternative": false, "critical": true,
        })
    );
}

#[test]
fn a_thousand_jobs_in_a_chain_are_no_problem() {
    let name = |number: usize| format!("job{number}");
    let trigger = |number: usize| match number {
        0 => Trigger::Once(startup()),
        _ => Trigger::Once(key(&name(number - 1), EventCode::ExitSuccess)),
    };
    let jobs = (0..1000).map(|number| job(&name(number), trigger(number))).collect();
    let graph = Graph::of(&Spec { jobs, ..Spec::default() });
    assert_eq!(graph.render(Format::Text).lines().count(), 1000);
    assert!(graph.render(Format::Svg).contains("job999"));
}
