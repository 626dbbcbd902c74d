//! Rules that hold also when nobody tells what a reload has changed.

/// The rules that do not depend on the configuration.
pub(super) const ALWAYS: [&str; 13] = [
    "never two executions of a job",
    "never two executions of a check",
    "`stopped` is never told while a process lives",
    "all subscribers see one order",
    "events are delivered in the order of their numbers",
    "an end is told once and after it",
    "no exit status is lost",
    "no line is lost",
    "lines are logged once and in order",
    "zombies are reaped at once",
    "a stopped process that is asked to end is continued",
    "no process survives the program",
    "every client gets a reply",
];
