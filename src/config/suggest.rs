//! "Did you mean …?": the nearest of the valid words to one that is not valid.

/// The candidate nearest to `word`, if one is near enough to be a slip of the keyboard. A difference of case
/// alone always is; otherwise about a third of the letters may be wrong, missing, added or swapped.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = folded(word);
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let letters = folded(candidate);
            let allowed = wanted.len().max(letters.len()) / 3;
            // The distance is at least this.
            if wanted.len().abs_diff(letters.len()) > allowed {
                return None;
            }
            let distance = distance(&wanted, &letters);
            (distance <= allowed).then_some((distance, candidate))
        })
        // `min_by_key` keeps the first of equals: the order of the candidates decides.
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

fn folded(word: &str) -> Vec<char> {
    word.chars().flat_map(char::to_lowercase).collect()
}

/// Damerau–Levenshtein distance (optimal string alignment): insertions, deletions, substitutions and swaps of
/// neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut previous_a = None;
    for (row, &letter_a) in a.iter().enumerate() {
        let mut current = vec![row + 1];
        let mut left = row + 1;
        let mut previous_b = None;
        for ((column, &letter_b), above) in b.iter().enumerate().zip(last.windows(2)) {
            let &[diagonal, up] = above else { continue };
            let mut best = (diagonal + usize::from(letter_a != letter_b)).min(up + 1).min(left + 1);
            if previous_a == Some(letter_b)
                && previous_b == Some(letter_a)
                && let Some(&swapped) = column.checked_sub(1).and_then(|column| before_last.get(column))
            {
                best = best.min(swapped + 1);
            }
            current.push(best);
            left = best;
            previous_b = Some(letter_b);
        }
        before_last = std::mem::replace(&mut last, current);
        previous_a = Some(letter_a);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 9] =
        ["name", "exec", "when", "restarts", "timeout", "stopTimeout", "health", "port", "ttl"];

    fn chars(text: &str) -> Vec<char> {
        text.chars().collect()
    }

    #[test]
    fn a_slip_of_the_keyboard_is_recognised() {
        for (typed, meant) in [
            ("restart", "restarts"),
            ("tiemout", "timeout"),
            ("helth", "health"),
            ("tl", "ttl"),
            ("stop_timeout", "stopTimeout"),
            ("prot", "port"),
        ] {
            assert_eq!(nearest(typed, KEYS), Some(meant), "{typed}");
        }
    }

    #[test]
    fn a_difference_of_case_is_always_near() {
        assert_eq!(nearest("STOPTIMEOUT", KEYS), Some("stopTimeout"));
        assert_eq!(nearest("A", ["b", "a"]), Some("a"));
    }

    #[test]
    fn what_is_not_near_is_not_suggested() {
        for typed in ["", "x", "colour", "dependencies", "pt"] {
            assert_eq!(nearest(typed, KEYS), None, "{typed}");
        }
    }

    #[test]
    fn the_first_of_equally_near_words_wins() {
        assert_eq!(nearest("caat", ["cart", "cast"]), Some("cart"));
    }

    #[test]
    fn a_swap_of_neighbours_counts_once() {
        for (a, b, expected) in
            [("ab", "ba", 1), ("abcd", "acbd", 1), ("", "abc", 3), ("kitten", "sitting", 3), ("a", "a", 0)]
        {
            assert_eq!(distance(&chars(a), &chars(b)), expected, "{a} {b}");
            assert_eq!(distance(&chars(b), &chars(a)), expected, "{b} {a}");
        }
    }
}
