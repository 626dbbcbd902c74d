use std::io::Write;
use std::process::{Command, Stdio};

use super::*;

/// The hash of a part of the page, in base64, as browsers compute it; by openssl(1), which every developer has.
fn hash(begin: &str, end: &str) -> String {
    let (_, rest) = PAGE.split_once(begin).unwrap();
    let (part, _) = rest.split_once(end).unwrap();
    let script = "openssl dgst -sha256 -binary | base64";
    let mut child =
        Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(part.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    format!("sha256-{}", String::from_utf8(output.stdout).unwrap().trim())
}

#[test]
fn the_hashes_of_style_and_script_are_those_of_the_file() {
    assert_eq!((STYLE_HASH, SCRIPT_HASH), (&*hash("<style>", "</style>"), &*hash("<script>", "</script>")));
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    for word in
        ["http://", "https://", "//cdn", "@import", "url(", "innerHTML", "eval(", " style=", "onclick="]
    {
        let found = PAGE.matches(word).count();
        // The name of the namespace of SVG, and the arrow of an edge.
        let expected = match word {
            "http://" | "url(" => 1,
            _ => 0,
        };
        assert_eq!(found, expected, "{word}");
    }
}
