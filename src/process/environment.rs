//! The environment that processes start with: what we inherited, what the configuration and the control
//! socket changed, and what we tell about ourselves and the other jobs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::process;

use crate::config::spec::Environment;
use crate::messages::event::EventKey;
use crate::messages::process::Pid;

/// The variables that every process gets.
#[derive(Debug, Clone, Default)]
pub struct Environ {
    /// Ours, with what the control socket set.
    inherited: BTreeMap<OsString, OsString>,
    /// The changes of the whole configuration.
    configured: Environment,
    /// Where advertised jobs are found.
    addresses: BTreeMap<OsString, OsString>,
    /// Our own process, and those of running jobs.
    told: BTreeMap<OsString, OsString>,
}

impl Environ {
    /// Starts from what we inherited.
    pub fn new(inherited: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut told = BTreeMap::new();
        told.insert(OsString::from("CONTAINERPILOT_PID"), OsString::from(process::id().to_string()));
        Self {
            inherited: inherited.into_iter().collect(),
            configured: Environment::new(),
            addresses: BTreeMap::new(),
            told,
        }
    }

    /// Replaces the changes of the whole configuration and where advertised jobs are found.
    pub fn configure<'a>(
        &mut self,
        changes: Environment,
        advertised: impl IntoIterator<Item = (&'a str, IpAddr)>,
    ) {
        self.configured = changes;
        self.addresses = advertised
            .into_iter()
            .map(|(job, address)| (variable(job, "IP"), address.to_string().into()))
            .collect();
    }

    /// Sets variables, or unsets them where `None`, for processes started from now on.
    pub fn change(&mut self, changes: Environment) {
        for (name, change) in changes {
            match change {
                Some(value) => self.inherited.insert(name.into(), value.into()),
                None => self.inherited.remove(OsStr::new(&name)),
            };
        }
    }

    /// What templates see: names and values that are text.
    pub fn for_templates(&self) -> BTreeMap<String, String> {
        let text = |(name, value): (&OsString, &OsString)| {
            Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
        };
        self.inherited.iter().filter_map(text).collect()
    }

    /// Tells which process runs a job; `None` when none does.
    pub fn set_process(&mut self, job: &str, pid: Option<Pid>) {
        match pid {
            Some(pid) => self.told.insert(variable(job, "PID"), pid.to_string().into()),
            None => self.told.remove(&variable(job, "PID")),
        };
    }

    /// The whole environment of a process that an event started, with the job's own changes last.
    pub fn build(
        &self,
        login: &[(OsString, OsString)],
        own: &Environment,
        occasion: Option<&EventKey>,
    ) -> Vec<(OsString, OsString)> {
        let mut all: BTreeMap<&OsStr, OsString> = BTreeMap::new();
        for (name, value) in self
            .inherited
            .iter()
            .chain(&self.addresses)
            .chain(&self.told)
            .chain(login.iter().map(|(n, v)| (n, v)))
        {
            all.insert(name, value.clone());
        }
        if let Some(key) = occasion {
            all.insert(OsStr::new("CONTAINERPILOT_EVENT_CODE"), key.code.config_name().into());
            all.insert(OsStr::new("CONTAINERPILOT_EVENT_SOURCE"), key.source.to_string().into());
        }
        for (name, change) in self.configured.iter().chain(own) {
            match change {
                Some(value) => all.insert(OsStr::new(name), value.into()),
                None => all.remove(OsStr::new(name)),
            };
        }
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
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

    fn get(all: &[(OsString, OsString)], name: &str) -> Option<String> {
        all.iter().find(|(n, _)| n == name).map(|(_, v)| v.to_string_lossy().into_owned())
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
        let all = environ().build(&[], &vec![("A".into(), None)], None);
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
    fn what_the_control_socket_sets_reaches_processes_and_templates() {
        let mut environ = environ();
        environ.change(vec![("A".into(), Some("new=1".into())), ("B".into(), None)]);
        let all = environ.build(&[], &vec![], None);
        assert_eq!(get(&all, "A").as_deref(), Some("new=1"));
        assert_eq!(get(&all, "B"), None);
        assert_eq!(environ.for_templates().get("A").map(String::as_str), Some("new=1"));
    }

    #[test]
    fn a_process_is_told_the_event_that_started_it() {
        let key = EventKey { code: EventCode::Changed, source: Source::Watch(Arc::from("db")) };
        let all = environ().build(&[], &vec![], Some(&key));
        assert_eq!(get(&all, "CONTAINERPILOT_EVENT_CODE").as_deref(), Some("changed"));
        assert_eq!(get(&all, "CONTAINERPILOT_EVENT_SOURCE").as_deref(), Some("watch.db"));
    }
}
