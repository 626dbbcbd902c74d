//! From what a user wrote to a validated [`spec::Spec`]: a file is read, rendered as a template, parsed
//! as JSON5 into a tree with places, decoded into raw types, merged with the other files of its
//! directory, validated and linted. Every stage reports all it finds and lets the next one go on.

pub mod accounts;
pub mod decode;
mod defaults;
pub mod diagnostic;
pub mod document;
pub mod duration;
pub mod exec_limits;
pub mod interfaces;
pub mod lint;
mod load;
pub mod locator;
pub mod merge;
pub mod migrate;
pub mod pid_variable;
pub mod raw;
pub mod schedule;
mod schema;
mod secret;
pub mod series;
mod socket;
pub mod source;
pub mod spec;
pub mod suggest;
mod system;
pub mod template;
pub mod validate;
pub mod words;

pub use load::{Loaded, check, load, load_beside, load_command, load_text, render};
pub use schema::SCHEMA;
pub use socket::control_socket;
pub use system::System;
