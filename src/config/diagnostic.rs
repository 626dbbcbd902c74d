//! Problems of a configuration and their places: one [`Problem`] per finding, collected into a
//! [`Report`] that is printed for people or written as JSON for editors and CI.

mod render;

use std::cmp::Reverse;
use std::fmt;

use super::secret::without_credentials;
use super::source::{FileId, Sources, Span};
use crate::printable::printable_lines;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration works, but likely not as meant.
    Warning,
    /// The configuration cannot be used.
    Error,
}

impl Severity {
    /// The word that starts a message.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Where a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Not in a file: an environment variable, or a path that cannot be read.
    Nowhere,
    /// The whole of a file.
    File(FileId),
    /// A part of a file.
    At(Span),
}

impl From<Span> for Place {
    fn from(span: Span) -> Self {
        Self::At(span)
    }
}

/// Something that a user should correct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is when the program starts.
    pub severity: Severity,
    /// Whether `check` treats it as an error although a start only warns.
    pub error_in_check: bool,
    /// Its kind, in kebab-case, for filters and documentation.
    pub code: &'static str,
    /// What is wrong, in the user's words.
    pub message: String,
    /// Where it is.
    pub place: Place,
    /// A few words beside the marked place.
    pub label: Option<String>,
    /// Other places that belong to it.
    pub related: Vec<(Span, String)>,
    /// A suggestion.
    pub help: Option<String>,
    /// Further facts.
    pub notes: Vec<String>,
}

impl Problem {
    /// A problem that prevents the use of the configuration.
    pub fn error(code: &'static str, place: impl Into<Place>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            error_in_check: false,
            code,
            message: message.into(),
            place: place.into(),
            label: None,
            related: Vec::new(),
            help: None,
            notes: Vec::new(),
        }
    }

    /// A problem that the program can live with.
    pub fn warning(code: &'static str, place: impl Into<Place>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, place, message) }
    }

    /// A problem that the program can live with and that `check` refuses.
    pub fn refused_by_check(code: &'static str, place: impl Into<Place>, message: impl Into<String>) -> Self {
        Self { error_in_check: true, ..Self::warning(code, place, message) }
    }

    /// Adds a few words beside the marked place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Says what would be right.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Says what would be right, if something is known.
    #[must_use]
    pub fn maybe_help(mut self, help: Option<impl Into<String>>) -> Self {
        self.help = help.map(Into::into).or(self.help);
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Takes from its words what no report may show, and what a terminal would obey.
    fn clean(&mut self) {
        let related = self.related.iter_mut().map(|(_, label)| label);
        let words = [&mut self.message].into_iter().chain(&mut self.label).chain(&mut self.help);
        for text in words.chain(&mut self.notes).chain(related) {
            *text = printable_lines(&without_credentials(text));
        }
    }

    /// Points to another place that belongs to it.
    #[must_use]
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related.push((span, label.into()));
        self
    }
}

/// The collector that every stage writes to.
#[derive(Debug, Default)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Adds a problem.
    pub fn add(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// Whether an error is among them.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// The same problems with the severities that `check` uses.
    #[must_use]
    pub fn for_check(mut self) -> Self {
        for problem in self.0.iter_mut().filter(|problem| problem.error_in_check) {
            problem.severity = Severity::Error;
        }
        self
    }

    /// The problems found so far, in the order of finding.
    pub fn found(&self) -> &[Problem] {
        &self.0
    }
}

/// More problems than this are only counted: nobody reads them, and the first ones often lead to the others.
const MOST_SHOWN: usize = 100;

/// The problems of a configuration, with the files that they are in.
#[derive(Debug, Default)]
pub struct Report {
    sources: Sources,
    problems: Vec<Problem>,
    left_out: LeftOut,
}

/// How many problems a report only counts.
#[derive(Debug, Clone, Copy, Default)]
struct LeftOut {
    errors: usize,
    warnings: usize,
}

impl LeftOut {
    /// A sentence about them, if there are any.
    fn note(self) -> Option<String> {
        match self.errors + self.warnings {
            0 => None,
            1 => Some("1 more problem is not shown".to_owned()),
            many => Some(format!("{many} more problems are not shown")),
        }
    }
}

impl Report {
    /// Puts problems into the order of their files and places. Of very many, the first errors are kept, then the first
    /// warnings.
    pub fn new(sources: Sources, problems: Problems) -> Self {
        let mut problems = problems.0;
        problems.sort_by_key(|problem| match problem.place {
            Place::Nowhere => (FileId::default(), 0, Reverse(0)),
            Place::File(file) => (file, 0, Reverse(0)),
            Place::At(span) => (span.file, span.start, Reverse(span.end)),
        });
        problems.dedup();
        let left_out = keep_first(&mut problems);
        problems.iter_mut().for_each(Problem::clean);
        Self { sources, problems, left_out }
    }

    /// The problems that are shown, in file order.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// How many problems have this severity.
    pub fn count(&self, severity: Severity) -> usize {
        let left_out = match severity {
            Severity::Error => self.left_out.errors,
            Severity::Warning => self.left_out.warnings,
        };
        self.problems.iter().filter(|problem| problem.severity == severity).count() + left_out
    }

    /// Whether the configuration cannot be used.
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// One line that says how many problems there are, such as `2 errors, 1 warning`.
    pub fn summary(&self) -> String {
        let count = |severity: Severity| match self.count(severity) {
            0 => None,
            1 => Some(format!("1 {}", severity.name())),
            many => Some(format!("{many} {}s", severity.name())),
        };
        let parts: Vec<String> =
            [count(Severity::Error), count(Severity::Warning)].into_iter().flatten().collect();
        if parts.is_empty() { "no problems".to_owned() } else { parts.join(", ") }
    }

    /// One line per problem, for a log: `file:line:column: message`.
    pub fn lines(&self) -> impl Iterator<Item = (Severity, String)> + '_ {
        let more = if self.left_out.errors > 0 { Severity::Error } else { Severity::Warning };
        let shown =
            self.problems.iter().map(|problem| (problem.severity, render::line(&self.sources, problem)));
        shown.chain(self.left_out.note().map(|note| (more, note)))
    }

    /// The report for people: each problem with its source line and the place marked.
    pub fn render(&self, colour: bool) -> String {
        let mut text = render::people(&self.sources, &self.problems, colour);
        if let Some(note) = self.left_out.note() {
            text.push_str(&format!("\n{note}\n"));
        }
        text
    }

    /// The report for programs: an array of objects with `severity`, `code`, `message`, `file`, `line`,
    /// `column`, `endLine`, `endColumn`, `help`, `notes` and `related`, the latter with places and messages. If some are
    /// left out, the last one says how many.
    pub fn to_json(&self) -> serde_json::Value {
        let severity = if self.left_out.errors > 0 { Severity::Error } else { Severity::Warning };
        let more = self
            .left_out
            .note()
            .map(|note| Problem { severity, ..Problem::error("more-problems", Place::Nowhere, note) });
        let problems: Vec<Problem> = self.problems.iter().cloned().chain(more).collect();
        render::json(&self.sources, &problems)
    }
}

/// Leaves out what is too much: warnings before errors, later ones before earlier ones.
fn keep_first(problems: &mut Vec<Problem>) -> LeftOut {
    let is_error = |problem: &Problem| problem.severity == Severity::Error || problem.error_in_check;
    let mut errors = MOST_SHOWN;
    let mut warnings = MOST_SHOWN.saturating_sub(problems.iter().filter(|problem| is_error(problem)).count());
    let mut left_out = LeftOut::default();
    problems.retain(|problem| {
        let room = if is_error(problem) { &mut errors } else { &mut warnings };
        let is_kept = *room > 0;
        *room = room.saturating_sub(1);
        match problem.severity {
            _ if is_kept => {}
            Severity::Error => left_out.errors += 1,
            Severity::Warning => left_out.warnings += 1,
        }
        is_kept
    });
    left_out
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Report {}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(errors: usize, refused_by_check: usize, warnings: usize) -> Problems {
        let mut problems = Problems::default();
        let text = |number: usize| format!("number {number}");
        (0..errors).for_each(|n| problems.add(Problem::error("e", Place::Nowhere, text(n))));
        (0..refused_by_check)
            .for_each(|n| problems.add(Problem::refused_by_check("r", Place::Nowhere, text(n))));
        (0..warnings).for_each(|n| problems.add(Problem::warning("w", Place::Nowhere, text(n))));
        problems
    }

    fn report(problems: Problems) -> Report {
        Report::new(Sources::default(), problems)
    }

    /// The severity and text of the last line, and the severity of the last object.
    fn end(report: &Report) -> (Severity, String, String) {
        let (severity, line) = report.lines().last().unwrap();
        let json = report.to_json();
        let last = json.as_array().unwrap().last().unwrap()["severity"].as_str().unwrap().to_owned();
        (severity, line, last)
    }

    #[test]
    fn of_too_many_problems_the_rest_is_counted() {
        let at_start = report(problems(MOST_SHOWN + 2, 3, 4));
        assert_eq!(at_start.problems().len(), MOST_SHOWN);
        assert_eq!((at_start.count(Severity::Error), at_start.count(Severity::Warning)), (MOST_SHOWN + 2, 7));
        assert!(at_start.has_errors());
        assert_eq!(
            end(&at_start),
            (Severity::Error, "9 more problems are not shown".to_owned(), "error".to_owned())
        );
        let checked = report(problems(MOST_SHOWN + 2, 3, 4).for_check());
        assert_eq!((checked.count(Severity::Error), checked.count(Severity::Warning)), (MOST_SHOWN + 5, 4));
    }

    #[test]
    fn a_rest_without_errors_is_a_warning() {
        let report = report(problems(0, 0, MOST_SHOWN + 1));
        assert!(!report.has_errors());
        assert_eq!(
            end(&report),
            (Severity::Warning, "1 more problem is not shown".to_owned(), "warning".to_owned())
        );
    }

    #[test]
    fn a_rest_that_check_refuses_is_an_error_there_only() {
        let at_start = report(problems(0, MOST_SHOWN + 1, 0));
        assert_eq!((end(&at_start).0, at_start.has_errors()), (Severity::Warning, false));
        let checked = report(problems(0, MOST_SHOWN + 1, 0).for_check());
        assert_eq!((end(&checked).0, checked.has_errors()), (Severity::Error, true));
    }
}
