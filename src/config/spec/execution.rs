//! How processes are executed, in the validated configuration.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Environment;
use crate::masking;

/// How a job's process is executed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExecutionSpec {
    /// Environment changes, after those of the whole configuration.
    #[serde(serialize_with = "masking::variables")]
    pub env: Environment,
    /// Files with variables, read at each start, in this order; `env` wins over them.
    pub env_files: Vec<PathBuf>,
    /// Variables of `env` whose values are in files, read at each start.
    pub variable_files: Vec<VariableFile>,
    /// Working directory.
    pub cwd: Option<PathBuf>,
    /// User to run as, resolved.
    pub user: Option<UserSpec>,
    /// Group id to run as, resolved; wins over the user's own.
    pub group: Option<u32>,
    /// File creation mask.
    pub umask: Option<u32>,
    /// Scheduling priority, -20 to 19.
    pub nice: Option<i32>,
    /// Resource limits.
    pub rlimits: Vec<ResourceLimit>,
    /// Preference of the kernel's out-of-memory killer, -1000 to 1000.
    pub oom_score_adj: Option<i32>,
    /// Never gain privileges through execve.
    pub no_new_privileges: bool,
}

/// A variable whose value is in a file. The value itself is never kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableFile {
    /// The variable.
    pub name: String,
    /// An absolute path.
    pub path: PathBuf,
}

/// A user as the system's user database knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserSpec {
    /// Name; for supplementary groups. `None` for a bare number without an entry.
    pub name: Option<String>,
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
}

/// One resource limit; `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimit {
    /// Which resource.
    pub resource: Resource,
    /// The limit in force.
    pub soft: Option<u64>,
    /// The highest value to which the process may raise the soft limit.
    pub hard: Option<u64>,
}

/// Resources that the kernel limits, named as in setrlimit(2) without `RLIMIT_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Resource {
    As,
    Core,
    Cpu,
    Data,
    Fsize,
    Locks,
    Memlock,
    Msgqueue,
    Nice,
    Nofile,
    Nproc,
    Rss,
    Rtprio,
    Rttime,
    Sigpending,
    Stack,
}
