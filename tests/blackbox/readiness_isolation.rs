//! No job can make another one ready, or silence it: by messages, descriptors, lines or floods.

use std::fs;

use crate::readiness::{APP, PERL, USER, assert_ready_behind_gate, open, perl};
use crate::support::{Exit, Setup};

#[test]
fn no_job_can_make_another_one_ready() {
    let script = r#"open(my $file, ">", "{dir}/address.new"); print $file "$ENV{NOTIFY_SOCKET} $$"; close $file;
        rename "{dir}/address.new", "{dir}/address"; print "waits\n"; gate("gate"); tell_all("READY=1"); sleep 1000;"#;
    // setpgid(2) would let it into any group of its session.
    let liar = r#"gate("address"); open(my $file, "<", "{dir}/address");
        ($ENV{NOTIFY_SOCKET}, my $pid) = split / /, <$file>;
        print setpgrp(0, $pid) ? "joined it\n" : "kept out: $!\n";
        tell_all("READY=1", "STATUS=lies"); print "listening\n"; sleep 1000;"#;
    let config = format!(
        r#"{{ jobs: [{{ {APP}, ready: {{ notify: true }} }}, {USER},
            {{ name: "liar", exec: ["perl", "{{dir}}/liar.pl"] }},
            {{ name: "other", exec: "sleep 1000", ready: {{ log: "listening" }}, essential: false }}] }}"#
    );
    let pilot = perl(script).file("liar.pl", &format!("{PERL}\n{liar}")).config(&config).start();
    pilot.wait_for_line("liar", "listening");
    pilot.wait_for_line("liar", "kept out: Operation not permitted");
    let record = pilot.wait_for_message("a process that is not of this job has written to its notify socket");
    assert_eq!(record.job, "app");
    assert_eq!(pilot.status_of("app")["statusText"], serde_json::Value::Null);
    assert_eq!(pilot.status_of("other")["ready"], false, "the line was another job's");
    assert_ready_behind_gate(&pilot);
}

#[test]
fn a_newline_to_the_descriptor_of_one_job_makes_no_other_ready() {
    let script = r#"open(my $fd, ">&=", 3) or die; print "waits\n"; gate("gate"); syswrite($fd, "\n") or die; sleep 1000;"#;
    // To whatever descriptor it has.
    let loud = r#"use POSIX; POSIX::write($_, "\n", 1) for 3..255; sleep 1000;"#;
    let louds = ["before", "after"].map(|name| {
        format!(r#"{{ name: "{name}", exec: ["perl", "{{dir}}/loud.pl"], ready: {{ fd: 3 }} }}"#)
    });
    let [before, after] = &louds;
    let config = format!("{{ jobs: [{before}, {{ {APP}, ready: {{ fd: 3 }} }}, {after}, {USER}] }}");
    let pilot = perl(script).file("loud.pl", loud).config(&config).start();
    pilot.wait_for_event("before ready");
    pilot.wait_for_event("after ready");
    assert_ready_behind_gate(&pilot);
}

#[test]
fn the_main_process_can_only_be_one_of_the_group() {
    let script = r#"print "waits\n"; gate("other"); open(my $file, "<", "{dir}/other"); my $other = <$file>;
        tell_all("MAINPID=$other\nSTATUS=another", "READY=1"); gate("own");
        my $child = fork(); if ($child == 0) { sleep 1000; }
        print "child $child\n"; tell_all("MAINPID=$child"); sleep 1000;"#;
    let config = format!(
        r#"{{ jobs: [{{ {APP}, ready: {{ notify: true }} }}, {{ name: "other", exec: "sleep 1000" }}] }}"#
    );
    let pilot = perl(script).config(&config).start();
    pilot.wait_for_line("app", "waits");
    let pid = |job: &str| pilot.status_of(job)["pid"].as_i64().unwrap();
    let main = pid("app");
    fs::write(pilot.path("other.new"), pid("other").to_string()).unwrap();
    fs::rename(pilot.path("other.new"), pilot.path("other")).unwrap();
    pilot.wait_for_event("app ready");
    assert_eq!((pilot.status_of("app")["statusText"].as_str(), pid("app")), (Some("another"), main));
    open(&pilot, "own");
    pilot.eventually("its child is its main process", || pid("app") != main);
    pilot.wait_for_line("app", &format!("child {}", pid("app")));
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_flood_of_messages_starves_nobody() {
    // One of its processes waits until there is room; the other does not, and most of its messages are lost.
    let script = r#"tell_all("READY=1");
        if (fork()) { for (my $i = 0; ; $i++) { tell_all(("WATCHDOG=1", "STATUS=$i") x 500); } }
        socket(my $socket, AF_UNIX, SOCK_DGRAM, 0) or die;
        my $to = pack_sockaddr_un("\0" . substr($ENV{NOTIFY_SOCKET}, 1));
        for (my $i = 0; ; $i++) { send($socket, "STATUS=$i", MSG_DONTWAIT, $to); }"#;
    let quiet = r#"gate("gate"); tell_all("STATUS=heard\nREADY=1"); sleep 1000;"#;
    let config = format!(
        r#"{{ jobs: [{{ {APP}, ready: {{ notify: true }}, watchdog: "60s" }},
            {{ name: "quiet", exec: ["perl", "{{dir}}/quiet.pl"], ready: {{ notify: true }}, after: ["app"] }},
            {{ name: "tick", exec: "true", when: {{ interval: "50ms" }}, timeout: "10s", after: ["app"] }}] }}"#
    );
    let pilot = perl(script).file("quiet.pl", &format!("{PERL}\n{quiet}")).config(&config).start();
    pilot.wait_for_events("tick exitSuccess", 20);
    open(&pilot, "gate");
    pilot.wait_for_event("quiet ready");
    assert_eq!(pilot.status_of("quiet")["statusText"], "heard");
    pilot.wait_for_events("tick exitSuccess", 40);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_flood_of_messages_to_another_job_does_not_silence_that() {
    let script = r#"open(my $file, ">", "{dir}/address.new"); print $file $ENV{NOTIFY_SOCKET}; close $file;
        rename "{dir}/address.new", "{dir}/address"; gate("gate"); tell_all("STATUS=heard\nREADY=1"); sleep 1000;"#;
    let flood = r#"gate("address"); open(my $file, "<", "{dir}/address"); $ENV{NOTIFY_SOCKET} = <$file>;
        fork; fork; for (my $i = 0; ; $i++) { tell_all(("READY=1", "STATUS=$i") x 500); }"#;
    let config = format!(
        r#"{{ jobs: [{{ {APP}, ready: {{ notify: true }} }},
            {{ name: "flood", exec: ["perl", "{{dir}}/flood.pl"] }},
            {{ name: "tick", exec: "true", when: {{ interval: "50ms" }}, timeout: "10s" }}] }}"#
    );
    let pilot = perl(script).file("flood.pl", &format!("{PERL}\n{flood}")).config(&config).start();
    pilot.wait_for_message("a process that is not of this job has written to its notify socket");
    pilot.wait_for_events("tick exitSuccess", 20);
    assert_eq!(pilot.count("app ready"), 0);
    open(&pilot, "gate");
    pilot.wait_for_event("app ready");
    assert_eq!(pilot.status_of("app")["statusText"], "heard");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_job_that_asks_for_nothing_is_told_nothing() {
    let inherited = "/somebody/elses.socket";
    let setup = Setup::new().env("NOTIFY_SOCKET", inherited);
    let pilot = setup.config(r#"{ jobs: [{ name: "app", exec: "env" }] }"#).start();
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    let lines = pilot.lines_of("app");
    assert!(lines.contains(&format!("NOTIFY_SOCKET={inherited}")), "as it would be without us");
    let ours = ["WATCHDOG_", "LISTEN_", "CONTAINERPILOT_READY_FD"];
    assert!(!lines.iter().any(|line| ours.iter().any(|name| line.starts_with(name))), "{lines:?}");
}

#[test]
fn a_job_gets_no_descriptor_beside_those_that_it_asked_for() {
    let script = r#"opendir(my $dir, "/proc/self/fd");
        print join(" ", sort { $a <=> $b } grep { /\d/ } readdir($dir)), "\n"; sleep 1000;"#;
    let config = format!(
        r#"{{ jobs: [{{ {APP}, ready: {{ fd: 77 }}, watchdog: "60s" }},
            {{ name: "plain", exec: ["perl", "{{dir}}/app.pl"] }}] }}"#
    );
    let pilot = perl(script).config(&config).start();
    let descriptors = |job: &str| -> Vec<String> {
        pilot.eventually("it prints them", || !pilot.lines_of(job).is_empty());
        pilot.lines_of(job).remove(0).split(' ').map(str::to_owned).collect()
    };
    let (mut app, plain) = (descriptors("app"), descriptors("plain"));
    app.retain(|number| number != "77");
    assert_eq!(app, plain);
    assert_eq!(pilot.stop(), Exit::Code(0));
}
