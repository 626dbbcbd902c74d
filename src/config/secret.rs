//! Finds what no message may show: the values of variables, headers, tokens and passwords, and the credentials in URLs.
//! A plain search, so that it works in files that are no JSON5 (yet) too; it would rather hide too much.

use std::collections::BTreeMap;
use std::ops::Range;

use super::suggest;

/// Objects whose values may all be secrets. `environment` is what others call `env`.
const SECRET_OBJECTS: [&str; 3] = ["env", "environment", "headers"];
/// Parts of the names of secrets.
const SECRET_NAMES: [&str; 5] = ["token", "passw", "passphrase", "secret", "credential"];

/// No longer word is one of these names misspelt.
const LONGEST_MISSPELT: usize = 12;

/// The longest user name with a password, and the longest host, in characters, that are looked for without a scheme before them.
const LONGEST_USER: usize = 256;

/// Is the value of a key with this name secret? A misspelt `token` is one too.
pub(super) fn is_secret_name(name: &str) -> bool {
    let lower = name.to_lowercase();
    SECRET_NAMES.iter().any(|part| lower.contains(part)) || is_misspelt(name, ["token"])
}

fn is_misspelt<const N: usize>(name: &str, names: [&'static str; N]) -> bool {
    // Texts have words of any length, and to compare long ones takes long.
    name.len() <= LONGEST_MISSPELT && suggest::nearest(name, names).is_some()
}

/// Are all values of an object with this name secret?
pub(super) fn is_secret_object(name: &str) -> bool {
    SECRET_OBJECTS.contains(&name)
}

/// The ranges of all secrets.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut secrets = credentials(text);
    let mut hidden_up_to = 0;
    for word in words(text) {
        let name = text.get(word.clone()).unwrap_or_default();
        let is_secret = is_secret_name(name);
        let is_object = is_secret_object(name) || is_misspelt(name, SECRET_OBJECTS);
        if is_secret || is_object {
            match bracket_after(text, word.end) {
                // Its values were found with those around it.
                Some(_) if word.start < hidden_up_to => {}
                Some(start) => {
                    let (found, end) = values(text, start);
                    secrets.extend(found);
                    hidden_up_to = end;
                }
                None if is_secret => secrets.extend(value_after(text, word.end, &[':', '='])),
                // A text in place of the object: `env: "KEY=value"`.
                None => secrets.extend(text_after(text, word.end)),
            }
        }
    }
    secrets
}

/// The text with the credentials of every URL in it replaced.
pub(super) fn without_credentials(text: &str) -> String {
    let (mut result, mut copied) = (String::with_capacity(text.len()), 0);
    for range in credentials(text) {
        result.push_str(text.get(copied..range.start).unwrap_or_default());
        result.push_str("***");
        copied = range.end;
    }
    result.push_str(text.get(copied..).unwrap_or_default());
    result
}

/// The part before the `@` of `scheme://user:password@host`, or of `user:password@host`.
fn credentials(text: &str) -> Vec<Range<usize>> {
    let mut found: BTreeMap<usize, usize> = BTreeMap::new();
    for (scheme, _) in text.match_indices("://") {
        let start = scheme + 3;
        let rest = text.get(start..).unwrap_or_default();
        let ends = |character: char| character.is_whitespace() || "\"`/?#".contains(character);
        let authority = rest.split(ends).next().unwrap_or_default();
        // The last one: a password may contain an `@` that nobody encoded.
        found.extend(authority.rfind('@').map(|length| (start, start + length)));
    }
    for (at, _) in text.match_indices('@') {
        let (before, after) = text.split_at(at);
        let ends = |character: char| character.is_whitespace() || "\"'`/,<>()[]{}".contains(character);
        let user = before.char_indices().rev().take(LONGEST_USER).take_while(|(_, next)| !ends(*next));
        let start = user.last().map_or(at, |(index, _)| index);
        let is_known = found.range(..=start).next_back().is_some_and(|(_, end)| at <= *end);
        let mut host = after.chars().take(LONGEST_USER).take_while(|next| !ends(*next));
        // Only with a colon on either side: `root@host` is no secret.
        let has_colon =
            host.any(|next| next == ':') || text.get(start..at).is_some_and(|user| user.contains(':'));
        if !is_known && start < at && has_colon {
            found.insert(start, at);
        }
    }
    found.into_iter().map(|(start, end)| start..end).collect()
}

/// Every word that could be a key.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + text.get(rest..)?.find(is_word)?;
        let length = text.get(start..)?.find(|character| !is_word(character));
        let end = length.map_or(text.len(), |length| start + length);
        rest = end;
        Some(start..end)
    })
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$' | '-')
}

/// Where the value of a key begins that ends here; `separators` stand between them.
fn value_start(text: &str, key_end: usize, separators: &[char]) -> Option<usize> {
    let after_key = text.get(key_end..)?;
    let after_quote = after_key.strip_prefix(['"', '\'']).unwrap_or(after_key);
    let value = after_quote.trim_start().strip_prefix(separators)?.trim_start();
    Some(text.len() - value.len())
}

fn value_after(text: &str, key_end: usize, separators: &[char]) -> Option<Range<usize>> {
    let start = value_start(text, key_end, separators)?;
    let value = text.get(start..)?;
    Some(start..start + value_length(value))
}

/// The text in quotes that is the value of a key that ends here.
fn text_after(text: &str, key_end: usize) -> Option<Range<usize>> {
    let is_quoted = |value: &str| value.starts_with(['"', '\'']);
    value_after(text, key_end, &[':']).filter(|range| text.get(range.clone()).is_some_and(is_quoted))
}

fn value_length(value: &str) -> usize {
    let end = match value.chars().next() {
        Some('"' | '\'') => return string_length(value),
        // Brackets stand for no value that we know.
        Some('{' | '[') => value.find('\n'),
        Some(_) | None => value.find([',', '}', ' ', '\t', '"', '\'', '\n']),
    };
    end.unwrap_or(value.len())
}

/// The length of the string that the text begins with, quotes included; at most to the end of the line.
fn string_length(text: &str) -> usize {
    let quote = text.chars().next();
    let mut escaped = false;
    for (index, character) in text.char_indices().skip(1) {
        if !escaped && Some(character) == quote {
            return index + 1;
        }
        if character == '\n' {
            return index;
        }
        escaped = !escaped && character == '\\';
    }
    text.len()
}

/// Where the object or list begins that is the value of a key that ends here.
fn bracket_after(text: &str, key_end: usize) -> Option<usize> {
    let start = value_start(text, key_end, &[':'])?;
    text.get(start..)?.starts_with(['{', '[']).then_some(start)
}

/// Everything that is no key in the object or list that begins here, and where that ends.
fn values(text: &str, bracket: usize) -> (Vec<Range<usize>>, usize) {
    let (mut found, mut depth, mut at) = (Vec::new(), 0_usize, bracket);
    while let Some(rest) = text.get(at..)
        && let Some(next) = rest.chars().next()
    {
        let length = match next {
            '{' | '[' => {
                depth += 1;
                1
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    break;
                }
                1
            }
            // Right after a colon it is the rest of a URL without quotes.
            '/' if rest.starts_with("//") && !text.get(..at).is_some_and(|before| before.ends_with(':')) => {
                rest.find('\n').unwrap_or(rest.len())
            }
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(2, |end| end + 2),
            ',' | ':' => 1,
            _ if next.is_whitespace() => next.len_utf8(),
            _ => {
                let length = match next {
                    '"' | '\'' => string_length(rest),
                    _ => {
                        rest.find([',', ':', '{', '}', '[', ']', ' ', '\t', '\r', '\n']).unwrap_or(rest.len())
                    }
                };
                let after = rest.get(length..).unwrap_or_default();
                let is_key = after.trim_start().starts_with(':');
                if !is_key && rest.get(..length) != Some("null") {
                    found.push(at..at + length);
                }
                length
            }
        };
        at += length.max(1);
    }
    (found, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        secrets(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn the_value_of_a_token_is_found_however_it_is_written() {
        assert_eq!(found("{token: 'a\\'b', x: 1}"), ["'a\\'b'"]);
        assert_eq!(found("{\"token\" :\n \"ab\"}"), ["\"ab\""]);
        assert_eq!(found("{token: 123}"), ["123"]);
        assert_eq!(found("token: 'never closed\nnext"), ["'never closed"]);
    }

    #[test]
    fn misspelt_tokens_and_other_names_of_secrets_are_found() {
        for key in ["tokn", "Token", "tokens", "my_token", "DB_PASSWORD", "password", "clientSecret"] {
            assert_eq!(found(&format!("{{{key}: 'x'}}")), ["'x'"], "{key}");
        }
        assert_eq!(found("exec: 'app --password=x --y'"), ["x"]);
    }

    #[test]
    fn of_a_list_or_object_every_value_is_found() {
        assert_eq!(found("{token: ['a',\n 'b'], x: 1}"), ["'a'", "'b'"]);
        assert_eq!(found("{password: {a: 'b',\n c: ['d']}, x: 1}"), ["'b'", "'d'"]);
        assert_eq!(found("{env: ['A=b',\n 'C=d'], x: 1}"), ["'A=b'", "'C=d'"]);
        assert_eq!(found("{token: {a: ['b'], c: 'd'}, x: 1}"), ["'b'", "'d'"]);
        assert_eq!(found("exec: 'app --token=[a b'"), ["[a b'"]);
    }

    #[test]
    fn other_keys_and_words_are_left_alone() {
        assert_eq!(found("{x: 'token', name: 'b', exec: 'c', event: 'd', once: {}}"), Vec::<&str>::new());
    }

    #[test]
    fn every_value_of_variables_and_headers_is_found_and_no_name() {
        assert_eq!(found("{env: {A: 'x', \"B\": 5, C: null, D: {{ .E }}}, name: 'n'}"), ["'x'", "5", ".E"]);
        assert_eq!(found("{env: { // b: 'c'\n A: ['x', 'y'] }, z: 'q'}"), ["'x'", "'y'"]);
        assert_eq!(found("{http: {url: 'u', headers: {Authorization: 'Bearer x'}}}"), ["'Bearer x'"]);
        assert_eq!(found("{env: {A: 'never closed\nB: 1"), ["'never closed", "1"]);
        assert_eq!(found("{env: {A: 'x', /* 'no' */ B: a/b, C: /etc/c /**/}}"), ["'x'", "a/b", "/etc/c"]);
        assert_eq!(found("{environment: {A: 'x'}}"), ["'x'"], "another word for it");
        assert_eq!(found("{evn: {A: 'x'}}"), ["'x'"], "a misspelt key");
    }

    #[test]
    fn a_text_in_place_of_variables_or_headers_is_found() {
        assert_eq!(found("{env: 'KEY=x', name: 'n'}"), ["'KEY=x'"]);
        assert_eq!(found("{http: {headers: \"Authorization: Bearer x\"}}"), ["\"Authorization: Bearer x\""]);
        assert_eq!(found("{exec: 'env A=b app', x: '/usr/bin/env'}"), Vec::<&str>::new());
    }

    #[test]
    fn credentials_of_urls_are_found() {
        assert_eq!(found("{http: 'https://me:pass@host/x@y'}"), ["me:pass"]);
        assert_eq!(found("{consul: 'me:p@ss@host:8500'}"), ["me:p@ss"]);
        assert_eq!(found("{consul: 'https://key@host'}"), ["key"]);
        assert_eq!(found("{consul: \"https://a:b'c@host\"}"), ["a:b'c"]);
        assert_eq!(found("{consul: \"https://a:b'c@host:8500\"}"), ["a:b'c"]);
        assert_eq!(found("{consul: 'key@host:8500'}"), ["key"]);
        assert_eq!(found("{exec: 'ssh root@host', x: '@', y: '@host:80'}"), Vec::<&str>::new());
        assert_eq!(
            without_credentials("found \"http://me:pass@host\": no, http://b@c"),
            "found \"http://***@host\": no, http://***@c"
        );
        assert_eq!(without_credentials("nothing: 1 @ 2"), "nothing: 1 @ 2");
    }

    #[test]
    fn a_secret_in_a_secret_object_is_found_also_where_the_object_cannot_be_read() {
        for (text, hidden) in [
            ("{env: {DB_PASSWORD: abc:def}}", "abc:def"),
            ("{env: [TOKEN=abc:def]}", "abc:def"),
            ("{env: {URL: http://db, DB_PASSWORD: 'x'}}", "'x'"),
            ("{env: {URL: http://db, TOKENS: ['x']}}", "'x'"),
            ("{env: {GLOB: /*.txt, A: 1}, token: 'x'}", "'x'"),
            ("{env: { // DB_PASSWORD: 'old'\n}}", "'old'"),
        ] {
            assert!(found(text).iter().any(|found| found.starts_with(hidden)), "{text}: {:?}", found(text));
        }
    }

    #[test]
    fn many_secrets_are_found_in_a_moment_also_within_each_other_and_without_spaces() {
        let many = 20_000;
        assert_eq!(secrets(&"token:[x ".repeat(many)).len(), many);
        assert_eq!(secrets(&"a:b@c ".repeat(many)).len(), many);
        assert_eq!(secrets(&"http://a:b@c ".repeat(many)).len(), many);
        assert_eq!(secrets(&"token: 'x', ".repeat(many)).len(), many);
        assert_eq!(secrets(&format!("env: {{{}", "a: 'x', ".repeat(many))).len(), many);
        assert!(!secrets(&"a:b@".repeat(many)).is_empty());
    }
}
