//! Turns a configuration of ContainerPilot 2 into ours: one pure function from text to text. What it cannot know it
//! leaves to the reader, marked `DECIDE` in the result; what it does not know it keeps as a comment, marked `UNKNOWN`.
//! The template is not rendered but carried over.

mod convert;
mod jobs;
mod mask;
mod old;
mod writer;

use super::diagnostic::{Problem, Problems, Report};
use super::document::{self, Node};
use super::source::{SourceFile, Sources, Span};
use super::spec::CommandLine;
use convert::Converter;
use mask::{MaskError, Masked};
use old::Old;

/// The result of a migration.
#[derive(Debug)]
pub enum Migration {
    /// A configuration of ours.
    Migrated {
        /// The new configuration.
        text: String,
        /// Remarks for its reader, in the order of the text.
        remarks: Vec<Remark>,
    },
    /// The file has the keys of ContainerPilot 3, which are ours.
    Current,
}

/// Something that the reader of a migrated configuration should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The line of the old file that it is about, if there is one.
    pub line: Option<usize>,
    /// What it says.
    pub message: String,
}

/// Keys that only version 2 has.
pub(super) const OLD_KEYS: [&str; 7] =
    ["services", "backends", "tasks", "preStart", "preStop", "postStop", "etcd"];
/// Keys that only version 3 and we have.
pub(super) const NEW_KEYS: [&str; 6] = ["jobs", "watches", "control", "env", "groups", "shutdownSignals"];
/// The key of `telemetry` that version 2 did not have: there it was `sensors`.
const NEW_METRICS: &str = "metrics";

const STRAY: &str = "expected template actions within strings, in place of values, or `if`, `range` and `with` \
                     around whole entries of a list, found one elsewhere";
const STRAY_HELP: &str = "render the file first, with the variables that matter set: \
                          `containerpilot -config OLD -template -out PLAIN`; then migrate that";

/// Migrates the text of a file. `main` is the command that stood after the flags of version 2: the main application.
pub fn migrate(name: &str, text: &str, main: Option<&CommandLine>) -> Result<Migration, Report> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut sources = Sources::default();
    let file = sources.add(SourceFile::new(name.to_owned(), text.to_owned()));
    let mut problems = Problems::default();
    let wrong = |error: MaskError| Problem::error("template", Span::new(file, error.range), error.message);
    let masked = mask::mask(text).map_err(|error| problems.add(wrong(error))).ok();
    let migration = masked.and_then(|masked| {
        let root = document::parse(file, &masked.text, |_| None, &mut problems)?;
        convert(&root, text, &masked, main, &mut problems)
    });
    migration.filter(|_| !problems.has_errors()).ok_or_else(|| Report::new(sources, problems))
}

fn convert(
    root: &Node,
    text: &str,
    masked: &Masked,
    main: Option<&CommandLine>,
    problems: &mut Problems,
) -> Option<Migration> {
    let Some(entries) = root.as_object() else {
        problems.add(Problem::error("wrong-type", root.span, "expected a configuration in braces: { … }"));
        return None;
    };
    let find = |keys: &[&str]| entries.iter().find(|(key, _)| keys.contains(&key.name.as_str()));
    let telemetry = root.get("telemetry").and_then(Node::as_object).unwrap_or_default();
    let metrics = telemetry.iter().find(|(key, _)| key.name == NEW_METRICS);
    match (find(&OLD_KEYS), find(&NEW_KEYS).or(metrics)) {
        (None, Some(_)) => return Some(Migration::Current),
        (Some((old, _)), Some((new, _))) => {
            let message = format!(
                "expected a configuration of ContainerPilot 2, found `{}` of version 3 beside `{}`",
                new.name, old.name
            );
            problems.add(Problem::error("mixed-versions", new.span, message));
            return None;
        }
        (_, None) => {}
    }
    let old = Old::new(text, masked, problems);
    let (text, remarks, unhandled) = Converter::new(old, main).convert(root);
    for range in unhandled {
        problems.add(Problem::error("template", Span::new(root.span.file, range), STRAY).help(STRAY_HELP));
    }
    Some(Migration::Migrated { text, remarks })
}

#[cfg(test)]
mod tests;
