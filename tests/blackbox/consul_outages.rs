//! Trouble with Consul: it changes nothing for jobs, events and shutdown, is told once, and ends by itself.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::consul::Consul;
use crate::support::proxy::{Fault, Proxy};
use crate::support::{Exit, Pilot, proc_status};

const FAULTS: [Fault; 8] = [
    Fault::Refused,
    Fault::Hang,
    Fault::Reset,
    Fault::Garbage,
    Fault::WrongBody,
    Fault::Status500,
    Fault::Flood,
    Fault::Slow(Duration::from_secs(20)),
];

/// Two seconds of heartbeat, so that recovery has four.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// An advertised job, healthy while `well` is there; one that restarts all the time; a watch.
fn config(consul: &str) -> String {
    format!(
        r#"{{ consul: "{consul}", watches: [{{ name: "db", interval: "1s" }}], jobs: [
            {{ name: "app", exec: "sleep 1000", port: 80, interfaces: "static:10.1.2.3",
               health: {{ exec: "test -e {{dir}}/well", interval: "50ms", timeout: "10s", ttl: "30s", heartbeat: "2s" }} }},
            {{ name: "busy", exec: "true", when: {{ interval: "100ms" }} }} ] }}"#
    )
}

fn troubles(pilot: &Pilot) -> usize {
    pilot.count_messages("Consul is in trouble")
}

/// The processor time that a process has used, in hundredths of a second.
fn cpu_ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn every_fault_is_survived_told_once_and_recovered_from() {
    let consul = Consul::start();
    let proxy = Proxy::new(consul.port());
    let pilot = Pilot::start(&config(&proxy.address()));
    fs::write(pilot.path("well"), "").unwrap();
    consul.wait_for_status("app", "passing");
    pilot.wait_for_event("watch.db unhealthy");
    for (round, fault) in FAULTS.into_iter().enumerate() {
        let before = troubles(&pilot);
        proxy.set(fault);
        pilot.eventually(&format!("{fault:?} is told"), || troubles(&pilot) > before);
        // Health, events and jobs go on.
        fs::remove_file(pilot.path("well")).unwrap();
        pilot.wait_for_events("app unhealthy", round + 1);
        let runs = pilot.count("busy exitSuccess");
        pilot.wait_for_events("busy exitSuccess", runs + 20);
        assert!(troubles(&pilot) - before <= 2, "{fault:?} is told once for each face that it has");
        proxy.set(Fault::None);
        let began = Instant::now();
        consul.wait_for_status("app", "critical");
        pilot.eventually(&format!("the end of {fault:?} is told"), || {
            pilot.count_messages("Consul is back") > round
        });
        let took = began.elapsed();
        println!("{fault:?}: recovered in {took:?}");
        assert!(took < 2 * HEARTBEAT + Duration::from_secs(1), "{fault:?}: recovered in {took:?}");
        fs::write(pilot.path("well"), "").unwrap();
        pilot.wait_for_events("app healthy", round + 2);
        consul.wait_for_status("app", "passing");
    }
    assert_eq!(pilot.count_messages("Consul is back"), FAULTS.len());
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn an_outage_is_told_beside_a_watch_that_is_answered_with_the_same_error_for_good() {
    let consul = Consul::start();
    let proxy = Proxy::new(consul.port());
    let watch = r#"{ name: "far", dc: "nowhere", interval: "1s" },"#;
    let pilot =
        Pilot::start(&config(&proxy.address()).replacen("watches: [", &format!("watches: [{watch}"), 1));
    fs::write(pilot.path("well"), "").unwrap();
    consul.wait_for_status("app", "passing");
    pilot.eventually("the watch has failed while app was served", || {
        pilot.count_messages("Consul failed") >= 8
    });
    let before = troubles(&pilot);
    proxy.set(Fault::Status500);
    pilot.eventually("the outage is told", || troubles(&pilot) > before);
    proxy.set(Fault::None);
    pilot.wait_for_message("Consul is back");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn what_consul_refuses_of_each_job_is_told_and_explained() {
    let consul = Consul::start();
    let job = |name: &str, more: &str| {
        format!(
            r#"{{ name: "{name}", exec: "sleep 1000", port: 80, {more}, health: {{ exec: "true", interval: "1s" }} }}"#
        )
    };
    let config = format!(
        r#"{{ consul: "{}", jobs: [{}, {}, {}] }}"#,
        consul.address(),
        job("a", r#"interfaces: "static:::""#),
        job("b", r#"interfaces: "static:0.0.0.0""#),
        job("c", r#"interfaces: "static:10.1.2.3""#),
    );
    let pilot = Pilot::start(&config);
    consul.wait_for_status("c", "passing");
    pilot.eventually("both are told", || troubles(&pilot) == 2);
    let (a, b, c) = (pilot.tell(&["why", "a"]), pilot.tell(&["why", "b"]), pilot.tell(&["why", "c"]));
    for told in [a, b] {
        assert!(told.contains("Invalid service address"), "{told}");
        assert!(told.contains("mend what Consul complains of"), "{told}");
    }
    assert!(!c.contains("Consul"), "{c}");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn shutdown_waits_at_most_two_seconds_for_a_consul_in_trouble() {
    let consul = Consul::start();
    thread::scope(|scope| {
        for fault in FAULTS {
            let consul = &consul;
            scope.spawn(move || {
                let proxy = Proxy::new(consul.port());
                let config = config(&proxy.address()).replacen('{', r#"{ stopTimeout: "60s","#, 1);
                let pilot = Pilot::start(&config);
                fs::write(pilot.path("well"), "").unwrap();
                pilot.wait_for_event("app healthy");
                consul.wait_for_status("app", "passing");
                proxy.set(fault);
                let began = Instant::now();
                assert_eq!(pilot.stop(), Exit::Code(0));
                let took = began.elapsed();
                println!("{fault:?}: stopped in {took:?}");
                // Eight programs at once on a busy machine need more than the two seconds. One that waited for an
                // answer would need 20 seconds, as the slow Consul does, or the minute of its stopTimeout.
                assert!(took < Duration::from_secs(12), "{fault:?}: stopped in {took:?}");
            });
        }
    });
}

/// Jobs that wait for the one before to be healthy; each says so when it gets SIGTERM.
fn chain(consul: &str, length: usize) -> String {
    let job = |number: usize| {
        let when = match number {
            0 => String::new(),
            _ => format!(r#"when: {{ source: "job-{}", once: "healthy" }},"#, number - 1),
        };
        format!(
            r#"{{ name: "job-{number}", port: 80, interfaces: "static:10.1.2.3", {when}
                exec: ["sh", "-c", "trap 'echo ended; exit' TERM; sleep 1000 & wait"],
                health: {{ exec: "true", interval: "50ms", timeout: "10s", heartbeat: "5s" }} }}"#
        )
    };
    let jobs: Vec<String> = (0..length).map(job).collect();
    format!(r#"{{ consul: "{consul}", stopTimeout: "20s", jobs: [{}] }}"#, jobs.join(","))
}

#[test]
fn many_jobs_in_a_chain_wait_for_a_slow_consul_two_seconds_in_all_and_each_gets_its_stop_signal() {
    let consul = Consul::start();
    let proxy = Proxy::new(consul.port());
    let pilot = Pilot::start(&chain(&proxy.address(), 8));
    consul.wait_for_status("job-7", "passing");
    proxy.set(Fault::Slow(Duration::from_millis(1200)));
    let began = Instant::now();
    assert_eq!(pilot.stop(), Exit::Code(0));
    let took = began.elapsed();
    assert_eq!(pilot.count_messages("ended"), 8);
    // 1.2 seconds for each of the eight jobs would be almost ten.
    assert!(took < Duration::from_secs(7), "stopped in {took:?}");
}

#[test]
fn many_jobs_in_a_chain_wait_for_a_hanging_consul_only_once() {
    let consul = Consul::start();
    let proxy = Proxy::new(consul.port());
    let pilot = Pilot::start(&chain(&proxy.address(), 4));
    consul.wait_for_status("job-3", "passing");
    proxy.set(Fault::Hang);
    let began = Instant::now();
    assert_eq!(pilot.stop(), Exit::Code(0));
    let took = began.elapsed();
    // Two seconds for each of the four jobs would be eight.
    assert!(took < Duration::from_secs(7), "stopped in {took:?}");
}

#[test]
fn a_consul_that_is_not_there_costs_no_time_no_lines_and_no_processor() {
    let proxy = Proxy::new(1);
    proxy.set(Fault::Refused);
    let config = config(&proxy.address())
        .replace(r#"{ name: "busy", exec: "true", when: { interval: "100ms" } }"#, "")
        .replace("test -e {dir}/well", "sh -c 'echo >> {dir}/checks; test -e {dir}/well'");
    let pilot = Pilot::start(&config);
    fs::write(pilot.path("well"), "").unwrap();
    pilot.wait_for_event("app healthy");
    pilot.eventually("the outage is told", || troubles(&pilot) == 1);
    fs::remove_file(pilot.path("well")).unwrap();
    // Idleness shows only over time; the window is that of twenty checks, which are all that there is to do, so that
    // a busy machine has as much time as it needs for as much work.
    let before = cpu_ticks(pilot.pid());
    let checks = pilot.lines("checks").len();
    pilot.wait_for_lines("checks", checks + 20);
    let used = cpu_ticks(pilot.pid()) - before;
    println!("{used} hundredths of a second for 20 exec checks and a Consul that is not there");
    assert!(used <= 25, "{used} hundredths of a second for 20 checks");
    assert_eq!(troubles(&pilot), 1);
    let began = Instant::now();
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(began.elapsed() < Duration::from_secs(2), "stopped in {:?}", began.elapsed());
}

#[test]
fn during_an_outage_the_control_socket_answers_jobs_start_and_health_is_told() {
    let consul = Consul::start();
    for fault in [Fault::Refused, Fault::Hang, Fault::Garbage, Fault::Flood] {
        let proxy = Proxy::new(consul.port());
        let config = config(&proxy.address()).replace(
            r#"{ name: "busy""#,
            r#"{ name: "later", exec: "echo ran", when: { source: "SIGUSR2" } }, { name: "busy""#,
        );
        let pilot = Pilot::start(&config);
        fs::write(pilot.path("well"), "").unwrap();
        consul.wait_for_status("app", "passing");
        proxy.set(fault);
        pilot.eventually(&format!("{fault:?} is told"), || troubles(&pilot) >= 1);
        let mut waits: Vec<Duration> = ["/v3/ping", "/v3/status"]
            .iter()
            .cycle()
            .take(20)
            .map(|path| {
                let began = Instant::now();
                assert_eq!(pilot.ask("GET", path, "").status, 200, "{fault:?}: {path}");
                began.elapsed()
            })
            .collect();
        waits.sort();
        println!("{fault:?}: the control socket answered within {:?}, {:?} at worst", waits[10], waits[19]);
        // Whoever waited for this Consul would wait for two seconds, the deadline of a call, each time; half of them,
        // because what the machine does meanwhile comes and goes.
        assert!(waits[10] < Duration::from_millis(500), "{fault:?}: {waits:?}");
        assert!(pilot.ask("GET", "/v3/status", "").json()["consul"]["trouble"].is_string());
        pilot.signal(nix::sys::signal::SIGUSR2);
        pilot.wait_for_line("later", "ran");
        fs::remove_file(pilot.path("well")).unwrap();
        pilot.wait_for_event("app unhealthy");
        fs::write(pilot.path("well"), "").unwrap();
        pilot.wait_for_events("app healthy", 2);
        pilot.edit("echo ran", "echo ran again");
        pilot.tell(&["-reload"]);
        pilot.signal(nix::sys::signal::SIGUSR2);
        pilot.wait_for_line("later", "ran again");
        proxy.set(Fault::None);
        pilot.wait_for_message("Consul is back");
        assert!(pilot.ask("GET", "/v3/status", "").json()["consul"]["trouble"].is_null());
        assert_eq!(pilot.stop(), Exit::Code(0));
        consul.wait_for_absence("app");
    }
}

#[test]
fn an_answer_without_end_is_not_read_to_its_end() {
    let consul = Consul::start();
    let proxy = Proxy::new(consul.port());
    let pilot = Pilot::start(&config(&proxy.address()));
    fs::write(pilot.path("well"), "").unwrap();
    consul.wait_for_status("app", "passing");
    proxy.set(Fault::Flood);
    pilot.wait_for_record("the flood is told", |record| {
        record.message.contains("Consul is in trouble") && record.message.contains("longer than")
    });
    let peak = proc_status(pilot.pid(), "VmHWM");
    println!("at most {peak} KiB in memory");
    assert!(peak < 150_000, "{peak} KiB");
    proxy.set(Fault::None);
    pilot.wait_for_message("Consul is back");
}

#[test]
fn an_agent_that_lost_its_state_has_us_back_within_two_heartbeats() {
    let mut consul = Consul::start();
    let pilot = Pilot::start(&config(&consul.address()));
    fs::write(pilot.path("well"), "").unwrap();
    consul.wait_for_status("app", "passing");
    consul.kill();
    pilot.eventually("the outage is told", || troubles(&pilot) >= 1);
    consul.launch();
    let began = Instant::now();
    consul.wait_for_status("app", "passing");
    println!("back after {:?}", began.elapsed());
    assert!(began.elapsed() < 2 * HEARTBEAT, "back after {:?}", began.elapsed());
}

#[test]
fn an_outage_is_over_too_for_a_job_that_stopped_meanwhile_and_that_consul_forgot() {
    let mut consul = Consul::start();
    let pilot = Pilot::start(&config(&consul.address()));
    fs::write(pilot.path("well"), "").unwrap();
    consul.wait_for_status("app", "passing");
    consul.kill();
    pilot.eventually("the outage is told", || troubles(&pilot) == 1);
    assert_eq!(pilot.ask("PUT", "/v3/jobs/app/stop", "").status, 200);
    pilot.wait_for_event("app stopped");
    consul.launch();
    pilot.wait_for_message("Consul is back");
    assert_eq!(consul.statuses("app"), [""; 0]);
    consul.kill();
    pilot.eventually("the next outage is told", || troubles(&pilot) == 2);
}

#[test]
fn the_end_of_an_outage_is_noticed_within_about_a_second_however_long_the_heartbeats_are() {
    let consul = Consul::start();
    thread::scope(|scope| {
        for fault in [Fault::Refused, Fault::Status500] {
            let consul = &consul;
            scope.spawn(move || {
                let proxy = Proxy::new(consul.port());
                let config = config(&proxy.address())
                    .replace(r#"name: "app""#, &format!(r#"name: "app-{}""#, proxy.port()))
                    .replace(r#"heartbeat: "2s""#, r#"heartbeat: "20s""#)
                    .replace(r#"interval: "1s""#, r#"interval: "300s""#);
                let pilot = Pilot::start(&config);
                fs::write(pilot.path("well"), "").unwrap();
                consul.wait_for_status(&format!("app-{}", proxy.port()), "passing");
                proxy.set(fault);
                fs::remove_file(pilot.path("well")).unwrap();
                for asker in ["app-", "watch.db"] {
                    pilot.wait_for_record(&format!("{asker} has trouble"), |record| {
                        record.message.contains("Consul failed") && record.line.contains(asker)
                    });
                }
                // Pauses between tries have grown to their longest after this many.
                pilot.eventually("many tries have failed", || pilot.count_messages("Consul failed") >= 14);
                proxy.set(Fault::None);
                let began = Instant::now();
                pilot.wait_for_message("Consul is back");
                let took = began.elapsed();
                println!("{fault:?}: noticed after {took:?}");
                assert!(took < Duration::from_millis(2500), "{fault:?}: noticed after {took:?}");
            });
        }
    });
}

#[test]
fn a_service_that_somebody_deregistered_is_registered_at_the_next_heartbeat() {
    let consul = Consul::start();
    let pilot = Pilot::start(&config(&consul.address()));
    fs::write(pilot.path("well"), "").unwrap();
    consul.wait_for_status("app", "passing");
    let id = format!("app-{}", nix::unistd::gethostname().unwrap().to_string_lossy());
    consul.put(&format!("/v1/agent/service/deregister/{id}"), "");
    let began = Instant::now();
    // The agent itself knows at once; the catalogue, which others ask, may be a moment behind.
    consul.eventually("it is registered again", || consul.get("/v1/agent/services")[&id].is_object());
    assert!(began.elapsed() < 2 * HEARTBEAT, "back after {:?}", began.elapsed());
    assert_eq!(troubles(&pilot), 0, "that is no outage");
}

#[test]
fn a_consul_that_comes_late_learns_everything() {
    let mut consul = Consul::start();
    consul.kill();
    let pilot = Pilot::start(&config(&consul.address()));
    fs::write(pilot.path("well"), "").unwrap();
    pilot.wait_for_event("app healthy");
    pilot.eventually("the outage is told", || troubles(&pilot) == 1);
    consul.launch();
    consul.wait_for_status("app", "passing");
    pilot.wait_for_event("watch.db unhealthy");
}
