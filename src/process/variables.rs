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
    /// The variables to be taken from the entry of the job's user in `/etc/passwd`.
    login: Vec<&'static str>,
    /// The variables that the configuration sets or unsets: nothing else does.
    decided: Vec<OsString>,
}

impl EnvironmentBlock {
    /// These variables, to which those named in `login` are added when the user is looked up. Those named in `decided`
    /// stay as they are.
    pub fn new(variables: Variables, login: Vec<&'static str>, decided: Vec<OsString>) -> Self {
        Self { variables, login, decided }
    }

    /// Adds variables that tell of the processes of jobs, those that the configuration decides excepted.
    pub(super) fn tell(&mut self, told: &Variables) {
        for (name, text) in &told.0 {
            if !self.decided.iter().any(|decided| **decided == **name) {
                self.variables.0.insert(Arc::clone(name), Arc::clone(text));
            }
        }
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

    /// All of them.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name))
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
    fn own_variables_hide_those_of_all_and_can_be_unset_again() {
        let common: Variables = [("A", "1"), ("B", "1"), ("C", "1")].into_iter().collect();
        let mut own = common.clone();
        let (a, b, d) = (OsStr::new("A"), OsStr::new("B"), OsStr::new("D"));
        for value in ["2", "3"] {
            own.set(b, OsStr::new(value));
            own.set(d, OsStr::new(value));
        }
        own.unset(a);
        assert_eq!(texts(&own), ["B=3", "C=1", "D=3"]);
        assert_eq!((own.get(a), own.get(b)), (None, Some(OsStr::new("3"))));
        own.unset(b);
        own.unset(d);
        assert_eq!(texts(&own), ["C=1"]);
        assert_eq!((own.get(b), own.get(OsStr::new("C"))), (None, Some(OsStr::new("1"))));
        assert_eq!(texts(&common), ["A=1", "B=1", "C=1"]);
    }
}
