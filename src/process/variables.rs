//! Environment variables in the kernel's form, shared by all processes that are started with them: with a thousand jobs
//! every process is told a thousand process numbers.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Variables by name, each with its whole `NAME=VALUE`; clones share the texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<Arc<OsStr>, Arc<CStr>>);

impl Variables {
    /// The value of a variable.
    pub fn get(&self, name: &OsStr) -> Option<&OsStr> {
        self.0.get(name).map(|text| value_in(name, text))
    }

    /// Sets a variable. What the kernel cannot hold is left out: names and values have no nul.
    pub fn set(&mut self, name: &OsStr, value: &OsStr) {
        if let Ok(text) = CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()) {
            self.0.insert(name.into(), text.into());
        }
    }

    /// Removes a variable, if there is one of that name.
    pub fn unset(&mut self, name: &OsStr) {
        self.0.remove(name);
    }

    /// Sets all of these variables.
    pub fn set_all(&mut self, others: &Self) {
        self.0.extend(others.0.clone());
    }

    /// The names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, text)| (&**name, value_in(name, text)))
    }

    /// Each `NAME=VALUE`, in the order of the names.
    pub fn texts(&self) -> impl Iterator<Item = &CStr> {
        self.0.values().map(|text| &**text)
    }
}

/// The value in the `NAME=VALUE` of a variable.
fn value_in<'a>(name: &OsStr, text: &'a CStr) -> &'a OsStr {
    OsStr::from_bytes(text.to_bytes().get(name.len() + 1..).unwrap_or_default())
}

impl<N: AsRef<OsStr>, V: AsRef<OsStr>> FromIterator<(N, V)> for Variables {
    /// The last of two equal names wins.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(all: I) -> Self {
        let mut variables = Self::default();
        for (name, value) in all {
            variables.set(name.as_ref(), value.as_ref());
        }
        variables
    }
}

/// The whole environment of one process, which can be handed to another thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvironmentBlock {
    variables: Variables,
    /// Variables that tell of the processes of jobs, which win over the others. Apart from them: there may be a thousand.
    told: Variables,
    /// The variables to be taken from the entry of the job's user in `/etc/passwd`.
    login: Vec<&'static str>,
    /// The variables that the configuration sets or unsets: nothing else does.
    decided: Vec<OsString>,
}

impl EnvironmentBlock {
    /// These variables, to which those named in `login` are added when the user is looked up. Those named in `decided`
    /// stay as they are.
    pub fn new(variables: Variables, login: Vec<&'static str>, decided: Vec<OsString>) -> Self {
        Self { variables, told: Variables::default(), login, decided }
    }

    /// Adds variables that tell of the processes of jobs, those that the configuration decides excepted.
    pub(super) fn tell(&mut self, mut told: Variables) {
        for name in &self.decided {
            told.unset(name);
        }
        self.told = told;
    }

    /// Sets a variable of which the configuration says where it comes from.
    pub(super) fn decide(&mut self, name: &OsStr, value: &OsStr) {
        self.variables.set(name, value);
        self.login.retain(|login| name != *login);
        self.decided.push(name.to_owned());
    }

    /// Adds the variables of the job's user, those that its configuration decides excepted.
    pub fn log_in(&mut self, user: &[(&'static str, OsString)]) {
        for (name, value) in user.iter().filter(|(name, _)| self.login.contains(name)) {
            self.variables.set(OsStr::new(name), value);
        }
    }

    /// Each `NAME=VALUE`.
    pub fn texts(&self) -> impl Iterator<Item = &CStr> {
        let others = self.variables.0.iter().filter(|(name, _)| !self.told.0.contains_key(*name));
        others.map(|(_, text)| &**text).chain(self.told.texts())
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let name = OsStr::new(name);
        self.told.get(name).or_else(|| self.variables.get(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(variables: &Variables) -> Vec<&str> {
        variables.texts().map(|text| text.to_str().unwrap()).collect()
    }

    #[test]
    fn the_last_of_two_equal_names_wins_and_names_are_in_order() {
        let variables: Variables = [("B", "1"), ("A", "x=y"), ("B", "2"), ("AB", "")].into_iter().collect();
        assert_eq!(texts(&variables), ["A=x=y", "AB=", "B=2"]);
        assert_eq!(variables.get(OsStr::new("A")), Some(OsStr::new("x=y")));
        assert!(variables.get(OsStr::new("C")).is_none());
    }

    #[test]
    fn a_variable_that_is_unset_is_gone() {
        let mut variables: Variables = [("A", "1"), ("B", "2")].into_iter().collect();
        variables.unset(OsStr::new("A"));
        variables.unset(OsStr::new("A"));
        assert_eq!(texts(&variables), ["B=2"]);
    }

    #[test]
    fn what_holds_a_nul_is_left_out() {
        let variables: Variables = [("A", "1\0"), ("B\0", "2")].into_iter().collect();
        assert_eq!(texts(&variables), [""; 0]);
    }

    #[test]
    fn what_is_told_of_jobs_wins_over_what_is_inherited_but_not_over_the_configuration() {
        let variables = [("A", "1"), ("DB_PID", "1"), ("OTHER_PID", "1")].into_iter().collect();
        let mut block = EnvironmentBlock::new(variables, vec![], vec!["OTHER_PID".into()]);
        block.tell([("DB_PID", "2"), ("NEW_PID", "2"), ("OTHER_PID", "2")].into_iter().collect());
        let texts: Vec<&str> = block.texts().map(|text| text.to_str().unwrap()).collect();
        assert_eq!(texts, ["A=1", "OTHER_PID=1", "DB_PID=2", "NEW_PID=2"]);
        let get = |name| block.get(name).and_then(OsStr::to_str);
        assert_eq!([get("A"), get("DB_PID"), get("OTHER_PID")], [Some("1"), Some("2"), Some("1")]);
    }
}
