//! Arguments → `Request`. Pure: reads no environment and no files, prints nothing.

mod command;
mod value;
mod words;

use std::cell::LazyCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser};

use super::argv::{self, Flag, Normalised};
use super::request::{CheckOptions, ClientRequest, Destination, Maintenance, Request};
use crate::config::spec::CommandLine;
use crate::messages::control::{ControlJob, JobOrder, Reload};
use command::Command;
use value::{duration, measurement, variable};
use words::{flag, flag_of_commands, is_command, unexpected, with_leftover, without_advice};

const USAGE: &str = "containerpilot [-config PATH] [-record FILE] [-- CMD [ARG]...]
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

    /// Write down every input of every decision, for `replay`; a file of 32 MiB becomes FILE.1
    #[arg(long, value_name = "FILE", conflicts_with = "mode")]
    record: Option<PathBuf>,

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
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = CLIENT)]
struct ClientFlags {
    /// Load the configuration again; jobs that did not change keep running
    #[arg(long, group = "mode")]
    reload: bool,

    /// With -reload: restart unchanged jobs too
    #[arg(long)]
    all: bool,

    /// With -reload: only tell what would start, stop and stay
    #[arg(long)]
    dry_run: bool,

    /// Exit 0 if it answers
    #[arg(long, group = "mode")]
    ping: bool,

    /// Exit 0 if the container is ready, or these jobs are; else 1, with the reasons
    #[arg(long, group = "mode", value_name = "JOB", num_args = 0..)]
    ready: Option<Vec<String>>,

    /// With -ready: wait for it, at most this long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,

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

/// The whole definition of the command line, for completions and the manual page.
pub fn definition() -> clap::Command {
    let mut command = Arguments::command();
    command.build();
    command
}

/// Reads a command line, the program's name first. `is_configured` says that the environment names a configuration. The
/// error is clap's: a usage error, or help that was asked for.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    is_configured: bool,
) -> Result<Request, clap::Error> {
    let mut command = Arguments::command();
    let whole = LazyCell::new(definition);
    let flag = |name: &str| flag(&command, name).or_else(|| flag_of_commands(&whole, name));
    let Normalised { arguments, rest } = argv::normalise(
        arguments,
        |name| flag(name).unwrap_or(Flag::Unknown),
        |word| is_command(&command, word),
    );
    if arguments.iter().position(|argument| argument == "--") == Some(arguments.len() - 1) {
        return Err(missing_command());
    }
    let mut matches = command.try_get_matches_from_mut(arguments).map_err(without_advice)?;
    let request = request(Arguments::from_arg_matches_mut(&mut matches)?)?;
    if rest.is_empty() {
        return Ok(request);
    }
    with_leftover(request, &rest, is_configured).ok_or_else(|| unexpected(&mut command, &rest))
}

fn request(parsed: Arguments) -> Result<Request, clap::Error> {
    let Arguments { config, socket, record, rendering, client, version, main, command } = parsed;
    let conflict = |message: &str| Arguments::command().error(ErrorKind::ArgumentConflict, message);
    if let Some((flag, mode)) = stray(&rendering, &client) {
        return Err(conflict(&format!("{flag} is only for {mode}")));
    }
    let flag = flag_request(&config, rendering, client, version);
    let is_alone = flag.is_none() && main.is_none() && record.is_none();
    let request = match (command, flag, main) {
        (Some(command), _, _) if is_alone => command_request(config, command)?,
        (Some(_), _, _) => {
            return Err(conflict(
                "of the flags, only -config and -socket can be used together with a command",
            ));
        }
        (None, Some(request), _) => request,
        (None, None, main) => {
            let main = main.map(command_line).transpose()?;
            Request::Supervise { config, main, leftover: Vec::new(), record }
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

/// A flag without the one that it belongs to. clap's `requires` asks for that only if it goes with the others that are given.
fn stray(rendering: &RenderingFlags, client: &ClientFlags) -> Option<(&'static str, &'static str)> {
    let lonely = [
        ("-out", "-template", rendering.out.is_some() && !rendering.template),
        ("-all", "-reload", client.all && !client.reload),
        ("-dry-run", "-reload", client.dry_run && !client.reload),
        ("-wait", "-ready", client.wait.is_some() && client.ready.is_none()),
    ];
    lonely.into_iter().find_map(|(flag, mode, is_stray)| is_stray.then_some((flag, mode)))
}

/// The request that the flags make; clap has refused more than one.
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
        ClientRequest::Reload(Reload { restart_all: client.all, dry_run: client.dry_run })
    } else if client.ping {
        ClientRequest::Ping
    } else if let Some(jobs) = client.ready {
        ClientRequest::Ready { jobs, wait: client.wait }
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
    let request = match command {
        Command::Check { strict, format, color, main } => {
            let main = main.map(command_line).transpose()?;
            return Ok(Request::Check { config, options: CheckOptions { strict, format, color }, main });
        }
        Command::Schema => return Ok(Request::Schema),
        Command::Migrate { old, out, main } => {
            let main = main.map(command_line).transpose()?;
            return Ok(Request::Migrate { old, destination: destination(out), main });
        }
        Command::Replay { record } => return Ok(Request::Replay { record }),
        Command::Status { jobs, watch, format } => ClientRequest::Status { jobs, format, watch },
        Command::Why { job, format } => ClientRequest::Why { job, format },
        Command::When { jobs } => ClientRequest::When { jobs },
        Command::Graph { format, main } => {
            ClientRequest::Graph { format, main: main.map(command_line).transpose()? }
        }
        Command::Events { since, follow } => ClientRequest::Events { since, follow },
        Command::Report { out } => ClientRequest::Report { out },
        Command::Crashes { job, format } => ClientRequest::Crashes { job, format },
        Command::Logs { jobs, follow, lines, since } => ClientRequest::Logs { jobs, follow, lines, since },
        Command::Start(arguments) => arguments.request(JobOrder::Start),
        Command::Stop(arguments) => arguments.request(JobOrder::Stop),
        Command::Restart(arguments) => arguments.request(JobOrder::Restart),
        Command::Signal { job: name, signal } => {
            ClientRequest::Job(ControlJob { name, order: JobOrder::Signal(signal) })
        }
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
