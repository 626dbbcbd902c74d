//! From a path to a validated configuration: read, render, parse, merge, validate, lint.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::decode;
use super::diagnostic::{Place, Problem, Problems, Report};
use super::document;
use super::lint;
use super::merge::{self, Merged};
use super::raw::RawConfig;
use super::source::{FileId, SourceFile, Sources, Span};
use super::spec::{CommandLine, JobSpec, MAIN, Spec};
use super::system::System;
use super::template::{self, Rendered};
use super::validate::{self, JobSpans, Validated};
use crate::reason::reason;

/// Larger files are refused: no configuration is, but a wrong path may be anything.
const LARGEST_FILE: u64 = 16 << 20;

/// A configuration that can be used.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration.
    pub spec: Spec,
    /// Warnings for its author.
    pub warnings: Report,
}

/// Loads and validates a file or a directory of files.
pub fn load(path: &Path, env: &BTreeMap<String, String>, system: &System) -> Result<Loaded, Report> {
    load_beside(None, path, env, system)
}

/// The same, where a command of the command line is one more job, `main`.
pub fn load_beside(
    main: Option<CommandLine>,
    path: &Path,
    env: &BTreeMap<String, String>,
    system: &System,
) -> Result<Loaded, Report> {
    let (loader, validated) = load_and_lint(main, path, env, system);
    loader.outcome(validated.spec)
}

/// A specification with nothing but a command, where there is no configuration. The command gets every signal but those
/// that stop it.
pub fn load_command(main: CommandLine) -> Loaded {
    let (mut spec, mut problems) = (Spec::default(), Problems::default());
    spec.add_main(main);
    if let Some(main) = spec.jobs.last_mut().map(Arc::make_mut) {
        main.forward = validate::forwardable();
    }
    lint::lint_command(&spec, &mut problems);
    Loaded { spec, warnings: Report::new(Sources::default(), problems) }
}

/// Everything that `check` says about a file or directory, where a command may be one more job, `main`.
pub fn check(
    main: Option<CommandLine>,
    path: &Path,
    env: &BTreeMap<String, String>,
    system: &System,
) -> Report {
    let (mut loader, Validated { spec, places }) = load_and_lint(main, path, env, system);
    if !loader.problems.has_errors() {
        lint::lint_metrics(&spec, &places, &mut loader.problems);
        lint::lint_machine(&spec, &places, env, &mut loader.problems);
    }
    Report::new(loader.sources, loader.problems.for_check())
}

/// The rendered text of a file; for a directory that of each file, after a comment with its path.
pub fn render(path: &Path, env: &BTreeMap<String, String>) -> Result<String, Report> {
    let mut loader = Loader::default();
    let paths = loader.paths(path);
    let is_directory = path.is_dir();
    let mut text = String::new();
    for path in &paths {
        let Some(file) = loader.read(path) else { continue };
        let Some(rendered) = loader.render(file, env) else { continue };
        if is_directory {
            text.push_str(&format!("// {}\n", path.display()));
        }
        text.push_str(&rendered.text);
        if is_directory && !text.ends_with('\n') {
            text.push('\n');
        }
    }
    loader.outcome(Spec::default()).map(|_| text)
}

/// Validates a text as if it were the only file of a configuration.
pub fn load_text(
    name: &str,
    text: &str,
    env: &BTreeMap<String, String>,
    system: &System,
) -> Result<Loaded, Report> {
    let mut loader = Loader::default();
    let file = loader.add(name.to_owned(), text.as_bytes().to_vec());
    let validated = loader.finish(file.into_iter().collect(), env, system);
    loader.outcome(validated.spec)
}

/// The texts of a configuration's files, as far as they can be read.
pub(super) fn readable_texts(path: &Path) -> Vec<String> {
    let paths = Loader::default().paths(path);
    let bytes = paths.iter().filter_map(|path| read_bytes(path).ok());
    bytes.filter_map(|bytes| String::from_utf8(bytes).ok()).collect()
}

fn load_and_lint(
    main: Option<CommandLine>,
    path: &Path,
    env: &BTreeMap<String, String>,
    system: &System,
) -> (Loader, Validated) {
    let mut loader = Loader { main, ..Loader::default() };
    let paths = loader.paths(path);
    let files = paths.iter().filter_map(|path| loader.read(path)).collect();
    let validated = loader.finish(files, env, system);
    (loader, validated)
}

#[derive(Default)]
struct Loader {
    sources: Sources,
    problems: Problems,
    /// The command that is one more job.
    main: Option<CommandLine>,
}

impl Loader {
    /// The specification with its warnings, or the errors.
    fn outcome(self, spec: Spec) -> Result<Loaded, Report> {
        let has_errors = self.problems.has_errors();
        let warnings = Report::new(self.sources, self.problems);
        if has_errors { Err(warnings) } else { Ok(Loaded { spec, warnings }) }
    }

    /// The files to read, in order.
    fn paths(&mut self, path: &Path) -> Vec<PathBuf> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => self.directory(path),
            Ok(_) => vec![path.to_owned()],
            Err(error) => {
                self.unreadable(path, &error);
                Vec::new()
            }
        }
    }

    fn directory(&mut self, path: &Path) -> Vec<PathBuf> {
        let entries: Result<Vec<fs::DirEntry>, io::Error> = fs::read_dir(path).and_then(Iterator::collect);
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                self.unreadable(path, &error);
                return Vec::new();
            }
        };
        let mut paths: Vec<PathBuf> =
            entries.iter().map(fs::DirEntry::path).filter(|path| is_configuration(path)).collect();
        paths.sort();
        if paths.is_empty() {
            let message = format!("cannot read {path:?}: the directory has no `*.json5` or `*.json` files");
            self.problems.add(Problem::error("no-files", Place::Nowhere, message));
        }
        paths
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        let message = format!("cannot read {path:?}: {}", reason(error));
        self.problems.add(Problem::error("unreadable", Place::Nowhere, message));
    }

    fn read(&mut self, path: &Path) -> Option<FileId> {
        match read_bytes(path) {
            Ok(bytes) => self.add(path.display().to_string(), bytes),
            Err(error) => {
                self.unreadable(path, &error);
                None
            }
        }
    }

    /// Takes a file's bytes if they are text.
    fn add(&mut self, name: String, bytes: Vec<u8>) -> Option<FileId> {
        let (text, invalid) = match String::from_utf8(bytes) {
            Ok(text) => (text, None),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                (String::from_utf8_lossy(error.as_bytes()).into_owned(), Some(valid))
            }
        };
        let text = match text.strip_prefix('\u{feff}') {
            Some(rest) if invalid.is_none() => rest.to_owned(),
            _ => text,
        };
        let nul = text.find('\0');
        let file = self.sources.add(SourceFile::new(name, text));
        if let Some(offset) = invalid {
            let place = Span::new(file, offset..offset + '\u{fffd}'.len_utf8());
            let message = "the file is not valid UTF-8 from here on";
            self.problems.add(Problem::error("not-utf8", place, message));
        } else if let Some(offset) = nul {
            let message = "the file contains a NUL byte: is it a text file?";
            self.problems.add(Problem::error("nul-byte", Span::new(file, offset..offset + 1), message));
        } else {
            return Some(file);
        }
        None
    }

    fn render(&mut self, file: FileId, env: &BTreeMap<String, String>) -> Option<&Rendered> {
        let source = self.sources.get_mut(file)?;
        match template::render(&source.written, env) {
            Ok(rendered) => Some(source.rendered.insert(rendered)),
            Err(error) => {
                let message = format!("template: {}", error.message);
                self.problems.add(Problem::error("template", Span::new(file, error.span), message));
                None
            }
        }
    }

    /// Everything from the text of the files to the linted configuration.
    fn finish(&mut self, files: Vec<FileId>, env: &BTreeMap<String, String>, system: &System) -> Validated {
        let mut incomplete = self.problems.has_errors();
        let mut merged = Merged::default();
        for file in files {
            match self.decode(file, env) {
                Some(config) => {
                    merge::report_duplicates(&config, &mut self.problems);
                    merged = merge::merge(merged, config.into());
                }
                None => incomplete = true,
            }
        }
        let added = self.main.as_ref().map(|_| MAIN);
        let mut validated =
            validate::validate(&merged.config, added, env, system, incomplete, &mut self.problems);
        if let Some(main) = self.main.take() {
            self.add_main(main, &mut validated);
        }
        lint::lint_shadowed(&merged.shadowed, &mut self.problems);
        if !self.problems.has_errors() {
            lint::lint(&validated.spec, &validated.places, &mut self.problems);
        }
        validated
    }

    fn add_main(&mut self, main: CommandLine, validated: &mut Validated) {
        let Validated { spec, places } = validated;
        let name = |(job, places): (&Arc<JobSpec>, &JobSpans)| (&*job.name == MAIN).then_some(places.name);
        match spec.jobs.iter().zip(&places.jobs).find_map(name) {
            Some(place) => {
                let message = "job \"main\": so is the command after `--` named; remove one of them";
                self.problems.add(Problem::error("duplicate-name", place, message));
            }
            None => {
                spec.add_main(main);
                places.jobs.push(JobSpans::default());
            }
        }
    }

    fn decode(&mut self, file: FileId, env: &BTreeMap<String, String>) -> Option<RawConfig> {
        self.render(file, env)?;
        let Rendered { text, map } = self.sources.get(file)?.rendered.as_ref()?;
        let last_hole = |offset| map.last_hole(offset);
        let node = document::parse(file, text, last_hole, &mut self.problems)?;
        decode::decode(&node, text, &mut self.problems)
    }
}

/// As the shell's `*.json5` and `*.json`: names that start with a dot are left out.
fn is_configuration(path: &Path) -> bool {
    let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let extension = path.extension().and_then(|extension| extension.to_str());
    !is_hidden && matches!(extension, Some("json5" | "json"))
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        // A pipe would block, a device may never end.
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(io::Error::other(format!("larger than {} MiB", LARGEST_FILE >> 20)));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
