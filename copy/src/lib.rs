//! The memcpy(3) and memmove(3) of the shipped program. Those of musl for x86-64 are one string instruction, which takes
//! longer to begin than most copies here take as a whole: a third of the time of a request for metrics went there.
//!
//! A package of its own, compiled without the compiler's knowledge of these functions: it would else find a copy in
//! them and call them for it.
#![no_builtins]
#![cfg(all(target_arch = "x86_64", any(test, target_env = "musl")))]

use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};

/// Above this, the processor's own way is as good and does not push everything else out of its caches.
const LARGE: usize = 2048;

#[cfg(target_env = "musl")]
mod exported {
    use core::ffi::c_void;

    /// # Safety
    /// As memcpy(3).
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut c_void, from: *const c_void, length: usize) -> *mut c_void {
        // SAFETY: the caller's.
        unsafe { super::copy(to.cast(), from.cast(), length) };
        to
    }

    /// # Safety
    /// As memmove(3).
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memmove(to: *mut c_void, from: *const c_void, length: usize) -> *mut c_void {
        // SAFETY: the caller's.
        unsafe { super::copy(to.cast(), from.cast(), length) };
        to
    }
}

/// Copies `length` bytes; both places may overlap.
///
/// Up to 128 bytes are all read before any is written. For one to two pieces of a size, the first and the last of them
/// cover everything, whatever the length in between.
///
/// # Safety
/// `from` is valid for reads of `length` bytes, `to` for writes.
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY, for each: the piece lies within both places, which the length before it tells.
    unsafe {
        match length {
            0 => {}
            1 => *to = *from,
            2..4 => ends::<u16>(to, from, length),
            4..8 => ends::<u32>(to, from, length),
            8..16 => ends::<u64>(to, from, length),
            16..=32 => ends::<[__m128i; 1]>(to, from, length),
            33..=64 => ends::<[__m128i; 2]>(to, from, length),
            65..=128 => ends::<[__m128i; 4]>(to, from, length),
            _ => copy_long(to, from, length),
        }
    }
}

/// What is read and written at once.
trait Piece: Copy {
    const SIZE: usize = size_of::<Self>();

    /// # Safety
    /// As for reading it from there, at any alignment.
    unsafe fn load(from: *const u8) -> Self;

    /// # Safety
    /// As for writing it there, at any alignment.
    unsafe fn store(self, to: *mut u8);
}

macro_rules! number {
    ($($kind:ty),*) => {$(
        impl Piece for $kind {
            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: the caller's.
                unsafe { from.cast::<Self>().read_unaligned() }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller's.
                unsafe { to.cast::<Self>().write_unaligned(self) }
            }
        }
    )*};
}

number!(u16, u32, u64);

impl<const N: usize> Piece for [__m128i; N] {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's, N times 16 bytes.
        core::array::from_fn(|index| unsafe { _mm_loadu_si128(from.add(16 * index).cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        for (index, block) in self.into_iter().enumerate() {
            // SAFETY: the caller's, N times 16 bytes.
            unsafe { _mm_storeu_si128(to.add(16 * index).cast(), block) };
        }
    }
}

/// Copies between one and two pieces.
#[inline(always)]
unsafe fn ends<P: Piece>(to: *mut u8, from: *const u8, length: usize) {
    let last = length - P::SIZE;
    // SAFETY: the caller's; both pieces end within `length`.
    unsafe {
        let (first, rest) = (P::load(from), P::load(from.add(last)));
        first.store(to);
        rest.store(to.add(last));
    }
}

/// Copies more than 128 bytes, piece by piece from the end that is not overwritten before it is read.
#[inline(never)]
unsafe fn copy_long(to: *mut u8, from: *const u8, length: usize) {
    type Block = [__m128i; 4];
    let distance = (to as usize).wrapping_sub(from as usize);
    // SAFETY: the caller's. `at` and 64 bytes after it are within `length` in every step.
    unsafe {
        if distance >= length {
            // `to` is before `from`, or after its end: forward nothing is overwritten that is still to be read.
            if length >= LARGE && distance.wrapping_neg() >= length {
                return copy_apart(to, from, length);
            }
            let end = Block::load(from.add(length - Block::SIZE));
            let mut at = 0;
            while at < length - Block::SIZE {
                Block::load(from.add(at)).store(to.add(at));
                at += Block::SIZE;
            }
            end.store(to.add(length - Block::SIZE));
        } else {
            let start = Block::load(from);
            let mut at = length - Block::SIZE;
            while at > 0 {
                Block::load(from.add(at)).store(to.add(at));
                at = at.saturating_sub(Block::SIZE);
            }
            start.store(to);
        }
    }
}

/// Copies between places that do not overlap.
unsafe fn copy_apart(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: the caller's; the direction flag is clear by the calling convention.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") length => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A text of bytes that differ from their neighbours, near and far.
    fn text(length: usize) -> Vec<u8> {
        (0..length).map(|index| (index * 7 + index / 251) as u8).collect()
    }

    /// Moves within one text, and compares all of it with what the standard library makes of it.
    fn check(size: usize, from: usize, to: usize, length: usize) {
        let mut ours = text(size);
        let mut expected = ours.clone();
        expected.copy_within(from..from + length, to);
        let start = ours.as_mut_ptr();
        // SAFETY: both places are within the text.
        unsafe { copy(start.add(to), start.add(from).cast_const(), length) };
        assert_eq!(ours, expected, "{length} bytes from {from} to {to}");
    }

    #[test]
    fn every_length_is_copied_between_places_that_do_not_overlap() {
        for length in 0..5000 {
            let (to, from) = (length % 16, 5016 + length % 7);
            check(10_100, from, to, length);
            check(10_100, to, from, length);
        }
    }

    #[test]
    fn every_overlap_of_every_small_length_is_moved_whole() {
        for length in 0..300 {
            for distance in 0..length + 2 {
                check(700, 10, 10 + distance, length);
                check(700, 10 + distance, 10, length);
            }
        }
    }

    proptest! {
        #[test]
        fn any_move_within_a_text_is_right(
            from in 0usize..9000, to in 0usize..9000, length in 0usize..9000,
        ) {
            check(18_000, from, to, length);
        }
    }
}
