//! The environment that processes start with: what we inherited, what the configuration and the control
//! socket changed, and what we tell about ourselves and the other jobs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::process;

use super::variables::{Layered, Variable, Variables};
use crate::config::spec::Environment;
use crate::messages::event::EventKey;
use crate::messages::process::Pid;

/// The variables that every process gets.
#[derive(Debug, Clone, Default)]
pub struct Environ {
    /// Ours, with what the control socket set.
    inherited: Variables,
    /// Where advertised jobs are found.
    addresses: Variables,
    /// Our own process, and those of running jobs.
    told: Variables,
    /// The three above in one, kept so: a later one wins.
    common: Variables,
    /// The changes of the whole configuration.
    configured: Environment,
}

impl Environ {
    /// Starts from what we inherited.
    pub fn new(inherited: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut environ = Self {
            inherited: inherited.into_iter().collect(),
            told: [("CONTAINERPILOT_PID", process::id().to_string())].into_iter().collect(),
            ..Self::default()
        };
        environ.unite();
        environ
    }

    /// Replaces the changes of the whole configuration and where advertised jobs are found.
    pub fn configure<'a>(
        &mut self,
        changes: Environment,
        advertised: impl IntoIterator<Item = (&'a str, IpAddr)>,
    ) {
        self.configured = changes;
        self.addresses =
            advertised.into_iter().map(|(job, address)| (variable(job, "IP"), address.to_string())).collect();
        self.unite();
    }

    /// Sets variables, or unsets them where `None`, for processes started from now on.
    pub fn change(&mut self, changes: &Environment) {
        for (name, change) in changes {
            match change {
                Some(value) => self.inherited.extend([(name, value)]),
                None => self.inherited.unset(OsStr::new(name)),
            }
        }
        self.unite();
    }

    /// What templates see: names and values that are text.
    pub fn for_templates(&self) -> BTreeMap<String, String> {
        let text = |variable: &Variable| {
            Some((variable.name().to_str()?.to_owned(), variable.value().to_str()?.to_owned()))
        };
        self.inherited.iter().filter_map(text).collect()
    }

    /// Tells which process runs a job; `None` when none does.
    pub fn set_process(&mut self, job: &str, pid: Option<Pid>) {
        let name = variable(job, "PID");
        match pid.and_then(|pid| Variable::new(&name, OsStr::new(&pid.to_string()))) {
            Some(variable) => {
                self.told.set(variable.clone());
                self.common.set(variable);
            }
            None => {
                self.told.unset(&name);
                match self.addresses.find(&name).or_else(|| self.inherited.find(&name)) {
                    Some(beneath) => self.common.set(beneath.clone()),
                    None => self.common.unset(&name),
                }
            }
        }
    }

    /// The whole environment of a process that an event started, with the job's own changes last.
    pub fn build(
        &self,
        login: &[(OsString, OsString)],
        own: &Environment,
        occasion: Option<&EventKey>,
    ) -> Layered<'_> {
        let mut all = Layered::over(&self.common);
        for (name, value) in login {
            all.set(name, value);
        }
        if let Some(key) = occasion {
            all.set(OsStr::new("CONTAINERPILOT_EVENT_CODE"), OsStr::new(key.code.config_name()));
            all.set(OsStr::new("CONTAINERPILOT_EVENT_SOURCE"), OsStr::new(&key.source.to_string()));
        }
        for (name, change) in self.configured.iter().chain(own) {
            match change {
                Some(value) => all.set(OsStr::new(name), OsStr::new(value)),
                None => all.unset(OsStr::new(name)),
            }
        }
        all
    }

    fn unite(&mut self) {
        self.common = self.inherited.clone();
        for variable in self.addresses.iter().chain(self.told.iter()) {
            self.common.set(variable.clone());
        }
    }
}

/// `CONTAINERPILOT_<JOB>_<WHAT>`, with whatever a variable's name cannot hold as `_`.
fn variable(job: &str, what: &str) -> OsString {
    let name: String =
        job.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    format!("CONTAINERPILOT_{name}_{what}").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::event::{EventCode, Source};
    use std::sync::Arc;

    fn environ() -> Environ {
        Environ::new(
            [("HOME", "/root"), ("A", "inherited"), ("B", "inherited")].map(|(n, v)| (n.into(), v.into())),
        )
    }

    fn get(all: &Layered<'_>, name: &str) -> Option<String> {
        all.get(OsStr::new(name)).map(|value| value.to_string_lossy().into_owned())
    }

    #[test]
    fn a_jobs_changes_win_over_the_configurations_and_those_over_what_we_inherited() {
        let mut environ = environ();
        environ.configure(vec![("A".into(), Some("global".into())), ("B".into(), Some("global".into()))], []);
        let all = environ.build(&[], &vec![("B".into(), Some("job".into()))], None);
        assert_eq!(get(&all, "A").as_deref(), Some("global"));
        assert_eq!(get(&all, "B").as_deref(), Some("job"));
        assert_eq!(get(&all, "HOME").as_deref(), Some("/root"));
    }

    #[test]
    fn null_unsets() {
        let environ = environ();
        let all = environ.build(&[], &vec![("A".into(), None)], None);
        assert_eq!(get(&all, "A"), None);
    }

    #[test]
    fn processes_and_addresses_of_jobs_are_told_under_upper_case_names() {
        let mut environ = environ();
        environ.set_process("my-app", Pid::new(7));
        environ.configure(vec![], [("my-app", "10.0.0.1".parse().unwrap())]);
        let all = environ.build(&[], &vec![], None);
        assert_eq!(get(&all, "CONTAINERPILOT_MY_APP_PID").as_deref(), Some("7"));
        assert_eq!(get(&all, "CONTAINERPILOT_MY_APP_IP").as_deref(), Some("10.0.0.1"));
        assert_eq!(get(&all, "CONTAINERPILOT_PID"), Some(process::id().to_string()));
        environ.set_process("my-app", None);
        assert_eq!(get(&environ.build(&[], &vec![], None), "CONTAINERPILOT_MY_APP_PID"), None);
    }

    #[test]
    fn what_a_supervisor_around_us_told_is_back_when_a_job_ends() {
        let name = "CONTAINERPILOT_APP_PID";
        let mut environ = Environ::new([(name.into(), "1".into())]);
        for (pid, expected) in [(Pid::new(7), "7"), (None, "1")] {
            environ.set_process("app", pid);
            assert_eq!(get(&environ.build(&[], &vec![], None), name).as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_the_control_socket_sets_reaches_processes_and_templates() {
        let mut environ = environ();
        environ.change(&vec![("A".into(), Some("new=1".into())), ("B".into(), None)]);
        let all = environ.build(&[], &vec![], None);
        assert_eq!(get(&all, "A").as_deref(), Some("new=1"));
        assert_eq!(get(&all, "B"), None);
        assert_eq!(environ.for_templates().get("A").map(String::as_str), Some("new=1"));
    }

    #[test]
    fn a_process_is_told_the_event_that_started_it() {
        let key = EventKey { code: EventCode::Changed, source: Source::Watch(Arc::from("db")) };
        let environ = environ();
        let all = environ.build(&[], &vec![], Some(&key));
        assert_eq!(get(&all, "CONTAINERPILOT_EVENT_CODE").as_deref(), Some("changed"));
        assert_eq!(get(&all, "CONTAINERPILOT_EVENT_SOURCE").as_deref(), Some("watch.db"));
    }
}
