//! Properties of the machine that a configuration depends on, in one place so that tests can choose them.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs;

use super::accounts;
use super::exec_limits::ExecLimits;
use super::interfaces::{self, InterfaceAddress};
use super::spec::UserSpec;

/// The facts about a machine that decide whether a configuration is valid there.
#[derive(Debug, Clone, Default)]
pub struct System {
    /// Addresses of its network interfaces.
    pub addresses: Addresses,
    /// Its users and groups.
    pub accounts: Accounts,
    /// The limits of its kernel for variables and arguments.
    pub exec_limits: ExecLimits,
    /// The highest limit of open files that its kernel lets a process have, if that is known.
    pub most_open_files: Option<u64>,
}

/// Addresses of network interfaces.
#[derive(Debug, Clone)]
pub enum Addresses {
    /// The addresses of this machine, read when they are first needed: most configurations need none.
    Host(OnceCell<Vec<InterfaceAddress>>),
    /// Only these.
    Listed(Vec<InterfaceAddress>),
}

impl Default for Addresses {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

/// Users and groups.
#[derive(Debug, Clone, Default)]
pub enum Accounts {
    /// The accounts in this machine's files.
    #[default]
    Host,
    /// Only these.
    Listed {
        /// Users.
        users: Vec<UserSpec>,
        /// Names and numbers of groups.
        groups: HashMap<String, u32>,
    },
}

impl System {
    /// This machine.
    pub fn current() -> Self {
        Self {
            addresses: Addresses::Host(OnceCell::new()),
            accounts: Accounts::Host,
            exec_limits: ExecLimits::current(),
            most_open_files: most_open_files(),
        }
    }

    /// The addresses of its network interfaces.
    pub fn addresses(&self) -> &[InterfaceAddress] {
        match &self.addresses {
            Addresses::Host(known) => {
                known.get_or_init(|| interfaces::system_addresses().unwrap_or_default())
            }
            Addresses::Listed(listed) => listed,
        }
    }

    /// The user of a name or number. A number needs no entry: it then stands for its own group too.
    pub fn user(&self, text: &str) -> Option<UserSpec> {
        let number: Option<u32> = text.parse().ok();
        let known = match &self.accounts {
            Accounts::Host => match number {
                Some(number) => accounts::user_numbered(number),
                None => accounts::user_named(text),
            }
            .map(|user| UserSpec { name: Some(user.name), uid: user.uid, gid: user.gid }),
            Accounts::Listed { users, .. } => users
                .iter()
                .find(|user| number.map_or(user.name.as_deref() == Some(text), |number| user.uid == number))
                .cloned(),
        };
        known.or_else(|| number.map(|uid| UserSpec { name: None, uid, gid: uid }))
    }

    /// The number of a group given by name or number.
    pub fn group(&self, text: &str) -> Option<u32> {
        if let Ok(number) = text.parse() {
            return Some(number);
        }
        match &self.accounts {
            Accounts::Host => accounts::group_named(text),
            Accounts::Listed { groups, .. } => groups.get(text).copied(),
        }
    }
}

fn most_open_files() -> Option<u64> {
    fs::read_to_string("/proc/sys/fs/nr_open").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_accounts_replace_those_of_the_host() {
        let app = UserSpec { name: Some("app".to_owned()), uid: 7, gid: 8 };
        let accounts = Accounts::Listed { users: vec![app.clone()], groups: [("web".to_owned(), 9)].into() };
        let system = System { accounts, ..System::default() };
        assert_eq!(system.user("app"), Some(app.clone()));
        assert_eq!(system.user("7"), Some(app));
        assert_eq!(system.user("root"), None);
        assert_eq!(system.group("web"), Some(9));
        assert_eq!(system.group("root"), None);
    }

    #[test]
    fn root_is_known_by_name_and_number_and_other_numbers_need_no_entry() {
        let system = System::default();
        assert_eq!(system.user("root").map(|user| user.uid), Some(0));
        assert_eq!(system.user("0").and_then(|user| user.name), Some("root".to_owned()));
        assert_eq!(system.user("4000000").map(|user| (user.name, user.gid)), Some((None, 4_000_000)));
        assert_eq!(system.user("no-such-user"), None);
        assert_eq!(system.group("root"), Some(0));
        assert_eq!(system.group("no-such-group"), None);
    }
}
