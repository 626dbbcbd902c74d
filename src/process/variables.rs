//! Environment variables in the kernel's form, shared rather than copied: with a thousand jobs every process is told
//! a thousand process numbers.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

/// One `NAME=VALUE`; clones share the text.
#[derive(Debug, Clone)]
pub struct Variable {
    text: Rc<CStr>,
    name: usize,
}

impl Variable {
    /// `None` if the kernel cannot hold it: names and values have no nul.
    pub fn new(name: &OsStr, value: &OsStr) -> Option<Self> {
        let text = CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()?;
        Some(Self { text: text.into(), name: name.len() })
    }

    /// What is before the `=`.
    pub fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.text.to_bytes().get(..self.name).unwrap_or_default())
    }

    /// What is after it.
    pub fn value(&self) -> &OsStr {
        OsStr::from_bytes(self.text.to_bytes().get(self.name + 1..).unwrap_or_default())
    }

    /// The whole, as the kernel takes it.
    pub fn text(&self) -> &CStr {
        &self.text
    }
}

/// Variables in the order of their names, no name twice.
#[derive(Debug, Clone, Default)]
pub struct Variables(Vec<Variable>);

impl Variables {
    /// The value of a variable.
    pub fn get(&self, name: &OsStr) -> Option<&OsStr> {
        self.find(name).map(Variable::value)
    }

    /// The variable of that name.
    pub fn find(&self, name: &OsStr) -> Option<&Variable> {
        self.place(name).ok().and_then(|place| self.0.get(place))
    }

    /// Sets a variable, in the place of one of the same name.
    pub fn set(&mut self, variable: Variable) {
        match self.place(variable.name()) {
            Ok(place) => {
                if let Some(old) = self.0.get_mut(place) {
                    *old = variable;
                }
            }
            Err(place) => self.0.insert(place, variable),
        }
    }

    /// Removes a variable, if there is one of that name.
    pub fn unset(&mut self, name: &OsStr) {
        if let Ok(place) = self.place(name) {
            self.0.remove(place);
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Variable> {
        self.0.iter()
    }

    fn place(&self, name: &OsStr) -> Result<usize, usize> {
        self.0.binary_search_by(|variable| variable.name().cmp(name))
    }
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

    fn texts(variables: &Variables) -> Vec<&str> {
        variables.iter().map(|variable| variable.text().to_str().unwrap()).collect()
    }

    #[test]
    fn the_last_of_two_equal_names_wins_and_names_are_in_order() {
        let variables: Variables = [("B", "1"), ("A", "x=y"), ("B", "2"), ("AB", "")].into_iter().collect();
        assert_eq!(texts(&variables), ["A=x=y", "AB=", "B=2"]);
        assert_eq!(variables.get(OsStr::new("A")), Some(OsStr::new("x=y")));
        assert_eq!(variables.get(OsStr::new("C")), None);
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
}
