//! Which jobs run, and as which process: every process is told when it is started. Shared with the threads that start
//! processes, so that of two jobs that start together the second knows the first.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::variables::EnvironmentBlock;
use crate::messages::process::Pid;

/// The processes of running jobs, by the variable that tells of each; clones share them.
#[derive(Debug, Clone, Default)]
pub struct RunningJobs(Arc<Mutex<BTreeMap<OsString, Process>>>);

#[derive(Debug)]
struct Process {
    pid: Pid,
    /// The variable with its value: made once, not for each process that is told.
    text: Arc<CStr>,
}

impl RunningJobs {
    /// A job runs as this process.
    pub fn insert(&self, variable: &OsStr, process: Pid) {
        let text = [variable.as_bytes(), b"=", process.to_string().as_bytes()].concat();
        if let Ok(text) = CString::new(text) {
            self.lock().insert(variable.to_owned(), Process { pid: process, text: text.into() });
        }
    }

    /// That process has ended.
    pub fn remove(&self, variable: &OsStr, process: Pid) {
        let mut jobs = self.lock();
        if jobs.get(variable).is_some_and(|job| job.pid == process) {
            jobs.remove(variable);
        }
    }

    /// Adds the variables of all that run now, those that the configuration decides excepted.
    pub fn tell(&self, environment: &mut EnvironmentBlock) {
        for (variable, process) in &*self.lock() {
            environment.tell(variable, &process.text);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OsString, Process>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
