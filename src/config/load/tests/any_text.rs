//! No text makes loading panic.

use super::*;

/// A configuration to break.
const SAMPLE: &str = include_str!("../../../../tests/testdata/good/02-every-field.json5");

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_loading_panic(text in "\\PC{0,200}") {
        let result = load_text("t", &text, &env(&[]), &system());
        let _ = result.map_err(|report| (report.render(true), report.to_json()));
    }

    #[test]
    fn no_json5_alike_makes_loading_panic(text in "[{}\\[\\]:,'\"/*a-c0-9 \\n\\\\\\.\\-]{0,120}") {
        let result = load_text("t", &text, &env(&[]), &system());
        let _ = result.map_err(|report| (report.render(false), report.to_json()));
    }

    #[test]
    fn no_damage_to_a_configuration_makes_loading_panic(
        at in 0..SAMPLE.len(),
        length in 0..40usize,
        insert in "[{}\\[\\]:,'\"a0 \\-]{0,4}",
    ) {
        let start = SAMPLE.floor_char_boundary(at);
        let end = SAMPLE.floor_char_boundary(at + length);
        let text = format!("{}{insert}{}", &SAMPLE[..start], &SAMPLE[end..]);
        match load_text("t", &text, &env(&[]), &system()) {
            Ok(loaded) => { let _ = loaded.warnings.render(false); }
            Err(report) => prop_assert!(!report.render(false).is_empty()),
        }
    }
}
