//! The last output of jobs: `logs` and `/v3/logs`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use crate::support::http::{Answer, connect, request};
use crate::support::{Exit, Pilot, program, resident_kib};

const TWO: &str = r#"{ logging: { format: "default" }, jobs: [
    { name: "one", exec: ["sh", "-c", "echo one 1; echo one 2 >&2; echo one 3; sleep 1000"] },
    { name: "two", exec: ["sh", "-c", "echo two 1; sleep 1000"], when: { source: "one", once: "exitSuccess" } },
] }"#;

/// The messages of lines in the default format.
fn messages(text: &str) -> Vec<String> {
    text.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap_or(line).to_owned()).collect()
}

/// What a client prints; the log of these tests shows no events, so it may come too early.
fn told(pilot: &Pilot, arguments: &[&str]) -> String {
    let output = Command::new(program()).args(arguments).arg("-socket").arg(pilot.socket()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn ask(pilot: &Pilot, query: &str) -> Answer {
    request(connect(&pilot.socket()), "GET", &format!("/v3/logs?{query}"), "", "")
}

fn refused(pilot: &Pilot, arguments: &[&str]) -> String {
    let output = pilot.client(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn logs_are_the_lines_as_they_stand_in_the_log() {
    let pilot = Pilot::start(&TWO.replace(r#", when: { source: "one", once: "exitSuccess" }"#, ""));
    pilot.eventually("all lines", || told(&pilot, &["logs"]).lines().count() == 4);
    for line in told(&pilot, &["logs"]).lines() {
        pilot.eventually(line, || pilot.log().text().contains(line));
    }
    assert_eq!(messages(&told(&pilot, &["logs", "two"])), ["two 1"]);
    let mut one = messages(&told(&pilot, &["logs", "one"]));
    one.sort(); // stdout and stderr are two pipes
    assert_eq!(one, ["one 1", "one 2", "one 3"]);
    assert_eq!(told(&pilot, &["logs", "one", "two", "-n", "2"]).lines().count(), 2);
    assert_eq!(told(&pilot, &["logs", "-lines=0"]), "");
    assert_eq!(told(&pilot, &["logs", "one", "-since", "1h"]).lines().count(), 3);
    assert_eq!(told(&pilot, &["logs", "one", "-since", "1ns"]), "");
    let answer = ask(&pilot, "job=one&job=two&n=100");
    let lines = answer.body.lines().filter(|line| line.contains("T")).count();
    assert_eq!((answer.status, lines), (200, 4), "{}", answer.body);
}

#[test]
fn a_job_that_does_not_exist_or_keeps_nothing_is_told_so() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "raw", exec: "sleep 1000", logging: { raw: true } },
            { name: "off", exec: ["sh", "-c", "echo hidden; sleep 1000"], logging: { keep: "0" } },
        ] }"#,
    );
    pilot.wait_for_line("off", "hidden");
    assert!(refused(&pilot, &["logs", "nope"]).contains("there is no job \"nope\""));
    assert!(refused(&pilot, &["logs", "raw"]).contains("not kept: with `logging.raw`"));
    assert!(refused(&pilot, &["logs", "off"]).contains("not kept: `logging.keep` is 0"));
    assert_eq!(told(&pilot, &["logs"]), "");
    for (query, part) in
        [("n=x", "number of lines"), ("since=x", "a duration"), ("what=x", "expected job=NAME")]
    {
        let answer = ask(&pilot, query);
        assert!(answer.status == 400 && answer.body.contains(part), "{}", answer.body);
    }
}

#[test]
fn following_prints_what_comes_until_the_program_ends() {
    let pilot = Pilot::start(
        r#"{ logging: { format: "default" }, jobs: [
            { name: "app", exec: ["sh", "-c", "echo before; while [ ! -e {dir}/go ]; do sleep 0.05; done; echo after; sleep 1000"] },
        ] }"#,
    );
    pilot.eventually("the first line", || told(&pilot, &["logs"]).contains("before"));
    let mut client = Command::new(program())
        .args(["logs", "app", "-f", "-socket"])
        .arg(pilot.socket())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().ends_with(" before"));
    fs::write(pilot.path("go"), "").unwrap();
    assert!(lines.next().unwrap().ends_with(" after"));
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(lines.next(), None);
    assert!(client.wait().unwrap().success());
}

#[test]
fn a_client_that_does_not_read_costs_no_memory_and_is_told_what_it_missed() {
    let pilot = Pilot::start(
        r#"{ logging: { format: "default", output: "/dev/null" }, jobs: [
            { name: "flood", exec: ["sh", "-c", "while [ ! -e {dir}/go ]; do sleep 0.05; done; head -c 40000000 /dev/zero | tr '\\0' x | fold -w 99; touch {dir}/done; sleep 1000"] },
        ] }"#,
    );
    pilot.eventually("it serves", || told(&pilot, &["-ping"]) == "ok\n");
    let mut clients: Vec<_> = (0..20)
        .map(|_| {
            let mut client = connect(&pilot.socket());
            client.write_all(b"GET /v3/logs?follow=1&n=9 HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            client
        })
        .collect();
    let before = resident_kib(pilot.pid());
    fs::write(pilot.path("go"), "").unwrap();
    pilot.wait_for_file("done");
    assert_eq!(told(&pilot, &["-ping"]), "ok\n");
    let grown = resident_kib(pilot.pid()).saturating_sub(before);
    assert!(grown < 24 << 10, "grew by {grown} KiB");
    assert!(told(&pilot, &["logs", "-n", "1000000"]).len() <= 64 << 10);
    let mut text = vec![0; 4 << 20];
    let mut seen = String::new();
    while !seen.contains("[some lines of flood are no longer kept]") {
        let length = clients[0].read(&mut text).unwrap();
        assert!(length > 0, "the stream ended: {} bytes", seen.len());
        seen.push_str(&String::from_utf8_lossy(&text[..length]));
    }
}

#[test]
fn the_output_of_many_jobs_takes_no_more_memory_than_all_of_them_may_keep() {
    // A line at a time, since of a flood little is kept.
    let job = r#"{ name: "job{number}", exec: ["perl", "-e",
        "$| = 1; open U, '>{dir}/up{number}'; select undef, undef, undef, 0.05 until -e '{dir}/go'; WRITES"] }"#;
    let writes = r"for (1..700) { print 'x' x 60, qq(\n); select undef, undef, undef, 0.01 } open D, '>{dir}/done{number}'; sleep 1000";
    let job = job.replace("WRITES", writes);
    let jobs: Vec<String> = (0..120).map(|number| job.replace("{number}", &number.to_string())).collect();
    let logging = r#"{ format: "json", output: "/dev/null" }"#;
    let pilot = Pilot::start(&format!("{{ logging: {logging}, jobs: [{}] }}", jobs.join(", ")));
    pilot.eventually("it serves", || told(&pilot, &["-ping"]) == "ok\n");
    (0..120).for_each(|number| pilot.wait_for_file(&format!("up{number}")));
    let before = resident_kib(pilot.pid());
    fs::write(pilot.path("go"), "").unwrap();
    (0..120).for_each(|number| pilot.wait_for_file(&format!("done{number}")));
    let grown = resident_kib(pilot.pid()).saturating_sub(before);
    // 8 MiB, and what the allocator and the log itself need.
    assert!((1 << 10..13 << 10).contains(&grown), "grew by {grown} KiB");
}

#[test]
fn json_records_of_jobs_name_their_stream() {
    let (exit, pilot) = Pilot::run(
        r#"{ logging: { format: "json" }, jobs: [{ name: "app", exec: ["sh", "-c", "echo out; echo err >&2"] }] }"#,
    );
    assert_eq!(exit, Exit::Code(0));
    let log = pilot.log().text();
    let stream_of = |message: &str| {
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        lines.find(|record| record["job"] == "app" && record["msg"] == message).unwrap()["stream"].clone()
    };
    assert_eq!((stream_of("out"), stream_of("err")), ("stdout".into(), "stderr".into()));
}

#[test]
fn a_job_keeps_as_much_as_it_says_and_all_others_the_default() {
    let print = "i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); done; sleep 1000";
    let pilot = Pilot::start(&format!(
        r#"{{ logging: {{ format: "default", keep: "4KiB" }}, jobs: [
            {{ name: "small", exec: ["sh", "-c", "{print}"] }},
            {{ name: "large", exec: ["sh", "-c", "{print}"], logging: {{ keep: "1MiB" }} }},
        ] }}"#
    ));
    let all = |job| told(&pilot, &["logs", job, "-n", "100000"]);
    pilot.eventually("all lines", || {
        all("large").ends_with("line 399\n") && all("small").ends_with("line 399\n")
    });
    assert_eq!(messages(&all("large")).len(), 400);
    let small = all("small");
    assert!(small.len() <= 4096 && small.len() > 500, "{}", small.len());
}
