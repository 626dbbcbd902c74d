//! How problems look: with source lines for people, as objects for programs, as lines for a log.

use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet};
use serde_json::{Value, json};

use super::{Place, Problem, Severity};
use crate::config::source::{FileId, SourceFile, Sources, Span, position};

/// Marks this many lines apart or fewer share one excerpt.
const EXCERPT_LINES: usize = 200;

/// Every problem with its source line, a blank line between each.
pub(super) fn people(sources: &Sources, problems: &[Problem], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let mut text = String::new();
    for problem in problems {
        if !text.is_empty() {
            text.push('\n');
        }
        let rendered = renderer.render(&[group(sources, problem)]);
        for line in rendered.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

fn group<'a>(sources: &'a Sources, problem: &'a Problem) -> Group<'a> {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut elements: Vec<Element<'a>> = Vec::new();
    let mut notes = problem.notes.clone();
    match problem.place {
        Place::Nowhere => {}
        Place::File(file) => elements.push(Origin::path(sources.name(file)).into()),
        Place::At(span) => {
            elements.extend(excerpts(sources, problem, span));
            let origin = sources.get(span.file).map(|file| file.origin(span.range()));
            if let Some(rendered) = origin.and_then(|origin| origin.rendered) {
                notes.push(format!("the template rendered this as: {rendered}"));
            }
        }
    }
    elements.extend(notes.into_iter().map(|note| Level::NOTE.message(note).into()));
    elements.extend(problem.help.iter().map(|help| Level::HELP.message(help).into()));
    level.primary_title(&problem.message).id(problem.code).elements(elements)
}

/// Source lines around the places of a problem: one excerpt per file, or per place if they are far apart.
fn excerpts<'a>(sources: &'a Sources, problem: &'a Problem, span: Span) -> Vec<Element<'a>> {
    let mut marks: Vec<(FileId, Mark)> = Vec::new();
    marks.extend(mark(sources, span, AnnotationKind::Primary, problem.label.as_deref()));
    for (related, label) in &problem.related {
        marks.extend(mark(sources, *related, AnnotationKind::Context, Some(label)));
    }
    let mut excerpts: Vec<(FileId, Vec<Mark>)> = Vec::new();
    for (file, mark) in marks {
        let near = excerpts.iter_mut().find(|(other, marks)| {
            *other == file && marks.iter().all(|other| other.line.abs_diff(mark.line) <= EXCERPT_LINES)
        });
        match near {
            Some((_, marks)) => marks.push(mark),
            None => excerpts.push((file, vec![mark])),
        }
    }
    excerpts
        .into_iter()
        .filter_map(|(file, marks)| Some(excerpt(sources.get(file)?, &marks).into()))
        .collect()
}

struct Mark {
    range: Range<usize>,
    line: usize,
    kind: AnnotationKind,
    label: Option<String>,
}

fn mark(sources: &Sources, span: Span, kind: AnnotationKind, label: Option<&str>) -> Option<(FileId, Mark)> {
    let file = sources.get(span.file)?;
    let range = first_line(&file.written, file.origin(span.range()).range);
    let line = position(&file.written, range.start).0;
    Some((span.file, Mark { range, line, kind, label: label.map(str::to_owned) }))
}

fn excerpt<'a>(file: &'a SourceFile, marks: &[Mark]) -> Snippet<'a, Annotation<'a>> {
    let text = file.masked().into_owned();
    let first = marks.iter().map(|mark| mark.range.start).min().unwrap_or(0);
    let last = marks.iter().map(|mark| mark.range.end).max().unwrap_or(0);
    let start = text.get(..first).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
    let end =
        text.get(last..).and_then(|after| after.find('\n')).map_or(text.len(), |newline| last + newline);
    let line_start = position(&text, start).0;
    let annotations = marks.iter().map(|mark| {
        let range = mark.range.start.saturating_sub(start)..mark.range.end.saturating_sub(start);
        let annotation = mark.kind.span(range);
        match &mark.label {
            Some(label) => annotation.label(label.clone()),
            None => annotation,
        }
    });
    Snippet::source(text.get(start..end).unwrap_or_default().to_owned())
        .path(file.name.as_str())
        .line_start(line_start)
        .annotations(annotations)
}

/// A mark over several lines hides more than it shows: keep to the first.
fn first_line(text: &str, range: Range<usize>) -> Range<usize> {
    let marked = text.get(range.clone()).unwrap_or_default();
    let line = marked.lines().next().unwrap_or_default().trim_end();
    range.start..range.start + line.len()
}

/// `file:line:column: message`.
pub(super) fn line(sources: &Sources, problem: &Problem) -> String {
    let mut text = match problem.place {
        Place::Nowhere => String::new(),
        Place::File(file) => format!("{}: ", sources.name(file)),
        Place::At(span) => match sources.get(span.file) {
            Some(file) => {
                let (line, column) = position(&file.written, file.origin(span.range()).range.start);
                format!("{}:{line}:{column}: ", file.name)
            }
            None => String::new(),
        },
    };
    text.push_str(&problem.message);
    if let Some(help) = &problem.help {
        text.push_str(&format!(" ({help})"));
    }
    text
}

/// An array with one object per problem.
pub(super) fn json(sources: &Sources, problems: &[Problem]) -> Value {
    problems.iter().map(|problem| object(sources, problem)).collect()
}

fn object(sources: &Sources, problem: &Problem) -> Value {
    let mut object = json!({
        "severity": problem.severity.name(),
        "code": problem.code,
        "message": problem.message,
        "file": Value::Null,
        "line": Value::Null,
        "column": Value::Null,
        "endLine": Value::Null,
        "endColumn": Value::Null,
        "help": problem.help,
    });
    let mut set = |key: &str, value: Value| {
        if let Some(map) = object.as_object_mut() {
            map.insert(key.to_owned(), value);
        }
    };
    match problem.place {
        Place::Nowhere => {}
        Place::File(file) => set("file", sources.name(file).into()),
        Place::At(span) => {
            set("file", sources.name(span.file).into());
            if let Some(file) = sources.get(span.file) {
                let range = file.origin(span.range()).range;
                let (line, column) = position(&file.written, range.start);
                let (end_line, end_column) = position(&file.written, range.end);
                set("line", line.into());
                set("column", column.into());
                set("endLine", end_line.into());
                set("endColumn", end_column.into());
            }
        }
    }
    object
}
