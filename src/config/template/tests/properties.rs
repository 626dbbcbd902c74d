//! What holds for every source.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::env;
use crate::config::template::render;

/// Pieces that, put together at random, often make a template that parses.
const FRAGMENTS: [&str; 64] = [
    "{{",
    "}}",
    "{{- ",
    " -}}",
    " ",
    "\n",
    "x",
    "é",
    "{{/* c */}}",
    "{{ end }}",
    "{{ else }}",
    "{{ if .NAME }}",
    "{{ if .NONAME }}",
    "{{ else if 1 }}",
    "{{ range loop 3 }}",
    "{{ range $i, $e := split \":\" .PARTS }}",
    "{{ with .USER }}",
    "{{ else with 1 }}",
    "{{ define \"T\" }}",
    "{{ template \"T\" . }}",
    "{{ block \"B\" . }}",
    "{{ break }}",
    "{{ continue }}",
    "{{ $x := 1 }}",
    "{{ $x = 2 }}",
    "{{ $x }}",
    "{{ . }}",
    "{{ .NAME }}",
    "{{ .NAME.X }}",
    "{{ nil }}",
    "$x",
    "$",
    ".",
    ".NAME",
    ".COUNT",
    "(",
    ")",
    "|",
    ":=",
    "=",
    ",",
    "\"a\"",
    "`b`",
    "'c'",
    "1",
    "-1",
    "1.5",
    "0x1p2",
    "true",
    "nil",
    "printf",
    "\"%5.2v|%[2]*d%!\"",
    "print",
    "eq",
    "lt",
    "index",
    "slice",
    "len",
    "split",
    "join",
    "loop",
    "regexReplaceAll",
    "replaceAll",
    "default",
];

fn fragments() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(FRAGMENTS.as_slice()), 0..24).prop_map(|parts| parts.concat())
}

/// An action with random words in it: most parse, and many run.
fn actions() -> impl Strategy<Value = String> {
    let words = prop::collection::vec(prop::sample::select(&FRAGMENTS[30..]), 1..8);
    prop::collection::vec(words, 1..4).prop_map(|actions| {
        actions.into_iter().map(|words| format!("é {{{{ {} }}}} ", words.join(" "))).collect()
    })
}

/// Renders, and checks all that must hold of the answer.
fn examine(source: &str, env: &BTreeMap<String, String>) {
    match render(source, env) {
        Ok(rendered) => {
            for (output, input) in rendered.map.literal_segments() {
                assert_eq!(rendered.text[output], source[input]);
            }
            let mut positions: Vec<usize> = rendered.text.char_indices().map(|(at, _)| at).take(50).collect();
            positions.extend([rendered.text.len(), rendered.text.len() + 7]);
            for (at, from) in positions.iter().enumerate() {
                for to in positions.iter().skip(at) {
                    let origin = rendered.map.locate(*from..*to);
                    let text = source.get(origin.span).expect("a span on character boundaries");
                    if let Some(part) = rendered.text.get(*from..*to).filter(|_| origin.verbatim) {
                        assert_eq!(text, part);
                    }
                }
            }
        }
        Err(error) => {
            assert!(source.get(error.span.clone()).is_some(), "{error} at {:?}", error.span);
            assert!(!error.message.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_rendering_panic(source in ".{0,80}") {
        examine(&source, &env());
    }

    #[test]
    fn no_action_makes_rendering_panic(inside in ".{0,40}") {
        examine(&format!("a{{{{{inside}}}}}b"), &env());
    }

    #[test]
    fn no_sequence_of_fragments_makes_rendering_panic(source in fragments()) {
        examine(&source, &env());
    }

    #[test]
    fn no_action_of_known_words_makes_rendering_panic(source in actions()) {
        examine(&source, &env());
    }

    #[test]
    fn no_format_makes_printf_panic(format in "[%#+0 .*\\[\\]0-9a-zA-Zé-]{0,20}") {
        let quoted = format!("{{{{ printf `{format}` 1 \"a\" 2.5 nil (loop 2) . }}}}");
        examine(&quoted, &env());
    }

    #[test]
    fn text_without_actions_is_unchanged(source in "[^{]{0,80}") {
        let rendered = render(&source, &env()).unwrap();
        assert_eq!(&rendered.text, &source);
        assert_eq!(rendered.map.locate(0..source.len()).span, 0..source.len());
    }

    #[test]
    fn any_value_is_printed_as_it_is(value in "\\PC{0,40}") {
        let env = BTreeMap::from([("V".to_owned(), value.clone())]);
        assert_eq!(render("{{ .V }}", &env).unwrap().text, value);
    }
}
