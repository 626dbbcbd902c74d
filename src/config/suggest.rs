//! "Did you mean …?": finds the valid word that is most similar to one that is not valid.

use strsim::osa_distance;

/// Asks whether the candidate nearest to `word` is meant.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, candidates).map(|candidate| format!("did you mean {candidate:?}?"))
}

/// The candidate nearest to `word`, if the difference may be a typing error. A difference of case alone always is;
/// otherwise about a third of the letters may be wrong, missing, added or swapped.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let length = word.chars().count();
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let folded = candidate.to_lowercase();
            let candidate_length = folded.chars().count();
            let allowed = length.max(candidate_length) / 3;
            // The distance is at least the difference in length; this keeps a long word from costing time.
            if length.abs_diff(candidate_length) > allowed {
                return None;
            }
            let distance = osa_distance(&word, &folded);
            (distance <= allowed).then_some((distance, candidate))
        })
        // `min_by_key` keeps the first of equals: the order of the candidates decides.
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 9] =
        ["name", "exec", "when", "restarts", "timeout", "stopTimeout", "health", "port", "ttl"];

    #[test]
    fn a_typing_error_is_recognised() {
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
    fn a_swap_of_neighbours_counts_as_one_error() {
        assert_eq!(nearest("prot", ["port"]), Some("port"));
        assert_eq!(nearest("opt", ["top"]), None, "a move over two places counts as two");
    }
}
