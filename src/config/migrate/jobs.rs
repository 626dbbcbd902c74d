//! The jobs that services, hooks, tasks, backends and sensors become.

use super::convert::Converter;
use super::old::{Item, given};
use super::writer::quoted;
use crate::config::document::Node;
use crate::config::spec::CommandLine;

/// A watched service: the entry of `backends`, and the name of its events' source.
pub(super) struct Backend<'n> {
    item: Item<'n>,
    /// As written between quotes, made unique.
    source: String,
    is_alias: bool,
}

/// Stands for a main application that nobody named: it says so and ends.
const PLACEHOLDER: &str =
    r#"["sh", "-c", "echo 'put the main application here: see DECIDE in the configuration' >&2; exit 1"]"#;

impl Converter<'_> {
    pub(super) fn jobs(&mut self, root: &Node, backends: &[Backend<'_>]) {
        let services = given(root, "services").map_or_else(Vec::new, |list| self.old.items("services", list));
        let pre_start = given(root, "preStart");
        self.out.open("jobs: [");
        if let Some(command) = pre_start {
            let name = self.unique("preStart");
            self.out.open("{");
            self.name(&name);
            self.command("exec", command);
            self.out.close("},");
        }
        // Under a condition, a service cannot carry the main application, which has none.
        let (main, others) = match services.split_first() {
            Some((first, rest)) if first.opening.is_empty() => (Some(first), rest),
            _ => (None, services.as_slice()),
        };
        let main_name = self.main_job(main, pre_start.is_some());
        for item in others {
            self.object(item, |this| {
                this.service(item);
            });
        }
        self.stop_hooks(root, &main_name);
        self.tasks(root);
        self.on_change(backends);
        self.sensors(root);
        self.out.close("],");
    }

    /// The main application, as part of the first service if there is one. Gives its name as written.
    fn main_job(&mut self, service: Option<&Item<'_>>, has_pre_start: bool) -> String {
        self.out.open("{");
        self.out.comment("The main application: the container ends when it does, with its status.");
        let name = match service {
            Some(item) => self.service(item),
            None => {
                let name = self.unique("main");
                self.name(&name);
                name
            }
        };
        match self.main {
            Some(command) => self.out.entry("exec", &words(command)),
            None => {
                self.decide(
                    service.map(|item| item.node.span),
                    "put the main application here, which stood after the flags of version 2 (ENTRYPOINT or CMD \
                     of the image)",
                );
                self.out.entry("exec", PLACEHOLDER);
            }
        }
        if has_pre_start {
            // If preStart fails, this never runs; essential as it is, it ends the container then, as version 2 did.
            self.out.entry("when", r#"{ source: "preStart", once: "exitSuccess" }"#);
        }
        self.out.entry("essential", "true");
        self.out.close("},");
        name
    }

    /// The keys of a service, within the braces of its job. Gives its name as written.
    fn service(&mut self, item: &Item<'_>) -> String {
        const KEYS: [&str; 9] =
            ["name", "port", "health", "poll", "ttl", "timeout", "interfaces", "tags", "consul"];
        let path = format!("services[{}]", item.index);
        let node = item.node;
        let name = match given(node, "name") {
            Some(name) => self.old.inner(name).to_owned(),
            None => {
                self.old.wrong(&path, node, "an object with `name`");
                String::new()
            }
        };
        let unique = self.unique(&name);
        if unique != name && given(node, "port").is_some() {
            self.decide(
                Some(node.span),
                "another job has the name of this service, so Consul knows it by the one below; version 2 registered \
                 both under one name. Which name should it have?",
            );
        }
        let name = unique;
        self.name(&name);
        self.entries(node, &["port", "interfaces", "tags"]);
        self.health(node);
        if let Some(consul) = given(node, "consul") {
            const KEYS: [&str; 2] = ["enableTagOverride", "deregisterCriticalServiceAfter"];
            self.out.open("consul: {");
            self.entries(consul, &KEYS);
            self.leftovers(consul, &format!("{path}.consul"), &KEYS);
            self.out.close("},");
        }
        self.leftovers(node, &path, &KEYS);
        name
    }

    fn health(&mut self, service: &Node) {
        let port = given(service, "port").map(|port| self.old.inner(port));
        let check = given(service, "health");
        if check.is_none() && port.is_none() {
            return;
        }
        self.out.open("health: {");
        if let Some(check) = check {
            self.command("exec", check);
        } else if let Some(port) = port {
            self.decide(
                Some(service.span),
                "version 2 took a service without a check for healthy; we need one. Is it this?",
            );
            self.out.entry("tcp", &format!("\"127.0.0.1:{port}\""));
        }
        self.entry(service, "poll", "interval");
        self.entries(service, &["ttl", "timeout"]);
        self.out.close("},");
    }

    fn stop_hooks(&mut self, root: &Node, main: &str) {
        for (hook, event, difference) in [
            (
                "preStop",
                "stopping",
                "runs also when the main application ends by itself, not only at SIGTERM",
            ),
            ("postStop", "stopped", "runs when the main application's whole process group is gone"),
        ] {
            let Some(command) = given(root, hook) else { continue };
            let name = self.unique(hook);
            self.out.open("{");
            self.different(difference);
            self.name(&name);
            self.out.entry("when", &format!("{{ source: \"{main}\", once: \"{event}\" }}"));
            self.command("exec", command);
            self.out.close("},");
        }
    }

    fn tasks(&mut self, root: &Node) {
        let Some(list) = given(root, "tasks") else { return };
        for item in self.old.items("tasks", list) {
            let path = format!("tasks[{}]", item.index);
            let (Some(command), Some(_)) = (given(item.node, "command"), given(item.node, "frequency"))
            else {
                self.old.wrong(&path, item.node, "an object with `command` and `frequency`");
                continue;
            };
            let name = given(item.node, "name").map(|name| self.old.inner(name).to_owned());
            let name = self.unique(&name.unwrap_or_else(|| format!("task-{}", item.index + 1)));
            self.object(&item, |this| {
                if given(root, "preStart").is_some() {
                    this.different("its clock starts at startup: it may run while preStart does");
                }
                this.name(&name);
                this.out.open("when: {");
                this.entry(item.node, "frequency", "interval");
                this.out.entry("startup", "false");
                this.out.close("},");
                this.command("exec", command);
                this.entry(item.node, "timeout", "timeout");
                this.leftovers(item.node, &path, &["name", "command", "frequency", "timeout"]);
            });
        }
    }

    /// The backends with a name for each; version 2 allowed one service twice.
    pub(super) fn named_backends<'n>(&mut self, root: &'n Node) -> Vec<Backend<'n>> {
        let Some(list) = given(root, "backends") else { return Vec::new() };
        let mut backends: Vec<Backend<'n>> = Vec::new();
        for item in self.old.items("backends", list) {
            let Some(name) = given(item.node, "name") else {
                self.old.wrong(&format!("backends[{}]", item.index), item.node, "an object with `name`");
                continue;
            };
            let name = self.old.inner(name);
            let is_taken = |name: &str| backends.iter().any(|backend| backend.source == name);
            let numbered = (2..).map(|number| format!("{name}-{number}"));
            let mut names = std::iter::once(name.to_owned()).chain(numbered);
            let source = names.find(|name| !is_taken(name)).unwrap_or_default();
            backends.push(Backend { item, is_alias: source != name, source });
        }
        backends
    }

    fn on_change(&mut self, backends: &[Backend<'_>]) {
        for Backend { item, source, .. } in backends {
            let Some(command) = given(item.node, "onChange") else { continue };
            let name = self.unique(&format!("onChange-{source}"));
            self.object(item, |this| {
                this.name(&name);
                this.out.entry("when", &format!("{{ source: \"watch.{source}\", each: \"changed\" }}"));
                this.command("exec", command);
                this.entry(item.node, "timeout", "timeout");
            });
        }
    }

    pub(super) fn watches(&mut self, backends: &[Backend<'_>]) {
        if backends.is_empty() {
            return;
        }
        self.out.open("watches: [");
        for Backend { item, source, is_alias } in backends {
            self.object(item, |this| {
                this.entry(item.node, "name", "name");
                if *is_alias {
                    this.out.entry("as", &format!("\"{source}\""));
                }
                this.entry(item.node, "poll", "interval");
                this.entry(item.node, "tag", "tag");
                let path = format!("backends[{}]", item.index);
                this.leftovers(item.node, &path, &["name", "poll", "onChange", "tag", "timeout"]);
            });
        }
        self.out.close("],");
    }

    fn sensors(&mut self, root: &Node) {
        let Some(list) = given(root, "telemetry").and_then(|telemetry| given(telemetry, "sensors")) else {
            return;
        };
        for item in self.old.items("telemetry.sensors", list) {
            let path = format!("telemetry.sensors[{}]", item.index);
            let (Some(check), Some(_)) = (given(item.node, "check"), given(item.node, "name")) else {
                self.old.wrong(&path, item.node, "an object with `name` and `check`");
                continue;
            };
            let parts =
                ["namespace", "subsystem", "name"].into_iter().filter_map(|key| given(item.node, key));
            let metric = parts.map(|part| self.old.inner(part)).collect::<Vec<_>>().join("_");
            let name = self.unique(&format!("sensor-{metric}"));
            self.object(&item, |this| {
                this.different(
                    "a metric is set through the control socket: the shell records what the check prints. It needs \
                     `sh` and `containerpilot` in the PATH",
                );
                this.name(&name);
                this.out.open("when: {");
                this.entry(item.node, "poll", "interval");
                this.out.close("},");
                let script = format!(r#"'value=$("$@") && containerpilot -putmetric "{metric}=$value"'"#);
                let words = this.old.words(check).join(", ");
                this.out.entry("exec", &format!(r#"["sh", "-c", {script}, "sensor", {words}]"#));
                this.entry(item.node, "timeout", "timeout");
                const KEYS: [&str; 8] =
                    ["namespace", "subsystem", "name", "help", "type", "poll", "check", "timeout"];
                this.leftovers(item.node, &path, &KEYS);
            });
        }
    }
}

fn words(command: &CommandLine) -> String {
    let words = std::iter::once(&command.program).chain(&command.args);
    format!("[{}]", words.map(|word| quoted(word)).collect::<Vec<_>>().join(", "))
}
