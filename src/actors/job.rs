//! The Job actor: one job's life, performed.
pub mod backoff;
pub mod lifecycle;
pub mod trigger;
