//! The vocabulary that actors share: types only, no behaviour.
pub mod event;
pub mod process;
pub mod signal;
