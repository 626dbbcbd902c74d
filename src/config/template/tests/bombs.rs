//! Templates that would run forever, fill the memory or overflow the stack end with an error.

use super::{check_refused, error, text};

#[test]
fn endless_recursion_ends_at_a_depth() {
    check_refused(&[
        (
            "{{ define \"T\" }}{{ template \"T\" }}{{ end }}{{ template \"T\" }}",
            "called too deep: expected at most 100",
        ),
        ("x{{ template \"\" . }}", "called too deep"),
        (
            "{{ define \"A\" }}{{ template \"B\" }}{{ end }}{{ define \"B\" }}{{ template \"A\" }}{{ end }}{{ template \"A\" }}",
            "called too deep",
        ),
    ]);
}

#[test]
fn recursion_that_ends_in_time_is_fine() {
    let countdown = "{{ define \"T\" }}{{ if . }}x{{ template \"T\" (slice . 1) }}{{ end }}{{ end }}{{ template \"T\" (loop 99) }}";
    assert_eq!(text(countdown), "x".repeat(99));
}

#[test]
fn calls_one_after_another_are_no_recursion() {
    let source = "{{ define \"T\" }}x{{ end }}{{ range loop 200 }}{{ template \"T\" }}{{ end }}";
    assert_eq!(text(source), "x".repeat(200));
}

#[test]
fn the_output_is_bounded() {
    let megabyte = "{{ $x := printf \"%1000000d\" 1 }}{{ range loop 17 }}{{ $x }}{{ end }}";
    assert!(error(megabyte).message.contains("the text grows too long"));
    let megabytes = "{{ $x := printf \"%1000000d\" 1 }}{{ range loop 16 }}{{ $x }}{{ end }}";
    assert_eq!(text(megabytes).len(), 16_000_000);
}

#[test]
fn the_output_may_be_as_long_as_the_limit_says() {
    let rest = (16 << 20) - 16_000_000;
    let start = "{{ $x := printf \"%1000000d\" 1 }}{{ range loop 16 }}{{ $x }}{{ end }}";
    assert_eq!(text(&format!("{start}{}", "x".repeat(rest))).len(), 16 << 20);
    let too_long = format!("{start}{}", "x".repeat(rest + 1));
    assert_eq!(error(&too_long).span, start.len()..too_long.len());
}

#[test]
fn intermediate_values_are_bounded() {
    check_refused(&[
        ("{{ loop 1000000000 }}", "cannot count 1000000000 numbers"),
        ("{{ loop -9223372036854775807 9223372036854775807 }}", "cannot count 18446744073709551614 numbers"),
        ("{{ $x := printf \"%1000000d\" 1 }}{{ $y := replaceAll \" \" $x $x }}", "too long"),
        ("{{ $x := printf \"%01000000d\" 1 }}{{ $y := split \"\" $x | join $x }}", "too long"),
        (
            "{{ $x := printf \"%1000000d\" 1 }}{{ $x = print $x $x $x $x $x $x $x $x }}{{ $x = print $x $x $x }}",
            "too long",
        ),
        (
            "{{ $x := printf \"%1000000d\" 1 }}{{ $x = urlquery (html $x $x $x $x (replaceAll \" \" \"<<\" $x)) }}",
            "too long",
        ),
        ("{{ $x := printf \"%01000000d\" 1 }}{{ $x = split \"\" (print $x $x) }}", "this list is too long"),
    ]);
}

#[test]
fn lists_may_be_as_long_as_the_limit_says() {
    assert_eq!(text("{{ len (loop 1048576) }}"), "1048576");
    assert!(error("{{ len (loop 1048577) }}").message.contains("cannot count 1048577 numbers"));
    let too_many = format!("{{{{ split `,` `{}` }}}}", ",".repeat(1 << 20));
    assert!(error(&too_many).message.contains("too long: 1048577 elements"));
}

#[test]
fn work_without_output_is_bounded() {
    check_refused(&[
        ("{{ range loop 1000000 }}{{ range loop 1000000 }}{{ end }}{{ end }}", "takes too long"),
        ("{{ range loop 1000 }}{{ $x := printf \"%1000000d\" 1 }}{{ end }}", "takes too long"),
        (
            "{{ $x := printf \"%1000000d\" 1 }}{{ range loop 100000 }}{{ $y := eq $x $x }}{{ end }}",
            "takes too long",
        ),
        ("{{ $x := printf \"%1000000d\" 1 }}{{ regexReplaceAll \" \" \"\" $x }}", "takes too long"),
        ("{{ range loop 100000 }}{{ $x := regexReplaceAll (print .) \"\" \"\" }}{{ end }}", "takes too long"),
    ]);
}

#[test]
fn a_search_costs_no_more_than_the_text_that_is_left() {
    let (before, found) = ("a".repeat(50_000), "b".repeat(3_000));
    assert_eq!(text(&format!("{{{{ regexReplaceAll `b` `` `{before}{found}` }}}}")), before);
    let short = "{{ range loop 1000 }}{{ $x := regexReplaceAll `z` `` `fifteen letters` }}{{ end }}";
    assert_eq!(text(short), "");
}

#[test]
fn long_expressions_are_fine() {
    let long = "a".repeat(5_000);
    assert_eq!(text(&format!("{{{{ regexReplaceAll `{long}` `x` `b` }}}}")), "b");
}

#[test]
fn nesting_is_bounded_in_the_source() {
    let nested = |depth: usize, open: &str, inside: &str, close: &str| {
        format!("{}{inside}{}", open.repeat(depth), close.repeat(depth))
    };
    let parentheses = |depth| format!("{{{{ {} }}}}", nested(depth, "(", "1", ")"));
    let blocks = |depth| nested(depth, "{{ if 1 }}", "x", "{{ end }}");
    assert_eq!(text(&parentheses(100)), "1");
    assert_eq!(text(&blocks(100)), "x");
    for source in
        [parentheses(101), blocks(101), parentheses(100_000), blocks(100_000), "{{ (".repeat(1_000_000)]
    {
        let message = error(&source).message;
        assert!(message.contains("nested too deep") || message.contains("unexpected"), "{message}");
    }
}

#[test]
fn what_stands_side_by_side_is_not_nested() {
    assert_eq!(text(&"{{ if (1) }}x{{ end }}".repeat(200)), "x".repeat(200));
}

#[test]
fn a_long_chain_of_else_if_is_not_nesting() {
    let source =
        format!("{{{{ if false }}}}{}{{{{ else }}}}last{{{{ end }}}}", "{{ else if false }}".repeat(10_000));
    assert_eq!(text(&source), "last");
}

#[test]
fn nesting_and_recursion_together_are_bounded() {
    let deep = format!(
        "{{{{ define \"T\" }}}}{}{{{{ template \"T\" }}}}{}{{{{ end }}}}{{{{ template \"T\" }}}}",
        "{{ if 1 }}{{ with ((((((1)))))) }}".repeat(40),
        "{{ end }}{{ end }}".repeat(40)
    );
    assert!(error(&deep).message.contains("nested too deep"));
}

#[test]
fn many_variables_are_found_in_bounded_time() {
    let source = format!(
        "{}{{{{ range loop 1000000 }}}}{{{{ if $ }}}}{{{{ end }}}}{{{{ end }}}}",
        "{{ $x := 1 }}".repeat(20_000)
    );
    assert!(error(&source).message.contains("takes too long"));
}

#[test]
fn variables_can_be_used_often() {
    let many = |last: &str| format!("{}{last}", "{{ $x := 1 }}".repeat(1_000));
    assert_eq!(text(&many("{{ range loop 4000 }}{{ if $ }}{{ end }}{{ end }}")), "");
    assert_eq!(text(&many("{{ range $y := loop 40000 }}{{ if $y }}{{ end }}{{ end }}")), "");
}

#[test]
fn a_source_that_is_too_large_is_refused() {
    let source = " ".repeat((16 << 20) + 1);
    assert_eq!(
        error(&source).message,
        "cannot read a configuration of 16777217 bytes: expected at most 16777216"
    );
}
