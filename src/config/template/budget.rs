//! The limits of one rendering. Every loop, allocation and write is paid for here, so that a template cannot
//! run forever or fill the memory, whatever it says.

use std::rc::Rc;

use super::span::Span;
use super::{Result, TemplateError};

/// The longest source, output and intermediate text, in bytes.
pub(super) const MAX_TEXT: usize = 16 << 20;
/// The longest list.
pub(super) const MAX_ELEMENTS: usize = 1 << 20;
/// How deep `{{template}}` calls may nest.
pub(super) const MAX_CALLS: usize = 100;
/// How deep parentheses and blocks may nest in the source.
pub(super) const MAX_NESTING: usize = 100;
/// How deep all of these together may nest while rendering: the stack of a thread must hold them.
pub(super) const MAX_DEPTH: usize = 400;

const MAX_STEPS: u64 = 10_000_000;
const BYTES_PER_STEP: usize = 16;

/// The steps that are left.
#[derive(Debug)]
pub(super) struct Budget {
    steps: u64,
}

impl Budget {
    pub(super) fn new() -> Budget {
        Budget { steps: MAX_STEPS }
    }

    pub(super) fn spend(&mut self, steps: u64, at: Span) -> Result<()> {
        self.steps = self.steps.checked_sub(steps).ok_or_else(|| {
            TemplateError::new(at, format!("rendering takes too long: it is stopped after {MAX_STEPS} steps"))
        })?;
        Ok(())
    }

    /// Pays for a value of this size.
    pub(super) fn allocate(&mut self, bytes: usize, at: Span) -> Result<()> {
        self.spend((bytes / BYTES_PER_STEP) as u64, at)
    }

    /// Pays for a list before it is built, and refuses one that is too long.
    pub(super) fn allocate_list(&mut self, elements: usize, bytes_each: usize, at: Span) -> Result<()> {
        if elements > MAX_ELEMENTS {
            let message =
                format!("this list is too long: {elements} elements, expected at most {MAX_ELEMENTS}");
            return Err(TemplateError::new(at, message));
        }
        self.allocate(elements.saturating_mul(bytes_each), at)
    }
}

/// How deep parsing or rendering is nested.
#[derive(Debug)]
pub(super) struct Depth {
    levels: usize,
    most: usize,
}

impl Depth {
    pub(super) fn at_most(most: usize) -> Depth {
        Depth { levels: 0, most }
    }

    /// Goes one level deeper; every successful call is paired with [`Depth::ascend`].
    pub(super) fn descend(&mut self, at: Span) -> Result<()> {
        if self.levels >= self.most {
            let message = format!("this is nested too deep: expected at most {} levels", self.most);
            return Err(TemplateError::new(at, message));
        }
        self.levels += 1;
        Ok(())
    }

    pub(super) fn ascend(&mut self) {
        self.levels = self.levels.saturating_sub(1);
    }
}

/// A text under construction that stops growing at [`MAX_TEXT`]; [`Draft::finish`] tells.
///
/// Writing into it cannot fail, which keeps the formatting code free of error handling.
#[derive(Debug, Default)]
pub(super) struct Draft {
    text: String,
    full: bool,
    /// The work that went into the text beyond writing it, as bytes.
    toil: usize,
}

impl Draft {
    pub(super) fn push_str(&mut self, text: &str) {
        if self.full || text.len() > MAX_TEXT - self.text.len() {
            self.full = true;
        } else {
            self.text.push_str(text);
        }
    }

    pub(super) fn push(&mut self, character: char) {
        self.push_str(character.encode_utf8(&mut [0; 4]));
    }

    pub(super) fn push_repeated(&mut self, character: char, count: usize) {
        let bytes = count.saturating_mul(character.len_utf8());
        if self.full || bytes > MAX_TEXT - self.text.len() {
            self.full = true;
        } else {
            self.text.push_str(&character.encode_utf8(&mut [0; 4]).repeat(count));
        }
    }

    /// Notes work that costs as much as writing this many bytes. Too much of it ends the text, too.
    pub(super) fn toil(&mut self, bytes: usize) {
        self.toil = self.toil.saturating_add(bytes);
        self.full |= self.toil as u64 / BYTES_PER_STEP as u64 > MAX_STEPS;
    }

    /// Whether nothing more will fit, so that a loop can end early.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// The text, unless it would have grown too long.
    pub(super) fn finish(self, budget: &mut Budget, at: Span) -> Result<Rc<str>> {
        budget.allocate(self.toil, at)?;
        if self.full {
            return Err(too_long(at));
        }
        budget.allocate(self.text.len(), at)?;
        Ok(Rc::from(self.text))
    }
}

/// The error of a text that would exceed [`MAX_TEXT`].
pub(super) fn too_long(at: Span) -> TemplateError {
    TemplateError::new(at, format!("the text grows too long: expected at most {MAX_TEXT} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Span = Span { start: 3, end: 5 };

    #[test]
    fn spending_more_than_there_is_fails_at_the_given_place() {
        let mut budget = Budget::new();
        assert!(budget.spend(MAX_STEPS, HERE).is_ok());
        assert_eq!(budget.spend(1, HERE).unwrap_err().span, 3..5);
    }

    #[test]
    fn a_draft_stops_growing_at_its_limit() {
        let mut draft = Draft::default();
        draft.push_repeated('x', MAX_TEXT - 1);
        draft.push('x');
        assert!(!draft.is_full());
        draft.push('x');
        assert!(draft.is_full());
        assert!(draft.finish(&mut Budget::new(), HERE).is_err());
    }

    #[test]
    fn toil_is_paid_for_even_when_little_is_written() {
        let mut draft = Draft::default();
        draft.toil(usize::MAX);
        assert!(draft.is_full());
        assert!(draft.finish(&mut Budget::new(), HERE).unwrap_err().message.contains("takes too long"));
    }

    #[test]
    fn toil_may_take_all_steps_that_there_are() {
        let mut draft = Draft::default();
        draft.toil(MAX_STEPS as usize * BYTES_PER_STEP);
        assert!(!draft.is_full());
        assert!(draft.finish(&mut Budget::new(), HERE).is_ok());
    }

    #[test]
    fn a_list_may_have_as_many_elements_as_the_limit_says() {
        assert!(Budget::new().allocate_list(MAX_ELEMENTS, 1, HERE).is_ok());
        let error = Budget::new().allocate_list(MAX_ELEMENTS + 1, 1, HERE).unwrap_err();
        assert!(error.message.contains("too long"), "{error}");
    }

    #[test]
    fn a_repetition_too_long_to_count_is_refused_without_allocating() {
        let mut draft = Draft::default();
        draft.push_repeated('é', usize::MAX);
        assert!(draft.is_full());
    }

    #[test]
    fn depth_is_bounded() {
        let mut depth = Depth::at_most(MAX_DEPTH);
        for _ in 0..MAX_DEPTH {
            depth.descend(HERE).unwrap();
        }
        assert!(depth.descend(HERE).is_err());
        depth.ascend();
        assert!(depth.descend(HERE).is_ok());
    }
}
