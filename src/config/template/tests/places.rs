//! The source map of whole renderings.

use super::{text, try_render};
use crate::config::template::Origin;

/// Where a part of the output came from: the text of its source, and whether it is the same.
fn origin(source: &str, part: &str) -> (String, bool) {
    let rendered = try_render(source).unwrap();
    let start = rendered.text.find(part).unwrap();
    let Origin { span, verbatim } = rendered.map.locate(start..start + part.len());
    (source[span].to_owned(), verbatim)
}

fn verbatim(text: &str) -> (String, bool) {
    (text.to_owned(), true)
}

fn produced(text: &str) -> (String, bool) {
    (text.to_owned(), false)
}

#[test]
fn literal_text_is_found_where_it_stands() {
    assert_eq!(origin("plain", "lai"), verbatim("lai"));
    assert_eq!(origin("é {{ .NAME }} à b", "à"), verbatim("à"));
    assert_eq!(origin("{{ if true }}yes{{ end }} no", "yes"), verbatim("yes"));
    assert_eq!(origin("{{ define \"T\" }}inner{{ end }}a{{ template \"T\" }}b", "inner"), verbatim("inner"));
    assert_eq!(origin("{{ range loop 3 }}<{{ . }}>{{ end }}", "><"), produced("<{{ . }}>"));
}

#[test]
fn what_an_action_prints_is_found_at_the_action() {
    assert_eq!(origin("a {{ .NAME }} b", "Template"), produced("{{ .NAME }}"));
    assert_eq!(origin("a {{ .NAME }} b", "emp"), produced("{{ .NAME }}"));
    assert_eq!(origin("a {{- .NAME -}} b", "Template"), produced("{{- .NAME -}}"));
    assert_eq!(origin("{{ range loop 3 }}{{ . }}{{ end }}", "1"), produced("{{ . }}"));
    assert_eq!(origin("{{ .NAME }}{{ .USER }}", "pilot"), produced("{{ .USER }}"));
}

#[test]
fn a_range_across_both_spans_both() {
    assert_eq!(origin("port: {{ .COUNT }}, x", ": 3, "), produced(": {{ .COUNT }}, "));
    assert_eq!(origin("a{{ if false }}b{{ end }}c", "ac"), produced("a{{ if false }}b{{ end }}c"));
    assert_eq!(origin("{{ define \"T\" }}x{{ end }}y{{ template \"T\" }}", "yx"), produced("x{{ end }}y"));
}

#[test]
fn the_end_of_the_output_is_the_end_of_its_last_part() {
    let source = "a {{ .NAME }}{{ if false }}x{{ end }}";
    let rendered = try_render(source).unwrap();
    let end = rendered.text.len();
    assert_eq!(rendered.map.locate(end..end).span, 13..13);
    assert_eq!(rendered.map.locate(end + 5..end + 9).span, 13..13);
    assert_eq!(text("{{ if false }}x{{ end }}"), "");
    assert_eq!(try_render("{{ if false }}x{{ end }}").unwrap().map.locate(0..0).span, 0..0);
}

#[test]
fn where_nothing_was_printed_the_variable_that_is_not_set_is_known() {
    let unset = |source: &str| try_render(source).unwrap().map.hole(&(0..0)).unwrap().unset.clone();
    for action in ["{{ .NONE }}", "{{ $.NONE }}", "{{ (.).NONE }}"] {
        assert_eq!(unset(action).as_deref(), Some("NONE"), "{action}");
    }
    assert_eq!(unset("{{ range loop 1 }}{{ $.NONE }}{{ end }}").as_deref(), Some("NONE"));
    assert_eq!(unset(r#"{{ "" }}"#), None);
    assert_eq!(unset(r#"{{ .NONE | print }}"#), None, "it is not what was printed");
}
