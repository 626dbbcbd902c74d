//! Text, actions, blocks, variables and nested templates.

use super::{check, check_refused, text};

#[test]
fn a_source_without_actions_is_its_own_output() {
    for source in ["", "plain", "{ a: 1 }", "} }} {", "é\r\n\t\0"] {
        assert_eq!(text(source), source);
    }
}

#[test]
fn a_missing_key_prints_nothing() {
    check(&[
        ("[{{ .NONAME }}]", "[]"),
        ("[{{ $.NONAME }}]", "[]"),
        ("[{{ index . \"NONAME\" }}]", "[]"),
        ("[{{ env \"NONAME\" }}]", "[]"),
        ("[{{ (.).NONAME }}]", "[]"),
    ]);
}

#[test]
fn trim_markers_take_white_space_away() {
    check(&[
        ("a \n\t{{- \"x\" -}} \r\n b", "axb"),
        ("a {{ \"x\" }} b", "a x b"),
        ("a {{- \"x\" }} b", "ax b"),
        ("a {{ \"x\" -}} b", "a xb"),
        ("a {{-3}}", "a -3"),
        ("{{ if true -}}  x  {{- end }}", "x"),
        ("a {{- /* c */ -}} b", "ab"),
        ("a {{/* c */ -}} b", "a b"),
        ("a\n{{- /* c */}} b", "a b"),
        ("{{\"a\"}} {{- \"b\" -}} {{\"c\"}}", "abc"),
    ]);
}

#[test]
fn actions_may_span_lines() {
    check(&[("{{ $x \n := \n 1 \n }}{{\n$x\n|\nprint\n}}", "1"), ("{{/*\n\n*/}}", "")]);
}

#[test]
fn literals() {
    check(&[
        (
            "{{ 1 }} {{ -1 }} {{ +1 }} {{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 017 }} {{ 1_000 }}",
            "1 -1 1 31 3 15 15 1000",
        ),
        ("{{ 1.5 }} {{ 1e3 }} {{ 1e6 }} {{ .5 }} {{ 1e-7 }} {{ 0x1p-2 }}", "1.5 1000 1e+06 0.5 1e-07 0.25"),
        ("{{ 'a' }} {{ '\\n' }} {{ '\\'' }} {{ 'パ' }} {{ '\\x41' }}", "97 10 39 12497 65"),
        ("{{ \"a\\tb\\u00e9\\x41\\101\" }}", "a\tbéAA"),
        ("{{ `a\"\\n{{}}` }}", "a\"\\n{{}}"),
        ("{{ true }} {{ false }}", "true false"),
        ("{{ \"}}\" }}", "}}"),
        ("{{ printf `%T %T %T %T` 1 1e3 'a' 0xef }}", "int float64 int int"),
    ]);
}

#[test]
fn if_takes_the_first_branch_that_holds() {
    check(&[
        ("{{ if 0 }}a{{ else if \"\" }}b{{ else if 1.5 }}c{{ else }}d{{ end }}", "c"),
        ("{{ if false }}a{{ else if .NONAME }}b{{ else }}d{{ end }}", "d"),
        ("{{ if false }}a{{ else if false }}b{{ end }}", ""),
        ("{{ if split \":\" .NONAME }}y{{ else }}n{{ end }}", "n"),
        ("{{ if . }}y{{ end }}", "y"),
        ("{{ if $x := .NAME }}{{ $x }}{{ end }}", "Template"),
        ("{{ if $x := .NONAME }}a{{ else }}[{{ $x }}]{{ end }}", "[]"),
        ("{{ if $x := 0 }}a{{ else if $y := 2 }}{{ $x }}{{ $y }}{{ end }}", "02"),
    ]);
}

#[test]
fn with_changes_the_data_of_its_body_only() {
    check(&[
        ("{{ with .NAME }}{{ . }}{{ $.USER }}{{ end }}", "Templatepilot"),
        ("{{ with .NONAME }}a{{ else }}{{ .NAME }}{{ end }}", "Template"),
        ("{{ with $x := 3 }}{{ . }}{{ $x }}{{ end }}", "33"),
        ("{{ with .NONAME }}a{{ else with .USER }}{{ . }}{{ else }}c{{ end }}", "pilot"),
        ("{{ with .NONAME }}a{{ else with .EMPTY }}b{{ else }}{{ .COUNT }}{{ end }}", "3"),
    ]);
}

#[test]
fn range_visits_lists_and_the_environment() {
    check(&[
        ("{{ range split \":\" .PARTS }}<{{ . }}>{{ end }}", "<a><b><c>"),
        ("{{ range $x := loop 2 }}{{ $x }}{{ . }};{{ end }}", "00;11;"),
        ("{{ range $i, $x := split \":\" .PARTS }}{{ $i }}{{ $x }}{{ end }}", "0a1b2c"),
        (
            "{{ range $k, $v := . }}{{ $k }}={{ $v }};{{ end }}",
            "COUNT=3;EMPTY=;NAME=Template;PARTS=a:b:c;USER=pilot;",
        ),
        ("{{ range . }}[{{ . }}]{{ end }}", "[3][][Template][a:b:c][pilot]"),
        ("{{ range loop 0 }}x{{ else }}{{ .NAME }}{{ end }}", "Template"),
        ("{{ range loop 2 }}{{ range loop 2 }}{{ . }}{{ end }},{{ end }}", "01,01,"),
    ]);
}

#[test]
fn range_refuses_what_has_no_elements() {
    check_refused(&[
        ("{{ range 3 }}{{ end }}", "cannot range over an integer"),
        ("{{ range .NAME }}{{ end }}", "cannot range over a string"),
        ("{{ range true }}{{ end }}", "cannot range over a boolean"),
    ]);
}

#[test]
fn break_and_continue_end_the_innermost_loop_or_its_round() {
    check(&[
        ("{{ range loop 5 }}{{ if eq . 2 }}{{ break }}{{ end }}{{ . }}{{ end }}!", "01!"),
        ("{{ range loop 4 }}{{ if eq . 2 }}{{ continue }}{{ end }}{{ . }}{{ end }}", "013"),
        ("{{ range loop 2 }}{{ range loop 9 }}{{ break }}{{ end }}{{ . }}{{ end }}", "01"),
        ("{{ range loop 3 }}{{ . }}{{ range loop 0 }}{{ else }}{{ break }}{{ end }}{{ end }}", "0"),
        ("{{ range loop 2 }}{{ with 1 }}{{ continue }}{{ end }}x{{ end }}", ""),
    ]);
    check_refused(&[
        ("{{ break }}", "must stand inside {{range}}"),
        ("{{ range . }}{{ end }}{{ continue }}", "must stand inside {{range}}"),
        ("{{ range . }}{{ else }}{{ break }}{{ end }}", "must stand inside {{range}}"),
        ("{{ range . }}{{ block \"b\" . }}{{ break }}{{ end }}{{ end }}", "must stand inside {{range}}"),
        ("{{ range . }}{{ break 1 }}{{ end }}", "unexpected \"1\" in break"),
    ]);
}

#[test]
fn variables_live_until_the_end_of_their_block() {
    check(&[
        ("{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ $x }}{{ end }}{{ $x }}", "21"),
        ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $x }}{{ end }}{{ $x }}", "22"),
        ("{{ $x := 1 }}{{ range loop 3 }}{{ $x = . }}{{ end }}{{ $x }}", "2"),
        ("{{ $x := 1 }}{{ $x := $x }}{{ $x }}", "1"),
        ("{{ $x := 9 }}{{ range $x = loop 3 }}{{ end }}{{ $x }}", "2"),
        ("{{ $i := 0 }}{{ $v := 0 }}{{ range $i, $v = split \":\" .PARTS }}{{ end }}{{ $i }}{{ $v }}", "2c"),
        ("{{ range loop 2 }}{{ $y := . }}{{ $y }}{{ end }}", "01"),
        ("{{ print ($x := 2) $x }}", "2 2"),
        ("{{ $ := 5 }}{{ $ }}", "5"),
        ("{{ $été := 1 }}{{ $été }}", "1"),
    ]);
    check_refused(&[
        ("{{ $x }}", "variable $x is not defined here"),
        ("{{ with $x := 4 }}{{ end }}{{ $x }}", "variable $x is not defined here"),
        ("{{ $x := $x }}", "variable $x has no value yet"),
        ("{{ $x = 1 }}", "variable $x has no value yet"),
        ("{{ if false }}{{ $y := 1 }}{{ else }}{{ $y }}{{ end }}", "variable $y has no value yet"),
        (
            "{{ range loop 1 }}{{ end }}{{ with $a, $b := 3 }}{{ end }}",
            "only a range sets more than one variable",
        ),
        ("{{ range $a, $b, $c := . }}{{ end }}", "at most two variables"),
        ("{{ range $a, 3 := . }}{{ end }}", "expected a variable after \"$a,\""),
        ("{{ $x.Y := 4 }}", "variable $x is not defined here"),
    ]);
}

#[test]
fn templates_are_called_with_data_and_without_variables() {
    check(&[
        ("{{ define \"T\" }}<{{ . }}>{{ end }}{{ template \"T\" .NAME }}", "<Template>"),
        ("{{ template \"T\" 3 }}{{ define \"T\" }}{{ $ }}{{ end }}", "3"),
        (
            "{{ define \"T\" }}[{{ . }}{{ .X }}{{ range . }}x{{ else }}none{{ end }}]{{ end }}{{ template \"T\" }}",
            "[<no value><no value>none]",
        ),
        ("{{ block \"B\" .USER }}{{ . }}!{{ end }}{{ template \"B\" 1 }}", "pilot!1!"),
        (
            "{{ define `A` }}a{{ template \"B\" . }}{{ end }}{{ define \"B\" }}b{{ end }}{{ template `A` }}",
            "ab",
        ),
        ("{{ if false }}{{ template \"nowhere\" }}{{ end }}", ""),
        ("{{ define \"T\" }}{{ $x := 1 }}{{ end }}{{ $x := 2 }}{{ template \"T\" }}{{ $x }}", "2"),
        ("{{ range loop 2 }}{{ block \"B\" . }}{{ . }}{{ end }}{{ end }}", "01"),
    ]);
    check_refused(&[
        ("{{ template \"nowhere\" }}", "template \"nowhere\" is not defined"),
        ("{{ $x := 1 }}{{ define \"T\" }}{{ $x }}{{ end }}", "variable $x is not defined here"),
        (
            "{{ template .NAME }}",
            "expected the quoted name of a template after \"template\", found \".NAME\"",
        ),
        ("{{ template \"T\" nil }}{{ define \"T\" }}{{ end }}", "nil is not a command"),
        ("{{ block \"B\" }}{{ end }}", "expected a value after \"block\""),
        ("{{ if true }}{{ define \"T\" }}{{ end }}{{ end }}", "must stand at the top level"),
        ("{{ define \"T\" }}{{ else }}{{ end }}", "takes no {{else}}"),
        ("{{ define \"T\" . }}{{ end }}", "unexpected \".\" in define"),
    ]);
}

#[test]
fn only_an_empty_template_can_be_defined_again() {
    check(&[
        ("{{ define \"T\" }} {{ end }}{{ define \"T\" }}x{{ end }}{{ template \"T\" }}", "x"),
        ("{{ define \"T\" }}x{{ end }}{{ define \"T\" }}{{/* */}}{{ end }}{{ template \"T\" }}", "x"),
        (" {{ define \"\" }}root{{ end }} ", "root"),
    ]);
    check_refused(&[
        ("{{ define \"T\" }}x{{ end }}{{ define \"T\" }}y{{ end }}", "template \"T\" is defined twice"),
        ("{{ define \"\" }}x{{ end }}y", "template \"\" is defined twice"),
        ("{{ block \"T\" . }}x{{ end }}{{ block \"T\" . }}y{{ end }}", "template \"T\" is defined twice"),
    ]);
}

#[test]
fn pipelines_pass_their_value_as_the_last_argument() {
    check(&[
        ("{{ \"x\" | printf \"%s%s\" \"a\" }}", "ax"),
        ("{{ .NAME | len | printf \"%03d\" }}", "008"),
        ("{{ (3 | print 1 2) }}", "1 2 3"),
        ("{{ \"aaa\" | printf }}", "aaa"),
        ("{{ (index (split \":\" .PARTS) 1) | print }}", "b"),
        ("{{ printf \"%d %d\" (1) (len (loop 7)) }}", "1 7"),
        ("{{ \"x\" | }}", "x"),
        ("{{ ((((1)))) }}", "1"),
    ]);
    check_refused(&[
        ("{{ 12 | . }}", "cannot receive another one through \"|\""),
        ("{{ . | 12 | printf }}", "cannot receive another one through \"|\""),
        ("{{ 'c' | nil }}", "cannot receive another one through \"|\""),
        ("{{ 1 | .NAME }}", "cannot give an argument"),
        ("{{ $x := 1 }}{{ 3 | $x }}", "cannot give an argument"),
        ("{{ 3 2 }}", "cannot give an argument"),
        ("{{ .NAME 2 }}", "cannot give an argument"),
        ("{{ (1) 2 }}", "cannot give an argument"),
        ("{{ 1 | (print) }}", "cannot give an argument"),
        ("{{ true | printf }}", "printf: expected a string, found a boolean"),
    ]);
}

#[test]
fn fields_are_taken_of_any_operand() {
    check(&[
        ("{{ (.).NAME }}", "Template"),
        ("{{ ($).NAME }}", "Template"),
        ("{{ (and . $).NAME }}", "Template"),
        ("{{ len (.).NAME }}", "8"),
        ("{{ $x := . }}{{ $x.NAME }}", "Template"),
        ("{{ print .NAME $.USER }}", "Templatepilot"),
    ]);
    check_refused(&[
        ("{{ .NAME.FOO }}", "cannot evaluate field FOO of a string"),
        ("{{ .NONAME.FOO }}", "cannot evaluate field FOO of a string"),
        ("{{ (loop 3).X }}", "cannot evaluate field X of a list of integers"),
        ("{{ $x := 1.5 }}{{ $x.Y }}", "cannot evaluate field Y of a floating-point number"),
        ("{{ true.E }}", "\"true\" has no fields"),
        ("{{ \"a\".E }}", "\"a\" has no fields"),
        ("{{ 'a'.E }}", "'a' has no fields"),
        ("{{ nil.E }}", "\"nil\" has no fields"),
        ("{{ ..E }}", "\".\" has no fields"),
        ("{{ (nil).E }}", "nil is not a command"),
        ("{{ (1). }}", "expected a space before \".\""),
    ]);
}

#[test]
fn nil_is_a_value_only_as_an_argument() {
    check(&[
        ("{{ print nil }}", "<nil>"),
        ("{{ printf \"%v %d\" nil nil }}", "<nil> %!d(<nil>)"),
        ("{{ or nil nil }}", "<no value>"),
        ("{{ or nil 1 }}", "1"),
        ("{{ (or nil nil) | print }}", "<nil>"),
        ("{{ $x := or nil nil }}[{{ $x }}][{{ $x.Y }}]", "[<no value>][<no value>]"),
        ("{{ not nil }}", "true"),
        ("{{ html nil }}", "&lt;no value&gt;"),
        ("{{ default nil .NONAME }}", "<nil>"),
        ("{{ default 1 nil }}", "1"),
    ]);
    check_refused(&[
        ("{{ nil }}", "nil is not a command"),
        ("{{ if nil }}{{ end }}", "nil is not a command"),
        ("{{ nil | print }}", "nil is not a command"),
        ("{{ len nil }}", "len: nil has no length"),
        ("{{ index nil 1 }}", "index: nil has no elements"),
        ("{{ index nil }}", "index: nil has no elements"),
        ("{{ slice nil }}", "slice: cannot slice nil"),
        ("{{ call nil }}", "call: expected a function, found nil"),
        ("{{ env nil }}", "env: expected a string, found nil"),
        ("{{ lt nil 1 }}", "nil has no order"),
    ]);
}

#[test]
fn the_dot_is_the_value_within_with_and_stays_what_it_is_within_if() {
    check(&[
        ("{{ if .NAME }}{{ .USER }}{{ end }}", "pilot"),
        ("{{ with .NAME }}{{ . }}{{ end }}", "Template"),
        ("{{ if .NONE }}{{ else if .NAME }}{{ .USER }}{{ end }}", "pilot"),
    ]);
}

#[test]
fn a_number_may_have_two_signs() {
    check(&[("{{ +1e+2 }} {{ -1e-1 }}", "100 -0.1")]);
}
