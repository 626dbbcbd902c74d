//! Arguments → [`Request`]. Pure: reads no environment and no files, prints nothing.

mod value;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use super::argv::{self, Flag};
use super::request::{
    CheckOptions, ClientRequest, Color, Destination, Format, JobAction, Maintenance, Request,
};
use crate::config::spec::CommandLine;
use crate::config::suggest::nearest;
use crate::messages::signal::Signal;
use value::{measurement, signal, variable};

const USAGE: &str = "containerpilot [-config PATH] [-- CMD [ARG]...]
       containerpilot [-config PATH] FLAG
       containerpilot COMMAND [-config PATH] [ARG]...";

const EPILOGUE: &str = "\
Every flag may be written with one dash or two: -config F, --config F, -config=F.

Without -config the configuration is the first of
  $CONTAINERPILOT
  /etc/containerpilot.json5
  /etc/containerpilot.d
A directory means all of its *.json5 and *.json files in lexical order.

Examples:
  containerpilot -config app.json5          supervise the jobs of app.json5
  containerpilot -- nginx -g 'daemon off;'  be the init of one command, without any configuration
  containerpilot check -config app.json5    report everything that is wrong with app.json5
  containerpilot -config app.json5 -template
                                            see what its template renders to
  containerpilot -putenv MODE=blue -putenv OLD
                                            set MODE and unset OLD for jobs that start later
  containerpilot -reload                    apply a changed configuration
  containerpilot migrate old.json -- node app.js
                                            turn a file of ContainerPilot 2 into one of ours

Exit status: that of the supervised jobs; 1 for a bad configuration or a refused request; 2 for
wrong usage.";

const CLIENT: &str = "Ask a running containerpilot";
const RENDERING: &str = "Look at the configuration";

/// The init and supervisor of a multi-process container: starts jobs by events, checks their health,
/// advertises them in Consul.
#[derive(Debug, Parser)]
#[command(
    name = "containerpilot",
    override_usage = USAGE,
    after_help = EPILOGUE,
    disable_version_flag = true,
    max_term_width = 100
)]
struct Arguments {
    /// Configuration: a JSON5 file, or a directory of them
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,

    /// With a request to a running containerpilot: its control socket, if not the one that the configuration names
    #[arg(long, global = true, value_name = "PATH", help_heading = CLIENT)]
    socket: Option<PathBuf>,

    /// Print the version and the git hash
    #[arg(long, short = 'v', short_alias = 'V', group = "mode")]
    version: bool,

    /// Run this too, as the essential job `main`: when it ends, everything ends with its status
    #[arg(last = true, value_name = "CMD", conflicts_with = "mode")]
    main: Option<Vec<String>>,

    #[command(flatten)]
    rendering: RenderingFlags,

    #[command(flatten)]
    client: ClientFlags,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = RENDERING)]
struct RenderingFlags {
    /// Print the configuration as the template renders it
    #[arg(long, group = "mode")]
    template: bool,

    /// With -template: write to this file instead, in one step ("-" is stdout)
    #[arg(long, requires = "template", value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = CLIENT)]
struct ClientFlags {
    /// Load the configuration again; jobs that did not change keep running
    #[arg(long, group = "mode")]
    reload: bool,

    /// With -reload: restart unchanged jobs too
    #[arg(long, requires = "reload")]
    all: bool,

    /// With -reload: only tell what would start, stop and stay
    #[arg(long, requires = "reload")]
    dry_run: bool,

    /// Exit 0 if it answers
    #[arg(long, group = "mode")]
    ping: bool,

    /// Enter or leave maintenance: health checks stop, services are deregistered
    #[arg(long, group = "mode", value_name = "enable|disable", hide_possible_values = true)]
    maintenance: Option<Maintenance>,

    /// Set a variable for jobs that start from now on; without "=", unset it. May be repeated
    #[arg(long, group = "mode", value_name = "KEY[=VALUE]", value_parser = variable)]
    putenv: Vec<(String, Option<String>)>,

    /// Record a value of a metric. May be repeated
    #[arg(long, group = "mode", value_name = "NAME=NUMBER", value_parser = measurement)]
    putmetric: Vec<(String, f64)>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Report every problem of the configuration; exit 1 if there are errors
    Check {
        /// Exit 1 for warnings too
        #[arg(long)]
        strict: bool,
        /// For people, or for editors and CI
        #[arg(long, value_enum, default_value_t = Format::Human)]
        format: Format,
        /// Colour the report
        #[arg(long, value_enum, default_value_t = Color::Auto)]
        color: Color,
    },
    /// Print a JSON Schema of the configuration, for editors
    Schema,
    /// Turn a configuration of ContainerPilot 2 into one of ours, commented where you must decide
    Migrate {
        /// The old configuration
        #[arg(value_name = "OLD")]
        old: PathBuf,
        /// Write to this file instead, in one step ("-" is stdout)
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// The main application, which version 2 took after its flags
        #[arg(last = true, value_name = "CMD")]
        main: Option<Vec<String>>,
    },
    /// Show the jobs and watches of a running containerpilot
    Status {
        /// For people or for programs
        #[arg(long, value_enum, default_value_t = Format::Human)]
        format: Format,
    },
    /// Print the latest events of a running containerpilot
    Events {
        /// Only those after this sequence number
        #[arg(long, value_name = "SEQUENCE")]
        since: Option<u64>,
        /// Stay, and print new ones as they happen
        #[arg(long, short)]
        follow: bool,
    },
    /// Start a job by hand
    Start(OneJob),
    /// Stop a job; it stays stopped until started again
    Stop(OneJob),
    /// Stop a job and start it again
    Restart(OneJob),
    /// Send a signal to a job's processes
    Signal {
        #[command(flatten)]
        job: OneJob,
        /// Name or number: SIGHUP, hup, 1, SIGRTMIN+3
        #[arg(value_name = "SIGNAL", value_parser = signal)]
        signal: Signal,
    },
}

#[derive(Debug, Args)]
struct OneJob {
    /// Name of the job
    #[arg(value_name = "JOB")]
    job: String,
}

/// What the program's arguments may be, for completions and the manual page.
pub fn definition() -> clap::Command {
    Arguments::command()
}

/// Reads a command line, the program's name first. `is_configured` says that the environment names a configuration. The
/// error is clap's: a usage error, or help that was asked for.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    is_configured: bool,
) -> Result<Request, clap::Error> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    ordinary(&arguments).map_or_else(|| parse_with_clap(arguments, is_configured), Ok)
}

fn parse_with_clap(arguments: Vec<OsString>, is_configured: bool) -> Result<Request, clap::Error> {
    let command = Arguments::command();
    let word = argv::first_word(&arguments, |name| flag(&command, name));
    let word = word.and_then(|index| Some((index, arguments.get(index)?.to_str()?)));
    let meant = word.and_then(|(_, word)| nearest_command(&command, word));
    if let (Some((index, _)), None) = (word, &meant)
        && let Some(request) = with_leftover(&command, &arguments, index, is_configured)
    {
        return Ok(request);
    }
    let is_command = word.is_some_and(|(_, word)| meant.as_deref() == Some(word));
    let arguments = argv::normalise(arguments, |name| flag(&command, name));
    if arguments.iter().position(|argument| argument == "--") == Some(arguments.len() - 1) {
        return Err(missing_command());
    }
    let parsed = command.try_get_matches_from(arguments).map_err(|error| advise(error, is_command));
    request(Arguments::from_arg_matches_mut(&mut parsed?)?)
}

/// The call of an image of ContainerPilot: its ENTRYPOINT names a configuration, directly or through the environment, and
/// Docker appends its CMD, which ContainerPilot ignores.
fn with_leftover(
    command: &clap::Command,
    arguments: &[OsString],
    index: usize,
    is_configured: bool,
) -> Option<Request> {
    let (arguments, leftover) = arguments.split_at_checked(index)?;
    let arguments = argv::normalise(arguments.iter().cloned(), |name| flag(command, name));
    let parsed = command.clone().try_get_matches_from(arguments);
    match parsed.and_then(|mut matches| request(Arguments::from_arg_matches_mut(&mut matches)?)) {
        Ok(Request::Supervise { config, main, .. }) if config.is_some() || is_configured => {
            let leftover = leftover.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            Some(Request::Supervise { config, main, leftover })
        }
        Ok(_) | Err(_) => None,
    }
}

/// The command that a word is, or is so near to that it may be a slip of the keyboard.
fn nearest_command(command: &clap::Command, word: &str) -> Option<String> {
    let names = command.get_subcommands().map(clap::Command::get_name).chain(["help"]);
    nearest(word, names).map(ToOwned::to_owned)
}

/// The call that starts the program, with `-config PATH`, `-- CMD` or both, or neither. Clap needs to have all the other
/// ways to call it described, which would be a large part of the start.
fn ordinary(arguments: &[OsString]) -> Option<Request> {
    let [_, arguments @ ..] = arguments else { return None };
    let (config, rest) = match arguments {
        [flag, path, rest @ ..] if flag == "-config" || flag == "--config" => (Some(path), rest),
        rest => (None, rest),
    };
    // Clap says what is wrong with these, if anything is.
    if config.is_some_and(|path| path.is_empty() || path.as_encoded_bytes().starts_with(b"-")) {
        return None;
    }
    let main = match rest {
        [] => None,
        [dashes, command @ ..] if dashes == "--" => {
            let words = command.iter().map(|word| word.to_str().map(str::to_owned));
            Some(command_line(words.collect::<Option<_>>()?).ok()?)
        }
        _ => return None,
    };
    Some(Request::Supervise { config: config.map(PathBuf::from), main, leftover: Vec::new() })
}

fn flag(command: &clap::Command, name: &str) -> Flag {
    match command.get_arguments().find(|arg| arg.get_long() == Some(name)) {
        Some(arg) if arg.get_action().takes_values() => Flag::TakesValue,
        Some(_) => Flag::Switch,
        None => {
            let flags = command.get_subcommands().map(|subcommand| flag(subcommand, name));
            flags.into_iter().find(|flag| *flag != Flag::Unknown).unwrap_or(Flag::Unknown)
        }
    }
}

/// Advice of our own for a word that is neither flag nor command. Clap's, that a misspelt flag could be a
/// command after `--`, would mislead; ContainerPilot 2 took the main command without `--`. After a command of ours, a word
/// too many is none that should run.
fn advise(mut error: clap::Error, is_command: bool) -> clap::Error {
    let word = error.get(ContextKind::InvalidArg).or_else(|| error.get(ContextKind::InvalidSubcommand));
    if matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand)
        && let Some(ContextValue::String(word)) = word
    {
        let advice = if word.starts_with('-') || is_command { Vec::new() } else { advice_on_word(word) };
        let advice = advice.into_iter().map(Into::into).collect();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(advice));
    }
    error
}

fn advice_on_word(word: &str) -> Vec<String> {
    let command = Arguments::command();
    let similar = nearest_command(&command, word).map(|name| format!("a similar command exists: '{name}'"));
    let dashes = format!("to run '{word}' as a job, put two dashes before it: '-- {word}'");
    similar.into_iter().chain([dashes]).collect()
}

fn request(parsed: Arguments) -> Result<Request, clap::Error> {
    let Arguments { config, socket, rendering, client, version, main, command } = parsed;
    let conflict = |message| Arguments::command().error(ErrorKind::ArgumentConflict, message);
    let flag = flag_request(&config, rendering, client, version);
    let request = match (command, flag, main) {
        (Some(command), None, None) => command_request(config, command)?,
        (Some(_), _, _) => {
            return Err(conflict(
                "of the flags, only -config and -socket can be used together with a command",
            ));
        }
        (None, Some(request), _) => request,
        (None, None, main) => {
            let main = main.map(command_line).transpose()?;
            Request::Supervise { config, main, leftover: Vec::new() }
        }
    };
    match (request, socket) {
        (Request::Client { config, request, .. }, socket) => Ok(Request::Client { config, socket, request }),
        (request, None) => Ok(request),
        (_, Some(_)) => Err(conflict(
            "-socket is for requests to a running containerpilot, such as -reload or status; where it listens is said by \
             control.socket in its configuration",
        )),
    }
}

/// What the flags ask for; clap has seen to it that at most one of them does.
fn flag_request(
    config: &Option<PathBuf>,
    rendering: RenderingFlags,
    client: ClientFlags,
    version: bool,
) -> Option<Request> {
    if version {
        return Some(Request::Version);
    }
    if rendering.template {
        return Some(Request::Render { config: config.clone(), destination: destination(rendering.out) });
    }
    let request = if client.reload {
        ClientRequest::Reload { all: client.all, dry_run: client.dry_run }
    } else if client.ping {
        ClientRequest::Ping
    } else if let Some(direction) = client.maintenance {
        ClientRequest::Maintenance(direction)
    } else if !client.putenv.is_empty() {
        ClientRequest::PutEnvironment(client.putenv)
    } else if !client.putmetric.is_empty() {
        ClientRequest::PutMetrics(client.putmetric)
    } else {
        return None;
    };
    Some(Request::Client { config: config.clone(), socket: None, request })
}

fn destination(out: Option<PathBuf>) -> Destination {
    out.filter(|path| path.as_os_str() != "-").map_or(Destination::Stdout, Destination::File)
}

fn command_request(config: Option<PathBuf>, command: Command) -> Result<Request, clap::Error> {
    let job = |OneJob { job: name }, action| ClientRequest::Job { name, action };
    let request = match command {
        Command::Check { strict, format, color } => {
            return Ok(Request::Check { config, options: CheckOptions { strict, format, color } });
        }
        Command::Schema => return Ok(Request::Schema),
        Command::Migrate { old, out, main } => {
            let main = main.map(command_line).transpose()?;
            return Ok(Request::Migrate { old, destination: destination(out), main });
        }
        Command::Status { format } => ClientRequest::Status { format },
        Command::Events { since, follow } => ClientRequest::Events { since, follow },
        Command::Start(name) => job(name, JobAction::Start),
        Command::Stop(name) => job(name, JobAction::Stop),
        Command::Restart(name) => job(name, JobAction::Restart),
        Command::Signal { job: name, signal } => job(name, JobAction::Signal(signal)),
    };
    Ok(Request::Client { config, socket: None, request })
}

fn command_line(words: Vec<String>) -> Result<CommandLine, clap::Error> {
    let mut words = words.into_iter();
    match words.next() {
        Some(program) if !program.is_empty() => Ok(CommandLine { program, args: words.collect() }),
        Some(_) | None => Err(missing_command()),
    }
}

fn missing_command() -> clap::Error {
    Arguments::command().error(ErrorKind::MissingRequiredArgument, "a command must follow \"--\"")
}

#[cfg(test)]
mod tests;
