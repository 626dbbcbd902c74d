//! Properties of the machine that a configuration depends on, in one place so that tests can choose them. Users and groups are in
//! `accounts`.

use std::cell::OnceCell;
use std::fs;

use super::exec_limits::ExecLimits;
use super::interfaces::{self, InterfaceAddress};

/// The facts about a machine that decide whether a configuration is valid there.
#[derive(Debug, Clone)]
pub struct System {
    /// Addresses of its network interfaces, read when they are first needed: most configurations need none.
    pub addresses: OnceCell<Vec<InterfaceAddress>>,
    /// The limits of its kernel for variables and arguments.
    pub exec_limits: ExecLimits,
    /// The highest limit of open files that its kernel lets a process have, if that is known.
    pub most_open_files: Option<u64>,
}

impl Default for System {
    /// A machine without addresses, whose kernel has the usual limits.
    fn default() -> Self {
        Self { addresses: Vec::new().into(), exec_limits: ExecLimits::default(), most_open_files: None }
    }
}

impl System {
    /// This machine.
    pub fn current() -> Self {
        Self {
            addresses: OnceCell::new(),
            exec_limits: ExecLimits::current(),
            most_open_files: most_open_files(),
        }
    }

    /// The addresses of its network interfaces.
    pub fn addresses(&self) -> &[InterfaceAddress] {
        self.addresses.get_or_init(|| interfaces::system_addresses().unwrap_or_default())
    }
}

fn most_open_files() -> Option<u64> {
    fs::read_to_string("/proc/sys/fs/nr_open").ok()?.trim().parse().ok()
}
