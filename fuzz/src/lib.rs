//! What the fuzz targets share: how inputs are made of the fuzzer's bytes, how bytes are delivered, and what must hold of
//! the results. Nothing here is part of the program.

pub mod answer;
pub mod config;
pub mod delivery;
pub mod memory;
pub mod request;
pub mod response;
pub mod runtime;
pub mod server;

use std::cell::RefCell;

/// Creates a value once per thread, and lets every input use it: what is costly to make is made once.
pub fn with_shared<T: 'static, R>(
    shared: &'static std::thread::LocalKey<RefCell<Option<T>>>,
    make: impl FnOnce() -> T,
    test: impl FnOnce(&mut T) -> R,
) -> R {
    shared.with_borrow_mut(|slot| test(slot.get_or_insert_with(make)))
}
