//! A page of blocks of one size, and for each size the pages that have a block to give.

use std::mem;
use std::ptr;

use crate::class::{COUNT, Class};
use crate::region::{self, Regions};

/// What is known of a page that holds blocks. Not kept in the page itself: blocks of a power of two would not fill it.
pub struct Page {
    /// Blocks that were given back, each with the address of the next in its first bytes.
    free: *mut Block,
    /// Neighbours among the pages of this class that have a block to give.
    next: *mut Page,
    previous: *mut Page,
    class: Class,
    /// Blocks on loan.
    used: u16,
    /// Blocks that were never on loan are those from this one on.
    fresh: u16,
}

struct Block {
    next: *mut Block,
}

/// For each class its pages that have a block to give.
pub struct Shelves {
    pages: [*mut Page; COUNT],
    regions: Regions,
}

// SAFETY: the pages that it points to belong to it alone.
unsafe impl Send for Shelves {}

impl Shelves {
    pub const fn new() -> Shelves {
        Shelves { pages: [ptr::null_mut(); COUNT], regions: Regions::new() }
    }

    /// Pages for one value; null if the kernel gives no memory.
    pub fn take_pages(&mut self, count: usize) -> *mut u8 {
        self.regions.take(count)
    }

    /// # Safety
    /// The pages are from `take_pages`, with this count, and were not given back since.
    pub unsafe fn give_pages_back(&mut self, pages: *mut u8, count: usize) {
        // SAFETY: the caller's.
        unsafe { self.regions.give_back(pages, count) };
    }

    /// A block of this class; null if the kernel gives no memory.
    pub fn take(&mut self, class: Class) -> *mut u8 {
        let mut page = *self.shelf(class);
        if page.is_null() {
            let memory = self.regions.take(1);
            if memory.is_null() {
                return ptr::null_mut();
            }
            // SAFETY: the page is ours alone, and so is what is known of it.
            unsafe {
                page = region::page_of(memory);
                page.write(Page::new(class));
            }
            *self.shelf(class) = page;
        }
        // SAFETY: pages on the shelves are in use, and by us alone; they have a block to give.
        unsafe {
            let block = Page::take(page);
            if (*page).is_full() {
                self.unshelve(page);
            }
            block
        }
    }

    /// # Safety
    /// The block is from `take` and was not given back since.
    pub unsafe fn give_back(&mut self, block: *mut u8) {
        // SAFETY: the block lies in a page that is in use.
        unsafe {
            let page = region::page_of(block);
            if (*page).is_full() {
                self.shelve(page);
            }
            (*page).give_back(block.cast());
            if (*page).used == 0 {
                self.unshelve(page);
                self.regions.give_back(region::memory_of(page), 1);
            }
        }
    }

    fn shelf(&mut self, class: Class) -> &mut *mut Page {
        // SAFETY: there is one for each class.
        unsafe { self.pages.get_unchecked_mut(class.index()) }
    }

    /// # Safety
    /// The page is in use and on no shelf.
    unsafe fn shelve(&mut self, page: *mut Page) {
        // SAFETY: the caller's; the first page of a shelf is in use.
        unsafe {
            let first = mem::replace(self.shelf((*page).class), page);
            (*page).previous = ptr::null_mut();
            (*page).next = first;
            if !first.is_null() {
                (*first).previous = page;
            }
        }
    }

    /// # Safety
    /// The page is on the shelf of its class.
    unsafe fn unshelve(&mut self, page: *mut Page) {
        // SAFETY: the caller's, and so for its neighbours.
        unsafe {
            let Page { next, previous, .. } = *page;
            if previous.is_null() {
                *self.shelf((*page).class) = next;
            } else {
                (*previous).next = next;
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
        }
    }

    #[cfg(test)]
    pub fn regions(&self) -> &Regions {
        &self.regions
    }
}

impl Page {
    fn new(class: Class) -> Page {
        Page {
            free: ptr::null_mut(),
            next: ptr::null_mut(),
            previous: ptr::null_mut(),
            class,
            used: 0,
            fresh: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.used == self.class.per_page()
    }

    /// # Safety
    /// The page is in use and not full.
    unsafe fn take(page: *mut Page) -> *mut u8 {
        // SAFETY: the caller's. What is in the list is a block of this page that nobody uses; if none is, fewer than all
        // were ever on loan, and the next lies within the page.
        unsafe {
            (*page).used += 1;
            let block = (*page).free;
            if !block.is_null() {
                (*page).free = (*block).next;
                return block.cast();
            }
            let offset = usize::from((*page).fresh) * (*page).class.size();
            (*page).fresh += 1;
            region::memory_of(page).add(offset)
        }
    }

    /// # Safety
    /// The block is one of this page and on loan.
    unsafe fn give_back(&mut self, block: *mut Block) {
        self.used -= 1;
        // SAFETY: the caller does not use it any more; each block has room for an address.
        unsafe { block.write(Block { next: self.free }) };
        self.free = block;
    }
}
