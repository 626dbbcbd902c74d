//! `regexReplaceAll`: expressions of Go's RE2 syntax, and replacements after Go's rules for `$1` and `${name}`.

use std::collections::HashMap;
use std::rc::Rc;

use regex_lite::{Captures, Regex, RegexBuilder};

use super::{Call, Outcome};
use crate::config::template::Result;
use crate::config::template::budget::Draft;

/// How large an expression may become when compiled; the first that suffices tells what a search costs.
const SIZES: [usize; 3] = [4 << 10, 32 << 10, 256 << 10];
/// A search costs one step per this many bytes of text times bytes of compiled expression.
const WORK_PER_STEP: usize = 64 << 10;

/// The expressions that have been compiled so far.
pub(super) type Regexes = HashMap<Rc<str>, Rc<Compiled>>;

#[derive(Debug)]
pub(super) struct Compiled {
    regex: Regex,
    size: usize,
}

/// `regexReplaceAll EXPRESSION REPLACEMENT TEXT`
pub(super) fn replace_all(call: &mut Call<'_>) -> Outcome {
    let (expression, replacement, text) = (call.text(0)?, call.text(1)?, call.text(2)?);
    let compiled = compile(call, &expression)?;
    let mut draft = Draft::default();
    let mut copied = 0;
    pay(call, &compiled, text.len())?;
    for captures in compiled.regex.captures_iter(&text) {
        let Some(found) = captures.get(0) else { break };
        draft.push_str(text.get(copied..found.start()).unwrap_or_default());
        expand(&mut draft, &replacement, &captures);
        copied = found.end();
        if draft.is_full() {
            break;
        }
        // A search may look at all that is left, even for a match that is near.
        pay(call, &compiled, text.len() - copied)?;
    }
    draft.push_str(text.get(copied..).unwrap_or_default());
    call.finish(draft)
}

fn pay(call: &mut Call<'_>, compiled: &Compiled, length: usize) -> Result<()> {
    let work = length.saturating_mul(compiled.size) / WORK_PER_STEP;
    call.session.budget.spend(1 + work as u64, call.span)
}

fn compile(call: &mut Call<'_>, expression: &Rc<str>) -> Result<Rc<Compiled>> {
    if let Some(compiled) = call.session.regexes.get(expression) {
        return Ok(Rc::clone(compiled));
    }
    let fault = |call: &Call<'_>, problem: &str| {
        call.argument_fault(0, format!("cannot compile the regular expression: {problem}"))
    };
    let translated = translate(expression).map_err(|problem| fault(call, problem))?;
    let mut problem = String::new();
    for size in SIZES {
        call.session.budget.spend((size + expression.len()) as u64, call.span)?;
        match RegexBuilder::new(&translated).size_limit(size).build() {
            Ok(regex) => {
                let compiled = Rc::new(Compiled { regex, size });
                call.session.regexes.insert(Rc::clone(expression), Rc::clone(&compiled));
                return Ok(compiled);
            }
            Err(error) => problem = error.to_string(),
        }
    }
    Err(fault(call, &problem))
}

/// Go's expression for regex-lite. To Go, `\<` and `\>` are the characters `<` and `>`, and the brace of `\b{start}` is a
/// character, too; to regex-lite, all of these are the beginning or end of a word.
fn translate(expression: &str) -> std::result::Result<String, &'static str> {
    let mut translated = String::with_capacity(expression.len());
    let mut rest = expression;
    while let Some((before, escaped)) = rest.split_once('\\') {
        translated.push_str(before);
        if escaped.starts_with("b{") || escaped.starts_with("B{") {
            return Err("a brace after `\\b` or `\\B` is not supported: write `\\{` for the character");
        }
        if !escaped.starts_with(['<', '>']) {
            translated.push('\\');
        }
        // The character after a backslash is copied here: it may be a backslash itself.
        let mut characters = escaped.chars();
        translated.extend(characters.next());
        rest = characters.as_str();
    }
    translated.push_str(rest);
    Ok(translated)
}

/// Writes a replacement: `$name` takes the longest name of letters, digits and underscores, `$$` is a dollar sign.
fn expand(draft: &mut Draft, replacement: &str, captures: &Captures<'_>) {
    let mut rest = replacement;
    while let Some((before, after)) = rest.split_once('$') {
        draft.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            draft.push('$');
            rest = after;
        } else if let Some((name, after)) = reference(after) {
            draft.push_str(group(name, captures).unwrap_or_default());
            rest = after;
        } else {
            draft.push('$');
            rest = after;
        }
    }
    draft.push_str(rest);
}

/// Reads the name after a `$`, in braces or not.
fn reference(text: &str) -> Option<(&str, &str)> {
    let is_name = |character: char| character == '_' || character.is_alphanumeric();
    let (braced, text) = match text.strip_prefix('{') {
        Some(inside) => (true, inside),
        None => (false, text),
    };
    let after = text.trim_start_matches(is_name);
    let name = text.get(..text.len() - after.len()).filter(|name| !name.is_empty())?;
    let after = if braced { after.strip_prefix('}')? } else { after };
    Some((name, after))
}

/// What a group matched. A number with a leading zero is a name, as in Go.
fn group<'t>(name: &str, captures: &Captures<'t>) -> Option<&'t str> {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
    let found = if is_number { captures.get(name.parse().ok()?) } else { captures.name(name) };
    found.map(|found| found.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::Session;
    use super::*;
    use crate::config::template::budget::Budget;
    use crate::config::template::span::Span;
    use crate::config::template::value::environment;

    const HERE: Span = Span { start: 0, end: 0 };

    fn replace(expression: &str, replacement: &str, text: &str) -> String {
        let regex = Regex::new(expression).unwrap();
        let mut draft = Draft::default();
        let captures = regex.captures(text).unwrap();
        expand(&mut draft, replacement, &captures);
        draft.finish(&mut Budget::new(), HERE).unwrap().to_string()
    }

    #[test]
    fn references_take_the_longest_name() {
        assert_eq!(replace("(a)(b)", "$2$1", "ab"), "ba");
        assert_eq!(replace("(a)(b)", "${2}x", "ab"), "bx");
        assert_eq!(replace("(a)(b)", "$2x|", "ab"), "|");
        assert_eq!(replace("(?P<first>a)", "[$first]", "a"), "[a]");
        assert_eq!(replace("(a)", "$0$00$01", "a"), "a");
        assert_eq!(replace("(a)|(b)", "<$2>", "a"), "<>");
    }

    #[test]
    fn a_dollar_without_a_name_stays() {
        assert_eq!(replace("a", "$$1 $ ${ ${} ${1 $-", "a"), "$1 $ ${ ${} ${1 $-");
        assert_eq!(replace("a", "5$", "a"), "5$");
    }

    #[test]
    fn even_a_search_of_an_empty_text_takes_a_step() {
        let mut session = Session::new(environment(&BTreeMap::new()));
        for steps in [1000, 1] {
            while session.budget.spend(steps, HERE).is_ok() {}
        }
        let mut call = Call { name: "regexReplaceAll", arguments: &[], span: HERE, session: &mut session };
        let compiled = Compiled { regex: Regex::new("a").unwrap(), size: SIZES[0] };
        assert!(pay(&mut call, &compiled, 0).is_err());
    }
}
