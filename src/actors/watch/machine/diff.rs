//! What a new answer about a watch means: `diff(old, new) → events`. Pure.

use crate::messages::event::EventCode;

/// The events of an answer, in order; `old` is `None` before the first one. Both lists are sorted.
pub fn diff<T: PartialEq>(old: Option<&[T]>, new: &[T]) -> Vec<EventCode> {
    let before = old.unwrap_or_default();
    let mut events = Vec::new();
    if before != new {
        events.push(EventCode::Changed);
    }
    match (before.is_empty(), new.is_empty()) {
        (true, false) => events.push(EventCode::Healthy),
        (false, true) => events.push(EventCode::Unhealthy),
        (true, true) if old.is_none() => events.push(EventCode::Unhealthy),
        (true, true) | (false, false) => {}
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use EventCode::{Changed, Healthy, Unhealthy};

    type Row<'a> = (Option<&'a [u8]>, &'a [u8], &'a [EventCode]);

    #[test]
    fn every_pair_of_answers_has_its_events() {
        let table: [Row<'_>; 12] = [
            (None, &[], &[Unhealthy]),
            (None, &[1], &[Changed, Healthy]),
            (None, &[1, 2], &[Changed, Healthy]),
            (Some(&[]), &[], &[]),
            (Some(&[]), &[1], &[Changed, Healthy]),
            (Some(&[1]), &[], &[Changed, Unhealthy]),
            (Some(&[1]), &[1], &[]),
            (Some(&[1]), &[2], &[Changed]),
            (Some(&[1]), &[1, 2], &[Changed]),
            (Some(&[1, 2]), &[2], &[Changed]),
            (Some(&[1, 2]), &[1, 2], &[]),
            (Some(&[1, 2]), &[], &[Changed, Unhealthy]),
        ];
        for (old, new, expected) in table {
            assert_eq!(diff(old, new), expected, "{old:?} → {new:?}");
        }
    }
}
