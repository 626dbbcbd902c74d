//! Chance, as far as delays need it.

use std::hash::{BuildHasher, RandomState};

/// A number in 0..1 that differs from caller to caller and from time to time; no more is asked of jitter.
pub fn random_share() -> f64 {
    let bits = RandomState::new().hash_one(0) >> 12;
    bits as f64 / (1u64 << 52) as f64
}
