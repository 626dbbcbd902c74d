//! Sees that memory stays bounded: how much one input may need, and how much all of them together may leave behind.

use std::alloc::System;
use std::cell::Cell;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// What inputs may leave behind all together: caches that have a limit, grown buffers.
const MOST_LEFT: usize = 4 << 20;
/// The inputs after which caches are taken to be filled.
const WARM_UP: u32 = 200;

thread_local! {
    static INPUTS: Cell<u32> = const { Cell::new(0) };
    static BASELINE: Cell<usize> = const { Cell::new(0) };
}

/// Asserts that no input has needed more than this at a time, and that little of it is left. To be called after each
/// input, when everything of it is gone.
pub fn assert_bounded(most_at_a_time: usize) {
    let now = ALLOCATOR.allocated();
    let inputs = INPUTS.get().saturating_add(1);
    INPUTS.set(inputs);
    if inputs <= WARM_UP {
        BASELINE.set(now);
        return;
    }
    let (baseline, peak) = (BASELINE.get(), ALLOCATOR.max_allocated());
    assert!(now <= baseline + MOST_LEFT, "{now} bytes are in use after an input, {baseline} were at first");
    assert!(peak <= baseline + most_at_a_time, "an input needed {} bytes", peak - baseline);
}
