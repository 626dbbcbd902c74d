//! How problems look: with source lines for people, as objects for programs, as lines for a log.

use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet};
use serde_json::{Value, json};

use super::{Place, Problem, Severity};
use crate::config::secret::without_credentials;
use crate::config::source::{FileId, Output, SourceFile, Sources, Span, position};
use crate::printable::printable;

/// Marks this many lines apart or fewer share one excerpt.
const EXCERPT_LINES: usize = 200;

/// Marks this many bytes apart or fewer share one excerpt, too.
const EXCERPT_BYTES: usize = 32 << 10;

/// Of a longer line, only a part around the place is shown: to lay out all of it for each problem would take long.
const LONG_LINE: usize = 4 << 10;

/// How much of a long line is shown before and after a place, in bytes.
const LONG_LINE_PART: usize = 60;

/// More places than this that belong to one problem are not shown.
const MOST_RELATED: usize = 10;

/// Every problem with its source line, a blank line between each.
pub(super) fn people(sources: &Sources, problems: &[Problem], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let mut text = String::new();
    for problem in problems {
        if !text.is_empty() {
            text.push('\n');
        }
        let rendered = renderer.render(&[group(sources, problem)]);
        for line in rendered.lines().filter(|line| !announces_nothing(line)) {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

/// The renderer announces another file before an excerpt without a path, such as a part of a line, whose place is told
/// separately.
fn announces_nothing(line: &str) -> bool {
    let mut rest = line;
    let mut visible = String::new();
    while let Some((before, escape)) = rest.split_once("\x1b[") {
        visible.push_str(before);
        rest = escape.split_once('m').map_or("", |(_, after)| after);
    }
    visible.push_str(rest);
    visible.trim() == ":::"
}

fn group<'a>(sources: &'a Sources, problem: &'a Problem) -> Group<'a> {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut elements: Vec<Element<'a>> = Vec::new();
    match problem.place {
        Place::Nowhere => {}
        Place::File(file) => elements.push(Origin::path(sources.name(file)).into()),
        Place::At(span) => elements.extend(excerpts(sources, problem, span)),
    }
    elements.extend(notes(sources, problem).into_iter().map(|note| Level::NOTE.message(note).into()));
    elements.extend(problem.help.iter().map(|help| Level::HELP.message(help).into()));
    level.primary_title(&problem.message).id(problem.code).elements(elements)
}

/// The facts of a problem, and what the template made of its place.
fn notes(sources: &Sources, problem: &Problem) -> Vec<String> {
    let mut notes = problem.notes.clone();
    if let Place::At(span) = problem.place
        && let Some(rendered) = sources.get(span.file).and_then(|file| file.origin(span.range()).rendered)
    {
        notes.push(match rendered {
            Output::Text(text) if is_one_word(&text) => {
                format!("the template rendered this as: {}", printable(&without_credentials(&text)))
            }
            Output::Text(_) => {
                "the template rendered this; what it rendered is not shown, since a command or a URL may hold a secret".to_owned()
            }
            Output::Nothing { unset: Some(name) } => {
                format!("the template rendered nothing here: {name} is not set")
            }
            Output::Nothing { unset: None } => "the template rendered nothing here".to_owned(),
        });
    }
    notes
}

/// Whether a value is neither a command, nor a list or object, nor a URL with a query.
fn is_one_word(text: &str) -> bool {
    !text.contains(|letter: char| letter.is_whitespace() || "[{?".contains(letter))
}

/// Source lines around the places of a problem: one excerpt per file, or per place if they are far apart.
fn excerpts<'a>(sources: &'a Sources, problem: &'a Problem, span: Span) -> Vec<Element<'a>> {
    let mut marks: Vec<(FileId, Mark)> = Vec::new();
    marks.extend(mark(sources, span, AnnotationKind::Primary, problem.label.as_deref()));
    for (related, label) in problem.related.iter().take(MOST_RELATED) {
        marks.extend(mark(sources, *related, AnnotationKind::Context, Some(label)));
    }
    let mut excerpts: Vec<(FileId, Vec<Mark>)> = Vec::new();
    for (file, mark) in marks {
        let near = excerpts
            .iter_mut()
            .find(|(other, marks)| *other == file && marks.iter().all(|other| mark.is_near(other)));
        match near {
            Some((_, marks)) => marks.push(mark),
            None => excerpts.push((file, vec![mark])),
        }
    }
    let mut elements = Vec::new();
    for (id, marks) in excerpts {
        let Some(file) = sources.get(id) else { continue };
        match marks.as_slice() {
            [mark] if mark.is_in_long_line => elements.extend(part_of_line(file, mark)),
            marks => elements.push(excerpt(file, marks).into()),
        }
    }
    elements
}

struct Mark {
    range: Range<usize>,
    line: usize,
    column: usize,
    is_in_long_line: bool,
    kind: AnnotationKind,
    label: Option<String>,
}

impl Mark {
    /// Whether one excerpt shows both.
    fn is_near(&self, other: &Self) -> bool {
        !self.is_in_long_line
            && !other.is_in_long_line
            && self.line.abs_diff(other.line) <= EXCERPT_LINES
            && self.range.start.abs_diff(other.range.start) <= EXCERPT_BYTES
    }

    fn annotation<'a>(&self, range: Range<usize>) -> Annotation<'a> {
        let annotation = self.kind.span(range);
        match &self.label {
            Some(label) => annotation.label(label.clone()),
            None => annotation,
        }
    }
}

fn mark(sources: &Sources, span: Span, kind: AnnotationKind, label: Option<&str>) -> Option<(FileId, Mark)> {
    let file = sources.get(span.file)?;
    let range = first_line(&file.written, file.origin(span.range()).range);
    let (line, column) = position(&file.written, range.start);
    let is_in_long_line = line_around(&file.written, &range).len() > LONG_LINE;
    let label = label.map(str::to_owned);
    Some((span.file, Mark { range, line, column, is_in_long_line, kind, label }))
}

/// The whole lines that a range is in.
fn line_around(text: &str, range: &Range<usize>) -> Range<usize> {
    let start =
        text.get(..range.start).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
    let after = text.get(range.end..).and_then(|after| after.find('\n'));
    start..after.map_or(text.len(), |newline| range.end + newline)
}

/// The part of a line around a place.
fn part_of_line<'a>(file: &'a SourceFile, mark: &Mark) -> Vec<Element<'a>> {
    let text = file.masked();
    let line = line_around(text, &mark.range);
    let start = text.floor_char_boundary(mark.range.start.saturating_sub(LONG_LINE_PART)).max(line.start);
    // The marked part may be long, such as a whole object.
    let marked_end = text.floor_char_boundary(mark.range.end.min(mark.range.start + LONG_LINE_PART));
    let end = text.ceil_char_boundary(marked_end + LONG_LINE_PART).min(line.end);
    let ellipsis = |is_cut: bool| if is_cut { "…" } else { "" };
    let before = ellipsis(start > line.start);
    let part = text.get(start..end).unwrap_or_default();
    let source = format!("{before}{part}{}", ellipsis(end < line.end));
    let offset = |byte: usize| byte.saturating_sub(start) + before.len();
    let range = offset(mark.range.start)..offset(marked_end);
    let origin = Origin::path(file.name.as_str()).line(mark.line).char_column(mark.column);
    let snippet = Snippet::source(source).line_start(mark.line).annotation(mark.annotation(range));
    vec![origin.into(), snippet.into()]
}

fn excerpt<'a>(file: &'a SourceFile, marks: &[Mark]) -> Snippet<'a, Annotation<'a>> {
    let text = file.masked();
    let first = marks.iter().map(|mark| mark.range.start).min().unwrap_or(0);
    let last = marks.iter().map(|mark| mark.range.end).max().unwrap_or(0);
    let Range { start, end } = line_around(text, &(first..last));
    let line_start = position(text, start).0;
    let annotations = marks.iter().map(|mark| {
        mark.annotation(mark.range.start.saturating_sub(start)..mark.range.end.saturating_sub(start))
    });
    Snippet::source(text.get(start..end).unwrap_or_default())
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
    let (file, start, end) = match problem.place {
        Place::Nowhere => (None, None, None),
        Place::File(file) => (Some(sources.name(file)), None, None),
        Place::At(span) => place(sources, span),
    };
    let related = problem.related.iter().map(|(span, label)| {
        let (file, start, end) = place(sources, *span);
        json!({
            "file": file,
            "line": start.map(|start| start.0),
            "column": start.map(|start| start.1),
            "endLine": end.map(|end| end.0),
            "endColumn": end.map(|end| end.1),
            "message": label,
        })
    });
    json!({
        "severity": problem.severity.name(),
        "code": problem.code,
        "message": problem.message,
        "file": file,
        "line": start.map(|start| start.0),
        "column": start.map(|start| start.1),
        "endLine": end.map(|end| end.0),
        "endColumn": end.map(|end| end.1),
        "help": problem.help,
        "notes": notes(sources, problem),
        "related": related.collect::<Vec<Value>>(),
    })
}

/// A line and a column.
type Position = (usize, usize);

/// A file and where a span of it begins and ends, as it was written.
fn place(sources: &Sources, span: Span) -> (Option<&str>, Option<Position>, Option<Position>) {
    let range = sources.get(span.file).map(|file| {
        let range = file.origin(span.range()).range;
        (position(&file.written, range.start), position(&file.written, range.end))
    });
    let (start, end) = range.unzip();
    (Some(sources.name(span.file)), start, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report about a place and one that belongs to it, each a file and a range of its text.
    fn shown(files: &[&str], places: &[(u32, Range<usize>)]) -> String {
        let mut sources = Sources::default();
        for (number, text) in files.iter().enumerate() {
            sources.add(SourceFile::new(format!("f{number}"), (*text).to_owned()));
        }
        let mut spans = places.iter().map(|(file, range)| Span::new(FileId(*file), range.clone()));
        let problem = Problem::error("code", spans.next().unwrap(), "wrong");
        let problem = spans.fold(problem, |problem, span| problem.related(span, "here too"));
        people(&sources, &[problem], false)
    }

    #[test]
    fn of_a_long_line_the_part_around_a_place_is_shown() {
        let line = "abcdefghij".repeat(500);
        let text = format!("{{\n{line}\n}}");
        let of_line = |range: Range<usize>| shown(&[&text], &[(0, range.start + 2..range.end + 2)]);
        for (range, expected, indent) in [
            (1000..1004, format!("…{}…", &line[940..1064]), 61),
            (60..64, format!("{}…", &line[..124]), 60),
            (0..4, format!("{}…", &line[..64]), 0),
            (4996..5000, format!("…{}", &line[4936..]), 61),
        ] {
            let column = range.start + 1;
            assert_eq!(
                of_line(range),
                format!(
                    "error[code]: wrong\n --> f0:2:{column}\n  |\n2 | {expected}\n  | {}^^^^\n",
                    " ".repeat(indent)
                )
            );
        }
        let long_mark = of_line(1000..1100);
        assert_eq!(long_mark.matches('^').count(), LONG_LINE_PART, "{long_mark}");
    }

    #[test]
    fn a_line_is_long_beyond_4_kib() {
        for (length, is_long) in [(LONG_LINE, false), (LONG_LINE + 1, true), (LONG_LINE + 2, true)] {
            let text = format!("{{\n{}\n}}", "x".repeat(length));
            assert_eq!(shown(&[&text], &[(0, 1000..1004)]).contains('…'), is_long, "{length}");
        }
    }

    #[test]
    fn places_that_are_near_each_other_in_one_file_share_an_excerpt() {
        let short_lines = "x\n".repeat(300);
        let lines = format!("{}\n", "x".repeat(999)).repeat(40);
        let long_line = format!("x\n{}", "x".repeat(LONG_LINE + 1));
        for (files, first, second, excerpts) in [
            ([short_lines.as_str(), ""], (0, 0), (0, 2 * EXCERPT_LINES), 1),
            ([&short_lines, ""], (0, 0), (0, 2 * EXCERPT_LINES + 2), 2),
            ([&lines, ""], (0, 0), (0, EXCERPT_BYTES), 1),
            ([&lines, ""], (0, 0), (0, EXCERPT_BYTES + 1), 2),
            ([&long_line, ""], (0, 0), (0, 2), 2),
            ([&long_line, ""], (0, 2), (0, 0), 2),
            ([&long_line, ""], (0, 2), (0, 12), 2),
            (["x", "x"], (0, 0), (1, 0), 2),
        ] {
            let places = [first, second].map(|(file, start)| (file, start..start + 1));
            let report = shown(&files, &places);
            let found =
                report.lines().filter(|line| line.contains("--> f") || line.contains("::: f")).count();
            assert_eq!(found, excerpts, "{report}");
        }
    }
}
