//! Why something failed, in words for people.

use std::fmt::Display;

/// An error's text without the number that the standard library adds to what the system says, which helps nobody.
pub fn reason(error: &dyn Display) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ").map(|(before, after)| (before, after.split_once(')'))) {
        Some((before, Some((_, after)))) => format!("{before}{after}"),
        Some((_, None)) | None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn the_number_of_an_error_is_left_out_wherever_it_stands() {
        let refused = io::Error::from_raw_os_error(libc::ECONNREFUSED);
        assert_eq!(reason(&refused), "Connection refused");
        assert_eq!(reason(&format_args!("a: {refused}: b (c)")), "a: Connection refused: b (c)");
        assert_eq!(reason(&"no answer (os error "), "no answer (os error ");
        assert_eq!(reason(&"no answer"), "no answer");
    }
}
