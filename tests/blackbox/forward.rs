//! Signals to the program that are passed on to jobs.

use std::fs;

use nix::sys::signal::Signal;

use crate::readiness::{APP, perl};
use crate::support::{Exit, Pilot, Setup};

/// Says which signals it gets. In its group is a child that says so, too.
const LISTENER: &str = concat!(
    r#"["bash", "-c", "for signal in HUP QUIT USR1 USR2 WINCH TSTP; do trap \"echo got $signal\" $signal; done; "#,
    r#"(for signal in HUP QUIT USR1 USR2 WINCH; do trap \"echo child got $signal\" $signal; done; "#,
    r#"echo child ready; while :; do sleep 0.02; done) & echo ready; while :; do sleep 0.02; done"]"#
);

fn listening(pilot: &Pilot, job: &str) {
    pilot.wait_for_line(job, "ready");
    pilot.wait_for_line(job, "child ready");
}

#[test]
fn a_forwarded_signal_reaches_the_main_process_alone_and_does_nothing_else() {
    let pilot = Pilot::start(&format!(
        r#"{{ jobs: [
            {{ name: "app", exec: {LISTENER}, forward: ["SIGHUP", "QUIT", "sigusr1", 28], restarts: "unlimited" }},
            {{ name: "other", exec: {LISTENER}, forward: "SIGUSR2" }},
        ] }}"#
    ));
    listening(&pilot, "app");
    listening(&pilot, "other");
    for (signal, name) in [
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGQUIT, "QUIT"),
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGWINCH, "WINCH"),
    ] {
        pilot.signal(signal);
        pilot.wait_for_line("app", &format!("got {name}"));
    }
    pilot.signal(Signal::SIGUSR2);
    pilot.wait_for_line("other", "got USR2");
    assert_eq!(pilot.stop(), Exit::Code(0));
    for job in ["app", "other"] {
        let lines = pilot.lines_of(job);
        assert!(!lines.iter().any(|line| line.starts_with("child got")), "{lines:?}");
    }
    assert_eq!(pilot.lines_of("other").len(), 3, "only its own: {:?}", pilot.lines_of("other"));
    assert!(!pilot.log().text().contains("reload"), "SIGHUP did not reload");
}

#[test]
fn a_forwarded_signal_reaches_the_main_process_that_the_job_has_named() {
    let script = r#"
        my $first = $$;
        $SIG{CHLD} = "IGNORE";
        $SIG{USR1} = sub { print $$ == $first ? "the first got it\n" : "the other got it\n" };
        $SIG{USR2} = sub { print "the other ends\n"; exit };
        my $main = fork();
        tell_all("MAINPID=$main\nREADY=1") if $main;
        while (1) { select(undef, undef, undef, 0.02); }
    "#;
    let config =
        format!(r#"{{ jobs: [{{ {APP}, ready: {{ notify: true }}, forward: ["SIGUSR1", "SIGUSR2"] }}] }}"#);
    let pilot = perl(script).config(&config).start();
    pilot.wait_for_event("app ready");
    pilot.signal(Signal::SIGUSR1);
    pilot.wait_for_line("app", "the other got it");
    pilot.signal(Signal::SIGUSR2);
    pilot.wait_for_line("app", "the other ends");
    let first_got_it = || pilot.lines_of("app").contains(&"the first got it".to_owned());
    assert!(!first_got_it());
    pilot.eventually("the first gets it once the other is gone", || {
        pilot.signal(Signal::SIGUSR1);
        first_got_it()
    });
}

#[test]
fn a_forwarded_signal_still_starts_the_jobs_that_wait_for_it() {
    let pilot = Pilot::start(&format!(
        r#"{{ jobs: [
            {{ name: "app", exec: {LISTENER}, forward: ["SIGHUP"] }},
            {{ name: "hook", exec: "echo hook", when: {{ source: "SIGHUP" }} }},
        ] }}"#
    ));
    listening(&pilot, "app");
    pilot.signal(Signal::SIGHUP);
    pilot.wait_for_line("app", "got HUP");
    pilot.wait_for_event("hook exitSuccess");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_command_without_configuration_gets_every_signal_but_those_that_stop_it() {
    let script = r#"for signal in HUP QUIT USR1 USR2 WINCH ALRM TSTP CONT RTMIN+5; do trap "echo got $signal" $signal; done
        trap "echo got TERM; exit 9" TERM; echo ready; while :; do sleep 0.02; done"#;
    // The default log is no JSON: its text is looked at.
    let pilot = Setup::new().arguments(&["--", "bash", "-c", script]).start();
    let wait = |text: &str| pilot.eventually(text, || pilot.log().text().contains(text));
    wait(" ready");
    for (signal, name) in [
        (libc::SIGHUP, "HUP"),
        (libc::SIGQUIT, "QUIT"),
        (libc::SIGUSR1, "USR1"),
        (libc::SIGUSR2, "USR2"),
        (libc::SIGWINCH, "WINCH"),
        (libc::SIGALRM, "ALRM"),
        (libc::SIGTSTP, "TSTP"),
        (libc::SIGCONT, "CONT"),
        (39, "RTMIN+5"),
    ] {
        pilot.signal_number(signal);
        wait(&format!(" got {name}"));
    }
    assert!(!pilot.log().text().contains("WARN"), "{}", pilot.log().text());
    assert_eq!(pilot.stop(), Exit::Code(0), "a shutdown by signal");
    assert!(pilot.log().text().contains(" got TERM"), "{}", pilot.log().text());
}

#[test]
fn a_signal_that_ends_the_command_gives_the_exit_status() {
    let pilot = Setup::new().arguments(&["--", "sh", "-c", "echo ready; exec sleep 1000"]).start();
    pilot.eventually("it runs", || pilot.log().text().contains(" ready"));
    // The shell has become `sleep`, or is about to: either is ended by it.
    pilot.signal(Signal::SIGUSR2);
    assert_eq!(pilot.wait_exit(), Exit::Code(128 + libc::SIGUSR2));
}

#[test]
fn beside_a_configuration_nothing_is_forwarded_to_the_command() {
    let setup = Setup::new().config("{}").arguments(&["--", "sleep", "1000"]);
    let pilot = setup.start();
    pilot.wait_for_message("started");
    pilot.signal(Signal::SIGUSR2);
    pilot.wait_for_event("SIGUSR2 signal");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_reload_begins_to_forward_a_signal_that_was_not_handled_before() {
    let pilot = Pilot::start(&format!(r#"{{ jobs: [{{ name: "app", exec: {LISTENER} }}] }}"#));
    listening(&pilot, "app");
    let config = fs::read_to_string(pilot.path("containerpilot.json5")).unwrap();
    let changed = config.replace(r#"name: "app","#, r#"name: "app", forward: ["SIGTSTP"],"#);
    fs::write(pilot.path("containerpilot.json5"), changed).unwrap();
    pilot.tell(&["-reload"]);
    pilot.wait_for_event("app stopped");
    pilot.eventually("it runs again", || {
        pilot.lines_of("app").iter().filter(|line| *line == "ready").count() == 2
    });
    pilot.signal(Signal::SIGTSTP);
    pilot.wait_for_line("app", "got TSTP");
    assert_eq!(pilot.stop(), Exit::Code(0));
}
