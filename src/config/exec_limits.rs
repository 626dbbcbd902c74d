//! How much execve(2) takes: the length of one argument or variable, and of all of them together. A variable beyond
//! that would keep every process from being started, so it is refused where it is set.

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{SysconfVar, sysconf};

use super::spec::{CommandLine, Environment, JobSpec};

/// MAX_ARG_STRLEN: the longest string is that many pages, its final NUL included.
const PAGES_OF_A_STRING: usize = 32;
/// ARG_MAX: strings of this length are taken however small the stack may be.
const ALWAYS_TAKEN: usize = 128 << 10;
/// Three quarters of the kernel's own idea of a stack (`_STK_LIM`): more is taken of nobody.
const NEVER_MORE_THAN: usize = (8 << 20) / 4 * 3;
/// This part of all is left for the variables that we tell and for the commands of health checks.
const SHARE_FOR_US: usize = 16;

/// The limits of execve(2) for strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecLimits {
    page: usize,
    stack: Option<u64>,
}

impl Default for ExecLimits {
    /// The limits of most machines: pages of 4 KiB and a stack of 8 MiB.
    fn default() -> Self {
        Self { page: 4096, stack: Some(8 << 20) }
    }
}

impl ExecLimits {
    /// The limits of this machine and process, whose children inherit RLIMIT_STACK.
    pub fn current() -> Self {
        let usual = Self::default();
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|size| usize::try_from(size).ok());
        let stack = getrlimit(Resource::RLIMIT_STACK).map(|(soft, _)| soft);
        Self { page: page.unwrap_or(usual.page), stack: stack.map_or(usual.stack, Some) }
    }

    /// The limits of a process with another RLIMIT_STACK; `None`: unlimited.
    pub fn with_stack(self, stack: Option<u64>) -> Self {
        Self { stack, ..self }
    }

    /// The longest `NAME=VALUE`, its final NUL included.
    pub fn string(self) -> usize {
        self.page.saturating_mul(PAGES_OF_A_STRING)
    }

    /// The most that variables and arguments may cost together, so that we can add our own.
    pub fn total(self) -> usize {
        let quarter = self.stack.map_or(usize::MAX, |stack| usize::try_from(stack / 4).unwrap_or(usize::MAX));
        let total = quarter.clamp(ALWAYS_TAKEN, NEVER_MORE_THAN);
        total - total / SHARE_FOR_US
    }
}

/// The length of a variable as the kernel counts it: `NAME=VALUE` and a NUL.
pub fn length(name: &str, value: &str) -> usize {
    name.len() + value.len() + 2
}

/// A string of that length with the pointer to it: the kernel counts both.
pub fn cost(length: usize) -> usize {
    length + size_of::<*const u8>()
}

/// The cost of every variable that these changes set.
pub fn cost_of_changes(changes: &Environment) -> usize {
    let set = changes.iter().filter_map(|(name, value)| Some(length(name, value.as_ref()?)));
    set.map(cost).sum()
}

/// The cost of a job's own variables and its command line, over what all jobs get.
pub fn cost_of_job(job: &JobSpec) -> usize {
    cost_of_changes(&job.execution.env) + job.exec.as_ref().map_or(0, cost_of_command)
}

fn cost_of_command(command: &CommandLine) -> usize {
    // The program's name is an argument, and the path that is executed is copied too.
    let strings = command.args.iter().chain([&command.program, &command.program]);
    strings.map(|text| cost(text.len() + 1)).sum()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::process::Command;

    use super::*;

    #[test]
    fn limits_follow_the_page_size_and_the_stack() {
        let of = |page, stack| ExecLimits { page, stack };
        assert_eq!(of(4096, None).string(), 128 << 10);
        assert_eq!(of(65536, None).string(), 2 << 20);
        let rest = |total: usize| total - total / SHARE_FOR_US;
        for (stack, total) in
            [(Some(8 << 20), 2 << 20), (None, 6 << 20), (Some(1 << 40), 6 << 20), (Some(0), 128 << 10)]
        {
            assert_eq!(of(4096, stack).total(), rest(total), "{stack:?}");
        }
        assert_eq!(of(4096, None).with_stack(Some(8 << 20)), ExecLimits::default());
    }

    #[test]
    fn the_kernel_agrees() {
        let limits = ExecLimits::current();
        let starts = |variables: &[(OsString, OsString)]| {
            Command::new("/bin/true").env_clear().envs(variables.iter().cloned()).status().is_ok()
        };
        let longest = "x".repeat(limits.string() - length("A", ""));
        assert!(starts(&[("A".into(), longest.clone().into())]));
        assert!(!starts(&[("A".into(), (longest + "x").into())]));
        let value = "x".repeat(1000);
        let count = limits.total() / cost(length("V00000", &value));
        let variables = |count: usize| -> Vec<(OsString, OsString)> {
            (0..count).map(|number| (format!("V{number:05}").into(), value.clone().into())).collect()
        };
        assert!(starts(&variables(count)));
        assert!(!starts(&variables(count + count / (SHARE_FOR_US - 2))));
    }

    #[test]
    fn the_kernel_agrees_in_a_process_with_a_smaller_stack() {
        let script = "ulimit -S -s 2048 && exec \"$0\" --exact config::exec_limits::tests::the_kernel_agrees";
        let ourselves = std::env::current_exe().unwrap();
        let output = Command::new("sh").args(["-c", script]).arg(ourselves).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
    }

    #[test]
    fn a_job_costs_its_variables_and_its_command_line() {
        let command = CommandLine { program: "p".into(), args: vec!["arg".into()] };
        let mut job = JobSpec::new("p".into(), Some(command));
        let of_command = (2 + 8) * 2 + (4 + 8);
        assert_eq!(cost_of_job(&job), of_command);
        job.execution.env = vec![("A".into(), Some("1".into())), ("GONE".into(), None)];
        assert_eq!(cost_of_job(&job), of_command + 4 + 8);
    }
}
