//! Environment variables in the kernel's form, shared by all processes that are started with them: with a thousand jobs
//! every process is told a thousand process numbers.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::Arc;

/// One `NAME=VALUE`; clones share the text.
#[derive(Debug, Clone)]
pub struct Variable {
    text: Arc<CStr>,
    name: usize,
}

impl Variable {
    /// `None` if the kernel cannot hold it: names and values have no nul.
    pub fn new(name: &OsStr, value: &OsStr) -> Option<Self> {
        let text = CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()?;
        Some(Self { text: text.into(), name: name.len() })
    }

    /// The part before the `=`.
    pub fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.text.to_bytes().get(..self.name).unwrap_or_default())
    }

    /// The part after it.
    pub fn value(&self) -> &OsStr {
        OsStr::from_bytes(self.text.to_bytes().get(self.name + 1..).unwrap_or_default())
    }

    /// The whole, as the kernel takes it.
    pub fn text(&self) -> &Arc<CStr> {
        &self.text
    }
}

/// Compared by name: of one name there is one variable.
impl Ord for Variable {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for Variable {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Variable {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Variable {}

impl Borrow<OsStr> for Variable {
    fn borrow(&self) -> &OsStr {
        self.name()
    }
}

/// Variables in the order of their names, no name twice.
#[derive(Debug, Clone, Default)]
pub struct Variables(BTreeSet<Variable>);

impl Variables {
    /// The variable of that name.
    pub fn find(&self, name: &OsStr) -> Option<&Variable> {
        self.0.get(name)
    }

    /// Sets a variable, in the place of one of the same name.
    pub fn set(&mut self, variable: Variable) {
        self.0.replace(variable);
    }

    /// Removes a variable, if there is one of that name.
    pub fn unset(&mut self, name: &OsStr) {
        self.0.remove(name);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Variable> {
        self.0.iter()
    }
}

/// Whether a variable is named like those that tell of a job's process; `CONTAINERPILOT_PID`, which tells of us, is not.
fn is_process_name(name: &OsStr) -> bool {
    name.as_bytes().strip_prefix(b"CONTAINERPILOT_").is_some_and(|rest| rest.ends_with(b"_PID"))
}

/// The variables of one process: a few of its own over those that all have.
#[derive(Debug)]
pub struct Layered<'a> {
    common: &'a Variables,
    own: Variables,
    /// The variables of `common` that are hidden by others.
    hidden: Vec<&'a Variable>,
}

impl<'a> Layered<'a> {
    /// The common variables, and none of its own so far.
    pub fn over(common: &'a Variables) -> Self {
        Self { common, own: Variables::default(), hidden: Vec::new() }
    }

    /// The value of a variable.
    pub fn get(&self, name: &OsStr) -> Option<&OsStr> {
        let common = || self.common.find(name).filter(|variable| self.shows(variable));
        self.own.find(name).or_else(common).map(Variable::value)
    }

    /// Sets a variable; what the kernel cannot hold is left out.
    pub fn set(&mut self, name: &OsStr, value: &OsStr) {
        if let Some(variable) = Variable::new(name, value) {
            self.hide(name);
            self.own.set(variable);
        }
    }

    /// Removes a variable, if there is one of that name.
    pub fn unset(&mut self, name: &OsStr) {
        self.hide(name);
        self.own.unset(name);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Variable> {
        self.common.iter().filter(|variable| self.shows(variable)).chain(self.own.iter())
    }

    fn hide(&mut self, name: &OsStr) {
        let hidden = self.common.find(name).filter(|variable| self.shows(variable));
        self.hidden.extend(hidden);
    }

    fn shows(&self, variable: &Variable) -> bool {
        !self.hidden.iter().any(|hidden| ptr::eq(*hidden, variable))
    }
}

/// The whole environment of one process, which can be handed to another thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvironmentBlock {
    /// Each `NAME=VALUE`, but for those below.
    texts: Vec<Arc<CStr>>,
    /// Those that tell of the processes of jobs.
    told: Vec<Arc<CStr>>,
    /// The variables to be taken from the entry of the job's user in `/etc/passwd`.
    login: Vec<&'static str>,
    /// The variables that the configuration sets or unsets: nothing else does.
    decided: Vec<OsString>,
    /// Whether a variable that tells of a job's process may be among those that we inherited.
    is_told: bool,
}

impl EnvironmentBlock {
    /// These variables, to which those named in `login` are added when the user is looked up. Those named in `decided`
    /// stay as they are.
    pub fn new(variables: &Layered<'_>, login: Vec<&'static str>, decided: Vec<OsString>) -> Self {
        let texts = variables.iter().map(|variable| Arc::clone(variable.text())).collect();
        let is_told = variables.iter().any(|variable| is_process_name(variable.name()));
        Self { texts, told: Vec::new(), login, decided, is_told }
    }

    /// Tells of a job's process by this `NAME=VALUE`, unless the configuration decides about that variable.
    pub(super) fn tell(&mut self, name: &OsStr, text: &Arc<CStr>) {
        if self.decided.iter().any(|decided| decided == name) {
            return;
        }
        if self.is_told {
            self.texts.retain(|text| name_in(text) != name);
        }
        self.told.push(Arc::clone(text));
    }

    /// Sets variables of which the configuration says where they come from; the last of two equal names wins.
    pub(super) fn set_all(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) {
        let entries = entries.iter().map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value)));
        let set: Variables = entries.collect();
        self.texts.retain(|text| set.find(name_in(text)).is_none());
        self.login.retain(|name| set.find(OsStr::new(name)).is_none());
        for variable in set.iter() {
            self.texts.push(Arc::clone(variable.text()));
            self.decided.push(variable.name().to_owned());
        }
    }

    /// Adds the variables of the job's user, those that its configuration decides excepted.
    pub fn log_in(&mut self, user: &[(&'static str, OsString)]) {
        let wanted = user.iter().filter(|(name, _)| self.login.contains(name));
        let variables = wanted.filter_map(|(name, value)| Variable::new(OsStr::new(name), value));
        self.texts.extend(variables.map(|variable| variable.text));
    }

    /// Each `NAME=VALUE`.
    pub fn iter(&self) -> impl Iterator<Item = &CStr> {
        self.texts.iter().chain(&self.told).map(|text| &**text)
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let mut values = self.iter().filter_map(|text| text.to_bytes().strip_prefix(name.as_bytes()));
        values.find_map(|value| value.strip_prefix(b"=")).map(OsStr::from_bytes)
    }
}

/// The part of a `NAME=VALUE` before its first `=`.
fn name_in(text: &CStr) -> &OsStr {
    OsStr::from_bytes(text.to_bytes().split(|byte| *byte == b'=').next().unwrap_or_default())
}

impl<N: AsRef<OsStr>, V: AsRef<OsStr>> Extend<(N, V)> for Variables {
    /// The last of two equal names wins; what the kernel cannot hold is left out.
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, all: I) {
        for (name, value) in all {
            if let Some(variable) = Variable::new(name.as_ref(), value.as_ref()) {
                self.set(variable);
            }
        }
    }
}

impl<N: AsRef<OsStr>, V: AsRef<OsStr>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(all: I) -> Self {
        let mut variables = Self::default();
        variables.extend(all);
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<'a>(variables: impl Iterator<Item = &'a Variable>) -> Vec<&'a str> {
        variables.map(|variable| variable.text().to_str().unwrap()).collect()
    }

    #[test]
    fn the_last_of_two_equal_names_wins_and_names_are_in_order() {
        let variables: Variables = [("B", "1"), ("A", "x=y"), ("B", "2"), ("AB", "")].into_iter().collect();
        assert_eq!(texts(variables.iter()), ["A=x=y", "AB=", "B=2"]);
        assert_eq!(variables.find(OsStr::new("A")).map(Variable::value), Some(OsStr::new("x=y")));
        assert!(variables.find(OsStr::new("C")).is_none());
    }

    #[test]
    fn variables_are_compared_by_name() {
        let variable = |name: &str, value: &str| Variable::new(OsStr::new(name), OsStr::new(value)).unwrap();
        assert!(variable("A", "1") == variable("A", "2"));
        assert!(variable("A", "1") != variable("B", "1"));
        assert!(variable("A", "2") < variable("B", "1"));
    }

    #[test]
    fn a_variable_that_is_unset_is_gone() {
        let mut variables: Variables = [("A", "1"), ("B", "2")].into_iter().collect();
        variables.unset(OsStr::new("A"));
        variables.unset(OsStr::new("A"));
        assert_eq!(texts(variables.iter()), ["B=2"]);
    }

    #[test]
    fn what_holds_a_nul_is_left_out() {
        let variables: Variables = [("A", "1\0"), ("B\0", "2")].into_iter().collect();
        assert_eq!(texts(variables.iter()), [""; 0]);
        let mut layered = Layered::over(&variables);
        layered.set(OsStr::new("A"), OsStr::new("1\0"));
        assert_eq!(texts(layered.iter()), [""; 0]);
    }

    #[test]
    fn only_variables_of_jobs_are_looked_for_before_a_process_is_told() {
        for (name, is_one) in
            [("CONTAINERPILOT_APP_PID", true), ("CONTAINERPILOT_PID", false), ("SSH_AGENT_PID", false)]
        {
            assert_eq!(is_process_name(OsStr::new(name)), is_one, "{name}");
        }
    }

    #[test]
    fn own_variables_hide_those_of_all_and_can_be_unset_again() {
        let common: Variables = [("A", "1"), ("B", "1"), ("C", "1")].into_iter().collect();
        let mut layered = Layered::over(&common);
        let (a, b, d) = (OsStr::new("A"), OsStr::new("B"), OsStr::new("D"));
        for value in ["2", "3"] {
            layered.set(b, OsStr::new(value));
            layered.set(d, OsStr::new(value));
        }
        layered.unset(a);
        assert_eq!(texts(layered.iter()), ["C=1", "B=3", "D=3"]);
        assert_eq!((layered.get(a), layered.get(b)), (None, Some(OsStr::new("3"))));
        layered.unset(b);
        layered.unset(d);
        assert_eq!(texts(layered.iter()), ["C=1"]);
        assert_eq!((layered.get(b), layered.get(OsStr::new("C"))), (None, Some(OsStr::new("1"))));
        assert_eq!(texts(common.iter()), ["A=1", "B=1", "C=1"]);
    }
}
