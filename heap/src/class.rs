//! The sizes that blocks come in.

use std::alloc::Layout;

use crate::region::PAGE;

/// Every block begins at a multiple of this.
pub const ALIGNMENT: usize = 16;

/// Up to 128 bytes each multiple of 16; from there on what fills a page with few bytes left over, and all powers of two.
const SIZES: [u16; 27] = [
    16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 256, 288, 336, 368, 400, 448, 512, 576,
    672, 816, 1024, 1360, 2048,
];

/// How many there are.
pub const COUNT: usize = SIZES.len();

const LARGEST: usize = SIZES[COUNT - 1] as usize;

/// How many of each fit a page.
const PER_PAGE: [u16; COUNT] = {
    let mut counts = [0; COUNT];
    let mut class = 0;
    while class < COUNT {
        counts[class] = PAGE as u16 / SIZES[class];
        class += 1;
    }
    counts
};

/// The class of each number of sixteen bytes.
const CLASSES: [u8; LARGEST / ALIGNMENT + 1] = {
    let mut classes = [0; LARGEST / ALIGNMENT + 1];
    let mut class = 0;
    let mut units = 0;
    while units < classes.len() {
        if units * ALIGNMENT > SIZES[class] as usize {
            class += 1;
        }
        classes[units] = class as u8;
        units += 1;
    }
    classes
};

/// Blocks of at most this length have pages of their own; longer ones are not ours.
const LARGEST_OF_PAGES: usize = 8 * PAGE;

/// Where a value is to be found. Told by its layout alone, so that it is found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In a block among others of one size.
    Block(Class),
    /// In so many pages of its own.
    Pages(usize),
    /// With the allocator of the C library.
    Elsewhere,
}

impl Kind {
    pub fn of(layout: Layout) -> Kind {
        let (size, alignment) = (layout.size(), layout.align());
        if let Some(&class) = CLASSES.get(size.div_ceil(ALIGNMENT))
            && alignment <= LARGEST
        {
            let class = Class(class);
            Kind::Block(if alignment <= ALIGNMENT { class } else { class.aligned(alignment) })
        } else if size <= LARGEST_OF_PAGES && alignment <= PAGE {
            Kind::Pages(size.div_ceil(PAGE).max(1))
        } else {
            Kind::Elsewhere
        }
    }
}

/// One of the sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(u8);

impl Class {
    /// The smallest from this one on whose blocks all begin at multiples of this power of two.
    fn aligned(self, alignment: usize) -> Class {
        let fits = |class: &Class| class.size().is_multiple_of(alignment);
        (self.0..COUNT as u8).map(Class).find(fits).unwrap_or(Class(COUNT as u8 - 1))
    }

    /// Its place among all.
    pub fn index(self) -> usize {
        self.0.into()
    }

    /// The length of its blocks in bytes.
    pub fn size(self) -> usize {
        self.look_up(&SIZES).into()
    }

    /// How many blocks a page holds.
    pub fn per_page(self) -> u16 {
        self.look_up(&PER_PAGE)
    }

    fn look_up(self, table: &[u16; COUNT]) -> u16 {
        // SAFETY: classes are only made of numbers below `COUNT`.
        unsafe { *table.get_unchecked(self.index()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(size: usize, alignment: usize) -> Kind {
        Kind::of(Layout::from_size_align(size, alignment).unwrap())
    }

    #[test]
    fn every_small_size_gets_the_smallest_class_that_holds_it() {
        for size in 0..=LARGEST {
            let Kind::Block(class) = kind(size, 1) else { panic!("{size} has no class") };
            assert!(class.size() >= size, "{size}");
            if let Some(below) = class.index().checked_sub(1) {
                assert!(usize::from(SIZES[below]) < size, "{size} would fit {}", SIZES[below]);
            }
        }
    }

    #[test]
    fn sizes_grow_and_keep_the_alignment_and_two_fit_a_page() {
        for (index, &size) in SIZES.iter().enumerate() {
            assert!(index == 0 || size > SIZES[index - 1]);
            assert_eq!(usize::from(size) % ALIGNMENT, 0);
            assert!(Class(index as u8).per_page() >= 2);
        }
    }

    #[test]
    fn blocks_of_a_class_begin_where_the_value_must() {
        for alignment in (0..12).map(|power| 1 << power) {
            for size in 0..=LARGEST {
                let Kind::Block(class) = kind(size, alignment) else { panic!("{size} has no class") };
                assert!(class.size() >= size && class.size().is_multiple_of(alignment), "{size} {alignment}");
            }
        }
        // What tasks are like: with a page for each, they would be most of the memory.
        assert_eq!(kind(1024, 128), kind(1024, 1));
    }

    #[test]
    fn what_is_larger_or_must_be_aligned_to_more_has_pages_of_its_own_or_is_elsewhere() {
        assert_eq!(kind(LARGEST + 1, 1), Kind::Pages(1));
        assert_eq!(kind(PAGE + 1, 16), Kind::Pages(2));
        assert_eq!(kind(32, PAGE), Kind::Pages(1));
        assert_eq!(kind(0, PAGE), Kind::Pages(1));
        assert_eq!(kind(LARGEST_OF_PAGES, PAGE), Kind::Pages(8));
        assert_eq!(kind(LARGEST_OF_PAGES + 1, 1), Kind::Elsewhere);
        assert_eq!(kind(8, 2 * PAGE), Kind::Elsewhere);
    }
}
