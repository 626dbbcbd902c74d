//! A lock for work of some tens of instructions, which two threads hardly ever want at once: one bit, one instruction
//! to take it and one to let it go. The standard library's needs twice as many, and that for each piece of memory.

use std::cell::UnsafeCell;
use std::hint;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often it is looked at before the thread sleeps.
const LOOKS: usize = 100;
/// How long it sleeps then: whoever has the lock may be asking the kernel for memory, or may have lost its core.
const SLEEP: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };

/// A value for one thread at a time.
pub struct Lock<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only who has the lock sees the value.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Lock<T> {
        Lock { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Does something with the value. It must not panic, nor come back here: the lock would be taken for good.
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        while self.is_taken.swap(true, Ordering::Acquire) {
            self.wait();
        }
        // SAFETY: nobody else has it until the bit is cleared.
        let result = act(unsafe { &mut *self.value.get() });
        self.is_taken.store(false, Ordering::Release);
        result
    }

    #[cold]
    fn wait(&self) {
        for _ in 0..LOOKS {
            if !self.is_taken.load(Ordering::Relaxed) {
                return;
            }
            hint::spin_loop();
        }
        // Not only yielding: a thread with real-time priority would yield to none that has less.
        // SAFETY: reads one time and writes nothing.
        unsafe { libc::nanosleep(&SLEEP, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn two_threads_are_never_inside_at_once() {
        static COUNT: Lock<u64> = Lock::new(0);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                thread::spawn(|| {
                    for _ in 0..50_000 {
                        COUNT.with(|count| *count += 1);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(COUNT.with(|count| *count), 200_000);
    }
}
