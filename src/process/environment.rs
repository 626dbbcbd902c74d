//! The environment that processes start with: what we inherited, what the configuration and the control
//! socket changed, and what we tell about ourselves and the other jobs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::process;

use super::variables::{EnvironmentBlock, Layered, Variable, Variables};
use crate::config::exec_limits;
use crate::config::pid_variable::pid_variable;
use crate::config::spec::{Environment, VariableFile};
use crate::messages::event::EventKey;

/// The variable that tells a process which job it belongs to; orphans are known by it.
pub(super) const JOB: &str = "CONTAINERPILOT_JOB";
/// The variable that tells a process which supervisor it belongs to.
pub(super) const SUPERVISOR: &str = "CONTAINERPILOT_PID";
/// What a job that runs as another user is told of that user.
const LOGIN: [&str; 3] = ["HOME", "USER", "LOGNAME"];
/// The token is for our own requests. A job that needs it sets it in its `env`.
const OUR_SECRET: &str = "CONSUL_HTTP_TOKEN";

/// What decides the environment of one process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// The job that it executes; `None` for a health check.
    pub job: Option<&'a str>,
    /// Whether it runs as another user than we do.
    pub another_user: bool,
    /// The job's own changes.
    pub own: &'a [(String, Option<String>)],
    /// The event that started it.
    pub occasion: Option<&'a EventKey>,
    /// Variables about the descriptors that it gets.
    pub told: &'a [(String, Option<String>)],
}

/// The variables that every process gets.
#[derive(Debug, Clone, Default)]
pub struct Environ {
    /// Ours, with what the control socket set.
    inherited: Variables,
    /// Where advertised jobs are found.
    addresses: Variables,
    /// Our own process.
    told: Variables,
    /// The three above in one, kept so: a later one wins.
    common: Variables,
    /// The changes of the whole configuration.
    configured: Environment,
    /// The variables whose values come from files.
    variable_files: Vec<VariableFile>,
}

impl Environ {
    /// Starts from what we inherited.
    pub fn new(inherited: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut environ = Self {
            inherited: inherited.into_iter().collect(),
            told: [(SUPERVISOR, process::id().to_string())].into_iter().collect(),
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
            advertised.into_iter().map(|(job, address)| (address_name(job), address.to_string())).collect();
        self.unite();
    }

    /// Replaces the variables from files that all processes get.
    pub fn configure_files(&mut self, files: Vec<VariableFile>) {
        self.variable_files = files;
    }

    /// The variables from files that all processes get.
    pub fn variable_files(&self) -> &[VariableFile] {
        &self.variable_files
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

    /// What execve(2) counts of the variables that every process gets.
    pub fn cost(&self) -> usize {
        let common = self.common.iter().map(|variable| exec_limits::cost(variable.text().count_bytes() + 1));
        common.sum::<usize>() + exec_limits::cost_of_changes(&self.configured)
    }

    /// What templates see: names and values that are text.
    pub fn for_templates(&self) -> BTreeMap<String, String> {
        let text = |variable: &Variable| {
            Some((variable.name().to_str()?.to_owned(), variable.value().to_str()?.to_owned()))
        };
        self.inherited.iter().filter_map(text).collect()
    }

    /// The whole environment of a process that an event started, with the job's own changes last.
    pub fn build(&self, request: &Request<'_>) -> EnvironmentBlock {
        let mut all = Layered::over(&self.common);
        let changes = || self.configured.iter().chain(request.own);
        let is_free = |name: &&str| !changes().any(|(changed, _)| changed == name);
        let login: Vec<&'static str> =
            LOGIN.into_iter().filter(|name| request.another_user && is_free(name)).collect();
        for name in &login {
            all.unset(OsStr::new(name));
        }
        match request.job {
            Some(job) => all.set(OsStr::new(JOB), OsStr::new(job)),
            None => all.unset(OsStr::new(JOB)),
        }
        if let Some(key) = request.occasion {
            all.set(OsStr::new("CONTAINERPILOT_EVENT_CODE"), OsStr::new(key.code.config_name()));
            all.set(OsStr::new("CONTAINERPILOT_EVENT_SOURCE"), OsStr::new(&key.source.to_string()));
        }
        for (name, change) in request.told.iter().chain(changes()) {
            match change {
                Some(value) => all.set(OsStr::new(name), OsStr::new(value)),
                None => all.unset(OsStr::new(name)),
            }
        }
        let decided = changes().map(|(name, _)| name).filter(|name| name.ends_with("_PID")).map(Into::into);
        EnvironmentBlock::new(&all, login, decided.collect())
    }

    fn unite(&mut self) {
        self.common = self.inherited.clone();
        self.common.unset(OsStr::new(OUR_SECRET));
        for variable in self.addresses.iter().chain(self.told.iter()) {
            self.common.set(variable.clone());
        }
    }
}

/// `CONTAINERPILOT_<JOB>_IP`. An advertised name has nothing but letters, digits and `-`.
fn address_name(job: &str) -> OsString {
    let name = job.to_ascii_uppercase().replace('-', "_");
    format!("CONTAINERPILOT_{name}_IP").into()
}

/// `CONTAINERPILOT_<JOB>_PID`.
pub(super) fn process_name(job: &str) -> OsString {
    pid_variable(job).into()
}

#[cfg(test)]
mod tests {
    use super::super::running::RunningJobs;
    use super::*;
    use crate::messages::event::{EventCode, Source};
    use crate::messages::process::Pid;
    use std::sync::Arc;

    fn environ() -> Environ {
        Environ::new(
            [("HOME", "/root"), ("A", "inherited"), ("B", "inherited")].map(|(n, v)| (n.into(), v.into())),
        )
    }

    fn get(all: &EnvironmentBlock, name: &str) -> Option<String> {
        all.get(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn with(own: &[(String, Option<String>)]) -> Request<'_> {
        Request { own, ..Request::default() }
    }

    #[test]
    fn a_process_of_another_user_is_told_that_users_home_unless_configured() {
        let mut environ = environ();
        environ.configure(vec![("USER".into(), Some("configured".into()))], []);
        let mut all = environ.build(&Request { another_user: true, ..Request::default() });
        assert_eq!(get(&all, "HOME"), None, "ours is not handed on");
        all.log_in(&[("HOME", "/home/app".into()), ("USER", "app".into()), ("LOGNAME", "app".into())]);
        assert_eq!(get(&all, "HOME").as_deref(), Some("/home/app"));
        assert_eq!(get(&all, "USER").as_deref(), Some("configured"));
        assert_eq!(get(&all, "LOGNAME").as_deref(), Some("app"));
    }

    #[test]
    fn a_process_is_told_its_job() {
        let all = environ().build(&Request { job: Some("app"), ..Request::default() });
        assert_eq!(get(&all, "CONTAINERPILOT_JOB").as_deref(), Some("app"));
    }

    #[test]
    fn a_jobs_changes_win_over_the_configurations_and_those_over_what_we_inherited() {
        let mut environ = environ();
        environ.configure(vec![("A".into(), Some("global".into())), ("B".into(), Some("global".into()))], []);
        let all = environ.build(&with(&[("B".into(), Some("job".into()))]));
        assert_eq!(get(&all, "A").as_deref(), Some("global"));
        assert_eq!(get(&all, "B").as_deref(), Some("job"));
        assert_eq!(get(&all, "HOME").as_deref(), Some("/root"));
    }

    #[test]
    fn the_token_for_consul_is_for_templates_and_for_jobs_that_set_it() {
        let name = "CONSUL_HTTP_TOKEN";
        let mut environ = Environ::new([(name.into(), "secret".into())]);
        environ.change(&vec![("A".into(), Some("1".into()))]);
        assert_eq!(get(&environ.build(&Request::default()), name), None);
        assert_eq!(environ.for_templates().get(name).map(String::as_str), Some("secret"));
        let own = vec![(name.to_owned(), Some("secret".to_owned()))];
        assert_eq!(get(&environ.build(&with(&own)), name).as_deref(), Some("secret"));
    }

    #[test]
    fn null_unsets() {
        let environ = environ();
        let all = environ.build(&with(&[("A".into(), None)]));
        assert_eq!(get(&all, "A"), None);
    }

    #[test]
    fn processes_and_addresses_of_jobs_are_told_under_upper_case_names() {
        let mut environ = environ();
        let running = RunningJobs::default();
        running.insert(&process_name("my-app"), Pid::new(7).unwrap());
        environ.configure(vec![], [("my-app", "10.0.0.1".parse().unwrap())]);
        let mut all = environ.build(&Request::default());
        running.tell(&mut all);
        assert_eq!(get(&all, "CONTAINERPILOT_MY_APP_PID").as_deref(), Some("7"));
        assert_eq!(get(&all, "CONTAINERPILOT_MY_APP_IP").as_deref(), Some("10.0.0.1"));
        assert_eq!(get(&all, "CONTAINERPILOT_PID"), Some(process::id().to_string()));
        let mut next = environ.build(&Request::default());
        running.remove(&process_name("my-app"), Pid::new(8).unwrap());
        running.tell(&mut next);
        assert_eq!(get(&next, "CONTAINERPILOT_MY_APP_PID").as_deref(), Some("7"), "another process ended");
        let mut last = environ.build(&Request::default());
        running.remove(&process_name("my-app"), Pid::new(7).unwrap());
        running.tell(&mut last);
        assert_eq!(get(&last, "CONTAINERPILOT_MY_APP_PID"), None);
    }

    #[test]
    fn the_variable_of_a_process_is_named_after_the_base_name_without_its_extension() {
        for (job, expected) in [
            ("my-app", "MY_APP"),
            ("app", "APP"),
            ("preStart", "PRESTART"),
            ("/usr/local/bin/consul-agent", "CONSUL_AGENT"),
            ("/bin/my--app.v2.sh", "MY_APP_V2"),
            ("./run.sh", "RUN"),
            ("my.app", "MY"),
            ("a b/c  d", "C_D"),
            ("/bin/app/", "APP"),
            (".hidden", "_HIDDEN"),
            ("consul agent -config-dir=/etc/consul", "CONSUL"),
        ] {
            assert_eq!(process_name(job), OsString::from(format!("CONTAINERPILOT_{expected}_PID")), "{job}");
        }
        assert_eq!(address_name("my--app"), "CONTAINERPILOT_MY__APP_IP");
    }

    #[test]
    fn what_a_supervisor_around_us_told_is_back_when_a_job_ends() {
        let name = "CONTAINERPILOT_APP_PID";
        let environ = Environ::new([(name.into(), "1".into())]);
        let running = RunningJobs::default();
        running.insert(OsStr::new(name), Pid::new(7).unwrap());
        let told = |request: &Request<'_>| {
            let mut all = environ.build(request);
            running.tell(&mut all);
            get(&all, name)
        };
        assert_eq!(told(&Request::default()).as_deref(), Some("7"));
        let own = [(name.to_owned(), Some("mine".to_owned()))];
        assert_eq!(told(&with(&own)).as_deref(), Some("mine"), "the configuration decides");
        running.remove(OsStr::new(name), Pid::new(7).unwrap());
        assert_eq!(told(&Request::default()).as_deref(), Some("1"));
    }

    #[test]
    fn what_the_control_socket_sets_reaches_processes_and_templates() {
        let mut environ = environ();
        environ.change(&vec![("A".into(), Some("new=1".into())), ("B".into(), None)]);
        let all = environ.build(&Request::default());
        assert_eq!(get(&all, "A").as_deref(), Some("new=1"));
        assert_eq!(get(&all, "B"), None);
        assert_eq!(environ.for_templates().get("A").map(String::as_str), Some("new=1"));
    }

    #[test]
    fn the_cost_counts_every_variable_with_its_nul_and_a_pointer_to_it() {
        let pointer = size_of::<*const u8>();
        let bare = Environ::new([]);
        let mut environ = Environ::new([("A".into(), "12".into())]);
        assert_eq!(environ.cost(), bare.cost() + "A=12\0".len() + pointer);
        let before = environ.cost();
        environ.configure(vec![("B".into(), Some("3".into())), ("C".into(), None)], []);
        assert_eq!(environ.cost(), before + "B=3\0".len() + pointer);
    }

    #[test]
    fn the_variables_from_files_are_those_that_were_configured_last() {
        let file = |name: &str| VariableFile { name: name.to_owned(), path: "/run/secrets/value".into() };
        let mut environ = environ();
        environ.configure_files(vec![file("OLD")]);
        environ.configure_files(vec![file("A"), file("B")]);
        assert_eq!(environ.variable_files(), [file("A"), file("B")]);
    }

    #[test]
    fn a_process_is_told_the_event_that_started_it() {
        let key = EventKey { code: EventCode::Changed, source: Source::Watch(Arc::from("db")) };
        let environ = environ();
        let all = environ.build(&Request { occasion: Some(&key), ..Request::default() });
        assert_eq!(get(&all, "CONTAINERPILOT_EVENT_CODE").as_deref(), Some("changed"));
        assert_eq!(get(&all, "CONTAINERPILOT_EVENT_SOURCE").as_deref(), Some("watch.db"));
    }
}
