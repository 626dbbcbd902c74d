//! Which jobs run, and as which process: every process is told when it is started. Shared with the threads that start
//! processes, so that of two jobs that start together the second knows the first.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::variables::{EnvironmentBlock, Variables};
use crate::messages::process::Pid;

/// The variables that tell of the processes of running jobs; clones share them.
#[derive(Debug, Clone, Default)]
pub struct RunningJobs(Arc<Mutex<Variables>>);

impl RunningJobs {
    /// A job runs as this process.
    pub fn insert(&self, variable: &OsStr, process: Pid) {
        self.lock().set(variable, OsStr::new(&process.to_string()));
    }

    /// That process has ended.
    pub fn remove(&self, variable: &OsStr, process: Pid) {
        let mut jobs = self.lock();
        if jobs.get(variable).is_some_and(|told| *told == *process.to_string()) {
            jobs.unset(variable);
        }
    }

    /// Adds the variables of all that run now, those that the configuration decides excepted.
    pub fn tell(&self, environment: &mut EnvironmentBlock) {
        let told = self.lock().clone();
        environment.tell(told);
    }

    fn lock(&self) -> MutexGuard<'_, Variables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
