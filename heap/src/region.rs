//! Pages from the kernel, many at a time, and back to it.

use std::mem::{MaybeUninit, offset_of};
use std::ptr;

use crate::page::Page;

/// The kernel's smallest unit on x86-64. Where it is larger, giving a page back would take its neighbours along: the
/// program uses this heap on x86-64 only.
pub const PAGE: usize = 4096;
/// What is asked for at once. Only what is used of it is memory.
const REGION: usize = 1 << 20;
const PAGES: usize = REGION / PAGE;
/// Pages of a region that are made ready together: cheaper than one at a time, when each is met first.
const AHEAD: usize = 8;
/// Empty pages that are kept however few others are in use.
const KEPT: usize = 16;
/// Of so many pages in use, one empty page is kept.
const USED_PER_KEPT: usize = 8;

/// One bit for each page of a region.
type Bits = [u64; PAGES / 64];

/// The beginning of a region.
struct Region {
    next: *mut Region,
    /// Pages that nobody uses.
    free: Bits,
    /// Those of them that are memory all the same.
    resident: Bits,
    free_count: usize,
    /// What is known of those that hold blocks.
    pages: [MaybeUninit<Page>; PAGES],
}

/// The pages that a region needs for itself.
const OWN: usize = size_of::<Region>().div_ceil(PAGE);

/// What is known of the page that an address lies in.
///
/// # Safety
/// The address lies in a region.
pub unsafe fn page_of(address: *mut u8) -> *mut Page {
    let region = region_of(address);
    let number = address.addr() % REGION / PAGE;
    // SAFETY: the caller's.
    unsafe { (&raw mut (*region).pages).cast::<Page>().add(number) }
}

/// The memory of a page.
///
/// # Safety
/// The page is from `page_of`.
pub unsafe fn memory_of(page: *mut Page) -> *mut u8 {
    let number = (page.addr() % REGION - offset_of!(Region, pages)) / size_of::<Page>();
    ptr::with_exposed_provenance_mut((page.addr() & !(REGION - 1)) + number * PAGE)
}

/// The region that an address lies in. Not by way of the address itself: whoever had it may have been promised that
/// nothing but its block is reached through it.
fn region_of(address: *mut u8) -> *mut Region {
    ptr::with_exposed_provenance_mut(address.addr() & !(REGION - 1))
}

/// All memory from the kernel.
pub struct Regions {
    first: *mut Region,
    /// Free pages that are memory, in all regions.
    idle: usize,
    used: usize,
}

impl Regions {
    pub const fn new() -> Regions {
        Regions { first: ptr::null_mut(), idle: 0, used: 0 }
    }

    /// So many pages in a row; null if the kernel gives no more.
    pub fn take(&mut self, count: usize) -> *mut u8 {
        let mut region = self.first;
        // SAFETY: regions are never returned.
        unsafe {
            while !region.is_null() {
                if let Some(first) = (*region).find(count) {
                    return self.take_from(region, first, count);
                }
                region = (*region).next;
            }
            let region = Region::map();
            if region.is_null() {
                return ptr::null_mut();
            }
            (*region).next = self.first;
            self.first = region;
            self.take_from(region, OWN, count)
        }
    }

    /// # Safety
    /// It is one of the regions, and these of its pages are free.
    unsafe fn take_from(&mut self, region: *mut Region, first: usize, count: usize) -> *mut u8 {
        // SAFETY: the caller's.
        self.idle = self.idle + unsafe { (*region).take(first, count) } - count;
        self.used += count;
        // SAFETY: these pages lie within the region.
        unsafe { region.cast::<u8>().add(first * PAGE) }
    }

    /// # Safety
    /// The pages are from `take`, with this count, and were not given back since.
    pub unsafe fn give_back(&mut self, pages: *mut u8, count: usize) {
        let region = region_of(pages);
        // SAFETY: the pages lie in a region.
        unsafe { (*region).give_back(pages.addr() % REGION / PAGE, count) };
        self.idle += count;
        self.used -= count;
        if self.idle > KEPT.max(self.used / USED_PER_KEPT) {
            self.release();
        }
    }

    /// Free pages that are memory, and pages in use.
    #[cfg(test)]
    pub fn idle_and_used(&self) -> (usize, usize) {
        (self.idle, self.used)
    }

    /// Lets the kernel have every page that nobody uses.
    fn release(&mut self) {
        let mut region = self.first;
        while !region.is_null() {
            // SAFETY: regions are never returned.
            unsafe {
                (*region).release();
                region = (*region).next;
            }
        }
        self.idle = 0;
    }
}

impl Region {
    /// A region of which nothing is used but its beginning; null if the kernel gives no more.
    fn map() -> *mut Region {
        // SAFETY: asks for new memory only, and returns what of it is too much: a region begins at a multiple of its
        // length, so that each page of it tells where it is.
        unsafe {
            let place = libc::mmap(
                ptr::null_mut(),
                2 * REGION,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if place == libc::MAP_FAILED {
                return ptr::null_mut();
            }
            let before = place.align_offset(REGION);
            let start = place.byte_add(before);
            if before > 0 {
                libc::munmap(place, before);
            }
            libc::munmap(start.byte_add(REGION), REGION - before);
            // One huge page would be more than the whole program has. A kernel that knows none refuses, and is right.
            libc::madvise(start, REGION, libc::MADV_NOHUGEPAGE);
            start.expose_provenance();
            let region: *mut Region = start.cast();
            let mut free = [u64::MAX; PAGES / 64];
            (0..OWN).for_each(|page| clear(&mut free, page));
            (&raw mut (*region).next).write(ptr::null_mut());
            (&raw mut (*region).free).write(free);
            (&raw mut (*region).resident).write([0; PAGES / 64]);
            (&raw mut (*region).free_count).write(PAGES - OWN);
            region
        }
    }

    /// Where so many pages in a row are free; if one is enough, rather one that is memory already.
    fn find(&self, count: usize) -> Option<usize> {
        if self.free_count < count {
            return None;
        }
        if count == 1 {
            let ready = self.free.iter().zip(&self.resident).map(|(free, resident)| free & resident);
            return first_bit(ready).or_else(|| first_bit(self.free.iter().copied()));
        }
        let mut first = OWN;
        for page in OWN..PAGES {
            if !is_set(&self.free, page) {
                first = page + 1;
            } else if page + 1 - first == count {
                return Some(first);
            }
        }
        None
    }

    /// Takes these pages, which are free; how many became memory for that.
    fn take(&mut self, first: usize, count: usize) -> usize {
        let more_resident = if count == 1 && !is_set(&self.resident, first) {
            self.make_ready(first)
        } else {
            // Of a large block often only the beginning is used: the kernel will see.
            (first..first + count).filter(|&page| set(&mut self.resident, page)).count()
        };
        for page in first..first + count {
            clear(&mut self.free, page);
        }
        self.free_count -= count;
        more_resident
    }

    /// Takes these pages back, which are in use.
    fn give_back(&mut self, first: usize, count: usize) {
        for page in first..first + count {
            set(&mut self.free, page);
        }
        self.free_count += count;
    }

    /// Lets the kernel make memory of this page and of those behind it that are free, too; how many that were.
    fn make_ready(&mut self, first: usize) -> usize {
        let end = (first..PAGES.min(first + AHEAD))
            .find(|&page| !is_set(&self.free, page) || is_set(&self.resident, page))
            .unwrap_or(PAGES.min(first + AHEAD));
        for page in first..end {
            set(&mut self.resident, page);
        }
        // SAFETY: nobody uses these pages. An old kernel refuses: each of them becomes memory when it is written to.
        unsafe { libc::madvise(self.place(first), (end - first) * PAGE, libc::MADV_POPULATE_WRITE) };
        end - first
    }

    /// Lets the kernel have every page that nobody uses. Should it refuse, they stay memory, which harms nobody.
    fn release(&mut self) {
        if self.free.iter().zip(&self.resident).all(|(free, resident)| free & resident == 0) {
            return;
        }
        let mut page = 0;
        while page < PAGES {
            let idle = |page: &usize| is_set(&self.free, *page) && is_set(&self.resident, *page);
            let end = (page..PAGES).find(|page| !idle(page)).unwrap_or(PAGES);
            if end > page {
                // SAFETY: nobody uses these pages, nor expects anything in them.
                unsafe { libc::madvise(self.place(page), (end - page) * PAGE, libc::MADV_DONTNEED) };
                for page in page..end {
                    clear(&mut self.resident, page);
                }
            }
            page = end + 1;
        }
    }

    /// Where a page is, for the kernel.
    fn place(&self, number: usize) -> *mut libc::c_void {
        ptr::without_provenance_mut(ptr::from_ref(self).addr() + number * PAGE)
    }
}

fn first_bit(words: impl Iterator<Item = u64>) -> Option<usize> {
    words
        .enumerate()
        .find(|(_, word)| *word != 0)
        .map(|(number, word)| number * 64 + word.trailing_zeros() as usize)
}

fn is_set(bits: &Bits, page: usize) -> bool {
    bits.get(page / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
}

/// Whether it was not.
fn set(bits: &mut Bits, page: usize) -> bool {
    let was = is_set(bits, page);
    if let Some(word) = bits.get_mut(page / 64) {
        *word |= 1 << (page % 64);
    }
    !was
}

fn clear(bits: &mut Bits, page: usize) {
    if let Some(word) = bits.get_mut(page / 64) {
        *word &= !(1 << (page % 64));
    }
}
