//! Random numbers for delays; not for security. The standard library's hasher has a seed from the kernel, so that the
//! program needs no crate for them.

/// A number in 0..1 that differs from caller to caller and from time to time; no more is asked of jitter.
#[cfg(not(test))]
pub fn random_share() -> f64 {
    use std::hash::{BuildHasher, RandomState};

    let bits = RandomState::new().hash_one(0) >> 12;
    bits as f64 / (1u64 << 52) as f64
}

/// In unit tests the numbers follow from [`set_seed`]: the same test takes the same course each time.
#[cfg(test)]
pub fn random_share() -> f64 {
    CHANCE.with_borrow_mut(fastrand::Rng::f64)
}

/// Begins the numbers of this thread anew.
#[cfg(test)]
pub fn set_seed(seed: u64) {
    CHANCE.set(fastrand::Rng::with_seed(seed));
}

#[cfg(test)]
std::thread_local! {
    static CHANCE: std::cell::RefCell<fastrand::Rng> =
        const { std::cell::RefCell::new(fastrand::Rng::with_seed(0)) };
}
