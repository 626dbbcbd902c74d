//! What a reload does to jobs that run when others stop, and to those that wait for what is done.

use crate::support::Pilot;

const WITH_HOOKS: &str = r#"{ jobs: [
    { name: "app", exec: "sleep 1000" },
    { name: "pre-stop", exec: "echo finishes requests", when: { source: "app", once: "stopping" } },
    { name: "post-stop", exec: "echo cleans up", when: { source: "app", once: "stopped" } },
    { name: "rest", exec: "sleep 1000" },
] }"#;

#[test]
fn jobs_that_run_when_another_stops_run_although_the_reload_ends_them_too() {
    let pilot = Pilot::start(WITH_HOOKS);
    pilot.wait_for_event("rest ready");
    assert_eq!(
        pilot.tell(&["-reload", "-all"]),
        "stopped: app, pre-stop, post-stop, rest\nstarted: app, pre-stop, post-stop, rest\n"
    );
    pilot.wait_for_line("pre-stop", "finishes requests");
    pilot.wait_for_line("post-stop", "cleans up");
}

#[test]
fn a_job_that_is_removed_with_its_hooks_has_them_run() {
    let pilot = Pilot::start(WITH_HOOKS);
    pilot.wait_for_event("rest ready");
    let (_, jobs) = WITH_HOOKS.split_once("jobs: [").unwrap();
    let (hooked, _) = jobs.split_once("    { name: \"rest\"").unwrap();
    pilot.edit(hooked, "");
    assert_eq!(pilot.tell(&["-reload"]), "stopped: app, pre-stop, post-stop\nkept: rest\n");
    pilot.wait_for_line("pre-stop", "finishes requests");
    pilot.wait_for_line("post-stop", "cleans up");
}

#[test]
fn a_changed_job_starts_though_what_it_waits_for_was_done_long_ago() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "init", exec: "true" },
            { name: "web", exec: "sleep 1000", after: ["init"], essential: true },
        ] }"#,
    );
    pilot.eventually("init is over", || pilot.status_of("init")["state"] == "complete");
    pilot.wait_for_event("web ready");
    pilot.edit("sleep 1000", "sleep 1001");
    assert_eq!(pilot.tell(&["-reload"]), "stopped: web\nstarted: web\nkept: init\n");
    pilot.eventually("web runs", || pilot.status_of("web")["state"] == "running");
}
