//! Signals that users name: those that stop a job, and those that shut the program down.

use super::context::{Context, items};
use super::jobs::{entries, label};
use crate::config::diagnostic::Problem;
use crate::config::merge::Named;
use crate::config::raw::{Field, OneOrMany, Opt, RawConfig, Scalar};
use crate::messages::signal::Signal;

/// Signals that pause a process, wake it, or tell it of its children: none is a request to end. Servers
/// do take others that do nothing by default, such as SIGWINCH, for one.
const NEVER_END: [i32; 6] =
    [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU, libc::SIGCONT, libc::SIGCHLD];

/// The signal that asks a job to stop.
pub(super) fn stop(context: &mut Context<'_>, field: &Field<Scalar>) -> Option<Signal> {
    let signal = named(context, ".stopSignal", field)?;
    if NEVER_END.contains(&signal.number()) {
        let message = format!(".stopSignal: {signal} ends no process");
        let help = "signals that end one are SIGTERM, SIGINT, SIGQUIT, SIGHUP and SIGKILL";
        context.add(Problem::error("bad-signal", field.span, message).help(help));
    }
    Some(signal)
}

/// The signals that begin a shutdown beside the usual ones, each once.
pub(super) fn shutdown(context: &mut Context<'_>, config: &RawConfig) -> Vec<Signal> {
    let signals = listed(context, "shutdownSignals", &config.shutdown_signals, |signal| {
        let message = format!("{signal} cannot shut down: {}", taken(signal)?);
        Some((message, "SIGTERM, SIGINT, SIGQUIT and SIGRTMIN+3 shut down already"))
    });
    refuse_forwarded(context, config, &signals);
    signals
}

/// The signals of a list, each once. `refused` gives the message and the help for one that cannot be in it.
fn listed(
    context: &mut Context<'_>,
    name: &str,
    field: &Opt<OneOrMany<Scalar>>,
    refused: impl Fn(Signal) -> Option<(String, &'static str)>,
) -> Vec<Signal> {
    let mut signals = Vec::new();
    for field in items(field) {
        let path = format!("{name}[{}]", field.index);
        let Some(signal) = named(context, &path, field) else { continue };
        if let Some((message, help)) = refused(signal) {
            let problem = Problem::error("bad-signal", field.span, format!("{path}: {message}"));
            context.add(problem.help(help));
        } else if !signals.contains(&signal) {
            signals.push(signal);
        }
    }
    signals
}

/// A signal that shuts down cannot be for a job alone.
fn refuse_forwarded(context: &mut Context<'_>, config: &RawConfig, shutdown: &[Signal]) {
    for (field, job) in entries(&config.jobs) {
        for forwarded in items(&job.forward) {
            let signal = forwarded.value.as_ref().and_then(|name| Signal::parse(&name.0));
            if let Some(signal) = signal.filter(|signal| shutdown.contains(signal)) {
                let label = label("jobs", field.index, job.identity().as_deref());
                let message = format!(
                    "{label}.forward[{}]: {signal} shuts down, by `shutdownSignals`: remove it from one of them",
                    forwarded.index
                );
                context.error("bad-signal", forwarded.span, message);
            }
        }
    }
}

/// The signals that are passed on to a job, each once.
pub(super) fn forward(context: &mut Context<'_>, field: &Opt<OneOrMany<Scalar>>) -> Vec<Signal> {
    listed(context, ".forward", field, |signal| {
        let message = format!("{signal} cannot be forwarded: {}", kept(signal)?);
        Some((message, "`containerpilot signal JOB SIGNAL` sends a job any signal"))
    })
}

/// Every signal that can be passed on.
pub(in crate::config) fn forwardable() -> Vec<Signal> {
    Signal::all().filter(|signal| kept(*signal).is_none()).collect()
}

fn named(context: &mut Context<'_>, path: &str, field: &Field<Scalar>) -> Option<Signal> {
    let name = &field.value.as_ref()?.0;
    let wrong = || format!("{path}: expected a signal such as \"SIGTERM\", found {name:?}");
    context.accept("bad-signal", field.span, Signal::parse(name).ok_or_else(wrong))
}

/// Why a signal cannot be passed on to a job, if it cannot.
fn kept(signal: Signal) -> Option<&'static str> {
    match signal.number() {
        libc::SIGTERM | libc::SIGINT => Some("it shuts down, and every job gets its `stopSignal`"),
        libc::SIGTTIN | libc::SIGTTOU => Some("it tells a program that it is in the background"),
        libc::SIGKILL | libc::SIGSTOP | libc::SIGCHLD | libc::SIGPIPE | 32 | 33 => taken(signal),
        libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP | libc::SIGSYS => {
            taken(signal)
        }
        _ => None,
    }
}

/// Why a signal cannot begin a shutdown, if it cannot.
fn taken(signal: Signal) -> Option<&'static str> {
    match signal.number() {
        libc::SIGKILL | libc::SIGSTOP => Some("the kernel hands it to no process"),
        libc::SIGCHLD => Some("it tells of the end of a process"),
        libc::SIGHUP => Some("it reloads the configuration, or starts the jobs that wait for it"),
        libc::SIGUSR1 => Some("it reopens the log"),
        libc::SIGUSR2 => Some("it starts the jobs that wait for it"),
        libc::SIGPIPE => Some("the kernel sends it whenever a reader goes away"),
        libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP | libc::SIGSYS => {
            Some("it tells of a fault of the program itself")
        }
        32 | 33 => Some("it belongs to the C library"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_can_be_passed_on_but_those_that_stop_us_or_mean_something_else() {
        let forwardable = forwardable();
        let kept = Signal::all().filter(|signal| !forwardable.contains(signal));
        let kept: Vec<String> = kept.map(|signal| signal.to_string()).collect();
        let expected = [
            "SIGINT", "SIGILL", "SIGTRAP", "SIGBUS", "SIGFPE", "SIGKILL", "SIGSEGV", "SIGPIPE", "SIGTERM",
            "SIGCHLD", "SIGSTOP", "SIGTTIN", "SIGTTOU", "SIGSYS", "32", "33",
        ];
        assert_eq!(kept, expected);
    }
}
