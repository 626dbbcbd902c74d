//! The Pilot actor.
pub mod life;
pub mod reach;
pub mod view;
