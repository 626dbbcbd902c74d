//! From the sections of version 2 to ours, in the order in which they are written.

use std::collections::HashSet;
use std::ops::Range;

use super::Remark;
use super::old::{Item, Old, given};
use super::writer::Writer;
use crate::config::document::{Kind, Node};
use crate::config::source::Span;
use crate::config::spec::CommandLine;

/// Keys of the old file that have a place in the new one.
const KEYS: [&str; 11] = [
    "consul",
    "logging",
    "stopTimeout",
    "preStart",
    "preStop",
    "postStop",
    "services",
    "tasks",
    "backends",
    "coprocesses",
    "telemetry",
];
/// Keys of durations, most of which version 2 wrote as a number of seconds.
const DURATIONS: [&str; 5] = ["stopTimeout", "poll", "ttl", "timeout", "frequency"];

/// The new file under construction.
pub(super) struct Converter<'a> {
    pub(super) old: Old<'a>,
    pub(super) main: Option<&'a CommandLine>,
    pub(super) out: Writer,
    remarks: Vec<Remark>,
    /// Names of jobs that are taken.
    names: HashSet<String>,
}

impl<'a> Converter<'a> {
    pub(super) fn new(old: Old<'a>, main: Option<&'a CommandLine>) -> Self {
        Self { old, main, out: Writer::default(), remarks: Vec::new(), names: HashSet::new() }
    }

    /// The new text, what to look at in it, and the template actions that could not be carried over.
    pub(super) fn convert(mut self, root: &Node) -> (String, Vec<Remark>, Vec<Range<usize>>) {
        let watches = self.named_backends(root);
        self.out.open("{");
        self.out.comment(
            "Made from a configuration of ContainerPilot 2 by `containerpilot migrate`. Look at each \
             DECIDE, DIFFERENT and UNKNOWN, then delete these comments. docs/moving-in.md says more.",
        );
        if self.old.has_comments() {
            self.decide(
                None,
                "the comments of the old file are not carried over; which of them do you still need?",
            );
        }
        self.consul(root);
        self.copied(root, "logging", &["level", "format", "output"]);
        self.stop_timeout(root);
        self.jobs(root, &watches);
        self.coprocesses(root);
        self.watches(&watches);
        self.telemetry(root);
        self.leftovers(root, "", &KEYS);
        self.out.close("}");
        let unhandled = self.old.unhandled();
        (self.out.finish(), self.remarks, unhandled)
    }

    /// Leaves something to the reader.
    pub(super) fn decide(&mut self, place: Option<Span>, message: &str) {
        self.out.comment(&format!("DECIDE: {message}"));
        self.remark(place, message.to_owned());
    }

    /// Tells of a difference that asks for no decision.
    pub(super) fn different(&mut self, message: &str) {
        self.out.comment(&format!("DIFFERENT: {message}"));
    }

    fn remark(&mut self, place: Option<Span>, message: String) {
        let line = place.map(|place| self.old.line(place));
        self.remarks.push(Remark { line, message });
    }

    /// A name that no other job has.
    pub(super) fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        let mut number = 2;
        while !self.names.insert(unique.clone()) {
            unique = format!("{name}-{number}");
            number += 1;
        }
        unique
    }

    /// Writes an entry of a list, within the template blocks that it was in.
    pub(super) fn object(&mut self, item: &Item<'_>, write: impl FnOnce(&mut Self)) {
        if !item.opening.is_empty() {
            self.out.line(&item.opening);
        }
        self.out.open("{");
        write(self);
        self.out.close("},");
        if !item.closing.is_empty() {
            self.out.line(&item.closing);
        }
    }

    /// Writes a section that is an object, if it was given.
    fn section(&mut self, root: &Node, key: &str, write: impl FnOnce(&mut Self, &Node)) {
        let Some(node) = given(root, key) else { return };
        if node.as_object().is_none() {
            self.old.wrong(key, node, "an object");
            return;
        }
        self.out.open(&format!("{key}: {{"));
        write(self, node);
        self.out.close("},");
    }

    /// Copies a value under a key of ours, if it was given. A number of seconds becomes a duration.
    pub(super) fn entry(&mut self, node: &Node, old: &str, new: &str) {
        let Some(value) = given(node, old) else { return };
        if let Kind::Unsigned(seconds) = value.kind
            && DURATIONS.contains(&old)
        {
            self.out.entry(new, &format!("\"{seconds}s\""));
        } else {
            self.out.entry(new, self.old.source(value));
        }
    }

    /// Copies values whose keys are ours, too.
    pub(super) fn entries(&mut self, node: &Node, keys: &[&str]) {
        for key in keys {
            self.entry(node, key, key);
        }
    }

    /// Writes a name as it was written between quotes.
    pub(super) fn name(&mut self, name: &str) {
        self.out.entry("name", &format!("\"{name}\""));
    }

    /// Writes a command; version 2 split strings at spaces.
    pub(super) fn command(&mut self, key: &str, command: &Node) {
        let is_string = matches!(command.kind, Kind::String(_));
        if !is_string && command.as_array().is_none() {
            self.old.wrong(key, command, "a command, as a string or an array of strings");
            return;
        }
        let source = self.old.source(command);
        if is_string && self.old.without_actions(command).contains(['\'', '"', '\\']) {
            self.decide(
                Some(command.span),
                "version 2 split this at each space, and quotes and backslashes meant nothing; now they do as \
                 in a shell",
            );
        }
        self.out.entry(key, source);
    }

    /// An object that has the same keys here.
    fn copied(&mut self, root: &Node, key: &str, keys: &[&str]) {
        self.section(root, key, |this, node| {
            this.entries(node, keys);
            this.leftovers(node, key, keys);
        });
    }

    fn consul(&mut self, root: &Node) {
        if given(root, "consul").is_some_and(|consul| consul.as_object().is_some()) {
            self.copied(root, "consul", &["address", "scheme", "token", "tls"]);
        } else {
            self.entry(root, "consul", "consul");
        }
    }

    fn stop_timeout(&mut self, root: &Node) {
        let hooks = ["preStop", "postStop"].iter().any(|hook| given(root, hook).is_some());
        let place = given(root, "stopTimeout").map(|node| node.span);
        if hooks {
            self.decide(
                place,
                "stopTimeout is the budget of the whole shutdown, preStop and postStop included (default 5s); in \
                 version 2 it began after preStop. Is it long enough?",
            );
        }
        self.entry(root, "stopTimeout", "stopTimeout");
    }

    fn coprocesses(&mut self, root: &Node) {
        let Some(list) = given(root, "coprocesses") else { return };
        self.out.open("coprocesses: [");
        for item in self.old.items("coprocesses", list) {
            let path = format!("coprocesses[{}]", item.index);
            let Some(command) = given(item.node, "command") else {
                self.old.wrong(&path, item.node, "an object with `command`");
                continue;
            };
            self.object(&item, |this| {
                if let Some(name) = given(item.node, "name") {
                    let name = this.old.inner(name);
                    let name = this.unique(name);
                    this.name(&name);
                }
                this.command("command", command);
                this.entry(item.node, "restarts", "restarts");
                this.leftovers(item.node, &path, &["name", "command", "restarts"]);
            });
        }
        self.out.close("],");
    }

    fn telemetry(&mut self, root: &Node) {
        self.section(root, "telemetry", |this, node| {
            this.entries(node, &["port", "interfaces", "tags"]);
            if let Some(sensors) = given(node, "sensors") {
                this.out.open("metrics: [");
                for item in this.old.items("telemetry.sensors", sensors) {
                    this.object(&item, |this| {
                        this.entries(item.node, &["namespace", "subsystem", "name", "help", "type"]);
                    });
                }
                this.out.close("],");
            }
            this.leftovers(node, "telemetry", &["port", "interfaces", "tags", "sensors"]);
        });
    }

    /// Keeps what nothing is known of, as comments.
    pub(super) fn leftovers(&mut self, node: &Node, path: &str, known: &[&str]) {
        for (key, value) in node.as_object().unwrap_or_default() {
            if known.contains(&key.name.as_str()) {
                continue;
            }
            let path = if path.is_empty() { key.name.clone() } else { format!("{path}.{}", key.name) };
            let why = match path.as_str() {
                "etcd" => "there is no support for etcd; discovery is Consul's",
                _ => "nothing here corresponds to this key",
            };
            let source = self.old.source(value);
            self.out.comment(&format!("UNKNOWN: {why}"));
            self.out.quotation(&format!("{}: {source}", key.name));
            self.remark(Some(key.span), format!("{path}: {why}; kept as a comment"));
        }
    }
}
