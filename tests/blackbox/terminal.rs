//! A job at our terminal, seen through a pseudo-terminal: job control, Ctrl-C, resize.

use crate::support::container::Container;
use crate::support::needs::has_programs;
use crate::support::terminal::Terminal;
use crate::support::{Exit, Pilot, Setup, state};

const CTRL_C: &str = "\u{3}";
const CTRL_Z: &str = "\u{1a}";

/// An interactive shell that reads no files of its user.
const SHELL: &str = r#"{ name: "shell", exec: ["bash", "--norc", "--noprofile", "-i"], tty: true, essential: true,
    stopSignal: "SIGHUP", env: { PS1: "$ ", HISTFILE: "", TERM: "dumb" } }"#;

fn at(terminal: &Terminal, config: &str) -> Pilot {
    Setup::new().config(config).at_terminal(terminal).start()
}

fn shell(terminal: &Terminal) -> Pilot {
    let pilot = at(terminal, &format!("{{ jobs: [{SHELL}] }}"));
    terminal.wait_for("$ ");
    pilot
}

#[test]
fn a_shell_at_the_terminal_has_job_control() {
    let terminal = Terminal::new();
    let pilot = shell(&terminal);
    terminal.line("sleep 1000; echo status $?");
    // A process that is called so has been put into the foreground before.
    pilot.eventually("sleep runs", || state_of_sleep(&pilot) == Some('S'));
    terminal.enter(CTRL_Z);
    terminal.wait_for("Stopped");
    terminal.line("fg >/dev/null; echo over $?");
    pilot.eventually("sleep goes on", || state_of_sleep(&pilot) == Some('S'));
    terminal.enter(CTRL_C);
    pilot.eventually("sleep is over", || state_of_sleep(&pilot).is_none());
    terminal.line("echo one$((1 + 1))");
    terminal.wait_for("one2");
    assert!(!terminal.screen().contains("no job control"), "{}", terminal.screen());
    terminal.line("exit 7");
    assert_eq!(pilot.wait_exit(), Exit::Code(7));
}

#[test]
fn ctrl_c_goes_to_the_job_and_not_to_us() {
    let terminal = Terminal::new();
    let script = "trap 'echo interrupted' INT; echo ready; while :; do sleep 0.02; done";
    let pilot = at(
        &terminal,
        &format!(r#"{{ jobs: [{{ name: "app", exec: ["sh", "-c", "{script}"], tty: true }}] }}"#),
    );
    terminal.wait_for("ready");
    for round in 1..=3 {
        terminal.enter(CTRL_C);
        terminal.wait_for_times("interrupted", round);
    }
    assert_eq!(pilot.count("global shutdown"), 0);
    assert_eq!(pilot.lines_of("app"), Vec::<String>::new(), "what it prints is not logged");
    let logs = pilot.client(&["logs", "app"]);
    assert!(String::from_utf8_lossy(&logs.stderr).contains("not kept: it goes to the terminal"), "{logs:?}");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_new_size_of_the_window_reaches_the_job() {
    let terminal = Terminal::new();
    terminal.resize(24, 80);
    let pilot = shell(&terminal);
    terminal.line("stty size");
    terminal.wait_for("24 80");
    terminal.line("trap 'echo winch; stty size' WINCH; echo trap$((1 + 1))");
    terminal.wait_for("trap2");
    terminal.resize(40, 100);
    // Rows and columns are set one after the other.
    terminal.line("");
    terminal.wait_for("winch\n40 ");
    terminal.line("stty size");
    terminal.wait_for("40 100");
    terminal.line("exit");
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
}

#[test]
fn a_restarted_job_gets_the_terminal_again_with_the_modes_that_it_had() {
    let terminal = Terminal::new();
    let script = "echo ready $$; read line; echo read $line; stty raw -echo; exit 1";
    let pilot = at(
        &terminal,
        &format!(
            r#"{{ jobs: [{{ name: "app", exec: ["sh", "-c", "{script}"], tty: true, restarts: 2 }}] }}"#
        ),
    );
    for round in 1..=3 {
        terminal.wait_for_times("ready", round);
        assert!(terminal.set(&["-a"]).contains(" icanon"), "a line can be edited");
        terminal.line("something");
        terminal.wait_for_times("read something", round);
    }
    assert_eq!(pilot.wait_exit(), Exit::Code(1));
    assert!(terminal.set(&["-a"]).contains(" icanon"), "and so it is after the last run");
}

#[test]
fn when_the_job_has_ended_ctrl_c_is_for_us() {
    let terminal = Terminal::new();
    let pilot = at(
        &terminal,
        r#"{ jobs: [{ name: "task", exec: "true", tty: true }, { name: "app", exec: "sleep 1000" }] }"#,
    );
    pilot.wait_for_event("task stopped");
    terminal.enter(CTRL_C);
    pilot.wait_for_message("SIGINT received");
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
}

#[test]
fn a_program_that_cannot_be_started_gives_the_terminal_back() {
    let terminal = Terminal::new();
    let pilot = at(
        &terminal,
        r#"{ jobs: [{ name: "none", exec: "/no/such/program", tty: true }, { name: "app", exec: "sleep 1000" }] }"#,
    );
    pilot.wait_for_event("none stopped");
    terminal.enter(CTRL_C);
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
}

#[test]
fn ctrl_z_does_not_stop_a_job_for_ever_that_is_no_shell() {
    let terminal = Terminal::new();
    let script = "echo ready; read line; echo read $line";
    let pilot = at(
        &terminal,
        &format!(r#"{{ jobs: [{{ name: "app", exec: ["sh", "-c", "{script}"], tty: true }}] }}"#),
    );
    terminal.wait_for("ready");
    terminal.enter(CTRL_Z);
    pilot.wait_for_message("was stopped by Ctrl-Z and goes on");
    terminal.line("on");
    terminal.wait_for("read on");
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
}

#[test]
fn a_reload_hands_the_terminal_to_another_job() {
    let terminal = Terminal::new();
    let config = r#"{ jobs: [
        { name: "old", exec: ["sh", "-c", "trap 'sleep 0.3; exit 0' TERM; echo old ready; while :; do sleep 0.02; done"], tty: true },
        { name: "app", exec: "sleep 1000" },
    ] }"#;
    let pilot = at(&terminal, config);
    terminal.wait_for("old ready");
    let text = pilot.text("containerpilot.json5");
    let start = text.find("{ name: \"old\"").unwrap();
    let end = text.find("{ name: \"app\"").unwrap();
    let job = r#"{ name: "new", exec: ["sh", "-c", "echo new ready; read line; echo read $line; exec sleep 1000"], tty: true },"#;
    std::fs::write(pilot.path("containerpilot.json5"), format!("{}{job}{}", &text[..start], &text[end..]))
        .unwrap();
    pilot.tell(&["-reload"]);
    terminal.wait_for("new ready");
    pilot.wait_for_event("old stopped");
    terminal.line("hello");
    terminal.wait_for("read hello");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn without_a_terminal_there_is_a_warning_and_the_output_is_logged() {
    let (exit, pilot) = Pilot::run(r#"{ jobs: [{ name: "app", exec: "echo here", tty: true }] }"#);
    assert_eq!(exit, Exit::Code(0));
    let warning = pilot.wait_for_message("has no terminal");
    assert_eq!((&*warning.level, &*warning.job), ("warning", "app"));
    assert_eq!(pilot.lines_of("app"), ["here"]);
}

#[test]
fn below_a_shell_with_job_control_the_program_takes_and_returns_the_terminal() {
    let terminal = Terminal::new();
    let pilot = Setup::new()
        .config(&format!("{{ jobs: [{SHELL}] }}"))
        .below_shell(&terminal, r#""$@"; status=$?; read line; test "$line" = back && exit $((status + 1))"#)
        .start();
    terminal.wait_for("$ ");
    terminal.line("echo inner$((1 + 1))");
    terminal.wait_for("inner2");
    terminal.line("exit 3");
    terminal.line("back");
    assert_eq!(pilot.wait_exit(), Exit::Code(4), "the outer shell could read again");
}

/// The state of the process `sleep` of a run, as one letter.
fn state_of_sleep(pilot: &Pilot) -> Option<char> {
    let is_sleep =
        |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
    state(pilot.processes().into_iter().find(is_sleep)?)
}

#[test]
fn docker_run_with_a_shell_as_job_behaves_like_a_shell() {
    if !has_programs(&["docker"]) {
        return;
    }
    let terminal = Terminal::new();
    terminal.resize(30, 90);
    let config = r#"{ logging: { output: "{dir}/log" }, jobs: [
        { name: "shell", exec: ["bash", "--norc", "--noprofile", "-i"], tty: true, essential: true } ] }"#;
    let adjust = |setup: Setup| setup.config(config).wholly_on_terminal(&terminal);
    let Some(container) = Container::start_with(&["--interactive", "--tty"], adjust) else { return };
    container.wait_for_file(crate::support::container::SOCKET);
    // Docker sets the size a moment after the start.
    terminal.line("until [ \"$(stty size)\" = '30 90' ]; do sleep 0.01; done; echo > sized");
    container.wait_for_lines("sized", 1);
    terminal.line("sleep 1000; echo $? > stopped");
    container.eventually("sleep runs", || state_of_sleep(&container) == Some('S'));
    terminal.enter(CTRL_Z);
    container.wait_for_lines("stopped", 1);
    terminal.line("jobs > jobs; fg; echo $? > interrupted");
    container.wait_for_lines("jobs", 1);
    assert!(container.text("jobs").contains("Stopped"), "{}", container.text("jobs"));
    container.eventually("sleep goes on", || state_of_sleep(&container) == Some('S'));
    terminal.enter(CTRL_C);
    terminal.line("echo on > on; exit 6");
    container.wait_for_lines("on", 1);
    assert_eq!(container.wait_exit(), Exit::Code(6));
}
