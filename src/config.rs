//! From what a user wrote to a validated [`spec::Spec`].
pub mod duration;
pub mod interfaces;
pub mod spec;
pub mod suggest;
pub mod words;
