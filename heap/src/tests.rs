//! What every allocator must hold, and what this one is for.

use std::alloc::{GlobalAlloc, Layout};
use std::slice;
use std::sync::mpsc;
use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A block of a heap, full of one byte.
struct Loan<'a> {
    heap: &'a Heap,
    block: *mut u8,
    layout: Layout,
    byte: u8,
}

// SAFETY: nobody else has the block.
unsafe impl Send for Loan<'_> {}

impl<'a> Loan<'a> {
    fn new(heap: &'a Heap, layout: Layout, byte: u8) -> Loan<'a> {
        // SAFETY: the layout has a size.
        let block = unsafe { heap.alloc(layout) };
        let mut loan = Loan { heap, block, layout, byte };
        loan.fill();
        loan
    }

    fn fill(&mut self) {
        assert!(!self.block.is_null());
        assert_eq!(self.block.addr() % self.layout.align(), 0);
        // SAFETY: it is that long, and ours.
        unsafe { ptr::write_bytes(self.block, self.byte, self.layout.size()) };
    }

    fn has_only_its_byte(&self, length: usize) -> bool {
        // SAFETY: it is at least that long, and full.
        unsafe { slice::from_raw_parts(self.block, length) }.iter().all(|&byte| byte == self.byte)
    }

    fn resize(&mut self, size: usize) {
        let kept = size.min(self.layout.size());
        // SAFETY: it is from this heap; the size is not 0.
        self.block = unsafe { self.heap.realloc(self.block, self.layout, size) };
        self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
        assert!(self.has_only_its_byte(kept), "what was written moves along");
        self.fill();
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        assert!(thread::panicking() || self.has_only_its_byte(self.layout.size()), "nobody else wrote there");
        // SAFETY: it is from this heap and not used any more.
        unsafe { self.heap.dealloc(self.block, self.layout) };
    }
}

#[derive(Debug, Clone)]
enum Step {
    Take { size: usize, power: u32 },
    Resize { which: usize, size: usize },
    GiveBack { which: usize },
}

/// Most values are small; some have pages, and a few are elsewhere.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 1..300_usize, 4 => 300..5_000_usize, 1 => 5_000..70_000_usize]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (size(), prop_oneof![9 => 0..5_u32, 1 => 5..14_u32]).prop_map(|(size, power)| Step::Take { size, power }),
        1 => (any::<usize>(), size()).prop_map(|(which, size)| Step::Resize { which, size }),
        2 => any::<usize>().prop_map(|which| Step::GiveBack { which }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_value_has_a_place_of_its_own_and_keeps_what_was_written(steps in vec(step(), 1..600)) {
        let heap = Heap::new();
        let mut loans: Vec<Loan<'_>> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Take { size, power } => {
                    let layout = Layout::from_size_align(size, 1 << power).unwrap();
                    loans.push(Loan::new(&heap, layout, number as u8));
                }
                Step::Resize { which, size } if !loans.is_empty() => {
                    let which = which % loans.len();
                    loans[which].resize(size);
                }
                Step::GiveBack { which } if !loans.is_empty() => drop(loans.swap_remove(which % loans.len())),
                Step::Resize { .. } | Step::GiveBack { .. } => {}
            }
        }
        drop(loans);
        let (_, used) = heap.shelves.with(|shelves| shelves.regions().idle_and_used());
        prop_assert_eq!(used, 0, "all pages came back");
    }
}

#[test]
fn values_may_be_given_back_by_another_thread() {
    static HEAP: Heap = Heap::new();
    let (hand, taken) = mpsc::sync_channel::<Loan<'static>>(64);
    let taker = thread::spawn(move || taken.iter().map(drop).count());
    let givers: Vec<_> = (1..=3_u8)
        .map(|byte| {
            let hand = hand.clone();
            thread::spawn(move || {
                for index in 0..20_000_usize {
                    let layout = Layout::from_size_align(1 + index * 7 % 3_000, 8).unwrap();
                    let (kept, given) = (Loan::new(&HEAP, layout, byte), Loan::new(&HEAP, layout, byte));
                    hand.send(given).unwrap();
                    drop(kept);
                }
            })
        })
        .collect();
    drop(hand);
    givers.into_iter().for_each(|giver| giver.join().unwrap());
    assert_eq!(taker.join().unwrap(), 60_000);
    assert_eq!(HEAP.shelves.with(|shelves| shelves.regions().idle_and_used()).1, 0);
}

#[test]
fn memory_that_is_asked_for_zeroed_is_zero_where_something_was_before() {
    let heap = Heap::new();
    for size in [1, 24, 500, 2_048, 2_049, 30_000, 100_000] {
        let layout = Layout::from_size_align(size, 8).unwrap();
        drop(Loan::new(&heap, layout, 0xff));
        // SAFETY: the layout has a size; it is given back as it was taken.
        unsafe {
            let block = heap.alloc_zeroed(layout);
            assert!(slice::from_raw_parts(block, size).iter().all(|&byte| byte == 0), "{size}");
            heap.dealloc(block, layout);
        }
    }
}

#[test]
fn what_comes_and_goes_needs_no_more_pages_with_time() {
    let heap = Heap::new();
    let layout = Layout::from_size_align(100, 8).unwrap();
    let _kept = Loan::new(&heap, layout, 1);
    for _ in 0..100_000 {
        let _short_lived = [Loan::new(&heap, layout, 2), Loan::new(&heap, layout, 3)];
    }
    assert_eq!(heap.shelves.with(|shelves| shelves.regions().idle_and_used()).1, 1);
}

#[test]
fn memory_that_nobody_uses_any_more_goes_back_to_the_kernel() {
    const BLOCKS: usize = 400_000;
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * region::PAGE
    };
    let heap = Heap::new();
    let layout = Layout::from_size_align(200, 8).unwrap();
    let loans: Vec<_> = (0..BLOCKS).map(|_| Loan::new(&heap, layout, 9)).collect();
    let full = resident();
    // One in a thousand stays: pages are freed around what is used.
    let stay: Vec<_> = loans
        .into_iter()
        .enumerate()
        .filter_map(|(index, loan)| (index % 1_000 == 0).then_some(loan))
        .collect();
    let (idle, used) = heap.shelves.with(|shelves| shelves.regions().idle_and_used());
    assert_eq!(used, stay.len());
    assert!(idle <= used, "{idle} idle pages of {used} in use");
    assert!(resident() + BLOCKS * 150 < full, "{full} bytes were resident, now {}", resident());
}
