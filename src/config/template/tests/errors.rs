//! Errors point at what is wrong.

use super::error;

/// Checks that an error points at the part of the source between `«` and `»`, and says this.
fn points_at(marked: &str, message: &str) {
    let source = marked.replace(['«', '»'], "");
    let start = marked.find('«').unwrap();
    let end = marked.find('»').unwrap() - '«'.len_utf8();
    let error = error(&source);
    assert_eq!((error.to_string().as_str(), error.span), (message, start..end), "{marked}");
}

#[test]
fn what_is_never_closed_is_shown_where_it_was_opened() {
    points_at("a\nb «{{» .NAME", "this action is never closed: expected \"}}\"");
    points_at("é «{{» .NAME\n\n", "this action is never closed: expected \"}}\"");
    points_at("a «{{/*» b", "this comment is never closed: expected \"*/}}\"");
    points_at("a «{{ if .X }}» b", "this {{if}} is never closed: expected {{end}}");
    points_at("{{ if 1 }}a«{{ else if 2 }}»b", "this {{if}} is never closed: expected {{end}}");
    points_at("«{{ with .X }}»a{{ else }}b", "this {{with}} is never closed: expected {{end}}");
    points_at("a «{{ range . }}» b", "this {{range}} is never closed: expected {{end}}");
    points_at("«{{ define \"T\" }}» b", "this {{define}} is never closed: expected {{end}}");
    points_at("«{{ block \"T\" . }}» b", "this {{block}} is never closed: expected {{end}}");
    points_at("{{ print «\"»abc }}", "this string is never closed: expected \" on the same line");
    points_at("{{ print «`»abc }}\n", "this raw string is never closed: expected `");
    points_at("{{ print «(»1 }}", "this parenthesis is never closed: expected \")\"");
}

#[test]
fn what_has_nothing_to_close_is_shown() {
    points_at("a«{{ end }}»", "unexpected {{end}}: nothing is open here that it could belong to");
    points_at("a«{{ else» }}", "unexpected {{else}}: nothing is open here that it could belong to");
    points_at("{{ if 1 }}{{ else }}«{{ else» }}{{ end }}", "expected {{end}}, found another {{else}}");
    points_at("{{ 1«)» }}", "unexpected \")\" in action");
}

#[test]
fn an_unknown_function_is_shown_with_a_near_one() {
    points_at("{{ 1 | «pritn» }}", "function \"pritn\" is not defined; did you mean \"print\"?");
    points_at("{{ «nofunc» 1 }}", "function \"nofunc\" is not defined");
    points_at("{{ «NAME» }}", "function \"NAME\" is not defined; did you mean \".NAME\"?");
}

#[test]
fn a_missing_value_is_shown_in_its_action() {
    points_at("line1\n«{{ if }}»x{{ end }}", "expected a value after \"if\"");
    points_at("«{{ }}»", "expected a value between \"{{\" and \"}}\"");
    points_at("{{ print «()» }}", "expected a value between the parentheses");
}

#[test]
fn an_unexpected_token_is_shown() {
    points_at("{{ printf 3«,» 4 }}", "unexpected \",\" in action");
    points_at("{{ print 3«`x`» }}", "expected a space before `x`");
    points_at("{{ print«(»1) }}", "expected a space before \"(\"");
    points_at("{{ $x := 1 }}{{ $x «%» 3 }}", "unexpected \"%\" in action");
    points_at("{{ .NAME«}»", "unexpected character '}' after \".NAME\"");
    points_at("{{ «|» print }}", "unexpected \"|\" in action");
    points_at("{{ 1 | «|» print }}", "unexpected \"|\" in action");
    points_at("{{ with 1 }}{{ else «if» 2 }}{{ end }}", "unexpected \"if\" in else");
    points_at("{{ «/»* a */ }}", "unexpected \"/\" in action");
    points_at("{{ print «if» }}", "unexpected \"if\" in action");
    points_at("{{ print «:» 1 }}", "unexpected \":\" in action");
}

#[test]
fn a_bad_literal_is_shown_whole() {
    points_at("{{ «12ab» }}", "\"12ab\" is not a number");
    points_at("{{ «1e» }}", "\"1e\" is not a number");
    points_at("{{ «1+2i» }}", "\"1+2i\" is an imaginary number, which is not supported");
    points_at("{{ «\"a\\q\"» }}", "unknown escape \\q");
    points_at("{{ «'ab'» }}", "expected exactly one character between the quotes, found 'ab'");
    points_at("{{ «9223372036854775808» }}", "9223372036854775808 does not fit into 64 bits");
}

#[test]
fn a_wrong_argument_is_shown_by_itself() {
    points_at("{{ split «1» .NAME }}", "split: expected a string, found an integer");
    points_at("{{ «1 2» | len }}", "cannot give an argument to what is not a function");
    points_at("{{ «loop 3» | split `:` }}", "split: expected a string, found a list of integers");
    points_at("{{ index (loop 3) «(len .NAME)» }}", "index: index 8 is out of range: expected 0 to 2");
    points_at("{{ .NAME«.FOO» }}", "cannot evaluate field FOO of a string");
    points_at("{{ print 1 («env 1 2») }}", "env: expected 1 argument, found 2");
    points_at("{{ 3 | «eq `a`» }}", "eq: incompatible types for comparison: a string and an integer");
}

#[test]
fn an_error_in_a_called_template_is_shown_there() {
    points_at(
        "{{ define \"T\" }}{{ .X«.Y» }}{{ end }}{{ template \"T\" . }}",
        "cannot evaluate field Y of a string",
    );
    points_at("«{{ template \"U\" }}»", "template \"U\" is not defined");
    points_at("{{ range «.NAME» }}{{ end }}", "cannot range over a string");
    points_at(
        "{{ define \"T\" }}x{{ end }}{{ define «\"T\"» }}y{{ end }}",
        "template \"T\" is defined twice",
    );
}
