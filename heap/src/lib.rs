//! The heap of the program. musl's gives pages back to the kernel as soon as they are empty and asks for them again a
//! moment later: a third of the time until the first job ran went there. Here a page holds blocks of one size, an empty
//! page is kept for whoever comes next, and when many are empty the kernel gets them all at once.
//!
//! What is larger than half a page has whole pages, up to eight of them; what is larger than those is left to the
//! allocator of the C library.

mod class;
mod lock;
mod page;
mod region;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use crate::class::Kind;
use crate::lock::Lock;
use crate::page::Shelves;

/// An allocator to be the program's only one.
pub struct Heap {
    shelves: Lock<Shelves>,
}

impl Heap {
    /// A heap that has asked the kernel for nothing yet.
    pub const fn new() -> Heap {
        Heap { shelves: Lock::new(Shelves::new()) }
    }
}

impl Default for Heap {
    fn default() -> Heap {
        Heap::new()
    }
}

// SAFETY: a block or a page is on loan to one caller only, from being taken to being given back, and is large enough
// and aligned for whatever is of its kind; the kind is told by the layout alone, which callers repeat.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Kind::of(layout) {
            Kind::Block(class) => self.shelves.with(|shelves| shelves.take(class)),
            Kind::Pages(count) => self.shelves.with(|shelves| shelves.take_pages(count)),
            // SAFETY: the caller's.
            Kind::Elsewhere => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY, for each: the caller had it for this layout, and so from there.
        match Kind::of(layout) {
            Kind::Block(_) => self.shelves.with(|shelves| unsafe { shelves.give_back(block) }),
            Kind::Pages(count) => {
                self.shelves.with(|shelves| unsafe { shelves.give_pages_back(block, count) })
            }
            Kind::Elsewhere => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Kind::of(layout) == Kind::Elsewhere {
            // SAFETY: the caller's.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: the caller's.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() {
            // SAFETY: it is that large.
            unsafe { ptr::write_bytes(block, 0, layout.size()) };
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that this size is a valid one for this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (Kind::of(layout), Kind::of(wanted)) {
            // SAFETY: the caller's.
            (Kind::Elsewhere, Kind::Elsewhere) => unsafe { System.realloc(block, layout, size) },
            (before, after) if before == after => block,
            // SAFETY: the caller's; both blocks have the smaller of both sizes, and are not the same.
            (_, _) => unsafe {
                let other = self.alloc(wanted);
                if !other.is_null() {
                    ptr::copy_nonoverlapping(block, other, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                other
            },
        }
    }
}

#[cfg(test)]
mod tests;
