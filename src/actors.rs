//! The actors: thin engines around pure decisions.
pub mod job;
pub mod pilot;
