//! So much output waits for a log that nobody reads that no ordinary process is started: checks go on, and so do the jobs that
//! run when others stop.

use std::fs;
use std::process::Command;

use crate::support::bare::{Bare, pipe};
use crate::support::{Exit, program};
use nix::sys::signal::Signal;

/// What `status` shows of the job.
fn status(bare: &Bare, job: &str) -> String {
    let mut command = Command::new(program());
    command.arg("-config").arg(bare.path("containerpilot.json5")).args(["status", job]);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[test]
fn checks_and_the_jobs_of_a_shutdown_run_although_the_log_is_flooded() {
    let (reader, writer) = pipe();
    // Each run leaves a full pipe of empty lines behind, which become a hundred times as much of records.
    let flood = |number: u32| {
        format!(
            r#"{{ name: "flood-{number}", restarts: "unlimited", backoff: {{ max: "0s" }},
               exec: ["sh", "-c", "head -c 60000 /dev/zero | tr '\\0' '\\n'"] }}"#
        )
    };
    let floods: Vec<String> = (0..4).map(flood).collect();
    // A check that took too long on a busy machine would end `app` too early: its time limit is not what is tested here.
    let config = format!(
        r#"{{ jobs: [
            {{ name: "app", exec: "sleep 1000", onUnhealthy: "restart", restarts: "unlimited",
               health: {{ exec: ["sh", "-c", "echo tried; ! test -e {{dir}}/ill"], interval: "200ms",
                         timeout: "30s", ttl: 60 }} }},
            {{ name: "hook", exec: ["sh", "-c", "echo ran >> {{dir}}/hook"],
               when: {{ source: "app", once: "stopping" }} }},
            {{ name: "bye", exec: ["sh", "-c", "echo ran >> {{dir}}/bye"], when: {{ once: "shutdown" }} }},
            {} ] }}"#,
        floods.join(",\n")
    );
    let mut bare = Bare::start(&config, |command| {
        command.stdout(writer);
    });
    bare.eventually("app is healthy", || status(&bare, "app").contains(" healthy"));
    let waits = |number| status(&bare, &format!("flood-{number}")).contains("waits for room in the log");
    bare.eventually("the log is flooded", || (0..4).all(waits));
    fs::write(bare.path("ill"), "").unwrap();
    bare.eventually("app stops, since its check fails", || bare.text("hook").contains("ran"));
    bare.signal(Signal::SIGTERM);
    bare.eventually("the job of the shutdown ran", || bare.text("bye").contains("ran"));
    drop(reader);
    assert_eq!(bare.wait_exit(), Exit::Code(0));
}
