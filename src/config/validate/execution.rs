//! How a job's process is executed: environment, identity, limits.

use std::fmt;
use std::path::{Path, PathBuf};

use super::MentionedFile;
use super::context::{Context, is_set, items, value};
use crate::config::accounts;
use crate::config::diagnostic::Problem;
use crate::config::exec_limits::{cost, cost_of_changes, cost_of_job, length};
use crate::config::raw::{
    Dictionary, Field, LimitValue, OneOrMany, Opt, RawJob, RawRlimit, RawVariable, RawVariableFile, Scalar,
};
use crate::config::source::Span;
use crate::config::spec::{Environment, ExecutionSpec, Resource, ResourceLimit, Spec, VariableFile};
use crate::config::suggest;

const RESOURCES: [(&str, Resource); 16] = [
    ("as", Resource::As),
    ("core", Resource::Core),
    ("cpu", Resource::Cpu),
    ("data", Resource::Data),
    ("fsize", Resource::Fsize),
    ("locks", Resource::Locks),
    ("memlock", Resource::Memlock),
    ("msgqueue", Resource::Msgqueue),
    ("nice", Resource::Nice),
    ("nofile", Resource::Nofile),
    ("nproc", Resource::Nproc),
    ("rss", Resource::Rss),
    ("rtprio", Resource::Rtprio),
    ("rttime", Resource::Rttime),
    ("sigpending", Resource::Sigpending),
    ("stack", Resource::Stack),
];

pub(super) fn validate(context: &mut Context<'_>, job: &RawJob) -> ExecutionSpec {
    let (env, variable_files) = environment(context, ".env", &job.env);
    ExecutionSpec {
        env,
        env_files: env_files(context, &job.env_file),
        variable_files,
        cwd: job.cwd.as_ref().and_then(|field| directory(context, field)),
        user: account(context, "user", &job.user, |context, name| context.user(name), |user| user.uid),
        group: account(context, "group", &job.group, |_, name| accounts::group(name), |group| *group),
        umask: value(&job.umask).map(|mode| mode.0 & 0o777),
        nice: value(&job.nice).and_then(|nice| i32::try_from(nice.0).ok()),
        rlimits: rlimits(context, job),
        oom_score_adj: value(&job.oom_score_adj).and_then(|score| i32::try_from(score.0).ok()),
        no_new_privileges: is_set(&job.no_new_privileges),
    }
}

fn env_files(context: &mut Context<'_>, field: &Opt<OneOrMany<String>>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for field in items(field) {
        if let Some(text) = &field.value {
            files.extend(readable(context, ".envFile", field.span, text));
        }
    }
    files
}

/// The path of a file that is read at each start of a process. Where a relative one begins would be anybody's guess.
fn readable(context: &mut Context<'_>, path: &str, span: Span, text: &str) -> Option<PathBuf> {
    if !context.no_nul(path, span, text) {
        return None;
    }
    let file = PathBuf::from(text);
    if !file.is_absolute() {
        // The text may be meant as the value itself, which may be secret, and so is not shown.
        let message = format!("{path}: expected an absolute path");
        return context.refuse("relative-path", span, message);
    }
    let of = format!("{}{path}", context.path);
    context.places.files.push(MentionedFile { of, place: span.into(), path: file.clone() });
    Some(file)
}

/// Changes to the environment, in the order written, and the variables that come from files; `path` is that of the field.
pub(super) fn environment(
    context: &mut Context<'_>,
    path: &str,
    field: &Opt<Dictionary<Option<RawVariable>>>,
) -> (Environment, Vec<VariableFile>) {
    let (mut environment, mut files) = (Environment::new(), Vec::new());
    for (name, entry) in value(field).into_iter().flat_map(|map| &map.0) {
        if !is_variable_name(name) {
            let message = format!("{path}: {name:?} is not the name of an environment variable");
            context.add(
                Problem::error("bad-variable", entry.key, message)
                    .help("names consist of letters, digits and `_`, and start with no digit"),
            );
            continue;
        }
        match &entry.value {
            Some(Some(
                RawVariable::Text(Scalar(text))
                | RawVariable::Number(Scalar(text))
                | RawVariable::Flag(Scalar(text)),
            )) => {
                let path = format_args!("{path}.{name}");
                let length = length(name, text);
                if context.no_nul(path, entry.span, text) && is_short(context, path, entry.span, length) {
                    environment.push((name.clone(), Some(text.clone())));
                }
            }
            Some(Some(RawVariable::File(raw))) => {
                let path = format!("{path}.{name}");
                let path = variable_file(context, &path, entry.span, raw);
                files.extend(path.map(|path| VariableFile { name: name.clone(), path }));
            }
            Some(None) => environment.push((name.clone(), None)),
            None => {}
        }
    }
    (environment, files)
}

fn variable_file(
    context: &mut Context<'_>,
    path: &str,
    span: Span,
    raw: &RawVariableFile,
) -> Option<PathBuf> {
    if let Some(file) = &raw.file {
        return readable(context, &format!("{path}.file"), file.span, file.value.as_ref()?);
    }
    if !context.has_unknown_key(span) {
        context.error("missing-file", span, format!("{path}: expected `file` with the path of a file"));
    }
    None
}

/// Refuses a variable that keeps processes from being started.
fn is_short(context: &mut Context<'_>, path: fmt::Arguments<'_>, span: Span, length: usize) -> bool {
    let limit = context.system.exec_limits.string();
    if length > limit {
        let message =
            format!("{path}: this variable takes {length} bytes; no process can be started with it");
        let help = format!("the kernel takes at most {limit} bytes of one `NAME=VALUE`; use a file instead");
        context.add(Problem::error("variable-too-long", span, message).help(help));
    }
    length <= limit
}

/// Refuses variables and arguments that are too much together for a process to be started.
pub(super) fn total(context: &mut Context<'_>, env: Option<Span>, spec: &Spec) {
    let inherited: usize = context.env.iter().map(|(name, value)| cost(length(name, value))).sum();
    let common = inherited + cost_of_changes(&spec.env);
    let limits = context.system.exec_limits;
    if let Some(span) = env.filter(|_| common > limits.total()) {
        let what = format_args!("env: these variables and those that containerpilot was started with take");
        context.add(too_much(span, what, common, limits.total()));
        return;
    }
    for (job, place) in spec.jobs.iter().zip(&context.places.jobs) {
        let stack = job.execution.rlimits.iter().find(|limit| limit.resource == Resource::Stack);
        let limit = stack.map_or(limits, |stack| limits.with_stack(stack.soft)).total();
        let taken = common + cost_of_job(job);
        if taken > limit {
            let what = format_args!("job {:?}: its command line and its variables take", job.name);
            context.problems.add(too_much(place.exec.unwrap_or(place.name), what, taken, limit));
        }
    }
}

fn too_much(span: Span, what: fmt::Arguments<'_>, taken: usize, limit: usize) -> Problem {
    let message = format!("{what} {taken} bytes; no process can be started with them");
    Problem::error("environment-too-large", span, message).help(format!(
        "the kernel takes a quarter of the stack limit, but at least 128 KiB and at most 6 MiB; of that, containerpilot \
         leaves {limit} bytes to the job"
    ))
}

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn directory(context: &mut Context<'_>, field: &Field<String>) -> Option<PathBuf> {
    let text = field.value.as_ref()?;
    if !context.no_nul(".cwd", field.span, text) {
        return None;
    }
    let directory = Path::new(text);
    if directory.is_dir() {
        return Some(directory.to_owned());
    }
    let reason = if directory.exists() { "is not a directory" } else { "does not exist" };
    context.refuse("missing-directory", field.span, format!(".cwd: {text:?} {reason}"))
}

/// A user or group. Refuses one that does not exist, and the number that setresuid(2) and setresgid(2) take for "no
/// change": -1, as an unsigned number.
fn account<T>(
    context: &mut Context<'_>,
    what: &str,
    field: &Opt<Scalar>,
    find: fn(&mut Context<'_>, &str) -> Option<T>,
    number: fn(&T) -> u32,
) -> Option<T> {
    const NO_CHANGE: u32 = u32::MAX;
    let field = field.as_ref()?;
    let Scalar(name) = field.value.as_ref()?;
    let Some(found) = find(context, name) else {
        let code = if what == "user" { "unknown-user" } else { "unknown-group" };
        return context.refuse(code, field.span, format!(".{what}: there is no {what} {name:?}"));
    };
    if number(&found) == NO_CHANGE {
        let message = format!(".{what}: {NO_CHANGE} stands for no {what} at all: the kernel takes it for -1");
        return context.refuse("out-of-range", field.span, message);
    }
    Some(found)
}

fn rlimits(context: &mut Context<'_>, job: &RawJob) -> Vec<ResourceLimit> {
    let mut limits: Vec<ResourceLimit> = Vec::new();
    for (name, field) in value(&job.rlimits).into_iter().flat_map(|map| &map.0) {
        context.within(format_args!(".rlimits.{name}"), |context| {
            let Some(resource) = resource(name) else {
                let names = RESOURCES.iter().map(|(name, _)| *name);
                let help = match suggest::nearest(name, names.clone()) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("the limits are {}", names.collect::<Vec<_>>().join(", ")),
                };
                let message = ": there is no resource limit of this name";
                return context.add(Problem::error("unknown-rlimit", field.key, message).help(help));
            };
            if limits.iter().any(|limit| limit.resource == resource) {
                context.error("duplicate-key", field.key, ": this limit is given twice");
            }
            limits.extend(limit(context, field, resource));
        });
    }
    limits
}

fn resource(name: &str) -> Option<Resource> {
    let lower = name.to_ascii_lowercase();
    let bare = lower.strip_prefix("rlimit_").unwrap_or(&lower);
    RESOURCES.iter().find(|(name, _)| *name == bare).map(|(_, resource)| *resource)
}

fn limit(context: &mut Context<'_>, field: &Field<RawRlimit>, resource: Resource) -> Option<ResourceLimit> {
    let (soft, hard) = match field.value.as_ref()? {
        RawRlimit::Number(LimitValue(limit)) | RawRlimit::Text(LimitValue(limit)) => (*limit, *limit),
        RawRlimit::Pair(pair) => {
            let (soft, hard) = (value(&pair.soft), value(&pair.hard));
            match soft.or(hard).zip(hard.or(soft)) {
                Some((soft, hard)) => (soft.0, hard.0),
                None if pair.soft.is_some() || pair.hard.is_some() => return None,
                None => return context.refuse("bad-rlimit", field.span, ": expected `soft`, `hard` or both"),
            }
        }
    };
    // No limit at all is above every number.
    if hard.is_some_and(|hard| soft.is_none_or(|soft| soft > hard)) {
        let shown = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
        let message = format!(": the soft limit {} is above the hard limit {}", shown(soft), shown(hard));
        return context.refuse("bad-rlimit", field.span, message);
    }
    if resource == Resource::Nofile {
        warn_of_too_many_files(context, field, hard);
    }
    Some(ResourceLimit { resource, soft, hard })
}

/// The kernel gives nobody, not even root, a higher limit of open files than its own. Another machine may have another one.
fn warn_of_too_many_files(context: &mut Context<'_>, field: &Field<RawRlimit>, hard: Option<u64>) {
    let Some(most) = context.system.most_open_files else { return };
    if hard.is_none_or(|hard| hard > most) {
        let message =
            format!(": the process cannot be started: the kernel of this machine allows {most} at most");
        context.add(
            Problem::warning("high-rlimit", field.span, message)
                .help("lower the limit, or raise /proc/sys/fs/nr_open"),
        );
    }
}
