//! The vocabulary that actors share: types only, no behaviour.
pub mod event;
pub mod job;
pub mod signal;
