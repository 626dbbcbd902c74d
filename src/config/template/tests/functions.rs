//! What each function yields and refuses.

use super::{check, check_refused, text};

#[test]
fn and_and_or_yield_an_argument_and_stop_at_it() {
    check(&[
        ("{{ and false 0 }} {{ and 1 0 }} {{ and 1 2 3 }} {{ and 1 }}", "false 0 3 1"),
        ("{{ or 0 0.0 }} {{ or 1 0 }} {{ or 0 \"x\" }} {{ or 0 }}", "0 1 x 0"),
        ("{{ or .NAME (index (loop 1) 9) }}", "Template"),
        ("{{ and .NONAME (index (loop 1) 9) }}|", "|"),
        ("{{ 3 | and 1 }} {{ 3 | and 0 }} {{ 3 | or 0 }}", "3 0 3"),
        ("{{ not 0 }} {{ not \"a\" }}", "true false"),
    ]);
    check_refused(&[
        ("{{ or }}", "or: expected at least 1 argument, found 0"),
        ("{{ not 1 2 }}", "not: expected 1 argument, found 2"),
        ("{{ and 1 (index (loop 1) 9) }}", "out of range"),
    ]);
}

fn holds(expression: &str) -> bool {
    text(&format!("{{{{ {expression} }}}}")) == "true"
}

#[test]
fn comparisons_follow_the_order_of_their_kind() {
    for expression in [
        "eq true true",
        "eq 1.5 1.5",
        "eq 1 1",
        "eq `xy` `xy`",
        "eq 3 4 5 6 3",
        "ne 1 2",
        "ne `a` `b`",
        "lt 1 2",
        "lt 1.5 2.5",
        "lt `xy` `xyz`",
        "le 1 1",
        "le `a` `a`",
        "gt 2 1",
        "ge 2 2",
        "ge `b` `a`",
        "eq (index `x` 0) 'x'",
        "lt (index `a` 0) 98",
        "gt 0 -1",
        "eq nil nil",
        "ne 1 nil",
        "eq .NAME `Template`",
    ] {
        assert!(holds(expression), "{expression}");
    }
    for expression in [
        "eq true false",
        "eq 1.5 2.5",
        "eq 1 2",
        "eq 3 4 5 6",
        "ne 1 1",
        "lt 1 1",
        "lt 2 1",
        "le 2 1",
        "gt 1 1",
        "ge 1 2",
        "gt `a` `b`",
        "eq 1 nil",
        "eq nil 1",
        "eq nil (loop 1 | len)",
    ] {
        assert!(!holds(expression), "{expression}");
    }
}

#[test]
fn unlike_things_are_not_compared() {
    check_refused(&[
        ("{{ eq `xy` 1 }}", "incompatible types for comparison: a string and an integer"),
        ("{{ eq 2 2.0 }}", "incompatible types for comparison: an integer and a floating-point number"),
        ("{{ eq 1 2 `a` }}", "incompatible types"),
        ("{{ eq .COUNT 3 }}", "incompatible types"),
        ("{{ ne 1 true }}", "incompatible types"),
        ("{{ lt 1 `a` }}", "incompatible types"),
        ("{{ lt true true }}", "booleans have no order"),
        ("{{ eq (loop 1) (loop 1) }}", "cannot compare a list of integers"),
        ("{{ eq . 1 }}", "cannot compare the environment"),
        ("{{ eq 1 }}", "eq: expected at least 2 arguments, found 1"),
        ("{{ lt 1 2 3 }}", "lt: expected 2 arguments, found 3"),
    ]);
}

#[test]
fn len_counts_bytes_and_elements() {
    check(&[("{{ len `日本` }} {{ len (loop 4) }} {{ len . }} {{ len `` }}", "6 4 5 0")]);
    check_refused(&[("{{ len 3 }}", "len: an integer has no length")]);
}

#[test]
fn index_takes_elements() {
    check(&[
        ("{{ index (loop 5 8) 1 }} {{ index (split \":\" .PARTS) 2 }}", "6 c"),
        ("{{ index . \"NAME\" }}", "Template"),
        ("{{ index `abc` 1 }}", "98"),
        ("{{ index . \"NAME\" 0 }}", "84"),
        ("{{ index (loop 3) (index \"\\x01\" 0) }}", "1"),
        ("{{ index 5 }}", "5"),
    ]);
    check_refused(&[
        ("{{ index (loop 3) 3 }}", "index: index 3 is out of range: expected 0 to 2"),
        ("{{ index (loop 0) 0 }}", "index 0 is out of range: there is none"),
        ("{{ index (loop 3) -1 }}", "index -1 is out of range"),
        ("{{ index (loop 3) `a` }}", "expected an integer, found a string"),
        ("{{ index (loop 3) 1.0 }}", "expected an integer, found a floating-point number"),
        ("{{ index (loop 3) nil }}", "expected an integer, found nil"),
        ("{{ index . 1 }}", "expected a string, found an integer"),
        ("{{ index 5 1 }}", "an integer has no elements"),
        ("{{ index (loop 3) 1 1 }}", "an integer has no elements"),
    ]);
}

#[test]
fn slice_takes_parts() {
    check(&[
        (
            "{{ slice `abcd` }} {{ slice `abcd` 1 }} {{ slice `abcd` 1 3 }} [{{ slice `abcd` 4 }}]",
            "abcd bcd bc []",
        ),
        ("{{ slice (loop 5) 1 3 }} {{ slice (loop 5) 1 3 5 }}", "[1 2] [1 2]"),
        ("{{ slice (split `:` .PARTS) 2 }}", "[c]"),
    ]);
    check_refused(&[
        ("{{ slice `abcd` 5 }}", "index 5 is out of range: expected 0 to 4"),
        ("{{ slice `abcd` 3 1 }}", "ascending order"),
        ("{{ slice `abcd` 0 1 2 }}", "expected at most 2 indexes, found 3"),
        ("{{ slice (loop 3) 0 1 2 3 }}", "expected at most 3 indexes, found 4"),
        ("{{ slice `é` 0 1 }}", "cut inside a character"),
        ("{{ slice . 1 }}", "cannot slice the environment"),
        ("{{ slice 5 }}", "cannot slice an integer"),
    ]);
}

#[test]
fn print_println_and_printf() {
    check(&[
        ("{{ print 1 2 `x` `y` 3 4 }}", "1 2xy3 4"),
        ("{{ print }}|{{ println }}|", "|\n|"),
        ("{{ println 1 `x` `y` }}", "1 x y\n"),
        ("{{ print (loop 2) . }}", "[0 1] map[COUNT:3 EMPTY: NAME:Template PARTS:a:b:c USER:pilot]"),
        ("{{ printf `%#v` (split `:` .PARTS) }}", "[]string{\"a\", \"b\", \"c\"}"),
        ("{{ printf `%T %T` . (loop 1) }}", "map[string]string []int"),
        ("{{ printf `%d%%` 5 }}", "5%"),
        ("{{ printf `%s` 5 }}", "%!s(int=5)"),
        ("{{ printf `%d` 1e3 }}", "%!d(float64=1000)"),
    ]);
    check_refused(&[
        ("{{ printf }}", "printf: expected at least 1 argument, found 0"),
        ("{{ printf 5 }}", "printf: expected a string, found an integer"),
    ]);
}

#[test]
fn escapes() {
    check(&[
        ("{{ html `<a href=\"x\">&'` }}", "&lt;a href=&#34;x&#34;&gt;&amp;&#39;"),
        ("{{ html 1 2 `<` }}", "1 2&lt;"),
        ("{{ html \"\\x00\" }}", "\u{fffd}"),
        ("{{ js `It'd \"be\" \\ <nice>&=` }}", "It\\'d \\\"be\\\" \\\\ \\u003Cnice\\u003E\\u0026\\u003D"),
        ("{{ js \"a\\n日\\u00ad\" }}", "a\\u000A日\\u00AD"),
        ("{{ js \"\\x7f\" }}", "\x7f"),
        ("{{ urlquery `http://a.b/c d?e=f&é~-_.` }}", "http%3A%2F%2Fa.b%2Fc+d%3Fe%3Df%26%C3%A9~-_."),
        ("{{ `<` | html }}", "&lt;"),
    ]);
}

#[test]
fn default_replaces_what_is_no_text() {
    check(&[
        ("{{ .NONAME | default `d` }} {{ .EMPTY | default `d` }} {{ .NAME | default `d` }}", "d d Template"),
        (
            "{{ .NONAME | default 100 }} {{ .NONAME | default 10.1 }} {{ .NONAME | default true }}",
            "100 10.1 true",
        ),
        ("{{ default `d` 5 }}", "d"),
        ("{{ default (loop 2) .NONAME }}", "[0 1]"),
        ("{{ printf `%T` (default 5 .NONAME) }}", "string"),
    ]);
    check_refused(&[("{{ default `d` }}", "default: expected 2 arguments, found 1")]);
}

#[test]
fn env_reads_the_environment() {
    check(&[(
        "{{ env `NAME` }} {{ env (printf `NA%s` `ME`) }} [{{ env `NONAME` }}]",
        "Template Template []",
    )]);
    check_refused(&[("{{ env 5 }}", "env: expected a string, found an integer"), ("{{ env }}", "found 0")]);
}

#[test]
fn split_and_join() {
    check(&[
        ("{{ split `:` .PARTS }} {{ len (split `:` `  a:b \n`) }}", "[a b c] 2"),
        ("{{ split `:` .EMPTY }} {{ split `:` `  ` }} {{ split `x` `abc` }}", "[] [] [abc]"),
        ("{{ len (split `:` `a::b:`) }}", "4"),
        ("{{ split `` `a日c` | join `-` }}", "a-日-c"),
        ("{{ .PARTS | split `:` | join `, ` }}", "a, b, c"),
        ("[{{ join `,` (split `:` .EMPTY) }}]", "[]"),
    ]);
    check_refused(&[
        ("{{ join `,` (loop 3) }}", "join: expected a list of strings, found a list of integers"),
        ("{{ join `,` `a` }}", "join: expected a list of strings, found a string"),
        ("{{ split 1 `a` }}", "split: expected a string, found an integer"),
        ("{{ split `:` }}", "split: expected 2 arguments, found 1"),
    ]);
}

#[test]
fn replace_all_replaces_every_occurrence() {
    check(&[
        ("{{ replaceAll `a` `bb` `banana` }}", "bbbnbbnbb"),
        ("{{ replaceAll `aa` `b` `aaa` }}", "ba"),
        ("{{ replaceAll `` `-` `aé` }}", "-a-é-"),
        ("{{ replaceAll `x` `y` `` }}|", "|"),
        ("{{ .NAME | replaceAll `Temp` `` }}", "late"),
    ]);
}

#[test]
fn regex_replace_all_replaces_every_match() {
    check(&[
        ("{{ regexReplaceAll `[epa]+` `_` .NAME }}", "T_m_l_t_"),
        ("{{ regexReplaceAll `(T)(e)` `${2}$1` .NAME }}", "eTmplate"),
        ("{{ regexReplaceAll `(?P<x>p)` `<$x>` .NAME }}", "Tem<p>late"),
        ("{{ regexReplaceAll `a*` `x` `baaac` }}", "xbxcx"),
        ("{{ regexReplaceAll `(?i)t` `_` .NAME }}", "_empla_e"),
        ("{{ regexReplaceAll `^|$` `'` `a` }}", "'a'"),
        ("{{ regexReplaceAll `a` `$1x` `a` }}|", "|"),
        ("{{ regexReplaceAll `(?m)^` `> ` `a\nb` }}", "> a\n> b"),
        ("{{ regexReplaceAll `[^a-z]` `` `a1b2` }}", "ab"),
    ]);
    check_refused(&[
        ("{{ regexReplaceAll `(` `` `` }}", "regexReplaceAll: cannot compile the regular expression"),
        ("{{ regexReplaceAll `a{1000}{1000}` `` `` }}", "cannot compile the regular expression"),
    ]);
}

#[test]
fn an_escaped_angle_bracket_is_itself_and_no_boundary_of_a_word() {
    check(&[
        (r"{{ regexReplaceAll `\<` `&lt;` `a<b` }}", "a&lt;b"),
        (r"{{ regexReplaceAll `\>+` `&gt;` `a>>b` }}", "a&gt;b"),
        (r"{{ regexReplaceAll `[\<\>]` `_` `<a>` }}", "_a_"),
        (r"{{ regexReplaceAll `\\<` `_` `\<a<` }}", "_a<"),
        (r"{{ regexReplaceAll `\bb\b` `_` `a b` }}", "a _"),
        (r"{{ regexReplaceAll `\b\{x\}` `_` `a{x}` }}", "a_"),
    ]);
    check_refused(&[
        (r"{{ regexReplaceAll `\b{start}a` `` `` }}", r"a brace after `\b` or `\B` is not supported"),
        (r"{{ regexReplaceAll `\B{2}` `` `` }}", r"a brace after `\b` or `\B` is not supported"),
    ]);
}

#[test]
fn loop_counts_up_and_down() {
    check(&[
        (
            "{{ loop 3 }} {{ loop 0 }} {{ loop -2 }} {{ loop 2 5 }} {{ loop 5 2 }} {{ loop 3 3 }}",
            "[0 1 2] [] [0 -1] [2 3 4] [5 4 3] []",
        ),
        ("{{ loop .COUNT }} {{ loop 1 .COUNT }} {{ loop \"-1\" \"+1\" }}", "[0 1 2] [1 2] [-1 0]"),
    ]);
    check_refused(&[
        ("{{ loop }}", "loop: expected 1 to 2 arguments, found 0"),
        ("{{ loop 1 2 3 }}", "loop: expected 1 to 2 arguments, found 3"),
        ("{{ loop .NAME }}", "loop: expected an integer, found \"Template\""),
        ("{{ loop .NONAME }}", "loop: expected an integer, found \"\""),
        ("{{ loop 1.5 }}", "loop: expected an integer, found a floating-point number"),
    ]);
}

#[test]
fn call_has_nothing_to_call() {
    check_refused(&[("{{ call .NAME }}", "call: expected a function, found a string")]);
}
