//! Execution settings that the new process must make itself before it becomes the program. Everything that allocates
//! or looks something up happens before it exists; after that only system calls are safe.
#![allow(unsafe_code)]

use std::ffi::OsString;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::prctl;
use nix::sys::resource::{self, RLIM_INFINITY, rlim_t, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, geteuid, getuid, write};

use super::error::SpawnError;
use super::init;
use crate::config::accounts;
use crate::config::spec::{ExecutionSpec, Resource, ResourceLimit, UserSpec};

/// Whether a job's user is another one than we run as.
pub fn is_another_user(user: &UserSpec) -> bool {
    Uid::from_raw(user.uid) != geteuid()
}

/// `HOME`, `USER` and `LOGNAME` of a job's user as `/etc/passwd` has them, if it is not the one we run as. Reads files:
/// not for the event loop.
pub fn login_environment(user: &UserSpec) -> Vec<(&'static str, OsString)> {
    if !is_another_user(user) {
        return Vec::new();
    }
    let (home, name) = match accounts::user_numbered(user.uid) {
        Some(entry) => (entry.home.into_os_string(), OsString::from(entry.name)),
        // Better than the home and name of another user, which it would inherit.
        None => (OsString::from("/"), OsString::from(user.uid.to_string())),
    };
    vec![("HOME", home), ("USER", name.clone()), ("LOGNAME", name)]
}

/// The settings that the new process makes, in this order.
#[derive(Default)]
pub(super) struct Steps(Vec<Step>);

/// One setting, ready to be made by a system call.
enum Step {
    OomScoreAdj { value: i32, text: String },
    Limit(ResourceLimit),
    Nice(i32),
    Groups { user: String, groups: Vec<Gid> },
    Group(Gid),
    User { user: String, uid: Uid },
    NoNewPrivileges,
    Umask(Mode),
}

impl Steps {
    /// Settings that need privileges come before those are given up, the group before the user, and the umask last,
    /// since nothing is created here.
    pub(super) fn plan(execution: &ExecutionSpec) -> Self {
        let mut steps = Vec::new();
        let score = |value: i32| Step::OomScoreAdj { value, text: value.to_string() };
        steps.extend(execution.oom_score_adj.map(score));
        steps.extend(init::limit_of_files_for_processes().map(Step::Limit));
        steps.extend(execution.rlimits.iter().copied().map(Step::Limit));
        steps.extend(execution.nice.map(Step::Nice));
        identity(execution, &mut steps);
        if execution.no_new_privileges {
            steps.push(Step::NoNewPrivileges);
        }
        steps.extend(execution.umask.map(|mask| Step::Umask(Mode::from_bits_truncate(mask))));
        Self(steps)
    }

    /// Whether a process that makes them must not share our memory. The kernel marks memory whose user or group
    /// changed as not dumpable. And for a moment of execve(2) it does not count a process as a child of vfork any more
    /// although that still shares our memory: if memory runs out then and it is a likelier victim than we, the kernel
    /// ends all who share it.
    pub(super) fn need_own_memory(&self) -> bool {
        let needs = |step: &Step| match step {
            Step::OomScoreAdj { .. } | Step::Groups { .. } | Step::Group(_) | Step::User { .. } => true,
            Step::Limit(_) | Step::Nice(_) | Step::NoNewPrivileges | Step::Umask(_) => false,
        };
        self.0.iter().any(needs)
    }

    /// Makes all settings; the number of the one that failed, and how. Runs in the new process: system calls only,
    /// no allocation, no lock.
    pub(super) fn make(&self) -> Result<(), (u32, Errno)> {
        (0..).zip(&self.0).try_for_each(|(number, step)| step.make().map_err(|errno| (number, errno)))
    }

    /// The error of the setting that failed.
    pub(super) fn failed(&self, number: u32, errno: Errno) -> SpawnError {
        let step = usize::try_from(number).ok().and_then(|number| self.0.get(number));
        let action = step.map_or_else(|| "make a setting".to_owned(), Step::describe);
        SpawnError::new(action, errno.into())
    }
}

/// The steps that change user and groups. With a group alone, the supplementary groups stay ours.
fn identity(execution: &ExecutionSpec, steps: &mut Vec<Step>) {
    let Some(user) = &execution.user else {
        steps.extend(execution.group.map(|gid| Step::Group(Gid::from_raw(gid))));
        return;
    };
    let uid = Uid::from_raw(user.uid);
    let gid = Gid::from_raw(execution.group.unwrap_or(user.gid));
    let label = match &user.name {
        Some(name) => format!("{name:?} (uid {uid})"),
        None => uid.to_string(),
    };
    // Without privileges we can only stay who we are, and then the groups are right already.
    if geteuid().is_root() || uid != getuid() {
        steps.push(Step::Groups { user: label.clone(), groups: groups_of(user, gid) });
    }
    steps.push(Step::Group(gid));
    steps.push(Step::User { user: label, uid });
}

fn groups_of(user: &UserSpec, gid: Gid) -> Vec<Gid> {
    let Some(name) = &user.name else { return vec![gid] };
    accounts::groups_of(name, gid.as_raw()).into_iter().map(Gid::from_raw).collect()
}

impl Step {
    /// libc's own calls would change the user of all our threads by waiting for each: here there is but one.
    fn make(&self) -> Result<(), Errno> {
        match self {
            Self::OomScoreAdj { text, .. } => set_oom_score(text),
            Self::Limit(ResourceLimit { resource, soft, hard }) => {
                setrlimit(kernel_resource(*resource), kernel_limit(*soft), kernel_limit(*hard))
            }
            Self::Nice(value) => {
                // SAFETY: takes and returns plain numbers.
                Errno::result(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, *value) }).map(drop)
            }
            Self::Groups { groups, .. } => {
                // SAFETY: a list of numbers and its length; `Gid` is a plain `gid_t`.
                let made = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
                Errno::result(made).map(drop)
            }
            Self::Group(gid) => {
                // SAFETY: takes and returns plain numbers.
                Errno::result(unsafe { libc::syscall(libc::SYS_setgid, gid.as_raw()) }).map(drop)
            }
            Self::User { uid, .. } => {
                // SAFETY: takes and returns plain numbers.
                Errno::result(unsafe { libc::syscall(libc::SYS_setuid, uid.as_raw()) }).map(drop)
            }
            Self::NoNewPrivileges => prctl::set_no_new_privs(),
            Self::Umask(mask) => {
                umask(*mask);
                Ok(())
            }
        }
    }

    /// Completes "cannot …".
    fn describe(&self) -> String {
        match self {
            Self::OomScoreAdj { value, .. } => format!("set oomScoreAdj {value}"),
            Self::Limit(ResourceLimit { resource, soft, hard }) => {
                let name = format!("{resource:?}").to_lowercase();
                format!("set the limit {name} to soft {}, hard {}", limit_text(*soft), limit_text(*hard))
            }
            Self::Nice(value) => format!("set nice {value}"),
            Self::Groups { user, .. } => format!("set the groups of user {user}"),
            Self::Group(gid) => format!("set group {gid}"),
            Self::User { user, .. } => format!("set user {user}"),
            Self::NoNewPrivileges => "set noNewPrivileges".to_owned(),
            Self::Umask(mask) => format!("set umask {:04o}", mask.bits()),
        }
    }
}

fn set_oom_score(text: &str) -> Result<(), Errno> {
    let file = open(c"/proc/self/oom_score_adj", OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    write(&file, text.as_bytes()).map(drop)
}

fn limit_text(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), |value| value.to_string())
}

fn kernel_limit(limit: Option<u64>) -> rlim_t {
    limit.unwrap_or(RLIM_INFINITY)
}

const fn kernel_resource(resource: Resource) -> resource::Resource {
    match resource {
        Resource::As => resource::Resource::RLIMIT_AS,
        Resource::Core => resource::Resource::RLIMIT_CORE,
        Resource::Cpu => resource::Resource::RLIMIT_CPU,
        Resource::Data => resource::Resource::RLIMIT_DATA,
        Resource::Fsize => resource::Resource::RLIMIT_FSIZE,
        Resource::Locks => resource::Resource::RLIMIT_LOCKS,
        Resource::Memlock => resource::Resource::RLIMIT_MEMLOCK,
        Resource::Msgqueue => resource::Resource::RLIMIT_MSGQUEUE,
        Resource::Nice => resource::Resource::RLIMIT_NICE,
        Resource::Nofile => resource::Resource::RLIMIT_NOFILE,
        Resource::Nproc => resource::Resource::RLIMIT_NPROC,
        Resource::Rss => resource::Resource::RLIMIT_RSS,
        Resource::Rtprio => resource::Resource::RLIMIT_RTPRIO,
        Resource::Rttime => resource::Resource::RLIMIT_RTTIME,
        Resource::Sigpending => resource::Resource::RLIMIT_SIGPENDING,
        Resource::Stack => resource::Resource::RLIMIT_STACK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_names_the_setting_and_its_value() {
        let execution = ExecutionSpec {
            user: Some(UserSpec { name: Some("root".into()), uid: 0, gid: 0 }),
            group: Some(7),
            umask: Some(0o27),
            nice: Some(-5),
            rlimits: vec![ResourceLimit { resource: Resource::Nofile, soft: Some(9), hard: None }],
            oom_score_adj: Some(-900),
            no_new_privileges: true,
            ..Default::default()
        };
        let steps = Steps::plan(&execution);
        let told: Vec<String> = (0..u32::try_from(steps.0.len()).unwrap())
            .map(|number| steps.failed(number, Errno::EPERM))
            .map(|error| error.to_string().replace(": Operation not permitted", ""))
            .filter(|text| !text.contains("groups"))
            .collect();
        assert_eq!(
            told,
            [
                "cannot set oomScoreAdj -900",
                "cannot set the limit nofile to soft 9, hard unlimited",
                "cannot set nice -5",
                "cannot set group 7",
                "cannot set user \"root\" (uid 0)",
                "cannot set noNewPrivileges",
                "cannot set umask 0027",
            ]
        );
    }

    #[test]
    fn another_user_group_or_memory_score_needs_memory_of_its_own() {
        let need = |execution: &ExecutionSpec| Steps::plan(execution).need_own_memory();
        let limit = ResourceLimit { resource: Resource::Core, soft: Some(0), hard: Some(0) };
        assert!(!need(&ExecutionSpec {
            cwd: Some("/".into()),
            umask: Some(0o27),
            nice: Some(5),
            rlimits: vec![limit],
            no_new_privileges: true,
            ..Default::default()
        }));
        assert!(need(&ExecutionSpec { oom_score_adj: Some(5), ..Default::default() }));
        assert!(need(&ExecutionSpec { group: Some(7), ..Default::default() }));
    }

    #[test]
    fn groups_are_set_for_another_user_and_by_root() {
        let sets_groups = |uid| {
            let user = Some(UserSpec { name: None, uid, gid: 7 });
            let steps = Steps::plan(&ExecutionSpec { user, ..Default::default() });
            steps.0.iter().any(|step| matches!(step, Step::Groups { .. }))
        };
        let ours = getuid().as_raw();
        assert!(sets_groups(ours + 1));
        assert_eq!(sets_groups(ours), geteuid().is_root());
    }

    #[test]
    fn the_group_that_is_asked_for_is_among_the_groups() {
        let user = |name: Option<&str>| UserSpec { name: name.map(Into::into), uid: 54_321, gid: 9 };
        let gid = Gid::from_raw(7);
        assert_eq!(groups_of(&user(None), gid), [gid]);
        assert_eq!(groups_of(&user(Some("no-such-user")), gid), [gid]);
    }

    #[test]
    fn our_own_user_keeps_its_environment() {
        let user = UserSpec { name: None, uid: geteuid().as_raw(), gid: 0 };
        assert_eq!(login_environment(&user), []);
    }

    #[test]
    fn a_user_without_an_entry_gets_no_other_users_home() {
        let environment = login_environment(&UserSpec { name: None, uid: 3_999_999_999, gid: 0 });
        let text = |name: &'static str, value: &str| (name, OsString::from(value));
        let number = "3999999999";
        assert_eq!(environment, [text("HOME", "/"), text("USER", number), text("LOGNAME", number)]);
    }
}
