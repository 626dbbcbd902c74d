//! From what a user wrote to a validated [`spec::Spec`].
pub mod spec;
pub mod template;
